// Commands that the proxy's table does not know: of modules, and such as have another name at this Redis. None may block, or
// change, the connection that clients share.
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Text.RegularExpressions;
using Microsoft.Extensions.Logging.Abstractions;
using Slogger.Core.Shards;
using Slogger.FrontEnd;
using Slogger.FrontEnd.Transports;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Shards;
using Slogger.Proxy.Tests.Harness;
using Slogger.Resp;

namespace Slogger.Proxy.Tests.FrontEnd;

public sealed class StoreCommandsTests
{
    private static byte[] Table(params (string Name, string Flags)[] commands)
    {
        var text = new StringBuilder($"*{commands.Length}\r\n");
        foreach ((string name, string flags) in commands)
        {
            string[] each = flags.Split(' ', StringSplitOptions.RemoveEmptyEntries);
            text.Append($"*5\r\n${name.Length}\r\n{name}\r\n:-2\r\n*{each.Length}\r\n").Append(string.Concat(each.Select(f => $"+{f}\r\n")))
                .Append(":1\r\n%1\r\n+x\r\n*-1\r\n");
        }
        return Encoding.Latin1.GetBytes(text.ToString());
    }

    [Fact]
    public void Unknown_ModulesAndBlocking_AreKeptFromTheSharedConnection()
    {
        byte[] reply = Table(("get", "readonly fast"), ("blpop", "write blocking"), ("ft.search", "readonly module"),
            ("q.pop", "module blocking"), ("bnew", "write blocking"));
        Assert.Equal(
            [KeyValuePair.Create("FT.SEARCH", CommandKind.Dedicated), KeyValuePair.Create("Q.POP", CommandKind.Blocking),
                KeyValuePair.Create("BNEW", CommandKind.Blocking)],
            StoreCommands.Of(reply).Unknown());
    }

    // Each new connection asks; the answer is mostly the same.
    [Fact]
    public void Of_TheSameReplyAgain_IsNotReadAgain()
    {
        byte[] reply = Table(("get", "readonly fast")), other = Table(("set", "write"));
        // Only the last one is kept, and other tests' proxies ask, too.
        Assert.Contains(true, Enumerable.Range(0, 100).Select(_ => ReferenceEquals(StoreCommands.Of(reply), StoreCommands.Of([.. reply]))));
        Assert.Equal(["SET"], StoreCommands.Of(other).ByName.Keys);
        Assert.Equal(["GET"], StoreCommands.Of(reply).ByName.Keys);
        Assert.Empty(StoreCommands.None.ByName);
    }

    // The answer costs Redis milliseconds, which clients wait for when a shard serves again.
    [Fact]
    public void OpenStore_TheSameRunAgain_IsNotAskedAgain()
    {
        using var redis = new RedisServer();
        using var listener = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen(16);
        EndPoint address = listener.LocalEndPoint!;
        var options = new ServeOptions { DataDirectory = "/nowhere", Metadata = MetadataSpec.SqliteFile("/nowhere/m"),
            Commit = CommitMode.None };
        using var loop = new FrontEndLoop(new SocketPoller(), new StoreConnector(ListenAddress.Tcp("127.0.0.1", redis.Port)),
            new PassThroughShard(options, NullLogger.Instance), new FrontEndLimits());
        loop.Post(() =>
        {
            loop.Listen(listener);
            loop.OpenStore("one");
        });
        var thread = new Thread(loop.Run);
        thread.Start();
        try
        {
            Assert.Equal(1, Asked());
            OpenAgain("one");
            Assert.Equal(1, Asked());
            OpenAgain("two");
            Assert.Equal(2, Asked());
            OpenAgain("");
            Assert.Equal(3, Asked());
        }
        finally
        {
            loop.Stop();
            thread.Join();
        }

        // Who connects before that is closed with the store.
        void OpenAgain(string run)
        {
            using var done = new ManualResetEventSlim();
            loop.Post(() =>
            {
                loop.CloseStore("a test");
                loop.OpenStore(run);
                done.Set();
            });
            done.Wait();
        }

        int Asked()
        {
            using RespConnection client = RespConnection.To(address), direct = redis.Connect();
            Assert.Equal("+OK\r\n", client.Call("SET", "k", "1"));
            Match calls = Regex.Match(direct.Call("INFO", "commandstats"), "cmdstat_command:calls=([0-9]+)");
            return calls.Success ? int.Parse(calls.Groups[1].Value, CultureInfo.InvariantCulture) : 0;
        }
    }

