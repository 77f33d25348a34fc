// Keys of several shards that are cut into ranges: what becomes of each request is what a slow reference says, however its bytes come.
using System.Text;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Shards;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Tests.Harness;

namespace Slogger.Proxy.Tests.FrontEnd;

/// <summary>Two proxies that are two shards, with five ranges: 0 to 2 and 3 to 4, by rounding.</summary>
public sealed class RangeServers : IDisposable
{
    public static readonly string[] Splits = ["b", "m", "m0", "x"];
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-ra-").FullName;
    private readonly List<IDisposable> _servers = [];

    public RangeServers()
    {
        Partitioning partitions = Partitioning.ByRange(Splits.Select(s => (ReadOnlyMemory<byte>)Encoding.ASCII.GetBytes(s)), out _)!;
        Proxies = [.. Enumerable.Range(0, 2).Select(shard => Keep(new TestProxy(Keep(new RedisServer()), TransportKind.Auto, o => o with
        {
            Commit = CommitMode.Log,
            Shards = 2,
            Shard = new ShardId(shard),
            Partitions = partitions,
            Metadata = MetadataSpec.SqliteFile(Path.Combine(_directory, "m")),
        })))];
        foreach (TestProxy proxy in Proxies)
        {
            using RespConnection connection = proxy.Connect();
            for (int i = 0; !connection.Call("CLUSTER", "INFO").Contains("cluster_state:ok", StringComparison.Ordinal); i++)
            {
                Assert.True(i < 2000, proxy.Log);
                Thread.Sleep(20);
            }
        }
    }

    internal TestProxy[] Proxies { get; }

    public void Dispose()
    {
        foreach (IDisposable server in Enumerable.Reverse(_servers)) { server.Dispose(); }
        Directory.Delete(_directory, recursive: true);
    }

    private T Keep<T>(T server)
        where T : IDisposable
    {
        _servers.Add(server);
        return server;
    }
}

public sealed class RangeTests(RangeServers servers, ITestOutputHelper output) : IClassFixture<RangeServers>
{
    private const int LastOfFirst = 2;

    [Theory]
    [InlineData("SET a 1|GET a|SET bb 1|GET m0|GET m/", "+OK|$1|+OK|MOVED 3|$-1")]
    [InlineData("MGET a aa|MGET a b|MGET {z}a {z}b|MGET x y|MSET b 1 lll 2|MSET b 1 m 2", "*2|CROSSSLOT|MOVED 4|MOVED 4|+OK|CROSSSLOT")]
    [InlineData("MULTI|SET b 1|SET c 2|EXEC|MULTI|SET b 1|SET m 2|EXEC|MULTI|SET x 1|EXEC",
        "+OK|+QUEUED|+QUEUED|*2|+OK|+QUEUED|+QUEUED|CROSSSLOT|+OK|MOVED 4|EXECABORT")]
    [InlineData("EVAL x 1 x|EVAL 'return' 2 b c|EVAL x 2 b m|OBJECT ENCODING x|XREAD STREAMS b m 0 0|BLPOP x 1|COPY b x",
        "MOVED 4|ERR|CROSSSLOT|MOVED 4|CROSSSLOT|MOVED 4|CROSSSLOT")]
    [InlineData("CLUSTER KEYSLOT a|CLUSTER KEYSLOT m0z|CLUSTER KEYSLOT {a}z|CLUSTER GETKEYSINSLOT 5 1|CLUSTER COUNTKEYSINSLOT 4",
        ":0|:3|:4|ERR|:0")]
    [InlineData("SSUBSCRIBE x|SPUBLISH x m|SPUBLISH b m|WATCH b c|WATCH x", "MOVED 4|MOVED 4|:0|+OK|MOVED 4")]
    public void Requests_OfRanges_AreServedSentOnOrRefused(string requests, string expected)
    {
        using RespConnection proxy = servers.Proxies[0].Connect();
        string[] replies = [.. requests.Split('|').Select(r => proxy.Call(r.Split(' ')))];
        foreach ((string reply, string begins) in replies.Zip(expected.Split('|')))
        {
            Assert.StartsWith(char.IsAsciiLetter(begins[0]) ? "-" + begins : begins, reply, StringComparison.Ordinal);
            if (begins.StartsWith("MOVED", StringComparison.Ordinal))
            {
                Assert.Equal($"-{begins} 127.0.0.1:{servers.Proxies[1].Port}\r\n", reply);
            }
        }
    }

