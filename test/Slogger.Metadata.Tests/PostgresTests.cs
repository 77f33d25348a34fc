// PostgreSQL: the conformance tests, and a real server that is killed, hangs, refuses or is not there.
using System.Globalization;
using Npgsql;
using Slogger.Metadata.Sql;
using Slogger.Metadata.Tests.Fixtures;
using static Slogger.Metadata.Tests.Fixtures.Common;

namespace Slogger.Metadata.Tests;

/// <summary>One server for all tests that do not harm it.</summary>
[CollectionDefinition(nameof(SharedPostgres))]
public sealed class SharedPostgres : ICollectionFixture<PostgresServer>;

[Collection(nameof(SharedPostgres))]
public sealed class PostgresConformanceTests(PostgresServer server) : ConformanceTests
{
    protected override Task<string> FreshSpecAsync() => server.FreshSpecAsync();
}

[Collection(nameof(SharedPostgres))]
public sealed class PostgresTests(PostgresServer server)
{
    [Fact]
    public async Task AnyCall_WrongPassword_TellsWithoutShowingIt()
    {
        await server.FreshSpecAsync();
        const string Wrong = "wr0ng-and-s3cret";
        await using IMetadataStore store = MetadataStoreFactory.Create("postgres:" + server.Connect("slogger_admin", Wrong));
        MetadataException refused = await Assert.ThrowsAsync<MetadataException>(() => store.InitializeAsync());
        AssertHides(refused, Wrong);
        Assert.Contains("password", refused.Message, StringComparison.Ordinal);
        Assert.DoesNotContain(Wrong, store.Description, StringComparison.Ordinal);
    }

    [Fact]
    public async Task AnyCall_NoSuchDatabase_SaysToCreateIt()
    {
        await server.FreshSpecAsync();
        await using IMetadataStore store = MetadataStoreFactory.Create(
            "postgres:" + server.Connect("slogger_admin", PostgresServer.Password, "absent"));
        MetadataException refused = await Assert.ThrowsAsync<MetadataException>(() => store.InitializeAsync());
        Assert.Contains("Create the database", refused.Message, StringComparison.Ordinal);
        AssertHides(refused, PostgresServer.Password);
    }

