// What clients can find out of each other, and do to each other: as at Redis, though most of them have no connection there.
using System.Globalization;
using System.Net;
using Slogger.FrontEnd;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Tests.Harness;
using Slogger.Resp;

namespace Slogger.Proxy.Tests.FrontEnd;

public sealed class AdminTests
{
    public static TheoryData<bool> Stores => OperatingSystem.IsLinux() ? [false, true] : [false];

    // A Redis of its own for each test, reached over TCP or a Unix socket: where addresses tell nothing, ids must.
    private sealed class Pair : IDisposable
    {
        public Pair(bool unix)
        {
            Redis = new RedisServer();
            Proxy = new TestProxy(Redis, OperatingSystem.IsLinux() ? TransportKind.Epoll : TransportKind.Sockets,
                o => unix ? o with { Redis = ListenAddress.Unix(Redis.UnixPath) } : o);
        }

        public RedisServer Redis { get; }

        public TestProxy Proxy { get; }

        public void Dispose()
        {
            Proxy.Dispose();
            Redis.Dispose();
        }

        public RespConnection Client()
        {
            RespConnection client = Proxy.Connect();
            Assert.Equal("+OK\r\n", client.Call("SET", "x", "1"));
            return client;
        }
    }

    private static string AddressOf(RespConnection client) => ((IPEndPoint)client.Socket.LocalEndPoint!).ToString();

    private static List<ClientLine> List(RespConnection client, params string[] rest) =>
        ClientLine.Parse(System.Text.Encoding.Latin1.GetBytes(client.Call(["CLIENT", "LIST", .. rest])));

    private static ClientLine LineOf(RespConnection asking, RespConnection client) =>
        List(asking).Single(l => l.Address == AddressOf(client));

    private static long Connected(RespConnection client) => long.Parse(
        client.Call("INFO", "clients").Split("\r\n").Single(l => l.StartsWith("connected_clients:", StringComparison.Ordinal))
            .Split(':')[1], CultureInfo.InvariantCulture);

    [Theory]
    [MemberData(nameof(Stores))]
    public void ClientList_OfSharedDedicatedAndDirectClients_ShowsEachOnceAsItIs(bool unix)
    {
        using var pair = new Pair(unix);
        using RespConnection asking = pair.Client(), shared = pair.Client(), subscribed = pair.Client(), direct = pair.Redis.Connect();
        direct.Call("PING");
        subscribed.Call("SUBSCRIBE", "c");
        List<ClientLine> lines = List(asking);
        Assert.Equal(
            new[] { asking, shared, subscribed, direct }.Select(AddressOf).Order(),
            lines.Select(l => l.Address).Order());
        Assert.All(lines, l => Assert.Equal($"127.0.0.1:{(l.Address == AddressOf(direct) ? pair.Redis.Port : pair.Proxy.Port)}",
            l["laddr"]));
        Assert.Equal("set", LineOf(asking, shared)["cmd"]);
        Assert.Equal(4, Connected(asking));
        Assert.Equal([AddressOf(subscribed)], List(asking, "TYPE", "pubsub").Select(l => l.Address));
        string id = LineOf(asking, shared)["id"];
        Assert.Equal([AddressOf(shared)], List(asking, "ID", id).Select(l => l.Address));
        Assert.Equal(AddressOf(shared), ClientLine.Parse(System.Text.Encoding.Latin1.GetBytes(shared.Call("CLIENT", "INFO")))
            .Single().Address);
        Assert.Equal(":0\r\n", asking.Call("CLIENT", "UNBLOCK", id));
        Assert.StartsWith("-ERR The client ID you want redirect to does not exist",
            asking.Call("CLIENT", "TRACKING", "ON", "REDIRECT", id), StringComparison.Ordinal);
    }

