// The commit protocol of one shard, as a pure state machine: which version is open, when it is closed, when it counts as
// closed, durable, recorded and committed (DPR, section 3; D-Redis, section 6; invariants I2, I3, I5). It does no I/O and
// reads no clock: the caller feeds inputs and performs the effects.
//
// Contract with the caller
// - Calls are serialised by the caller (a lock), and the effects of one call are queued for their performers before the
//   lock is released, so that effects reach the log in the order in which they were handed out.
// - In mode Running the open version changes only within Tick, and SendMarker is only handed out by Tick: the front-end
//   loop calls Tick on its own thread, with nothing forwarded between the evaluation of `busy`, the call, and the writing
//   of the marker. What it forwards gets OpenVersion.
// - Dedicated connections with exact operations are drained before a Tick for which BoundaryDue holds, and are held until
//   the marker is answered, refused or lost. Operations that cannot be drained (blocked) have two bounds: LowestVersion
//   when forwarded, OpenVersion when their reply has come.
// - The replication thread gives a marker to MarkerRead after it has passed on all bytes up to the marker's end and before
//   it passes on any later byte: AppendBoundary is then always at the log's end.
//
// Why a marker is logged when it is read and counts when it was also answered: the upstream is first-in-first-out, so a
// marker that is read before its loss was reported has all operations of its version before it, and all later ones behind
// it. The place is therefore exact, and a recovery may branch there. Read after its loss was reported, other connections
// may have overtaken it: it is ignored. Only answered *and* read markers are ever committed to (design, section 5).
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Shards;

/// <summary>The commit protocol of one shard. Not thread-safe. Source: DPR, sections 3.2 and 4.2; design, sections 3 to 5.</summary>
public sealed partial class ShardMachine
{
    private readonly ShardOptions _options;
    private readonly ShardMutation _mutation;
    private VersionGrid _grid;
    private long _gridValidUntilUs = long.MaxValue;
    private ShardMode _mode;
    private bool _storeAttached;
    private bool _everRan;
    private WorldLine _worldLine;
    private HybridTimestamp _now;

    private VersionNumber _open;                 // of what is forwarded now
    private VersionNumber _lowest;               // the lowest version that what is forwarded now could still fall into
    private VersionNumber _atLeast;              // fast-forward target
    private VersionNumber _awaitedEnd;           // peers: up to the end of this version requests may have been forwarded
    private VersionNumber _forwardedIn;          // the last version that is known to have an operation
    private bool _dirty;                   // something happened that no marker on its way or counted boundary covers
    private Marker? _inFlight;
    private bool _answered;
    private bool _read;
    private long _stride;
    private StrideControl _strides = new();
    private VersionNumber _floor;                // from here to the last boundary no multiple of the stride was skipped
    private bool _floorIsNext;             // nothing before the next boundary can be restored
    private long _markersFailed;

    private Boundary _last;           // last appended to the log: the next must lie behind it
    private long _catchUpTarget;

    /// <summary>Starts the protocol from what the log and the metadata prove.</summary>
    /// <exception cref="ArgumentException">The recorded cut is not covered by the log, or mode is None.</exception>
    public ShardMachine(ShardOptions options, in ShardStart start)
        : this(options, start, ShardMutation.None)
    {
    }

