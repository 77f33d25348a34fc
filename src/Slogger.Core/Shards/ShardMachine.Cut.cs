// How closed versions become durable, recorded, committed: each step only after the one before was reported back.
using Slogger.Core.Time;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Core.Shards;

public sealed partial class ShardMachine
{
    private Version _counted;              // last version whose boundary counts: answered and read, or an empty run
    private Version _durable;              // last version that the log reported durable
    private WorldPoint _recorded;
    private WorldPoint? _recording;        // at most one record on its way; newer points wait and coalesce
    private long _retryAtUs = long.MinValue;
    private long _backoffUs;
    private bool _awaited;
    private ShardStage _stageAnswered;
    private ShardStage _stageRead;
    private ShardStage _stageDurable;
    private ShardStage _stageRecorded;

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

    /// <summary>The metadata holds the point: it is committed.</summary>
    public void CutRecorded(WorldPoint point, ShardEffects effects)
    {
        if (_recording != point) return;
        _recording = null;
        _backoffUs = 0;
        if (IsOver) return;
        if (point.WorldLine != _worldLine)
        {
            // Recorded for the world-line before, just before this one started: the branch must cover it.
            if (point.Version > _recorded.Version)
                Violate($"the metadata recorded {point} although this world-line branched below it", effects);
            if (Is(ShardMutation.OldWorldLineCommitted)) effects.Add(ShardEffectKind.Committed, point: point);
            return;
        }

        _recorded = point;
        _stageRecorded = new(point.Version, _now);
        if (!Is(ShardMutation.CommittedBeforeRecorded)) effects.Add(ShardEffectKind.Committed, point: point);
        AdvanceCut(effects);
    }

    /// <summary>The metadata refused the point for good: another process owns the shard, or the cluster is in another
    /// world-line. This machine never commits again (invariant I6).</summary>
    public void CutRefused(WorldPoint point, string reason, ShardEffects effects)
    {
        if (_recording != point) return;
        _recording = null;
        // While the store is lost the refusal may come from the world-line that this very process has begun to start. If
        // it is not, the start fails, or the next record does.
        if (IsOver || point.WorldLine != _worldLine || !_storeAttached) return;
        Violate($"the metadata refused to record the cut {point}: {reason}", effects);
    }

    /// <summary>The metadata could not be reached, or did not answer: whether it recorded the point is not known. It is
    /// tried again, with what is durable by then, after a pause that doubles each time.</summary>
    public void CutUnavailable(WorldPoint point)
    {
        if (_recording != point) return;
        _recording = null;
        _backoffUs = Math.Clamp(_backoffUs * 2, _options.RecordBackoffMinUs, _options.RecordBackoffMaxUs);
        _retryAtUs = _now.Microseconds + _backoffUs;
    }

    /// <summary>Whether anybody waits for a commit: then each step towards one is taken at once.</summary>
    public void CommitAwaited(bool awaited, ShardEffects effects)
    {
        bool begins = awaited && !_awaited;
        _awaited = awaited;
        if (!begins || IsOver) return;
        RequestSync(effects);
        AdvanceCut(effects);
    }

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
        AnsweredLagUs = LagUs(_stageAnswered, now),
        ReadLagUs = LagUs(_stageRead, now),
        DurableLagUs = LagUs(_stageDurable, now),
        RecordedLagUs = LagUs(_stageRecorded, now),
    };

    private long LagUs(ShardStage stage, HybridTimestamp now) =>
        Math.Max(0, now.Microseconds - _grid.StartOf(stage.Version.Next));

    private void AdvanceCut(ShardEffects effects)
    {
        // Progress halts while it is not known how the store goes on (DPR, section 4.1): the branch will cover what is durable.
        if (IsOver || _mode == ShardMode.StoreLost) return;
        WorldPoint target = new(_worldLine, Is(ShardMutation.RecordBeforeDurable) ? _counted : Version.Min(_durable, _counted));
        long interval = IsHurried(ShardMutation.AwaitedRecordIsPutOff) ? 0 : _options.RecordIntervalUs;
        bool worth = target > _recorded && _now.Microseconds >= _retryAtUs
            && (interval == 0 || _now.Microseconds >= _stageRecorded.At.Microseconds + interval);
        if (_recording is null && worth)
        {
            _recording = target;
            effects.Add(ShardEffectKind.RecordCut, point: target);
            if (Is(ShardMutation.CommittedBeforeRecorded)) effects.Add(ShardEffectKind.Committed, point: target);
        }

        // Without a store there is nothing more to come.
        if (!_storeAttached || Is(ShardMutation.StopsWithoutTick)) FinishIfDone(effects);
    }

    private bool IsHurried(ShardMutation lazy) => (_awaited && !Is(lazy)) || (_mode == ShardMode.Stopping && !Is(ShardMutation.StoppingIsPutOff));

    /// <summary>With a store only a Tick may end: whether anything was done since the last marker is not known before.</summary>
    private void FinishIfDone(ShardEffects effects)
    {
        if (_mode != ShardMode.Stopping) return;
        bool closed = !_storeAttached || (!_dirty && _inFlight is null && RoundDown(_open.Previous) <= _last.Version);
        if (!closed || _recording is not null || _recorded.Version < Version.Min(_last.Version, _counted)) return;
        _mode = ShardMode.Stopped;
        effects.Add(ShardEffectKind.Stopped);
    }
}
