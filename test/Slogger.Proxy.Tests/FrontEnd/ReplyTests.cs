// Every kind of reply, on every kind of connection, comes through the proxy as Redis sends it, at once, and however its bytes are cut.
using System.Text;
using System.Text.RegularExpressions;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Tests.Harness;

namespace Slogger.Proxy.Tests.FrontEnd;

public sealed partial class ReplyTests
{
    private const string Last = "the last one";

    // What makes a connection what it is, and requests that only it is asked.
    private static readonly Dictionary<string, (string[] Begin, string[] Also)> States = new()
    {
        ["shared"] = ([], []),
        ["dedicated"] = (["WATCH w"], ["SUBSCRIBE ch", "PUBLISH ch m", "UNSUBSCRIBE"]),
        ["subscribed"] = (["SUBSCRIBE ch", "PSUBSCRIBE c*", "SSUBSCRIBE s"],
            ["PUBLISH ch m", "SPUBLISH s m", "SUBSCRIBE ch2", "UNSUBSCRIBE ch2", "PING", "MULTI", "PUBLISH ch m", "LRANGE message 0 -1", "EXEC", "SUNSUBSCRIBE", "PUNSUBSCRIBE"]),
        ["tracking"] = (["CLIENT TRACKING ON"], ["GET k", "SET k v", "MGET k big", "FLUSHDB"]),
        ["tracking, subscribed"] = (["CLIENT TRACKING ON", "SUBSCRIBE ch"], ["GET k", "SET k v", "MULTI", "PUBLISH ch m", "GET k", "EXEC", "SET k v"]),
        ["in MULTI"] = (["MULTI"], ["EXEC"]),
        ["monitor"] = (["MONITOR"], []),
    };

    private static readonly string[] Requests =
    [
        .. "string integer double null array set map attrib push verbatim true false bignum".Split(' ').Select(kind => $"DEBUG PROTOCOL {kind}"),
        "LPOS nokey a COUNT 0", "XINFO GROUPS stream", "SLOWLOG GET", "PUBSUB CHANNELS none", "GET nokey", "GET big", "GET empty", "HGETALL nokey", "SMEMBERS nokey",
        "LRANGE message 0 -1", "LRANGE subscribe 0 -1", "LRANGE unsubscribe 0 -1", "LRANGE invalidate 0 -1", "HGETALL hash", "ZRANGE zset 0 -1 WITHSCORES", "ZSCORE zset a", "GEOPOS nokey a",
        "XRANGE stream - +", "BLPOP nokey 0.01", "GET hash", "NOSUCH command", "COMMAND INFO nosuch get", "CONFIG GET maxmemory-policy", "SET new v", "EXISTS new",
        "EVAL return{} 0", "EVAL return{{},{false},{{}}} 0", "EVAL return{err='MY_error'} 0", "EVAL redis.setresp(3);return{double=3.5} 0", "EVAL redis.setresp(3);return{map={a={}}} 0",
        "EVAL redis.setresp(3);return{set={a=true}} 0", "EVAL redis.setresp(3);return{big_number='12345678901234567890'} 0",
        "EVAL redis.setresp(3);return{verbatim_string={string='x',format='txt'}} 0", "EVAL redis.setresp(3);return{false,true} 0", "EVAL redis.setresp(3);return(nil) 0",
        "EVAL redis.setresp(3);return(redis.call('hgetall','hash')) 0", "EVAL redis.setresp(3);return(redis.call('zscore','zset','a')) 0",
    ];

    public static TheoryData<TransportKind, int, string> Connections
    {
        get
        {
            var data = new TheoryData<TransportKind, int, string>();
            foreach (string state in States.Keys)
            {
                data.Add(TransportKind.Epoll, 2, state);
                data.Add(TransportKind.Epoll, 3, state);
                data.Add(TransportKind.Sockets, 3, state);
            }
            return data;
        }
    }

