// The history of an embedded store, as a version log beside it: what each commit of the recorded cut has changed, as effects, and where its
// version ends. The store's own log reaches back minutes at best, and is kept in memory; this one is a log as that of a Redis is, with
// checkpoints, from which the past is read.
//
// Only what the recorded cut holds is appended: no recovery goes below that, so nothing is ever taken back. Until then the store keeps its
// commits. If it has not kept them, nobody knows what was done: then a new stretch begins, behind a gap, with all records of a commit.
using Slogger.Core.Identities;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster;
using Slogger.Faster.Commits;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Proxy.Stores;
using Slogger.Redis.Feeding;
using Slogger.Replication.Following;
using Slogger.Resp;

namespace Slogger.Proxy.Embedded;

/// <summary>A stretch of history that has begun.</summary>
/// <param name="First">The version with whose end it begins.</param>
/// <param name="Keys">How many keys there were.</param>
/// <param name="Bytes">Of the checkpoint.</param>
/// <param name="Before">The last version before the gap; null: nothing was kept.</param>
internal readonly record struct BegunStretch(VersionNumber First, long Keys, long Bytes, VersionNumber? Before);

/// <summary>Appends to the history. One caller at a time, if nothing else is said.</summary>
/// <param name="log">The log. Nobody else appends to it.</param>
/// <param name="checkpoints">Its checkpoints.</param>
/// <param name="keeping">Held by whoever deletes of them.</param>
/// <param name="endOf">When a version ends.</param>
internal sealed class EmbeddedHistory(VersionLog log, CheckpointStore checkpoints, Lock keeping, Func<VersionNumber, HybridTimestamp> endOf)
{
    private const int PieceBytes = 256 << 10, UnsyncedMax = 1 << 20;

    private readonly Lock _gate = new();
    private readonly RequestWriter _effects = new(keptMax: 2 * PieceBytes);

    // Under the gate: the commit with whose state the log ends, as far as that is durable, and where; the one with which a stretch is being
    // begun instead; and the one that is being copied.
    private (CommitRecord Commit, long Offset)? _end;
    private CommitRecord? _begun, _copied;

    /// <summary>The oldest commit that the store has to keep for the history; the default: all, since it is not known yet. Any
    /// thread.</summary>
    public WorldPoint Needed
    {
        get
        {
            lock (_gate) { return (_copied ?? _end?.Commit ?? _begun)?.Point ?? default; }
        }
    }

    /// <summary>Whether it is known which commit the log ends with. Until then the newest checkpoint may be one at which a stretch is about
    /// to begin, though the log does not lead to it: nothing may be deleted. Any thread.</summary>
    public bool KnowsEnd
    {
        get
        {
            lock (_gate) { return _end is not null; }
        }
    }

    /// <summary>Appends what the recorded cut holds. Durable when it returns.</summary>
    /// <param name="store">The store; it does not end meanwhile.</param>
    /// <param name="states">What its commits stand for, of the history that leads to the cut, up to it.</param>
    /// <param name="cut">The recorded cut.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>A new stretch has begun; null: it goes on.</returns>
    /// <exception cref="InvalidOperationException">A commit was not kept long enough: the next call finds another.</exception>
    /// <exception cref="LogException">The disk refused.</exception>
    /// <exception cref="IOException">The disk refused.</exception>
    public BegunStretch? Follow(FasterStore store, IReadOnlyList<KeptState> states, WorldPoint cut, CancellationToken stop)
    {
        BegunStretch? begun = null;
        if (states.Count == 0 || cut.Version < Closed || HasAll(cut)) { return null; }
        if (StateOfEnd(states) is { } state)
        {
            // A part of a commit: it could not be written, or a process before was killed.
            if (log.EndOffset > log.ClosedEnd.Offset) { log.Rewind(); }
            // What the disk has refused before.
            if (log.DurableClosed.Closed < Closed) { log.Sync(); }
            NoteEnd(Find(store, state.Commit));
        }
        else if (Begin(store, states, cut, stop) is { } stretch) { begun = stretch; }
        else { return null; }

        CommitRecord? last = null;
        foreach (KeptState next in states.Where(s => s.Commit == new WorldPoint(s.Line, s.First) && s.First > Closed))
        {
            last = Find(store, next.Commit);
            Append(store, last, stop);
            // The store need not keep all of many.
            if (log.EndOffset - log.DurableOffset < UnsyncedMax) { continue; }
            log.Sync();
            NoteEnd(last);
        }
        Enter(cut.WorldLine);
        if (cut.Version > Closed) { log.AppendEmptyRun(cut.Version, endOf(cut.Version)); }
        FailPoint.Pass(FailPoint.PastAppended);
        log.Sync();
        if (last is not null) { NoteEnd(last); }
        FailPoint.Pass(FailPoint.PastDurable);
        return begun;
    }

