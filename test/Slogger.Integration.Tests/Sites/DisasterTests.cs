// Disasters of a whole site, with real processes. SLOGGER_CHAOS_SEED chooses the course; a failure prints it. Long runs: --sites-chaos.
using System.Globalization;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Sites;

public sealed class DisasterTests(ITestOutputHelper output)
{
    private static int Seed =>
        int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_CHAOS_SEED"), NumberStyles.None, CultureInfo.InvariantCulture,
            out int seed) ? seed : Environment.TickCount & 0xFFFFFF;

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
    public Task Sqlite_TwoShards_TheBackupsRedisIsKilled_TakesOverAllTheSame() =>
        RunAsync(shards: 2, usesPostgres: false, rounds: 2, "backup-redis");

    // What comes of two shards is put together in each of three, and the other way in the next round.
    [Fact]
    public Task Sqlite_TwoShardsAndABackupOfThree_EveryDisasterLeavesAPrefix() =>
        RunAsync(shards: 2, usesPostgres: false, rounds: 2, backupShards: 3);

    // Each round has sites of its own, since an embedded store that has taken over has no backup.
    [Fact]
    public Task Sqlite_TwoShards_BackupWithEmbeddedStores_EveryDisasterLeavesAPrefix() =>
        RunAsync(shards: 2, usesPostgres: false, rounds: 3, embedded: true);

    private async Task RunAsync(int shards, bool usesPostgres, int rounds, string? fault = null, bool embedded = false,
        int? backupShards = null)
    {
        int seed = Seed;
        output.WriteLine($"seed {seed}");
        using var workspace = new Workspace();
        async Task<TwoSites> StartAsync()
        {
            var made = new TwoSites(workspace, shards, backupShards ?? shards, usesPostgres, embedded);
            await made.StartAsync();
            return made;
        }
        var run = new SitesRun(await StartAsync(), rounds, seed, output.WriteLine) { Only = fault, Anew = embedded ? StartAsync : null };
        try
        {
            await run.RunAsync();
        }
        finally
        {
            await run.Sites.DisposeAsync();
        }
        Assert.True(run.Pushes > 0, "nothing was written");
    }
}
