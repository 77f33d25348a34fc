// What recovery is for an embedded store: what the log proves in mode log, its commits prove here. At a start nothing is left of what was
// in memory: the store is opened at a commit, and unless the process before has stopped in order a new world-line begins with it. In a
// process that goes on, when another shard was lost, the store goes back to a commit in place (FasterRollbacks).
using System.Diagnostics;
using Slogger.Core.Recovery;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster;
using Slogger.Faster.Commands;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Embedded;
using Slogger.Proxy.Stores;

namespace Slogger.Proxy.Shards;

internal partial class FasterShard
{
    internal override string RefusalNote => " (Of an embedded store its commits, in the data directory, stand for the version log.)";

    // What it holds nobody else has put there.
    internal override bool MaySeed => false;

    internal override Task<bool> IsSameStoreAsync(CancellationToken stop) => Task.FromResult(true);

    internal override async Task<(StoreSituation Situation, string Text)> LookAsync(bool atStart, WorldLine current,
        CancellationToken stop)
    {
        await Site.LearnAsync(stop).ConfigureAwait(false);
        bool goesOn = _faster is not null ? _holds == current : WasStopped(current);
        return (goesOn ? StoreSituation.Continues : StoreSituation.Empty, "");
    }

    // By the process just before this one, with nothing answered that its last commit does not hold.
    private bool WasStopped(WorldLine current) => _stopped is { } note && note.Epoch == Seat.Epoch - 1 && note.Line == current.Number
        && _kept.Proved(current).Last is { } last && last.Point == note.Point;

    internal override (Boundary? Last, Boundary? BelowBranch) Proved(WorldLine current) => _kept.Proved(current);

    internal override Boundary? BoundaryOf(VersionNumber version, WorldLine of) => _kept.BoundaryOf(version, of);

    private Boundary BoundaryAt(VersionNumber version, WorldLine line) => new(line, version, 0, 0, EndOf(version));

    /// <summary>The state at the end of a version of the current history: that one, and no other.</summary>
    /// <exception cref="RecoveryRefusedException">No commit holds it.</exception>
    protected virtual KeptState StateAt(VersionNumber version, WorldLine current) =>
        _history.Latest(current, line => Seat.LastValid(line, Recovery.Lines), version) is { } state && state.Last == version
            ? state
            : throw new RecoveryRefusedException($"shard {_options.Shard}: {_fasterOptions.Directory} has no commit of version {version}.");

    internal override void RequireBase(VersionNumber version, WorldLine of) => StateAt(version, of);

    internal override Task DetachAsync(CancellationToken stop)
    {
        lock (Versions.Lock) { _started = null; }
        return Task.CompletedTask;
    }

    // ---- What is decided ----

    internal override Task<bool> ContinueAsync(Boundary last, WorldPoint recorded, CancellationToken stop)
    {
        if (_faster is null)
        {
            Open(StateAt(last.Version, last.WorldLine).Commit);
            _report.Info($"shard {_options.Shard}: continues world-line {last.WorldLine} after version {last.Version}; nothing was lost");
        }
        Follow(last, recorded);
        return Task.FromResult(true);
    }

    // A first commit, before anything is forwarded: the next process knows by it that this one has served.
    internal override async Task<bool> BeginAsync(WorldPoint at, WorldPoint recorded, string what, bool goesOn, CancellationToken stop)
    {
        _past?.BreakOff();
        Open(null, open: at.Version);
        await _faster!.CommitAsync(at.WorldLine, at.Version.Next, stop).ConfigureAwait(false);
        _report.Info($"shard {_options.Shard}: begins with {what}: world-line {at.WorldLine}");
        Follow(BoundaryAt(at.Version, at.WorldLine), recorded);
        return true;
    }

