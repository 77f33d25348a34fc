// Every kind of reply, on every kind of connection, comes through the proxy as Redis sends it, at once, and however its bytes are cut.
using System.Net.Security;
using System.Text;
using System.Text.RegularExpressions;
using Slogger.Core.Shards;
using Slogger.FrontEnd.Transports;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Tests.Harness;
using Slogger.Resp;

namespace Slogger.Proxy.Tests.FrontEnd;

public sealed partial class ReplyTests(Certificates certificates) : IClassFixture<Certificates>
{
    private const string Last = "the last one";

    // Longer than most replies: between two cuts there are several.
    private const int PieceBytes = 61;

    // What makes a connection what it is, and requests that only it is asked.
    private static readonly Dictionary<string, (string[] Begin, string[] Also)> States = new()
    {
        ["shared"] = ([], []),
        ["dedicated"] = (["WATCH w"], ["SUBSCRIBE ch", "PUBLISH ch m", "UNSUBSCRIBE"]),
        ["subscribed"] = (["SUBSCRIBE ch", "PSUBSCRIBE c*", "SSUBSCRIBE s"],
            ["PUBLISH ch m", "SPUBLISH s m", "SUBSCRIBE ch2", "UNSUBSCRIBE ch2", "PING", "MULTI", "PUBLISH ch m", "LRANGE message 0 -1",
                "EXEC", "SUNSUBSCRIBE", "PUNSUBSCRIBE"]),
        ["tracking"] = (["CLIENT TRACKING ON"], ["GET k", "SET k v", "MGET k big", "FLUSHDB"]),
        ["tracking, subscribed"] =
            (["CLIENT TRACKING ON", "SUBSCRIBE ch"], ["GET k", "SET k v", "MULTI", "PUBLISH ch m", "GET k", "EXEC", "SET k v"]),
        ["in MULTI"] = (["MULTI"], ["EXEC"]),
        ["monitor"] = (["MONITOR"], []),
    };

    private static readonly string[] Requests =
    [
        .. "string integer double null array set map attrib push verbatim true false bignum".Split(' ')
            .Select(kind => $"DEBUG PROTOCOL {kind}"),
        "LPOS nokey a COUNT 0", "XINFO GROUPS stream", "SLOWLOG GET", "PUBSUB CHANNELS none", "GET nokey", "GET big", "GET empty",
            "HGETALL nokey", "SMEMBERS nokey",
        "LRANGE message 0 -1", "LRANGE subscribe 0 -1", "LRANGE unsubscribe 0 -1", "LRANGE invalidate 0 -1", "HGETALL hash",
            "ZRANGE zset 0 -1 WITHSCORES", "ZSCORE zset a", "GEOPOS nokey a",
        "XRANGE stream - +", "BLPOP nokey 0.01", "GET hash", "NOSUCH command", "COMMAND INFO nosuch get", "CONFIG GET maxmemory-policy",
            "SET new v", "EXISTS new",
        "EVAL return{ok='1_x'} 0", "EVAL return{ok='1.123456_'} 0", "EVAL return{} 0", "EVAL return{{},{false},{{}}} 0",
            "EVAL return{err='MY_error'} 0", "EVAL redis.setresp(3);return{double=3.5} 0", "EVAL redis.setresp(3);return{map={a={}}} 0",
        "EVAL redis.setresp(3);return{set={a=true}} 0", "EVAL redis.setresp(3);return{big_number='12345678901234567890'} 0",
        "EVAL redis.setresp(3);return{verbatim_string={string='x',format='txt'}} 0", "EVAL redis.setresp(3);return{false,true} 0",
            "EVAL redis.setresp(3);return(nil) 0",
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
                data.Add(TransportKind.Sockets, 2, state);
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
        string[] requests = RequestsOf(protocol, state);
        // HELLO tells what is different on each connection, and is no question here; the rest is answered as by Redis, one by one.
        string[] expected = Ask(redis, redis.Connect, requests, null);
        foreach (SplittingRelay.Cuts? cut in (SplittingRelay.Cuts?[])[null, SplittingRelay.EachByte])
        {
            relay.Cut = cut;
            Ask(redis, proxy.Connect, requests, expected);
        }
        // All in one go: replies come in the pieces that Redis and the relay make of them.
        byte[] all = [.. requests[1..].SelectMany(Bytes)];
        string whole = string.Concat(expected[1..]);
        foreach (SplittingRelay.Cuts? cut in (SplittingRelay.Cuts?[])[null, SplittingRelay.EachByte])
        {
            relay.Cut = cut;
            SetUp(redis);
            using RespConnection client = proxy.Connect();
            client.Call(requests[0].Split(' '));
            client.SendRaw(all);
            Assert.Equal(whole, Read(client, whole.Length, state == "monitor"));
        }
    }

