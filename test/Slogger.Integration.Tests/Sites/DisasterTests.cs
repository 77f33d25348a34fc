// Disasters of a whole site, with real processes. SLOGGER_CHAOS_SEED chooses the course; a failure prints it. Long runs: --sites-chaos.
using System.Globalization;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Sites;

public sealed class DisasterTests(ITestOutputHelper output)
{
    private static int Seed => int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_CHAOS_SEED"), NumberStyles.None, CultureInfo.InvariantCulture, out int seed) ? seed : Environment.TickCount & 0xFFFFFF;

    [Fact]
    public async Task Postgres_FourShards_EveryDisasterLeavesAPrefix()
    {
        Assert.SkipWhen(PostgresProcess.Programs is null, "PostgreSQL is not installed");
        await RunAsync(shards: 4, usesPostgres: true, rounds: 4);
    }

    [Fact]
    public Task Sqlite_TwoShards_EveryDisasterLeavesAPrefix() => RunAsync(shards: 2, usesPostgres: false, rounds: 4);

    // Whoever brings it to a version does not wait for one that is gone.
    [Fact]
    public Task Sqlite_TwoShards_TheBackupsRedisIsKilled_TakesOverAllTheSame() => RunAsync(shards: 2, usesPostgres: false, rounds: 2, "backup-redis");

    private async Task RunAsync(int shards, bool usesPostgres, int rounds, string? fault = null)
    {
        int seed = Seed;
        output.WriteLine($"seed {seed}");
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards, usesPostgres);
        await sites.StartAsync();
        var run = new SitesRun(sites, rounds, seed, output.WriteLine) { Only = fault };
        await run.RunAsync();
        Assert.True(run.Pushes > 0, "nothing was written");
    }
}
