// Co-location among failures: an application hosts a shard and works on it and on two others, one with a Redis and one with an embedded
// store, which are killed with -9 in turn and together. Its sessions do not wait for what they send (relaxed DPR). After each round every
// key is compared with what its session was told: what was committed, or survived, is there; what was rolled back is not (I1, I2).
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Slogger.Hosting;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Embedded;

public sealed class HostingFailureTests(ITestOutputHelper output)
{
    private const int Here = 0, WithRedis = 1, Embedded = 2, Sessions = 3;
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(120);
    private static readonly string[] s_faults = ["redis", "embedded", "redis-then-embedded", "together", "embedded-then-redis-and-proxy"];

    // SLOGGER_TEST_ROUNDS=100 for a longer run.
    [Theory]
    [InlineData("approximate")]
    [InlineData("exact")]
    public async Task OtherShardsDie_EachKeyIsWhatItsSessionWasTold(string finder)
    {
        int rounds = int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_TEST_ROUNDS"), out int given) ? given : s_faults.Length;
        int seed = Environment.TickCount & 0xFFFFFF;
        output.WriteLine($"seed {seed}");
        var random = new Random(seed);
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 3, usesPostgres: false) { Hosted = 1, Embedded = 1,
            Finder = finder };
        using IHost host = HostingTests.Application(cluster.Port(Here), cluster.Data(Here), cluster.OptionsOf(Here));
        try
        {
            await host.StartAsync();
            await cluster.StartAsync();
            var shard = host.Services.GetRequiredService<ISloggerShard>();
            await shard.Ready.WaitAsync(Generous);
            await cluster.ServingAsync();
            LocalSession[] sessions = [.. Enumerable.Range(0, Sessions).Select(_ => shard.OpenSession())];
            HostedWriter[] writers = [.. sessions.Select((s, i) => new HostedWriter(i, s, cluster, seed + i))];
            for (int round = 0; round < rounds; round++)
            {
                string fault = s_faults[round % s_faults.Length];
                try
                {
                    await RoundAsync(cluster, writers, fault, random);
                }
                catch (Exception e) when (e is InvalidDataException or TimeoutException or InvalidOperationException)
                {
                    throw new InvalidDataException($"{e.Message}\nround {round} of seed {seed}, {fault}\n{cluster.Tail()}", e);
                }

                output.WriteLine($"{round + 1} rounds: {string.Join("; ", writers.Select(w => w.Counts))}");
            }

            Assert.All(writers, w => Assert.True(w.Counts is { Here: > 0, Elsewhere: > 0, There: > 0 }, w.Counts.ToString()));
            Assert.True(writers.Sum(w => w.Counts.Lost) > 0, "no kill has taken anything");
            foreach (LocalSession session in sessions) { await session.DisposeAsync(); }
        }
        finally
        {
            await host.StopAsync();
        }
    }

    private static async Task RoundAsync(ClusterDeployment cluster, HostedWriter[] writers, string fault, Random random)
    {
        using var stop = new CancellationTokenSource();
        Task[] running = [.. writers.Select(w => Task.Run(() => w.RunAsync(stop.Token)))];
        await Task.Delay(random.Next(100, 400));
        switch (fault)
        {
            case "redis":
                await cluster.KillRedisAsync(WithRedis);
                break;
            case "embedded":
                await cluster.KillRedisAsync(Embedded);
                break;
            case "redis-then-embedded":
                await cluster.KillRedisAsync(WithRedis);
                await Task.Delay(random.Next(1, 250));
                await cluster.KillRedisAsync(Embedded);
                break;
            case "together":
                cluster.KillProxy(WithRedis);
                cluster.KillProxy(Embedded);
                await cluster.KillRedisAsync(WithRedis);
                await Task.WhenAll(cluster.StartProxyAsync(WithRedis), cluster.StartProxyAsync(Embedded));
                break;
            default:
                cluster.KillProxy(Embedded);
                Task back = cluster.StartProxyAsync(Embedded);
                await Task.Delay(random.Next(1, 250));
                cluster.KillProxy(WithRedis);
                await cluster.KillRedisAsync(WithRedis);
                await cluster.StartProxyAsync(WithRedis);
                await back;
                break;
        }

        await Task.Delay(random.Next(0, 200));
        await stop.CancelAsync();
        await Task.WhenAll(running).WaitAsync(Generous);
        await cluster.ServingAsync();
        await Task.WhenAll(writers.Select(w => w.SettleAsync()));
        foreach (HostedWriter writer in writers) { await writer.CheckAsync(); }
    }
}
