// Settings of PostgreSQL by which what it has confirmed may be lost are seen, on a real server with a real replication client.
using System.Diagnostics;
using Slogger.Metadata.Sql;
using Slogger.Metadata.Tests.Fixtures;

namespace Slogger.Metadata.Tests;

public sealed class PostgresDoubtTests(PostgresServer server) : IClassFixture<PostgresServer>
{
    [Fact]
    public async Task Doubts_SettingsThatMayLoseWhatWasConfirmed_AreTold()
    {
        string spec = await server.FreshSpecAsync();
        await using IMetadataStore store = MetadataStoreFactory.Create(spec);
        await store.InitializeAsync();
        Assert.Empty(await store.DoubtsAsync());

        // What copies the log, to keep it, is no standby.
        using Process archive = server.StartStandby("pg_receivewal");
        // Somebody who is no administrator sees as much.
        await server.ExecuteAsync("CREATE ROLE plain LOGIN PASSWORD 'plain-Pass'");
        await using IMetadataStore plain = MetadataStoreFactory.Create("postgres:" + server.Connect("plain", "plain-Pass"));
        using Process standby = server.StartStandby("standby1");
        try
        {
            while (await server.CountAsync("SELECT COUNT(*) FROM pg_stat_replication") < 2) { await Task.Delay(50); }
            foreach (IMetadataStore each in (IMetadataStore[])[store, plain])
            {
                Assert.Contains("1 standby(s) follow this server and none is synchronous", Assert.Single(await UntilAsync(each, 1)),
                    StringComparison.Ordinal);
            }

            await server.ExecuteAsync("ALTER SYSTEM SET synchronous_standby_names = 'standby1'");
            await server.ExecuteAsync("SELECT pg_reload_conf()");
            Assert.Empty(await UntilAsync(store, 0));
            await using IMetadataStore local = MetadataStoreFactory.Create(spec + ";Options=-c synchronous_commit=local");
            Assert.Contains("synchronous_commit is local", Assert.Single(await local.DoubtsAsync()), StringComparison.Ordinal);

            await server.ExecuteAsync("ALTER SYSTEM SET fsync = off");
            await server.ExecuteAsync("ALTER SYSTEM SET full_page_writes = off");
            await server.ExecuteAsync("SELECT pg_reload_conf()");
            IReadOnlyList<string> doubts = await UntilAsync(store, 2);
            Assert.Contains(doubts, d => d.StartsWith("fsync is off", StringComparison.Ordinal));
            Assert.Contains(doubts, d => d.StartsWith("full_page_writes is off", StringComparison.Ordinal));
        }
        finally
        {
            foreach (Process each in (Process[])[standby, archive])
            {
                each.Kill();
                await each.WaitForExitAsync();
            }
        }
    }

    // The server reads its settings, and the standby connects, a moment later.
    private static async Task<IReadOnlyList<string>> UntilAsync(IMetadataStore store, int count)
    {
        Stopwatch waited = Stopwatch.StartNew();
        while (true)
        {
            IReadOnlyList<string> doubts = await store.DoubtsAsync();
            if (doubts.Count == count || waited.Elapsed > TimeSpan.FromSeconds(30)) { return doubts; }
            await Task.Delay(50);
        }
    }
}
