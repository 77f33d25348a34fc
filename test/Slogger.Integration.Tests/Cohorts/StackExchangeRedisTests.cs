// StackExchange.Redis with a cohort, as docs/operate/clients-of-a-cohort.md has it. Other libraries: test/External/takeover.sh.
using Slogger.Integration.Tests.Processes;
using StackExchange.Redis;

namespace Slogger.Integration.Tests.Cohorts;

public sealed class StackExchangeRedisTests(ITestOutputHelper output)
{
    [Theory]
    [InlineData("")]
    [InlineData(",serviceName=" + CohortNodes.Cluster)]
    public async Task Multiplexer_KnowsAllNodes_WritesThroughATakeover_LosesNothingThatItWasTold(string options)
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace);
        await nodes.StartAsync();
        int leader = await nodes.LeaderAsync();
        string all = string.Join(',', Enumerable.Range(0, CohortNodes.Count).Select(i => nodes.Endpoint(i).ToString()));
        using ConnectionMultiplexer redis = await ConnectionMultiplexer.ConnectAsync(
            $"{all},abortConnect=false,connectRetry=5,configCheckSeconds=5{options}");
        IDatabase database = redis.GetDatabase();

        var acknowledged = new List<long>();
        int errors = 0;
        string error = "";
        using var stop = new CancellationTokenSource();
        Task writing = Task.Run(async () =>
        {
            for (long n = 1; !stop.IsCancellationRequested; n++)
            {
                try
                {
                    await database.ListRightPushAsync("list", n);
                    lock (acknowledged) { acknowledged.Add(n); }
                }
                catch (Exception e) when (e is RedisException or TimeoutException)
                {
                    (errors, error) = (errors + 1, e.Message);
                }
                await Task.Delay(2);
            }
        }, CancellationToken.None);
        async Task GetsOnAsync(string when)
        {
            long before = Count();
            await nodes.EventuallyAsync($"the multiplexer writes {when} (the last of {errors} errors: {error})",
                () => Task.FromResult(Count() > before + 2));
        }
        long Count()
        {
            lock (acknowledged) { return acknowledged.Count; }
        }

        await GetsOnAsync("at first");
        await nodes.KillAsync(leader);
        await nodes.LeaderAsync(but: leader);
        await GetsOnAsync("after a takeover");
        await nodes.StartAsync(leader);
        await nodes.FollowsAsync(leader);
        await nodes.LeadAsync(leader);
        await GetsOnAsync("after a hand-over");
        await stop.CancelAsync();
        await writing;

        var found = new HashSet<long>((await database.ListRangeAsync("list")).Select(v => (long)v));
        output.WriteLine($"{acknowledged.Count} acknowledged, {errors} errors");
        Assert.Superset(acknowledged.ToHashSet(), found);
    }
}