    internal ShardMachine(ShardOptions options, in ShardStart start, ShardMutation mutation)
    {
        if (options.Mode == CommitMode.None) throw new ArgumentException("There is nothing to commit in mode none.", nameof(options));
        if (start.Recorded.WorldLine != start.Last.WorldLine || start.Recorded.Version > start.Last.Version)
            throw new ArgumentException($"Shard {options.Shard}: {start.Recorded}, recorded as durable, is not covered by the log, "
                + $"which ends at {start.Last.Point}.", nameof(start));
        if (start.Cut.WorldLine != start.Recorded.WorldLine || start.Cut > start.Recorded)
            throw new ArgumentException($"Shard {options.Shard}: the recorded cut {start.Cut} is not covered by what the shard "
                + $"has recorded, {start.Recorded}.", nameof(start));
        if (!long.IsPow2(options.StrideMin) || options.StrideMin > options.StrideMax)
            throw new ArgumentException($"Strides are powers of two: between {options.StrideMin} and {options.StrideMax} there is none "
                + "to begin with.", nameof(options));
        _options = options;
        _stride = options.StrideMin;
        _mutation = mutation;
        _grid = start.Grid;
        _gridValidUntilUs = start.GridValidUntilUs ?? long.MaxValue;
        _worldLine = start.Last.WorldLine;
        _now = start.Now;
        _last = start.Last;
        _counted = _durable = _syncRequested = start.Last.Version;
        _floor = start.Last.Version;
        _recorded = start.Recorded;
        _committed = start.Cut;
        // Where the world-line branched off is not known here: not above its recorded cut.
        _branch = start.Cut.Version;
        _open = _lowest = VersionNumber.Max(SlotAt(_now), _last.Version.Next);
        // What lies behind the last boundary is not known here, if nobody says so: only a marker can tell.
        _dirty = !start.IsClean;
        _lastAppendUs = _now.Microseconds;
        _stageAnswered = _stageRead = _stageDurable = new(_last.Version, default);
        _stageRecorded = new(_recorded.Version, default);
        _stageCommitted = new(_committed.Version, default);
    }

    /// <summary>What the shard is doing.</summary>
    public ShardMode Mode => _mode;

    /// <summary>Its timeline.</summary>
    public WorldLine WorldLine => _worldLine;

    /// <summary>The version of what is forwarded now; never decreases. Also the upper bound of a reply that arrives now.</summary>
    public VersionNumber OpenVersion => _open;

    /// <summary>What was done until now, by anybody, is in this version or in an earlier one. While the caller rests
    /// (<see cref="MayRest"/>) that is a later one than <see cref="OpenVersion"/>.</summary>
    public VersionNumber OpenBy(HybridTimestamp now) => VersionNumber.Max(_open, SlotAt(now));

    /// <summary>The lower bound of a blocked operation that is forwarded now: the version after the last marker that is
    /// known to have been executed.</summary>
    public VersionNumber LowestVersion => _lowest;

    /// <summary>Every how many versions one is closed (1 in mode Log of a shard alone).</summary>
    public long Stride => _stride;

    /// <summary>Whether all that was forwarded is in versions that are durable.</summary>
    public bool IsClosed => _storeAttached && !_dirty && _inFlight is null && _durable >= _last.Version;

    /// <summary>Whether only a marker (or save) can close the version that is open: something was done in it, or may have been.</summary>
    public bool NeedsMarker => _dirty;

    /// <summary>Whether a <see cref="Tick"/> may come later than once per version slot, if it comes before anything is forwarded: all that
    /// was done is closed, nobody waits, and no step is due when some time is over. Versions that end meanwhile pass in one step, empty.
    /// Not for longer than a second.</summary>
    public bool MayRest => _mode == ShardMode.Running && _storeAttached && !_dirty && _inFlight is null && !_awaited && !_repliesAwaited
        && _atLeast <= _open && _syncRequested >= _last.Version
        && (_recording is not null || _recorded.Version >= VersionNumber.Min(_durable, _counted));

    /// <summary>Whether operations of clients may be forwarded.</summary>
    public bool MayForward => _mode == ShardMode.Running;

    /// <summary>Whether a marker (or save) is on its way.</summary>
    public bool MarkerInFlight => _inFlight is not null;

    /// <summary>The last boundary handed out for the log.</summary>
    public Boundary LastBoundary => _last;

    /// <summary>Up to here the shard is committed: in the recorded cut.</summary>
    public WorldPoint Committed => _committed;

    /// <summary>The clock grid in force.</summary>
    public VersionGrid Grid => _grid;

    /// <summary>Whether a Tick at this time would close a slot: time to drain dedicated connections, then call Tick.</summary>
    public bool BoundaryDue(HybridTimestamp now) =>
        _inFlight is null && _storeAttached && _mode is ShardMode.Running or ShardMode.Stopping
        && (_mode == ShardMode.Stopping || RoundDown(SlotAt(now).Previous) >= _open);

    /// <summary>The last version that a <see cref="Tick"/> at this time would close, if something was done.</summary>
    public VersionNumber ClosableAt(HybridTimestamp now) => RoundDown(SlotAt(now).Previous);

