// Checkpoints of the running store, so that a restore has not much of the log to replay, and what may be deleted behind them.
using Slogger.Core.WorldLines;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;
using Slogger.Redis.Replication;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard
{
    private const int KeptAtCut = 2;
    // A tail that a restore replays in a fifth of a second or so needs no checkpoint.
    private const long SmallTailBytes = 8L << 20;
    private const int SmallTailShare = 8;
    // Of the time, at most one part in so many goes into checkpoints that no setting asks for.
    private const int EarlyCheckpointShare = 30;
    private const long EarlyCheckpointMicroseconds = 30_000_000;
    private static readonly TimeSpan StopCheckpointLimit = TimeSpan.FromSeconds(10);
    private CheckpointStore _checkpoints = null!;
    private long _nextCheckpoint;
    private long _nextEarlyCheckpoint;

    // What a restore would have to replay on top of the newest checkpoint.
    private long TailBytes => _log.EndOffset - (_checkpoints.All.Count > 0 ? _checkpoints.All[^1].Offset : _log.StartOffset);

    protected override async Task MaintainAsync(CancellationToken stop)
    {
        NoteIdentity();
        await base.MaintainAsync(stop).ConfigureAwait(false);
        await KeepUnloggedAsync(stop).ConfigureAwait(false);
        await MaintainSeedAsync(stop).ConfigureAwait(false);
        if (IsOpen && IsCheckpointDue()) { await TakeCheckpointAsync(stop).ConfigureAwait(false); }
    }

    // To replay the log takes longer than to load what it left. So a checkpoint comes early, too, when the tail is no longer
    // small beside the newest one, unless that would be too often.
    private bool IsCheckpointDue()
    {
        long tail = TailBytes;
        long now = MonotonicMicroseconds();
        if (now < _nextCheckpoint) { return false; }
        if (tail >= _options.CheckpointEveryBytes) { return true; }
        long newest = _checkpoints.All.Count > 0 ? _checkpoints.All[^1].Bytes : 0;
        return tail >= Math.Max(SmallTailBytes, newest / SmallTailShare) && now >= _nextEarlyCheckpoint;
    }

    protected override async Task BeforeEndAsync()
    {
        if (TailBytes < SmallTailBytes) { return; }
        // The next start is worth some seconds now.
        using var limit = new CancellationTokenSource(StopCheckpointLimit);
        try
        {
            await TakeCheckpointAsync(limit.Token).ConfigureAwait(false);
        }
        catch (Exception e) when (e is RedisException or LogException or IOException or OperationCanceledException)
        {
            _report.Warn($"shard {_options.Shard}: no checkpoint could be taken at the end: {e.Message}");
        }
    }

    private async Task<bool> TakeCheckpointAsync(CancellationToken stop)
    {
        // One at a time: the control task's and the one at the end change the same setting of Redis, and put it back.
        await _checkpointing.WaitAsync(stop).ConfigureAwait(false);
        long began = MonotonicMicroseconds();
        bool taken = false;
        try
        {
            return taken = await FetchCheckpointAsync(stop).ConfigureAwait(false);
        }
        catch (Exception e) when (e is LogIOException { IsFatal: false } or IOException)
        {
            _report.Warn($"shard {_options.Shard}: no checkpoint could be kept, so the log grows until one can: {e.Message}");
            return false;
        }
        finally
        {
            long now = MonotonicMicroseconds();
            if (!taken) { _nextCheckpoint = now + EarlyCheckpointMicroseconds; }
            _nextEarlyCheckpoint = now + Math.Max(EarlyCheckpointMicroseconds, (now - began) * EarlyCheckpointShare);
            _checkpointing.Release();
        }
    }

    private async Task<bool> FetchCheckpointAsync(CancellationToken stop)
    {
        string file = _checkpoints.NewTemporaryPath();
        await using RedisConnection control = await RedisConnection.ConnectAsync(_fence.Endpoint, cancellation: stop).ConfigureAwait(false);
        switch (await QuickAttach.FetchAsync(control, file, _attachUndoFile, cancellation: stop, onTaken: () => FailPoint.Pass(FailPoint.CheckpointTaken)).ConfigureAwait(false))
        {
            case CheckpointResult.Fetched fetched when fetched.ReplicationId == _log.ReplicationId:
                AddCheckpoint(file, _log.Origin, fetched.ReplicationId, fetched.Offset, IsFollowing ? _log.WorldLine : new WorldLine(WorldLine), IsFollowing ? DatabaseAt(fetched.Offset) : 0);
                _report.Info($"shard {_options.Shard}: checkpoint of {fetched.Bytes} bytes at offset {fetched.Offset}");
                Trim();
                return true;
            case CheckpointResult.Failed failed:
                _report.Warn($"shard {_options.Shard}: no checkpoint could be taken: {failed.Message}");
                return false;
            default:
                // Of another history: the store was lost meanwhile.
                return false;
        }
    }

    private void AddCheckpoint(string file, StreamOrigin origin, string replicationId, long offset, WorldLine line, int database = 0) =>
        _checkpoints.Add(file, new Checkpoint
        {
            Origin = origin,
            ReplicationId = replicationId,
            Offset = offset,
            Database = database,
            WorldLine = line.Number,
            CreatedAt = DateTimeOffset.UtcNow,
        });

    // Behind the recorded cut two checkpoints are kept, and of the log what the budget allows.
    private void Trim()
    {
        if (_log.BoundaryAtOrBelow(RecordedCut.Version) is not { } cut) { return; }
        long spare = _options.LogBudgetBytes - _options.CheckpointEveryBytes;
        if (_checkpoints.Prune(_log, KeptAtCut, Math.Min(cut.Offset, Math.Max(0, _log.EndOffset - spare)), _options.CheckpointEveryBytes) is { } oldest)
        {
            long needed = Math.Min(oldest, ShippedFrom);
            lock (_logLock)
            {
                if (needed > _log.StartOffset) { _log.TrimBefore(needed); }
            }
        }
    }
}