    [Theory]
    [MemberData(nameof(Stores))]
    public void ClientKill_OfEachForm_HitsClientsAndNothingOfTheProxy(bool unix)
    {
        using var pair = new Pair(unix);
        using RespConnection asking = pair.Client(), watching = pair.Client(), direct = pair.Redis.Connect();
        HashSet<string> before = [.. List(direct).Select(l => l["id"])];
        (string[] Request, string Answer)[] forms =
        [
            (["ID", "{id}"], ":1\r\n"), (["{addr}"], "+OK\r\n"), (["ADDR", "{addr}", "LADDR", "127.0.0.1:{port}"], ":1\r\n"),
                (["ADDR", "{addr}", "USER", "default", "SKIPME", "no"], ":1\r\n"),
        ];
        foreach ((string[] request, string answer) in forms)
        {
            using RespConnection victim = pair.Client();
            string[] words = [.. request.Select(w => w.Replace("{id}", LineOf(asking, victim)["id"], StringComparison.Ordinal)
                .Replace("{addr}", AddressOf(victim), StringComparison.Ordinal)
                .Replace("{port}", pair.Proxy.Port.ToString(CultureInfo.InvariantCulture), StringComparison.Ordinal))];
            Assert.Equal(answer, asking.Call(["CLIENT", "KILL", .. words]));
            Assert.Equal("", victim.ReadToEnd());
            Assert.Equal(answer[0] == '+' ? "-ERR No such client\r\n" : ":0\r\n", asking.Call(["CLIENT", "KILL", .. words]));
        }
        using (RespConnection subscribed = pair.Client())
        {
            subscribed.Call("SUBSCRIBE", "c");
            Assert.Equal(":1\r\n", asking.Call("CLIENT", "KILL", "TYPE", "pubsub"));
            Assert.Equal("", subscribed.ReadToEnd());
        }
        Assert.Equal(":2\r\n", asking.Call("CLIENT", "KILL", "TYPE", "normal"));
        Assert.Equal("", watching.ReadToEnd());
        Assert.Equal("", direct.ReadToEnd());
        using RespConnection after = pair.Redis.Connect();
        Assert.Contains(List(after), l => before.Contains(l["id"]));
        Assert.Equal(":1\r\n", asking.Call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no", "LADDR", $"127.0.0.1:{pair.Proxy.Port}"));
        Assert.Equal("", asking.ReadToEnd());
    }

    [Fact]
    public void ClientKill_OfABlockedClient_LeavesItNothingToTake()
    {
        using var pair = new Pair(unix: false);
        using RespConnection asking = pair.Client(), blocked = pair.Client();
        blocked.Send("BLPOP", "q", "0");
        while (!asking.Call("INFO", "clients").Contains("blocked_clients:1", StringComparison.Ordinal)) { Thread.Sleep(5); }
        Assert.Equal(":1\r\n", asking.Call("CLIENT", "KILL", "ADDR", AddressOf(blocked)));
        Assert.Equal(":1\r\n", asking.Call("RPUSH", "q", "v"));
        Assert.Equal("$1\r\nv\r\n", asking.Call("LPOP", "q"));
    }

    [Fact]
    public void WrongRequests_AreAnsweredAsByRedis()
    {
        using var pair = new Pair(unix: false);
        using RespConnection client = pair.Client(), direct = pair.Redis.Connect();
        string[] requests =
        [
            "KILL", "KILL ID 10 wrong", "KILL ID x", "KILL ID 0", "KILL TYPE wrong", "KILL USER nobody", "KILL SKIPME maybe",
                "KILL ID 1 ADDR",
            "KILL 1.2.3.4:5", "LIST TYPE wrong", "LIST ID x", "LIST ID", "LIST ID 281474976710656 x", "INFO x",
        ];
        foreach (string request in requests)
        {
            string[] words = ["CLIENT", .. request.Split(' ')];
            Assert.Equal(direct.Call(words), client.Call(words));
        }
        Assert.Equal("+PONG\r\n", client.Call("PING"));
    }

    [Fact]
    public void ClientKill_ByAUserWhoMayNot_DoesNothing()
    {
        using var pair = new Pair(unix: false);
        using RespConnection asking = pair.Client(), victim = pair.Client();
        asking.Call("ACL", "SETUSER", "limited", "on", "nopass", "+@all", "-client|kill");
        asking.Call("ACL", "SETUSER", "killer", "on", "nopass", "+@all", "-client|list");
        asking.Call("AUTH", "limited", "x");
        Assert.StartsWith("-NOPERM", asking.Call("CLIENT", "KILL", "ADDR", AddressOf(victim)), StringComparison.Ordinal);
        Assert.Equal("+PONG\r\n", victim.Call("PING"));
        asking.Call("AUTH", "killer", "x");
        Assert.Equal(":1\r\n", asking.Call("CLIENT", "KILL", "ADDR", AddressOf(victim)));
    }

    [Fact]
    public void Monitor_WhileViewsChange_ShowsClientsOnlyAndWhereTheyComeFrom()
    {
        using var pair = new Pair(unix: false);
        using RespConnection monitor = pair.Client(), one = pair.Client(), two = pair.Client();
        Assert.Equal("+OK\r\n", monitor.Call("MONITOR"));
        one.Call("SELECT", "3");
        one.Call("INCR", "n");
        two.Call("INCR", "n");
        two.Call("sELECT", "4");
        two.Call("iNCRBY", "n", "2");
        one.Call("INCR", "n");
        one.Call("CLIENT", "ID");
        one.Call("INCR", "n");
        two.Call("ECHO", "end");
        var commands = new List<string>();
        string line;
        do
        {
            line = monitor.Read();
            commands.Add(line[(line.IndexOf("] ", StringComparison.Ordinal) + 2)..].TrimEnd());
            if (commands[^1] == "\"INCR\" \"n\"" && commands.Count > 6)
            {
                Assert.Contains($"[3 {AddressOf(one)}]", line, StringComparison.Ordinal);
            }
        }
        while (!line.Contains("\"end\"", StringComparison.Ordinal));
        Assert.Equal(
            ["\"SELECT\" \"3\"", "\"INCR\" \"n\"", "\"INCR\" \"n\"", "\"SELECT\" \"4\"", "\"INCRBY\" \"n\" \"2\"", "\"INCR\" \"n\"",
                "\"CLIENT\" \"ID\"", "\"INCR\" \"n\"", "\"ECHO\" \"end\""],
            commands);
    }

    [Theory]
    [InlineData(10)]
    [InlineData(3_000_000)]
    public void Request_SpelledAsTheProxysOwn_InPieces_ShowsInTheSlowLog(int valueLength)
    {
        using var pair = new Pair(unix: false);
        using RespConnection client = pair.Client();
        client.Call("CONFIG", "SET", "slowlog-log-slower-than", "0");
        string value = new('x', valueLength);
        string request = $"*3\r\n$3\r\nsET\r\n$1\r\nk\r\n${value.Length}\r\n{value}\r\n";
        foreach (int cut in (int[])[9, 10, 11, 20])
        {
            client.Call("SLOWLOG", "RESET");
            client.SendRaw(request[..cut]);
            Thread.Sleep(20);
            client.SendRaw(request[cut..]);
            Assert.Equal("+OK\r\n", client.Read());
            Assert.Equal($":{valueLength}\r\n", client.Call("STRLEN", "k"));
            Assert.Contains("$3\r\nSET\r\n$1\r\nk\r\n", client.Call("SLOWLOG", "GET"), StringComparison.Ordinal);
        }
    }

    // Redis looks at no byte behind a carriage return.
    [Fact]
    public void Request_SpelledAsTheProxysOwn_WithOddLineEnds_IsAnswered()
    {
        using var pair = new Pair(unix: false);
        using RespConnection client = pair.Client();
        client.SendRaw("*1\rX$4\rXpING\r\n");
        Assert.Equal("+PONG\r\n", client.Read());
        client.SendRaw("*1\rX$4\rXpING\r\n*1\r\n$4\r\nPING\r\n");
        Assert.Equal("+PONG\r\n", client.Read());
        Assert.Equal("+PONG\r\n", client.Read());
    }

    [Fact]
    public async Task Timeout_OfRedis_ClosesIdleClientsThatShare_NotSubscribersNorTheBusy()
    {
        using var pair = new Pair(unix: false);
        using RespConnection busy = pair.Client(), idle = pair.Client(), subscribed = pair.Client();
        subscribed.Call("SUBSCRIBE", "c");
        Assert.Equal("+OK\r\n", busy.Call("CONFIG", "SET", "timeout", "1"));
        Task<string> end = Task.Factory.StartNew(idle.ReadToEnd, TestContext.Current.CancellationToken, TaskCreationOptions.LongRunning,
            TaskScheduler.Default);
        while (!end.IsCompleted)
        {
            Assert.Equal("+PONG\r\n", busy.Call("PING"));
            Thread.Sleep(50);
        }
        Assert.Equal("", await end);
        Assert.Equal("*2\r\n$4\r\npong\r\n$0\r\n\r\n", subscribed.Call("PING"));
        Assert.Equal("+PONG\r\n", busy.Call("PING"));
    }

    [Fact]
    public async Task PauseOfWrites_UnderLoad_HoldsUpNoReads()
    {
        using var pair = new Pair(unix: false);
        using RespConnection asking = pair.Client(), reading = pair.Client(), writing = pair.Client();
        using var stop = new CancellationTokenSource();
        Task[] load = [.. Enumerable.Range(0, 4).Select(_ => Task.Factory.StartNew(() =>
        {
            using RespConnection client = pair.Client();
            while (!stop.IsCancellationRequested) { client.Call("INCR", "n"); }
        }, TestContext.Current.CancellationToken, TaskCreationOptions.LongRunning, TaskScheduler.Default))];
        Assert.Equal("+OK\r\n", asking.Call("CLIENT", "PAUSE", "1000000", "WRITE"));
        Assert.Equal("$1\r\n1\r\n", reading.Call("GET", "x"));
        writing.Send("SET", "x", "2");
        while (!asking.Call("INFO", "clients").Contains("blocked_clients:5", StringComparison.Ordinal)) { Thread.Sleep(5); }
        Assert.Equal("$1\r\n1\r\n", reading.Call("GET", "x"));
        Assert.Equal("+OK\r\n", asking.Call("CLIENT", "UNPAUSE"));
        Assert.Equal("+OK\r\n", writing.Read());
        await stop.CancelAsync();
        await Task.WhenAll(load);
    }

    [Fact]
    public void MaxClients_OfRedisReached_IsToldToWhoNeedsAConnectionOfItsOwn()
    {
        using var pair = new Pair(unix: false);
        using RespConnection asking = pair.Client();
        Assert.Equal("+OK\r\n", asking.Call("CONFIG", "SET", "maxclients", "16"));
        var clients = new List<RespConnection>();
        string last = "";
        for (int i = 0; i < 20 && !last.StartsWith('-'); i++)
        {
            clients.Add(pair.Client());
            last = clients[^1].Call("CLIENT", "ID");
        }
        Assert.Equal("-ERR max number of clients reached\r\n", last);
        using (RespConnection sharing = pair.Client()) { Assert.Equal("+PONG\r\n", sharing.Call("PING")); }
        foreach (RespConnection client in clients) { client.Dispose(); }
    }

    [Fact]
    public void Name_OfAClient_GivenToItsOwnConnection_ShowsNowhere()
    {
        using var pair = new Pair(unix: false);
        using RespConnection monitor = pair.Client(), client = pair.Client();
        client.Call("CONFIG", "SET", "slowlog-log-slower-than", "0");
        client.Call("SLOWLOG", "RESET");
        client.Call("CONFIG", "RESETSTAT");
        Assert.Equal("+OK\r\n", monitor.Call("MONITOR"));
        // The name is set where ordinary requests go; a request that needs a connection of its own takes it there, and so does what follows
        // a transaction.
        string[][] requests = [["CLIENT", "SETNAME", "me"], ["EVAL", "return 1", "0"], ["MULTI"], ["CLIENT", "SETNAME", "you"], ["EXEC"],
            ["CLIENT", "GETNAME"], ["ECHO", "end"]];
        foreach (string[] request in requests) { client.Call(request); }
        var shown = new List<string>();
        do
        {
            string line = monitor.Read();
            shown.Add(line[(line.IndexOf("] ", StringComparison.Ordinal) + 2)..].TrimEnd());
        }
        while (shown[^1] != "\"ECHO\" \"end\"");
        // Redis shows a transaction's commands, and then EXEC.
        Assert.Equal(requests.Select(request => string.Join(' ', request.Select(word => $"\"{word}\""))), shown);
        string log = client.Call("SLOWLOG", "GET", "100");
        Assert.DoesNotContain("cLIENT", log, StringComparison.Ordinal);
        Assert.Equal(2, log.Split("$7\r\nSETNAME").Length - 1);
        Assert.DoesNotContain("$4\r\nINFO", log, StringComparison.Ordinal);
        string statistics = client.Call("INFO", "commandstats");
        Assert.Contains("cmdstat_client|setname:calls=2,", statistics, StringComparison.Ordinal);
        Assert.DoesNotContain("cmdstat_client|info", statistics, StringComparison.Ordinal);
    }

    [Fact]
    public void SlowLog_OfEverything_HoldsNothingOfTheProxy()
    {
        using var pair = new Pair(unix: false);
        using RespConnection client = pair.Client();
        client.Call("CONFIG", "SET", "slowlog-log-slower-than", "0");
        client.Call("SLOWLOG", "RESET");
        client.Call("SELECT", "5");
        client.Call("ACL", "SETUSER", "somebody", "on");
        client.Call("EVAL", "return 1", "0");
        client.Call("CONFIG", "SET", "slowlog-log-slower-than", "-1");
        string log = client.Call("SLOWLOG", "GET");
        Assert.StartsWith("*4\r\n", log, StringComparison.Ordinal);
        Assert.DoesNotContain("cLIENT", log, StringComparison.Ordinal);
        Assert.StartsWith("*2\r\n", client.Call("SLOWLOG", "GET", "2"), StringComparison.Ordinal);
    }

    [Fact]
    public void CommandStatistics_AfterAReset_CountNothingOfTheProxy()
    {
        using var pair = new Pair(unix: false);
        using RespConnection client = pair.Client(), other = pair.Client();
        other.Call("SELECT", "2");
        client.Call("CONFIG", "RESETSTAT");
        client.Call("INFO");
        client.Call("GET", "x");
        other.Call("GET", "x");
        client.Call("GET", "x");
        string stats = client.Call("INFO", "commandstats");
        Assert.Contains("cmdstat_get:calls=3,", stats, StringComparison.Ordinal);
        Assert.DoesNotContain("cmdstat_select", stats, StringComparison.Ordinal);
        Assert.DoesNotContain("cmdstat_client", stats, StringComparison.Ordinal);
    }
}