    public static TheoryData<int, string> Kinds =>
        [.. States.Keys.SelectMany(state => (TheoryDataRow<int, string>[])[new(2, state), new(3, state)])];

    // One piece ends in a reply, and the next one has the rest of it and others: at every byte of each reply in one of the rounds.
    [Theory]
    [MemberData(nameof(Kinds))]
    public void Replies_CutOnceAtEachByte_AreThoseOfRedis(int protocol, string state)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a receiver has read is seen on Linux only.");
        using var redis = new RedisServer(options: ["--slowlog-log-slower-than", "-1"]);
        using var relay = new SplittingRelay(redis);
        using var proxy = new TestProxy(redis, TransportKind.Epoll, o => o with { Redis = ListenAddress.Unix(relay.Path) });
        // Who waits at Redis takes time.
        string[] requests = [.. RequestsOf(protocol, state).Where(r => !r.StartsWith("BLPOP", StringComparison.Ordinal))];
        string expected = All(redis.Connect);
        for (int first = 1; first <= PieceBytes; first++)
        {
            string found = All(() =>
            {
                RespConnection client = proxy.Connect();
                relay.Cut = new(first, PieceBytes);
                return client;
            });
            Assert.True(expected == found, $"cut at {first}: Redis says {expected}, the proxy {found}");
            relay.Cut = null;
        }

