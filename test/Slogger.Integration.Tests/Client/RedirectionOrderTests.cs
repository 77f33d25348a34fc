// Operations on one key are executed in the order in which they were started, though the session sends without awaiting and the key's
// owner changes meanwhile: because the client believes in a wrong owner, or because the slot moves. Lists tell the order.
using System.Globalization;
using System.Text;
using Slogger.Client;
using Slogger.Core.Ownership;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Client;

public sealed class RedirectionOrderTests(ITestOutputHelper output)
{
    private const int Keys = 30, LastSlot = 199;
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Fact]
    public async Task Client_ThatBelievesInWrongOwners_KeepsTheOrderOnEachKey()
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace);
        string[] keys = [.. Enumerable.Range(0, Keys)
            .Select(i => cluster.Key(1, string.Create(CultureInfo.InvariantCulture, $"misled:{i}:")))];
        for (int round = 0; round < 20; round++)
        {
            await using SloggerClient client = await ClientCluster.ConnectAsync(cluster);
            await using SloggerSession session = client.OpenSession(new() { BatchMax = 8 });
            foreach (string key in keys) { client.OwnSlot(HashSlot.Of(Encoding.ASCII.GetBytes(key)), cluster.Endpoint(0).ToString()!); }
            var pushes = new List<Task<Result<long>>>();
            for (int i = 0; i < 1000; i++)
            {
                await session.ReadyAsync(TestContext.Current.CancellationToken);
                pushes.Add(session.ListAppendAsync(keys[i % Keys], (round * 1000) + i).AsTask());
                // Some are started after the first redirections are known.
                if (i % 200 == 199) { await Task.Delay(1, TestContext.Current.CancellationToken); }
            }

            await Task.WhenAll(pushes).WaitAsync(Generous);
            Assert.True(session.LastSent.Number > 1000, "nothing was redirected");
        }

        await CheckAsync(cluster, 1, keys, 20 * 1000);
    }

    [Fact]
    public async Task Session_WhileSlotsMoveThereAndBack_KeepsTheOrderOnEachKey()
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace);
        string[] keys = Moves.MovingKeys.In(0, LastSlot, Keys, "turns:");
        await using SloggerClient client = await ClientCluster.ConnectAsync(cluster);
        await using SloggerSession session = client.OpenSession();
        using var stop = new CancellationTokenSource();
        int pushed = 0;
        Task running = Task.Run(async () =>
        {
            var pushes = new Queue<Task<Result<long>>>();
            while (!stop.IsCancellationRequested)
            {
                pushes.Enqueue(session.ListAppendAsync(keys[pushed % Keys], pushed).AsTask());
                pushed++;
                if (pushes.Count < 400) { continue; }
                await pushes.Dequeue();
            }

            await Task.WhenAll(pushes);
        });
        foreach (string to in (string[])["1", "0", "1"])
        {
            await Task.Delay(200, TestContext.Current.CancellationToken);
            (int exit, string text) = await cluster.MoveAsync("--slots", $"0-{LastSlot}", "--to", to);
            Assert.True(exit == 0, text + cluster.Tail());
        }

        await stop.CancelAsync();
        await running.WaitAsync(Generous);
        output.WriteLine($"{pushed} pushes, {session.LastSent.Number - pushed} redirections");
        Assert.True(session.LastSent.Number > pushed, "nothing was redirected");
        await CheckAsync(cluster, 1, keys, pushed);
    }

    private static async Task<ClusterDeployment> StartAsync(Workspace workspace)
    {
        var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        return cluster;
    }

    private static async Task CheckAsync(ClusterDeployment cluster, int shard, string[] keys, int count)
    {
        using RespClient redis = await cluster.ConnectAsync(shard);
        int found = 0;
        foreach (string key in keys)
        {
            long[] list = [.. (await redis.DoAsync("LRANGE", key, "0", "-1")).Items.Select(
                i => long.Parse(i.Text, CultureInfo.InvariantCulture))];
            for (int i = 1; i < list.Length; i++)
            {
                Assert.True(list[i - 1] < list[i], $"{key}: {list[i]} was pushed behind {list[i - 1]}");
            }
            found += list.Length;
        }

        Assert.Equal(count, found);
    }
}
