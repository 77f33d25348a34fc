// A shard whose store is a Redis: its connections, proved before they are used (StoreFence); how it is looked at, told from another, and
// fed through its replication link. LogShard and BgsaveShard say what makes its versions durable.
using Slogger.Core.Recovery;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Moves;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Resp;

namespace Slogger.Proxy.Shards;

internal abstract class RedisShard : VersionedShard
{
    private static readonly TimeSpan SameStoreLimit = TimeSpan.FromSeconds(2);
    private readonly Func<RedisEndpoint, IStoreConnector> _connectors;
    private readonly GivenUpConnections _lost = new();
    private bool _lostTold;
    protected readonly string _restoreUndoFile;
    protected readonly string _attachUndoFile;
    protected readonly IRedisStore _redis;
    protected StoreFence _fence = null!;

    /// <summary>The store as it was found last.</summary>
    protected RedisFacts? _facts;

    protected RedisShard(ServeOptions options, ILogger report, IRedisStore store, Func<RedisEndpoint, IStoreConnector> connectors)
        : base(options, report, store)
    {
        _redis = store;
        _connectors = connectors;
        _restoreUndoFile = Path.Combine(options.DataDirectory, "restore-undo.json");
        _attachUndoFile = Path.Combine(options.DataDirectory, "attach-undo.json");
    }

    /// <summary>Whether a replica is one that a restore of ours left so.</summary>
    protected abstract bool IsOwnReplica(RedisFacts facts);

    /// <summary>How a master looks next to what is kept.</summary>
    protected abstract Task<StoreSituation> CompareAsync(RedisFacts facts, WorldLine current, CancellationToken stop);

    // What is sent there by the shard itself is left out of the statistics that clients see.
    protected RedisEndpoint StoreAddress => _redis.Endpoint with { Counts = OwnCommands };

    public override IStoreConnector Connector => _connectors(StoreAddress);

    internal override long KeyCount => _facts?.KeyCount ?? 0;

    internal override string StoreRun => _facts?.RunId ?? "";

    internal override string EmptyStoreName => "an empty Redis";

    internal override void OnTaken() => _fence = new StoreFence(() => StoreAddress, Seat, _report, Membership.OnDeposed);

    internal override RedisEndpoint? Endpoint => _fence.Endpoint;

    internal override Task<byte[]> CommandsAsync(CancellationToken stop) => SlotWatch.CommandsOfAsync(StoreAddress, Seat.Shard, stop);

    internal override async Task MaintainAsync(CancellationToken stop)
    {
        if (IsOpen) { await _fence.KeepAsync(stop).ConfigureAwait(false); }
    }

    /// <inheritdoc />
    public override bool IsFenced => true;

    /// <inheritdoc />
    public override void ProveOwnership(Action proved) => Task.Run(async () =>
    {
        while (true)
        {
            try
            {
                await _fence.ProveAsync(Lifetime.End).ConfigureAwait(false);
                proved();
                return;
            }
            catch (RedisException) when (!HasFailed)
            {
                // A store that is lost is noticed by the connections themselves; one that is only slow is waited for.
                await Task.Delay(ShardRecovery.RetryDelay, Lifetime.End).ConfigureAwait(false);
            }
            catch (OperationCanceledException) when (Lifetime.Ending.IsCancellationRequested)
            {
                return;
            }
            catch (Exception e)
            {
                // Nobody would be let in any more.
                Fail(ProxyExit.Failed(e is MetadataException ? $"the metadata failed: {e.Message}" : $"shard {Seat.Shard}: {e}", ""));
                return;
            }
        }
    });

    internal override async Task<bool> IsSameStoreAsync(CancellationToken stop)
    {
        if (_redis.IsEnding) { return false; }
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(stop);
        limit.CancelAfter(SameStoreLimit);
        try
        {
            ProbeResult now = await RedisProbe.InspectAsync(StoreAddress, cancellation: limit.Token).ConfigureAwait(false);
            return (now.IsUsable || (IsFollowing && now.Problem == RedisProblem.NotMaster)) && now.Facts!.RunId == _facts?.RunId;
        }
        catch (OperationCanceledException) when (!stop.IsCancellationRequested)
        {
            return false;
        }
    }

    // ---- Connections of the front end that were lost ----

    /// <inheritdoc />
    public override void CarrierLost(ClientLine? connection)
    {
        if (connection is null) { WarnOfLost("Redis does not say which it was. Allow +client|info"); }
        else { _lost.Add(connection); }
    }

    // Not proved before: it was this process's own, and nobody else's is hit.
    internal override async Task EndLostAsync(CancellationToken stop)
    {
        if (_lost.IsEmpty) { return; }
        await using RedisPipeline redis = await RedisPipeline.ConnectAsync(StoreAddress, SameStoreLimit, stop).ConfigureAwait(false);
        if (await _lost.EndAsync(redis, stop).ConfigureAwait(false) is { } refusal)
        {
            WarnOfLost($"Redis does not end it ({refusal}). Allow the proxy's user +client|kill");
        }
    }

    private void WarnOfLost(string why)
    {
        if (_lostTold) { return; }
        _lostTold = true;
        _report.Warn($"shard {_options.Shard}: requests of a connection that broke may be executed late, and be counted to "
            + $"another version: {why}");
    }

