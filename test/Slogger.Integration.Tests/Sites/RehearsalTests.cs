// Rehearsals of a failover: they are over by themselves, they end when there is something else to be done, and nothing of them stays,
// however that comes.
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sites;

public sealed class RehearsalTests
{
    private const string Field = "failover_rehearsal";
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(90);

    // On a busy machine a process does not find the time for three minutes, and then takes it; another's turn may come before.
    private static readonly TimeSpan TurnLimit = TimeSpan.FromMinutes(6);

    private readonly HashSet<int> _servers = [];

    [Fact]
    public async Task Rehearsal_Follows_IsOverByItself_AndLeavesNothing_InOneProcessAfterTheOther()
    {
        using var workspace = new Workspace();
        await using TwoSites sites = await StartAsync(workspace, shards: 2);
        bool wereBoth = false;
        await UntilAsync("both processes have rehearsed a failover", sites, async () =>
        {
            wereBoth |= sites.Backup.InRehearsal(0).Count > 0 && sites.Backup.InRehearsal(1).Count > 0;
            return await sites.Backup.InfoAsync(0, Field) == "done" && await sites.Backup.InfoAsync(1, Field) == "done";
        });
        Assert.False(wereBoth, "both processes rehearsed at one time");
        await NothingIsLeftAsync(sites);
        await sites.FollowingAsync();
        await sites.Primary.KillAsync();
        await sites.FailOverAsync();
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Rehearsal_ProcessKilledInIt_TheNextOneLeavesNothing(bool rehearsesAgain)
    {
        using var workspace = new Workspace();
        await using TwoSites sites = await StartAsync(workspace, shards: 1);
        await UnderWayAsync(sites);
        sites.Backup.KillProxy(0);
        sites.Backup.Rehearses = rehearsesAgain;
        await sites.Backup.StartAsync(0);
        if (rehearsesAgain)
        {
            await UntilAsync("the next process has rehearsed a failover", sites,
                async () => await sites.Backup.InfoAsync(0, Field) == "done");
        }
        else { Assert.Equal("off", await sites.Backup.InfoAsync(0, Field)); }
        await NothingIsLeftAsync(sites);
        await sites.FollowingAsync();
    }

    [Fact]
    public async Task Rehearsal_FailoverComes_EndsAndLeavesNothing()
    {
        using var workspace = new Workspace();
        await using TwoSites sites = await StartAsync(workspace, shards: 2);
        await UnderWayAsync(sites);
        await sites.Primary.KillAsync();
        await sites.FailOverAsync();
        await NothingIsLeftAsync(sites.Primary);
    }

    [Fact]
    public async Task Rehearsal_StreamIsSeededAnew_Ends_AndIsMadeUpFor()
    {
        using var workspace = new Workspace();
        await using TwoSites sites = await StartAsync(workspace, shards: 1);
        await UnderWayAsync(sites);
        (int code, string output) = await sites.Backup.CommandAsync("seed", "--primary-metadata", sites.Primary.Metadata, "--shard", "0");
        Assert.True(code == 0, output);
        await sites.FollowingAsync();
        await UntilAsync("a failover has been rehearsed", sites, async () => await sites.Backup.InfoAsync(0, Field) == "done");
        await NothingIsLeftAsync(sites);
    }

    [Fact]
    public async Task Rehearsal_ProcessIsStopped_LeavesNothing()
    {
        using var workspace = new Workspace();
        await using TwoSites sites = await StartAsync(workspace, shards: 1);
        await UnderWayAsync(sites);
        Assert.Equal(0, await sites.Backup.TerminateAsync(0));
        await NothingIsLeftAsync(sites);
    }

    private static async Task<TwoSites> StartAsync(Workspace workspace, int shards)
    {
        var sites = new TwoSites(workspace, shards, usesPostgres: false, TimeSpan.Zero);
        sites.Backup.Rehearses = true;
        await sites.StartAsync();
        return sites;
    }

    // All four of its Redis servers run.
    private Task UnderWayAsync(TwoSites sites) =>
        UntilAsync("a rehearsal is under way", sites, () =>
            Task.FromResult(sites.Backup.InRehearsal(0).Count(d => SupervisedRedis.Find(d) is not null) == 4));

    private Task UntilAsync(string what, TwoSites sites, Func<Task<bool>> isSo) => Eventually.AsyncTrue(what, TurnLimit, async () =>
    {
        See(sites);
        return await isSo();
    });

    private void See(TwoSites sites)
    {
        for (int s = 0; s < sites.Shards; s++)
        {
            _servers.UnionWith(sites.Backup.InRehearsal(s).Select(SupervisedRedis.Find).OfType<int>());
        }
    }

    private Task NothingIsLeftAsync(TwoSites sites) => NothingIsLeftAsync(sites.Backup);

    private Task NothingIsLeftAsync(Site backup) => Eventually.AsyncTrue(
        "nothing of the rehearsal is left", Generous, () =>
            Task.FromResult(Enumerable.Range(0, backup.Shards)
                .All(s => !Directory.Exists(backup.Rehearsal(s))) && !_servers.Any(SupervisedRedis.IsRedis)));
}
