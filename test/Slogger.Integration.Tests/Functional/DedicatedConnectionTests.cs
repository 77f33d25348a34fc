// Commands that need a connection of their own: transactions, blocking, subscriptions, tracking, monitoring. They work
// between clients as on Redis, and a client that mixes them with ordinary commands keeps its order.
using System.Net;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Functional;

public sealed class DedicatedConnectionTests(Servers servers) : IClassFixture<Servers>
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(20);

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Watch_KeyChangedByAnother_TransactionFails(Target target)
    {
        var (a, b) = await PairAsync(target);
        await a.DoAsync("SET", "k", "1");
        await a.DoAsync("WATCH", "k");
        await b.DoAsync("SET", "k", "2");
        await a.DoAsync("MULTI");
        Assert.Equal("+QUEUED", (await a.CallAsync("SET", "k", "3")).Compact);
        Assert.Equal("_", (await a.CallAsync("EXEC")).Compact);
        Assert.Equal("$2", (await a.CallAsync("GET", "k")).Compact);

        await a.DoAsync("WATCH", "k");
        await b.DoAsync("SET", "another", "2");
        await a.DoAsync("MULTI");
        await a.DoAsync("INCR", "k");
        Assert.Equal("[:3]", (await a.CallAsync("EXEC")).Compact);
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Multi_Errors_AreAsOnRedis(Target target)
    {
        var (a, _) = await PairAsync(target);
        Assert.StartsWith("-ERR EXEC without MULTI", (await a.CallAsync("EXEC")).Compact, StringComparison.Ordinal);
        await a.DoAsync("MULTI");
        Assert.StartsWith("-ERR MULTI calls can not be nested", (await a.CallAsync("MULTI")).Compact, StringComparison.Ordinal);
        Assert.True((await a.CallAsync("NOSUCHCOMMAND")).IsError);
        Assert.StartsWith("-EXECABORT", (await a.CallAsync("EXEC")).Compact, StringComparison.Ordinal);
        await a.DoAsync("MULTI");
        await a.DoAsync("SET", "k", "1");
        Assert.Equal("+OK", (await a.CallAsync("DISCARD")).Compact);
        Assert.Equal("_", (await a.CallAsync("GET", "k")).Compact);
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Pipeline_MixingSharedAndDedicated_KeepsItsOrder(Target target)
    {
        var (a, b) = await PairAsync(target);
        var sending = Task.Run(async () =>
        {
            for (int i = 0; i < 300; i++)
            {
                await a.SendAsync("SET", "k", $"{i}");
                await a.SendAsync("MULTI");
                await a.SendAsync("APPEND", "k", "x");
                await a.SendAsync("GET", "k");
                await a.SendAsync("EXEC");
                await a.SendAsync("GET", "k");
                await a.SendAsync("RPUSH", "l", $"{i}");
                await a.SendAsync("BLPOP", "l", "0");
                await a.SendAsync("SELECT", i % 2 == 0 ? "1" : "0");
                await a.SendAsync("STRLEN", "k");
                await a.SendAsync("SELECT", "0");
            }
        });
        for (int i = 0; i < 300; i++)
        {
            string k = $"{i}x";
            string[] replies = ["+OK", "+OK", "+QUEUED", "+QUEUED", $"[:{k.Length},${k}]", "$" + k, ":1", $"[$l,${i}]", "+OK", i % 2 == 0
                ? ":0" : $":{k.Length}", "+OK"];
            foreach (string reply in replies)
            {
                Assert.Equal(reply, (await a.ReadAsync()).Compact);
            }
        }

        await sending;
        Assert.Equal("$299x", (await b.CallAsync("GET", "k")).Compact);
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task BlockingPop_WokenByAnother_ThenGoesOnInOrder(Target target)
    {
        var (a, b) = await PairAsync(target);
        await a.SendAsync("SET", "x", "1");
        await a.SendAsync("BLPOP", "l", "0");
        await a.SendAsync("GET", "x");
        Assert.Equal("+OK", (await a.ReadAsync()).Compact);
        await BlockedAsync(b, 1);
        await b.DoAsync("SET", "x", "2");
        Assert.Equal(":1", (await b.CallAsync("RPUSH", "l", "element")).Compact);
        Assert.Equal("[$l,$element]", (await a.ReadAsync()).Compact);
        Assert.Equal("$2", (await a.ReadAsync()).Compact);
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task BlockingPop_ClientGone_ElementIsNotLost(Target target)
    {
        var (a, b) = await PairAsync(target);
        await a.SendAsync("BLPOP", "l", "0");
        await BlockedAsync(b, 1);
        a.Dispose();
        await BlockedAsync(b, 0);
        await b.DoAsync("RPUSH", "l", "element");
        Assert.Equal(":1", (await b.CallAsync("LLEN", "l")).Compact);
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Publish_ToSubscribersElsewhere_ArrivesAndCounts(Target target)
    {
        var (a, b) = await PairAsync(target);
        using var c = await RespClient.ConnectAsync(await EndpointAsync(target));
        await c.DoAsync("HELLO", "3");
        Assert.Equal("[$subscribe,$news,:1]", (await a.CallAsync("SUBSCRIBE", "news")).Compact);
        await c.SendAsync("PSUBSCRIBE", "n*");
        Assert.Equal("[$psubscribe,$n*,:1]", (await c.ReadAsync(wantPush: true)).Compact);
        Assert.Equal(":2", (await b.CallAsync("PUBLISH", "news", "hello")).Compact);
        Assert.Equal("[$message,$news,$hello]", (await a.ReadAsync()).Compact);
        Assert.Equal("[$pmessage,$n*,$news,$hello]", (await c.ReadAsync(wantPush: true)).Compact);
        Assert.True((await a.CallAsync("GET", "k")).IsError, "a RESP2 subscriber may not");
        Assert.Equal("_", (await c.CallAsync("GET", "k")).Compact);
        Assert.Equal("[$unsubscribe,$news,:0]", (await a.CallAsync("UNSUBSCRIBE", "news")).Compact);
        Assert.Equal("_", (await a.CallAsync("GET", "k")).Compact);
        Assert.Equal(":1", (await b.CallAsync("PUBLISH", "news", "again")).Compact);
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task ShardedPublish_ToSubscriber_Arrives(Target target)
    {
        var (a, b) = await PairAsync(target);
        Assert.Equal("[$ssubscribe,$news,:1]", (await a.CallAsync("SSUBSCRIBE", "news")).Compact);
        Assert.Equal(":1", (await b.CallAsync("SPUBLISH", "news", "hello")).Compact);
        Assert.Equal("[$smessage,$news,$hello]", (await a.ReadAsync()).Compact);
        Assert.Equal("[$news]", (await b.CallAsync("PUBSUB", "SHARDCHANNELS")).Compact);
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Tracking_KeyChangedByAnother_IsInvalidated(Target target)
    {
        var (a, b) = await PairAsync(target);
        await a.DoAsync("HELLO", "3");
        await a.DoAsync("CLIENT", "TRACKING", "ON");
        await a.DoAsync("SET", "k", "1");
        await a.DoAsync("GET", "k");
        await b.DoAsync("SET", "k", "2");
        Assert.Equal("[$invalidate,[$k]]", (await a.ReadAsync(Generous, wantPush: true)).Compact);
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Monitor_OtherClients_ShowsTheirCommandsAndNoMarkers(Target target)
    {
        var (a, b) = await PairAsync(target);
        await a.DoAsync("MONITOR");
        for (int i = 0; i < 30; i++)
        {
            await b.DoAsync("SET", "k", $"{i}");
            await Task.Delay(10); // Several versions, so several markers.
        }

        await b.DoAsync("ECHO", "the end");
        var lines = new List<string>();
        do
        {
            lines.Add((await a.ReadAsync()).Text);
        }
        while (!lines[^1].Contains("the end", StringComparison.Ordinal));
        Assert.Equal(30, lines.Count(l => l.Contains("\"SET\" \"k\"", StringComparison.Ordinal)));
        Assert.DoesNotContain(lines, l => l.Contains("__slogger", StringComparison.Ordinal));
        Assert.DoesNotContain("__slogger", (await b.CallAsync("PUBSUB", "SHARDCHANNELS")).Compact, StringComparison.Ordinal);
        Assert.Equal("[]", (await b.CallAsync("PUBSUB", "SHARDCHANNELS", "*slogger*")).Compact);
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Scripts_LoadedByOne_RunByAnother(Target target)
    {
        var (a, b) = await PairAsync(target);
        string sha = (await a.DoAsync("SCRIPT", "LOAD", "return redis.call('INCR', KEYS[1])")).Text;
        Assert.Equal(":1", (await b.CallAsync("EVALSHA", sha, "1", "n")).Compact);
        await b.DoAsync("FUNCTION", "LOAD", "REPLACE",
            "#!lua name=lib\nredis.register_function('bump', function(keys) return redis.call('INCR', keys[1]) end)");
        Assert.Equal(":2", (await a.CallAsync("FCALL", "bump", "1", "n")).Compact);
        await b.DoAsync("FUNCTION", "FLUSH");
    }

    private static async Task BlockedAsync(RespClient client, int count) =>
        await Eventually.AsyncTrue($"{count} blocked clients", Generous, async () =>
            (await client.DoAsync("INFO", "clients")).Text.Contains($"blocked_clients:{count}\r", StringComparison.Ordinal));

    private async Task<EndPoint> EndpointAsync(Target target) =>
        target == Target.Raw ? (await servers.RawAsync()).Endpoint : (await servers.ProxyAsync()).Endpoint;

    private async Task<(RespClient A, RespClient B)> PairAsync(Target target)
    {
        var endpoint = await servers.EmptyAsync(target);
        return (await RespClient.ConnectAsync(endpoint), await RespClient.ConnectAsync(endpoint));
    }
}
