// FASTER, in this process, that follows a stream's log from version to version: begun from a copy of the primary's Redis, or from the
// newest commit of its own; what lies above in the log is done by its engine (StreamFeed). It commits now and then at ends of versions, in
// the background, and notes behind each commit which end that was: the next process goes on there, and the log is needed from the commit
// before on.
//
// The store is the shard's (IFasterHost), whose commands go on at it when it has become a primary's. Whatever the store cannot do is found
// before readers have to wait for it, if it can be; if not (no memory), the store is given up, and begun again from the commit: what is
// shown is never half of a version.
using System.Diagnostics;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster;
using Slogger.Faster.Commands;
using Slogger.Faster.Commits;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Redis.Feeding;

namespace Slogger.Replication.Following;

/// <summary>Who has the store that follows. One caller at a time; nobody else uses a store that is being closed.</summary>
internal interface IFasterHost
{
    /// <summary>The store.</summary>
    FasterStore Store { get; }

    /// <summary>Its commands.</summary>
    CommandEngine Engine { get; }

    /// <summary>The commits on disk, also of a store that is not open yet.</summary>
    IReadOnlyList<CommitRecord> Commits { get; }

    /// <summary>Which places in a stream they stand for.</summary>
    FollowNotes Notes { get; }

    /// <summary>Opens the store at a commit, or at its newest; the one that is open is closed first.</summary>
    void OpenToFollow(WorldPoint? commit);

    /// <summary>Opens an empty store; whatever there was is deleted.</summary>
    /// <param name="open">Its open version.</param>
    void OpenEmptyToFollow(VersionNumber open);

    /// <summary>A commit is the state at the end of a version, at which a world-line has begun. Durable when it returns.</summary>
    void EnterAsFollowed(WorldLine line, VersionNumber branch, WorldPoint commit);
}

