// The replica's handshake up to the answer of PSYNC. The order is Redis's own: AUTH, PING, REPLCONF listening-port, ip-address, capa,
// what kind of RDB is wanted, PSYNC. `capa eof` is always sent: Redis refuses rdb-filter-only without it.
using System.Globalization;
using System.Net.Sockets;
using Slogger.Redis.Connections;
using Slogger.Resp;

namespace Slogger.Redis.Replication;

/// <summary>Which data set comes with a full synchronisation.</summary>
internal enum WantedRdb
{
    Whole,
    Empty,
    OnlyRdb, // the whole data set, and no stream behind it
}

/// <summary>The answer of PSYNC. <see cref="IsFull"/>: an RDB that holds history up to <see cref="Offset"/> follows.</summary>
internal readonly record struct PsyncAnswer(bool IsFull, string ReplicationId, long Offset);

internal static class ReplicationHandshake
{
    /// <exception cref="RedisException">Redis refused a step; the problem tells which trouble it is.</exception>
    public static PsyncAnswer Run(ReplicaSocket socket, RedisEndpoint endpoint, WantedRdb wanted, int listeningPort,
        string? replicationId, long offset)
    {
        try
        {
            if (endpoint.Password is { } password)
            {
                using CommandCounts.Sending? counted = endpoint.Counts?.Send("AUTH");
                string answer = endpoint.User is null ? socket.Ask("AUTH", password) : socket.Ask("AUTH", endpoint.User, password);
                if (answer[0] == '-' && !answer.Contains("without any password configured", StringComparison.Ordinal))
                    throw Refused(endpoint, "AUTH", answer);
            }
            Expect(socket, endpoint, "PING");
            if (listeningPort > 0)
                Expect(socket, endpoint, "REPLCONF", "listening-port", listeningPort.ToString(CultureInfo.InvariantCulture));
            Expect(socket, endpoint, "REPLCONF", "ip-address", ReplicaAddress.Text);
            Expect(socket, endpoint, "REPLCONF", "capa", "eof", "capa", "psync2");
            if (wanted == WantedRdb.Empty)
                Expect(socket, endpoint, "REPLCONF", "rdb-filter-only", "");
            if (wanted == WantedRdb.OnlyRdb)
                Expect(socket, endpoint, "REPLCONF", "rdb-only", "1");
            using CommandCounts.Sending? sending = endpoint.Counts?.Send("PSYNC");
            string reply = replicationId is null
                ? socket.Ask("PSYNC", "?", "-1")
                : socket.Ask("PSYNC", replicationId, (offset + 1).ToString(CultureInfo.InvariantCulture));
            return Parse(endpoint, reply, replicationId, offset);
        }
        catch (Exception e) when (e is IOException or SocketException or ObjectDisposedException)
        {
            throw socket.IsDisposed
                ? new RedisException(RedisProblem.Cancelled, $"Attaching to Redis at {endpoint} was given up.", e)
                : IsTimeout(e)
                    ? new RedisException(RedisProblem.Timeout, $"Redis at {endpoint} did not answer the replication handshake in time.", e)
                    : new RedisException(RedisProblem.Closed, $"The replication connection to Redis at {endpoint} broke: {e.Message}.", e);
        }
    }

    public static bool IsTimeout(Exception e) =>
        (e as SocketException ?? e.InnerException as SocketException)?.SocketErrorCode is SocketError.TimedOut or SocketError.WouldBlock;

    private static PsyncAnswer Parse(RedisEndpoint endpoint, string reply, string? replicationId, long offset)
    {
        string[] words = reply.Split(' ', StringSplitOptions.RemoveEmptyEntries);
        if (words is ["+FULLRESYNC", { Length: 40 } id, var at]
            && long.TryParse(at, NumberStyles.None, CultureInfo.InvariantCulture, out long full))
            return new PsyncAnswer(true, id, full);
        if (words.Length > 0 && words[0] == "+CONTINUE" && replicationId is not null)
            return new PsyncAnswer(false, words.Length > 1 ? words[1] : replicationId, offset);
        throw Refused(endpoint, "PSYNC", reply);
    }

    private static void Expect(ReplicaSocket socket, RedisEndpoint endpoint, params ReadOnlySpan<string> words)
    {
        using CommandCounts.Sending? counted = endpoint.Counts?.Send(words);
        string answer = socket.Ask(words);
        if (answer[0] != '+')
            throw Refused(endpoint, words.Length > 1 ? words[0] + " " + words[1] : words[0], answer);
    }

    private static RedisException Refused(RedisEndpoint endpoint, string step, string answer)
    {
        if (answer[0] != '-')
            return new RedisException(RedisProblem.Protocol, $"Redis at {endpoint} answered {step} with something else than a status.");
        string text = answer[1..];
        RedisProblem problem = RedisProblems.Classify(text);
        if (problem == RedisProblem.CommandFailed)
        {
            problem = text.StartsWith("ERR unknown command", StringComparison.Ordinal)
                || text.StartsWith("ERR Unrecognized REPLCONF", StringComparison.Ordinal) ? RedisProblem.TooOld : RedisProblem.NotNow;
        }
        return new RedisException(problem, $"Redis at {endpoint} refused {step}: {text}.");
    }
}
