// Sessions of Slogger.Client when their site is lost: they go on at the other one, and what they are told of their operations is what is in
// the stores there.
using System.Globalization;
using Slogger.Client;
using Slogger.Core.Sessions;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Sites;

public sealed class SiteClientTests(ITestOutputHelper output)
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Fact]
    public async Task Site_IsLost_TheSessionIsToldWhatSurvivedAndGoesOnAtTheOther()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: false);
        await sites.StartAsync();
        await using SloggerClient client = await SloggerClient.ConnectAsync(new SloggerClientOptions
        {
            Endpoints = [.. Enumerable.Range(0, 2)
                .SelectMany(s => new[] { sites.Primary, sites.Backup }.Select(
                    site => string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{site.Port(s)}")))],
            GiveUpAfter = Generous,
        });
        await using SloggerSession session = client.OpenSession();
        string[] keys = [sites.Primary.Key(0, "a"), sites.Primary.Key(1, "a")];

        // Each increment of one shard's counter is followed by one of the other's, so counters say exactly what survived.
        var answered = new List<(Result<long> Result, int Shard)>();
        RollbackException? rollback = null;
        Task? losing = null;
        bool mayBeMore = false;
        for (int i = 0; rollback is null; i++)
        {
            try
            {
                answered.Add((await session.IncrementAsync(keys[i % 2]).AsTask().WaitAsync(Generous), i % 2));
                if (i == 500) { losing = LoseAsync(sites); }
            }
            catch (RollbackException e)
            {
                rollback = e;
            }
            catch (UncertainException)
            {
                mayBeMore = true;
            }
        }

        await losing!;
        output.WriteLine(rollback.Message);
        session.Resume(rollback);
        mayBeMore |= rollback.FateOf(rollback.Operation) == OperationFate.Uncertain;
        for (int shard = 0; shard < 2; shard++)
        {
            long survived = answered.Where(a => a.Shard == shard && rollback.FateOf(a.Result.Sequence) == OperationFate.Survived)
                .Select(a => a.Result.Value).DefaultIfEmpty().Max();
            string? now = (await session.GetAsync(keys[shard]).AsTask().WaitAsync(Generous)).Value;
            long there = long.Parse(now ?? "0", CultureInfo.InvariantCulture);
            Assert.True(there == survived || (mayBeMore && there == survived + 1),
                $"shard {shard}: {there}, and {survived} are said to have survived: {rollback.Message}");
        }
        Assert.True(rollback.Survived.Number > 0, "nothing survived, though the backup had followed for long");
        await session.IncrementAsync(keys[0]).AsTask().WaitAsync(Generous);
        await session.WaitForCommitAsync().WaitAsync(Generous);
    }

    private static async Task LoseAsync(TwoSites sites)
    {
        await Task.Delay(200);
        await sites.Primary.KillAsync();
        await sites.FailOverAsync();
    }
}
