// How closed versions become durable, recorded, committed: each step only after the one before was reported back.
using Slogger.Core.Cuts;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Shards;

public sealed partial class ShardMachine
{
    private VersionNumber _counted;              // last version whose boundary counts: answered and read, or an empty run
    private VersionNumber _durable;              // last version that the log reported durable

    /// <summary>What this shard has durable: the newest that it may claim.</summary>
    public WorldPoint Durable => new(_worldLine, VersionNumber.Min(_durable, _counted));
    private WorldPoint _recorded;          // what the metadata holds of this shard as durable
    private WorldPoint _committed;         // the recorded cut, as far as it is known here
    private VersionNumber _branch;               // where this world-line began
    private WorldPoint? _recording;        // at most one record on its way; newer points wait and coalesce
    private long _retryAtUs = long.MinValue;
    private long _backoffUs;
    private bool _awaited;
    private bool _repliesAwaited;
    private ShardStage _stageAnswered;
    private ShardStage _stageRead;
    private ShardStage _stageDurable;
    private ShardStage _stageRecorded;
    private ShardStage _stageCommitted;

    /// <summary>The log (in mode Bgsave: the kept snapshot) can be restored to this point, whatever fails: the base
    /// checkpoint under it included.</summary>
    public void LogDurable(WorldPoint point, ShardEffects effects)
    {
        if (IsOver || (point.WorldLine != _worldLine && !Is(ShardMutation.OldWorldLineDurable))) return;
        if (point.Version <= _durable) return;
        if (point.Version > _last.Version && !Is(ShardMutation.OldWorldLineDurable))
        {
            Violate($"the log says it holds version {point.Version}, which was never appended: the last is {_last.Version}", effects);
            return;
        }

        _durable = point.Version;
        _stageDurable = new(_durable, _now);
        AdvanceCut(effects);
    }

    /// <summary>The metadata holds the point as durable.</summary>
    /// <param name="point">What was to be recorded.</param>
    /// <param name="cut">The recorded cut after it.</param>
    /// <param name="effects">Receives what is to be done.</param>
    public void DurableRecorded(WorldPoint point, WorldPoint cut, ShardEffects effects)
    {
        if (_recording != point) return;
        _recording = null;
        _backoffUs = 0;
        if (IsOver) return;
        if (point.WorldLine == _worldLine)
        {
            _recorded = point;
            _stageRecorded = new(point.Version, _now);
        }

        CutAdvanced(cut, effects);
        AdvanceCut(effects);
    }

    /// <summary>The recorded cut is at least this: all of this shard in it is committed. Any number of times, in any order.</summary>
    public void CutAdvanced(WorldPoint cut, ShardEffects effects)
    {
        if (IsOver) return;
        if (cut.WorldLine < _worldLine)
        {
            if (cut.Version > _branch)
                Violate($"the cut {cut} was recorded although world-line {_worldLine} branched below it, at version {_branch}", effects);
            if (!Is(ShardMutation.OldWorldLineCommitted)) return;
        }
        else if (cut.WorldLine > _worldLine || cut.Version <= _committed.Version)
        {
            return;
        }
        else if (cut.Version > _durable && _options.IsReplicated)
        {
            // Of what another node has claimed, which leads this shard by now.
            Deposed();
            effects.Add(ShardEffectKind.Deposed);
            return;
        }
        else if (cut.Version > _durable)
        {
            Violate($"the cut {cut} was recorded, but this shard has only version {_durable} durable", effects);
            return;
        }

        _committed = cut;
        _stageCommitted = new(cut.Version, _now);
        if (!Is(ShardMutation.CommittedBeforeRecorded)) effects.Add(ShardEffectKind.Committed, point: cut);
    }

    /// <summary>The metadata refused the point: the cluster is in another world-line. Commits halt until this shard has entered
    /// it.</summary>
    public void WorldLineLeft(WorldPoint point)
    {
        if (_recording == point) _recording = null;
        if (point.WorldLine == _worldLine) StoreLost();
    }

    /// <summary>The metadata refused the point for good: another process owns the shard. This machine never commits again
    /// (invariant I6).</summary>
    public void RecordRefused(WorldPoint point, string reason, ShardEffects effects)
    {
        if (_recording != point) return;
        _recording = null;
        // While the store is lost the refusal may come from the world-line that this very process has begun to start. If
        // it is not, the start fails, or the next record does.
        if (IsOver || point.WorldLine != _worldLine || !_storeAttached) return;
        Violate($"the metadata refused to record {point} as durable: {reason}", effects);
    }

    /// <summary>Another process owns the shard, as the metadata says: this machine never commits again (invariant I6).</summary>
    public void Deposed() => _mode = ShardMode.Halted;