    /// <summary>When the version that is open then ends, and with it all up to a multiple of the stride: a Tick at that time, with
    /// nothing forwarded since, ends it on time. In microseconds since the Unix epoch, later than now. A shard with peers closes
    /// versions at such times only: what it does later is in no cut of that version elsewhere. Now, if a fast-forward is due: that
    /// ends a version before its time, if nothing can have been forwarded after that.</summary>
    public long NextBoundaryUs(HybridTimestamp now)
    {
        VersionNumber early = RoundDown(VersionNumber.Min(_atLeast, LastKnown).Previous);
        if (Is(ShardMutation.EndsLateVersionsEarly)) _awaitedEnd = default;
        // A version that is open beyond its time holds what others count to later ones: it ends when its end has come, and not before.
        // Nor before the marker on its way is read: what is forwarded until then is of the time at which it is.
        if (_inFlight is null && early >= _open && early >= _awaitedEnd) return now.Microseconds;
        _awaitedEnd = RoundUp(VersionNumber.Max(_open, _grid.VersionAt(now.Microseconds)));
        return _grid.StartOf(_awaitedEnd.Next);
    }

    /// <summary>Time passes. Called by the front-end loop at least once per version slot while Running or Stopping, unless it
    /// <see cref="MayRest"/>, and at least every second otherwise.</summary>
    /// <param name="now">The clock, read after the receive of what was forwarded last; a distinct value at each call.</param>
    /// <param name="busy">Whether, since the last call, anything was forwarded that can have changed something, a two-bound operation was
    /// answered (its upper bound may be the open version, while its effect has not been streamed yet), or anything but markers and
    /// keep-alives was streamed. Claiming too much costs a marker; claiming too little breaks the mapping. An operation
    /// that was forwarded before and is still blocked is not busy.</param>
    /// <param name="effects">Receives what is to be done.</param>
    public void Tick(HybridTimestamp now, bool busy, ShardEffects effects)
    {
        if (now > _now) _now = now;
        if (!Is(ShardMutation.BusyIgnored)) _dirty |= busy;
        if (_mode is ShardMode.Stopped or ShardMode.Halted) return;
        if (_storeAttached && _mode is ShardMode.Running or ShardMode.Stopping && (_inFlight is null || Is(ShardMutation.SecondMarker)))
            CloseSlot(effects);
        RequestSync(effects);
        AdvanceCut(effects);
        FinishIfDone(effects);
    }

    /// <summary>The first <see cref="Tick"/> after a rest, with nothing forwarded since. Versions that have ended meanwhile pass empty: but
    /// none that a change by others than the front end may be in.</summary>
    /// <param name="now">As in <see cref="Tick"/>.</param>
    /// <param name="changedAt">When such a change was noticed; the next Tick is busy then. Null: there was none.</param>
    /// <param name="effects">Receives what is to be done.</param>
    public void Wake(HybridTimestamp now, HybridTimestamp? changedAt, ShardEffects effects) =>
        Tick(changedAt is { } then && then < now && !Is(ShardMutation.ChangePassed) ? then : now, busy: false, effects);

    /// <summary>Something was forwarded in the open version. To be said before the <see cref="Tick"/> that is told by `busy` whether
    /// anything can have changed: a version in which nothing did is closed as an empty one, and yet somebody may wait until it is
    /// committed.</summary>
    public void Forwarded() => _forwardedIn = _open;

    /// <summary>The marker was answered: with an integer (a save: that it has begun), or with an error.</summary>
    public void MarkerAnswered(in Marker marker, bool ok, ShardEffects effects)
    {
        if (IsOver || _inFlight != marker || _answered) return;
        if (!ok)
        {
            if (_read) Violate($"the marker of version {marker.Closed} was refused by the store, yet it is in its replication stream",
                effects);
            else MarkerFailed(dirty: !Is(ShardMutation.RefusedLeavesClean));
            return;
        }

        _answered = true;
        _lowest = marker.Next;
        _stageAnswered = new(marker.Closed, _now);
        if (Is(ShardMutation.OpenMovesAtAnswer)) _open = marker.Next;
        if (_read) CountMarker(effects);
    }

