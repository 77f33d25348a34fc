// What a client sends in one go, and how it ends: answers in order, whatever is mixed, on both transports.
using System.Net.Sockets;
using System.Text;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Tests.Harness;

namespace Slogger.Proxy.Tests.FrontEnd;

public sealed class PipelineTests(BothTransports servers) : IClassFixture<BothTransports>
{
    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public async Task Pipeline_HundredThousandRequests_AreAnsweredInOrder(TransportKind transport)
    {
        using RespConnection client = servers.Fresh(transport);
        byte[] request = RespConnection.Request("INCR", "n");
        var all = new byte[request.Length * 100_000];
        for (int i = 0; i < 100_000; i++) { request.CopyTo(all, i * request.Length); }
        // Everything is sent before anything is read: what waits for this client must fit between the two.
        Task sending = Task.Run(() => client.SendRaw(all), TestContext.Current.CancellationToken);
        await sending;
        for (int i = 1; i <= 100_000; i++)
        {
            string reply = client.Read();
            if (reply != $":{i}\r\n") { Assert.Equal($":{i}\r\n", reply); }
        }
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void Pipeline_SharedAndDedicatedInTurn_KeepsItsOrder(TransportKind transport)
    {
        using RespConnection client = servers.Fresh(transport);
        string[][] commands =
        [
            ["SET", "a", "1"], ["MULTI"], ["INCR", "a"], ["EXEC"], ["GET", "a"], ["RPUSH", "l", "x", "y"], ["BLPOP", "l", "0"],
                ["GET", "a"],
            ["EVAL", "return redis.call('INCR', KEYS[1])", "1", "a"], ["GET", "a"], ["WATCH", "a"], ["SET", "a", "9"], ["MULTI"],
                ["GET", "a"], ["EXEC"], ["GET", "a"],
        ];
        client.SendRaw(string.Concat(commands.Select(c => Encoding.Latin1.GetString(RespConnection.Request(c)))));
        string[] expected =
        [
            "+OK\r\n", "+OK\r\n", "+QUEUED\r\n", "*1\r\n:2\r\n", "$1\r\n2\r\n", ":2\r\n", "*2\r\n$1\r\nl\r\n$1\r\nx\r\n", "$1\r\n2\r\n",
            ":3\r\n", "$1\r\n3\r\n", "+OK\r\n", "+OK\r\n", "+OK\r\n", "+QUEUED\r\n", "*-1\r\n", "$1\r\n9\r\n",
        ];
        Assert.Equal(expected, commands.Select(_ => client.Read()));
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void HalfClose_AfterRequests_StillGetsAllReplies(TransportKind transport)
    {
        using RespConnection client = servers.Fresh(transport);
        client.SendRaw(string.Concat(Enumerable.Repeat("*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n", 5000))
            + "*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n*1\r\n$4\r\nEXEC\r\n*2\r\n$3\r\nGET\r\n$1\r\nn\r\n*1\r\n$4\r\nPI");
        client.EndSending();
        string expected = string.Concat(Enumerable.Range(1, 5000).Select(i => $":{i}\r\n"))
            + "+OK\r\n+QUEUED\r\n*1\r\n:5001\r\n$4\r\n5001\r\n";
        Assert.Equal(expected, client.ReadToEnd());
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void Quit_BehindOtherRequests_AnswersAllAndCloses(TransportKind transport)
    {
        using RespConnection client = servers.Fresh(transport);
        client.SendRaw("SET a 1\r\nBLPOP nothing 0.05\r\nINCR a\r\nQUIT\r\nINCR a\r\n");
        Assert.Equal("+OK\r\n*-1\r\n:2\r\n+OK\r\n", client.ReadToEnd());
        using RespConnection other = servers.Proxy(transport).Connect();
        Assert.Equal("$1\r\n2\r\n", other.Call("GET", "a"));
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void Answers_ThatAreThereAtOnce_LeaveInOneWriteAsRedisDoes(TransportKind transport)
    {
        using RespConnection direct = servers.Redis.Connect(), proxied = servers.Fresh(transport);
        foreach (RespConnection client in (RespConnection[])[direct, proxied])
        {
            Assert.Equal("+PONG\r\n", client.Call("PING"));
            long before = client.SegmentsReceived;
            client.Send("SUBSCRIBE", "a", "b", "c");
            for (int i = 1; i <= 3; i++) { Assert.EndsWith($":{i}\r\n", client.Read(), StringComparison.Ordinal); }
            Assert.Equal(1, client.SegmentsReceived - before);
            client.Send("UNSUBSCRIBE");
            for (int i = 2; i >= 0; i--) { Assert.EndsWith($":{i}\r\n", client.Read(), StringComparison.Ordinal); }
            Assert.Equal(2, client.SegmentsReceived - before);
            client.SendRaw(string.Concat(Pipelined("SUBSCRIBE", "d"), Pipelined("PING"), Pipelined("PSUBSCRIBE", "e", "f"),
                Pipelined("QUIT")));
            string end = client.ReadToEnd();
            Assert.EndsWith(":3\r\n+OK\r\n", end, StringComparison.Ordinal);
            Assert.Equal(3, client.SegmentsReceived - before);
        }
    }

    // Whatever is answered before it: by the connection that is shared, by one of its own, or by the proxy.
    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void Quit_WhateverIsBefore_LeavesInOneWriteWithIt(TransportKind transport)
    {
        servers.Fresh(transport).Dispose();
        string[][] cases =
        [
            ["ECHO", "a"], ["MULTI"], ["BLPOP", "none", "0.01"], ["CLIENT", "SETNAME", "a"], ["SELECT", "1"], ["RESET"],
                ["EVAL", "return 1", "0"], ["WATCH", "k"], ["DPR.WAIT", "*", "0"],
        ];
        foreach (string[] before in cases)
        {
            using RespConnection direct = servers.Redis.Connect(), proxied = servers.Proxy(transport).Connect();
            foreach (RespConnection client in (RespConnection[])[direct, proxied])
            {
                Assert.Equal("+PONG\r\n", client.Call("PING"));
                long segments = client.SegmentsReceived;
                client.SendRaw(Pipelined(before) + Pipelined("QUIT"));
                Assert.EndsWith("\r\n+OK\r\n", client.ReadToEnd(), StringComparison.Ordinal);
                segments = client.SegmentsReceived - segments;
                Assert.True(segments == 1,
                    $"{before[0]} and QUIT came in {segments} segments {(client == direct ? "from Redis" : "from the proxy")}");
            }
        }
    }

    private static string Pipelined(params string[] request) => Encoding.Latin1.GetString(RespConnection.Request(request));

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void Inline_MixedWithArrays_IsAnsweredAsByRedis(TransportKind transport)
    {
        string bytes = "PING\r\nset a \"x \\x41\"\n\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\nget a\r\n*0\r\n*-1\r\nECHO ''\r\nMULTI\r\nincr "
            + "n\r\nEXEC\r\nNOSUCH 'a b'\r\nGET \"a\"x\r\n";
        using RespConnection client = servers.Fresh(transport), raw = servers.Redis.Connect();
        client.SendRaw(bytes);
        string answer = client.ReadToEnd();
        raw.Call("FLUSHALL");
        raw.SendRaw(bytes);
        Assert.Equal(raw.ReadToEnd(), answer);
        Assert.EndsWith("-ERR Protocol error: unbalanced quotes in request\r\n", answer, StringComparison.Ordinal);
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void ClientReply_OffAndSkip_SilenceWhatTheySay(TransportKind transport)
    {
        string[][] commands =
        [
            ["SET", "a", "1"], ["CLIENT", "REPLY", "SKIP"], ["INCR", "a"], ["GET", "a"], ["CLIENT", "REPLY", "OFF"], ["INCR", "a"],
                ["BLPOP", "x", "0.01"],
            ["MULTI"], ["INCR", "a"], ["EXEC"], ["INCR", "a"], ["CLIENT", "REPLY", "SKIP"], ["CLIENT", "REPLY", "ON"], ["GET", "a"],
            ["CLIENT", "REPLY", "SKIP"], ["EVAL", "return 7", "0"], ["GET", "a"], ["CLIENT", "REPLY", "SKIP"], ["NOSUCHCOMMAND"],
                ["GET", "a"], ["QUIT"],
        ];
        string bytes = string.Concat(commands.Select(c => Encoding.Latin1.GetString(RespConnection.Request(c))));
        using RespConnection client = servers.Fresh(transport), raw = servers.Redis.Connect();
        client.SendRaw(bytes);
        string answer = client.ReadToEnd();
        raw.Call("FLUSHALL");
        raw.SendRaw(bytes);
        Assert.Equal(raw.ReadToEnd(), answer);
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void ClientReplyOff_AsASubscriber_StillGetsMessages(TransportKind transport)
    {
        using RespConnection client = servers.Fresh(transport), other = servers.Proxy(transport).Connect();
        // A channel of its own: Redis may still hold the subscriber of the run on the other transport.
        string channel = transport == TransportKind.Epoll ? "e" : "s";
        client.Send("CLIENT", "REPLY", "OFF");
        client.Send("SUBSCRIBE", channel);
        Assert.Equal($"*3\r\n$9\r\nsubscribe\r\n$1\r\n{channel}\r\n:1\r\n", client.Read());
        Assert.Equal(":1\r\n", other.Call("PUBLISH", channel, "m"));
        Assert.Equal($"*3\r\n$7\r\nmessage\r\n$1\r\n{channel}\r\n$1\r\nm\r\n", client.Read());
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void Subscription_InATransaction_PassesRedissBytes(TransportKind transport)
    {
        string bytes = "SET a 1\r\nMULTI\r\nUNSUBSCRIBE c d\r\nPSUBSCRIBE c*\r\nPUBLISH c m\r\nEXEC\r\nPUNSUBSCRIBE\r\nGET a\r\nQUIT\r\n";
        using RespConnection client = servers.Fresh(transport), raw = servers.Redis.Connect();
        client.SendRaw(bytes);
        string answer = client.ReadToEnd();
        raw.SendRaw(bytes);
        Assert.Equal(raw.ReadToEnd(), answer);
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void Reset_InAnyState_MakesTheConnectionNew(TransportKind transport)
    {
        string[][] commands =
        [
            ["SET", "a", "0"], ["SELECT", "3"], ["HELLO", "3"], ["SET", "a", "3"], ["CLIENT", "SETNAME", "x"], ["MULTI"], ["INCR", "a"],
                ["RESET"], ["GET", "a"],
            ["CLIENT", "GETNAME"], ["HGETALL", "h"], ["SELECT", "2"], ["RESET"], ["GET", "a"], ["SUBSCRIBE", "c"], ["RESET"], ["GET", "a"],
                ["EXEC"], ["QUIT"],
        ];
        string[] answers = new string[2];
        for (int i = 0; i < 2; i++)
        {
            using RespConnection client = i == 0 ? servers.Fresh(transport) : servers.Redis.Connect();
            if (i == 1) { client.Call("FLUSHALL"); }
            client.SendRaw(string.Concat(commands.Select(c => Encoding.Latin1.GetString(RespConnection.Request(c)))));
            // HELLO tells the connection's id: not the same.
            answers[i] = System.Text.RegularExpressions.Regex.Replace(client.ReadToEnd(), "id\r\n:[0-9]+", "id\r\n:N");
        }
        Assert.Equal(answers[1], answers[0]);
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void Client_VanishingAnywhere_HarmsOnlyItself(TransportKind transport)
    {
        using RespConnection other = servers.Fresh(transport);
        byte[] bytes = [.. RespConnection.Request("INCR", "whole"), .. RespConnection.Request("SET", "half", "0123456789")];
        int whole = RespConnection.Request("INCR", "whole").Length;
        for (int cut = whole; cut < bytes.Length; cut++)
        {
            using (RespConnection vanishing = servers.Proxy(transport).Connect())
            {
                vanishing.SendRaw(bytes.AsSpan(0, cut));
                vanishing.Read();
                if (cut % 2 == 0) { vanishing.Socket.LingerState = new LingerOption(true, 0); }
            }
            Assert.Equal("$-1\r\n", other.Call("GET", "half"));
        }
        // Also in the middle of a large one, which goes on as it comes.
        for (int i = 0; i < 10; i++)
        {
            using (RespConnection vanishing = servers.Proxy(transport).Connect())
            {
                vanishing.SendRaw("*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$20000000\r\n");
                vanishing.SendRaw(new byte[1_000_000 * i]);
                if (i % 2 == 0) { vanishing.Socket.LingerState = new LingerOption(true, 0); }
            }
            Assert.Equal("$-1\r\n", other.Call("GET", "half"));
            Assert.Equal("+PONG\r\n", other.Call("PING"));
        }
        Assert.Equal($":{bytes.Length - whole + 1}\r\n", other.Call("INCR", "whole"));
    }
}
