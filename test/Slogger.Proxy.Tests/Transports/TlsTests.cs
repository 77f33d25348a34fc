// TLS on both sides of the proxy with redis-cli and redis-server as the other ends, right and wrong certificates, and plain
// clients that must not notice.
using System.Diagnostics;
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Cryptography.X509Certificates;
using Slogger.FrontEnd.Transports;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Tests.Harness;
using Slogger.Resp;

namespace Slogger.Proxy.Tests.Transports;

public sealed class TlsTests(Certificates certificates, BothTransports plain) : IClassFixture<Certificates>, IClassFixture<BothTransports>
{
    private const string Value = "a value of 23 bytes ...";
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    private TestProxy WithClientTls(bool needsCertificate = false, TransportKind transport = TransportKind.Auto, RedisServer? redis = null,
        RedisTlsOptions? redisTls = null) =>
        new(redis ?? plain.Redis, transport, options => options with
        {
            ClientTls = new ClientTlsOptions
            {
                Listen = [ListenAddress.Tcp("127.0.0.1", 0)],
                CertificateFile = certificates.ServerFile,
                KeyFile = certificates.ServerKeyFile,
                ClientCaFile = needsCertificate ? certificates.AuthorityFile : null,
            },
            RedisTls = redisTls,
        });

    private string[] Trusting => ["--tls", "--cacert", certificates.AuthorityFile];

    private SslClientAuthenticationOptions Anything =>
        new() { TargetHost = "localhost", RemoteCertificateValidationCallback = (_, _, _, _) => true };

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void RedisCli_ThroughTlsOnBothSides_IsServed(TransportKind transport)
    {
        using var redis = new RedisServer(certificates);
        using TestProxy proxy = WithClientTls(needsCertificate: true, transport, redis, new RedisTlsOptions
        {
            CaFile = certificates.AuthorityFile,
            CertificateFile = certificates.ClientFile,
            KeyFile = certificates.ClientKeyFile,
        });
        string[] cli = [.. Trusting, "--cert", certificates.ClientFile, "--key", certificates.ClientKeyFile];
        Assert.Equal("OK\n", Cli(proxy.TlsPort, [.. cli, "SET", "k", Value]));
        Assert.Equal(Value + "\n", Cli(proxy.TlsPort, [.. cli, "GET", "k"]));
        Assert.Equal(Value + "\n", Cli(proxy.TlsPort, [.. cli, "-3", "-n", "0", "EVAL", "return redis.call('GET', KEYS[1])", "1", "k"]));
        Assert.Equal(Value + "\n", Cli(proxy.Port, "GET", "k"));
        Assert.DoesNotContain("+PONG", Cli(proxy.TlsPort, [.. Trusting, "PING"]), StringComparison.Ordinal);
    }

    // Of Redis itself a subscription is one record, and so is the last answer with what closes TLS behind it.
    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void Answers_ThatAreThereAtOnce_LeaveInAsFewWritesAsRedisNeeds(TransportKind transport)
    {
        using var redis = new RedisServer(certificates, "--tls-auth-clients", "no");
        using TestProxy proxy = WithClientTls(transport: transport, redis: redis,
            redisTls: new RedisTlsOptions { CaFile = certificates.AuthorityFile });
        var counts = new List<(long, long)>();
        foreach (int port in (int[])[redis.Port, proxy.TlsPort])
        {
            using RespConnection client = RespConnection.Tls(port, Anything);
            Assert.Equal("+PONG\r\n", client.Call("PING"));
            long before = client.SegmentsReceived;
            client.Send("SUBSCRIBE", "a", "b", "c");
            for (int i = 1; i <= 3; i++) { Assert.EndsWith($":{i}\r\n", client.Read(), StringComparison.Ordinal); }
            long subscribed = client.SegmentsReceived;
            client.Send("QUIT");
            Assert.Equal("+OK\r\n", client.ReadToEnd());
            counts.Add((subscribed - before, client.SegmentsReceived - subscribed));
        }

        Assert.Equal(counts[0], counts[1]);
    }