    // XGROUP itself has no flags; what its subcommands do it does.
    [Fact]
    public void Parse_Subcommands_TellWhetherTheirCommandWrites()
    {
        const string Command = "*10\r\n$6\r\nxgroup\r\n:-2\r\n*0\r\n:0\r\n:0\r\n:0\r\n*0\r\n*0\r\n*0\r\n*2\r\n";
        const string Subcommands =
            "*4\r\n$11\r\nxgroup|help\r\n:2\r\n*1\r\n+loading\r\n:0\r\n*4\r\n$13\r\nxgroup|create\r\n:-5\r\n*2\r\n+write\r\n"
                + "+denyoom\r\n:2\r\n";
        Assert.Equal(["write"], StoreCommands.Of(Encoding.ASCII.GetBytes("*1\r\n" + Command + Subcommands)).ByName["XGROUP"]);
    }

    [Fact]
    public void Renamed_ListedButNotFound_IsTold()
    {
        byte[] found = Encoding.Latin1.GetBytes("*3\r\n*1\r\n$5\r\nmulti\r\n*-1\r\n$-1\r\n");
        Assert.Equal(["BLPOP"], StoreCommands.Of(Table(("multi", ""), ("blpop", "blocking"))).Renamed(["MULTI", "BLPOP", "BLMPOP"], found));
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void RenamedBlockingCommand_Blocks_OnlyItsClient(TransportKind transport)
    {
        using var redis = new RedisServer(null, "--rename-command", "BLPOP", "xblpop", "--rename-command", "DEBUG", "");
        foreach (CommitMode mode in (CommitMode[])[CommitMode.None, CommitMode.Log])
        {
            using var proxy = new TestProxy(redis, transport, o => o with { Commit = mode });
            using RespConnection blocked = proxy.Connect(), other = proxy.Connect();
            Assert.Equal("+PONG\r\n", other.Call("PING"));
            blocked.Send("xblpop", "l", "0");
            Assert.Equal("+PONG\r\n", other.Call("PING"));
            using RespConnection late = proxy.Connect();
            Assert.Equal(":1\r\n", late.Call("RPUSH", "l", "a"));
            Assert.Equal("*2\r\n$1\r\nl\r\n$1\r\na\r\n", blocked.Read());
            Assert.Contains("BLPOP under another name", proxy.Log, StringComparison.Ordinal);
            if (mode == CommitMode.Log)
            {
                Assert.StartsWith("*3\r\n:1\r\n", late.Call("DPR.WAIT", "*", "10000"), StringComparison.Ordinal);
            }
        }
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void RemovedCommand_IsNoReasonNotToShare(TransportKind transport)
    {
        using var redis = new RedisServer(null, "--rename-command", "BLPOP", "", "--rename-command", "CONFIG", "secret");
        using var proxy = new TestProxy(redis, transport);
        using RespConnection client = proxy.Connect(), other = proxy.Connect();
        Assert.Equal("+PONG\r\n", client.Call("PING"));
        Assert.Equal("+PONG\r\n", other.Call("PING"));
        Assert.Contains("clients_dedicated:0", client.Call("DPR.INFO"), StringComparison.Ordinal);
        Assert.StartsWith("-ERR unknown command 'BLPOP'", client.Call("BLPOP", "l", "0"), StringComparison.Ordinal);
    }
}
