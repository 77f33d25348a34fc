// Two redis-servers that are a cluster: what Redis Cluster says and does, to hold ours against. Shared by the classes of one
// collection, which therefore run one after the other.
using System.Net.Sockets;
using System.Runtime.InteropServices;

namespace Slogger.Resp.Tests;

public sealed class ClusterServer() : RedisServer("--cluster-enabled", "yes", "--cluster-require-full-coverage", "no")
{
    /// <summary>The reply to one request, as text.</summary>
    public string Ask(params string[] arguments) => Bytes.Text(AskIn(2, arguments));

    /// <summary>The reply to one request in a protocol. Redis closes a connection that was ended on the other side even if
    /// there is more to send, so it is ended by us only when everything has come.</summary>
    public byte[] AskIn(int protocol, params string[] arguments)
    {
        // A subscriber may not ask for an echo.
        if (arguments[0].EndsWith("SUBSCRIBE", StringComparison.Ordinal)) { return Exchange(Bytes.Request(arguments)); }
        byte[] greeting = protocol == 3 ? [.. Bytes.Request("HELLO", "3"), .. Begin] : Begin;
        string all = Bytes.Text(Talk([.. greeting, .. Bytes.Request(arguments), .. End]));
        int start = all.IndexOf("$5\r\nbegin\r\n", StringComparison.Ordinal) + 11;
        return Bytes.Of(all[start..^9]);
    }

    /// <summary>The replies to several requests.</summary>
    public byte[] AskAll(byte[] requests) => Talk([.. requests, .. End])[..^9];

    private static readonly byte[] Begin = Bytes.Request("ECHO", "begin"), End = Bytes.Request("ECHO", "end");

    private byte[] Talk(ReadOnlySpan<byte> requests)
    {
        using Socket socket = Connect();
        while (!requests.IsEmpty) { requests = requests[socket.Send(requests)..]; }
        var answer = new List<byte>();
        byte[] buffer = new byte[64 << 10];
        while (answer.Count < 9 || !CollectionsMarshal.AsSpan(answer).EndsWith("$3\r\nend\r\n"u8))
        {
            int got = socket.Receive(buffer);
            if (got == 0)
            {
                throw new InvalidOperationException(
                    $"redis-server closed the connection after {Bytes.Show(CollectionsMarshal.AsSpan(answer))}");
            }
            answer.AddRange(buffer.AsSpan(0, got));
        }
        return [.. answer];
    }
}

public sealed class RedisCluster : IDisposable
{
    /// <summary>The first node's slots; the second has the others.</summary>
    public const string FirstSlots = "0 100 102 8000", SecondSlots = "101 101 8001 16383";

    public RedisCluster()
    {
        First = new();
        Second = new();
        First.Ask(["CLUSTER", "ADDSLOTSRANGE", .. FirstSlots.Split(' ')]);
        Second.Ask(["CLUSTER", "ADDSLOTSRANGE", .. SecondSlots.Split(' ')]);
        First.Ask("CLUSTER", "SET-CONFIG-EPOCH", "1");
        Second.Ask("CLUSTER", "SET-CONFIG-EPOCH", "2");
        First.Ask("CLUSTER", "MEET", "127.0.0.1", $"{Second.Port}");
        for (int i = 0; i < 1000; i++)
        {
            if (Knows(First) && Knows(Second)) { return; }
            Thread.Sleep(20);
        }
        throw new InvalidOperationException("the two nodes do not find each other:\n" + First.Ask("CLUSTER", "INFO"));
    }

    public ClusterServer First { get; }

    public ClusterServer Second { get; }

    public void Dispose()
    {
        First.Dispose();
        Second.Dispose();
    }

    private static bool Knows(ClusterServer node)
    {
        string info = node.Ask("CLUSTER", "INFO");
        return info.Contains("cluster_state:ok", StringComparison.Ordinal) && info.Contains("slots_ok:16384", StringComparison.Ordinal)
            && info.Contains("cluster_size:2", StringComparison.Ordinal)
            && node.Ask("CLUSTER", "NODES").Contains(" 8001-16383", StringComparison.Ordinal);
    }
}

[CollectionDefinition(nameof(RedisCluster))]
public sealed class ClusterTests : ICollectionFixture<RedisCluster>;
