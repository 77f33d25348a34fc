// Blocked commands are ended at Redis, so that each has one answer: what it waited for, or that it was ended.
using System.Globalization;
using System.Text;
using Slogger.FrontEnd;
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Moves;

internal static class BlockedCommands
{
    /// <summary>Ends what blocks on some connections, named by their ids, or where that is 0 by their addresses.</summary>
    public static async Task EndAsync(RedisEndpoint store, IReadOnlyList<(long Id, string Address)> connections, CancellationToken stop)
    {
        if (connections.Count == 0) { return; }
        try
        {
            await using RedisPipeline redis = await RedisPipeline.ConnectAsync(store, TimeSpan.FromSeconds(2), stop).ConfigureAwait(false);
            var batch = new RedisBatch().Add("CLIENT"u8.ToArray(), "LIST"u8.ToArray());
            RedisReply list = (await redis.RunAsync(batch, stop).ConfigureAwait(false))[0];
            List<ClientLine> lines = list.IsError ? [] : ClientLine.Parse((byte[])[.. "$0\r\n"u8, .. list.Bytes.Span]);
            batch.Clear();
            foreach ((long id, string address) in connections)
            {
                long known = id != 0 ? id : lines.FirstOrDefault(l => l.Address == address)?.Id ?? 0;
                if (known != 0)
                {
                    batch.Add("CLIENT"u8.ToArray(), "UNBLOCK"u8.ToArray(),
                        Encoding.ASCII.GetBytes(known.ToString(CultureInfo.InvariantCulture)), "ERROR"u8.ToArray());
                }
            }
            if (batch.Count > 0) { await redis.RunAsync(batch, stop).ConfigureAwait(false); }
        }
        catch (Exception e) when (e is RedisException or OperationCanceledException)
        {
            // Tried again until it has taken too long.
        }
    }
}
