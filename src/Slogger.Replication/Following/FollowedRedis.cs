// A Redis that follows a stream's log from version to version (StoreFollower): begun from a checkpoint, resumed where it stands after this
// process has died, begun anew when it was lost. The identity that it follows is the log's present one: noted there before Redis hears of
// it, and what the log is continued by once Redis is a master.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using RestoreOptions = Slogger.Redis.Feeding.RestoreOptions;

namespace Slogger.Replication.Following;

/// <summary>The Redis of a stream.</summary>
/// <param name="log">The stream's log.</param>
/// <param name="checkpoints">What it can begin from.</param>
/// <param name="endpoint">The Redis, proved to be this process's.</param>
/// <param name="undoFile">Keeps the settings that promotion returns to.</param>
/// <param name="withLog">Has something done to the log while nothing is appended.</param>
internal sealed class FollowedRedis(VersionLog log, CheckpointStore checkpoints, Func<RedisEndpoint> endpoint, string undoFile,
    Func<Action, Task> withLog) : IFollowedStore
{
    private RedisConnection? _control;
    private FollowedLog? _history;
    private StoreFollower? _follower;
    private long? _promotedAt;

    public bool Follows => _promotedAt is not null
        || (_follower is { Lost.IsCompleted: false } follower && follower.ReplicationId == log.ReplicationId);

    public Task<string>? Lost => _follower?.Lost;

    public bool SettingsAreBack => _follower is { SettingsAreBack: true };

    public long? Offset => _promotedAt ?? _follower?.Offset;

    public async Task<bool> ResumeAsync(bool mayBePromoted, CancellationToken stop)
    {
        if (log.IsEmpty || log.ReplicationId == log.Origin.ReplicationId) { return false; }
        await ResetAsync().ConfigureAwait(false);
        _control = await RedisConnection.ConnectAsync(endpoint(), cancellation: stop).ConfigureAwait(false);
        ProbeResult probe = await RedisProbe.InspectAsync(_control, stop).ConfigureAwait(false);
        if (probe.Facts is not { } facts) { throw new RedisException(probe.Problem, probe.Message); }
        if (mayBePromoted && facts.IsMaster && facts.SecondReplicationId == log.ReplicationId)
        {
            _promotedAt = facts.SecondReplicationOffset - 1;
            return true;
        }
        _history = new FollowedLog(log);
        FollowStart start = await StoreFollower.ResumeAsync(
            _control, log.ReplicationId, _history, log.DurableOffset, Options, stop).ConfigureAwait(false);
        if (start.Follower is null && start.Problem is not (RedisProblem.HistoryGone or RedisProblem.NotMaster))
        {
            throw new RedisException(start.Problem, start.Message);
        }
        _follower = start.Follower;
        return _follower is not null;
    }

    public async Task BringToAsync(Boundary end, CancellationToken stop)
    {
        if (_promotedAt is { } promoted)
        {
            if (promoted != end.Offset)
            {
                throw new RedisException(RedisProblem.HistoryGone,
                    $"Redis was promoted at offset {promoted}, and version {end.Version} ends at {end.Offset}");
            }
            return;
        }
        if (!Follows)
        {
            await BeginAsync(end, stop).ConfigureAwait(false);
            return;
        }
        FollowResult result = await _follower!.BringToAsync(end.Offset, stop).ConfigureAwait(false);
        if (!result.IsThere) { throw new RedisException(result.Problem, result.Message); }
    }

    public void Lose() => _follower?.Lose("has ended.");

    public async Task PromoteAsync(CancellationToken stop)
    {
        if (_promotedAt is not null) { return; }
        RestoreResult result = await _follower!.PromoteAsync(stop).ConfigureAwait(false);
        if (result is RestoreResult.Failed failed) { throw new RedisException(failed.Problem, failed.Message); }
        _promotedAt = _follower.Offset;
    }

    public async ValueTask DisposeAsync() => await ResetAsync().ConfigureAwait(false);

    private RestoreOptions Options => new() { UndoFile = undoFile, Feed = FeedAddress.For(endpoint()) };

    private async Task BeginAsync(Boundary end, CancellationToken stop)
    {
        Checkpoint from = checkpoints.Latest(log, end.Offset)
            ?? throw new LogHistoryChangedException($"there is no checkpoint at or below offset {end.Offset} that the store could begin "
            + "from: have the stream seeded anew (slogger seed)");
        await ResetAsync().ConfigureAwait(false);
        string id = FeedPlan.NewReplicationId();
        await withLog(() => log.SetReplicationId(id)).ConfigureAwait(false);
        _control = await RedisConnection.ConnectAsync(endpoint(), cancellation: stop).ConfigureAwait(false);
        _history = new FollowedLog(log);
        var plan = new FeedPlan { BaseFile = checkpoints.PathOf(from), BaseOffset = from.Offset, TargetOffset = end.Offset,
            History = _history, ReplicationId = id };
        FollowStart start = await StoreFollower.BeginAsync(_control, plan, Options, stop).ConfigureAwait(false);
        _follower = start.Follower ?? throw new RedisException(start.Problem, start.Message);
    }

    private async Task ResetAsync()
    {
        _promotedAt = null;
        if (_follower is { } follower) { await follower.DisposeAsync().ConfigureAwait(false); }
        _history?.Dispose();
        if (_control is { } control) { await control.DisposeAsync().ConfigureAwait(false); }
        (_follower, _history, _control) = (null, null, null);
    }
}
