// How versions are closed: by a marker if anything happened, in runs of empty versions if nothing did.
using Slogger.Core.Time;
using Slogger.Core.Versions;

namespace Slogger.Core.Shards;

public sealed partial class ShardMachine
{
    private long _lastAppendUs;
    // in the present world-line, up to this version nothing has happened since the last boundary; and when that was seen
    private ShardStage _empty;
    private VersionNumber _syncRequested;
    private long _syncRequestedAtUs;
    private bool _unsyncedWrites;

    private void CloseSlot(ShardEffects effects)
    {
        if (_dirty)
        {
            // Requests were forwarded at a time that may have another number in the grid that is to come.
            if (_mode == ShardMode.Stopping && _grid.VersionAt(_now.Microseconds) > LastKnown && !Is(ShardMutation.EndsLateVersionsEarly))
                return;
            VersionNumber slot = _mode == ShardMode.Stopping ? VersionNumber.Max(SlotAt(_now), LastForwarded().Next) : SlotAt(_now);
            // All that is not closed yet is closed with it, up to the last version that this store can be restored to. The
            // label of what was forwarded last must be within, or the boundary would say less than it holds.
            VersionNumber closed = RoundDown(slot.Previous);
            bool covers = closed >= _open || (Is(ShardMutation.StrideIgnoresLabels) && closed > _last.Version);
            // The stride may have grown since that end was given out: what was forwarded up to it is not all in this version.
            if (_mode == ShardMode.Running && closed < _awaitedEnd && !Is(ShardMutation.LateEndIsNoMatter)) return;
            if (slot > _open && covers) SendMarker(new(_worldLine, closed, slot, _now), effects);
            return;
        }

        // Nothing has changed since the last boundary, and nothing forwarded from now on can fall into the slots passed.
        if (_mode == ShardMode.Running && SlotAt(_now) > _open)
        {
            _open = _lowest = SlotAt(_now);
            _stageAnswered = _stageRead = new(_open.Previous, _now);
            _empty = new(_open.Previous, _now);
        }

        VersionNumber last = RoundDown(_open.Previous);
        // Others' commits wait for this shard's versions, and its clients for those of what they have read.
        bool due = _mode == ShardMode.Stopping || ((_awaited || _repliesAwaited) && (_options.HasPeers || _forwardedIn > _last.Version))
            || _now.Microseconds - _lastAppendUs >= _options.EmptyRunIntervalUs;
        if (due && last > _last.Version) AppendEmptyRun(last, effects);
    }

    // An ordered end closes the version that is open before its time; one that is open beyond its time holds what others count to later
    // ones.
    private VersionNumber LastForwarded()
    {
        if (_awaitedEnd == default || Is(ShardMutation.EndsLateVersionsEarly)) return RoundUp(_open);
        return RoundUp(VersionNumber.Max(_open, _awaitedEnd.Number == long.MaxValue ? _grid.VersionAt(_now.Microseconds) : _awaitedEnd));
    }

    private void SendMarker(in Marker marker, ShardEffects effects)
    {
        _inFlight = marker;
        _answered = _read = false;
        _dirty = false;
        if (!Is(ShardMutation.OpenMovesAtAnswer)) _open = marker.Next;
        if (Is(ShardMutation.LowestMovesAtSend)) _lowest = marker.Next;
        // Until the answer requests are forwarded, however long that takes.
        if (!Is(ShardMutation.EndsLateVersionsEarly)) AskForEndAgain();
        effects.Add(_options.Mode == CommitMode.Log ? ShardEffectKind.SendMarker : ShardEffectKind.StartSave, marker);
    }

    /// <summary>The version of a refused or lost marker stays open: the next one closes a larger range.</summary>
    private void MarkerFailed(bool dirty)
    {
        _inFlight = null;
        _dirty |= dirty;
        _markersFailed++;
    }

    private void MarkerSeen(in Marker marker, long offset, int database, ShardEffects effects)
    {
        _read = true;
        _stageRead = new(marker.Closed, _now);
        AppendBoundary(marker, offset, database, effects);
        if (_answered) CountMarker(effects);
    }

    private void CountMarker(ShardEffects effects)
    {
        _counted = VersionNumber.Max(_counted, _inFlight!.Value.Closed);
        _inFlight = null;
        AdvanceCut(effects);
    }

