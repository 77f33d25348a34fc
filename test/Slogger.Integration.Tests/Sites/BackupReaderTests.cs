// Readers of a backup of two shards while clients write at the primary: plain clients can read both as of one version.
using System.Globalization;
using Slogger.Client;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using RespValue = Slogger.Integration.Tests.Wire.RespValue;

namespace Slogger.Integration.Tests.Sites;

public sealed class BackupReaderTests(ITestOutputHelper output)
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Fact]
    public async Task PlainClients_ReadBothShardsAsOfOneVersion()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: false, TimeSpan.FromMilliseconds(1));
        await sites.StartAsync();
        string[] keys = [sites.Primary.Key(0, "x"), sites.Primary.Key(1, "y")];
        using var stop = new CancellationTokenSource();
        Task<Core.Versions.Version> writing = WriteAsync(sites.Primary, keys[0], keys[1], stop.Token);
        RespClient[] clients = [await sites.Backup.ConnectAsync(0), await sites.Backup.ConnectAsync(1)];
        try
        {
            await Eventually.AsyncTrue("the backup has what is written", Generous, async () => !(await clients[1].CallAsync("GET", keys[1])).IsNull);
            long atLeast = 0;
            var values = new HashSet<long>();
            int together = 0, tries = 0;
            var limit = DateTime.UtcNow + Generous;
            for (; values.Count < 10 && DateTime.UtcNow < limit; tries++)
            {
                for (int s = 0; s < 2; s++)
                {
                    await clients[s].SendAsync("DPR.REACH", atLeast.ToString(CultureInfo.InvariantCulture), "20000");
                    await clients[s].SendAsync("GET", keys[s]);
                    await clients[s].SendAsync("DPR.CUT");
                }
                var read = new List<(long Earliest, long Value, long Latest)>();
                for (int s = 0; s < 2; s++)
                {
                    RespValue stands = await clients[s].ReadAsync(), value = await clients[s].ReadAsync(), cut = await clients[s].ReadAsync();
                    Assert.Equal(1, stands.Items[2].Number);
                    Assert.True(stands.Items[1].Number >= atLeast && cut.Items[1].Number >= stands.Items[1].Number);
                    read.Add((stands.Items[1].Number, value.IsNull ? 0 : value.AsInteger(), cut.Items[1].Number));
                }
                atLeast = read.Max(r => r.Latest);
                if (read.Any(r => r.Earliest != atLeast || r.Latest != atLeast)) { continue; }
                together++;
                values.Add(read[0].Value);
                Assert.InRange(read[0].Value - read[1].Value, 0, 1);
            }
            output.WriteLine($"{together} of {tries} tries were of one version");
            Assert.True(values.Count > 1, $"{together} of {tries} tries were of one version, with {values.Count} values");
            // One that it does not come to within the time.
            RespValue late = await clients[0].DoAsync("DPR.REACH", long.MaxValue.ToString(CultureInfo.InvariantCulture), "50");
            Assert.Equal(0, late.Items[2].Number);
            Assert.Contains("0 or more", (await clients[0].CallAsync("DPR.REACH", "-1", "0")).Text, StringComparison.Ordinal);
            Assert.Contains("timeout", (await clients[0].CallAsync("DPR.REACH", "1", "x")).Text, StringComparison.Ordinal);
        }
        finally
        {
            await stop.CancelAsync();
            await writing.WaitAsync(Generous);
            foreach (RespClient client in clients) { client.Dispose(); }
        }
    }

    private static SloggerClientOptions OptionsFor(Site site) => new() { Endpoints = [.. Enumerable.Range(0, 2).Select(s => string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{site.Port(s)}"))], GiveUpAfter = Generous };

    // x before y, of which the session knows: the version of y is no lower than that of x. Returns the version of the last y.
    private static async Task<Core.Versions.Version> WriteAsync(Site primary, string x, string y, CancellationToken stop)
    {
        await using SloggerClient client = await SloggerClient.ConnectAsync(OptionsFor(primary), CancellationToken.None);
        await using SloggerSession session = client.OpenSession();
        Core.Versions.Version last = default;
        while (!stop.IsCancellationRequested)
        {
            await session.IncrementAsync(x);
            last = (await session.IncrementAsync(y)).Version;
        }
        return last;
    }
}
