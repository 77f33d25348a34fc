// What clients of a cohort's node are told: where a follower sends them, what it answers itself, and how all nodes answer for Redis Cluster
// and for Sentinels.
using System.Net.Sockets;
using Slogger.Core.Identities;
using Slogger.FrontEnd;
using Slogger.Proxy.Tests.Harness;

namespace Slogger.Proxy.Tests.FrontEnd;

public sealed class CohortTests : IDisposable
{
    private const string Pong = "+PONG\r\n";
    private static readonly CohortSeat A = new("a", "10.0.0.1", 7001, Follows: true), B = new("b", "10.0.0.2", 7002, Follows: true),
        C = new("c", "10.0.0.3", 7003, Follows: false);
    private readonly RedisServer _redis = new();
    private readonly List<HeldLoop> _loops = [];

    public void Dispose()
    {
        foreach (HeldLoop loop in _loops) { loop.Dispose(); }
        _redis.Dispose();
    }

    // ---- A follower ----

    [Theory]
    [InlineData("-MOVED 12182 10.0.0.1:7001\r\n", "GET", "foo")]
    [InlineData("-MOVED 12182 10.0.0.1:7001\r\n", "SET", "foo", "1")]
    [InlineData("-MOVED 12182 10.0.0.1:7001\r\n", "MGET", "foo", "bar")]
    [InlineData("-MOVED 12182 10.0.0.1:7001\r\n", "EVAL", "return 1", "1", "foo")]
    [InlineData("-MOVED 12182 10.0.0.1:7001\r\n", "BLPOP", "foo", "0")]
    [InlineData("-MOVED 12182 10.0.0.1:7001\r\n", "WATCH", "foo")]
    [InlineData("-MOVED 12182 10.0.0.1:7001\r\n", "OBJECT", "ENCODING", "foo")]
    [InlineData("-MOVED 12182 10.0.0.1:7001\r\n", "DPR.GETV", "foo")]
    [InlineData("-MOVED 0 10.0.0.1:7001\r\n", "DBSIZE")]
    [InlineData("-MOVED 0 10.0.0.1:7001\r\n", "FLUSHALL")]
    [InlineData("-MOVED 0 10.0.0.1:7001\r\n", "PUBLISH", "c", "m")]
    [InlineData("-MOVED 0 10.0.0.1:7001\r\n", "DPR.WAIT", "*", "0")]
    [InlineData("-MOVED 0 10.0.0.1:7001\r\n", "WAITAOF", "1", "0", "0")]
    [InlineData("+PONG\r\n", "PING")]
    [InlineData("$1\r\nx\r\n", "ECHO", "x")]
    [InlineData("+OK\r\n", "SELECT", "1")]
    [InlineData("+OK\r\n", "CLIENT", "SETNAME", "x")]
    [InlineData("+OK\r\n", "MULTI")]
    [InlineData("-ERR unknown command 'NOSUCH', with args beginning with: 'foo' \r\n", "NOSUCH", "foo")]
    public void Follower_PlainClient_IsSentToTheLeader(string reply, params string[] request)
    {
        using RespConnection client = Follower(A).Connect();
        Assert.Equal(reply, client.Call(request));
        Assert.Equal(request[0] == "MULTI" ? "+QUEUED\r\n" : Pong, client.Call("PING"));
    }

    // A client of Sentinels that was told an older leader would never look again.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Follower_ClientDoesNotFollow_IsClosedBehindAReply(bool isInTransaction)
    {
        using RespConnection client = Follower(A).Connect();
        if (isInTransaction) { Assert.Equal("+OK\r\n", client.Call("MULTI")); }
        Assert.Equal("-MOVED 12182 10.0.0.1:7001\r\n", client.Call("SET", "foo", "1"));
        Assert.Equal("-MOVED 12182 10.0.0.1:7001\r\n", client.Call("SET", "foo", "1"));
        Thread.Sleep(1_100);
        client.Send("SET", "foo", "1");
        Assert.Equal("-MOVED 12182 10.0.0.1:7001\r\n", client.ReadToEnd());
    }

