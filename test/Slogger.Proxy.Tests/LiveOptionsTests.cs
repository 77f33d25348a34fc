// Options that change while a proxy serves: limits, and certificates on either side.
using Slogger.FrontEnd.Transports;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Tests.Harness;
using Slogger.Resp;

namespace Slogger.Proxy.Tests;

public sealed class LiveOptionsTests(Certificates certificates) : IClassFixture<Certificates>
{
    [Theory]
    [InlineData(TransportKind.Epoll)]
    [InlineData(TransportKind.Sockets)]
    public void MaxClients_Changed_HoldsFromTheNextClientOn(TransportKind transport)
    {
        Assert.SkipUnless(transport != TransportKind.Epoll || OperatingSystem.IsLinux(), "epoll is Linux's");
        using var redis = new RedisServer();
        using var proxy = new TestProxy(redis, transport, o => o with { MaxClients = 1 });
        using RespConnection first = proxy.Connect();
        Assert.Equal("+PONG\r\n", first.Call("PING"));
        Assert.True(IsRefused(proxy));
        proxy.Live.Change(proxy.Options with { MaxClients = 2 });
        using (RespConnection second = Served(proxy))
        {
            // Who is there stays.
            proxy.Live.Change(proxy.Options with { MaxClients = 1 });
            Assert.True(IsRefused(proxy));
            Assert.Equal("+PONG\r\n", second.Call("PING"));
        }
        Assert.Equal("+PONG\r\n", first.Call("PING"));
    }

    [Fact]
    public void ClientOutputLimit_Lowered_HoldsForThoseWhoAreThere()
    {
        using var redis = new RedisServer();
        using var proxy = new TestProxy(redis, TransportKind.Auto);
        using RespConnection client = proxy.Connect();
        client.Call("SET", "big", new string('x', 1 << 20));
        Assert.Equal((1 << 20) + "$1048576\r\n\r\n".Length, client.Call("GET", "big").Length);
        proxy.Live.Change(proxy.Options with { ClientOutputLimitBytes = 1 << 20 });
        // Far more than the sockets' buffers take, and it does not read.
        string many = string.Concat(Enumerable.Repeat("*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n", 64));
        client.SendRaw(many);
        using RespConnection other = proxy.Connect();
        for (int i = 0; i < 3000 && !proxy.Log.Contains("is closed", StringComparison.Ordinal); i++)
        {
            Assert.Equal("+PONG\r\n", other.Call("PING"));
            Thread.Sleep(10);
        }
        Assert.ThrowsAny<IOException>(() =>
        {
            for (int i = 0; i < 64; i++) { client.Read(); }
        });
    }

    [Fact]
    public void Certificate_Replaced_IsShownFromTheNextConnectionOn()
    {
        using var redis = new RedisServer();
        using var proxy = new TestProxy(redis, TransportKind.Auto, o => o with { ClientTls = Tls(certificates.ServerFile,
            certificates.ServerKeyFile) });
        using RespConnection before = Connect();
        Assert.Contains("good-server", before.Shown!.Subject, StringComparison.Ordinal);
        Assert.Equal("+PONG\r\n", before.Call("PING"));
        Assert.True(proxy.Live.Change(
            proxy.Options with { ClientTls = Tls(certificates.OtherServerFile, certificates.OtherServerKeyFile) }));
        using (RespConnection after = Connect())
        {
            Assert.Contains("other-server", after.Shown!.Subject, StringComparison.Ordinal);
            Assert.Equal("+PONG\r\n", after.Call("PING"));
        }
        Assert.Equal("+PONG\r\n", before.Call("PING"));

        // With one that cannot be used nothing is changed, the limits neither.
        Assert.False(proxy.Live.Change(
            proxy.Options with { MaxClients = 1, ClientTls = Tls(certificates.ServerFile, certificates.OtherServerKeyFile) }));
        Assert.Contains("cannot be used", proxy.Log, StringComparison.Ordinal);
        Assert.Contains("the old ones stay in use", proxy.Log, StringComparison.Ordinal);
        using RespConnection last = Connect();
        Assert.Contains("other-server", last.Shown!.Subject, StringComparison.Ordinal);
        Assert.Equal("+PONG\r\n", last.Call("PING"));

        RespConnection Connect() => RespConnection.Tls(proxy.TlsPort, new() { TargetHost = "localhost",
            RemoteCertificateValidationCallback = (_, _, _, _) => true });
    }

    [Fact]
    public void RedisAuthority_FileReplaced_CountsForNewConnectionsToRedis()
    {
        using var redis = new RedisServer(certificates, "--tls-auth-clients", "no");
        string authority = Path.Combine(Path.GetTempPath(), $"slogger-ca-{Environment.ProcessId}.pem");
        try
        {
            File.Copy(certificates.AuthorityFile, authority, overwrite: true);
            using var proxy = new TestProxy(redis, TransportKind.Auto, o => o with
            {
                Redis = ListenAddress.Tcp("127.0.0.1", redis.Port), RedisTls = new() { CaFile = authority },
            });
            using RespConnection client = proxy.Connect();
            Assert.Equal("+PONG\r\n", client.Call("PING"));
            File.Copy(certificates.OtherAuthorityFile, authority, overwrite: true);
            proxy.Live.Change(proxy.Options);
            // Connections of clients' own are new ones, once those that were made ahead are taken, and Redis's certificate is not of that
            // authority.
            List<RespConnection> clients = [];
            for (int i = 0; i < 300 && !proxy.Log.Contains("TLS to", StringComparison.Ordinal); i++)
            {
                if (i < 20)
                {
                    clients.Add(proxy.Connect());
                    clients[^1].Send("BLPOP", "nothing", "0");
                }
                Thread.Sleep(100);
            }
            clients.ForEach(c => c.Dispose());
            Assert.Contains("TLS to", proxy.Log, StringComparison.Ordinal);
        }
        finally
        {
            File.Delete(authority);
        }
    }

    private static ClientTlsOptions Tls(string certificate, string key) =>
        new() { Listen = [ListenAddress.Tcp("127.0.0.1", 0)], CertificateFile = certificate, KeyFile = key };

    // One that was refused counts until it has gone.
    private static RespConnection Served(TestProxy proxy)
    {
        for (int i = 0; ; i++)
        {
            RespConnection client = proxy.Connect();
            try
            {
                if (client.Call("PING") == "+PONG\r\n") { return client; }
            }
            catch (IOException)
            {
                // Refused, and closed before it was sent.
            }
            client.Dispose();
            Assert.True(i < 200, "no further client is taken");
            Thread.Sleep(20);
        }
    }

    private static bool IsRefused(TestProxy proxy)
    {
        using RespConnection client = proxy.Connect();
        try
        {
            return client.Call("PING").StartsWith("-ERR max number of clients", StringComparison.Ordinal);
        }
        catch (Exception e) when (e is IOException)
        {
            return true;
        }
    }
}