    internal override void EndBlocked(IReadOnlyList<(long Id, string Address)> connections, CancellationToken stop) =>
        _ = BlockedCommands.EndAsync(_fence.Endpoint, connections, stop);

    // ---- Looking at it, and feeding it ----

    internal override async Task<(StoreSituation Situation, string Text)> LookAsync(bool atStart, WorldLine current,
        CancellationToken stop)
    {
        ProbeResult probe = await ProbeAsync(stop).ConfigureAwait(false);
        if ((probe.IsUsable || probe.Problem == RedisProblem.NotMaster) && !_fence.HasShutOut)
        {
            await _fence.ShutOutAsync(stop).ConfigureAwait(false);
            probe = await ProbeAsync(stop).ConfigureAwait(false);
        }
        if (probe.Facts is not { } facts || (!probe.IsUsable && probe.Problem != RedisProblem.NotMaster))
        {
            if (atStart && !probe.Problem.IsTransient())
            {
                throw new RecoveryRefusedException($"{probe.Message} {probe.Problem.Remedy()}");
            }
            return (StoreSituation.Unreachable, probe.Message);
        }
        if (facts.IsMaster)
        {
            await PutSettingsBackAsync(stop).ConfigureAwait(false);
            return (await CompareAsync(facts, current, stop).ConfigureAwait(false), "");
        }
        // A restore of ours that was cut short leaves Redis so; any other replica is somebody else's.
        if (IsOwnReplica(facts) || _store.IsSupervised) { return (StoreSituation.BehindKnownOrigin, ""); }
        throw new RecoveryRefusedException($"{probe.Message} {probe.Problem.Remedy()}");
    }

    // What a process has left changed that died in between. Of a replica it is left to the restore that makes it a master.
    private async Task PutSettingsBackAsync(CancellationToken stop)
    {
        foreach (string file in (string[])[_restoreUndoFile, _attachUndoFile])
        {
            if (!File.Exists(file) || (file == _restoreUndoFile && Follower.SettingsAreBack)) { continue; }
            try
            {
                await using RedisConnection control = await RedisConnection.ConnectAsync(
                    _fence.Endpoint, cancellation: stop).ConfigureAwait(false);
                if (await ConfigScope.UndoAsync(control, file, stop).ConfigureAwait(false))
                {
                    _report.Info($"shard {_options.Shard}: settings of {_store.Name} that a proxy had changed for a moment, and could not "
                        + "put back, are as before");
                }
            }
            catch (Exception e) when (e is RedisException or IOException or UnauthorizedAccessException)
            {
                // The file stays: the next look tries again.
                _report.Warn($"shard {_options.Shard}: settings of {_store.Name} that a proxy had changed cannot be put back: {e.Message} "
                    + $"They are in {file}");
            }
        }
    }

    protected async Task<ProbeResult> ProbeAsync(CancellationToken stop)
    {
        CommandCounts.Mark mark = OwnCommands.TakeMark();
        ProbeResult probe = await RedisProbe.InspectAsync(StoreAddress, cancellation: stop).ConfigureAwait(false);
        if (probe.Facts is { } now && _facts is { } before && now.RunId != before.RunId)
        {
            _lost.Clear();
            // This Redis has counted from its start on, the probe too.
            OwnCommands.Clear(mark);
        }
        _facts = probe.Facts ?? _facts;
        return probe;
    }

    /// <summary>Records what the target of the plan stands for, and feeds the store up to it. False: look again.</summary>
    protected async Task<bool> FeedAsync(FeedPlan plan, WorldPoint target, CancellationToken stop)
    {
        await Seat.RecordOriginAsync(plan.ReplicationId, plan.TargetOffset, target, stop).ConfigureAwait(false);
        FailPoint.Pass(FailPoint.OriginRecorded);
        await using RedisConnection control = await RedisConnection.ConnectAsync(_fence.Endpoint, cancellation: stop).ConfigureAwait(false);
        var how = new Redis.Feeding.RestoreOptions { UndoFile = _restoreUndoFile, Feed = FeedAddress.For(StoreAddress) };
        if (await RedisRestore.RunAsync(control, plan, FailPoint.Watched(how),
            stop).ConfigureAwait(false) is not RestoreResult.Failed failed)
        {
            FailPoint.Pass(FailPoint.Restored);
            return true;
        }
        await WaitOutAsync(failed.Problem, $"{_store.Name} could not be restored: {failed.Message}", stop).ConfigureAwait(false);
        _report.Warn($"shard {_options.Shard}: the restore was interrupted: {failed.Message}");
        return false;
    }

    /// <summary>Trouble that passes is waited out before the store is looked at again; any other is for a person.</summary>
    protected static async Task WaitOutAsync(RedisProblem problem, string message, CancellationToken stop)
    {
        // What was given up since the proxy stops is no trouble.
        stop.ThrowIfCancellationRequested();
        if (!problem.IsTransient()) { throw new RecoveryRefusedException(message); }
        await Task.Delay(ShardRecovery.RetryDelay, stop).ConfigureAwait(false);
    }

    internal override Task LookAgainAsync(CancellationToken stop) => ProbeAsync(stop);

    public override void Dispose()
    {
        base.Dispose();
        _fence?.Dispose();
    }
}