    // What it reads may be too old for longer than that, and some of what it sends writes.
    [Fact]
    public void Follower_ClientThatReadsThere_IsNotClosed()
    {
        using RespConnection client = Follower(A).Connect();
        Assert.Equal("+OK\r\n", client.Call("READONLY"));
        Assert.StartsWith("-MOVED", client.Call("SET", "foo", "1"), StringComparison.Ordinal);
        Thread.Sleep(1_100);
        Assert.StartsWith("-MOVED", client.Call("SET", "foo", "1"), StringComparison.Ordinal);
        Assert.Equal(Pong, client.Call("PING"));
    }

    [Fact]
    public void Follower_Pipeline_IsAnsweredInOrder()
    {
        using RespConnection client = Follower(A).Connect();
        for (int i = 0; i < 100; i++)
        {
            client.Send("PING");
            client.Send("GET", "foo");
            client.Send("ECHO", "x");
        }
        for (int i = 0; i < 100; i++)
        {
            Assert.Equal(Pong, client.Read());
            Assert.Equal("-MOVED 12182 10.0.0.1:7001\r\n", client.Read());
            Assert.Equal("$1\r\nx\r\n", client.Read());
        }
    }

    [Fact]
    public void Follower_LargeWrite_IsSentToTheLeaderWhole()
    {
        using RespConnection client = Follower(A).Connect();
        Assert.Equal("-MOVED 12182 10.0.0.1:7001\r\n", client.Call("SET", "foo", new string('x', 1 << 20)));
        Assert.Equal(Pong, client.Call("PING"));
    }

    [Fact]
    public void Follower_ReadOnly_ServesReadsAndNoWrites()
    {
        using RespConnection store = _redis.Connect();
        store.Call("SET", "foo", "1");
        using RespConnection client = Follower(A).Connect();
        Assert.Equal("+OK\r\n", client.Call("READONLY"));
        Assert.Equal("$1\r\n1\r\n", client.Call("GET", "foo"));
        Assert.Equal(":1\r\n", client.Call("DBSIZE"));
        for (int i = 0; i < 50; i++)
        {
            client.Send("GET", "foo");
            client.Send("MGET", "foo", "bar");
            client.Send("SET", "foo", "2");
            client.Send("EVAL", "return 1", "0");
        }
        for (int i = 0; i < 50; i++)
        {
            Assert.Equal("$1\r\n1\r\n", client.Read());
            Assert.Equal("*2\r\n$1\r\n1\r\n$-1\r\n", client.Read());
            Assert.Equal("-MOVED 12182 10.0.0.1:7001\r\n", client.Read());
            Assert.Equal("-MOVED 0 10.0.0.1:7001\r\n", client.Read());
        }
        Assert.Equal("$1\r\n1\r\n", store.Call("GET", "foo"));
        Assert.Equal("+OK\r\n", client.Call("READWRITE"));
        Assert.StartsWith("-MOVED", client.Call("GET", "foo"));
        client.Call("READONLY");
        Assert.Equal("+RESET\r\n", client.Call("RESET"));
        Assert.StartsWith("-MOVED", client.Call("GET", "foo"));
    }

    [Fact]
    public void Follower_Transaction_DoesNotRunWithARequestForTheLeader()
    {
        using RespConnection client = Follower(A).Connect();
        client.Call("READONLY");
        client.Call("MULTI");
        Assert.Equal("+QUEUED\r\n", client.Call("GET", "foo"));
        Assert.Equal("*1\r\n$-1\r\n", client.Call("EXEC"));
        client.Call("MULTI");
        Assert.StartsWith("-MOVED 12182", client.Call("SET", "foo", "1"));
        Assert.StartsWith("-EXECABORT", client.Call("EXEC"));
        Assert.Equal("-ERR SLOGGER READONLY cannot be queued in a transaction\r\n", Queued(client, "READONLY"));
    }

