// Committed replies: nothing leaves that rests on a version which is not settled, and what rests on none does not wait. And the gate:
// what was read from the store leaves with the shard's leave only.
using System.Text;
using Slogger.Core.Ownership;
using Slogger.FrontEnd;
using Slogger.Proxy.Tests.Harness;
using Slogger.Resp;

namespace Slogger.Proxy.Tests.FrontEnd;

public sealed class HeldRepliesTests : IDisposable
{
    private const string Message = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n", One = "$1\r\n1\r\n", Count = ":1\r\n";
    private const int OkBytes = 5, NilBytes = 5;
    private readonly RedisServer _redis = new();
    private readonly HeldLoop _loop;

    public HeldRepliesTests()
    {
        _loop = new(_redis, new HeldShard(holdsReplies: true));
        using (RespConnection first = _loop.Connect()) { }
        _loop.Begin();
    }

    public void Dispose()
    {
        _loop.Dispose();
        _redis.Dispose();
    }

    // ---- What waits, and what does not ----

    [Fact]
    public void Write_LeavesWhenItsVersionIsSettled()
    {
        using RespConnection client = _loop.Connect();
        client.Send("SET", "k", "1");
        _loop.AwaitHeld(OkBytes);
        long version = _loop.EndVersion();
        AssertSilent(client);
        _loop.Settle(version - 1);
        AssertSilent(client);
        _loop.Settle(version);
        Assert.Equal("+OK\r\n", client.Read());
        Assert.Equal(0, _loop.Of(static loop => loop.OutputBytes));
    }

    [Fact]
    public void Read_OfAColdKey_DoesNotWait()
    {
        using RespConnection writer = _loop.Connect(), reader = _loop.Connect();
        writer.Send("SET", "hot", "1");
        _loop.AwaitHeld(OkBytes);
        Assert.Equal("$-1\r\n", reader.Call("GET", "cold"));
        Assert.Equal("+PONG\r\n", reader.Call("PING"));
        Assert.Equal("*2\r\n$-1\r\n$-1\r\n", reader.Call("MGET", "cold", "colder"));
        AssertSilent(writer);
    }

    // A copy of another shard's key was not forwarded here, and is in no version yet that is settled.
    [Fact]
    public void Read_OfWhatHasComeWithSlots_Waits()
    {
        using RespConnection direct = _redis.Connect(), reader = _loop.Connect();
        direct.Call("SET", "moved", "1");
        Assert.Equal(One, reader.Call("GET", "moved"));
        SlotMap map = SlotMap.Even(1);
        var replies = new ClusterReplies("test", Partitioning.Hash, map, new(1), [new(new(0), "h", 1, true)], new(0));
        var view = new ClusterSlots(Partitioning.Hash, new ServedSlots(new(0), map), replies);
        StoreCommands commands = StoreCommands.Of(Encoding.Latin1.GetBytes(direct.Call("COMMAND")));
        _loop.Loop.Post(() => _loop.Loop.UseSlots(view, commands));

        reader.Send("GET", "moved");
        AssertWaitsForItsVersion(_loop, reader, One);
        Assert.Equal(One, reader.Call("GET", "moved"));
    }

    // Strong reads by a majority: also of what nobody has written.
    [Theory]
    [InlineData("$-1\r\n", "GET", "cold")]
    [InlineData("*2\r\n$-1\r\n$-1\r\n", "MGET", "cold", "colder")]
    [InlineData(":0\r\n", "DBSIZE")]
    public void Read_WhereReadsAreHeld_WaitsForItsOwnVersion(string reply, params string[] request)
    {
        using var redis = new RedisServer();
        using var loop = new HeldLoop(redis, new HeldShard(holdsReplies: true) { HoldsReads = true });
        using (RespConnection first = loop.Connect()) { }
        loop.Begin();
        using RespConnection reader = loop.Connect();
        // What tells of no data does not wait.
        Assert.Equal("+PONG\r\n", reader.Call("PING"));
        reader.Send(request);
        AssertWaitsForItsVersion(loop, reader, reply);
    }