    // What is enciphered and waits for a client that does not read has not left: it is not sent later, when it may not be told any more.
    [Fact]
    public async Task Answers_ThatMayNotBeToldAnyMore_DoNotWaitForTheClient()
    {
        CancellationToken stop = TestContext.Current.CancellationToken;
        using var listener = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen();
        using var client = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        await client.ConnectAsync(listener.LocalEndPoint!, stop);
        SslServerAuthenticationOptions options = TlsBridge.ServerOptions(new ClientTlsOptions
        {
            Listen = [],
            CertificateFile = certificates.ServerFile,
            KeyFile = certificates.ServerKeyFile,
        });
        var admitted = new TaskCompletionSource<(Socket, ToldCommits)>();
        bool mayTell = true;
        Task serving = TlsBridge.ServeAsync(await listener.AcceptAsync(stop), options, (clear, told) => admitted.SetResult((clear, told!)),
            () => Volatile.Read(ref mayTell), stop);
        await using var tls = new SslStream(new NetworkStream(client));
        await tls.AuthenticateAsClientAsync(Anything, stop);
        (Socket answers, ToldCommits told) = await admitted.Task.WaitAsync(Generous, stop);
        using Socket closed = answers;
        // More than all buffers on the way hold.
        byte[] answer = new byte[64 << 20];
        told.Announce(answer.Length);
        Task<int> answering = answers.SendAsync(answer);
        Assert.Equal(1, await tls.ReadAsync(new byte[1], stop));
        Assert.False(answering.IsCompleted);
        Volatile.Write(ref mayTell, false);
        await serving.WaitAsync(Generous, stop);
        long read = 1;
        try
        {
            byte[] piece = new byte[1 << 20];
            while (await tls.ReadAsync(piece, stop) is > 0 and int got) { read += got; }
        }
        catch (IOException)
        {
            // It ends in the middle of what had been enciphered.
        }
        Assert.InRange(read, 1, answer.Length - 1);
        await Assert.ThrowsAnyAsync<SocketException>(() => answering);
    }

    // What tells no commit passes whether one may be told or not, also between others, and however long nothing was said before.
    [Fact]
    public void Commits_AmongOtherAnswers_AreKnownByTheirBytes()
    {
        var told = new ToldCommits();
        Assert.False(told.IsAnyBehind(0));
        told.Advance(5);
        told.Announce(10);
        Assert.True(told.IsAnyBehind(0));
        told.Advance(4);
        Assert.True(told.IsAnyBehind(14));
        told.Advance(6);
        told.Advance(7);
        Assert.False(told.IsAnyBehind(15));
    }

