// A proxy that is killed with batches in flight: the client says which of them were executed, and the store agrees.
using System.Globalization;
using Slogger.Client;
using Slogger.Core.Sessions;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Client;

public sealed class ClientReplyLostTests(ITestOutputHelper output)
{
    private const int KillsMin = 3, KillsMax = 30;
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Theory]
    [InlineData("approximate")]
    [InlineData("hybrid")]
    public async Task Proxy_IsKilledWithBatchesInFlight_WhatIsSaidToBeExecutedIsInTheStoreAndCommits(string finder)
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false) { Finder = finder };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        await using SloggerClient client = await ClientCluster.ConnectAsync(cluster, o => o with { GiveUpAfter = Generous });
        await using SloggerSession session = client.OpenSession(new() { BatchMax = 8 });
        string list = cluster.Key(0, "list"), other = cluster.Key(1, "other");
        HashSet<long> answered = [], executed = [], uncertain = [];
        var lost = new List<ReplyLostException>();
        long number = 0;
        int kills = 0;
        for (; kills < KillsMin || lost.Count == 0; kills++)
        {
            Assert.True(kills < KillsMax, $"no proxy of {kills} that were killed had executed anything that it had not answered");
            await session.IncrementAsync(other).AsTask().WaitAsync(Generous);
            var started = new List<(long Number, Task<Result<long>> Task)>();
            Task kill = Task.Run(() => cluster.KillProxy(0));
            while (!kill.IsCompleted || started.Count < 400)
            {
                await session.ReadyAsync().AsTask().WaitAsync(TimeSpan.FromMilliseconds(100))
                    .ContinueWith(static _ => { }, TaskScheduler.Default);
                if (started.Count < 4000) { started.Add((++number, session.ListAppendAsync(list, number).AsTask())); }
            }

            await kill;
            await cluster.StartProxyAsync(0);
            foreach ((long n, Task<Result<long>> task) in started)
            {
                try
                {
                    await task.WaitAsync(Generous);
                    answered.Add(n);
                }
                catch (ReplyLostException e)
                {
                    executed.Add(n);
                    lost.Add(e);
                }
                catch (UncertainException)
                {
                    uncertain.Add(n);
                }
            }
        }

        await session.WaitForCommitAsync().WaitAsync(Generous);
        IReadOnlyList<ExceptionRange> exceptions = session.Exceptions;
        Assert.All(lost, e => Assert.True(e.Sequence <= session.CommittedUpTo
            && !exceptions.Any(x => x.Range.First <= e.Sequence && e.Sequence <= x.Range.Last), $"{e.Sequence} is not committed"));

        using RespClient plain = await cluster.ConnectAsync(0);
        long[] there = [.. (await plain.DoAsync("LRANGE", list, "0", "-1")).Items.Select(
            i => long.Parse(i.Text, CultureInfo.InvariantCulture))];
        Assert.Equal(there.Order(), there);
        HashSet<long> stored = [.. there];
        output.WriteLine($"{kills} kills: {answered.Count} answered, {executed.Count} executed without an answer, {uncertain.Count} "
            + $"uncertain, of which {uncertain.Count(stored.Contains)} are there");
        Assert.Equal(there.Length, stored.Count);
        Assert.Empty(answered.Except(stored));
        Assert.Empty(executed.Except(stored));
        Assert.Empty(stored.Except(answered).Except(executed).Except(uncertain));
        Assert.Null(session.Rollback);
    }
}
