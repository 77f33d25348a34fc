// Keys of several shards: what a node of Redis Cluster answers, the proxy answers, byte for byte but for ports. In the first
// shard's slots are b and c, in the second's a and d.
using System.Text;
using Slogger.Core.Ownership;
using Slogger.Core.Shards;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Tests.Harness;
using Slogger.Resp;

namespace Slogger.Proxy.Tests.FrontEnd;

public sealed class SlotTests(SlotServers servers, ITestOutputHelper output) : IClassFixture<SlotServers>
{
    [Theory]
    [InlineData("SET b 1|GET b|SET a 1|GET a|GET d|GET c")]
    [InlineData("MSET b 1 {b}2 2|MGET b {b}2|MGET b c|MGET b a|MGET a d|MGET a {a}2|DEL b a|EXISTS b c")]
    [InlineData("GET|GET a b|MSET a 1 b|SET a|NOSUCH a|OBJECT|OBJECT ENCODING a|OBJECT ENCODING b|OBJECT NONSENSE a")]
    [InlineData("EVAL x 1 a|EVAL x 2 b c|EVAL x 2 a d|EVALSHA 0000000000000000000000000000000000000000 1 a|FCALL f 1 a|EVAL x 5 a")]
    [InlineData("BLPOP a 0.01|BLPOP b c 0.01|BLPOP b 0.01|XREAD STREAMS a 0|XREAD STREAMS b a 0 0|XREAD BLOCK 1 STREAMS b 0|BLMOVE b a "
        + "LEFT LEFT 0.01")]
    [InlineData("SUNIONSTORE {b}d b|SUNIONSTORE a b|ZUNIONSTORE b 2 {b}1 a|ZUNIONSTORE a 1 {a}1|SORT b STORE a|GEORADIUS a 1 2 3 "
        + "km|SMOVE b a m")]
    [InlineData("SORT b BY w_*|SORT b GET o_*|SORT b GET #|SORT b BY nosort|SORT b LIMIT 0 1|SORT a BY w_*|SORT_RO b GET x|SORT b BY")]
    [InlineData("SELECT 0|SELECT 1|SELECT 99|SELECT x|SELECT|SWAPDB 0 1|SWAPDB 0|MOVE b 1|MOVE a 1|MOVE b|COPY b {b}1 DB 1|COPY b {b}1 DB "
        + "0|COPY b a|COPY b {b}1")]
    [InlineData("MULTI|WATCH b|SET c 1|EXEC|GET c")]
    [InlineData("WATCH b|WATCH a|WATCH b a|UNWATCH|MULTI|SET b 1|EXEC")]
    [InlineData("MULTI|SET b 1|GET b|EXEC|GET b")]
    [InlineData("MULTI|SET b 1|SET a 2|SET b 3|EXEC|GET b|EXEC")]
    [InlineData("MULTI|SET a 1|DISCARD|SET b 1|GET b")]
    [InlineData("MULTI|SET b 1|SET c 2|EXEC|GET b|EXEC")]
    [InlineData("MULTI|SET b 1|SET c 2|DISCARD|GET b|MULTI|SET c 1|GET {c}1|EXEC")]
    [InlineData("MULTI|MGET b c|EXEC|MULTI|PING|EXEC|MULTI|PING|SET c 1|PING|EXEC")]
    [InlineData("SET w 1|WATCH b|MULTI|SET b 1|SET c 2|EXEC|SET b 2|MULTI|SET b 3|EXEC")]
    [InlineData("MULTI|EVAL x 1 a|EXEC|MULTI|EVAL x 1 b|SET c 1|EXEC|MULTI|BLPOP b 1|EXEC|MULTI|WATCH a|EXEC")]
    [InlineData("MULTI|NOSUCH b|EXEC|MULTI|GET|EXEC")]
    [InlineData("CLUSTER KEYSLOT a|CLUSTER KEYSLOT {x}y|CLUSTER KEYSLOT|CLUSTER NONSENSE|CLUSTER|READONLY|READWRITE|ASKING|READONLY x")]
    [InlineData("SET b 1|SET {b}2 1|SET c 1|CLUSTER COUNTKEYSINSLOT 3300|CLUSTER COUNTKEYSINSLOT 1|CLUSTER COUNTKEYSINSLOT 16384|CLUSTER "
        + "COUNTKEYSINSLOT x|CLUSTER COUNTKEYSINSLOT -1")]
    [InlineData("SET b 1|SET c 1|CLUSTER GETKEYSINSLOT 3300 10|CLUSTER GETKEYSINSLOT 3300 0|CLUSTER GETKEYSINSLOT 1 10|CLUSTER "
        + "GETKEYSINSLOT 3300 -1|CLUSTER GETKEYSINSLOT 16384 1|CLUSTER GETKEYSINSLOT 1 x")]
    [InlineData("SSUBSCRIBE a|SPUBLISH a m|SPUBLISH b m|SSUBSCRIBE b c|PUBLISH a m")]
    [InlineData("ASKING|GET a|READONLY|GET a|GET b")]
    [InlineData("get a|Mget b {b}1 a|sEt b 1|select 1|cluster keyslot a|multi|set b 1|set c 1|exec")]
    public void Requests_OfSeveralShards_AreAnsweredAsByRedisCluster(string requests)
    {
        foreach (int protocol in (int[])[2, 3])
        {
            servers.Clear();
            Assert.Equal(Talk(node: true, protocol, requests), Talk(node: false, protocol, requests));
        }
    }

