// With a stock implementation (grpc-js): its client at our server, our client at its server, with and without TLS.
using System.Diagnostics;
using System.Security.Cryptography.X509Certificates;
using Google.Protobuf;
using Slogger.Grpc.Client;
using Slogger.Grpc.Tests.Support;
using Slogger.Grpc.Tests.V1;

namespace Slogger.Grpc.Tests;

public sealed class InteropTests : IDisposable
{
    private readonly string _certificates = Directory.CreateTempSubdirectory("slogger-gr-").FullName;
    private readonly Authority _authority = new("interop");

    public InteropTests()
    {
        Write("ca.pem", _authority.Certificate.ExportCertificatePem());
        foreach ((string name, string use) in ((string, string)[])[("server", Authority.ServerUse), ("client", Authority.ClientUse)])
        {
            using X509Certificate2 certificate = _authority.Issue(use);
            Write(name + ".pem", certificate.ExportCertificatePem());
            Write(name + ".key", certificate.GetECDsaPrivateKey()!.ExportPkcs8PrivateKeyPem());
        }

        void Write(string name, string text) => File.WriteAllText(Path.Combine(_certificates, name), text);
    }

    public void Dispose()
    {
        _authority.Dispose();
        Directory.Delete(_certificates, recursive: true);
    }

    private GrpcTls Tls(string name) =>
        GrpcTls.Load(Path.Combine(_certificates, name + ".pem"), Path.Combine(_certificates, name + ".key"),
            Path.Combine(_certificates, "ca.pem"));

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task StockClient_AtOurServer_PassesItsChecks(bool isTls)
    {
        await using EchoServer server = await EchoServer.StartAsync(
            EchoServer.Local with { Tls = isTls ? Tls("server") : null, Secret = "open-sesame" });
        string[] lines = await StockPeer.CheckAsync(server.Port, isTls ? _certificates : null, "open-sesame");
        Assert.True(lines.Length == 15 && lines.All(l => l.StartsWith("ok ", StringComparison.Ordinal)), string.Join('\n', lines));
        await server.FirstCancelled;
    }

    [Fact]
    public async Task StockClient_WithoutTheSecret_IsUnauthenticated()
    {
        await using EchoServer server = await EchoServer.StartAsync(EchoServer.Local with { Secret = "open-sesame" });
        string[] lines = await StockPeer.CheckAsync(server.Port, null, "something-else");
        Assert.Contains(lines, l => l.StartsWith("FAILED unknown_method", StringComparison.Ordinal)
            && l.Contains("16 !== 12", StringComparison.Ordinal));
        Assert.DoesNotContain(lines, l => l.StartsWith("ok ", StringComparison.Ordinal));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task OurClient_AtTheStockServer_CallsInEveryWay(bool isTls)
    {
        (Process process, int port) = await StockPeer.ServeAsync(isTls ? _certificates : null);
        using (process)
        {
            try
            {
                using var channel = new GrpcChannel("127.0.0.1", port, new() { Tls = isTls ? Tls("client") : null });
                await CallAsync(channel);
                await ChatAsync(channel, isGzip: false);
                await ChatAsync(channel, isGzip: true);
                await EndAsync(channel);
            }
            finally
            {
                process.Kill();
            }
        }
    }

    private static async Task CallAsync(GrpcChannel channel)
    {
        Assert.Equal("grüße", (await channel.CallAsync(EchoServer.Unary, new() { Text = "grüße" })).Text);
        Assert.Equal(3_000_000, (await channel.CallAsync(EchoServer.Unary,
            new() { Payload = ByteString.CopyFrom(new byte[3_000_000]) })).Payload.Length);
        for (int code = 1; code <= 16; code++)
        {
            RpcException e = await Assert.ThrowsAsync<RpcException>(
                () => channel.CallAsync(EchoServer.Unary, new() { FailWith = code, Text = $"100% größer\n{code}" },
                    new() { Metadata = new() { { "tail-text", "late" } } }));
            Assert.Equal(((StatusCode)code, $"100% größer\n{code}", "late"), (e.Code, e.Detail, e.Trailers.GetValue("tail-text")));
        }
        Assert.Equal(StatusCode.Unimplemented,
            (await Assert.ThrowsAsync<RpcException>(() => channel.CallAsync(EchoServer.Named("Nowhere"), new()))).Code);
        Assert.Equal(StatusCode.ResourceExhausted,
            (await Assert.ThrowsAsync<RpcException>(
                () => channel.CallAsync(EchoServer.Unary, new() { Payload = ByteString.CopyFrom(new byte[5_000_000]) }))).Code);
    }

    private static async Task ChatAsync(GrpcChannel channel, bool isGzip)
    {
        byte[] bytes = [0, 1, 254, 255];
        await using var call = channel.Open(EchoServer.Chat,
            new() { IsGzip = isGzip, Metadata = new() { { "head-raw-bin", bytes }, { "tail-raw-bin", bytes } } });
        Assert.Equal(bytes, (await call.HeadersAsync().WaitAsync(EchoServer.Guard)).GetValueBytes("head-raw-bin"));
        for (int i = 0; i < 200; i++)
        {
            Assert.True(await call.WriteAsync(new() { Number = i, Payload = ByteString.CopyFrom(new byte[i * 10]) }));
            Assert.Equal((i, i * 10), await call.ReadAsync() is { } reply ? (reply.Number, reply.Payload.Length) : default);
        }
        Assert.True(await call.WriteAsync(new() { Replies = 3000, Payload = ByteString.CopyFrom(new byte[300]) }));
        Assert.True(await call.CompleteAsync());
        for (int i = 0; i < 3000; i++) { Assert.Equal(i, (await call.ReadAsync())!.Number); }
        Assert.Null(await call.ReadAsync());
        Assert.Equal(bytes, call.Trailers.GetValueBytes("tail-raw-bin"));
    }

    private static async Task EndAsync(GrpcChannel channel)
    {
        RpcException late = await Assert.ThrowsAsync<RpcException>(
            () => channel.CallAsync(EchoServer.Unary, new() { Wait = true }, new() { Timeout = TimeSpan.FromMilliseconds(200) }));
        Assert.Equal(StatusCode.DeadlineExceeded, late.Code);
        await using (var failing = channel.Open(EchoServer.Chat))
        {
            Assert.True(await failing.WriteAsync(new() { FailWith = 9, Text = "not now" }));
            Assert.Equal((StatusCode.FailedPrecondition, "not now"),
                await Assert.ThrowsAsync<RpcException>(async () => await failing.ReadAsync()) is var e ? (e.Code, e.Detail) : default);
        }
        await using (var given = channel.Open(EchoServer.Chat)) { await given.HeadersAsync(); }
        using var guard = new CancellationTokenSource(EchoServer.Guard);
        while ((await channel.CallAsync(EchoServer.Unary, new() { Text = "cancelled?" })).Number == 0) { await Task.Delay(5, guard.Token); }
    }
}
