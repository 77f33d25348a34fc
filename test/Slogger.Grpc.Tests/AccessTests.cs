// Who is let in: by a certificate, by a secret; and that who is not learns nothing but that.
using System.Net;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Slogger.Grpc.Client;
using Slogger.Grpc.Server;
using Slogger.Grpc.Tests.Support;

namespace Slogger.Grpc.Tests;

public sealed class AccessTests : IDisposable
{
    private readonly Authority _ours = new("ours"), _other = new("other");

    public void Dispose()
    {
        _ours.Dispose();
        _other.Dispose();
    }

    private GrpcServerOptions Server(params X509Certificate2[] authorities) =>
        EchoServer.Local with { Tls = new() { Certificate = _ours.Issue(Authority.ServerUse), Authorities = authorities } };

    private GrpcChannelOptions Client(X509Certificate2? certificate = null) =>
        new() { Tls = new() { Certificate = certificate, Authorities = [_ours.Certificate] } };

    private static string Thumbprint(X509Certificate2 certificate) => certificate.GetCertHashString(HashAlgorithmName.SHA256);

    private static async Task<(StatusCode, string)> CallAsync(EchoServer server, GrpcChannelOptions options, string host = "127.0.0.1")
    {
        using var channel = new GrpcChannel(host, server.Port, options);
        StatusCode first = StatusCode.OK;
        string detail = "";
        // On one connection, whose certificate was judged when it was made.
        foreach (var method in (global::Grpc.Core.Method<V1.Message, V1.Message>[])[EchoServer.Unary, EchoServer.Unary,
            EchoServer.Named("Nowhere")])
        {
            try
            {
                await channel.CallAsync(method, new()).WaitAsync(EchoServer.Guard);
            }
            catch (RpcException e) when (method.Name != "Nowhere" || first != StatusCode.OK || e.Code != StatusCode.Unimplemented)
            {
                // What breaks a connection is told in different words.
                string said = e.Code == StatusCode.Unauthenticated ? e.Detail : "broken";
                Assert.True(detail.Length == 0 || (first, detail) == (e.Code, said), $"first {first}: {detail}, then {e.Message}");
                (first, detail) = (e.Code, said);
            }
            catch (RpcException)
            {
                // Whoever is let in is told that there is no such method.
            }
        }
        return (first, detail);
    }

    [Fact]
    public async Task ClientCertificate_OfTheAuthority_IsLetIn()
    {
        await using EchoServer server = await EchoServer.StartAsync(Server(_ours.Certificate));
        Assert.Equal((StatusCode.OK, ""), await CallAsync(server, Client(_ours.Issue(Authority.ClientUse))));
    }

    [Fact]
    public async Task ClientCertificate_Missing_IsUnauthenticated()
    {
        await using EchoServer server = await EchoServer.StartAsync(Server(_ours.Certificate));
        Assert.Equal((StatusCode.Unauthenticated, "a certificate is needed"), await CallAsync(server, Client()));
        Assert.Equal(0, server.Begun);
    }

    [Fact]
    public async Task ClientCertificate_OfAnotherAuthorityOrUseOrOutOfTime_IsUnauthenticated()
    {
        await using EchoServer server = await EchoServer.StartAsync(Server(_ours.Certificate));
        Assert.Equal((StatusCode.Unauthenticated, "the certificate is of another authority, or for another use"),
            await CallAsync(server, Client(_other.Issue(Authority.ClientUse))));
        Assert.Equal((StatusCode.Unauthenticated, "the certificate is of another authority, or for another use"),
            await CallAsync(server, Client(_ours.Issue(Authority.ServerUse))));
        Assert.Equal((StatusCode.Unauthenticated, "the certificate is out of its time"),
            await CallAsync(server, Client(_ours.Issue(Authority.ClientUse, isExpired: true))));
    }

    [Fact]
    public async Task ClientCertificate_ByThumbprint_IsLetInAndNoOther()
    {
        using X509Certificate2 known = _other.Issue(Authority.ClientUse), expired = _other.Issue(Authority.ClientUse, isExpired: true);
        string spaced = string.Join(':', Thumbprint(known).ToLowerInvariant().Chunk(2).Select(c => new string(c)));
        GrpcServerOptions options =
            Server() with { Tls = new() { Certificate = _ours.Issue(Authority.ServerUse), Thumbprints = [spaced, Thumbprint(expired)] } };
        await using EchoServer server = await EchoServer.StartAsync(options);
        Assert.Equal((StatusCode.OK, ""), await CallAsync(server, Client(known)));
        Assert.Equal((StatusCode.Unauthenticated, "the certificate is not one of those that are known"),
            await CallAsync(server, Client(_other.Issue(Authority.ClientUse))));
        Assert.Equal((StatusCode.Unauthenticated, "the certificate is out of its time"), await CallAsync(server, Client(expired)));
        Assert.Equal((StatusCode.Unauthenticated, "a certificate is needed"), await CallAsync(server, Client()));
    }

