// Redis that speaks TLS to the proxy: versions are committed, the proxy continues after its own death, and Redis is restored after
// its.
using System.Globalization;
using System.Net;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Functional;

public sealed class TlsStoreTests
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Theory]
    [InlineData("log")]
    [InlineData("bgsave")]
    public async Task RedisBehindTls_CommitsContinuesAndIsRestored(string commit)
    {
        using var workspace = new Workspace();
        (string certificate, string key) = WriteCertificate(workspace);
        string tlsPort = Workspace.FreePort().ToString(CultureInfo.InvariantCulture);
        using var redis = await RedisProcess.StartAsync(workspace.Folder("redis"),
            "--tls-port", tlsPort, "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", certificate,
                "--tls-auth-clients", "yes");
        string[] options =
        [
            "--redis", $"127.0.0.1:{tlsPort}", "--redis-tls", "true", "--redis-tls-ca", certificate, "--redis-tls-cert", certificate,
            "--redis-tls-key", key, "--data", workspace.Folder("data"), "--commit", commit,
        ];
        int port = Workspace.FreePort();
        var proxy = await ProxyProcess.StartAsync(port, options);
        try
        {
            await CountAsync(proxy, 1);
            using (var direct = await redis.ConnectAsync())
            {
                string[] clear = (await direct.DoAsync("CLIENT", "LIST")).Text.Split('\n')
                    .Where(line => line.Length > 0 && !line.Contains($" laddr=127.0.0.1:{tlsPort} ", StringComparison.Ordinal)).ToArray();
                Assert.Contains("cmd=client|list", Assert.Single(clear), StringComparison.Ordinal);
            }

            proxy.KillHard();
            proxy.Dispose();
            proxy = await ProxyProcess.StartAsync(port, options);
            Assert.Equal(1, await CountAsync(proxy, 2));

            redis.KillHard();
            await redis.RestartAsync();
            long line = 0;
            await Eventually.AsyncTrue("the proxy serves again\n" + proxy.Tail(), Generous, async () =>
            {
                try
                {
                    using var client = await proxy.ConnectAsync();
                    bool restored = (await client.CallAsync("GET", "n")).Compact == "$2";
                    line = (await client.DoAsync("DPR.WORLDLINE")).AsInteger();
                    return restored;
                }
                catch (Exception e) when (e is ConnectionLostException or InvalidOperationException)
                {
                    return false;
                }
            });
            Assert.Equal(2, line);
            await CountAsync(proxy, 3);
        }
        finally
        {
            proxy.Dispose();
        }
    }

    // Counts to n, on the shared connection and on one of its own; returns the world-line.
    private static async Task<long> CountAsync(ProxyProcess proxy, int n)
    {
        using var client = await proxy.ConnectAsync();
        Assert.Equal($":{n}", (await client.CallAsync("INCR", "n")).Compact);
        await client.DoAsync("MULTI");
        await client.DoAsync("INCR", "m");
        Assert.Equal($"[:{n}]", (await client.CallAsync("EXEC")).Compact);
        await client.SendAsync("DPR.WAIT", "*", "50000");
        Assert.Equal(1, (await client.ReadAsync(Generous)).Items[2].AsInteger());
        return (await client.DoAsync("DPR.WORLDLINE")).AsInteger();
    }

    private static (string Certificate, string Key) WriteCertificate(Workspace workspace)
    {
        using var key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        var request = new CertificateRequest("CN=redis", key, HashAlgorithmName.SHA256);
        request.CertificateExtensions.Add(new X509BasicConstraintsExtension(certificateAuthority: true, false, 0, critical: true));
        var names = new SubjectAlternativeNameBuilder();
        names.AddIpAddress(IPAddress.Loopback);
        request.CertificateExtensions.Add(names.Build());
        using X509Certificate2 certificate = request.CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-1), DateTimeOffset.UtcNow.AddDays(1));
        File.WriteAllText(workspace.File("redis.crt"), certificate.ExportCertificatePem());
        File.WriteAllText(workspace.File("redis.key"), key.ExportPkcs8PrivateKeyPem());
        return (workspace.File("redis.crt"), workspace.File("redis.key"));
    }
}
