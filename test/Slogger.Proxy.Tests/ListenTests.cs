// Where the proxy listens: Unix sockets, what a killed proxy left behind, ports in use, too many clients.
using System.Net.Sockets;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Tests.Harness;
using Slogger.Resp;

namespace Slogger.Proxy.Tests;

public sealed class ListenTests(BothTransports servers) : IClassFixture<BothTransports>
{
    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void UnixSocket_OnBothSides_IsServedAndRemovedAtTheEnd(TransportKind transport)
    {
        string path = Path.Combine(Path.GetTempPath(), $"slogger-u{Environment.ProcessId}-{transport}.sock");
        // Left behind by one that was killed: nobody listens on it.
        using (var dead = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified))
        {
            dead.Bind(new UnixDomainSocketEndPoint(path));
        }
        using (TestProxy proxy = new(servers.Redis, transport,
            o => o with { Listen = [ListenAddress.Unix(path)], Redis = ListenAddress.Unix(servers.Redis.UnixPath) }))
        {
            Assert.Null(proxy.Exit);
            using RespConnection client = RespConnection.To(new UnixDomainSocketEndPoint(path));
            Assert.Equal("+OK\r\n", client.Call("SET", "u", "1"));
            Assert.Equal("*1\r\n:2\r\n", Transaction(client));
            using TestProxy second = new(servers.Redis, transport, o => o with { Listen = [ListenAddress.Unix(path)] });
            Assert.Contains("in use", second.Exit?.Problem, StringComparison.Ordinal);
            Assert.Equal("+PONG\r\n", client.Call("PING"));
            using RespConnection later = RespConnection.To(new UnixDomainSocketEndPoint(path));
            Assert.Equal("+PONG\r\n", later.Call("PING"));
        }
        Assert.False(File.Exists(path));
    }

    private static string Transaction(RespConnection client)
    {
        client.Call("MULTI");
        client.Call("INCR", "u");
        return client.Call("EXEC");
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void Port_InUse_IsAClearError(TransportKind transport)
    {
        using TestProxy proxy = new(servers.Redis, transport,
            o => o with { Listen = [ListenAddress.Tcp("127.0.0.1", servers.Redis.Port)] });
        Assert.Contains($"127.0.0.1:{servers.Redis.Port}", proxy.Exit?.Problem, StringComparison.Ordinal);
        Assert.Contains("in use", proxy.Exit?.Problem, StringComparison.Ordinal);
        Assert.NotEqual("", proxy.Exit!.Remedy);
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void Clients_MoreThanAllowed_AreRefusedAsByRedis(TransportKind transport)
    {
        using TestProxy proxy = new(servers.Redis, transport, o => o with { MaxClients = 3 });
        var clients = Enumerable.Range(0, 3).Select(_ => proxy.Connect()).ToList();
        clients.ForEach(c => Assert.Equal("+PONG\r\n", c.Call("PING")));
        using (RespConnection refused = proxy.Connect()) { Assert.Equal("-ERR max number of clients reached\r\n", refused.ReadToEnd()); }
        clients[0].Dispose();
        string answer = "";
        for (int i = 0; i < 200 && answer != "+PONG\r\n"; i++)
        {
            using RespConnection next = proxy.Connect();
            try
            {
                answer = next.Call("PING");
            }
            catch (IOException)
            {
                // Refused and closed before it was sent.
            }
            if (answer != "+PONG\r\n") { Thread.Sleep(20); }
        }
        Assert.Equal("+PONG\r\n", answer);
        clients.ForEach(c => c.Dispose());
    }
}