    [Fact]
    public async Task ClientCertificate_WithAuthorityAndThumbprint_NeedsBoth()
    {
        using X509Certificate2 known = _ours.Issue(Authority.ClientUse), elsewhere = _other.Issue(Authority.ClientUse);
        GrpcServerOptions options =
            Server() with { Tls = new() { Certificate = _ours.Issue(Authority.ServerUse), Authorities = [_ours.Certificate],
                Thumbprints = [Thumbprint(known), Thumbprint(elsewhere)] } };
        await using EchoServer server = await EchoServer.StartAsync(options);
        Assert.Equal((StatusCode.OK, ""), await CallAsync(server, Client(known)));
        Assert.Equal(StatusCode.Unauthenticated, (await CallAsync(server, Client(_ours.Issue(Authority.ClientUse)))).Item1);
        Assert.Equal(StatusCode.Unauthenticated, (await CallAsync(server, Client(elsewhere))).Item1);
    }

    [Fact]
    public async Task ClientCertificate_NotWanted_IsNotAskedFor()
    {
        await using EchoServer server = await EchoServer.StartAsync(Server());
        Assert.Equal((StatusCode.OK, ""), await CallAsync(server, Client()));
        Assert.Equal((StatusCode.OK, ""), await CallAsync(server, Client(_other.Issue(Authority.ClientUse))));
    }

    [Fact]
    public async Task ServerCertificate_OfAnotherAuthorityOrNameOrOutOfTime_IsUnavailable()
    {
        foreach ((X509Certificate2 certificate, StatusCode expected) in ((X509Certificate2, StatusCode)[])[
            (_ours.Issue(Authority.ServerUse), StatusCode.OK), (_other.Issue(Authority.ServerUse), StatusCode.Unavailable),
                (_ours.Issue(Authority.ClientUse), StatusCode.Unavailable),
            (_ours.Issue(Authority.ServerUse, isExpired: true), StatusCode.Unavailable),
                (_ours.Issue(Authority.ServerUse, name: "elsewhere"), StatusCode.Unavailable)])
        {
            await using EchoServer server = await EchoServer.StartAsync(
                EchoServer.Local with { Tls = new() { Certificate = certificate } });
            Assert.Equal(expected, (await CallAsync(server, Client())).Item1);
        }
    }

    [Fact]
    public async Task ServerCertificate_ByThumbprint_NeedsNoNameNorAuthority()
    {
        using X509Certificate2 certificate = _other.Issue(Authority.ServerUse, name: "elsewhere");
        await using EchoServer server = await EchoServer.StartAsync(EchoServer.Local with { Tls = new() { Certificate = certificate } });
        Assert.Equal(StatusCode.OK, (await CallAsync(server, new() { Tls = new() { Thumbprints = [Thumbprint(certificate)] } })).Item1);
        Assert.Equal(StatusCode.Unavailable,
            (await CallAsync(server, new() { Tls = new() { Thumbprints = [Thumbprint(_ours.Certificate)] } })).Item1);
        // Nothing said: whom this machine trusts, and it does not trust a test.
        Assert.Equal(StatusCode.Unavailable, (await CallAsync(server, new() { Tls = new() })).Item1);
    }

    [Fact]
    public async Task Tls_OnOneSideOnly_IsUnavailable()
    {
        await using EchoServer secured = await EchoServer.StartAsync(Server()), plain = await EchoServer.StartAsync();
        Assert.Equal(StatusCode.Unavailable, (await CallAsync(plain, Client())).Item1);
        Assert.Equal(StatusCode.Unavailable, (await CallAsync(secured, new())).Item1);
    }

    [Fact]
    public async Task Tls_FromFiles_Works()
    {
        string directory = Directory.CreateTempSubdirectory("slogger-gr-").FullName;
        try
        {
            using X509Certificate2 certificate = _ours.Issue(Authority.ServerUse);
            string File(string name, string text)
            {
                string path = Path.Combine(directory, name);
                System.IO.File.WriteAllText(path, text);
                return path;
            }
            string pem = File("server.pem", certificate.ExportCertificatePem()), key =
                File("server.key", certificate.GetECDsaPrivateKey()!.ExportPkcs8PrivateKeyPem());
            string authority = File("ca.pem", _ours.Certificate.ExportCertificatePem());
            await using EchoServer server = await EchoServer.StartAsync(EchoServer.Local with { Tls = GrpcTls.Load(pem, key, null) });
            Assert.Equal((StatusCode.OK, ""), await CallAsync(server, new() { Tls = GrpcTls.Load(null, null, authority) }));
            Assert.Throws<CryptographicException>(() => GrpcTls.Load(null, null, key));
        }
        finally
        {
            Directory.Delete(directory, recursive: true);
        }
    }

