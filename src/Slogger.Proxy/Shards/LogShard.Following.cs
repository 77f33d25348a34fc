// A Redis that follows, as a backup's: how it is found at the start, and compared with the log in a drill.
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Drills;
using Slogger.Redis.Connections;
using Slogger.Redis.Replication;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard
{
    protected internal override VersionLog StreamLog => _log;

    protected internal override CheckpointStore StreamCheckpoints => _checkpoints;

    // ---- The start ----

    protected override async Task FollowAsync(CancellationToken stop)
    {
        await _store.EnsureRunningAsync(stop).ConfigureAwait(false);
        await _fence.ShutOutAsync(stop).ConfigureAwait(false);
        ProbeResult probe = await ProbeAsync(stop).ConfigureAwait(false);
        if (probe.Facts is not { } facts || (!probe.IsUsable && probe.Problem != RedisProblem.NotMaster)) { throw new RecoveryRefusedException($"{probe.Message} {probe.Problem.Remedy()}"); }
        RefuseForeign(facts);
        await TrialRedis.ClearAsync(_options, stop).ConfigureAwait(false);
        await FollowAsync(new FollowedRedis(_log, _checkpoints, () => _fence.Endpoint, _restoreUndoFile, Intake!.WithLogAsync), facts.IsMaster, stop).ConfigureAwait(false);
    }

    // What others have put there is not overwritten unasked.
    private void RefuseForeign(RedisFacts facts)
    {
        bool isOwn = !_log.IsEmpty && (facts.ReplicationId == _log.ReplicationId || facts.SecondReplicationId == _log.ReplicationId);
        if (facts.KeyCount == 0 || isOwn || _store.IsSupervised || File.Exists(_restoreUndoFile) || _options.Seed == SeedSource.FromLog) { return; }
        throw new RecoveryRefusedException(
            $"shard {_options.Shard}: {_store.Name} holds {facts.KeyCount} keys of unknown origin, and a backup's Redis is overwritten by what the primary has. Nothing was changed. Give it another Redis, empty this one (FLUSHALL), or give --seed from-log");
    }

    protected internal override Task LookAtFollowedAsync(CancellationToken stop) => _fence.KeepAsync(stop);

    protected internal override Task OnLoadedAsync(CancellationToken stop) => ProbeAsync(stop);

    protected internal override Task KeepFollowedAsync(CancellationToken stop) =>
        _door.IsOpen && _checkpointer.IsDue ? _checkpointer.TakeAsync(stop) : Task.CompletedTask;

    // ---- Drills ----

    protected internal override async Task<RestoreTrial> CompareAsync(CancellationToken stop) => _options.RedisServerPath is null
        ? RestoreTrial.Impossible("this process knows no redis-server program to restore into, since its Redis is run by others (--redis): restore from a copy of the data directory (slogger restore --redis-server), or have the process run its Redis (--redis-server)")
        : await TrialRedis.CompareAsync(_options, _log, _checkpoints, TakeCopyAsync, stop).ConfigureAwait(false);

    // What the store holds at the version at which it stands: nothing is applied until Redis has forked.
    private async Task<(Boundary? At, string Flaw)> TakeCopyAsync(string file, CancellationToken stop)
    {
        await using RedisConnection control = await RedisConnection.ConnectAsync(_fence.Endpoint, cancellation: stop).ConfigureAwait(false);
        if (await _follower.HoldStandingAsync(stop).ConfigureAwait(false) is not var (end, letGo)) { return (null, $"{_store.Name} stands at no version: it is loaded, or seeded"); }
        try
        {
            CheckpointResult result = await QuickAttach.FetchAsync(control, file, _attachUndoFile, cancellation: stop, onTaken: letGo).ConfigureAwait(false);
            stop.ThrowIfCancellationRequested();
            return result switch
            {
                CheckpointResult.Failed failed => (null, $"what {_store.Name} holds could not be read: {failed.Message}"),
                CheckpointResult.Fetched fetched when fetched.Offset != end.Offset => (null, $"{_store.Name} should stand at offset {end.Offset}, the end of version {end.Version}, and stands at {fetched.Offset}"),
                _ => (end, ""),
            };
        }
        finally
        {
            letGo();
        }
    }
}