    /// <summary>The metadata could not be reached, or did not answer: whether it recorded the point is not known. It is
    /// tried again, with what is durable by then, after a pause that doubles each time.</summary>
    public void RecordUnavailable(WorldPoint point)
    {
        if (_recording != point) return;
        _recording = null;
        _backoffUs = Math.Clamp(_backoffUs * 2, _options.RecordBackoffMinUs, _options.RecordBackoffMaxUs);
        _retryAtUs = _now.Microseconds + _backoffUs;
    }

    /// <summary>Whether anybody waits for a commit: then each step towards one is taken at once.</summary>
    /// <param name="awaited">Whether.</param>
    /// <param name="effects">Receives what is to be done.</param>
    /// <param name="until">For that of which version; by default of any. A step that does not come to it would only be in the way of the
    /// one that does.</param>
    public void CommitAwaited(bool awaited, ShardEffects effects, VersionNumber until = default)
    {
        bool begins = awaited && !_awaited;
        _awaited = awaited;
        if (!begins || IsOver) return;
        if (until <= _last.Version) RequestSync(effects);
        if (until <= _durable) AdvanceCut(effects);
    }

    /// <summary>Whether replies wait until versions are durable: then each step up to there is taken at once. Whether they are recorded
    /// does not concern replies.</summary>
    /// <param name="awaited">Whether.</param>
    /// <param name="effects">Receives what is to be done.</param>
    /// <param name="until">The last version that is waited for.</param>
    public void RepliesAwaited(bool awaited, ShardEffects effects, VersionNumber until)
    {
        bool begins = awaited && !_repliesAwaited;
        _repliesAwaited = awaited;
        if (begins && !IsOver && until <= _last.Version) RequestSync(effects);
    }

    /// <summary>What is to be said of a version that is durable. Below the floor, the version itself is all that is sure to be
    /// restorable; of another world-line too.</summary>
    public DurableClaim ClaimOf(WorldPoint durable) =>
        durable.WorldLine == _worldLine ? new(durable, _stride, VersionNumber.Min(_floor, durable.Version))
            : new(durable, 1, durable.Version);

    /// <summary>A picture for status displays.</summary>
    public ShardStatus StatusAt(HybridTimestamp now) => new()
    {
        Mode = _mode,
        WorldLine = _worldLine,
        OpenVersion = _open,
        Stride = _stride,
        MarkerSentAt = _inFlight?.Time,
        MarkersFailed = _markersFailed,
        Answered = _stageAnswered,
        Read = _stageRead,
        Durable = _stageDurable,
        Recorded = _stageRecorded,
        Committed = _stageCommitted,
        AnsweredLagUs = LagUs(_stageAnswered, now),
        ReadLagUs = LagUs(_stageRead, now),
        DurableLagUs = LagUs(_stageDurable, now),
        RecordedLagUs = LagUs(_stageRecorded, now),
        CommittedLagUs = LagUs(_stageCommitted, now),
    };

    private long LagUs(ShardStage stage, HybridTimestamp now) =>
        Math.Max(0, now.Microseconds - _grid.StartOf(stage.Version.Next));

    private void AdvanceCut(ShardEffects effects)
    {
        // Progress halts while it is not known how the store goes on (DPR, section 4.1): the branch will cover what is durable.
        if (IsOver || _mode == ShardMode.StoreLost) return;
        WorldPoint target = new(_worldLine, Is(ShardMutation.RecordBeforeDurable) ? _counted : VersionNumber.Min(_durable, _counted));
        long interval = IsHurried(ShardMutation.AwaitedRecordIsPutOff) ? 0 : _options.RecordIntervalUs;
        bool worth = target > _recorded && _now.Microseconds >= _retryAtUs
            && (interval == 0 || _now.Microseconds >= _stageRecorded.At.Microseconds + interval);
        if (_recording is null && worth)
        {
            _recording = target;
            // At a floor above it, the version itself is all that is sure to be restorable.
            effects.Add(ShardEffectKind.RecordDurable, point: target, claim: ClaimOf(target));
            if (Is(ShardMutation.CommittedBeforeRecorded)) effects.Add(ShardEffectKind.Committed, point: target);
        }

        // Without a store there is nothing more to come.
        if (!_storeAttached || Is(ShardMutation.StopsWithoutTick)) FinishIfDone(effects);
    }

    private bool IsHurried(ShardMutation lazy) => (_awaited && !Is(lazy))
        || (_mode == ShardMode.Stopping && !Is(ShardMutation.StoppingIsPutOff));

    /// <summary>With a store only a Tick may end: whether anything was done since the last marker is not known before.</summary>
    private void FinishIfDone(ShardEffects effects)
    {
        if (_mode != ShardMode.Stopping) return;
        bool closed = !_storeAttached || (!_dirty && _inFlight is null && RoundDown(_open.Previous) <= _last.Version);
        if (!closed || _recording is not null || _recorded.Version < VersionNumber.Min(_last.Version, _counted)) return;
        _mode = ShardMode.Stopped;
        effects.Add(ShardEffectKind.Stopped);
    }
}