    [Fact]
    public void Follower_TooOld_DoesNotServeReads()
    {
        var cohort = new Told("b", A, A, B, C) { AgeUs = 2_000_000 };
        using RespConnection client = Follower(cohort).Connect();
        client.Call("READONLY");
        Assert.Equal("-MOVED 12182 10.0.0.1:7001\r\n", client.Call("GET", "foo"));
        cohort.AgeUs = 999_000;
        Assert.Equal("$-1\r\n", client.Call("GET", "foo"));
        cohort.AgeUs = null;
        Assert.StartsWith("-MOVED", client.Call("GET", "foo"));
        cohort.View = cohort.View with { Leader = null };
        Assert.StartsWith("-SLOGGER STALE age=unknown", client.Call("GET", "foo"));
        cohort.AgeUs = 2_000_000;
        Assert.StartsWith("-SLOGGER STALE age=2000ms", client.Call("GET", "foo"));
        cohort.ReadsStaleMax = TimeSpan.Zero;
        Assert.Equal("$-1\r\n", client.Call("GET", "foo"));
    }

    [Fact]
    public void Follower_WithoutALeader_SaysThatTheClusterIsDown()
    {
        using RespConnection client = Follower(new Told("b", null, A, B, C)).Connect();
        Assert.StartsWith("-CLUSTERDOWN no leader", client.Call("SET", "foo", "1"));
        Assert.Equal("*-1\r\n", client.Call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "shop"));
        Assert.Contains("cluster_state:fail", client.Call("CLUSTER", "INFO"));
        Assert.Contains("s_down,o_down,master", client.Call("SENTINEL", "MASTER", "shop"));
    }

    // ---- Who leads ----

    [Fact]
    public void Role_OfEachNode_IsTrue()
    {
        using RespConnection leader = Leader().Connect(), follower = Follower(A).Connect();
        Assert.Equal("*3\r\n$6\r\nmaster\r\n:0\r\n*1\r\n*3\r\n$8\r\n10.0.0.2\r\n$4\r\n7002\r\n$1\r\n0\r\n", leader.Call("ROLE"));
        Assert.Equal("*5\r\n$5\r\nslave\r\n$8\r\n10.0.0.1\r\n:7001\r\n$9\r\nconnected\r\n:0\r\n", follower.Call("ROLE"));
        Assert.Contains("$4\r\nrole\r\n$6\r\nmaster\r\n", leader.Call("HELLO", "3"));
        Assert.Contains("$4\r\nrole\r\n$7\r\nreplica\r\n", follower.Call("HELLO", "3"));
        string ofLeader = leader.Call("INFO", "replication"), ofFollower = follower.Call("INFO", "replication");
        Assert.Contains("role:master\r\nconnected_slaves:1\r\nslave0:ip=10.0.0.2,port=7002,state=online,offset=0,lag=0\r\n", ofLeader);
        Assert.Contains("role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:7001\r\n", ofFollower);
        Assert.DoesNotContain("role:master", ofFollower);
        Assert.DoesNotContain("role:slave", ofLeader);
    }

    [Fact]
    public void Leader_ServesAsWithoutACohort()
    {
        using RespConnection client = Leader().Connect();
        Assert.Equal("+OK\r\n", client.Call("SET", "foo", "1"));
        Assert.Equal("*2\r\n$1\r\n1\r\n$-1\r\n", client.Call("MGET", "foo", "bar"));
        Assert.Equal("+OK\r\n", client.Call("SELECT", "1"));
        Assert.Equal("+OK\r\n", client.Call("READONLY"));
    }

    // Its clients look for another node at once.
    [Fact]
    public void LeaderThatHasSteppedDown_KeepsNobody_AndTakesNobody()
    {
        HeldLoop loop = Leader();
        using RespConnection works = loop.Connect(), hasDoneNothing = loop.ConnectOnly();
        HeldLoop.Until(() => loop.Of(static l => l.Clients.Count) == 2);
        loop.Loop.Post(() =>
        {
            loop.Loop.TakeNobody();
            loop.Loop.CloseStore("it leads no more");
        });
        Assert.Throws<EndOfStreamException>(works.Read);
        Assert.Throws<EndOfStreamException>(hasDoneNothing.Read);
        Assert.Throws<SocketException>(() => loop.ConnectOnly());
        using var overTls = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        loop.Loop.Post(() => loop.Loop.Clients.Admit(overTls));
        HeldLoop.Until(() => overTls.SafeHandle.IsClosed);
    }

    // ---- Redis Cluster ----

    [Fact]
    public void Cluster_OfOneShard_HasTheLeaderAndWhoFollows()
    {
        using RespConnection client = Follower(A).Connect();
        string slots = client.Call("CLUSTER", "SLOTS"), nodes = client.Call("CLUSTER", "NODES");
        string shards = client.Call("CLUSTER", "SHARDS");
        Assert.StartsWith("*1\r\n*4\r\n:0\r\n:16383\r\n*4\r\n$8\r\n10.0.0.1\r\n:7001\r\n$40\r\n", slots);
        Assert.Contains("*4\r\n$8\r\n10.0.0.2\r\n:7002\r\n", slots);
        Assert.DoesNotContain("10.0.0.3", slots);
        string id = client.Call("CLUSTER", "MYID")[5..45];
        Assert.Contains($"{id} 10.0.0.2:7002@17002 myself,slave ", nodes);
        Assert.Contains(" 10.0.0.1:7001@17001 master - 0 0 5 connected 0-16383\n", nodes);
        Assert.Contains(" 10.0.0.3:7003@17003 slave,fail ", nodes);
        Assert.Equal(2, shards.Split("$7\r\nreplica\r\n").Length - 1);
        Assert.Contains("cluster_state:ok\r\n", client.Call("CLUSTER", "INFO"));
        Assert.Contains("cluster_known_nodes:3\r\n", client.Call("CLUSTER", "INFO"));
        Assert.Equal(":12182\r\n", client.Call("CLUSTER", "KEYSLOT", "foo"));
    }

    // ---- Sentinels ----

    [Fact]
    public void Sentinel_OfEachNode_NamesTheLeader()
    {
        foreach (HeldLoop loop in (HeldLoop[])[Follower(A), Leader()])
        {
            using RespConnection client = loop.Connect();
            Assert.Equal("*2\r\n$8\r\n10.0.0.1\r\n$4\r\n7001\r\n", client.Call("SENTINEL", "get-master-addr-by-name", "shop"));
            Assert.Equal("*-1\r\n", client.Call("SENTINEL", "get-master-addr-by-name", "other"));
            Assert.Equal("-ERR No such master with that name\r\n", client.Call("SENTINEL", "MASTER", "other"));
            string masters = client.Call("SENTINEL", "MASTERS"), replicas = client.Call("SENTINEL", "REPLICAS", "shop");
            Assert.StartsWith("*1\r\n*40\r\n$4\r\nname\r\n$4\r\nshop\r\n$2\r\nip\r\n$8\r\n10.0.0.1\r\n", masters);
            Assert.Contains("$4\r\nport\r\n$4\r\n7001\r\n", masters);
            Assert.Contains("$5\r\nflags\r\n$6\r\nmaster\r\n", masters);
            Assert.StartsWith("*2\r\n", replicas);
            Assert.Contains("$5\r\nflags\r\n$5\r\nslave\r\n", replicas);
            Assert.Contains("$5\r\nflags\r\n$25\r\ns_down,slave,disconnected\r\n", replicas);
            Assert.Equal(replicas, client.Call("SENTINEL", "SLAVES", "shop"));
            Assert.StartsWith("*2\r\n", client.Call("SENTINEL", "SENTINELS", "shop"));
            Assert.StartsWith("$40\r\n", client.Call("SENTINEL", "MYID"));
            Assert.StartsWith("-ERR wrong number of arguments for 'sentinel|masters'", client.Call("SENTINEL", "MASTERS", "x"));
            Assert.StartsWith("-ERR SLOGGER", client.Call("SENTINEL", "FAILOVER", "shop"));
            client.Call("HELLO", "3");
            Assert.StartsWith("*1\r\n%20\r\n", client.Call("SENTINEL", "MASTERS"));
        }
    }

    [Theory]
    [InlineData("a", false)]
    [InlineData("c", true)]
    public void NewLeader_IsToldToWhoIsSubscribed(string self, bool follows)
    {
        var cohort = new Told(self, B, A, B, C);
        using var loop = new HeldLoop(_redis, new HeldShard(holdsReplies: false)
        {
            RunsByItself = true, Cohort = cohort, IsFollowing = follows,
        });
        using RespConnection client = loop.Connect();
        HeldLoop.Until(() => loop.Of(static l => l.Shared is not null));
        client.Call("SUBSCRIBE", "+switch-master");
        HeldLoop.Until(() => loop.Of(static l => l.News!.Leader is not null));
        cohort.View = cohort.View with { Leader = A };
        Assert.Equal("*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$32\r\nshop 10.0.0.2 7002 10.0.0.1 7001\r\n", client.Read());
    }

    // ---- Without one ----

    [Fact]
    public void ShardAlone_IsNoClusterAndNoSentinel()
    {
        HeldLoop loop = Begun(new HeldShard(holdsReplies: false) { RunsByItself = true });
        using RespConnection client = loop.Connect();
        Assert.StartsWith("-ERR This instance has cluster support disabled", client.Call("CLUSTER", "SLOTS"));
        Assert.StartsWith("-ERR This instance has cluster support disabled", client.Call("READONLY"));
        Assert.StartsWith("-ERR unknown command", client.Call("SENTINEL", "MASTERS"));
        Assert.StartsWith("*3\r\n$6\r\nmaster\r\n", client.Call("ROLE"));
    }

    private static string Queued(RespConnection client, string request)
    {
        client.Call("MULTI");
        string reply = client.Call(request);
        client.Call("DISCARD");
        return reply;
    }

    private HeldLoop Follower(CohortSeat leader) => Follower(new Told("b", leader, A, B, C));

    private HeldLoop Follower(Told cohort) =>
        Begun(new HeldShard(holdsReplies: true) { Cohort = cohort, IsFollowing = true, RunsByItself = true });

    private HeldLoop Leader() => Begun(new HeldShard(holdsReplies: false) { Cohort = new Told("a", A, A, B, C), RunsByItself = true });

    private HeldLoop Begun(HeldShard shard)
    {
        var loop = new HeldLoop(_redis, shard);
        _loops.Add(loop);
        using (RespConnection first = loop.Connect()) { }
        HeldLoop.Until(() => loop.Of(static l => l.Catalog.IsKnown));
        return loop;
    }

    private sealed class Told(string self, CohortSeat? leader, params CohortSeat[] nodes) : ICohortPort
    {
        private volatile CohortView _view = new(self, leader, [.. nodes], 5);
        private long _ageUs;

        public CohortView View
        {
            get => _view;
            set => _view = value;
        }

        public long? AgeUs
        {
            get => Volatile.Read(ref _ageUs) is >= 0 and var us ? us : null;
            set => Volatile.Write(ref _ageUs, value ?? -1);
        }

        public TimeSpan ReadsStaleMax { get; set; } = TimeSpan.FromSeconds(1);

        public string MasterName => "shop";

        public string Cluster => "shop";

        public ShardId Shard => new(0);
    }
}