    [Theory]
    [MemberData(nameof(Connections))]
    public void Replies_OfEveryKind_AreThoseOfRedis(TransportKind transport, int protocol, string state)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a receiver has read is seen on Linux only.");
        using var redis = new RedisServer(options: ["--slowlog-log-slower-than", "-1"]);
        using var relay = new SplittingRelay(redis);
        using var proxy = new TestProxy(redis, transport, o => o with { Redis = ListenAddress.Unix(relay.Path) });
        (string[] begin, string[] also) = States[state];
        // What Redis does not know it does not queue.
        string[] requests = [$"HELLO {protocol}", .. begin, .. Requests.Where(r => state != "in MULTI" || !r.StartsWith("NOSUCH", StringComparison.Ordinal)), .. also];
        // HELLO tells what is different on each connection, and is no question here; the rest is answered as by Redis, one by one.
        string[] expected = Ask(redis, redis.Connect, requests, null);
        foreach (bool splits in (bool[])[false, true])
        {
            relay.Splits = splits;
            Ask(redis, proxy.Connect, requests, expected);
        }
        // All in one go: replies come in the pieces that Redis and the relay make of them.
        byte[] all = [.. requests[1..].SelectMany(Bytes)];
        string whole = string.Concat(expected[1..]);
        foreach (bool splits in (bool[])[false, true])
        {
            relay.Splits = splits;
            SetUp(redis);
            using RespConnection client = proxy.Connect();
            client.Call(requests[0].Split(' '));
            client.SendRaw(all);
            Assert.Equal(whole, Read(client, whole.Length, state == "monitor"));
        }
    }

    [Theory]
    [InlineData("HELLO 2")]
    [InlineData("RESET")]
    [InlineData("MULTI|HELLO 2|EXEC")]
    public void Protocol_ChangedBack_TellsMessagesFromRepliesAsBefore(string change)
    {
        using var redis = new RedisServer();
        using var proxy = new TestProxy(redis, TransportKind.Epoll);
        SetUp(redis);
        using RespConnection direct = redis.Connect(), client = proxy.Connect();
        client.Call("HELLO", "3");
        // In RESP3 a reply may look like a message.
        if (change != "MULTI|HELLO 2|EXEC") { client.Call("SUBSCRIBE", "ch"); }
        string list = direct.Call("LRANGE", "message", "0", "-1");
        Assert.Equal(list, client.Call("LRANGE", "message", "0", "-1"));
        foreach (string request in change.Split('|')) { client.Call(request.Split(' ')); }
        Assert.Equal("*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n", client.Call("SUBSCRIBE", "ch"));
        Assert.Equal(":1\r\n", direct.Call("PUBLISH", "ch", "m"));
        Assert.Equal("*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$1\r\nm\r\n", client.Read());
        Assert.Equal("*2\r\n$4\r\npong\r\n$0\r\n\r\n", client.Call("PING"));
        Assert.Equal("*3\r\n$11\r\nunsubscribe\r\n$2\r\nch\r\n:0\r\n", client.Call("UNSUBSCRIBE"));
        Assert.Equal(list, client.Call("LRANGE", "message", "0", "-1"));
        Assert.Equal("+OK\r\n", client.Call("MULTI"));
        Assert.Equal("+QUEUED\r\n", client.Call("LRANGE", "message", "0", "-1"));
        Assert.Equal($"*1\r\n{list}", client.Call("EXEC"));
    }

    // Without what is expected it is found out: what comes before the answer to a last question.
    private static string[] Ask(RedisServer redis, Func<RespConnection> connect, string[] requests, string[]? expected)
    {
        SetUp(redis);
        using RespConnection client = connect();
        var replies = new string[requests.Length];
        replies[0] = client.Call(requests[0].Split(' '));
        bool monitors = requests.Contains("MONITOR");
        bool queues = false;
        for (int i = 1; i < requests.Length; i++)
        {
            client.SendRaw(Bytes(requests[i]));
            if (expected is not null)
            {
                replies[i] = Read(client, expected[i].Length, monitors);
                Assert.True(expected[i] == replies[i], $"{requests[i]}: Redis says {expected[i]}, the proxy {replies[i]}");
                continue;
            }
            queues = (queues || requests[i] == "MULTI") && requests[i] != "EXEC";
            if (queues)
            {
                // A last question would be queued, too.
                replies[i] = client.Read();
                continue;
            }
            client.Send("PING", Last);
            string text = client.ReadUntil($"{Last}\r\n");
            if (monitors) { text = MonitorLines().Replace(text, ""); }
            replies[i] = text[..Math.Max(text.LastIndexOf($"${Last.Length}\r\n", StringComparison.Ordinal), 0)];
            const string Pong = "*2\r\n$4\r\npong\r\n";
            if (replies[i].EndsWith(Pong, StringComparison.Ordinal)) { replies[i] = replies[i][..^Pong.Length]; }
        }
        return replies;
    }

    private static string Read(RespConnection client, int length, bool monitors)
    {
        if (!monitors) { return client.ReadBytes(length); }
        string text = "";
        while (BegunLine().Replace(text, "").Length < length) { text = MonitorLines().Replace(text + client.ReadBytes(1), ""); }
        return text;
    }

    // A connection that monitors sees others' commands, too.
    [GeneratedRegex(@"\+\d+\.\d+ \[[^\r]*\r\n")]
    private static partial Regex MonitorLines();

    // The beginning of a line may be all that is here.
    [GeneratedRegex(@"\+(\d+(\.[^\r]*\r?)?)?$")]
    private static partial Regex BegunLine();

    private static void SetUp(RedisServer redis)
    {
        using RespConnection direct = redis.Connect();
        while (direct.Call("PUBSUB", "NUMSUB", "ch") != "*2\r\n$2\r\nch\r\n:0\r\n") { Thread.Sleep(1); }
        string[] commands =
        [
            "FLUSHALL", "XADD stream 1-1 f v", $"SET big {new string('b', 300)}", "SET empty e", "SETRANGE empty 0 x", "HSET hash f 1", "ZADD zset 1.5 a 2 b",
            "RPUSH message message ch m", "RPUSH subscribe subscribe ch m", "RPUSH unsubscribe unsubscribe ch m", "RPUSH invalidate invalidate k",
        ];
        foreach (string command in commands) { Assert.NotEqual('-', direct.Call(command.Split(' '))[0]); }
    }

    private static byte[] Bytes(string request) => RespConnection.Request(request.Split(' '));
}