    // In the first shard's slots are b and c.
    [Theory]
    [InlineData("DPR.GETV b", "*1\r\n*2\r\n$-1\r\n")]
    [InlineData("DPR.GETV b {b}2", "*2\r\n*2\r\n$-1\r\n")]
    [InlineData("DPR.GETV a", "-MOVED 15495 127.0.0.1:port1\r\n")]
    [InlineData("DPR.GETV b c", "-CROSSSLOT Keys in request don't hash to the same slot\r\n")]
    [InlineData("DPR.CPUT b 0 1", "*2\r\n:1\r\n")]
    [InlineData("DPR.CPUT a 0 1", "-MOVED 15495 127.0.0.1:port1\r\n")]
    [InlineData("DPR.CPUT b 0 1 a 0 1", "-CROSSSLOT Keys in request don't hash to the same slot\r\n")]
    [InlineData("DPR.HCPUT a f 0 1", "-MOVED 15495 127.0.0.1:port1\r\n")]
    [InlineData("DPR.HCPUT b a 0 1", "*2\r\n:1\r\n")]
    [InlineData("DPR.DELV a d", "-CROSSSLOT Keys in request don't hash to the same slot\r\n")]
    public void VersionsOfKeys_AreServedForSlotsOfThisShard(string request, string reply)
    {
        servers.Clear();
        using RespConnection client = RespConnection.To(servers.FirstPort(node: false));
        Assert.StartsWith(reply, servers.Named(client.Call(request.Split(' '))));
        if (reply[0] == '-') { Assert.Equal(":0\r\n", client.Call("DBSIZE")); }
    }

