// What StackExchange.Redis is answered through the proxy is what it is answered by Redis itself: every method that can be compared, alone,
// in pipelines, in batches, and in transactions with conditions. SLOGGER_TEST_CALLS for a longer run, SLOGGER_TEST_SEED to repeat one.
using System.Globalization;
using System.Net;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Embedded;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using StackExchange.Redis;

namespace Slogger.Integration.Tests.Multiplexer;

public sealed class ApiDifferenceTests(ITestOutputHelper output)
{
    private static int Seed => Number("SLOGGER_TEST_SEED") ?? Environment.TickCount & 0xFFFFFF;

    private static int Calls => Number("SLOGGER_TEST_CALLS") ?? 3000;

    [Theory]
    [InlineData("none", RedisProtocol.Resp2)]
    [InlineData("log", RedisProtocol.Resp2)]
    [InlineData("log", RedisProtocol.Resp3)]
    [InlineData("bgsave", RedisProtocol.Resp3)]
    public async Task EveryMethod_ThroughTheProxy_AnswersAsRedis(string commit, RedisProtocol protocol)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup { Commit = commit });
        await deployment.StartAsync();
        await CompareAsync(workspace, deployment.Endpoint, protocol, _ => true);
    }

    [Theory]
    [InlineData(RedisProtocol.Resp2)]
    [InlineData(RedisProtocol.Resp3)]
    public async Task EveryMethod_AmongThreeProxies_AnswersAsRedis(RedisProtocol protocol)
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 3, usesPostgres: false);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        // Another database is refused at once, in a transaction too: docs/operate/cluster.md.
        await CompareAsync(workspace, cluster.Endpoint(0), protocol, name => name is not ("KeyMoveAsync" or "KeyCopyAsync"),
            "--cluster-enabled", "yes");
    }

    [Theory]
    [InlineData(RedisProtocol.Resp2)]
    [InlineData(RedisProtocol.Resp3)]
    public async Task MethodsOfStrings_AtTheEmbeddedStore_AnswerAsRedis(RedisProtocol protocol)
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        await shard.StartAsync();
        await CompareAsync(workspace, shard.Endpoint, protocol, name =>
            (name.StartsWith("String", StringComparison.Ordinal) && !name.Contains("LongestCommon", StringComparison.Ordinal)
                && !name.Contains("BitPos", StringComparison.Ordinal)
                && !name.Contains("BitOp", StringComparison.Ordinal) && !name.Contains("BitField", StringComparison.Ordinal))
            || name is "KeyDeleteAsync" or "KeyExistsAsync" or "KeyExpireAsync" or "KeyPersistAsync" or "KeyTouchAsync" or "KeyTypeAsync"
            or "KeyRenameAsync" or "PublishAsync");
    }

    private async Task CompareAsync(Workspace workspace, EndPoint target, RedisProtocol protocol, Func<string, bool> isAsked,
        params string[] redisOptions)
    {
        int seed = Seed;
        output.WriteLine($"seed {seed}");
        using RedisProcess redis = await RedisProcess.StartAsync(workspace.Folder("raw"), redisOptions);
        if (redisOptions.Length > 0)
        {
            using RespClient node = await redis.ConnectAsync();
            await node.DoAsync("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
            await Eventually.AsyncTrue("the node serves all slots", TimeSpan.FromSeconds(30),
                async () => (await node.CallAsync("GET", "k")).Compact == "_");
        }

        using ConnectionMultiplexer raw = await ConnectAsync(redis.Endpoint, protocol), proxy = await ConnectAsync(target, protocol);
        var calls = new ApiCalls(seed, "{" + (seed % 1000).ToString(CultureInfo.InvariantCulture) + "}", isAsked);
        var random = new Random(seed);
        int done = 0, answered = 0;
        while (done < Calls)
        {
            int count = random.Next(1, 12), kind = random.Next(4);
            ApiCall[] some = [.. Enumerable.Range(0, count).Select(_ => calls.Next())];
            Condition[] conditions = kind == 3 && random.Next(2) == 0 ? [calls.NextCondition()] : [];
            string[] expected = await AnswersAsync(raw.GetDatabase(), kind, some, conditions), found =
                await AnswersAsync(proxy.GetDatabase(), kind, some, conditions);
            string[] differences = [.. Enumerable.Range(0, expected.Length).Where(i => expected[i] != found[i])
                .Select(i => $"{(i < count ? some[i] : "EXEC")}\nRedis: {expected[i]}\nproxy: {found[i]}")];
            Assert.True(differences.Length == 0, $"seed {seed}, after {done} calls, kind {kind}:\n{string.Join('\n', differences)}");
            done += count;
            answered += expected.Count(e => !e.Contains("Exception: ", StringComparison.Ordinal));
        }

        output.WriteLine($"{calls.Methods} methods, {done} calls, {answered} answered without an error");
        Assert.True(answered > done / 4);
    }

    // One by one, all at once, a batch, a transaction.
    private static async Task<string[]> AnswersAsync(IDatabase database, int kind, ApiCall[] calls, Condition[] conditions)
    {
        var outcomes = new List<string>();
        if (kind == 0)
        {
            foreach (ApiCall call in calls) { outcomes.Add(await ApiCalls.OutcomeAsync(call, call.Begin(database))); }
            return [.. outcomes];
        }

        IBatch? batch = kind switch { 1 => null, 2 => database.CreateBatch(), _ => database.CreateTransaction() };
        foreach (Condition condition in conditions) { (batch as ITransaction)?.AddCondition(condition); }
        Task[] tasks = [.. calls.Select(c => c.Begin(batch ?? (IDatabaseAsync)database))];
        if (batch is ITransaction transaction)
        {
            string executed;
            try
            {
                executed = await transaction.ExecuteAsync() ? "executed" : "not executed";
            }
            catch (RedisServerException e)
            {
                executed = e.Message;
            }

            for (int i = 0; i < calls.Length; i++) { outcomes.Add(await ApiCalls.OutcomeAsync(calls[i], tasks[i])); }
            return [.. outcomes, executed];
        }

        batch?.Execute();
        for (int i = 0; i < calls.Length; i++) { outcomes.Add(await ApiCalls.OutcomeAsync(calls[i], tasks[i])); }
        return [.. outcomes];
    }

    private static Task<ConnectionMultiplexer> ConnectAsync(EndPoint endpoint, RedisProtocol protocol) =>
        ConnectionMultiplexer.ConnectAsync(
            new ConfigurationOptions { EndPoints = { endpoint }, Protocol = protocol, AsyncTimeout = 30_000, SyncTimeout = 30_000 });

    private static int? Number(string variable) =>
        int.TryParse(Environment.GetEnvironmentVariable(variable), NumberStyles.None, CultureInfo.InvariantCulture, out int number)
            ? number : null;
}