    [Fact]
    public async Task Initialize_UserMayNotCreateTables_SaysSo()
    {
        await server.FreshSpecAsync();
        await server.ExecuteAsync("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN PASSWORD 'guest-Pass'");
        await using IMetadataStore store = MetadataStoreFactory.Create("postgres:" + server.Connect("guest", "guest-Pass"));
        MetadataException refused = await Assert.ThrowsAsync<MetadataException>(() => store.InitializeAsync());
        Assert.Contains("right to create", refused.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Connection_DatabaseCommitsAsynchronously_IsSynchronousHere()
    {
        await server.FreshSpecAsync();
        await server.ExecuteAsync("CREATE DATABASE lazy");
        await server.ExecuteAsync("ALTER DATABASE lazy SET synchronous_commit = off");
        PostgresDialect dialect = new(server.Connect("slogger_admin", PostgresServer.Password, "lazy"), new());
        await using SqlSession session = await SqlSession.OpenAsync(dialect, default);
        Assert.Equal("on", Assert.Single(await session.QueryAsync("SHOW synchronous_commit", r => r.GetString(0), default)));
    }

    [Fact]
    public async Task RecordCut_RowLockedByAnother_IsUnavailableThenWorks()
    {
        string spec = await server.FreshSpecAsync();
        await using IMetadataStore store = MetadataStoreFactory.Create(
            spec, new() { CommandTimeout = TimeSpan.FromMilliseconds(300) });
        await store.InitializeAsync();
        await store.GetOrCreateClusterAsync("c", Settings());
        long epoch = await store.TakeShardEpochAsync("c", Shard0, "me");
        await using (NpgsqlConnection other = new(spec["postgres:".Length..]))
        {
            await other.OpenAsync();
            await using NpgsqlTransaction holding = await other.BeginTransactionAsync();
            await using NpgsqlCommand command = new("UPDATE slogger_shards SET owner = 'x'", other, holding);
            await command.ExecuteNonQueryAsync();
            MetadataUnavailableException refused = await Assert.ThrowsAsync<MetadataUnavailableException>(
                () => store.RecordAsync("c", Shard0, Point("1:1"), epoch));
            Assert.Contains("lock", refused.Message, StringComparison.Ordinal);

            using CancellationTokenSource soon = new(TimeSpan.FromMilliseconds(50));
            await Assert.ThrowsAnyAsync<OperationCanceledException>(() => store.TakeShardEpochAsync("c", Shard0, "you", soon.Token));
        }

        Assert.Equal(DurableOutcome.Recorded, await EventuallyAsync(() => store.RecordAsync("c", Shard0, Point("1:1"), epoch)));
    }

    /// <summary>The order that loses a committed version if rows are read before they are locked: a cut is being recorded,
    /// not yet committed, while a world-line begins below it (I3).</summary>
    [Fact]
    public async Task BeginWorldLine_CutIsBeingRecorded_WaitsAndSeesIt()
    {
        WorldLineResult result = await WhileUncommittedAsync(
            "UPDATE slogger_shards SET cut_version = 9", (store, epoch) => store.BeginAsync("c", new(2), new(5), epoch));
        Assert.Equal(WorldLineOutcome.BelowRecorded, result.Outcome);
    }

    /// <summary>The other order: a world-line is about to begin while a cut of the old one is recorded (I5).</summary>
    [Fact]
    public async Task RecordCut_WorldLineIsBeingBegun_WaitsAndIsStale()
    {
        DurableOutcome result = await WhileUncommittedAsync(
            "UPDATE slogger_shards SET world_line = 2, cut_version = 5; UPDATE slogger_clusters SET world_line = 2, cut_version = 5",
            (store, epoch) => store.RecordAsync("c", Shard0, Point("1:9"), epoch));
        Assert.Equal(DurableOutcome.StaleWorldLine, result);
    }

    /// <summary>And a take-over that is about to be committed deposes who records meanwhile (I6).</summary>
    [Fact]
    public async Task RecordCut_ShardIsBeingTaken_WaitsAndIsDeposed()
    {
        DurableOutcome result = await WhileUncommittedAsync(
            "UPDATE slogger_shards SET epoch = epoch + 1", (store, epoch) => store.RecordAsync("c", Shard0, Point("1:9"), epoch));
        Assert.Equal(DurableOutcome.Deposed, result);
    }

    // Runs a statement on another connection, makes a call that has to wait for its row, and only then commits it.
    private async Task<T> WhileUncommittedAsync<T>(string sql, Func<IMetadataStore, long, Task<T>> call)
    {
        string spec = await server.FreshSpecAsync();
        string name = "waiter" + Guid.NewGuid().ToString("N");
        await using IMetadataStore store = MetadataStoreFactory.Create(
            $"{spec};Application Name={name}", new() { CommandTimeout = TimeSpan.FromSeconds(60) });
        await store.InitializeAsync();
        await store.GetOrCreateClusterAsync("c", Settings());
        long epoch = await store.TakeShardEpochAsync("c", Shard0, "me");
        await using NpgsqlConnection other = new(spec["postgres:".Length..]);
        await other.OpenAsync();
        await using NpgsqlTransaction holding = await other.BeginTransactionAsync();
        await using NpgsqlCommand update = new(sql, other, holding);
        await update.ExecuteNonQueryAsync();
        Task<T> waiting = call(store, epoch);
        await using NpgsqlCommand query = new(
            $"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}' AND wait_event_type = 'Lock'", other, holding);
        await using NpgsqlCommand refresh = new("SELECT pg_stat_clear_snapshot()", other, holding);
        while ((long)(await query.ExecuteScalarAsync())! == 0)
        {
            Assert.False(waiting.IsCompleted, "It did not wait for the row.");
            await Task.Delay(10);
            await refresh.ExecuteNonQueryAsync();
        }

        await holding.CommitAsync();
        return await waiting;
    }

    [Fact]
    public async Task AnyCall_ConnectionEndedByTheAdministrator_IsReplaced()
    {
        await using IMetadataStore store = MetadataStoreFactory.Create(
            await server.FreshSpecAsync() + ";Application Name=victim");
        await store.InitializeAsync();
        await store.GetOrCreateClusterAsync("c", Settings());
        await server.ExecuteAsync("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'victim'");
        await Assert.ThrowsAsync<MetadataUnavailableException>(() => store.ShardsAsync("c"));
        Assert.Single(await EventuallyAsync(() => store.ShardsAsync("c")));
    }

    [Fact]
    public async Task AnyCall_NobodyListens_IsUnavailable()
    {
        await using IMetadataStore store = MetadataStoreFactory.Create(
            "postgres:Host=127.0.0.1;Port=9;Database=d;Username=u;Password=s3cret-Pass");
        MetadataUnavailableException refused = await Assert.ThrowsAsync<MetadataUnavailableException>(() => store.InitializeAsync());
        AssertHides(refused, "s3cret-Pass");
        Assert.Contains("postgres:127.0.0.1:9/d", refused.Message, StringComparison.Ordinal);
        await Assert.ThrowsAsync<MetadataUnavailableException>(() => store.InitializeAsync());
    }
}

/// <summary>Each test has a server of its own, to be killed.</summary>
public sealed class PostgresCrashTests(PostgresServer server) : IClassFixture<PostgresServer>
{
    [Fact]
    public async Task AnyCall_ServerKilled_FailsAtOnceAndWorksAfterItsReturn()
    {
        await using IMetadataStore store = MetadataStoreFactory.Create(await server.FreshSpecAsync());
        await store.InitializeAsync();
        await store.GetOrCreateClusterAsync("c", Settings());
        long epoch = await store.TakeShardEpochAsync("c", Shard0, "me");
        await store.RecordAsync("c", Shard0, Point("1:1"), epoch);

        await server.KillAsync();
        for (int i = 0; i < 50; i++)
        {
            MetadataUnavailableException down = await Assert.ThrowsAsync<MetadataUnavailableException>(
                () => store.RecordAsync("c", Shard0, Point("1:2"), epoch));
            AssertHides(down, PostgresServer.Password);
            await Task.Delay(10);
        }

        await server.StartAsync();
        Assert.Equal(DurableOutcome.Recorded, await EventuallyAsync(() => store.RecordAsync("c", Shard0, Point("1:2"), epoch)));
        Assert.Equal(Point("1:2"), (await store.ShardsAsync("c"))[0].Durable);
    }

    /// <summary>I2 and I3 at the metadata: what was acknowledged is there after any kill -9, under load, again and again.</summary>
    [Fact]
    public async Task RecordCut_ServerKilledAgainAndAgain_NothingAcknowledgedIsLost()
    {
        int seed = Environment.TickCount;
        TestContext.Current.TestOutputHelper?.WriteLine(string.Create(CultureInfo.InvariantCulture, $"seed {seed}"));
        Random random = new(seed);
        await using IMetadataStore store = MetadataStoreFactory.Create(await server.FreshSpecAsync());
        await store.InitializeAsync();
        await store.GetOrCreateClusterAsync("c", Settings());
        long epoch = await store.TakeShardEpochAsync("c", Shard0, "me");
        long version = 0;
        for (int round = 0; round < 4; round++)
        {
            long acknowledged = version;
            Task kill = Task.Delay(random.Next(50, 400)).ContinueWith(_ => server.KillAsync(), TaskScheduler.Default).Unwrap();
            try
            {
                while (true)
                {
                    Assert.Equal(
                        DurableOutcome.Recorded, await store.RecordAsync("c", Shard0, new(new(1), new(++version)), epoch));
                    acknowledged = version;
                }
            }
            catch (MetadataUnavailableException)
            {
                // Dead, while this one was under way: it may or may not be there.
            }

            await kill;
            Assert.True(acknowledged > 0, $"seed {seed}");
            await server.StartAsync();
            long recorded = (await EventuallyAsync(() => store.ShardsAsync("c")))[0].Durable.Version.Number;
            Assert.InRange(recorded, acknowledged, version);
        }
    }

    [Fact]
    public async Task AnyCall_ServerHangs_IsUnavailableUntilItGoesOn()
    {
        await using IMetadataStore store = MetadataStoreFactory.Create(
            await server.FreshSpecAsync() + ";Command Timeout=1;Timeout=1;Cancellation Timeout=500");
        await store.InitializeAsync();
        await store.GetOrCreateClusterAsync("c", Settings());
        long epoch = await store.TakeShardEpochAsync("c", Shard0, "me");
        await server.SignalAllAsync("-STOP");
        try
        {
            await Assert.ThrowsAsync<MetadataUnavailableException>(() => store.RecordAsync("c", Shard0, Point("1:1"), epoch));
        }
        finally
        {
            await server.SignalAllAsync("-CONT");
        }

        Assert.Equal(DurableOutcome.Recorded, await EventuallyAsync(() => store.RecordAsync("c", Shard0, Point("1:1"), epoch)));
    }
}
