// Takes the RDB of a full synchronisation off the socket, in both of its framings: `$len` (length known) and `$EOF:mark`
// (ends with a 40-byte mark; Redis sends nothing behind it before the first ACK, so the mark is always the last 40 bytes).
using System.Globalization;
using System.Net.Sockets;
using System.Text;
using Slogger.Redis.Connections;
using Slogger.Redis.Rdb;

namespace Slogger.Redis.Replication;

internal static class RdbReceiver
{
    private const int MarkBytes = 40;

    /// <summary>Reads the RDB into <paramref name="target"/> (null: nowhere), checks it, and returns its size.</summary>
    /// <exception cref="RedisException">The connection broke, the RDB is broken, or the file cannot be written.</exception>
    public static long Receive(ReplicaSocket socket, RedisEndpoint endpoint, RdbTarget? target)
    {
        try
        {
            string head = socket.ReadLine();
            var check = new RdbChecker();
            if (head.StartsWith("$EOF:", StringComparison.Ordinal) && head.Length == 5 + MarkBytes)
                ReceiveMarked(socket, Encoding.ASCII.GetBytes(head[5..]), target, check);
            else if (head[0] == '$' && long.TryParse(head.AsSpan(1), NumberStyles.None, CultureInfo.InvariantCulture, out long length))
                ReceiveCounted(socket, length, target, check);
            else
                throw new RedisException(head[0] == '-' ? RedisProblem.NotNow : RedisProblem.Protocol,
                    $"Redis at {endpoint} sent no RDB but: {head}.");
            if (check.Result() == RdbIntegrity.Broken)
                throw new RedisException(RedisProblem.NotNow, $"The RDB received from Redis at {endpoint} is broken (checksum or header).");
            return check.Bytes;
        }
        catch (Exception e) when (e is IOException or SocketException or ObjectDisposedException)
        {
            throw socket.IsDisposed
                ? new RedisException(RedisProblem.Cancelled, $"Receiving the RDB from Redis at {endpoint} was given up.", e)
                : ReplicationHandshake.IsTimeout(e)
                    ? new RedisException(RedisProblem.Timeout, $"Redis at {endpoint} stopped sending its RDB.", e)
                    : new RedisException(RedisProblem.Closed,
                    $"The replication connection to Redis at {endpoint} broke during the RDB: {e.Message}.", e);
        }
    }

    private static void ReceiveCounted(ReplicaSocket socket, long left, RdbTarget? target, RdbChecker check)
    {
        while (left > 0)
        {
            if (socket.Unread.IsEmpty)
                socket.Fill();
            int take = (int)Math.Min(left, socket.Unread.Length);
            Take(socket, take, target, check);
            left -= take;
        }
    }

    private static void ReceiveMarked(ReplicaSocket socket, byte[] mark, RdbTarget? target, RdbChecker check)
    {
        while (true)
        {
            int have = socket.Unread.Length;
            if (have >= MarkBytes)
            {
                bool ended = socket.Unread[^MarkBytes..].SequenceEqual(mark);
                Take(socket, have - MarkBytes, target, check);
                if (ended)
                {
                    socket.Consume(MarkBytes);
                    return;
                }
            }
            socket.Fill();
        }
    }

    private static void Take(ReplicaSocket socket, int count, RdbTarget? target, RdbChecker check)
    {
        ReadOnlySpan<byte> bytes = socket.Unread[..count];
        check.Append(bytes);
        target?.Append(bytes);
        socket.Consume(count);
    }
}