    /// <summary>The connection that carried the marker died before the answer. The version stays open; a later reading of
    /// the marker does not count. To be called before anything is forwarded on another connection.</summary>
    public void MarkerLost(in Marker marker, ShardEffects effects)
    {
        _ = effects;
        if (IsOver || _inFlight != marker || _answered) return;
        if (Is(ShardMutation.LostMarkerCounts)) _answered = true;
        else MarkerFailed(dirty: !Is(ShardMutation.LostLeavesClean));
    }

    /// <summary>A marker was read in the replication stream (mode Log). Any marker with the right channel may be given.</summary>
    /// <param name="marker">What it says.</param>
    /// <param name="offset">The stream's offset after it.</param>
    /// <param name="database">The database selected in the stream there.</param>
    /// <param name="effects">Receives what is to be done.</param>
    public void MarkerRead(in Marker marker, long offset, int database, ShardEffects effects)
    {
        if (IsOver || _options.Mode != CommitMode.Log) return;
        if (_mode == ShardMode.CatchingUp)
        {
            MarkerOfBefore(marker, offset, database, effects);
            StreamRead(offset);
            return;
        }

        if (Is(ShardMutation.AnyMarkerCounts) && _inFlight != marker && marker.WorldLine == _worldLine && marker.Closed > _last.Version)
            AppendBoundary(marker, offset, database, effects);
        if (_inFlight != marker || _read) return;
        if (offset <= _last.Offset)
        {
            Violate($"the marker of version {marker.Closed} was read at offset {offset}, not behind the boundary of version "
                + $"{_last.Version} at {_last.Offset}", effects);
            return;
        }

        MarkerSeen(marker, offset, database, effects);
    }

    /// <summary>The save that was started for this marker has ended (in all modes but Log), or it is certain that it will not.</summary>
    public void SaveCompleted(in Marker marker, bool ok, ShardEffects effects)
    {
        if (IsOver || _options.Mode == CommitMode.Log || _inFlight != marker || _read) return;
        if (!ok)
        {
            MarkerFailed(dirty: true);
            return;
        }

        AdaptStride(marker);
        MarkerSeen(marker, 0, 0, effects);
    }

    /// <summary>Everything below this offset of the stream has been read. Only needed while CatchingUp.</summary>
    public void StreamRead(long offset)
    {
        if (_mode == ShardMode.CatchingUp && offset >= _catchUpTarget) Run();
    }

    /// <summary>The replication link is attached (mode Bgsave: the store answers).</summary>
    /// <param name="streamOffset">The stream continues here; the log has everything before.</param>
    /// <param name="storeOffset">The store's own offset at the moment of attaching.</param>
    public void Attached(long streamOffset, long storeOffset)
    {
        if (IsOver) return;
        _storeAttached = true;
        if (_mode == ShardMode.Stopping || _mode == ShardMode.Running) return;
        // Markers that count by being read alone are those of an incarnation that has no clients any more: once this one has
        // forwarded operations, an old marker could stand behind them.
        bool catchUp = !_everRan && _options.Mode == CommitMode.Log && streamOffset < storeOffset;
        _catchUpTarget = storeOffset;
        if (catchUp) _mode = ShardMode.CatchingUp;
        else Run();
    }

    /// <summary>The log had to be restarted from a checkpoint of the same history, since the store's backlog did not reach
    /// back far enough. A marker on its way may be among what was not read.</summary>
    /// <param name="offset">The checkpoint's offset.</param>
    public void StreamRestarted(long offset)
    {
        if (IsOver) return;
        if (_inFlight is not null) MarkerFailed(dirty: true);
        _dirty = true;
        _last = _last with { Offset = Math.Max(_last.Offset, offset) };
        _empty = default;
        _floorIsNext = true;
        if (_mode == ShardMode.CatchingUp) Run();
    }

    /// <summary>The store died, or cannot be reached. Commits halt until it is attached again (it had not died: the same
    /// world-line goes on) or a new world-line has started.</summary>
    public void StoreLost()
    {
        if (IsOver) return;
        _storeAttached = false;
        if (_inFlight is not null) MarkerFailed(dirty: true);
        if (_mode != ShardMode.Stopping) _mode = ShardMode.StoreLost;
    }