    // Who knows the root alone is shown the way to it.
    [Fact]
    public async Task Tls_WithAnIntermediateAuthority_ShowsIt()
    {
        string directory = Directory.CreateTempSubdirectory("slogger-gr-").FullName;
        try
        {
            using Authority intermediate = _ours.Sub("in between");
            using X509Certificate2 certificate = intermediate.Issue(Authority.ServerUse);
            string pem = Path.Combine(directory, "server.pem"), authority = Path.Combine(directory, "ca.pem");
            await File.WriteAllTextAsync(
                pem, $"{certificate.ExportCertificatePem()}\n{certificate.GetECDsaPrivateKey()!.ExportPkcs8PrivateKeyPem()}\n"
                    + $"{intermediate.Certificate.ExportCertificatePem()}\n");
            await File.WriteAllTextAsync(authority, _ours.Certificate.ExportCertificatePem());
            GrpcTls server = GrpcTls.Load(pem, null, null);
            GrpcChannelOptions client = new() { Tls = GrpcTls.Load(null, null, authority) };
            await using EchoServer whole = await EchoServer.StartAsync(EchoServer.Local with { Tls = server }), alone =
                await EchoServer.StartAsync(EchoServer.Local with { Tls = server with { Chain = [] } });
            Assert.Equal((StatusCode.OK, ""), await CallAsync(whole, client));
            Assert.Equal(StatusCode.Unavailable, (await CallAsync(alone, client)).Item1);
        }
        finally
        {
            Directory.Delete(directory, recursive: true);
        }
    }

    [Fact]
    public async Task Secret_MissingOrWrong_IsUnauthenticated()
    {
        await using EchoServer server = await EchoServer.StartAsync(EchoServer.Local with { Secret = "open-sesame" });
        Assert.Equal((StatusCode.OK, ""), await CallAsync(server, new() { Secret = "open-sesame" }));
        foreach (string? secret in (string?[])[null, "", "open-sesam", "open-sesame1", "OPEN-SESAME"])
        {
            Assert.Equal((StatusCode.Unauthenticated, "the secret is missing or wrong"),
                await CallAsync(server, new() { Secret = secret }));
        }
    }

    [Fact]
    public async Task Secret_IsNotShownToHandlers()
    {
        Metadata? seen = null;
        var shows = EchoServer.Named("Shows");
        await using EchoServer server = await EchoServer.StartAsync(
            EchoServer.Local with { Secret = "open-sesame" },
                s => s.AddUnary(shows, (request, call) => { seen = call.Metadata; return Task.FromResult(request); }));
        using GrpcChannel channel = server.Channel(new() { Secret = "open-sesame" });
        await channel.CallAsync(shows, new(), new() { Metadata = new() { { "other", "1" } } });
        Assert.Equal("1", seen!.GetValue("other"));
        Assert.DoesNotContain(seen, e => e.Key == "authorization" || e.Value.Contains("open-sesame", StringComparison.Ordinal));
    }

    [Fact]
    public async Task SecretAndCertificate_BothWanted_BothNeeded()
    {
        await using EchoServer server = await EchoServer.StartAsync(Server(_ours.Certificate) with { Secret = "open-sesame" });
        using X509Certificate2 certificate = _ours.Issue(Authority.ClientUse);
        Assert.Equal(StatusCode.OK, (await CallAsync(server, Client(certificate) with { Secret = "open-sesame" })).Item1);
        Assert.Equal(StatusCode.Unauthenticated, (await CallAsync(server, Client(certificate))).Item1);
        Assert.Equal(StatusCode.Unauthenticated, (await CallAsync(server, Client() with { Secret = "open-sesame" })).Item1);
    }

    [Fact]
    public void Secret_ThatCannotTravel_IsRefused() =>
        Assert.Throws<ArgumentException>(() => new GrpcChannel("localhost", 1, new() { Secret = "two words" }));

    [Fact]
    public async Task Unauthenticated_NotGrpcAtAll_LearnsNothingElse()
    {
        await using EchoServer server = await EchoServer.StartAsync(EchoServer.Local with { Secret = "open-sesame" });
        using var http = new HttpMessageInvoker(new SocketsHttpHandler());
        var request = new HttpRequestMessage(HttpMethod.Get, $"http://127.0.0.1:{server.Port}/") { Version = HttpVersion.Version20,
            VersionPolicy = HttpVersionPolicy.RequestVersionExact };
        using HttpResponseMessage response = await http.SendAsync(request, CancellationToken.None).WaitAsync(EchoServer.Guard);
        Assert.Empty(await response.Content.ReadAsByteArrayAsync());
        Assert.Equal("16", Assert.Single(response.TrailingHeaders.GetValues("grpc-status")));
    }
}