    internal override async Task<bool> RestoreAsync(WorldLine line, Boundary branch, WorldLine current, CancellationToken stop)
    {
        WorldPoint commit = StateAt(branch.Version, current).Commit;
        Boundary start = branch with { WorldLine = line };
        // Before anybody is served (see CommitHistory), and not before the store goes back: the disk is slow.
        Task entered = Task.Run(() => _history.Enter(line, branch.Version, commit), CancellationToken.None);
        if (_faster is null) { Open(commit); }
        else { await _rollbacks.RunAsync(_faster, commit, start.Version, Lifetime.End).ConfigureAwait(false); }
        await entered.ConfigureAwait(false);
        FailPoint.Pass(FailPoint.BranchWritten);
        Follow(start, start.Point);
        return true;
    }

    // The store opens at the older commit, which stands for the branch from now on; those after it are deleted.
    internal override Task<bool> BeginWithAsync(Boundary content, WorldPoint at, WorldLine current, string feed, CancellationToken stop)
    {
        WorldPoint commit = StateAt(content.Version, current).Commit;
        _past?.BreakOff();
        _history.Enter(at.WorldLine, at.Version, commit);
        Open(commit);
        Follow(BoundaryAt(at.Version, at.WorldLine), at);
        return Task.FromResult(true);
    }

    private void Follow(Boundary start, WorldPoint recorded)
    {
        _holds = start.WorldLine;
        _engine!.IsFollowing = false;
        if (_stream is null) { DeleteStream(); }
        Versions.Run(start, recorded);
        WakeKeeper();
    }

    // ---- Opening, going back, closing ----

    private void Open(WorldPoint? commit, VersionNumber? open = null)
    {
        long began = Stopwatch.GetTimestamp();
        try
        {
            // An application that hosts the shard has memory of its own beside.
            _faster = FasterStore.OpenAt(_fasterOptions with { OwnsProcess = !AdmitsLocal }, commit, open);
            SuspendLocalIfPunctual(_faster);
        }
        catch (Exception e) when (e is InvalidDataException or InvalidOperationException or UnauthorizedAccessException
            or FASTER.core.FasterException)
        {
            throw new RecoveryRefusedException(
                $"shard {_options.Shard}: the embedded store in {_fasterOptions.Directory} cannot be opened: {e.Message}");
        }
        _statistics = _faster.Statistics();
        _engine = new CommandEngine(_faster, EngineOptionsOf(_faster)) { OnCommit = OnCommit, OnPublished = Moves.OnPublished,
            IsFollowing = IsFollowing };
        _connector = new EmbeddedConnector(_engine);
        _commandTable ??= CommandTable(_engine);
        if (_faster.Damage is { } damage) { _report.Error($"shard {_options.Shard}: {damage}"); }
        _report.Info($"shard {_options.Shard}: the embedded store is open{(commit is { } at ? $" at version {at.Version}" : "")}: "
            + $"{_engine.KeyCount} keys in {(long)Stopwatch.GetElapsedTime(began).TotalMilliseconds} ms");
    }

    // All that was answered is in the last commit, and that is committed.
    internal override Task BeforeEndAsync()
    {
        lock (Versions.Lock)
        {
            if (Versions.Machine is { IsClosed: true } machine)
            {
                WorldPoint last = machine.LastBoundary.Point;
                _stopped = new StopNote { Epoch = Seat.Epoch, Line = last.WorldLine.Number, Version = last.Version.Number,
                    ClosedAt = Now().Bits };
            }
            else
            {
                _stopped = null;
            }
        }
        try
        {
            _stopped?.Write(_fasterOptions.Directory);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            _report.Warn($"shard {_options.Shard}: that it stopped in order cannot be noted ({e.Message}): the next start begins a "
                + "world-line with its last version");
        }
        return Task.CompletedTask;
    }

    internal override void CloseKept()
    {
        Ending?.Invoke();
        if (!_frontEndClosed.IsCompleted)
        {
            // Its memory may be in use this moment. All that was committed is durable, and the lock ends with the process.
            _report.Warn($"shard {_options.Shard}: the front end does not end: the store is left as it is");
            return;
        }
        CloseStore();
        _stream?.Dispose();
    }

    private void CloseStore()
    {
        _found = Commits;
        _engine?.Dispose();
        _faster?.Dispose();
        _faster = null;
    }
}
