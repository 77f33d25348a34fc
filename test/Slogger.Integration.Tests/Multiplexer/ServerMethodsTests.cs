// What applications of StackExchange.Redis ask of a server rather than of a database, and what they set beside addresses: on raw Redis too,
// which proves that the test is right.
using System.Collections.Concurrent;
using System.Net;
using Slogger.Integration.Tests.Functional;
using Slogger.Integration.Tests.Processes;
using StackExchange.Redis;
using StackExchange.Redis.Profiling;

namespace Slogger.Integration.Tests.Multiplexer;

public sealed class ServerMethodsTests(Servers servers) : IClassFixture<Servers>
{
    private static readonly TimeSpan s_generous = TimeSpan.FromSeconds(60);

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Methods_OfAServer_AnswerOfIt(Target target)
    {
        using ConnectionMultiplexer redis = await ConnectAsync(target, o => o.ClientName = "app");
        IServer server = redis.GetServers()[0];
        IDatabase database = redis.GetDatabase();
        for (int i = 0; i < 300; i++) { _ = database.StringSetAsync($"key:{i}", i, flags: CommandFlags.FireAndForget); }
        await database.HashSetAsync("hash", "field", "value");
        await database.PingAsync();
        Assert.Equal((ServerType.Standalone, false, true), (server.ServerType, server.IsReplica, server.IsConnected));
        Assert.Equal(301, await server.DatabaseSizeAsync());
        var keys = new HashSet<string>();
        await foreach (RedisKey key in server.KeysAsync(pattern: "key:*", pageSize: 20)) { keys.Add(key.ToString()); }
        Assert.Equal(300, keys.Count);
        Assert.Equal(300, server.Keys(pattern: "key:*", pageSize: 1000).Count());
        Assert.True((await server.TimeAsync() - DateTime.UtcNow).Duration() < TimeSpan.FromMinutes(1));
        Assert.Equal("7.0.15", server.Version.ToString());
        Assert.Equal("standalone", (await server.InfoAsync("server"))[0].Single(p => p.Key == "redis_mode").Value);
        Assert.Contains("# Keyspace", await server.InfoRawAsync(), StringComparison.Ordinal);
        Assert.Equal("noeviction", Assert.Single(await server.ConfigGetAsync("maxmemory-policy")).Value);
        await server.ConfigSetAsync("slowlog-max-len", "127");
        Assert.Equal("127", Assert.Single(await server.ConfigGetAsync("slowlog-max-len")).Value);
        ClientInfo me = (await server.ClientListAsync()).First(c => c.Name == "app");
        Assert.Equal(("app", 0), (me.Name, me.Database));
        Assert.Equal("SE.Redis", me.LibraryName ?? "SE.Redis");
        Assert.Equal("master", (await server.RoleAsync()).Value);
        Assert.Empty(((Role.Master)await server.RoleAsync()).Replicas);
        Assert.True(await server.CommandCountAsync() > 200);
        Assert.Equal(["key"], (await server.CommandGetKeysAsync(["SET", "key", "value"])).Select(k => k.ToString()));
        Assert.Contains("get", await server.CommandListAsync());
        byte[] script = await server.ScriptLoadAsync("return ARGV[1]");
        Assert.True(await server.ScriptExistsAsync("return ARGV[1]"));
        Assert.Equal("x", (string?)await database.ScriptEvaluateAsync(script, values: ["x"]));
        await server.ScriptFlushAsync();
        Assert.False(await server.ScriptExistsAsync("return ARGV[1]"));
        Assert.Equal("x", (string?)await database.ScriptEvaluateAsync("return ARGV[1]", values: ["x"]));
        Assert.Equal("hello", await server.EchoAsync("hello"));
        Assert.Empty(await server.LatencyLatestAsync());
        Assert.True(((RedisResult[])(await server.MemoryStatsAsync())!).Length > 10);
        await server.SlowlogResetAsync();
        Assert.Empty(await server.SlowlogGetAsync(0));
        await server.FlushDatabaseAsync();
        Assert.Equal(0, await server.DatabaseSizeAsync());
        await database.StringSetAsync("a", 1);
        await redis.GetDatabase(3).StringSetAsync("b", 2);
        await server.SwapDatabasesAsync(0, 3);
        Assert.Equal("2", await database.StringGetAsync("b"));
        await server.FlushAllDatabasesAsync();
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Client_IsKilledByItsId_ComesBackAndSoDoItsSubscriptions(Target target)
    {
        using ConnectionMultiplexer redis = await ConnectAsync(target, o => o.ClientName = "victim"), other =
            await ConnectAsync(target, _ => { });
        var seen = new ConcurrentQueue<string>();
        await redis.GetSubscriber().SubscribeAsync(RedisChannel.Literal("news"), (_, text) => seen.Enqueue(text!));
        IServer server = other.GetServers()[0];
        Assert.Equal(["news"], (await server.SubscriptionChannelsAsync(RedisChannel.Pattern("new*"))).Select(c => c.ToString()));
        Assert.Equal(1, await server.SubscriptionSubscriberCountAsync(RedisChannel.Literal("news")));
        ClientInfo[] victims = [.. (await server.ClientListAsync()).Where(c => c.Name == "victim")];
        Assert.Equal(2, victims.Length);
        foreach (ClientInfo victim in victims) { Assert.Equal(1, await server.ClientKillAsync(victim.Id)); }
        await Eventually.AsyncTrue("a message comes", s_generous, async () =>
        {
            await other.GetSubscriber().PublishAsync(RedisChannel.Literal("news"), "x");
            return !seen.IsEmpty;
        });
        await Eventually.AsyncTrue("a command is answered", s_generous, async () =>
        {
            try
            {
                return await redis.GetDatabase().PingAsync() >= TimeSpan.Zero;
            }
            catch (RedisConnectionException)
            {
                return false;
            }
        });
        Assert.DoesNotContain(victims[0].Id, (await server.ClientListAsync()).Select(c => c.Id));
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task KeyspaceNotifications_OfKeysAndEvents_Come(Target target)
    {
        using ConnectionMultiplexer redis = await ConnectAsync(target, _ => { });
        await redis.GetServers()[0].ConfigSetAsync("notify-keyspace-events", "KEA");
        var seen = new ConcurrentQueue<string>();
        await redis.GetSubscriber()
            .SubscribeAsync(RedisChannel.Pattern("__key*@0__:*"), (channel, text) => seen.Enqueue($"{channel} {text}"));
        await redis.GetDatabase().StringSetAsync("watched", 1);
        await redis.GetDatabase().KeyExpireAsync("watched", TimeSpan.FromMilliseconds(20));
        string[] expected =
        [
            "__keyspace@0__:watched set", "__keyevent@0__:set watched", "__keyspace@0__:watched expire", "__keyevent@0__:expire watched",
            "__keyspace@0__:watched expired", "__keyevent@0__:expired watched",
        ];
        await Eventually.AsyncTrue("all events have come", s_generous, () => Task.FromResult(expected.All(seen.Contains)));
        Assert.Equal(expected.Length, seen.Count);
        await redis.GetServers()[0].ConfigSetAsync("notify-keyspace-events", "");
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task TwoEndpoints_TheTieBreakKeyDecides_AndTheOtherServesWhenItDies(Target target)
    {
        using var workspace = new Workspace();
        using RedisProcess second = await RedisProcess.StartAsync(workspace.Folder("second"));
        EndPoint first = await servers.EmptyAsync(target);
        string chosen = second.Endpoint.ToString()!;
        foreach (EndPoint endpoint in (EndPoint[])[first, second.Endpoint])
        {
            using ConnectionMultiplexer one = await ConnectionMultiplexer.ConnectAsync(
                new ConfigurationOptions { EndPoints = { endpoint } });
            await one.GetDatabase().StringSetAsync("__Booksleeve_TieBreak", chosen);
        }

        using ConnectionMultiplexer both = await ConnectionMultiplexer.ConnectAsync(
            new ConfigurationOptions { EndPoints = { first, second.Endpoint }, AbortOnConnectFail = false });
        Assert.Equal(chosen, (await both.GetDatabase().IdentifyEndpointAsync())!.ToString());
        second.KillHard();
        await Eventually.AsyncTrue("the other serves", s_generous, async () =>
        {
            try
            {
                return await both.GetDatabase().StringSetAsync("k", 1)
                    && (await both.GetDatabase().IdentifyEndpointAsync())!.ToString() == first.ToString();
            }
            catch (Exception e) when (e is RedisConnectionException or RedisTimeoutException)
            {
                return false;
            }
        });
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Options_AllThatSpeakToTheServer_Work(Target target)
    {
        foreach (Action<ConfigurationOptions> with in (Action<ConfigurationOptions>[])
        [
            o => o.Proxy = StackExchange.Redis.Proxy.Twemproxy, o => o.Proxy = StackExchange.Redis.Proxy.Envoyproxy,
                o => o.CommandMap = CommandMap.Create(["INFO", "CONFIG", "CLUSTER", "ECHO", "CLIENT"], available: false),
            o => { o.HighIntegrity = true; o.HeartbeatConsistencyChecks = true; o.HeartbeatInterval =
                TimeSpan.FromMilliseconds(100); o.KeepAlive = 1; },
            o => { o.DefaultDatabase = 5; o.ChannelPrefix = RedisChannel.Literal("app:"); }, o => o.BacklogPolicy = BacklogPolicy.FailFast,
                o => o.SharedSubscriptionConnection = true,
        ])
        {
            foreach (RedisProtocol protocol in (RedisProtocol[])[RedisProtocol.Resp2, RedisProtocol.Resp3])
            {
                using ConnectionMultiplexer redis = await ConnectAsync(target, o =>
                {
                    o.Protocol = protocol;
                    with(o);
                });
                var failures = new ConcurrentQueue<string>();
                redis.ConnectionFailed += (_, e) => failures.Enqueue($"{e.FailureType} {e.Exception?.Message}");
                var session = new ProfilingSession();
                redis.RegisterProfiler(() => session);
                IDatabase database = redis.GetDatabase();
                for (int i = 0; i < 200; i++)
                {
                    Task<bool> set = database.StringSetAsync($"k{i}", i);
                    Assert.Equal(i, (int)await database.StringGetAsync($"k{i}"));
                    Assert.True(await set);
                }

                Assert.Equal(400, session.FinishProfiling().Count(c => c.Command is "SET" or "GET"));
                // Some heartbeats.
                await Task.Delay(500);
                Assert.Equal(199, (int)await database.StringGetAsync("k199"));
                Assert.Empty(failures);
            }
        }
    }

    private async Task<ConnectionMultiplexer> ConnectAsync(Target target, Action<ConfigurationOptions> with)
    {
        var options = new ConfigurationOptions { EndPoints = { await servers.EmptyAsync(target) }, AllowAdmin = true,
            AsyncTimeout = 30_000, SyncTimeout = 30_000 };
        with(options);
        return await ConnectionMultiplexer.ConnectAsync(options);
    }
}
