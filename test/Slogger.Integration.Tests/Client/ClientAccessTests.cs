// Slogger.Client over TLS, with a password, at a shard alone: through the recovery of its store, too.
using System.Globalization;
using System.Net;
using System.Net.Security;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Slogger.Client;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Client;

public sealed class ClientAccessTests
{
    private const string Password = "correct-horse";
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Fact]
    public async Task Client_OverTlsWithAPassword_WorksCommitsAndIsRolledBack()
    {
        using var workspace = new Workspace();
        (string certificate, string key, string thumbprint) = MakeCertificate(workspace);
        string endpoint = string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{Workspace.FreePort()}");
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup
        {
            RedisPassword = Password, Options = ["--tls-listen", endpoint, "--tls-cert", certificate, "--tls-key", key],
        });
        await deployment.StartAsync();
        var tls = new SslClientAuthenticationOptions { RemoteCertificateValidationCallback = (_, c, _, _) =>
            c?.GetCertHashString() == thumbprint };
        var options = new SloggerClientOptions { Endpoints = [endpoint], Tls = tls, Password = Password };

        // Without the authority's word, without TLS, without the password: each is refused.
        await Assert.ThrowsAsync<SloggerException>(() => SloggerClient.ConnectAsync(options with { Tls = new() }));
        await Assert.ThrowsAsync<SloggerException>(
            () => SloggerClient.ConnectAsync(options with { Tls = null, ConnectTimeout = TimeSpan.FromSeconds(1) }));
        SloggerException refused = await Assert.ThrowsAsync<SloggerException>(
            () => SloggerClient.ConnectAsync(options with { Password = "wrong-pony" }));
        Assert.Contains("WRONGPASS", refused.Message, StringComparison.Ordinal);
        Assert.DoesNotContain("wrong-pony", refused.Message, StringComparison.Ordinal);
        await Assert.ThrowsAsync<SloggerException>(() => SloggerClient.ConnectAsync(options with { Password = null }));

        await using SloggerClient client = await SloggerClient.ConnectAsync(options);
        await using SloggerSession session = client.OpenSession();
        await Task.WhenAll(Enumerable.Range(0, 1000).Select(_ => session.IncrementAsync("n").AsTask())).WaitAsync(Generous);
        await session.WaitForCommitAsync().WaitAsync(Generous);
        await deployment.KillRedisAsync();
        Result<long>? next = null;
        while (next is null)
        {
            try
            {
                next = await session.IncrementAsync("n").AsTask().WaitAsync(Generous);
            }
            catch (RollbackException rollback)
            {
                session.Resume(rollback);
            }
            catch (UncertainException)
            {
                // The next one tells.
            }
        }

        Assert.InRange(next.Value.Value, 1001, 1100);
        await session.WaitForCommitAsync().WaitAsync(Generous);
    }

    private static (string File, string KeyFile, string Thumbprint) MakeCertificate(Workspace workspace)
    {
        using var key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        var request = new CertificateRequest("CN=localhost", key, HashAlgorithmName.SHA256);
        var names = new SubjectAlternativeNameBuilder();
        names.AddIpAddress(IPAddress.Loopback);
        request.CertificateExtensions.Add(names.Build());
        using X509Certificate2 made = request.CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-1), DateTimeOffset.UtcNow.AddDays(30));
        File.WriteAllText(workspace.File("server.pem"), made.ExportCertificatePem());
        File.WriteAllText(workspace.File("server.key"), key.ExportPkcs8PrivateKeyPem());
        return (workspace.File("server.pem"), workspace.File("server.key"), made.GetCertHashString());
    }
}
