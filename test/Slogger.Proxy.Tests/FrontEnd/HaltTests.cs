// A front end that is halted, since nothing that it would say may be true any more: it says nothing, though its process is still there.
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

public sealed class HaltTests
{
    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void Halt_WhileClientsAreServed_NothingLeavesAndAllConnectionsEnd(TransportKind transport)
    {
        using var redis = new RedisServer();
        using var listener = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen();
        EndPoint address = listener.LocalEndPoint!;
        var options = new ServeOptions { DataDirectory = "/nowhere", Metadata = MetadataSpec.SqliteFile("/nowhere/m"),
            Commit = CommitMode.None };
        // Not disposed: a halted loop keeps its thread until the process has ended.
        var loop = new FrontEndLoop(
            transport == TransportKind.Epoll ? new EpollPoller() : new SocketPoller(),
                new StoreConnector(ListenAddress.Tcp("127.0.0.1", redis.Port)),
            new PassThroughShard(options, NullLogger.Instance), new FrontEndLimits());
        loop.Post(() =>
        {
            loop.Listen(listener);
            loop.OpenStore();
        });
        bool hasEnded = false;
        new Thread(() =>
        {
            loop.Run();
            Volatile.Write(ref hasEnded, true);
        }) { IsBackground = true }.Start();
        using RespConnection client = RespConnection.To(address), blocked = RespConnection.To(address), subscribed =
            RespConnection.To(address);
        Assert.Equal("+PONG\r\n", client.Call("PING"));
        Assert.StartsWith("*3\r\n", subscribed.Call("SUBSCRIBE", "c"), StringComparison.Ordinal);
        blocked.Send("BLPOP", "list", "0");
        // In the same turn: a request has come, and its answer would be given out next.
        loop.Post(() =>
        {
            client.Send("SET", "k", "1");
            loop.Halt();
        });
        Assert.Equal("", client.ReadToEnd());
        Assert.Equal("", blocked.ReadToEnd());
        Assert.Equal("", subscribed.ReadToEnd());
        Assert.ThrowsAny<SocketException>(() => RespConnection.To(address));
        Assert.False(Volatile.Read(ref hasEnded));
    }
}
