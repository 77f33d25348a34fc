// Who takes a shard shuts out the process that had it before (invariant I6), while both live and Redis does, too.
using System.Globalization;
using System.Net;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Fencing;

public sealed class TakeOverTests
{
    private static readonly TimeSpan Patience = TimeSpan.FromSeconds(60);

    [Theory]
    [InlineData("log", 3)]
    [InlineData("bgsave", 1)]
    public async Task TakeOver_OldProcessSleeps_NothingOfItIsDoneLate(string commit, int rounds)
    {
        int seed = Environment.TickCount & 0xFFFF;
        TestContext.Current.TestOutputHelper?.WriteLine($"seed {seed}");
        using var workspace = new Workspace();
        await using var run = new TakeOverRun(workspace, seed, text => TestContext.Current.TestOutputHelper?.WriteLine(text), "--commit",
            commit);
        await run.StartAsync();
        for (int round = 1; round <= rounds; round++) { await run.RoundAsync(round); }
        Assert.Contains("has been taken by another proxy", run.LastWords, StringComparison.Ordinal);
    }

    [Fact]
    public async Task TakeOver_OldProcessCutOffFromSql_CanNotWriteUntilItKnows()
    {
        using var workspace = new Workspace();
        using PostgresProcess postgres = await PostgresProcess.StartAsync(workspace);
        using RedisProcess redis = await RedisProcess.StartAsync(workspace.Folder("redis"));
        using var relay = new TcpRelay(new IPEndPoint(IPAddress.Loopback, postgres.Port));
        using ProxyProcess old = await StartAsync(workspace, redis, "old",
            "postgres:" + postgres.ConnectionString.Replace($"Port={postgres.Port}", $"Port={relay.Port}", StringComparison.Ordinal));
        using RespClient before = await old.ConnectAsync();
        await before.DoAsync("SET", "k", "old");
        relay.Cut();
        using ProxyProcess next = await StartAsync(workspace, redis, "next", "postgres:" + postgres.ConnectionString);
        using RespClient client = await next.ConnectAsync();
        await client.DoAsync("SET", "k", "next");

        // It is awake, and its clients go on: by their connections, by new ones, in transactions.
        var clients = new List<RespClient>();
        for (int i = 0; i < 20; i++)
        {
            RespClient late = await old.ConnectAsync();
            clients.Add(late);
            if (i % 2 == 1) { await late.SendAsync("MULTI"); }
            await late.SendAsync("SET", "k", "late");
            if (i % 2 == 1) { await late.SendAsync("EXEC"); }
        }
        await Eventually.AsyncTrue("the old process knows that its connections broke", Patience,
            () => Task.FromResult(old.Tail().Contains("waits for the metadata", StringComparison.Ordinal)));
        Assert.False(old.HasExited, old.Tail());
        for (int i = 0; i < 50; i++)
        {
            Assert.Equal("$next", (await client.DoAsync("GET", "k")).Compact);
            await Task.Delay(10);
        }

        relay.Open();
        Assert.NotNull(await old.ExitAsync(Patience));
        Assert.Contains("has been taken by another proxy", old.Tail(), StringComparison.Ordinal);
        Assert.Equal("$next", (await client.DoAsync("GET", "k")).Compact);
        foreach (RespClient late in clients) { late.Dispose(); }
    }

    [Fact]
    public async Task Ownership_DatabaseAway_NewConnectionsAreProvedByTheGuard()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup { Attached = true, Postgres = true });
        await deployment.StartAsync();
        deployment.Postgres.KillHard();
        var clients = new List<RespClient>();
        for (int i = 0; i < 30; i++)
        {
            // More than there are connections ahead of need; each has one of its own until its EXEC.
            RespClient client = await deployment.ConnectAsync();
            clients.Add(client);
            await client.DoAsync("MULTI");
            await client.DoAsync("INCR", "n");
        }
        foreach (RespClient client in clients) { await client.DoAsync("EXEC"); }
        Assert.Equal("$30", (await clients[0].DoAsync("GET", "n")).Compact);

        // The guard goes too, as it would if another had taken the shard: then only SQL can tell.
        using RespClient direct = await deployment.Redis.ConnectAsync();
        await direct.DoAsync("CLIENT", "KILL", "SKIPME", "yes");
        await Eventually.AsyncTrue("the proxy asks SQL", Patience,
            () => Task.FromResult(deployment.Proxy.Tail().Contains("waits for the metadata", StringComparison.Ordinal)));
        using RespClient waiting = await deployment.ConnectAsync();
        await waiting.SendAsync("INCR", "n");
        await Assert.ThrowsAsync<TimeoutException>(() => waiting.ReadAsync(TimeSpan.FromSeconds(1)));
        Assert.Equal("$30", (await direct.DoAsync("GET", "n")).Compact);
        await deployment.Postgres.RestartAsync();
        Assert.Equal(":31", (await waiting.ReadAsync()).Compact);
        foreach (RespClient client in clients) { client.Dispose(); }
    }

    [Fact]
    public async Task TakeOver_WithoutTheRightToKill_SaysWhatIsMissingAndServes()
    {
        using var workspace = new Workspace();
        using RedisProcess redis = await RedisProcess.StartAsync(workspace.Folder("redis"));
        using RespClient direct = await redis.ConnectAsync();
        await direct.DoAsync("ACL", "SETUSER", "slogger", "on", ">secret", "~*", "&*", "+@all", "-client|kill");
        await File.WriteAllTextAsync(workspace.File("password"), "secret\n");
        string[] options = ["--redis-user", "slogger", "--redis-password-file", workspace.File("password")];
        string metadata = "sqlite:" + workspace.File("metadata.db");
        using (ProxyProcess first = await StartAsync(workspace, redis, "data", metadata, options))
        {
            Assert.DoesNotContain("+client|kill", first.Tail(), StringComparison.Ordinal);
        }
        using ProxyProcess second = await StartAsync(workspace, redis, "data", metadata, options);
        Assert.Contains("Allow the proxy's user +client|kill", second.Tail(), StringComparison.Ordinal);
        using RespClient client = await second.ConnectAsync();
        await client.DoAsync("SET", "k", "1");
        // Who was connected to Redis directly still is.
        Assert.Equal("$1", (await direct.DoAsync("GET", "k")).Compact);
    }

    private static Task<ProxyProcess> StartAsync(Workspace workspace, RedisProcess redis, string data, string metadata,
        params string[] options) =>
        ProxyProcess.StartAsync(Workspace.FreePort(),
        [
            "--redis", string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{redis.Port}"), "--data", workspace.Folder(data),
                "--metadata", metadata,
            "--seed", "from-redis", .. options,
        ]);
}