        string All(Func<RespConnection> connect)
        {
            SetUp(redis);
            using RespConnection client = connect();
            client.Call(requests[0].Split(' '));
            client.SendRaw([.. requests[1..].SelectMany(Bytes), .. RespConnection.Request("PING", Last)]);
            string text = client.ReadUntil($"{Last}\r\n");
            return state == "monitor" ? MonitorLines().Replace(text, "") : text;
        }
    }

    [Fact]
    public void Replies_OverTls_AreThoseOfRedis()
    {
        using var redis = new RedisServer(options: ["--slowlog-log-slower-than", "-1"]);
        using var proxy = new TestProxy(redis, TransportKind.Auto, o => o with
        {
            ClientTls = new ClientTlsOptions { Listen = [ListenAddress.Tcp("127.0.0.1", 0)], CertificateFile = certificates.ServerFile,
                KeyFile = certificates.ServerKeyFile },
        });
        var anything = new SslClientAuthenticationOptions { TargetHost = "localhost",
            RemoteCertificateValidationCallback = (_, _, _, _) => true };
        foreach (int protocol in (int[])[2, 3])
        {
            foreach (string state in States.Keys)
            {
                string[] requests = RequestsOf(protocol, state);
                Ask(redis, () => RespConnection.Tls(proxy.TlsPort, anything), requests, Ask(redis, redis.Connect, requests, null));
            }
        }
    }

    // Taken for a line of others' commands it would be awaited for ever by whoever waits for all replies.
    [Fact]
    public void Monitor_StatusThatBeginsWithADigit_IsAReply()
    {
        using var redis = new RedisServer();
        using var proxy = new TestProxy(redis, TransportKind.Auto);
        using RespConnection client = proxy.Connect();
        Assert.Equal("+OK\r\n", client.Call("MONITOR"));
        // Of an empty store.
        client.Send("DEBUG", "DIGEST");
        client.ReadUntil($"+{new string('0', 40)}\r\n");
        client.Send("DPR.WAIT", "0", "0");
        Assert.Contains("-ERR SLOGGER nothing is committed", client.ReadUntil("none\r\n"), StringComparison.Ordinal);
    }

    // In RESP2 invalidations are messages of another connection.
    [Fact]
    public void Invalidations_RedirectedToASubscriber_AreThoseOfRedis()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a receiver has read is seen on Linux only.");
        using var redis = new RedisServer();
        using var relay = new SplittingRelay(redis);
        using var proxy = new TestProxy(redis, TransportKind.Epoll, o => o with { Redis = ListenAddress.Unix(relay.Path) });
        string expected = Redirected(redis.Connect);
        foreach (SplittingRelay.Cuts? cut in (SplittingRelay.Cuts?[])[null, SplittingRelay.EachByte])
        {
            relay.Cut = cut;
            Assert.Equal(expected, Redirected(proxy.Connect));
        }

        string Redirected(Func<RespConnection> connect)
        {
            SetUp(redis);
            using RespConnection subscriber = connect(), client = connect(), direct = redis.Connect();
            string id = subscriber.Call("CLIENT", "ID")[1..^2];
            string text = subscriber.Call("SUBSCRIBE", "__redis__:invalidate") + client.Call("CLIENT", "TRACKING", "ON", "REDIRECT", id)
                + client.Call("GET", "big");
            direct.Call("SET", "big", "b");
            text += subscriber.Read() + subscriber.Call("PING") + client.Call("MGET", "big", "empty");
            direct.Call("FLUSHALL");
            return text + subscriber.Read() + client.Call("CLIENT", "TRACKING", "OFF") + client.Call("GET", "big")
                + subscriber.Call("UNSUBSCRIBE") + subscriber.Call("LRANGE", "message", "0", "-1");
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
        client.Call("SUBSCRIBE", "ch");
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

    // What a transaction publishes is in the middle of the reply to EXEC: pushes at first, and then arrays that nothing tells from replies.
    [Fact]
    public void Protocol_ChangedBackInTheTransactionOfASubscriber_PassesWhatRedisSays()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a receiver has read is seen on Linux only.");
        using var redis = new RedisServer();
        using var relay = new SplittingRelay(redis);
        using var proxy = new TestProxy(redis, TransportKind.Epoll, o => o with { Redis = ListenAddress.Unix(relay.Path) });
        string[] requests = ["SUBSCRIBE ch", "GET big", "MULTI", "PUBLISH ch a", "HELLO 2", "PUBLISH ch b", "PUBLISH ch c", "EXEC",
            "PUBLISH ch d", "PING"];
        string expected = All(redis.Connect);
        foreach (SplittingRelay.Cuts? cut in (SplittingRelay.Cuts?[])[null, SplittingRelay.EachByte])
        {
            relay.Cut = cut;
            Assert.Equal(expected, All(proxy.Connect));
        }

        string All(Func<RespConnection> connect)
        {
            SetUp(redis);
            using RespConnection client = connect(), direct = redis.Connect();
            client.Call("HELLO", "3");
            client.SendRaw([.. requests.SelectMany(Bytes), .. RespConnection.Request("PING", Last)]);
            string text = client.ReadUntil($"{Last}\r\n");
            direct.Call("PUBLISH", "ch", Last);
            return OwnId().Replace(text + client.ReadUntil($"{Last}\r\n"), "id");
        }
    }

    // With versions every reply has to be looked at.
    [Fact]
    public void Protocol_ChangedBackInTheTransactionOfASubscriberWithVersions_IsRefused()
    {
        using var redis = new RedisServer();
        using var proxy = new TestProxy(redis, TransportKind.Auto, o => o with { Commit = CommitMode.Log });
        using RespConnection direct = redis.Connect(), client = proxy.Connect();
        client.Call("HELLO", "3");
        client.Call("SUBSCRIBE", "ch");
        Assert.Equal("+OK\r\n", client.Call("MULTI"));
        Assert.StartsWith("-ERR SLOGGER HELLO 2 cannot be queued in a transaction of a connection that is subscribed",
            client.Call("HELLO", "2"), StringComparison.Ordinal);
        Assert.StartsWith("-EXECABORT", client.Call("EXEC"), StringComparison.Ordinal);
        Assert.Equal(":1\r\n", direct.Call("PUBLISH", "ch", "m"));
        Assert.Equal(">3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$1\r\nm\r\n", client.Read());
        Assert.Equal("+PONG\r\n", client.Call("PING"));
    }

    [GeneratedRegex(@"\$2\r\nid\r\n:\d+")]
    private static partial Regex OwnId();

    // What Redis does not know it does not queue.
    private static string[] RequestsOf(int protocol, string state) =>
        [$"HELLO {protocol}", .. States[state].Begin,
            .. Requests.Where(r => state != "in MULTI" || !r.StartsWith("NOSUCH", StringComparison.Ordinal)), .. States[state].Also];

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
    [GeneratedRegex(@"\+(\d+(\.[^\r]*\r?)?)?\z")]
    private static partial Regex BegunLine();

    private static void SetUp(RedisServer redis)
    {
        using RespConnection direct = redis.Connect();
        while (direct.Call("PUBSUB", "NUMSUB", "ch") != "*2\r\n$2\r\nch\r\n:0\r\n") { Thread.Sleep(1); }
        string[] commands =
        [
            "FLUSHALL", "XADD stream 1-1 f v", $"SET big {new string('b', 300)}", "SET empty e", "SETRANGE empty 0 x", "HSET hash f 1",
                "ZADD zset 1.5 a 2 b",
            "RPUSH message message ch m", "RPUSH subscribe subscribe ch m", "RPUSH unsubscribe unsubscribe ch m",
                "RPUSH invalidate invalidate k",
        ];
        foreach (string command in commands) { Assert.NotEqual('-', direct.Call(command.Split(' '))[0]); }
    }

    private static byte[] Bytes(string request) => RespConnection.Request(request.Split(' '));
}
