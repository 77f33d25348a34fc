// Connections to this shard's Redis that were given up, or lost, with something under way: what they carried may be executed yet. Those of
// moves (the proxy lost patience, or suspects its store) are ended before the next attempt begins, or a key of an attempt before could come
// back after it was deleted; those of the front end before anything goes over the next, or a marker could be executed behind it. A Redis
// that was started again has neither the id nor the address, so nobody else is hit.
using System.Text;
using Slogger.FrontEnd;
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Stores;

/// <summary>The connections given up and not ended yet. Any thread.</summary>
internal sealed class GivenUpConnections
{
    // One is given up at a time; a Redis that executes nothing for so long is in other trouble.
    private const int Most = 64;
    private static readonly byte[] Client = "CLIENT"u8.ToArray(), Info = "INFO"u8.ToArray(), Kill = "KILL"u8.ToArray(), Id =
        "ID"u8.ToArray(), Addr = "ADDR"u8.ToArray();
    private readonly Lock _lock = new();
    private readonly Queue<ClientLine> _lines = new();

    /// <summary>Who a connection is to Redis; null if Redis does not say.</summary>
    public static async Task<ClientLine?> IdentifyAsync(RedisPipeline redis, CancellationToken stop)
    {
        RedisReply reply = (await redis.RunAsync(new RedisBatch().Add(Client, Info), stop).ConfigureAwait(false))[0];
        ThrowIfLater(reply);
        return reply.IsError ? null : ClientLine.Parse((byte[])[.. "$0\r\n"u8, .. reply.Bytes.Span]).FirstOrDefault();
    }

    // Redis does not do it now. What it does not allow at all, or says is over, is not asked for again.
    private static void ThrowIfLater(RedisReply reply)
    {
        if (!reply.IsError) { return; }
        RedisProblem problem = RedisProblems.Classify(reply.Text);
        if (problem.IsTransient())
        {
            throw new RedisException(problem, $"Redis does not end a connection that was given up: {reply.Text}");
        }
    }

    /// <summary>Whether there is none.</summary>
    public bool IsEmpty
    {
        get
        {
            lock (_lock) { return _lines.Count == 0; }
        }
    }

    /// <summary>The Redis that they led to is no more. By a Unix socket all have one address, and the next Redis gives the same ids
    /// again.</summary>
    public void Clear()
    {
        lock (_lock) { _lines.Clear(); }
    }

    /// <summary>What it carried may be executed yet.</summary>
    public void Add(ClientLine connection)
    {
        lock (_lock)
        {
            if (_lines.Count == Most) { _lines.Dequeue(); }
            _lines.Enqueue(connection);
        }
    }

    /// <summary>Returns when nothing of what they carried is executed any more.</summary>
    /// <returns>Null; or Redis's word for that it does not let the proxy end connections, which then stay as they are.</returns>
    /// <exception cref="RedisException">The connection that was to end them failed, or Redis does it later.</exception>
    public async Task<string?> EndAsync(RedisPipeline redis, CancellationToken stop)
    {
        ClientLine[] lines;
        lock (_lock) { lines = [.. _lines]; }
        if (lines.Length == 0) { return null; }
        string? refusal = null;
        var batch = new RedisBatch();
        foreach (ClientLine line in lines)
        {
            batch.Add(Client, Kill, Id, Encoding.ASCII.GetBytes(line["id"]), Addr, Encoding.Latin1.GetBytes(line["addr"]));
        }
        foreach (RedisReply reply in await redis.RunAsync(batch, stop).ConfigureAwait(false))
        {
            ThrowIfLater(reply);
            if (reply.IsError) { refusal = reply.Text; }
        }
        lock (_lock)
        {
            while (_lines.TryPeek(out ClientLine? first) && lines.Contains(first)) { _lines.Dequeue(); }
        }
        return refusal;
    }
}
