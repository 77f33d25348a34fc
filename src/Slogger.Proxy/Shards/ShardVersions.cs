// The versions of a shard: performs what the ShardMachine (Core) decides.
//
// Threads. The machine is called by the front end's loop (ticks, answers to markers), by the recorder (what SQL holds), by the control
// task, and by those that make versions durable (LogShard: the replication link's thread and the syncing thread; BgsaveShard: the saving
// task; FasterShard: whoever ends a checkpoint). Lock serialises them. It guards the machine and its effects; a store, or
// another part of the shard, that has state under the machine's lock takes this same one. It is taken at the rate of versions, not of
// commands. What has no lock of its own here, and is not said to be of any thread, is under it.
// Order of locks: this one first, then the log's, or the trail's of dependencies; the door's own and the clock's are held while nothing
// else is called.
using Slogger.Core.Cuts;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Metadata;

namespace Slogger.Proxy.Shards;

/// <summary>The machine, its effects and its clock. Any thread, if nothing else is said.</summary>
/// <param name="shard">Whose; its store performs the effects that concern a store.</param>
/// <param name="dataDirectory">Where the clock is noted.</param>
/// <param name="time">The machine's clocks.</param>
internal sealed class ShardVersions(VersionedShard shard, string dataDirectory, TimeProvider time)
{
    /// <summary>When nothing can be closed: how long until it is looked at again, in microseconds.</summary>
    public const long IdleMicroseconds = 100_000;

    private readonly TaskCompletionSource _stopped = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly ChangesElsewhere _changedElsewhere = new(shard);
    private volatile bool _isAttached;
    private Marker _pendingMarker;

    /// <summary>Guards the machine.</summary>
    public Lock Lock { get; } = new();

    /// <summary>The machine, once the shard runs. Under the lock.</summary>
    public ShardMachine? Machine { get; private set; }

    /// <summary>What the machine is given to fill; then <see cref="Perform"/>. Under the lock.</summary>
    public ShardEffects Effects { get; } = new();

    /// <summary>Whether the machine follows the store: from <see cref="Run"/> until the store is lost.</summary>
    public bool IsAttached => _isAttached;

    /// <summary>Completes when the last version is committed.</summary>
    public Task Stopped => _stopped.Task;

    /// <summary>The clock. For a tick it is read after the receive: the loop ticks after it has read its clients.</summary>
    public ShardClock Clock { get; } = new(dataDirectory, time);

    /// <summary>Who waits until they are committed.</summary>
    public AwaitedCommits Awaited { get; } = new(shard);

    /// <summary>What is said of them to whoever asks.</summary>
    public PublishedVersions Published { get; } = new();

    /// <summary>The version of what the front end forwards; 0 before there is one.</summary>
    public long OpenVersion
    {
        get
        {
            lock (Lock) { return Machine?.OpenVersion.Number ?? 0; }
        }
    }

    /// <summary>What anybody has done until now, and <see cref="MarkChanged"/> was told of, is in this version or in an earlier one; 0
    /// before there is one.</summary>
    public VersionNumber OpenForAll
    {
        get
        {
            lock (Lock) { return Machine?.OpenBy(Clock.Now()) ?? VersionNumber.Zero; }
        }
    }

    /// <summary>The store that follows stands at the end of this version, which readers see.</summary>
    public void OnApplied(WorldPoint point)
    {
        Published.Commit(point);
        shard.Access.WakeWaiting();
    }

    /// <summary>The site has taken over where its log ends.</summary>
    public void TakeOver(Boundary final)
    {
        Clock.Resume(final.Time);
        Published.Enter(final.WorldLine);
    }

    /// <summary>How long until the version after the last closed one begins, in microseconds; 0 or less: it has.</summary>
    public long UntilNextVersionUs()
    {
        lock (Lock)
        {
            return Machine is { } machine ? machine.Grid.StartOf(machine.LastBoundary.Version.Next) - Clock.Now().Microseconds : 0;
        }
    }

    // ---- What the front end asks (the loop's thread) ----