    private void AssertWaitsForItsVersion(HeldLoop loop, RespConnection reader, string reply)
    {
        loop.AwaitHeld(reply.Length);
        long version = loop.EndVersion();
        loop.Settle(version - 1);
        AssertSilent(reader);
        loop.Settle(version);
        Assert.Equal(reply, reader.Read());
    }

    [Theory]
    [InlineData("GET", "hot")]
    [InlineData("MGET", "cold", "hot")]
    [InlineData("STRLEN", "hot")]
    [InlineData("DBSIZE")]
    [InlineData("SCAN", "0")]
    [InlineData("INFO", "keyspace")]
    [InlineData("EVAL_RO", "return redis.call('GET', 'hot')", "0")]
    public void Read_OfAHotKeyOrOfUnknownKeys_Waits(params string[] request)
    {
        using RespConnection writer = _loop.Connect(), reader = _loop.Connect();
        writer.Send("MSET", "warm", "0", "hot", "1");
        _loop.AwaitHeld(OkBytes);
        reader.Send(request);
        HeldLoop.Until(() => _loop.Of(static loop => loop.OutputBytes) > OkBytes);
        AssertSilent(reader);
        _loop.Settle(_loop.EndVersion());
        reader.Read();
        Assert.Equal("+OK\r\n", writer.Read());
    }

    [Fact]
    public void Read_BehindAHeldReply_WaitsInItsPlace()
    {
        using RespConnection client = _loop.Connect();
        client.SendRaw([.. RespConnection.Request("SET", "a", "1"), .. RespConnection.Request("GET", "cold")]);
        _loop.AwaitHeld(OkBytes + NilBytes);
        client.Send("GET", "cold");
        _loop.AwaitHeld(OkBytes + NilBytes + NilBytes);
        long first = _loop.EndVersion();
        client.Send("SET", "b", "1");
        _loop.AwaitHeld(OkBytes + NilBytes + NilBytes + OkBytes);
        long second = _loop.EndVersion();
        AssertSilent(client);
        _loop.Settle(first);
        Assert.Equal("+OK\r\n", client.Read());
        Assert.Equal("$-1\r\n", client.Read());
        Assert.Equal("$-1\r\n", client.Read());
        _loop.AwaitHeld(OkBytes);
        AssertSilent(client);
        _loop.Settle(second);
        Assert.Equal("+OK\r\n", client.Read());
    }

    [Fact]
    public void Key_IsColdAgain_WhenItsLastVersionIsSettled()
    {
        using RespConnection writer = _loop.Connect(), reader = _loop.Connect();
        writer.Send("SET", "k", "1");
        _loop.AwaitHeld(OkBytes);
        long first = _loop.EndVersion();
        writer.Send("SET", "k", "2");
        _loop.AwaitHeld(OkBytes + OkBytes);
        long second = _loop.EndVersion();
        _loop.Settle(first);
        Assert.Equal("+OK\r\n", writer.Read());
        reader.Send("GET", "k");
        _loop.AwaitHeld(OkBytes + "$1\r\n2\r\n".Length);
        AssertSilent(reader);
        _loop.Settle(second);
        Assert.Equal("$1\r\n2\r\n", reader.Read());
        Assert.Equal("$1\r\n2\r\n", reader.Call("GET", "k"));
    }

    [Fact]
    public void Store_WhenItOpens_IsHot()
    {
        using var redis = new RedisServer();
        using var loop = new HeldLoop(redis, new HeldShard(holdsReplies: true));
        using RespConnection client = loop.Connect();
        client.Send("GET", "of an earlier process");
        loop.AwaitHeld(NilBytes);
        AssertSilent(client);
        loop.Settle(loop.EndVersion());
        Assert.Equal("$-1\r\n", client.Read());
    }

    // ---- On connections of their own ----

