// PUBLISH among several shards, on real processes: it reaches the subscribers of every shard once and in order, whoever publishes;
// what is for a shard's own channels stays there; a proxy that is away costs nobody anything but its own messages.
using System.Globalization;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Moves;

public sealed class PublishTests
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(30);

    [Fact]
    public async Task Publish_AtOneShard_ReachesSubscribersOfAllOnceAndInOrder()
    {
        const int messages = 2000;
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 3, usesPostgres: false);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        RespClient[] subscribers = [.. await Task.WhenAll(Enumerable.Range(0, 3).Select(cluster.ConnectAsync))];
        RespClient[] byPattern = [.. await Task.WhenAll(Enumerable.Range(0, 3).Select(cluster.ConnectAsync))];
        foreach (RespClient client in subscribers) { await client.SendAsync("SUBSCRIBE", "news"); }
        foreach (RespClient client in byPattern) { await client.SendAsync("PSUBSCRIBE", "ne*"); }
        foreach (RespClient client in (RespClient[])[.. subscribers, .. byPattern]) { await client.ReadAsync(Generous, wantPush: true); }

        using RespClient publisher = await cluster.ConnectAsync(1);
        string key = cluster.Key(1, "k");
        for (int i = 0; i < messages; i++)
        {
            string text = i.ToString(CultureInfo.InvariantCulture);
            switch (i % 3)
            {
                case 0:
                    await publisher.DoAsync("PUBLISH", "news", text);
                    break;
                case 1:
                    await publisher.DoAsync("EVAL", "redis.call('INCR', KEYS[1]) return redis.call('PUBLISH', 'news', ARGV[1])", "1", key,
                        text);
                    break;
                default:
                    await publisher.DoAsync("MULTI");
                    await publisher.CallAsync("PUBLISH", "news", text);
                    await publisher.DoAsync("EXEC");
                    break;
            }
        }

        await publisher.DoAsync("PUBLISH", "news", "end");
        string[] expected = [.. Enumerable.Range(0, messages).Select(i => i.ToString(CultureInfo.InvariantCulture)), "end"];
        foreach (RespClient client in (RespClient[])[.. subscribers, .. byPattern])
        {
            var seen = new List<string>();
            while (seen.Count < expected.Length) { seen.Add((await client.ReadAsync(Generous, wantPush: true)).Items[^1].Text); }
            Assert.Equal(expected, seen);
        }

        // What goes round would still be coming.
        await Task.Delay(500);
        foreach (RespClient client in (RespClient[])[.. subscribers, .. byPattern])
        {
            Assert.False(client.TryTake(out RespValue more), $"{more}");
            Assert.Empty(client.Pushes);
            client.Dispose();
        }
    }

    [Fact]
    public async Task Publish_AProxyIsAway_TheOthersGetEverythingAndItGetsTheNext()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 3, usesPostgres: false);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        using RespClient subscriber = await cluster.ConnectAsync(2), publisher = await cluster.ConnectAsync(0);
        await subscriber.SendAsync("SUBSCRIBE", "news");
        await subscriber.ReadAsync(Generous, wantPush: true);
        cluster.KillProxy(1);
        string large = new('x', 5_000);
        for (int i = 0; i < 300; i++) { await publisher.DoAsync("PUBLISH", "news", large); }
        for (int i = 0; i < 300; i++)
        {
            Assert.Equal(large.Length, (await subscriber.ReadAsync(Generous, wantPush: true)).Items[^1].Text.Length);
        }
        await Eventually.AsyncTrue("messages are dropped and counted", Generous, async () =>
            (await publisher.DoAsync("DPR.INFO")).Text.Split("\r\n")
                .Any(l => l.StartsWith("messages_dropped:", StringComparison.Ordinal) && !l.EndsWith(":0", StringComparison.Ordinal)));

        await cluster.StartProxyAsync(1);
        await cluster.ServingAsync();
        using RespClient late = await cluster.ConnectAsync(1);
        await late.SendAsync("SUBSCRIBE", "news");
        await late.ReadAsync(Generous, wantPush: true);
        await Eventually.AsyncTrue("messages arrive again", Generous, async () =>
        {
            await publisher.DoAsync("PUBLISH", "news", "again");
            await Task.Delay(50);
            return late.TryTake(out RespValue message) || late.Pushes.Count > 0 || await ReadsAsync(late);
        });
    }

    private static async Task<bool> ReadsAsync(RespClient client)
    {
        try
        {
            await client.ReadAsync(TimeSpan.FromMilliseconds(500), wantPush: true);
            return true;
        }
        catch (TimeoutException)
        {
            return false;
        }
    }
}