    [Fact]
    public void Greeting_AmongShards_SaysThatItIsACluster()
    {
        using RespConnection proxy = servers.First.Connect();
        Assert.Contains("$4\r\nmode\r\n$7\r\ncluster\r\n", proxy.Call("HELLO", "3"), StringComparison.Ordinal);
        Assert.Contains("redis_mode:cluster\r\n", proxy.Call("INFO", "server"), StringComparison.Ordinal);
        Assert.Contains("cluster_enabled:1\r\n", proxy.Call("INFO", "cluster"), StringComparison.Ordinal);
        Assert.Contains("redis_mode:cluster\r\n", proxy.Call("INFO"), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(2)]
    [InlineData(3)]
    public void Slots_AmongShards_AreThoseOfTheNodesButForIds(int protocol)
    {
        foreach (string what in (string[])["SLOTS", "SHARDS"])
        {
            string expected = Shape(Talk(node: true, protocol, "CLUSTER " + what)), found =
                Shape(Talk(node: false, protocol, "CLUSTER " + what));
            Assert.Equal(expected, found);
        }
    }

    [Theory]
    [InlineData("MEET 127.0.0.1 1")]
    [InlineData("ADDSLOTS 1")]
    [InlineData("FAILOVER")]
    [InlineData("RESET")]
    public void Cluster_ChangeOfIt_IsRefusedClearly(string command)
    {
        using RespConnection proxy = servers.First.Connect();
        Assert.StartsWith("-ERR SLOGGER", proxy.Call(["CLUSTER", .. command.Split(' ')]), StringComparison.Ordinal);
        proxy.Call("MULTI");
        Assert.StartsWith("-ERR SLOGGER", proxy.Call("CLUSTER", "SLOTS"), StringComparison.Ordinal);
        Assert.StartsWith("-EXECABORT", proxy.Call("EXEC"), StringComparison.Ordinal);
    }

    [Fact]
    public void Pipeline_OfOwnAndForeignKeys_IsAnsweredInOrder()
    {
        for (int seed = 1; seed <= 20; seed++)
        {
            servers.Clear();
            output.WriteLine($"seed {seed}");
            var random = new Random(seed);
            using RespConnection proxy = servers.First.Connect();
            var bytes = new List<byte>();
            var expected = new List<string>();
            for (int i = 0; i < 300; i++)
            {
                string key = $"k{random.Next(1000)}";
                string[] request = random.Next(3) switch
                {
                    0 => ["EVAL", $"return {i}", "1", key],
                    1 => ["SET", key, $"{i}"],
                    _ => ["ECHO", $"{i}"],
                };
                bytes.AddRange(RespConnection.Request(request));
                int slot = HashSlot.Of(Encoding.ASCII.GetBytes(key)).Number;
                expected.Add(request[0] == "ECHO" ? $"${$"{i}".Length}\r\n{i}\r\n"
                    : slot > 8191 ? $"-MOVED {slot} 127.0.0.1:port1\r\n" : request[0] == "SET" ? "+OK\r\n" : $":{i}\r\n");
            }
            for (int at = 0; at < bytes.Count;)
            {
                int count = Math.Min(random.Next(1, 3000), bytes.Count - at);
                proxy.SendRaw(bytes.GetRange(at, count).ToArray());
                at += count;
            }
            foreach (string reply in expected) { Assert.Equal(reply, servers.Named(proxy.Read())); }
        }
    }

    [Fact]
    public void LargeRequest_OfAnyShard_IsServedOrSentOn()
    {
        servers.Clear();
        using RespConnection proxy = servers.First.Connect();
        string large = new('x', 1 << 20);
        Assert.Equal("+OK\r\n", proxy.Call("SET", "b", large));
        Assert.Equal($":{1 << 20}\r\n", proxy.Call("STRLEN", "b"));
        Assert.Equal("-MOVED 15495 127.0.0.1:port1\r\n", servers.Named(proxy.Call("SET", "a", large)));
        Assert.Equal("+OK\r\n", proxy.Call("MSET", "b", large, "{b}2", large));
        Assert.Equal("-CROSSSLOT Keys in request don't hash to the same slot\r\n", proxy.Call("MSET", "b", large, "c", large));
        Assert.Equal("+OK\r\n", proxy.Call("MULTI"));
        Assert.Equal("+QUEUED\r\n", proxy.Call("SET", "b", large + "y"));
        Assert.Equal("-MOVED 15495 127.0.0.1:port1\r\n", servers.Named(proxy.Call("SET", "a", large)));
        Assert.StartsWith("-EXECABORT", proxy.Call("EXEC"), StringComparison.Ordinal);
        proxy.Call("MULTI");
        Assert.Equal("+QUEUED\r\n", proxy.Call("SET", "b", large + "y"));
        Assert.Equal("+QUEUED\r\n", proxy.Call("SET", "c", "1"));
        Assert.StartsWith("-CROSSSLOT", proxy.Call("EXEC"), StringComparison.Ordinal);
        Assert.Equal($":{1 << 20}\r\n", proxy.Call("STRLEN", "b"));
        Assert.Equal("*1\r\n$1\r\nx\r\n", proxy.Call("EVAL", "return {ARGV[1]:sub(1,1)}", "1", "b", large));
        Assert.Equal("-MOVED 15495 127.0.0.1:port1\r\n", servers.Named(proxy.Call("EVAL", "return 1", "1", "a", large)));
    }

    [Fact]
    public void Foreign_Requests_DoNotReachTheStore()
    {
        servers.Clear();
        using RespConnection proxy = servers.First.Connect();
        foreach (string request in (string[])["SET a 1", "EVAL redis.call('set',KEYS[1],1) 1 a", "LPUSH a 1", "MSET a 1 {a}2 2"])
        {
            Assert.StartsWith("-MOVED", proxy.Call(request.Split(' ')), StringComparison.Ordinal);
        }
        using RespConnection direct = servers.FirstStore.Connect();
        Assert.Equal(":0\r\n", direct.Call("DBSIZE"));
    }

    [Fact]
    public void Slots_ChangedInTheMetadata_AreSoonServedElsewhere()
    {
        servers.Clear();
        using RespConnection proxy = servers.First.Connect(), transaction = servers.First.Connect();
        Assert.Equal("+OK\r\n", transaction.Call("MULTI"));
        Assert.Equal("+QUEUED\r\n", transaction.Call("SET", "b", "1"));
        servers.Swap();
        try
        {
            Eventually(proxy, "GET b", "-MOVED 3300 127.0.0.1:port1\r\n");
            Assert.Equal("+OK\r\n", proxy.Call("SET", "a", "1"));
            Assert.Equal("-MOVED 3300 127.0.0.1:port1\r\n", servers.Named(transaction.Call("EXEC")));
            Assert.Equal("-ERR EXEC without MULTI\r\n", transaction.Call("EXEC"));
        }
        finally
        {
            servers.Swap();
            Eventually(proxy, "GET b", "$-1\r\n");
        }
    }

    [Theory]
    [InlineData(null)]
    [InlineData("cache.example.com:7000")]
    public void Start_OnEveryInterface_NeedsAnAddressToAnnounce(string? announce)
    {
        using var redis = new RedisServer();
        using var proxy = new TestProxy(redis, TransportKind.Auto, o => o with
        {
            Commit = CommitMode.Log,
            Shards = 2,
            Listen = [ListenAddress.Tcp("0.0.0.0", 0)],
            Announce = announce is null ? null : ListenAddress.Tcp("cache.example.com", 7000),
        });
        if (announce is null)
        {
            Assert.Contains("Give --announce", proxy.Exit!.ToString(), StringComparison.Ordinal);
            return;
        }
        using RespConnection client = proxy.Connect();
        Assert.Contains("$17\r\ncache.example.com\r\n:7000\r\n", client.Call("CLUSTER", "SLOTS"), StringComparison.Ordinal);
        // The other shard has never been there.
        Assert.Equal("-CLUSTERDOWN Hash slot not served\r\n", client.Call("GET", "a"));
        Assert.Equal("$-1\r\n", client.Call("GET", "b"));
    }

    private void Eventually(RespConnection connection, string request, string reply)
    {
        for (int i = 0; servers.Named(connection.Call(request.Split(' '))) != reply; i++)
        {
            Assert.True(i < 1500, $"{request} was never answered {reply}");
            Thread.Sleep(20);
        }
    }

    private string Talk(bool node, int protocol, string requests)
    {
        using RespConnection connection = RespConnection.To(servers.FirstPort(node));
        if (protocol == 3) { connection.Call("HELLO", "3"); }
        var text = new StringBuilder();
        foreach (string request in requests.Split('|'))
        {
            text.Append(request).Append(": ").Append(connection.Call(request.Split(' ')));
        }
        return servers.Named(text.ToString());
    }

    // What differs between clusters: ids and offsets, and in which order nodes are told.
    private static string Shape(string reply)
    {
        string[] lines = reply.Split("\r\n");
        for (int i = 0; i < lines.Length; i++)
        {
            if (lines[i].Length == 40) { lines[i] = "id"; }
            if (i > 0 && lines[i - 1] == "replication-offset") { lines[i] = ":0"; }
            if (int.TryParse(lines[i].TrimStart(':'), out int number) && number > 16384) { lines[i] = "port"; }
        }
        return string.Join('\n', lines.Order(StringComparer.Ordinal));
    }
}