    [Fact]
    public void RedisCli_CertificateNotOfItsAuthority_Refuses()
    {
        using TestProxy proxy = WithClientTls();
        Assert.Equal("PONG\n", Cli(proxy.TlsPort, [.. Trusting, "PING"]));
        Assert.Contains("certificate verify failed", Cli(proxy.TlsPort, "--tls", "--cacert", certificates.OtherAuthorityFile, "PING"),
            StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("none")]
    [InlineData("of another authority")]
    [InlineData("a server's")]
    public void Client_WithoutTheRightCertificate_IsNotServed(string which)
    {
        using TestProxy proxy = WithClientTls(needsCertificate: true);
        string[] cli = which switch
        {
            "none" => Trusting,
            "a server's" => [.. Trusting, "--cert", certificates.ServerFile, "--key", certificates.ServerKeyFile],
            _ => [.. Trusting, "--cert", certificates.OtherClientFile, "--key", certificates.OtherClientKeyFile],
        };
        Assert.DoesNotContain("PONG", Cli(proxy.TlsPort, [.. cli, "PING"]), StringComparison.Ordinal);
        Assert.Equal("PONG\n", Cli(
            proxy.TlsPort, [.. Trusting, "--cert", certificates.ClientFile, "--key", certificates.ClientKeyFile, "PING"]));
    }

    [Fact]
    public void PlainClient_OnTheTlsPort_IsClosedAndHarmsNobody()
    {
        using TestProxy proxy = WithClientTls();
        using RespConnection good = RespConnection.Tls(proxy.TlsPort, Anything);
        using RespConnection wrong = RespConnection.To(proxy.TlsPort);
        wrong.SendRaw("*1\r\n$4\r\nPING\r\n");
        Assert.DoesNotContain("PONG", wrong.ReadToEnd(), StringComparison.Ordinal);
        Assert.Equal("+PONG\r\n", good.Call("PING"));
        Assert.Equal("PONG\n", Cli(proxy.Port, "PING"));
    }

    [Theory]
    [InlineData("of another authority")]
    [InlineData("plain")]
    public void Redis_WhoseCertificateIsWrong_IsNotUsed(string which)
    {
        using var redis = which == "plain" ? new RedisServer() : new RedisServer(certificates, "--tls-auth-clients", "no");
        using TestProxy proxy = new(redis, TransportKind.Auto,
            o => o with { RedisTls = new RedisTlsOptions { CaFile = certificates.OtherAuthorityFile } });
        if (proxy.Exit is { } exit)
        {
            Assert.Contains("TLS", exit.Problem, StringComparison.Ordinal);
            return;
        }
        using RespConnection client = proxy.Connect();
        client.Send("PING");
        // The proxy says so when it has tried. Whatever comes after that is no reply of this Redis.
        bool isSaid = SpinWait.SpinUntil(() => proxy.Log.Contains("TLS to Redis", StringComparison.Ordinal), Generous);
        Assert.True(isSaid, "the proxy says nothing of TLS:\n" + proxy.Log);
        client.Socket.ReceiveTimeout = 500;
        Assert.ThrowsAny<IOException>(client.Read);
        using RespConnection direct = which == "plain" ? RespConnection.To(redis.Port) : RespConnection.Tls(redis.Port, Anything);
        Assert.DoesNotContain("cmdstat_ping", direct.Call("INFO", "commandstats"), StringComparison.Ordinal);
    }

    [Fact]
    public void Redis_InsecureAllowed_IsUsedWhateverItsCertificate()
    {
        using var redis = new RedisServer(certificates, "--tls-auth-clients", "no");
        using TestProxy proxy = new(redis, TransportKind.Auto, o => o with { RedisTls = new RedisTlsOptions { Insecure = true } });
        using RespConnection client = proxy.Connect();
        Assert.Equal("+PONG\r\n", client.Call("PING"));
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void BigValue_OverTls_ComesBackWhole(TransportKind transport)
    {
        using var redis = new RedisServer(certificates, "--tls-auth-clients", "no");
        using TestProxy proxy = WithClientTls(false, transport, redis, new RedisTlsOptions { CaFile = certificates.AuthorityFile });
        using RespConnection client = RespConnection.Tls(proxy.TlsPort, Anything);
        byte[] value = new byte[24 << 20];
        new Random(3).NextBytes(value);
        client.SendRaw($"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${value.Length}\r\n");
        client.SendRaw(value);
        client.SendRaw("\r\n");
        Assert.Equal("+OK\r\n", client.Read());
        client.Send("GET", "k");
        int at = 0;
        bool same = true;
        Assert.Equal(value.Length, client.ReadBulkLength((bytes, count) =>
        {
            same &= bytes.AsSpan(0, count).SequenceEqual(value.AsSpan(at, count));
            at += count;
        }));
        Assert.True(same && at == value.Length);
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public async Task FiftyConnections_WithSlowAndVanishingOnesAmongThem_AreServedApart(TransportKind transport)
    {
        using TestProxy proxy = WithClientTls(transport: transport);
        using RespConnection setter = RespConnection.Tls(proxy.TlsPort, Anything);
        setter.Call("SET", "big", new string('b', 4 << 20));
        // One that never finishes its handshake, one that never reads, one that vanishes: the others go on.
        using RespConnection silent = RespConnection.To(proxy.TlsPort);
        using RespConnection slow = RespConnection.Tls(proxy.TlsPort, Anything);
        for (int i = 0; i < 10; i++) { slow.Send("GET", "big"); }
        using (RespConnection gone = RespConnection.Tls(proxy.TlsPort, Anything))
        {
            gone.SendRaw("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100\r\nabc");
        }
        await Task.WhenAll(Enumerable.Range(0, 50).Select(i => Task.Factory.StartNew(() =>
        {
            using RespConnection client = i % 2 == 0 ? RespConnection.Tls(proxy.TlsPort, Anything) : proxy.Connect();
            for (int n = 0; n < 100; n++)
            {
                Assert.Equal("+OK\r\n", client.Call("SET", $"k{i}", $"{n}"));
                Assert.Equal($"${n.ToString(System.Globalization.CultureInfo.InvariantCulture).Length}\r\n{n}\r\n",
                    client.Call("GET", $"k{i}"));
            }
        }, TestContext.Current.CancellationToken, TaskCreationOptions.LongRunning, TaskScheduler.Default)));
        for (int i = 0; i < 10; i++) { Assert.Equal(4 << 20, slow.ReadBulkLength()); }
    }

    [Fact]
    public void Certificate_ThatCannotBeUsed_IsAClearError()
    {
        using TestProxy proxy = new(plain.Redis, TransportKind.Auto, o => o with
        {
            ClientTls = new ClientTlsOptions { Listen = [ListenAddress.Tcp("127.0.0.1", 0)], CertificateFile = certificates.ServerFile,
                KeyFile = certificates.ClientKeyFile },
        });
        Assert.NotNull(proxy.Exit);
        Assert.Contains(certificates.ClientKeyFile, proxy.Exit.Problem, StringComparison.Ordinal);
    }

    private static string Cli(int port, params string[] arguments)
    {
        var start = new ProcessStartInfo("redis-cli", ["-h", "127.0.0.1", "-p", $"{port}", .. arguments]) { RedirectStandardOutput = true,
            RedirectStandardError = true };
        using Process process = Process.Start(start)!;
        Task<string> errors = process.StandardError.ReadToEndAsync();
        string output = process.StandardOutput.ReadToEnd();
        if (!process.WaitForExit(30_000)) { process.Kill(); }
        return output + errors.Result;
    }
}