    [Theory]
    [InlineData("EVAL", "return redis.call('SET', 'hot', '1')", "0")]
    [InlineData("FLUSHALL")]
    [InlineData("NONSENSE")]
    public void Request_OfUnknownKeys_MakesAllKeysHot(params string[] request)
    {
        using RespConnection writer = _loop.Connect(), reader = _loop.Connect();
        writer.Send(request);
        HeldLoop.Until(() => _loop.Of(static loop => loop.OutputBytes) > 0);
        long held = _loop.Of(static loop => loop.OutputBytes);
        reader.Send("GET", "hot");
        HeldLoop.Until(() => _loop.Of(static loop => loop.OutputBytes) > held);
        AssertSilent(reader);
        AssertSilent(writer);
        _loop.Settle(_loop.EndVersion());
        writer.Read();
        reader.Read();
    }

    [Fact]
    public void Transaction_IsHeldFromItsExecOn()
    {
        using RespConnection client = _loop.Connect(), reader = _loop.Connect();
        Assert.Equal("+OK\r\n", client.Call("WATCH", "k"));
        Assert.Equal("+OK\r\n", client.Call("MULTI"));
        Assert.Equal("+QUEUED\r\n", client.Call("INCR", "k"));
        Assert.Equal("$-1\r\n", reader.Call("GET", "k"));
        client.Send("EXEC");
        _loop.AwaitHeld("*1\r\n:1\r\n".Length);
        reader.Send("GET", "k");
        _loop.AwaitHeld("*1\r\n:1\r\n".Length + "$1\r\n1\r\n".Length);
        AssertSilent(client);
        _loop.Settle(_loop.EndVersion());
        Assert.Equal("*1\r\n:1\r\n", client.Read());
        Assert.Equal("$1\r\n1\r\n", reader.Read());
    }

    [Fact]
    public void WhatBlocked_RestsOnTheVersionOfItsReply()
    {
        using RespConnection blocked = _loop.Connect(), writer = _loop.Connect(), reader = _loop.Connect();
        blocked.Send("BLMOVE", "from", "to", "LEFT", "LEFT", "0");
        HeldLoop.Until(() => _loop.Of(static loop => loop.Clients.Count(static c => c.Dedicated is { BlockingInFlight: > 0 })) == 1);
        // What blocks and has done nothing yet is in nobody's way.
        _loop.EndVersion();
        _loop.Settle(_loop.EndVersion());
        Assert.Equal("$-1\r\n", reader.Call("GET", "cold"));
        writer.Send("RPUSH", "from", "x");
        const int Replies = 7 + 4;
        _loop.AwaitHeld(Replies);
        // Its effect is on another key than the one that was written.
        reader.Send("LLEN", "to");
        _loop.AwaitHeld(Replies + ":1\r\n".Length);
        AssertSilent(blocked);
        AssertSilent(reader);
        _loop.Settle(_loop.EndVersion());
        Assert.Equal("$1\r\nx\r\n", blocked.Read());
        Assert.Equal(":1\r\n", reader.Read());
        Assert.Equal(":1\r\n", writer.Read());
    }

    [Fact]
    public void Pushes_WaitForWhatCameBefore()
    {
        using RespConnection writer = _loop.Connect(), subscriber = _loop.Connect(), monitor = _loop.Connect();
        subscriber.Call("SUBSCRIBE", "c");
        // Nobody says of it that it writes nothing.
        monitor.Send("MONITOR");
        _loop.AwaitHeld(OkBytes);
        _loop.Settle(_loop.EndVersion());
        Assert.Equal("+OK\r\n", monitor.Read());
        Assert.Equal(":1\r\n", writer.Call("PUBLISH", "c", "m"));
        Assert.Equal(Message, subscriber.Read());
        Assert.Contains("PUBLISH", monitor.Read(), StringComparison.Ordinal);
        writer.SendRaw([.. RespConnection.Request("SET", "k", "1"), .. RespConnection.Request("PUBLISH", "c", "m")]);
        HeldLoop.Until(() => _loop.Of(static loop => loop.OutputBytes) > OkBytes + 4 + Message.Length);
        AssertSilent(subscriber);
        AssertSilent(monitor);
        _loop.Settle(_loop.EndVersion());
        Assert.Equal(Message, subscriber.Read());
        Assert.Contains("SET", monitor.Read(), StringComparison.Ordinal);
        Assert.Equal("+OK\r\n", writer.Read());
    }