    /// <summary>A new world-line has started: in the metadata, in the log, and the store holds exactly the branch.</summary>
    /// <param name="next">Its number.</param>
    /// <param name="branch">Its first boundary; the version is no less than the recorded cut (invariant I3).</param>
    /// <param name="effects">Receives what is to be done.</param>
    public void WorldLineStarted(WorldLine next, Boundary branch, ShardEffects effects)
    {
        if (IsOver || next <= _worldLine) return;
        if (branch.Version < _committed.Version)
        {
            Violate($"world-line {next} branches at version {branch.Version}, below the recorded cut {_committed}", effects);
            return;
        }

        _worldLine = next;
        _last = branch with { WorldLine = next };
        _empty = default;
        _counted = _durable = _syncRequested = branch.Version;
        _recorded = _committed = _last.Point;
        _branch = _floor = branch.Version;
        _inFlight = null;
        _storeAttached = false;
        _dirty = true;
        VersionNumber slot = VersionNumber.Max(SlotAt(_now), branch.Version.Next);
        _open = Is(ShardMutation.OpenGoesBack) ? branch.Version.Next : VersionNumber.Max(_open, slot);
        _lowest = _open;
        _lastAppendUs = _now.Microseconds;
        if (_mode != ShardMode.Stopping) _mode = ShardMode.Detached;
        _stageAnswered = _stageRead = _stageDurable = _stageRecorded = _stageCommitted = new(branch.Version, _now);
        effects.Add(ShardEffectKind.Committed, point: _committed);
    }

    /// <summary>An ordered end begins: forward nothing more. The last version is closed, synced and recorded; then comes
    /// <see cref="ShardEffectKind.Stopped"/>. Tick goes on being called until then.</summary>
    public void Stopping()
    {
        if (!IsOver) _mode = ShardMode.Stopping;
    }

    /// <summary>The cluster's grid, which may have another stretch. Versions do not go back whatever it says.</summary>
    /// <param name="grid">The grid.</param>
    /// <param name="validUntilUs">Until then, in microseconds since the Unix epoch, no stretch can begin that is not in it. What begins
    /// later is not closed before the grid is known again: others may number it differently by then (invariant I1). What is forwarded
    /// meanwhile is in the version that is open.</param>
    public void GridChanged(VersionGrid grid, long validUntilUs = long.MaxValue)
    {
        _gridValidUntilUs = validUntilUs;
        if (ReferenceEquals(grid, _grid)) return;
        _grid = grid;
        // A fast-forward was meant in the old one: its number could be an hour away now. Whoever still needs it asks again.
        _atLeast = VersionNumber.Min(_atLeast, _open);
        // The end that was given out is a number of the old grid, which may mean another time now.
        AskForEndAgain();
    }

    /// <summary>Makes this version (or a later one) open at the next Tick, ahead of the clock: DPR's fast-forward, when a
    /// session has seen a later version elsewhere (DPR, section 3.2). The caller's clock has to take in when that version opens
    /// (<see cref="HybridClock.TryObserve"/>), and the next process has to continue that clock: nothing else tells it what was
    /// open.</summary>
    public void FastForward(VersionNumber atLeast) => _atLeast = VersionNumber.Max(_atLeast, atLeast);

    private bool IsOver => _mode is ShardMode.Stopped or ShardMode.Halted;

    private bool Is(ShardMutation mutation) => _mutation == mutation;

    private VersionNumber SlotAt(HybridTimestamp time)
    {
        VersionNumber slot = VersionNumber.Max(_grid.VersionAt(time.Microseconds), _atLeast);
        return VersionNumber.Min(slot, LastKnown);
    }

    // The last version that begins at a time for which the grid is valid: it may be open, and those before it closed.
    private VersionNumber LastKnown => Is(ShardMutation.OldGridGoesOn) ? new(long.MaxValue) : _grid.VersionAt(_gridValidUntilUs);

    // Up to when requests have been forwarded is not known any more: nothing is ended before the caller has asked for the next end.
    private void AskForEndAgain()
    {
        if (_awaitedEnd > default(VersionNumber)) _awaitedEnd = new(long.MaxValue);
    }

    private void Run()
    {
        _mode = ShardMode.Running;
        _everRan = true;
    }

    private void Violate(string what, ShardEffects effects)
    {
        _mode = ShardMode.Halted;
        effects.Add(ShardEffectKind.Violation,
            text: $"Shard {_options.Shard}, world-line {_worldLine}: {what}. Nothing more is committed by this process.");
    }
}