    /// <summary>See <see cref="IVersionSource.MicrosecondsToNextTick"/>.</summary>
    public long MicrosecondsToNextTick()
    {
        lock (Lock)
        {
            if (Machine is not { } machine || machine.Mode is not (ShardMode.Running or ShardMode.Stopping)) { return IdleMicroseconds; }
            if (shard.Reset.IsFrozen) { return IdleMicroseconds; }
            if (machine.Mode == ShardMode.Stopping && shard.IsPunctual) { return shard.MicrosecondsHeld(machine) ?? 0; }
            if (shard.IsPunctual)
            {
                ClockReading reading = Clock.Read();
                HybridTimestamp now = Clock.Now(reading);
                long wait = machine.NextBoundaryUs(now) - now.Microseconds;
                shard.OnBoundaryAwaited(reading.MonotonicUs + wait);
                return wait;
            }
            if (shard.MicrosecondsHeld(machine) is { } held) { return held; }
            // A fast-forward does not wait for the clock.
            if (machine.Mode == ShardMode.Stopping || machine.BoundaryDue(Clock.Now())) { return 0; }
            // Only every stride-th version can be closed: earlier ticks would close nothing.
            long stride = machine.Stride;
            long closable = (machine.OpenVersion.Number + stride - 1) / stride * stride;
            return Math.Max(shard.Seat.Grid.StartOf(new VersionNumber(closable + 1)) - Clock.Now().Microseconds, 0);
        }
    }

    /// <summary>See <see cref="IVersionSource.NeedsMarker"/>.</summary>
    public bool NeedsMarker
    {
        get
        {
            lock (Lock) { return Machine is { NeedsMarker: true }; }
        }
    }

    /// <summary>See <see cref="IVersionSource.MayRest"/>.</summary>
    public bool MayRest
    {
        get
        {
            lock (Lock)
            {
                return Machine is { MayRest: true } machine && shard.MayRest && !_changedElsewhere.Any && !shard.Reset.IsHeld
                    && !Awaited.IsAwaited(machine) && !Awaited.AreRepliesAwaited;
            }
        }
    }

    /// <summary>See <see cref="IVersionSource.MicrosecondsToReplies"/>.</summary>
    public long MicrosecondsToReplies()
    {
        if (!shard.Seat.HasPeers) { return 0; }
        lock (Lock)
        {
            return Machine is { } machine
                ? shard.SessionBatches.HoldReplyUntil(machine.OpenVersion).Microseconds - Clock.Now().Microseconds : 0;
        }
    }

    /// <summary>See <see cref="IVersionSource.Tick"/>.</summary>
    public MarkerToSend? Tick(bool busy, bool inFlight)
    {
        lock (Lock)
        {
            if (BeginTick() is not { } machine) { return null; }
            bool hasChanged = _changedElsewhere.Take() || (busy && (inFlight || shard.MayHaveChanged));
            if (busy) { machine.Forwarded(); }
            shard.Tick(machine, hasChanged);
            return Perform() ? shard.ToSend(_pendingMarker) : null;
        }
    }

    /// <summary>See <see cref="IVersionSource.Pass"/>.</summary>
    public MarkerToSend? Pass()
    {
        lock (Lock)
        {
            // At the end what was changed meanwhile counts, too.
            if (Machine is not { Mode: ShardMode.Running }) { return Tick(busy: false, inFlight: false); }
            if (BeginTick() is not { } machine) { return null; }
            machine.Wake(Clock.Now(), _changedElsewhere.FirstAt, Effects);
            return Perform() ? shard.ToSend(_pendingMarker) : null;
        }
    }

    // Null: nothing may be closed.
    private ShardMachine? BeginTick()
    {
        if (Machine is not { } machine || !shard.MayClose || !shard.Reset.MayClose(machine.ClosableAt(Clock.Now()))) { return null; }
        machine.CommitAwaited(Awaited.IsAwaited(machine), Effects, Awaited.Until);
        machine.RepliesAwaited(Awaited.AreRepliesAwaited, Effects, Awaited.ByReplies);
        return machine;
    }

    /// <summary>See <see cref="IVersionSource.MarkerAnswered"/>.</summary>
    public void MarkerAnswered(bool counts)
    {
        lock (Lock)
        {
            Machine?.MarkerAnswered(_pendingMarker, counts, Effects);
            Perform();
        }
    }

    /// <summary>See <see cref="IVersionSource.MarkerLost"/>.</summary>
    public void MarkerLost()
    {
        lock (Lock)
        {
            Machine?.MarkerLost(_pendingMarker, Effects);
            Perform();
        }
    }

    /// <summary>See <see cref="IBatchPort.FastForward"/>.</summary>
    public void FastForward(VersionNumber atLeast)
    {
        HybridTimestamp opens = HybridTimestamp.Of(shard.Seat.Grid.StartOf(atLeast), 0);
        lock (Lock)
        {
            // The clock goes along, and so does the next process's: it must not open earlier versions again. One that is too far behind
            // waits, and its clients are refused in the end.
            if (Machine is not { } machine || !Clock.TryObserve(opens)) { return; }
            machine.FastForward(atLeast);
        }
    }