    /// <summary>What the store holds from now on does not follow from the history: durably, and before the store does.</summary>
    /// <exception cref="LogException">The disk refused.</exception>
    public void BreakOff()
    {
        if (!log.IsEmpty && !EndsInGap) { log.BeginGap(log.EndOffset + 1); }
    }

    /// <summary>Writes the state with which the log ends, as an RDB file. Any thread; meanwhile others may append, and the store keeps the
    /// commit.</summary>
    /// <param name="store">The store; it does not end meanwhile.</param>
    /// <param name="file">Where to.</param>
    /// <param name="begun">Called when it is decided what is written.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>Where in the log the state is, and the file's size; null: nothing is known yet.</returns>
    /// <exception cref="InvalidOperationException">The store did not keep the commit.</exception>
    /// <exception cref="IOException">The disk refused.</exception>
    public (long Offset, long Bytes)? Copy(FasterStore store, string file, Action? begun, CancellationToken stop)
    {
        CommitRecord commit;
        long offset;
        lock (_gate)
        {
            if (_end is not { } end) { return null; }
            (commit, offset) = end;
            _copied = commit;
        }
        try
        {
            begun?.Invoke();
            return (offset, RdbBase.Write(store, commit, file, stop).Bytes);
        }
        finally
        {
            lock (_gate) { _copied = null; }
        }
    }

    // Durably; and it is known which commit that is.
    private bool HasAll(WorldPoint cut)
    {
        lock (_gate) { return _end is not null && log.DurableClosed.Closed >= cut.Version; }
    }

    // The last version that the log holds.
    private VersionNumber Closed => log.IsEmpty ? VersionNumber.Zero : log.ClosedEnd.Closed;

    private bool EndsInGap => log.HasGap(log.ClosedEnd.Offset, log.EndOffset);

    // The state that the log ends with, if the store still has it: then what was done since is known.
    private KeptState? StateOfEnd(IReadOnlyList<KeptState> states)
    {
        if (log.IsEmpty || EndsInGap || (!KnowsEnd && IsStretchAhead)) { return null; }
        if (states.Any(s => s.Line > log.WorldLine && IsOlderContent(s, states))) { return null; }
        VersionNumber closed = Closed;
        foreach (KeptState state in states)
        {
            if (state.First <= closed && closed <= state.Last) { return state; }
        }
        return null;
    }

    // A stretch was about to begin. What said in the log that it ends in a gap may be gone: the world-line was entered.
    private bool IsStretchAhead => checkpoints.All.Any(c => c.Origin == log.Origin && c.Offset > log.EndOffset);

    // An older version was restored to be this one, by a process that kept no past. Who goes back to a cut enters with a state that reaches
    // up to it.
    private static bool IsOlderContent(KeptState state, IReadOnlyList<KeptState> states) =>
        state.Commit != new WorldPoint(state.Line, state.First)
        && !states.Any(s => s.Line < state.Line && s.Commit == state.Commit && s.Last >= state.First);

