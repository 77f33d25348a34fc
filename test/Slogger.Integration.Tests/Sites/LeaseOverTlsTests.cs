// Clients over TLS of a primary whose site lease has run out: they are told no commit, and everything else as before. What is enciphered
// lies behind the loop, which has given it out already, so it is looked at once more.
using System.Globalization;
using System.Net;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sites;

public sealed class LeaseOverTlsTests
{
    private const int Pairs = 1500;
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Fact]
    public async Task Lease_HasRunOut_ClientsOverTlsHearOfNoCommit_AndGetTheirRepliesUnderTheNext()
    {
        using var workspace = new Workspace();
        var endpoint = new IPEndPoint(IPAddress.Loopback, Workspace.FreePort());
        await using var sites = new TwoSites(workspace, shards: 1, usesPostgres: false, TimeSpan.FromMilliseconds(2), "--site-lease", "4s");
        sites.Primary.OptionsOfOne = _ => ["--tls-listen", endpoint.ToString(), .. WriteCertificate(workspace)];
        await sites.StartAsync();
        Site primary = sites.Primary;
        using RespClient clear = await primary.ConnectAsync(0);
        using RespClient idle = await RespClient.ConnectTlsAsync(endpoint), waiting = await RespClient.ConnectTlsAsync(endpoint), slow =
            await RespClient.ConnectTlsAsync(endpoint);
        await idle.DoAsync("SET", "n", "1");
        await idle.DoAsync("SET", "large", new string('l', 16 << 10));
        await Eventually.AsyncTrue("commits are told over TLS", Generous, async () => (await idle.DoAsync("DPR.CUT")).Items[1].Number > 0);

        // One awaits a reply when the lease ends. Of another what tells commits waits between the loop and its socket, for it reads
        // nothing.
        await waiting.SendAsync("BLPOP", "list", "0");
        for (int i = 0; i < Pairs; i++)
        {
            await slow.SendAsync("GET", "large");
            await slow.SendAsync("DPR.CUT");
        }
        // When the loop has given all of it out, or keeps it for later, it is not the loop that ends the connection.
        await slow.SendAsync("GET", "large");
        await Eventually.AsyncTrue("all is answered", Generous,
            async () => (await clear.DoAsync("INFO", "commandstats")).Text.Contains(
                $"cmdstat_get:calls={Pairs + 1},", StringComparison.Ordinal));
        await Eventually.AsyncTrue("the way to the slow client is full", Generous, async () =>
            (await clear.DoAsync("CLIENT", "LIST")).Text.Split('\n')
                .Any(l => l.Contains($" addr={slow.LocalEndPoint} ", StringComparison.Ordinal)
                    && l.Contains(" oll=1 ", StringComparison.Ordinal)));
        Assert.True(IsConnected(endpoint, slow), "it was closed under the lease");
        foreach (WideLink link in primary.Links) { link.Cut(); }
        await primary.LeaseOverAsync(0, Generous);

        Assert.Equal(0, (await idle.DoAsync("DPR.CUT")).Items[1].Number);
        Assert.Equal(0, (await idle.DoAsync("DPR.WAIT", "*", "10")).Items[2].Number);
        await idle.SendAsync("INCR", "n");
        await clear.SendAsync("RPUSH", "list", "a");
        // Nobody reads: its connection ends all the same. Where it does not, the lease was away before, too, while the client was answered
        // (a slow machine), and what waits tells of no commit.
        bool hasEnded = true;
        try
        {
            await Eventually.AsyncTrue("the slow client's connection has ended", Generous,
                () => Task.FromResult(!IsConnected(endpoint, slow)));
        }
        catch (TimeoutException)
        {
            hasEnded = false;
        }
        int told = 0;
        long last = 0;
        try
        {
            for (int i = 0; i < 2 * Pairs; i++)
            {
                RespValue reply = await slow.ReadAsync(Generous);
                if (i % 2 == 0) { continue; }
                told++;
                last = reply.Items[1].Number;
            }
        }
        catch (ConnectionLostException)
        {
            Assert.True(hasEnded, "it ended only when it was read");
        }
        Assert.True(hasEnded ? told < Pairs : last == 0, $"{told} of {Pairs} replies came, the last of them with {last}");

        foreach (WideLink link in primary.Links) { link.Open(); }
        Assert.Equal(":2", (await idle.ReadAsync(Generous)).Compact);
        Assert.Equal("a", (await waiting.ReadAsync(Generous)).Items[1].Text);
        await Eventually.AsyncTrue("commits are told again", Generous, async () => (await idle.DoAsync("DPR.CUT")).Items[1].Number > 0);
    }

    // As the kernel sees the proxy's end of a connection.
    private static bool IsConnected(IPEndPoint proxy, RespClient client)
    {
        const string Established = "01";
        string local = string.Create(CultureInfo.InvariantCulture, $":{proxy.Port:X4}"), peer =
            string.Create(CultureInfo.InvariantCulture, $":{((IPEndPoint)client.LocalEndPoint!).Port:X4}");
        return File.ReadLines("/proc/net/tcp").Skip(1).Select(l => l.Split(' ', StringSplitOptions.RemoveEmptyEntries))
            .Any(f => f[1].EndsWith(local, StringComparison.Ordinal) && f[2].EndsWith(peer, StringComparison.Ordinal)
                && f[3] == Established);
    }

    private static string[] WriteCertificate(Workspace workspace)
    {
        using ECDsa key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        using X509Certificate2 certificate = new CertificateRequest("CN=localhost", key, HashAlgorithmName.SHA256)
            .CreateSelfSigned(DateTimeOffset.UtcNow.AddHours(-1), DateTimeOffset.UtcNow.AddDays(1));
        string certificateFile = workspace.File("cert.pem"), keyFile = workspace.File("key.pem");
        File.WriteAllText(certificateFile, certificate.ExportCertificatePem());
        File.WriteAllText(keyFile, key.ExportPkcs8PrivateKeyPem());
        return ["--tls-cert", certificateFile, "--tls-key", keyFile];
    }
}