    [Fact]
    public void Reply_OfManyPieces_IsHeldAsAWhole()
    {
        using RespConnection writer = _loop.Connect(), reader = _loop.Connect();
        string value = new('v', 3 << 20);
        writer.Send("SET", "large", value);
        _loop.AwaitHeld(OkBytes);
        reader.Send("GET", "large");
        int length = $"${value.Length}\r\n".Length + value.Length + 2;
        _loop.AwaitHeld(OkBytes + length);
        AssertSilent(reader);
        _loop.Settle(_loop.EndVersion());
        Assert.Equal($"${value.Length}\r\n{value}\r\n", reader.Read());
    }

    // ---- Ends ----

    [Fact]
    public void Quit_BehindAHeldReply_EndsTheConnectionBehindIt()
    {
        using RespConnection client = _loop.Connect(), ended = _loop.Connect();
        client.SendRaw([.. RespConnection.Request("SET", "a", "1"), .. RespConnection.Request("QUIT")]);
        ended.Send("SET", "b", "1");
        ended.EndSending();
        _loop.AwaitHeld(3 * OkBytes);
        AssertSilent(client);
        AssertSilent(ended);
        _loop.Settle(_loop.EndVersion());
        Assert.Equal("+OK\r\n+OK\r\n", client.ReadToEnd());
        Assert.Equal("+OK\r\n", ended.ReadToEnd());
    }

    [Fact]
    public void StoreClosed_NothingThatWaitedEverLeaves()
    {
        using RespConnection client = _loop.Connect(), ending = _loop.Connect();
        client.Send("SET", "a", "1");
        ending.SendRaw([.. RespConnection.Request("SET", "b", "1"), .. RespConnection.Request("QUIT")]);
        _loop.AwaitHeld(3 * OkBytes);
        long version = _loop.EndVersion();
        _loop.Loop.Post(() => _loop.Loop.CloseStore("the test closes it"));
        _loop.Settle(version);
        Assert.Equal("", client.ReadToEnd());
        Assert.Equal("", ending.ReadToEnd());
        _loop.AwaitHeld(0);
    }

    [Fact]
    public void Output_ThatIsHeld_CountsToTheLimit()
    {
        using var redis = new RedisServer();
        using var loop = new HeldLoop(redis, new HeldShard(holdsReplies: true), new FrontEndLimits { ClientOutputBytes = 1 << 20 });
        using RespConnection client = loop.Connect();
        client.Send("SET", "large", new string('v', 600_000));
        client.SendRaw([.. RespConnection.Request("GET", "large"), .. RespConnection.Request("GET", "large")]);
        Assert.Equal("", client.ReadToEnd());
    }

    // ---- The gate ----

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Silence_HoldsWhatWasRead_AndAllLeavesInOrderBehindIt(bool holdsReplies)
    {
        using var redis = new RedisServer();
        using var loop = new HeldLoop(redis, new HeldShard(holdsReplies));
        using RespConnection client = loop.Connect(), pinned = loop.Connect(), subscriber = loop.Connect();
        pinned.Send("WATCH", "k");
        subscriber.Send("SUBSCRIBE", "c");
        loop.Settle(loop.EndVersion());
        pinned.Read();
        subscriber.Read();
        loop.Speak(false);
        client.SendRaw([.. RespConnection.Request("ECHO", "1"), .. RespConnection.Request("GET", "k")]);
        pinned.Send("PUBLISH", "c", "m");
        loop.AwaitHeld(One.Length + NilBytes + Count.Length + Message.Length);
        AssertSilent(client);
        AssertSilent(pinned);
        AssertSilent(subscriber);
        client.Send("ECHO", "2");
        loop.AwaitHeld((2 * One.Length) + NilBytes + Count.Length + Message.Length);
        loop.Speak(true);
        Assert.Equal(One, client.Read());
        Assert.Equal("$-1\r\n", client.Read());
        Assert.Equal("$1\r\n2\r\n", client.Read());
        Assert.Equal(":1\r\n", pinned.Read());
        Assert.Equal(Message, subscriber.Read());
        Assert.Equal("$1\r\n3\r\n", client.Call("ECHO", "3"));
    }

