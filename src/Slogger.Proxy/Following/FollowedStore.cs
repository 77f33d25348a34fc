// A Redis that follows a stream's log from version to version (StoreFollower): begun from a checkpoint, resumed where it stands after this process has died, begun anew when it was
// lost. The identity that it follows is the log's present one: noted there before Redis hears of it, and what the log is continued by once Redis is a master.
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Proxy.Restoring;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using RestoreOptions = Slogger.Redis.Feeding.RestoreOptions;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Proxy.Following;

/// <summary>The store of a stream. One call at a time.</summary>
/// <param name="log">The stream's log.</param>
/// <param name="checkpoints">What it can begin from.</param>
/// <param name="endpoint">The Redis, proved to be this process's.</param>
/// <param name="undoFile">Keeps the settings that promotion returns to.</param>
/// <param name="withLog">Has something done to the log while nothing is appended.</param>
internal sealed class FollowedStore(VersionLog log, CheckpointStore checkpoints, Func<RedisEndpoint> endpoint, string undoFile, Func<Action, Task> withLog) : IAsyncDisposable
{
    private RedisConnection? _control;
    private FollowedLog? _history;
    private StoreFollower? _follower;
    private long? _promotedAt;

    /// <summary>Whether it follows, or has been promoted where it stood: it can be brought on without loading anything.</summary>
    public bool Follows => _promotedAt is not null || (_follower is { Lost.IsCompleted: false } follower && follower.ReplicationId == log.ReplicationId);

    /// <summary>Completes when Redis does not hold the history any more; null while none follows.</summary>
    public Task<string>? Lost => _follower?.Lost;

    /// <summary>Where it stands in the stream; null: unknown.</summary>
    public long? Offset => _promotedAt ?? _follower?.Offset;

    /// <summary>Goes on with a Redis that has followed for a process before.</summary>
    /// <param name="mayBePromoted">A failover is under way: it may be a master already.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>False: it has to begin from a checkpoint.</returns>
    /// <exception cref="RedisException">It cannot be said now.</exception>
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
        FollowStart start = await StoreFollower.ResumeAsync(_control, log.ReplicationId, _history, log.DurableOffset, Options, stop).ConfigureAwait(false);
        if (start.Follower is null && start.Problem is not (RedisProblem.HistoryGone or RedisProblem.NotMaster)) { throw new RedisException(start.Problem, start.Message); }
        _follower = start.Follower;
        return _follower is not null;
    }

    /// <summary>Brings it to the end of a version: from where it is, or, if it does not follow, from a checkpoint.</summary>
    /// <exception cref="RedisException">It is not there.</exception>
    public async Task BringToAsync(Boundary end, CancellationToken stop)
    {
        if (_promotedAt is { } promoted)
        {
            if (promoted != end.Offset) { throw new RedisException(RedisProblem.HistoryGone, $"Redis was promoted at offset {promoted}, and version {end.Version} ends at {end.Offset}"); }
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

    /// <summary>It has certainly ended: whoever waits for it is told. Any thread.</summary>
    public void Lose() => _follower?.Lose("has ended.");

    /// <summary>Makes it a master where it stands. Again: nothing.</summary>
    /// <exception cref="RedisException">It could not be done.</exception>
    public async Task PromoteAsync(CancellationToken stop)
    {
        if (_promotedAt is not null) { return; }
        RestoreResult result = await _follower!.PromoteAsync(stop).ConfigureAwait(false);
        if (result is RestoreResult.Failed failed) { throw new RedisException(failed.Problem, failed.Message); }
        _promotedAt = _follower.Offset;
    }

    /// <summary>Where in the log an offset is: the last version that ends at or below it, as the first of those that end at the same place; and whether it ends there.
    /// Null: the log does not hold it.</summary>
    public static (Boundary End, bool IsExact)? EndAtOrBelow(VersionLog log, long offset)
    {
        if (log.IsEmpty) { return null; }
        if (log.DurableBoundary is not { } last || Search(log, last.Version, offset) is not { } found)
        {
            return offset < log.Origin.Offset || log.StartOffset > log.Origin.Offset ? null
                : (new(log.FirstWorldLine, log.FirstVersion.Previous, log.Origin.Offset, log.Origin.Database, default), offset == log.Origin.Offset);
        }
        Version first = Search(log, found.Version, found.Offset - 1) is { } before ? before.Version.Next : Version.Max(log.FirstVersion, log.FirstBoundary?.Version ?? found.Version);
        // Of the world-line that has closed it, not of one that has begun there.
        WorldLine line = log.Branches.Where(b => b.Version < first).Select(b => b.WorldLine).Append(log.FirstWorldLine).Max();
        return (found with { Version = first, WorldLine = line }, found.Offset == offset);
    }

    public async ValueTask DisposeAsync() => await ResetAsync().ConfigureAwait(false);

    private RestoreOptions Options => new() { UndoFile = undoFile, Feed = FeedAddress.For(endpoint()) };

    private async Task BeginAsync(Boundary end, CancellationToken stop)
    {
        Checkpoint from = checkpoints.Latest(log, end.Offset)
            ?? throw new LogHistoryChangedException($"there is no checkpoint at or below offset {end.Offset} that the store could begin from: have the stream seeded anew (slogger seed)");
        await ResetAsync().ConfigureAwait(false);
        string id = FeedPlan.NewReplicationId();
        await withLog(() => log.SetReplicationId(id)).ConfigureAwait(false);
        _control = await RedisConnection.ConnectAsync(endpoint(), cancellation: stop).ConfigureAwait(false);
        _history = new FollowedLog(log);
        var plan = new FeedPlan { BaseFile = checkpoints.PathOf(from), BaseOffset = from.Offset, TargetOffset = end.Offset, History = _history, ReplicationId = id };
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

    // The last version that ends at or below an offset.
    private static Boundary? Search(VersionLog log, Version last, long offset)
    {
        Boundary? found = null;
        long low = log.FirstVersion.Number, high = last.Number;
        while (low <= high)
        {
            long middle = low + ((high - low) / 2);
            // Of what has been trimmed nothing is known: it lies below.
            if (log.BoundaryAtOrBelow(new(middle)) is not { } end) { low = middle + 1; }
            else if (end.Offset <= offset)
            {
                found = end;
                low = middle + 1;
            }
            else { high = middle - 1; }
        }
        return found;
    }
}