    // With the newest state of the cut.
    private BegunStretch? Begin(FasterStore store, IReadOnlyList<KeptState> states, WorldPoint cut, CancellationToken stop)
    {
        VersionNumber? before = log.IsEmpty ? null : Closed;
        KeptState state = states.Aggregate((best, next) => next.Last >= best.Last ? next : best);
        VersionNumber first = VersionNumber.Max(state.First, Closed.Next);
        if (first > cut.Version) { return null; }
        CommitRecord commit = Find(store, state.Commit);
        lock (_gate) { (_end, _begun) = (null, commit); }
        string file = checkpoints.NewTemporaryPath();
        try
        {
            (long keys, long bytes) = RdbBase.Write(store, commit, file, stop);
            FailPoint.Pass(FailPoint.CheckpointTaken);
            // The log does not lead to the checkpoint yet, so it would be deleted.
            lock (keeping) { BeginAt(file, state.Line, first, before is null); }
            NoteEnd(commit);
            return new(first, keys, bytes, before);
        }
        finally
        {
            // It was moved, if it is kept.
            File.Delete(file);
        }
    }

    private void BeginAt(string file, WorldLine of, VersionNumber first, bool isFirst)
    {
        WorldLine line = isFirst || of > log.WorldLine ? of : log.WorldLine;
        // Where no other history is, nor a checkpoint of a stretch that was not begun.
        long offset = isFirst ? 0 : Math.Max(log.EndOffset, checkpoints.All is [.., var newest] ? newest.Offset : 0) + 1;
        StreamOrigin origin = isFirst ? new(FeedPlan.NewReplicationId(), offset, Database: 0) : log.Origin;
        checkpoints.Add(file, new Checkpoint
        {
            Origin = origin, ReplicationId = origin.ReplicationId, Offset = offset, Database = 0, WorldLine = line.Number,
            Reign = Reign.None.Number, CreatedAt = DateTimeOffset.UtcNow,
        });
        FailPoint.Pass(FailPoint.CheckpointKept);
        if (isFirst) { log.Begin(origin, line, first); }
        else
        {
            Enter(line);
            log.BeginGap(offset);
        }
        FailPoint.Pass(FailPoint.HistoryBegun);
        AppendEnd(line, first);
        log.Sync();
    }

    private void Append(FasterStore store, CommitRecord commit, CancellationToken stop)
    {
        Enter(commit.Point.WorldLine);
        _effects.Clear();
        // A stream that was followed may end elsewhere.
        if ((log.LastBoundary ?? LogPlaces.BaseOf(log)).Database != 0) { _effects.Begin(2).Add("SELECT"u8).Add("0"u8); }
        foreach (Change change in store.Changes(commit))
        {
            stop.ThrowIfCancellationRequested();
            _effects.Begin(change.Value is null ? 2 : change.ExpiryMs == 0 ? 3 : 5);
            _effects.Add(change.Value is null ? "DEL"u8 : "SET"u8).Add(change.Key);
            if (change.Value is { } value)
            {
                _effects.Add(value);
                if (change.ExpiryMs != 0) { _effects.Add("PXAT"u8).Add(change.ExpiryMs); }
            }
            if (_effects.Length >= PieceBytes) { Flush(); }
        }
        Flush();
        AppendEnd(log.WorldLine, commit.Point.Version);
    }

    private void Flush()
    {
        log.Append(_effects.Written);
        _effects.Clear();
    }

    private void AppendEnd(WorldLine line, VersionNumber version) =>
        log.AppendBoundary(new Boundary(line, version, log.EndOffset, 0, endOf(version)));

    private void Enter(WorldLine line)
    {
        if (line > log.WorldLine) { log.BeginWorldLine(line, log.LastBoundary ?? LogPlaces.BaseOf(log), log.ReplicationId); }
    }

    private static CommitRecord Find(FasterStore store, WorldPoint point) => store.Commits.FirstOrDefault(c => c.Point == point)
        ?? throw new InvalidOperationException($"The commit of version {point} was not kept.");

    // The log is durable.
    private void NoteEnd(CommitRecord commit)
    {
        long offset = log.ClosedEnd.Offset;
        lock (_gate) { _end = (commit, offset); }
    }
}