    /// <summary>A marker that this process found in the stream on attaching: sent by a process that is gone, whose clients
    /// are gone too. Its place in the stream is all that matters; nothing of this process is in front of it.</summary>
    private void MarkerOfBefore(in Marker marker, long offset, int database, ShardEffects effects)
    {
        if (marker.WorldLine != _worldLine && !Is(ShardMutation.AnyWorldLine)) return;
        if (marker.Closed <= _last.Version || offset <= _last.Offset || offset > _catchUpTarget) return;
        AppendBoundary(marker, offset, database, effects);
        _counted = marker.Closed;
        _open = _lowest = VersionNumber.Max(_open, marker.Next);
        _stageAnswered = _stageRead = new(marker.Closed, _now);
    }

    private void AppendBoundary(in Marker marker, long offset, int database, ShardEffects effects)
    {
        _unsyncedWrites |= _options.Mode != CommitMode.Log || offset - _last.Offset > Marker.StreamBytesMax;
        // Nobody has waited for the versions before those that the marker closes: they end where the last one did, not with these.
        if (_options.Mode == CommitMode.Log && RoundDown(_empty.Version) > _last.Version)
            NoteEmptyRun(RoundDown(_empty.Version), _empty.At, effects);
        NoteGap(marker.Closed);
        _last = new(_worldLine, marker.Closed, offset, database, marker.Time);
        _lastAppendUs = _now.Microseconds;
        effects.Add(ShardEffectKind.AppendBoundary, boundary: _last);
        RequestSync(effects);
    }

    // Several versions are closed at one place: what was done in the later ones is there already, so only the last of them can
    // be restored to.
    private void NoteGap(VersionNumber closed)
    {
        bool skipped = RoundDown(closed.Previous) > _last.Version || _floorIsNext;
        if (skipped && !Is(ShardMutation.GapIsNoFloor)) _floor = closed;
        _floorIsNext = false;
        AdaptStride(closed, skipped);
    }

    private void AdaptStride(VersionNumber closed, bool skipped)
    {
        if (!_options.HasPeers || _options.Mode != CommitMode.Log) return;
        if (_strides.Closed(closed, skipped)) _floor = closed;
        _stride = _strides.Stride;
    }

    private void AppendEmptyRun(VersionNumber last, ShardEffects effects)
    {
        NoteEmptyRun(last, _now, effects);
        RequestSync(effects);
    }

    private void NoteEmptyRun(VersionNumber last, HybridTimestamp time, ShardEffects effects)
    {
        _last = _last with { Version = last, Time = time };
        _lastAppendUs = _now.Microseconds;
        _counted = last;
        if (Is(ShardMutation.RunCountsAtOnce)) _durable = last;
        effects.Add(ShardEffectKind.AppendEmptyRun, boundary: _last);
        AdaptStride(last, skipped: false);
    }

    /// <summary>Has what was appended made durable, at once or when its time has come.</summary>
    private void RequestSync(ShardEffects effects)
    {
        if (_last.Version <= _syncRequested) return;
        long interval = IsHurried(ShardMutation.AwaitedSyncIsPutOff) || (_repliesAwaited && !Is(ShardMutation.AwaitedSyncIsPutOff)) ? 0
            : _unsyncedWrites ? _options.SyncIntervalUs : _options.RecordIntervalUs;
        if (interval > 0 && _now.Microseconds < _syncRequestedAtUs + interval)
        {
            if (Is(ShardMutation.PutOffSyncCounts)) _durable = _last.Version;
            return;
        }

        _syncRequested = _last.Version;
        _syncRequestedAtUs = _now.Microseconds;
        _unsyncedWrites = false;
        effects.Add(ShardEffectKind.RequestSync);
    }

    /// <summary>The stride follows the time that a save takes: the next power of two of slots, so that strides nest.</summary>
    private void AdaptStride(in Marker marker)
    {
        long slots = Math.Max(1, SlotAt(_now).Number - marker.Next.Number + 1);
        long stride = _options.StrideMin;
        while (stride < slots && stride < _options.StrideMax) stride *= 2;
        _stride = stride;
    }

    private VersionNumber RoundDown(VersionNumber version) => new(version.Number - (version.Number % _stride));

    private VersionNumber RoundUp(VersionNumber version) => RoundDown(new(version.Number + _stride - 1));
}
