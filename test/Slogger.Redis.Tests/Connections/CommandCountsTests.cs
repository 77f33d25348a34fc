// What the proxy does at a Redis of its own accord is counted as Redis counts it.
using Slogger.Redis.Connections;
using Slogger.Redis.Replication;
using Slogger.Redis.Tests.Support;
using Slogger.Resp;

namespace Slogger.Redis.Tests.Connections;

public sealed class CommandCountsTests
{
    [Theory]
    [InlineData(null)]
    [InlineData("pw")]
    public async Task Counts_AllKindsOfConnections_AsRedisCounts(string? password)
    {
        await using TestRedis redis = await TestRedis.StartAsync(password);
        await using RedisConnection other = await RedisConnection.ConnectAsync(redis.Endpoint);
        await other.ExpectAsync("CONFIG", "RESETSTAT");
        var counts = new CommandCounts();
        RedisEndpoint endpoint = redis.Endpoint with { Counts = counts, Admission = _ => Task.CompletedTask };
        await using RedisConnection control = await RedisConnection.ConnectAsync(endpoint);
        await control.CommandAsync(["PING"]);
        await control.CommandAsync("config", "GET", "timeout");
        await control.RoleAsync();
        await using (RedisPipeline pipeline = await RedisPipeline.ConnectAsync(endpoint, TimeSpan.FromSeconds(5), default)) { }
        Assert.True((await RedisProbe.InspectAsync(endpoint)).IsUsable);
        using (var link = new ReplicationLink(new() { Endpoint = endpoint }))
        {
            Assert.IsType<AttachResult.Full>(await link.AttachAsync(new()));
        }

        string text = (await control.ExpectAsync("INFO", "commandstats")).Text;
        var redisCounts = text.Split("\r\n").Where(l => l.StartsWith("cmdstat_", StringComparison.Ordinal))
            .ToDictionary(l => l["cmdstat_".Length..l.IndexOf(':')], l => long.Parse(l[(l.IndexOf('=') + 1)..l.IndexOf(',')]));
        // The INFO that tells it is not in it yet; REPLCONF's answers go on while the link is open; RESETSTAT was the other's.
        var own = counts.All.Select(c => KeyValuePair.Create(c.Key, c.Key == "info" ? c.Value - 1 : c.Value));
        Assert.Equal(1, redisCounts["config|resetstat"]);
        string[] left = ["replconf", "config|resetstat"];
        Assert.Equal(redisCounts.ExceptBy(left, c => c.Key).OrderBy(c => c.Key), own.ExceptBy(left, c => c.Key).OrderBy(c => c.Key));
    }

    [Fact]
    public async Task Clear_WhileCommandsComeAndGo_LeavesWhatRedisHasCountedSince()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        var counts = new CommandCounts();
        await using RedisConnection own = await RedisConnection.ConnectAsync(redis.Endpoint with { Counts = counts });
        await using RedisConnection other = await RedisConnection.ConnectAsync(redis.Endpoint);
        for (int round = 0; round < 100; round++)
        {
            // From before the first mark until after the last.
            var begun = new TaskCompletionSource();
            int more = 1;
            Task pings = Task.Run(async () =>
            {
                while (Volatile.Read(ref more) == 1)
                {
                    await own.CommandAsync(["PING"]);
                    begun.TrySetResult();
                    Thread.SpinWait(Random.Shared.Next(10_000));
                }
            });
            await begun.Task;
            CommandCounts.Mark mark;
            do
            {
                mark = counts.TakeMark();
                await other.ExpectAsync("CONFIG", "RESETSTAT");
            }
            while (!counts.Clear(mark));
            Volatile.Write(ref more, 0);
            await pings;
            string line = (await other.ExpectAsync("INFO", "commandstats")).Text.Split('\n')
                .SingleOrDefault(l => l.StartsWith("cmdstat_ping:", StringComparison.Ordinal)) ?? "cmdstat_ping:calls=0,";
            Assert.Equal(line["cmdstat_ping:calls=".Length..line.IndexOf(',')],
                counts.Of("ping").ToString(System.Globalization.CultureInfo.InvariantCulture));
        }
    }

    [Fact]
    public async Task Clear_ACommandIsOnItsWay_StillCountsIt()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        var counts = new CommandCounts();
        await using RedisConnection own = await RedisConnection.ConnectAsync(redis.Endpoint with { Counts = counts });
        await own.CommandAsync(["PING"]);
        Task<RedisReply> blocked = own.CommandAsync(["BLPOP", "none", "0.3"]);
        CommandCounts.Mark mark = counts.TakeMark();
        // It may be executed after Redis has begun to count anew, and so may what is sent after the mark, even if it is answered by now.
        await blocked;
        await own.CommandAsync(["ECHO", "a"]);
        Assert.False(counts.Clear(mark));
        Assert.Equal((0, 1, 1), (counts.Of("ping"), counts.Of("blpop"), counts.Of("echo")));
        Assert.True(counts.Clear(counts.TakeMark()));
        Assert.Empty(counts.All);
        // An older mark takes nothing back, and nothing off.
        await own.CommandAsync(["PING"]);
        counts.Clear(mark);
        Assert.Equal(1, counts.Of("ping"));
    }
}
