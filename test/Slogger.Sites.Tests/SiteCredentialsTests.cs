// The files of the --site-*-file options, as a server and a client go by them.
using System.Net;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Slogger.Grpc;
using Slogger.Grpc.Client;
using Slogger.Grpc.Server;
using Slogger.Grpc.Shipping;
using Slogger.Proxy.Configuration;
using Slogger.Resp;
using Slogger.Sites.Access;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Tests;

public sealed class SiteCredentialsTests : IDisposable
{
    private static readonly ListenAddress s_local = ListenAddress.Tcp("127.0.0.1", 0), s_far = ListenAddress.Tcp("10.1.2.3", 7400);
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-credentials").FullName;

    public void Dispose() => Directory.Delete(_directory, recursive: true);

    [Fact]
    public async Task Secret_TheSame_IsLetInAndAnotherIsNot()
    {
        SiteCredentials ours = Load(secret: "between-us\nand a comment"), other = Load(secret: "of-others");
        await using GrpcServer server = await ServeAsync(ours);
        Assert.Equal(StatusCode.OK, await CallAsync(server, ours));
        Assert.Equal(StatusCode.Unauthenticated, await CallAsync(server, other));
        Assert.Equal(StatusCode.Unauthenticated, await CallAsync(server, SiteCredentials.None));
    }

    // One certificate for both: each process listens, and connects to others.
    [Fact]
    public async Task Certificates_OfOneAuthority_AreAskedForBothWays()
    {
        (string ca, string cert, string key) = Issue("ours");
        (string otherCa, string otherCert, string otherKey) = Issue("others");
        SiteCredentials ours = Load(null, cert, key, ca);
        await using GrpcServer server = await ServeAsync(ours);
        Assert.Equal(StatusCode.OK, await CallAsync(server, ours));
        Assert.Equal(StatusCode.Unauthenticated, await CallAsync(server, Load(null, null, null, ca)));
        Assert.Equal(StatusCode.Unauthenticated, await CallAsync(server, Load(null, otherCert, otherKey, ca)));
        Assert.Equal(StatusCode.Unavailable, await CallAsync(server, Load(null, cert, key, otherCa)));
        Assert.Equal(StatusCode.Unavailable, await CallAsync(server, SiteCredentials.None));
    }

    // As an operator rotates them: both sides take both authorities, then each its new certificate, then the old authority goes.
    [Fact]
    public async Task Renew_CertificatesOfAnotherAuthority_HoldFromTheNextConnectionOn()
    {
        (string ca, string cert, string key) = Issue("ours");
        (string newCa, string newCert, string newKey) = Issue("newer");
        string both = Write("both", await File.ReadAllTextAsync(ca) + "\n" + await File.ReadAllTextAsync(newCa));
        SiteCredentials serves = Load(null, cert, key, ca), calls = Load(null, cert, key, ca);
        await using GrpcServer server = await ServeAsync(serves);
        using GrpcChannel channel = calls.Open(ListenAddress.Tcp("127.0.0.1", server.EndPoint.Port));
        Assert.Equal(StatusCode.OK, await CallAsync(channel));
        // One side alone.
        Assert.Null(serves.Renew(newCert, newKey, newCa));
        Assert.NotEqual(StatusCode.OK, await CallAsync(server, calls));
        // The connection that is there goes on, for those who call over it.
        Assert.Equal(StatusCode.OK, await CallAsync(channel));
        Assert.Null(serves.Renew(newCert, newKey, both));
        Assert.Null(calls.Renew(cert, key, both));
        Assert.Equal(StatusCode.OK, await CallAsync(channel));
        Assert.Equal(StatusCode.OK, await CallAsync(server, calls));
        Assert.Null(calls.Renew(newCert, newKey, newCa));
        Assert.Null(serves.Renew(newCert, newKey, newCa));
        Assert.Equal(StatusCode.OK, await CallAsync(channel));
        Assert.Equal(StatusCode.Unauthenticated, await CallAsync(server, Load(null, cert, key, newCa)));
    }

    [Fact]
    public async Task Renew_NoGoodOrLessIsAsked_ChangesNothingAndSaysWhy()
    {
        (string ca, string cert, string key) = Issue("ours");
        (_, _, string otherKey) = Issue("others");
        SiteCredentials ours = Load(null, cert, key, ca);
        await using GrpcServer server = await ServeAsync(ours);
        Assert.Contains("cannot be used", ours.Renew(cert, otherKey, ca), StringComparison.Ordinal);
        // Whoever reaches it would be let in.
        Assert.Contains("counts from the next start on", ours.Renew(cert, key, null), StringComparison.Ordinal);
        Assert.Contains("counts from the next start on", ours.Renew(null, null, ca), StringComparison.Ordinal);
        Assert.Equal(StatusCode.Unauthenticated, await CallAsync(server, Load(null, null, null, ca)));
        Assert.Equal(StatusCode.OK, await CallAsync(server, ours));
        Assert.Null(SiteCredentials.None.Renew(cert, key, ca));
    }

