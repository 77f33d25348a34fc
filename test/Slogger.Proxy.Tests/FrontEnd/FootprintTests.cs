// What a connection and a command cost: bytes of memory for an idle client, bytes allocated for a command in steady state
// (none). Run on a loop of the test's own, so that its thread can be asked.
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using Microsoft.Extensions.Logging.Abstractions;
using Slogger.Core.Shards;
using Slogger.FrontEnd;
using Slogger.FrontEnd.Transports;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Shards;
using Slogger.Proxy.Tests.Harness;
using Slogger.Resp;

namespace Slogger.Proxy.Tests.FrontEnd;

/// <summary>Measures the process, so nothing else may run in it at the time.</summary>
[CollectionDefinition(nameof(AloneInTheProcess), DisableParallelization = true)]
public sealed class AloneInTheProcess;

[Collection(nameof(AloneInTheProcess))]
public sealed class FootprintTests(BothTransports servers, ITestOutputHelper output) : IClassFixture<BothTransports>
{
    [Theory]
    [InlineData("GET", 16)]
    [InlineData("SET", 16)]
    [InlineData("GET", 1)]
    [InlineData("SET", 1)]
    public void SharedPath_SteadyState_AllocatesNothing(string command, int depth)
    {
        using var loop = new OwnLoop(servers.Redis);
        using RespConnection client = loop.Connect();
        string[] arguments = command == "GET" ? ["GET", "key"] : ["SET", "key", new string('v', 64)];
        Assert.Equal(0, AllocatedBy(loop, client, string.Concat(Enumerable.Repeat(Text(arguments), depth)), depth));
    }

    [Fact]
    public void SharedPath_OfSeveralClients_AllocatesNothing()
    {
        using var loop = new OwnLoop(servers.Redis);
        var clients = Enumerable.Range(0, 20).Select(_ => loop.Connect()).ToList();
        byte[] bytes = RespConnection.Request("INCR", "n");
        long allocated = 0;
        for (int round = 0; round < 4; round++)
        {
            allocated = loop.AllocatedBy(() =>
            {
                for (int i = 0; i < 200; i++)
                {
                    clients.ForEach(c => c.SendRaw(bytes));
                    clients.ForEach(c => c.Read());
                }
            });
        }
        clients.ForEach(c => c.Dispose());
        Assert.Equal(0, allocated);
    }

    [Theory]
    [InlineData("GET", 16)]
    [InlineData("SET", 16)]
    [InlineData("SET", 1)]
    [InlineData("EVAL", 16)]
    public void CommittedReplies_SteadyState_AllocateNothing(string command, int depth)
    {
        using var loop = new OwnLoop(servers.Redis, new HeldShard(holdsReplies: true) { RunsByItself = true });
        using RespConnection client = loop.Connect(), reader = loop.Connect();
        string[] arguments = command switch
        {
            "GET" => ["GET", "key"],
            "SET" => ["SET", "key", new string('v', 64)],
            _ => ["EVAL", "return 1", "0"],
        };
        Assert.Equal(0, AllocatedBy(loop, client, string.Concat(Enumerable.Repeat(Text(arguments), depth)) + Text("GET", "cold"), depth + 1));
    }

    [Theory]
    [InlineData(1)]
    [InlineData(16)]
    public void DedicatedPath_SteadyState_AllocatesNothing(int depth)
    {
        using var loop = new OwnLoop(servers.Redis);
        using RespConnection client = loop.Connect();
        // It is watching, so everything of it takes its own upstream.
        client.Call("WATCH", "key");
        Assert.Equal(0, AllocatedBy(loop, client, string.Concat(Enumerable.Repeat(Text("GET", "key"), depth)), depth));
        Assert.Equal(0, AllocatedBy(loop, client, string.Concat(Enumerable.Repeat(Text("EVAL", "return 1", "0"), depth)), depth));
    }