    [Fact]
    public void Silence_AndHeldVersions_BothMustEnd()
    {
        using RespConnection client = _loop.Connect();
        client.Send("SET", "a", "1");
        _loop.AwaitHeld(OkBytes);
        _loop.Speak(false);
        client.Send("SET", "b", "1");
        _loop.AwaitHeld(2 * OkBytes);
        _loop.Settle(_loop.EndVersion());
        // Of what was read with the right to tell nothing but its version was waited for.
        Assert.Equal("+OK\r\n", client.Read());
        _loop.AwaitHeld(OkBytes);
        AssertSilent(client);
        _loop.Speak(true);
        Assert.Equal("+OK\r\n", client.Read());
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Silence_UntilTheStoreIsClosed_NothingLeaves(bool holdsReplies)
    {
        using var redis = new RedisServer();
        using var loop = new HeldLoop(redis, new HeldShard(holdsReplies));
        using RespConnection client = loop.Connect();
        loop.Speak(false);
        client.Send("GET", "k");
        loop.AwaitHeld(NilBytes);
        loop.Loop.Post(() => loop.Loop.CloseStore("another leads"));
        loop.Speak(true);
        loop.Settle(long.MaxValue);
        Assert.Equal("", client.ReadToEnd());
    }

    // ---- The parts ----

    [Fact]
    public void ReplyMarks_OfAnyNumber_NeverLetAnythingOutTooEarlyAndAllInTheEnd()
    {
        var random = new Random(1);
        for (int round = 0; round < 300; round++)
        {
            var marks = default(ReplyMarks);
            var all = new List<(long From, long Version)>();
            long at = 0, settled = 0, version = 1;
            for (int step = 0; step < 300; step++)
            {
                if (random.Next(4) > 0)
                {
                    at += random.Next(1, 9);
                    version += random.Next(-1, 3);
                    if (version > settled) { all.Add((at, version)); marks.Add(at, version); }
                    continue;
                }
                settled += random.Next(0, 3);
                long wanted = all.Where(m => m.Version > settled).Select(static m => m.From).DefaultIfEmpty(long.MaxValue).Min();
                Assert.InRange(marks.Settle(settled), 0, wanted);
            }
            Assert.Equal(long.MaxValue, marks.Settle(version + 300));
        }
    }

    [Fact]
    public void HotKeys_AmongMany_ForgetNothingThatIsUnsettled()
    {
        var random = new Random(1);
        var keys = new HotKeys();
        var last = new Dictionary<int, long>();
        long settled = 0;
        for (long version = 1; version < 400; version++)
        {
            for (int i = random.Next(200); i > 0; i--)
            {
                int key = random.Next(3000);
                Assert.True(keys.Add(BitConverter.GetBytes(key), version, settled));
                last[key] = version;
            }
            settled = Math.Max(settled, version - random.Next(1, 9));
            foreach ((int key, long written) in last)
            {
                if (written > settled) { Assert.InRange(keys.VersionOf(BitConverter.GetBytes(key)), written, version); }
            }
            Assert.InRange(keys.VersionOf("not written"u8), 0, settled);
        }
    }

    [Fact]
    public void HotKeys_TooManyUnsettled_SaySo()
    {
        var keys = new HotKeys();
        int added = 0;
        while (keys.Add(BitConverter.GetBytes(added), 1, 0)) { added++; }
        Assert.InRange(added, 1 << 18, 1 << 20);
        Assert.True(keys.Add("k"u8, 2, 1));
        Assert.Equal(2, keys.VersionOf("k"u8));
    }

    private void AssertSilent(RespConnection client)
    {
        // What was sent to it has arrived when the loop answers once more.
        _loop.Of(static loop => loop.Now);
        Thread.Sleep(20);
        Assert.Equal(0, client.Socket.Available);
        Assert.Equal("", client.Unread);
    }
}