    /// <summary>Opens a version ahead of the clock, on the loop's thread.</summary>
    public void FastForwardSoon(VersionNumber atLeast)
    {
        if (shard.Access.Loop is not { } loop) { return; }
        loop.Post(() =>
        {
            FastForward(atLeast);
            loop.Boundary.OnFastForward();
        });
    }

    /// <summary>See <see cref="IShardPort.OnCommitAwaited"/>.</summary>
    public void OnCommitAwaited()
    {
        lock (Lock)
        {
            Machine?.CommitAwaited(true, Effects, Awaited.AwaitedHere);
            Perform();
        }
    }

    /// <summary>See <see cref="IShardPort.OnReplyAwaited"/>.</summary>
    public void OnReplyAwaited()
    {
        lock (Lock)
        {
            Machine?.RepliesAwaited(true, Effects, Awaited.ByReplies);
            Perform();
        }
    }

    /// <summary>Somebody else waits for a version, from now on. It, or a later one, is closed by itself even if it is empty: if the one
    /// that is open is earlier, say so again. Any thread.</summary>
    public void AwaitCommitOf(VersionNumber version)
    {
        lock (Lock)
        {
            if (Awaited.ByOthers(version, Machine)) { MarkChanged(); }
        }
    }

    // ---- What the store says ----

    /// <summary>The store was written to by others than the front end: the version is not empty.</summary>
    public void MarkChanged() => _changedElsewhere.Mark();

    // The loop rests while no version is wanted: see MayRest.
    private void Disturb() => shard.Access.Loop?.Boundary.Disturb();

    /// <summary>What is kept can restore everything up to this point.</summary>
    public void OnDurable(WorldPoint point)
    {
        lock (Lock)
        {
            Machine?.LogDurable(point, Effects);
            Perform();
        }
    }

    /// <summary>The save that a marker has begun is over: if it is kept, its version is durable. Under the lock.</summary>
    public void OnSaveEnded(in Marker marker, bool isKept)
    {
        Machine?.SaveCompleted(marker, isKept, Effects);
        Perform();
        // Not one that was given up meanwhile, since the world-line was left.
        WorldPoint point = new(marker.WorldLine, marker.Closed);
        if (isKept && Machine?.LastBoundary.Point == point) { OnDurable(point); }
    }

    /// <summary>Nothing is followed any more.</summary>
    public void Detached() => _isAttached = false;

    // ---- Effects, in order, under the lock ----

    /// <summary>Performs what the machine has decided. True when a marker (or save) is to be sent, which only a tick decides.</summary>
    public bool Perform()
    {
        bool marker = false;
        foreach (ref readonly ShardEffect effect in Effects.Items)
        {
            switch (effect.Kind)
            {
                case ShardEffectKind.SendMarker or ShardEffectKind.StartSave:
                    _pendingMarker = effect.Marker;
                    marker = true;
                    break;
                case ShardEffectKind.AppendBoundary or ShardEffectKind.AppendEmptyRun:
                    shard.Append(effect);
                    shard.Reset.OnBoundary(effect.Boundary.Version);
                    shard.Moves.OnBoundary(effect.Boundary.Point);
                    break;
                case ShardEffectKind.RequestSync:
                    shard.RequestSync();
                    break;
                case ShardEffectKind.RecordDurable:
                    shard.Cuts!.Recorder.Record(effect.Claim);
                    break;
                case ShardEffectKind.Committed:
                    Published.Commit(effect.Point);
                    shard.OnCommitted(effect.Point);
                    shard.Moves.OnCut(effect.Point);
                    shard.Access.WakeWaiting();
                    break;
                case ShardEffectKind.Stopped:
                    _stopped.TrySetResult();
                    break;
                case ShardEffectKind.Deposed:
                    shard.Membership.OnDeposed("");
                    break;
                case ShardEffectKind.Violation:
                    shard.Lifetime.Fatal(effect.Text ?? "an invariant does not hold");
                    break;
            }
        }
        Effects.Clear();
        if (Machine is { } machine)
        {
            Published.Keep(machine.Durable.Version);
            shard.Moves.OnDurable(machine.Durable);
            shard.Access.WakeReplies(shard.SettledVersion);
            if (!MayRest) { Disturb(); }
        }
        return marker;
    }

    // ---- What the metadata says ----