    [Fact]
    public void IdleClients_Each_TakeLittleMemory()
    {
        const int Count = 2000;
        const int GenerousBytes = 16 << 10;
        using var loop = new OwnLoop(servers.Redis);
        using RespConnection first = loop.Connect();
        first.Call("PING");
        long before = Resident();
        var clients = new List<Socket>();
        byte[] ping = RespConnection.Request("PING"), answer = new byte[16];
        for (int i = 0; i < Count; i++)
        {
            Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
            socket.Connect(loop.Address);
            socket.Send(ping);
            socket.Receive(answer);
            clients.Add(socket);
        }
        first.Call("PING");
        Thread.Sleep(300);
        long each = (Resident() - before) / Count;
        output.WriteLine($"{each} bytes per idle client, the test's own end of it included");
        clients.ForEach(c => c.Dispose());
        Assert.InRange(each, long.MinValue, GenerousBytes);
    }

    private static long Resident()
    {
        // Aggressive also gives back to the system what earlier tests have left.
        GC.Collect(2, GCCollectionMode.Aggressive, blocking: true, compacting: true);
        GC.WaitForPendingFinalizers();
        GC.Collect(2, GCCollectionMode.Aggressive, blocking: true, compacting: true);
        using Process self = Process.GetCurrentProcess();
        return self.WorkingSet64;
    }

    private static string Text(params string[] arguments) => System.Text.Encoding.Latin1.GetString(RespConnection.Request(arguments));

    // Bytes allocated on the loop's thread by some thousand commands, after as many to warm up.
    private static long AllocatedBy(OwnLoop loop, RespConnection client, string request, int replies)
    {
        byte[] bytes = System.Text.Encoding.Latin1.GetBytes(request);
        long allocated = 0;
        for (int round = 0; round < 4; round++)
        {
            allocated = loop.AllocatedBy(() =>
            {
                for (int i = 0; i < 2000; i++)
                {
                    client.SendRaw(bytes);
                    for (int reply = 0; reply < replies; reply++) { client.Read(); }
                }
            });
        }
        return allocated;
    }

    private sealed class OwnLoop : IDisposable
    {
        private readonly FrontEndLoop _loop;
        private readonly RedisServer _redis;
        private readonly Thread _thread;
        private readonly Action _ask;
        private readonly AutoResetEvent _answered = new(false);
        private long _allocated;

        public OwnLoop(RedisServer redis, IShardPort? shard = null)
        {
            _redis = redis;
            var listener = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
            listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
            listener.Listen(1024);
            Address = listener.LocalEndPoint!;
            var options = new ServeOptions { DataDirectory = "/nowhere", Metadata = MetadataSpec.SqliteFile("/nowhere/m"),
                Commit = CommitMode.None };
            IPoller poller = OperatingSystem.IsLinux() ? new EpollPoller() : new SocketPoller();
            _loop = new FrontEndLoop(poller, new StoreConnector(ListenAddress.Tcp("127.0.0.1", redis.Port)),
                shard ?? new PassThroughShard(options, NullLogger.Instance), new FrontEndLimits());
            _ask = () =>
            {
                _allocated = GC.GetAllocatedBytesForCurrentThread();
                _answered.Set();
            };
            _loop.Post(() =>
            {
                _loop.Listen(listener);
                _loop.OpenStore();
            });
            _thread = new Thread(_loop.Run);
            _thread.Start();
        }

        public EndPoint Address { get; }

        public RespConnection Connect()
        {
            RespConnection client = RespConnection.To(Address);
            Assert.Equal("+PONG\r\n", client.Call("PING"));
            return client;
        }

        /// <summary>Bytes that the loop's thread allocates for some work. That is done again if the loop has asked Redis for its settings
        /// meanwhile, as it does each half a minute.</summary>
        public long AllocatedBy(Action work)
        {
            for (int tries = 1; ; tries++)
            {
                string asked = SettingsAsked();
                long before = Allocated();
                work();
                long allocated = Allocated() - before;
                if (tries == 10 || SettingsAsked() == asked) { return allocated; }
            }
        }

        private string SettingsAsked()
        {
            using RespConnection direct = RespConnection.To(new IPEndPoint(IPAddress.Loopback, _redis.Port));
            return direct.Call("INFO", "commandstats").Split("\r\n")
                .SingleOrDefault(l => l.StartsWith("cmdstat_config|get:", StringComparison.Ordinal)) ?? "";
        }

        private long Allocated()
        {
            _loop.Post(_ask);
            _answered.WaitOne();
            return _allocated;
        }

        public void Dispose()
        {
            _loop.Stop();
            _thread.Join();
            _loop.Dispose();
            _answered.Dispose();
        }
    }
}
