// Takes a checkpoint: the data set as an RDB together with the exact offset of history that it holds, over a replication
// connection of its own that carries nothing else (REPLCONF rdb-only). Redis forks for it.
using Slogger.Redis.Connections;

namespace Slogger.Redis.Replication;

/// <summary>The outcome of fetching a checkpoint: one of the nested records.</summary>
public abstract record CheckpointResult
{
    private CheckpointResult()
    {
    }

    /// <summary>The file is complete, checked and synced (the directory entry is the caller's to sync).</summary>
    /// <param name="ReplicationId">Identity of the stream.</param>
    /// <param name="Offset">Bytes of history that the file holds.</param>
    /// <param name="Bytes">Its size.</param>
    public sealed record Fetched(string ReplicationId, long Offset, long Bytes) : CheckpointResult;

    /// <summary>It did not work; the file is removed.</summary>
    /// <param name="Problem">Why.</param>
    /// <param name="Message">For a person.</param>
    public sealed record Failed(RedisProblem Problem, string Message) : CheckpointResult;
}

/// <summary>Fetches RDB checkpoints.</summary>
public static class CheckpointFetcher
{
    /// <summary>Writes the present data set to <paramref name="path"/>.</summary>
    /// <param name="endpoint">The Redis.</param>
    /// <param name="path">The file; overwritten.</param>
    /// <param name="silenceMax">The longest time without a byte; default 60 s.</param>
    /// <param name="cancellation">Gives up.</param>
    /// <param name="onTaken">Is told as soon as what the file will hold is settled: what Redis is asked from then on is not in it. Must not
    /// block.</param>
    public static async Task<CheckpointResult> FetchAsync(RedisEndpoint endpoint, string path, TimeSpan? silenceMax = null,
        CancellationToken cancellation = default, Action? onTaken = null)
    {
        using var socket = new ReplicaSocket(endpoint, 1 << 20);
        using CancellationTokenRegistration registration = cancellation.Register(socket.Dispose);
        // Long-running and blocking: not for a thread of the pool.
        return await Task.Factory.StartNew(() => Fetch(socket, endpoint, path, silenceMax ?? TimeSpan.FromSeconds(60), onTaken),
            CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default).ConfigureAwait(false);
    }

    private static CheckpointResult Fetch(ReplicaSocket socket, RedisEndpoint endpoint, string path, TimeSpan silenceMax, Action? onTaken)
    {
        try
        {
            socket.Connect(silenceMax < TimeSpan.FromSeconds(5) ? silenceMax : TimeSpan.FromSeconds(5));
            socket.SetReadTimeout(silenceMax);
            PsyncAnswer answer = ReplicationHandshake.Run(socket, endpoint, WantedRdb.OnlyRdb, 0, null, 0);
            if (!answer.IsFull)
                throw new RedisException(
                    RedisProblem.Protocol, $"Redis at {endpoint} answered a request for a full synchronisation with a partial one.");
            // Redis answers with the offset when it forks, and executes nothing in between.
            onTaken?.Invoke();
            long bytes = RdbTarget.Write(path, target => RdbReceiver.Receive(socket, endpoint, target));
            return new CheckpointResult.Fetched(answer.ReplicationId, answer.Offset, bytes);
        }
        catch (RedisException e)
        {
            if (File.Exists(path)) { File.Delete(path); }
            return new CheckpointResult.Failed(socket.IsDisposed ? RedisProblem.Cancelled : e.Problem, e.Message);
        }
    }
}