/// <summary>The FASTER store of a stream.</summary>
/// <param name="host">Who has it.</param>
/// <param name="log">The stream's log.</param>
/// <param name="checkpoints">The copy that it can begin from.</param>
/// <param name="withLog">Has something done to the log while nothing is appended.</param>
/// <param name="report">For people.</param>
/// <param name="shard">Which it is, for messages.</param>
/// <param name="keepsPast">Whether log and checkpoints are kept for who reads the past: somebody else deletes what is not needed.</param>
internal sealed class FollowedFaster(IFasterHost host, VersionLog log, CheckpointStore checkpoints, Func<Action, Task> withLog,
    ILogger report, string shard, Func<bool> keepsPast) : IFollowedStore
{
    // So much of the stream, or what has changed in so much time, the next process does again. Less of it where memory is small: on a long
    // way commits are made, and memory is given back.
    private const long CommitBytesMin = 1 << 20, CommitBytesMax = 32 << 20;
    private const int CommitMemoryShare = 16;
    private static readonly TimeSpan CommitPeriod = TimeSpan.FromSeconds(1);

    // How long is waited for memory at the end of a version.
    private static readonly TimeSpan PressedMax = TimeSpan.FromMilliseconds(500);

    // What a store has refused is tried again, since memory may have been compacted; but to begin anew takes long.
    private static readonly TimeSpan RefusalPeriod = TimeSpan.FromSeconds(10);
    private static readonly TimeSpan FailurePause = TimeSpan.FromSeconds(1), TurnPause = TimeSpan.FromMilliseconds(20);

    // Held by who opens another store, and by who deletes what one could be begun from.
    private readonly SemaphoreSlim _gate = new(1, 1);
    private volatile StreamFeed? _feed;
    private volatile string _life = "";
    private volatile TaskCompletionSource<string> _lost = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private volatile Refusal? _refusal;
    private Boundary _at;
    private StreamFeed? _look;                  // up to there the log has nothing that the store does not know
    private long _checkedTo = -1;               // -1: not even what it would begin from
    private int _checkedDatabase;
    private Task _commit = Task.CompletedTask;  // and its note
    private long _committedOffset, _committedAt, _mayCommitAt;
    private long _commitBytes = CommitBytesMax;
    private long _neededFrom;
    private readonly Lock _copyLock = new();
    private CancellationTokenSource? _copying;

    // Ends beyond the offset are refused until the time, by Stopwatch.
    private sealed record Refusal(long Offset, long Until, string Why);

    public bool Follows => _feed is not null && !_lost.Task.IsCompleted && _life == log.ReplicationId;

    public Task<string>? Lost => _feed is null ? null : _lost.Task;

    public long? Offset => Follows ? _feed!.Offset : null;

    public string? Problem => _refusal?.Why;

    /// <summary>The offset from which it needs the log. Any thread.</summary>
    public long NeededFrom => Volatile.Read(ref _neededFrom);

    public Task<bool> ResumeAsync(bool mayBePromoted, CancellationToken stop) => Task.Run(() =>
    {
        FollowNote? note = NoteBelow(long.MaxValue);
        // Of what is there otherwise nobody is shown anything, and nothing is deleted before there is something else.
        host.OpenToFollow(note?.Point);
        if (note is not null) { Start(note); }
        return note is not null;
    }, stop);

    public void Renewing() => EndCopy();

    public void Renewed()
    {
        (_checkedTo, _refusal) = (-1, null);
        EndLook();
    }

    // ---- What it knows ----

    public Task RequireKnownAsync(Boundary end, CancellationToken stop) => Task.Run(() => RequireKnown(end, stop), CancellationToken.None);

    private void RequireKnown(Boundary end, CancellationToken stop)
    {
        if (_refusal is { } refusal && end.Offset > refusal.Offset && Stopwatch.GetTimestamp() < refusal.Until)
        {
            throw new UnknownToStoreException(refusal.Why);
        }
        try
        {
            if (_checkedTo < 0)
            {
                if (NoteBelow(end.Offset) is { } note) { (_checkedTo, _checkedDatabase) = (note.Offset, note.Database); }
                else
                {
                    Checkpoint copy = CopyBelow(end.Offset);
                    RdbBase.RequireKnown(checkpoints.PathOf(copy), host.Store.RecordBytesMax, stop);
                    (_checkedTo, _checkedDatabase) = (copy.Offset, copy.Database);
                }
            }
            if (end.Offset <= _checkedTo) { return; }
            if (_look?.Offset != _checkedTo) { EndLook(); }
            _look ??= new StreamFeed(log, _checkedTo, _checkedDatabase, host.Engine, host.Store.RecordBytesMax, feeds: false);
            bool isThere = false;
            try
            {
                _look.GoTo(end.Offset, stop);
                isThere = true;
            }
            finally
            {
                (_checkedTo, _checkedDatabase) = (_look.Offset, _look.Database);
                if (!isThere) { EndLook(); }
            }
        }
        catch (UnknownToStoreException e)
        {
            // For good: until another life of the stream begins.
            _refusal = new(_checkedTo, long.MaxValue, e.Message);
            throw;
        }
    }

    private void EndLook()
    {
        _look?.Dispose();
        _look = null;
    }

    // ---- Versions ----

    public async Task BringToAsync(Boundary end, CancellationToken stop)
    {
        if (!Follows) { await BeginAsync(end, stop).ConfigureAwait(false); }
        await Task.Run(() => Feed(end, stop), CancellationToken.None).ConfigureAwait(false);
    }

    private void Feed(Boundary end, CancellationToken stop)
    {
        StreamFeed feed = _feed!;
        if (end.Offset < feed.Offset)
        {
            throw new LogHistoryChangedException(
                $"the store stands at offset {feed.Offset}, and version {end.Version} ends at {end.Offset}");
        }
        try
        {
            while (true)
            {
                Boundary step = end;
                if (end.Offset - feed.Offset > _commitBytes && LogPlaces.EndAtOrBelow(log, feed.Offset + _commitBytes) is var (nearer, _)
                    && nearer.Offset > feed.Offset)
                {
                    step = nearer;
                }
                feed.GoTo(step.Offset, stop);
                _at = step;
                CommitIfDue(step);
                if (host.Store.IsPressed) { Relieve(step, stop); }
                if (step.Offset == end.Offset) { break; }
            }
            _at = end;
            if (_refusal is { Until: < long.MaxValue }) { _refusal = null; }
        }
        catch (FeedFailedException e)
        {
            GiveUp(feed.Offset, e.Message);
        }
    }

    private void GiveUp(long offset, string error)
    {
        string why = $"the embedded store has refused what stands behind offset {offset} of the stream: {error}. It begins again from its "
            + "newest commit; if this stays so, give it more memory (--faster-memory)";
        _refusal = new(offset, Stopwatch.GetTimestamp() + (long)(RefusalPeriod.TotalSeconds * Stopwatch.Frequency), why);
        Lose(why);
        throw new UnknownToStoreException(why);
    }

    public void Lose() => Lose("has ended.");

    // Nobody waits for a copy of what is given up.
    private void Lose(string why)
    {
        _lost.TrySetResult(why);
        EndCopy();
    }

    private void EndCopy()
    {
        lock (_copyLock) { _copying?.Cancel(); }
    }

    // From the newest commit, or from the copy.
    private async Task BeginAsync(Boundary end, CancellationToken stop)
    {
        await _gate.WaitAsync(stop).ConfigureAwait(false);
        try
        {
            await EndFeedAsync().ConfigureAwait(false);
            if (NoteBelow(end.Offset) is { } note)
            {
                await Task.Run(() => host.OpenToFollow(note.Point), CancellationToken.None).ConfigureAwait(false);
                Start(note);
                return;
            }
            Checkpoint copy = CopyBelow(end.Offset);
            string file = checkpoints.PathOf(copy);
            await Task.Run(() => RdbBase.RequireKnown(file, host.Store.RecordBytesMax, stop), CancellationToken.None).ConfigureAwait(false);
            // From here on no commit of before counts.
            string life = FeedPlan.NewReplicationId();
            await withLog(() => log.SetReplicationId(life)).ConfigureAwait(false);
            await Task.Run(() => Load(file, stop), CancellationToken.None).ConfigureAwait(false);
            Start(life, copy.Offset, copy.Database);
        }
        finally
        {
            _gate.Release();
        }
    }

    private void Load(string file, CancellationToken stop)
    {
        host.OpenEmptyToFollow(log.FirstVersion.Previous);
        try
        {
            RdbBase.Load(file, host.Store, stop);
        }
        catch (FeedFailedException e)
        {
            GiveUp(-1, e.Message);
        }
    }

    private Checkpoint CopyBelow(long offset) => checkpoints.Latest(log, offset)
        ?? throw new LogHistoryChangedException($"there is neither a commit nor a copy at or below offset {offset} that the store could "
        + "begin from: have the stream seeded anew (slogger seed)");

    private void Start(FollowNote note)
    {
        Start(note.Life, note.Offset, note.Database);
        if (_checkedTo < note.Offset) { (_checkedTo, _checkedDatabase) = (note.Offset, note.Database); }
    }

    private void Start(string life, long offset, int database)
    {
        _lost = new(TaskCreationOptions.RunContinuationsAsynchronously);
        _life = life;
        (_committedOffset, _committedAt) = (offset, Stopwatch.GetTimestamp());
        _commitBytes = Math.Clamp(host.Store.Statistics().LogBytesMax / CommitMemoryShare, CommitBytesMin, CommitBytesMax);
        _feed = new StreamFeed(log, offset, database, host.Engine, host.Store.RecordBytesMax, feeds: true);
    }

    private async Task EndFeedAsync()
    {
        await _commit.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        _feed?.Dispose();
        _feed = null;
    }

    // ---- Commits ----

    private void CommitIfDue(Boundary at)
    {
        if (!_commit.IsCompleted || Stopwatch.GetTimestamp() < Volatile.Read(ref _mayCommitAt)) { return; }
        if (at.Offset - _committedOffset >= _commitBytes
            || (host.Store.IsChanged && (host.Store.CommitCount == 0 || Stopwatch.GetElapsedTime(_committedAt) >= CommitPeriod)))
        {
            Commit(at);
        }
    }

    private void Commit(Boundary at)
    {
        if (at.Version.Next <= host.Store.Open || host.Store.BeginCommit(at.WorldLine, at.Version.Next) is not { } durable) { return; }
        (_committedOffset, _committedAt) = (at.Offset, Stopwatch.GetTimestamp());
        FollowNote note = NoteOf(at, _feed!.Database);
        _commit = Task.Run(() => NoteInBackgroundAsync(durable, note));
    }

    // The log in memory grows faster than it is compacted: only what the newest commit needs is kept, also should a drill want more, and
    // compaction is waited for a little.
    private void Relieve(Boundary at, CancellationToken stop)
    {
        _commit.Wait(stop);
        Commit(at);
        _commit.Wait(stop);
        if (Usable() is [.., var newest]) { host.Store.Keep(newest.Point); }
        long began = Stopwatch.GetTimestamp();
        while (host.Store.IsPressed && Stopwatch.GetElapsedTime(began) < PressedMax && !stop.IsCancellationRequested) { Thread.Sleep(1); }
    }

    private async Task NoteInBackgroundAsync(Task<CommitRecord> durable, FollowNote note)
    {
        try
        {
            await NoteAsync(durable, note).ConfigureAwait(false);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            Volatile.Write(ref _mayCommitAt, Stopwatch.GetTimestamp() + (long)(FailurePause.TotalSeconds * Stopwatch.Frequency));
            report.Warn($"shard {shard}: a commit of the store that follows failed, and the log is kept until another succeeds: "
                + $"{e.Message}");
        }
    }

    // Behind the commit: a note without one would be another one's some day.
    private async Task NoteAsync(Task<CommitRecord> durable, FollowNote note)
    {
        await durable.ConfigureAwait(false);
        host.Notes.Add(note, host.Store.Commits.Select(c => c.Point));
    }

    private FollowNote NoteOf(Boundary at, int database) =>
        new() { Life = _life, Line = at.WorldLine.Number, Version = at.Version.Number, Offset = at.Offset, Database = database };

    /// <summary>The commits that it can begin from, oldest first.</summary>
    private List<FollowNote> Usable()
    {
        if (log.IsEmpty || log.ReplicationId == log.Origin.ReplicationId) { return []; }
        HashSet<WorldPoint> commits = [.. host.Commits.Select(c => c.Point)];
        // A backup's log has no reigns.
        return [.. host.Notes.All.Where(n => n.Life == log.ReplicationId && n.Offset >= log.StartOffset && n.Offset <= log.DurableOffset
            && commits.Contains(n.Point) && log.IsInHistory(log.Origin, Reign.None, new(n.Line), n.Offset)).OrderBy(n => n.Offset)];
    }

    /// <summary>The newest commit at or below an offset that it can begin from.</summary>
    public FollowNote? NoteBelow(long offset) => Usable().LastOrDefault(n => n.Offset <= offset);

    /// <summary>Deletes what no beginning needs: all commits but two, the log before them, and the copy that reaches back no further. Not
    /// while the store is being begun anew.</summary>
    /// <param name="look">Called while the store is not exchanged for another.</param>
    public async Task TrimAsync(Action look)
    {
        if (!await _gate.WaitAsync(TimeSpan.Zero).ConfigureAwait(false)) { return; }
        try
        {
            look();
            if (!Follows || Usable() is not [.., var older, _]) { return; }
            host.Store.Keep(older.Point);
            Volatile.Write(ref _neededFrom, older.Offset);
            if (keepsPast() || older.Offset <= log.StartOffset) { return; }
            await withLog(() => log.TrimBefore(older.Offset)).ConfigureAwait(false);
            checkpoints.Prune(log, 1, older.Offset, long.MaxValue);
        }
        finally
        {
            _gate.Release();
        }
    }

    /// <summary>Writes what the newest commit holds, as an RDB file; meanwhile the store goes on. Its commits are not deleted: see
    /// <see cref="TrimAsync"/>.</summary>
    /// <param name="file">Where to.</param>
    /// <param name="begun">Called when it is decided what is written.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>Where the commit stands in the stream, and the file's size; null: there is none yet.</returns>
    /// <exception cref="InvalidOperationException">The store could not keep the commit.</exception>
    /// <exception cref="IOException">The disk refused.</exception>
    public async Task<(FollowNote Note, long Bytes)?> CopyAsync(string file, Action? begun, CancellationToken stop)
    {
        await _gate.WaitAsync(stop).ConfigureAwait(false);
        using var copying = CancellationTokenSource.CreateLinkedTokenSource(stop);
        try
        {
            lock (_copyLock) { _copying = copying; }
            if (!Follows || NoteBelow(long.MaxValue) is not { } note
                || host.Store.Commits.FirstOrDefault(c => c.Point == note.Point) is not { } commit)
            {
                return null;
            }
            begun?.Invoke();
            return (note, await Task.Run(() => RdbBase.Write(host.Store, commit, file, copying.Token).Bytes, CancellationToken.None)
                .ConfigureAwait(false));
        }
        finally
        {
            lock (_copyLock) { _copying = null; }
            _gate.Release();
        }
    }

    /// <summary>Has what the store holds at the end of a version, at which it stands, on disk as a commit.</summary>
    /// <param name="end">The end.</param>
    /// <param name="ended">Called when the store may be brought on.</param>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="IOException">It is not. Of this version the store can make no other: it has to come to it again.</exception>
    public async Task<FollowNote> CommitAsync(Boundary end, Action ended, CancellationToken stop)
    {
        while (true)
        {
            await _commit.WaitAsync(stop).ConfigureAwait(false);
            FollowNote note = NoteOf(end, _feed!.Database);
            if (Usable() is [.., var newest] && newest.Offset == end.Offset) { return newest; }
            if (end.Version.Next > host.Store.Open)
            {
                if (_feed.Offset != end.Offset)
                {
                    throw new IOException($"the store stands at offset {_feed.Offset}, and version {end.Version} ends at {end.Offset}");
                }
                if (host.Store.BeginCommit(end.WorldLine, end.Version.Next) is { } durable)
                {
                    (_committedOffset, _committedAt) = (end.Offset, Stopwatch.GetTimestamp());
                    Task noted = NoteAsync(durable, note);
                    _commit = noted.ContinueWith(_ => { }, CancellationToken.None, TaskContinuationOptions.None, TaskScheduler.Default);
                    ended();
                    await noted.ConfigureAwait(false);
                    return note;
                }
            }
            // It is there, and only its note is not.
            else if (host.Commits.Any(c => c.Point == end.Point))
            {
                host.Notes.Add(note, host.Commits.Select(c => c.Point));
                return note;
            }
            else if (host.Store.CanBeginCommit) { throw new IOException($"the commit of version {end.Version} has failed"); }
            // One that was told to have failed is being written still.
            await Task.Delay(TurnPause, stop).ConfigureAwait(false);
        }
    }

    // ---- Taking over ----

    /// <summary>It stands at the final watermark: a process that is started as a primary's finds it there, in the world-line that begins
    /// there.</summary>
    public async Task SecureAsync(Boundary end, CancellationToken stop)
    {
        FollowNote note;
        try
        {
            note = await CommitAsync(end, () => { }, stop).ConfigureAwait(false);
        }
        catch (IOException)
        {
            Lose();
            throw;
        }
        await Task.Run(() => host.EnterAsFollowed(log.WorldLine, end.Version, note.Point), CancellationToken.None).ConfigureAwait(false);
    }

    // What there is to do was done before the shard was opened.
    public Task PromoteAsync(CancellationToken stop) => Task.CompletedTask;

    public async ValueTask DisposeAsync()
    {
        await _gate.WaitAsync().ConfigureAwait(false);
        await EndFeedAsync().ConfigureAwait(false);
        EndLook();
        _gate.Release();
    }
}