    [Fact]
    public void Pipeline_OfOwnAndForeignRanges_IsAnsweredAsASlowReferenceSays()
    {
        for (int seed = 1; seed <= 20; seed++)
        {
            output.WriteLine($"seed {seed}");
            var random = new Random(seed);
            using RespConnection proxy = servers.Proxies[0].Connect();
            var bytes = new List<byte>();
            var expected = new List<string>();
            for (int i = 0; i < 300; i++)
            {
                string[] keys = [RandomKey(random), RandomKey(random)];
                string[] request = random.Next(4) switch
                {
                    0 => ["EVAL", $"return {i}", "2", .. keys],
                    1 => ["DEL", .. keys],
                    2 => ["SET", keys[0], new string('v', random.Next(200))],
                    _ => ["ECHO", $"{i}"],
                };
                int first = Slow(keys[0]), second = request[0] == "SET" ? first : Slow(keys[1]);
                expected.Add(request[0] == "ECHO" ? $"${$"{i}".Length}\r\n{i}\r\n"
                    : first != second ? "-CROSSSLOT Keys in request are not in the same range partition\r\n"
                    : first > LastOfFirst ? $"-MOVED {first} 127.0.0.1:{servers.Proxies[1].Port}\r\n"
                    : request[0] == "SET" ? "+OK\r\n" : request[0] == "EVAL" ? $":{i}\r\n" : ":");
                bytes.AddRange(RespConnection.Request(request));
            }
            for (int at = 0; at < bytes.Count;)
            {
                int count = Math.Min(random.Next(1, random.Next(2) == 0 ? 30 : 3000), bytes.Count - at);
                proxy.SendRaw(bytes.GetRange(at, count).ToArray());
                at += count;
            }
            foreach (string reply in expected)
            {
                string found = proxy.Read();
                Assert.True(reply == ":" ? found[0] == ':' : reply == found, $"{found} in place of {reply}");
            }
        }
    }

    [Fact]
    public void Pipeline_CutAnywhere_HasTheSameAnswers()
    {
        byte[] bytes = [.. RespConnection.Request("GET", "x"), .. RespConnection.Request("ECHO", "1"),
            .. RespConnection.Request("MGET", "b", "m"), .. RespConnection.Request("EXISTS", "lll", "c")];
        string[] expected = [$"-MOVED 4 127.0.0.1:{servers.Proxies[1].Port}\r\n", "$1\r\n1\r\n",
            "-CROSSSLOT Keys in request are not in the same range partition\r\n", ":"];
        using RespConnection proxy = servers.Proxies[0].Connect();
        for (int cut = 1; cut < bytes.Length; cut++)
        {
            proxy.SendRaw(bytes[..cut]);
            // So that the pieces are read apart, mostly.
            Thread.Sleep(1);
            proxy.SendRaw(bytes[cut..]);
            foreach (string reply in expected) { Assert.StartsWith(reply, proxy.Read(), StringComparison.Ordinal); }
        }
    }

    [Fact]
    public void Partitions_OfAProxyWithoutVersions_AreHash()
    {
        using var store = new RedisServer();
        using var alone = new TestProxy(store, TransportKind.Auto);
        using RespConnection proxy = alone.Connect();
        Assert.Equal("*2\r\n$4\r\nhash\r\n*0\r\n", proxy.Call("DPR.PARTITIONS"));
        Assert.StartsWith("-ERR wrong number of arguments", proxy.Call("DPR.PARTITIONS", "x"), StringComparison.Ordinal);
    }

    private static int Slow(string key) => RangeServers.Splits.Count(s => string.CompareOrdinal(s, key) <= 0);

    // Often a split key, or what begins with one.
    private static string RandomKey(Random random) =>
        string.Concat(Enumerable.Range(0, random.Next(4)).Select(_ => "abm0x~"[random.Next(6)]));
}