    /// <summary>A claim was recorded, or not; null: SQL could not be reached.</summary>
    public void OnRecorded(WorldPoint point, DurableResult? result)
    {
        lock (Lock)
        {
            if (Machine is not { } machine) { return; }
            switch (result?.Outcome)
            {
                case null:
                    machine.RecordUnavailable(point);
                    break;
                case DurableOutcome.Recorded:
                    machine.DurableRecorded(point, shard.Membership.IsJoining ? machine.Committed : result.Value.Cut, Effects);
                    break;
                case DurableOutcome.StaleWorldLine:
                    LeaveWorldLine(machine, point, result.Value.Cut.WorldLine);
                    break;
                case DurableOutcome.Deposed:
                    shard.Membership.OnDeposed("");
                    break;
                default:
                    machine.RecordRefused(point, $"the metadata answered {result.Value.Outcome}", Effects);
                    break;
            }
            Perform();
        }
    }

    /// <summary>A claim is on its way to the coordinator.</summary>
    public void OnSaid(WorldPoint point)
    {
        lock (Lock)
        {
            Machine?.DurableRecorded(point, Machine.Committed, Effects);
            Perform();
        }
    }

    /// <summary>The recorded cut, and what it is for this shard.</summary>
    public void OnCut(ClusterCut cut, WorldPoint own)
    {
        lock (Lock)
        {
            if (Machine is not { } machine) { return; }
            Awaited.ByPeers(cut.AwaitedUntil);
            if (own.WorldLine > machine.WorldLine) { LeaveWorldLine(machine, machine.Committed, own.WorldLine); }
            else if (!shard.Membership.IsJoining) { machine.CutAdvanced(own, Effects); }
            Perform();
        }
    }

    // Another shard's recovery has begun a world-line: this one's store has to go back to its branch. While this shard is in a
    // recovery of its own, that finds out by itself.
    private void LeaveWorldLine(ShardMachine machine, WorldPoint point, WorldLine current)
    {
        bool isNews = current > machine.WorldLine && IsAttached && machine.Mode != ShardMode.StoreLost;
        machine.WorldLineLeft(point);
        if (isNews) { shard.Recovery.LeaveWorldLine(current); }
    }

    /// <summary>The shard is another process's, or another site's.</summary>
    public void Deposed()
    {
        lock (Lock) { Machine?.Deposed(); }
    }

    // ---- What a recovery does (the control task; until Attach, the caller of StartAsync) ----

    /// <summary>The store is lost.</summary>
    public void StoreLost()
    {
        lock (Lock) { Machine?.StoreLost(); }
    }

    /// <summary>The store is lost, and no recovery follows.</summary>
    public void AbandonStore()
    {
        lock (Lock)
        {
            Machine?.StoreLost();
            Machine?.Tick(Clock.Now(), busy: false, Effects);
            Perform();
        }
    }

    /// <summary>Versions begin anew.</summary>
    public void Forget()
    {
        lock (Lock) { Machine = null; }
    }

    /// <summary>What can be claimed of a point; null: there is no machine.</summary>
    public DurableClaim? ClaimOf(WorldPoint point)
    {
        lock (Lock) { return Machine?.ClaimOf(point); }
    }

    /// <summary>The store is attached: the machine goes on, or begins.</summary>
    /// <param name="start">The last boundary: of a new world-line, its branch.</param>
    /// <param name="recorded">The recorded cut.</param>
    /// <param name="streamOffset">Where the stream continues; 0 without one.</param>
    /// <param name="storeOffset">Where the store stood when it was attached.</param>
    /// <param name="isRestarted">Whether what is kept began again from a checkpoint: some of the stream was not read.</param>
    public void Run(Boundary start, WorldPoint recorded, long streamOffset = 0, long storeOffset = 0, bool isRestarted = false)
    {
        lock (Lock)
        {
            if (Machine is null)
            {
                GridView grid = shard.Seat.GridView;
                WorldPoint cut = shard.Recovery.Cut;
                Machine = new ShardMachine(shard.MachineOptions, new ShardStart(grid.Grid, start, recorded, cut, Clock.Now())
                {
                    IsClean = shard.Membership.IsJoining, GridValidUntilUs = grid.ValidUntilUs,
                });
                Published.Commit(new(start.WorldLine, cut.Version));
            }
            else if (start.WorldLine > Machine.WorldLine)
            {
                Machine.WorldLineStarted(start.WorldLine, start, Effects);
                Perform();
            }
            else if (isRestarted)
            {
                Machine.StreamRestarted(streamOffset);
            }
            Machine.Attached(streamOffset, storeOffset);
            Perform();
        }
        _isAttached = true;
    }

    /// <summary>The ordered end has begun.</summary>
    public void Stopping()
    {
        lock (Lock) { Machine?.Stopping(); }
        Disturb();
    }
}
