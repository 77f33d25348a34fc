// What a shard does at its start and when its store is lost: find out how the store looks next to what is kept, let
// RecoveryPlan decide, perform the decision. Each step may be cut short by a crash: the next start finds where it was.
using System.Diagnostics;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Membership;
using Slogger.Core.Recovery;
using Slogger.Core.Shards;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Restoring;
using Slogger.Proxy.Stores;
using Slogger.Redis.Feeding;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard
{
    /// <summary>The world-lines, as the metadata had them at the last recovery.</summary>
    protected IReadOnlyList<WorldLineRecord> _lines = [];

    private readonly StageTimes _stages = new();

    // The world-line that SQL has noted as entered when a failover opened the shard.
    private WorldLine _entered;
    private bool _seedUsed;

    // Of a site that takes over: what the next attempt goes by.
    private ClusterView? _justSeen;

    // What clients have yet to be told, should the recovery that restored it be cut short and end with another attempt.
    private Boundary? _owedRollback;

    // The store's start; one at a time, also when an attempt to recover has failed meanwhile.
    private Task _starting = Task.CompletedTask;

    // ---- The recovery ----

    private async Task RecoverAsync(bool atStart, CancellationToken stop)
    {
        bool told = false;
        while (true)
        {
            stop.ThrowIfCancellationRequested();
            // A store that has ended is lost, whatever the next one takes to start: the others need not wait for it.
            bool isGone = !atStart && _store.HasEnded;
            // What was just at the final watermark runs, unless it has ended since.
            if (_starting.IsCompleted && (_justLearned is null || isGone)) { _starting = _store.EnsureRunningAsync(stop); }
            if (!isGone) { await _starting.ConfigureAwait(false); }
            await SuspendAdmissionAsync(stop).ConfigureAwait(false);
            ClusterView view = _justSeen ?? await _seat.LookAsync(stop).ConfigureAwait(false);
            _justSeen = null;
            _stages.Passed("metadata");
            _isJoining = view.Record.State == MemberState.Joining;
            if (view.Record.Epoch != _seat.Epoch) { throw new RecoveryRefusedException(Deposed(view.Record.Owner)); }
            _lines = view.Lines;
            _cut = view.Cut.Of(_options.Shard);
            NoteClusterCut(view.Cut);
            // The cut has moved on without a shard that is joining: where it begins lies behind.
            WorldPoint recorded = _isJoining && _cut > view.Record.Durable ? _cut : view.Record.Durable;
            WorldLine current = recorded.WorldLine;
            // Others wait until this shard has left the world-lines before, and need not wait until it has looked at its store.
            long entered = _entered.Number;
            if (!atStart && current.Number > WorldLine)
            {
                await LeaveForAsync(current, stop).ConfigureAwait(false);
                entered = current.Number;
            }
            (StoreSituation situation, string text) = isGone ? (StoreSituation.Empty, "") : await LookAsync(atStart, current, stop).ConfigureAwait(false);
            _stages.Passed("look");
            (Boundary? last, Boundary? belowBranch) = Proved(current);
            RecoveryFacts facts = new()
            {
                Shard = _options.Shard,
                Store = _store.Name,
                Log = last is { } b ? new LogEvidence(b) : null,
                LastBelowBranch = belowBranch,
                Recorded = recorded,
                Situation = situation,
                Supervised = _store.IsSupervised,
                IsJoining = _isJoining,
                KeyCount = isGone ? 0 : KeyCount,
                Restored = atStart ? RestoredState(last) : null,
                MaySeed = MaySeed,
                Seed = !atStart || _seedUsed ? SeedChoice.None : _options.Seed switch
                {
                    SeedSource.FromRedis => SeedChoice.FromRedis,
                    SeedSource.FromLog => SeedChoice.FromLog,
                    _ => SeedChoice.None,
                },
            };
            bool done;
            Boundary? rolledBack = null;
            RecoveryDecision decision = RecoveryPlan.Decide(facts);
            if (isGone && decision is not RecoveryDecision.RestoreFromLog) { await _starting.ConfigureAwait(false); }
            switch (decision)
            {
                case RecoveryDecision.WaitForStore wait:
                    if (atStart && !_store.IsSupervised) { throw new RecoveryRefusedException(text.Length > 0 ? text : wait.Text); }
                    if (!told) { _report.Warn($"{wait.Text} {text} Waiting."); }
                    told = true;
                    await Task.Delay(RetryDelay, stop).ConfigureAwait(false);
                    continue;
                case RecoveryDecision.Refuse refuse:
                    throw new RecoveryRefusedException(refuse.Text + RefusalNote);
                case RecoveryDecision.Continue:
                    done = await ContinueAsync(last!.Value, recorded, stop).ConfigureAwait(false);
                    break;
                case RecoveryDecision.FirstStartEmpty:
                    done = await BeginAsync(new WorldPoint(current, Version.Zero), recorded, EmptyStoreName, goesOn: false, stop).ConfigureAwait(false);
                    break;
                case RecoveryDecision.BeginToJoin join:
                    done = await BeginToJoinAsync(join.At, recorded, stop).ConfigureAwait(false);
                    break;
                case RecoveryDecision.GapCheckpoint:
                    done = await BeginAsync(new WorldPoint(current, last!.Value.Version), recorded, "the same history, by a fresh checkpoint", goesOn: true, stop).ConfigureAwait(false);
                    break;
                case RecoveryDecision.TakeOverByCheckpoint takeOver:
                    await CloseFrontEndAsync().ConfigureAwait(false);
                    var taken = new WorldPoint(current, takeOver.Branch);
                    if (takeOver.NewWorldLine is { } line)
                    {
                        if (await _seat.BeginWorldLineAsync(new DurableClaim(taken, 1, taken.Version), null, stop).ConfigureAwait(false) is not { } branch) { continue; }
                        _cut = taken = new WorldPoint(line, branch);
                    }
                    _seedUsed = true;
                    done = await BeginAsync(taken, taken, "the data it held", goesOn: false, stop).ConfigureAwait(false);
                    break;
                case RecoveryDecision.GoOnFrom older:
                    done = await GoOnFromAsync(older, current, stop).ConfigureAwait(false);
                    break;
                case RecoveryDecision.RestoreFromLog restore:
                    _seedUsed = true;
                    long began = Stopwatch.GetTimestamp();
                    if (await BranchOfAsync(restore, current, stop).ConfigureAwait(false) is not { } start)
                    {
                        await _starting.ConfigureAwait(false);
                        continue;
                    }
                    _cut = new WorldPoint(restore.WorldLine, start.Version);
                    _stages.Passed("clients");
                    Task leaving = entered == restore.WorldLine.Number ? Task.CompletedTask : LeaveForAsync(restore.WorldLine, stop);
                    entered = restore.WorldLine.Number;
                    try
                    {
                        await _starting.ConfigureAwait(false);
                        if (isGone) { await LookAgainAsync(stop).ConfigureAwait(false); }
                        done = await RestoreAsync(restore.WorldLine, start, current, stop).ConfigureAwait(false);
                        _stages.Passed("store");
                    }
                    finally
                    {
                        await leaving.ConfigureAwait(false);
                    }
                    if (!done) { break; }
                    rolledBack = start with { WorldLine = restore.WorldLine };
                    // Of an earlier one that nobody was told of, the lower branch counts.
                    _owedRollback = rolledBack.Value with { Version = Version.Min(start.Version, _owedRollback?.Version ?? start.Version) };
                    _report.Info($"shard {_options.Shard}: restored to version {start.Version} (offset {start.Offset}) in {(long)Stopwatch.GetElapsedTime(began).TotalMilliseconds} ms; world-line {restore.WorldLine} begins");
                    break;
                default:
                    throw new UnreachableException();
            }
            if (!done) { continue; }
            BeginTrail(isAtBranch: rolledBack is not null);
            // A world-line that this recovery has begun is not among those that it found, nor where it branches at the other shards.
            if (_lines.All(l => l.WorldLine.Number != WorldLine)) { _lines = await _seat.LinesUpToAsync(new WorldLine(WorldLine), stop).ConfigureAwait(false); }
            if (entered != WorldLine) { await _seat.EnterAsync(new WorldLine(WorldLine), stop).ConfigureAwait(false); }
            _stages.Passed("entry");
            if (_loop is not null && !AllOpenedTogether) { await PeersEnteredAsync(stop).ConfigureAwait(false); }
            _stages.Passed("others");
            await VersionBegunAsync(stop).ConfigureAwait(false);
            if (_loop is not null && _moves is not null) { await _moves.OpenAsync(new WorldLine(WorldLine), stop).ConfigureAwait(false); }
            _stages.Passed("version");
            await EndLostAsync(stop).ConfigureAwait(false);
            Reopen(_owedRollback);
            _owedRollback = null;
            return;
        }
    }

    // ---- After an offline restore ----

    // What slogger restore has left for this start; null: nothing, or it is done.
    private RestoredState? RestoredState(Boundary? last)
    {
        _restored ??= RestoredNote.Read(_options.DataDirectory);
        if (_restored.GoesOn is not { } goesOn)
        {
            return _restored.Find(_options.Redis?.ToString() ?? "", StoreRun) is { } store ? new(new Version(store.Version), false, default) : null;
        }
        if (goesOn.WorldLine == 0 || last is null || last.Value.WorldLine.Number < goesOn.WorldLine) { return new(new Version(goesOn.Version), true, new(goesOn.WorldLine)); }
        // A process that has died before it could forget it.
        ForgetRestored();
        return null;
    }

    /// <summary>What was restored before is of no concern any more: what the store holds is a primary's from here on.</summary>
    private void ForgetRestoredByFollowing()
    {
        RestoredNote note = RestoredNote.Read(_options.DataDirectory);
        if (note.Stores.Count > 0 || note.GoesOn is not null) { ForgetRestored(); }
    }

    private void ForgetRestored()
    {
        _restored = RestoredNote.None;
        _restored.Write(_options.DataDirectory);
    }

    // As after a restore of the store; but the content is an older version's, and what is kept begins anew with it. The note stands until that is durable:
    // a start that finds it does it again.
    private async Task<bool> GoOnFromAsync(RecoveryDecision.GoOnFrom older, WorldLine current, CancellationToken stop)
    {
        if (BoundaryOf(older.Version, current) is not { } content)
        {
            throw new RecoveryRefusedException($"shard {_options.Shard}: it is to go on from version {older.Version}, which {KeptName} does not hold any more. "
                + "Choose another one (slogger restore --list shows them), or return to the newest by slogger restore --latest.");
        }
        RequireBase(older.Version, current);
        string feed = FeedPlan.NewReplicationId();
        _restored = _restored! with { GoesOn = _restored.GoesOn! with { WorldLine = older.WorldLine.Number, Feeds = [feed, .. _restored.GoesOn.Feeds.Take(FeedsNoted)] } };
        _restored.Write(_options.DataDirectory);
        Version branch = older.Branch;
        if (older.Begins)
        {
            var claim = new DurableClaim(new WorldPoint(current, branch), 1, branch);
            if (await _seat.BeginWorldLineAsync(claim, RowForBranch(claim), stop).ConfigureAwait(false) is not { } begun) { return false; }
            branch = begun;
        }
        FailPoint.Pass(FailPoint.WorldLineRecorded);
        _cut = new WorldPoint(older.WorldLine, branch);
        if (!await BeginWithAsync(content, _cut, current, feed, stop).ConfigureAwait(false)) { return false; }
        FailPoint.Pass(FailPoint.OlderVersionKept);
        ForgetRestored();
        _report.Warn($"shard {_options.Shard}: goes on from version {older.Version}, as slogger restore --keep has asked: its content is version {branch} of world-line {older.WorldLine} now, and what was done after it is undone");
        return true;
    }

    private const int FeedsNoted = 8;

    /// <summary>What slogger restore has left.</summary>
    private RestoredNote? _restored;

    /// <summary>Whether a stream is one with which a start has filled the store, to go on from an older version.</summary>
    protected bool IsRestoredFeed(string replicationId) => (_restored ??= RestoredNote.Read(_options.DataDirectory)).GoesOn?.Feeds.Contains(replicationId) == true;

    // When nobody can do anything here any more, nothing of the older world-lines is read: that is noted before the store is at the branch.
    private async Task LeaveForAsync(WorldLine line, CancellationToken stop)
    {
        await CloseFrontEndAsync().ConfigureAwait(false);
        await _seat.EnterAsync(line, stop).ConfigureAwait(false);
    }

    // Where the store is to be brought: closes the front end, and starts the world-line if nobody has. Null: look again.
    private async Task<Boundary?> BranchOfAsync(RecoveryDecision.RestoreFromLog restore, WorldLine current, CancellationToken stop)
    {
        RequireBase(restore.Last.Version, current);
        await CloseFrontEndAsync().ConfigureAwait(false);
        if (!restore.Begins) { return restore.Last; }
        DurableClaim claim;
        lock (_machineLock) { claim = _machine?.ClaimOf(restore.Last.Point) ?? new DurableClaim(restore.Last.Point, 1, restore.Last.Version); }
        if (await _seat.BeginWorldLineAsync(claim, RowForBranch(claim), stop).ConfigureAwait(false) is not { } branch) { return null; }
        _link?.SayBegun();
        FailPoint.Pass(FailPoint.WorldLineRecorded);
        if (branch == restore.Last.Version) { return restore.Last; }
        RequireBase(branch, current);
        return BoundaryOf(branch, current) ?? throw new RecoveryRefusedException($"shard {_options.Shard}: world-line {restore.WorldLine} branches at version {branch}, which {KeptName} cannot be restored to.");
    }

    // At an ordered end the last version is closed before its time. Among several shards what is done next may only be done when the next
    // one has begun by the clock: it would be counted later than what others do at the same time.
    private async Task VersionBegunAsync(CancellationToken stop)
    {
        if (!_seat.HasPeers) { return; }
        long opens;
        lock (_machineLock) { opens = _machine is { } machine ? machine.Grid.StartOf(machine.LastBoundary.Version.Next) : 0; }
        if (opens - Now().Microseconds > SlowMicroseconds) { _report.Info($"shard {_options.Shard}: waits for the end of version {_seat.Grid.VersionAt(opens).Previous}, in {(opens - Now().Microseconds) / 1e6:0.0} s"); }
        while (opens > Now().Microseconds) { await Task.Delay(TimeSpan.FromMicroseconds(Math.Clamp(opens - Now().Microseconds, 1000, SlowMicroseconds)), stop).ConfigureAwait(false); }
    }

    private const long SlowMicroseconds = 1_000_000;

    // Clients may do nothing here while others can still read elsewhere what is void now.
    private async Task PeersEnteredAsync(CancellationToken stop)
    {
        WorldLine line = new(WorldLine);
        long began = Stopwatch.GetTimestamp();
        bool isSlow = false;
        while (_seat.HasPeers)
        {
            (WorldLine current, IReadOnlyList<ShardId> outside) = await _seat.OutsideAsync(line, stop).ConfigureAwait(false);
            if (current > line)
            {
                // Shards that have not come to this one may never: nobody is let in before this one has followed.
                _isLeft = true;
                Suspect($"world-line {current} has begun");
                return;
            }
            // Nobody is let in any more.
            if (_isStopping) { return; }
            if (_isJoining)
            {
                // Nobody is let in before it counts; a store that is lost meanwhile is for the recovery.
                if (_door.IsSuspected) { return; }
                if (!isSlow && Stopwatch.GetElapsedTime(began) > PeersLimit)
                {
                    isSlow = true;
                    _report.Warn($"shard {_options.Shard}: has not joined cluster \"{_options.Cluster}\" in {PeersLimit.TotalSeconds} s, and goes on trying. Nobody else may write to {_store.Name} meanwhile");
                }
                await Task.Delay(PeersPeriod, stop).ConfigureAwait(false);
                continue;
            }
            if (outside.Count == 0) { return; }
            // Others have to see that this one lives.
            StartOnce();
            if (Stopwatch.GetElapsedTime(began) > PeersLimit)
            {
                _report.Warn($"shard {_options.Shard}: shards {string.Join(", ", outside)} have not entered world-line {line} in {PeersLimit.TotalSeconds} s and are taken for dead: this shard serves without them, and nothing is committed until they are back");
                return;
            }
            await Task.Delay(PeersPeriod, stop).ConfigureAwait(false);
        }
    }

    private static readonly TimeSpan PeersLimit = TimeSpan.FromSeconds(10);
    private static readonly TimeSpan PeersPeriod = TimeSpan.FromMilliseconds(5);

    /// <summary>The recorded cut, as of the last look at the metadata, or as it is changed by the recovery.</summary>
    private WorldPoint _cut;

    /// <summary>The store is attached: the machine goes on, or begins.</summary>
    /// <param name="start">The last boundary: of a new world-line, its branch.</param>
    /// <param name="recorded">The recorded cut.</param>
    /// <param name="streamOffset">Where the stream continues; 0 without one.</param>
    /// <param name="storeOffset">Where the store stood when it was attached.</param>
    /// <param name="isRestarted">Whether what is kept began again from a checkpoint: some of the stream was not read.</param>
    protected void Run(Boundary start, WorldPoint recorded, long streamOffset = 0, long storeOffset = 0, bool isRestarted = false)
    {
        lock (_machineLock)
        {
            if (_machine is null)
            {
                GridView grid = _seat.GridView;
                _machine = new ShardMachine(MachineOptions, new ShardStart(grid.Grid, start, recorded, _cut, Now()) { IsClean = _isJoining, GridValidUntilUs = grid.ValidUntilUs });
                RecordedCut = new(start.WorldLine, _cut.Version);
                PublishCut();
            }
            else if (start.WorldLine > _machine.WorldLine)
            {
                _machine.WorldLineStarted(start.WorldLine, start, _effects);
                Perform();
            }
            else if (isRestarted)
            {
                _machine.StreamRestarted(streamOffset);
            }
            _machine.Attached(streamOffset, storeOffset);
            Perform();
        }
        _isAttached = true;
    }
}