    [Fact]
    public void OpenTo_FarAddressWithoutCredentials_IsRefusedWithWhatToGive()
    {
        (string ca, string cert, string key) = Issue("ours");
        Assert.Null(SiteCredentials.None.OpenTo(s_local, ListenAddress.Tcp("localhost", 1)));
        Assert.Contains("--site-secret-file", SiteCredentials.None.OpenTo(s_local, s_far)!.Remedy, StringComparison.Ordinal);
        // Encrypted, and open to everybody.
        Assert.NotNull(Load(null, cert, key, null).OpenTo(s_far));
        Assert.Null(Load(null, cert, key, ca).OpenTo(s_far));
        Assert.Null(Load(secret: "x").OpenTo(s_far));
    }

    [Fact]
    public void Load_FilesThatAreNoGood_SaysWhichAndWhatToDo()
    {
        (string ca, string cert, string key) = Issue("ours");
        (_, _, string otherKey) = Issue("others");
        AssertFails(Write("empty", ""), null, null, null, "is no secret");
        AssertFails(Write("blanks", "two words\n"), null, null, null, "is no secret");
        AssertFails(Path.Combine(_directory, "nowhere"), null, null, null, "cannot be read");
        AssertFails(null, null, key, null, "without the certificate");
        AssertFails(null, cert, otherKey, ca, cert);
        AssertFails(null, cert, key, Write("no-ca", "nothing"), "no certificate in");
        AssertFails(null, Path.Combine(_directory, "nowhere"), key, ca, "cannot be used");
        Assert.Contains("--site-cert-file", Load(null, null, null, ca).ServerAt(s_local).Failed!.Remedy, StringComparison.Ordinal);

        void AssertFails(string? secret, string? certificate, string? privateKey, string? authorities, string why)
        {
            (SiteCredentials? credentials, ProxyExit? failed) = SiteCredentials.Load(secret, certificate, privateKey, authorities);
            Assert.Null(credentials);
            Assert.Contains(why, failed!.Problem, StringComparison.Ordinal);
            Assert.NotEmpty(failed.Remedy);
        }
    }

    private static SiteCredentials Load(string? secretFile, string? certificateFile, string? keyFile, string? authoritiesFile)
    {
        (SiteCredentials? credentials, ProxyExit? failed) = SiteCredentials.Load(secretFile, certificateFile, keyFile, authoritiesFile);
        Assert.Null(failed?.Problem);
        return credentials!;
    }

    private SiteCredentials Load(string secret) => Load(Write(Guid.NewGuid().ToString(), secret), null, null, null);

    private static async Task<GrpcServer> ServeAsync(SiteCredentials credentials)
    {
        (GrpcServerOptions? options, ProxyExit? failed) = credentials.ServerAt(s_local);
        Assert.Null(failed);
        GrpcServer server = new GrpcServer(options!).AddUnary(SiteControlMethods.Attach, (_, _) => Task.FromResult(new V1.AttachReply()));
        await server.StartAsync();
        return server;
    }

    private static async Task<StatusCode> CallAsync(GrpcServer server, SiteCredentials credentials)
    {
        using GrpcChannel channel = credentials.Open(ListenAddress.Tcp("127.0.0.1", server.EndPoint.Port));
        return await CallAsync(channel);
    }

    private static async Task<StatusCode> CallAsync(GrpcChannel channel)
    {
        try
        {
            await channel.CallAsync(SiteControlMethods.Attach, new(), new() { Timeout = TimeSpan.FromSeconds(20) });
            return StatusCode.OK;
        }
        catch (RpcException e)
        {
            return e.Code;
        }
    }

    private string Write(string name, string text)
    {
        string file = Path.Combine(_directory, name);
        File.WriteAllText(file, text);
        return file;
    }

    private (string Ca, string Cert, string Key) Issue(string name)
    {
        using ECDsa caKey = ECDsa.Create(ECCurve.NamedCurves.nistP256), key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        var ca = new CertificateRequest($"CN={name}", caKey, HashAlgorithmName.SHA256);
        ca.CertificateExtensions.Add(new X509BasicConstraintsExtension(true, false, 0, true));
        using X509Certificate2 authority = ca.CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-2), DateTimeOffset.UtcNow.AddDays(2));
        var request = new CertificateRequest("CN=a process", key, HashAlgorithmName.SHA256);
        var names = new SubjectAlternativeNameBuilder();
        names.AddIpAddress(IPAddress.Loopback);
        request.CertificateExtensions.Add(names.Build());
        request.CertificateExtensions.Add(new X509EnhancedKeyUsageExtension([new("1.3.6.1.5.5.7.3.1"), new("1.3.6.1.5.5.7.3.2")], false));
        using X509Certificate2 issued = request.Create(authority, DateTimeOffset.UtcNow.AddDays(-1), DateTimeOffset.UtcNow.AddDays(1),
            [1, 2, 3]);
        return (Write(name + ".ca", authority.ExportCertificatePem()), Write(name + ".cert", issued.ExportCertificatePem()),
            Write(name + ".key", key.ExportPkcs8PrivateKeyPem()));
    }
}
