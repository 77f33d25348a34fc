// Dumps of a shard's Redis, for its checkpoints and for the copies that a backup is seeded with.
//
// Whoever takes, compares or sends one holds the shard's turn meanwhile: each changes the same setting of Redis, and puts it back.
using System.Diagnostics;
using Slogger.Log.Checkpoints;
using Slogger.Redis.Connections;
using Slogger.Redis.Replication;

namespace Slogger.Proxy.Shards;

/// <summary>Takes dumps of one Redis.</summary>
/// <param name="checkpoints">Where their files lie at first.</param>
/// <param name="turn">The shard's turn.</param>
/// <param name="redis">The Redis, where it is now.</param>
/// <param name="undoFile">Says which setting of Redis is to be put back.</param>
internal sealed class RedisDumps(CheckpointStore checkpoints, SemaphoreSlim turn, Func<RedisEndpoint> redis, string undoFile)
    : ICheckpointSource
{
    // Redis sees the end of its child in the next tick of its own clock (100 ms); what runs longer is somebody else's child.
    private static readonly TimeSpan ChildEndMax = TimeSpan.FromSeconds(1);

    /// <inheritdoc />
    public Task TurnAsync(CancellationToken stop) => turn.WaitAsync(stop);

    /// <inheritdoc />
    public void EndTurn() => turn.Release();

    /// <inheritdoc />
    public string NewFile() => checkpoints.NewTemporaryPath();

    /// <inheritdoc />
    public async Task<CheckpointResult> FetchAsync(string file, CancellationToken stop, Action? taken = null)
    {
        await using RedisConnection control = await RedisConnection.ConnectAsync(redis(), cancellation: stop).ConfigureAwait(false);
        return await QuickAttach.FetchAsync(control, file, undoFile, cancellation: stop, onTaken: taken).ConfigureAwait(false);
    }

    /// <summary>Returns when Redis knows that the child has ended that wrote a dump: until then it puts a rewrite of its AOF off.</summary>
    public async Task ChildEndedAsync(CancellationToken stop)
    {
        await using RedisConnection control = await RedisConnection.ConnectAsync(redis(), cancellation: stop).ConfigureAwait(false);
        long began = Stopwatch.GetTimestamp();
        while ((await control.InfoAsync("persistence", stop).ConfigureAwait(false)).GetValueOrDefault("rdb_bgsave_in_progress") == "1"
            && Stopwatch.GetElapsedTime(began) < ChildEndMax)
        {
            await Task.Delay(5, stop).ConfigureAwait(false);
        }
    }
}
