// Slogger.Client against three running shards: operations, their order, numbers and versions, waits for commit, redirections,
// back-pressure, and what becomes of them when a proxy or a store is killed.
using System.Globalization;
using Slogger.Client;
using Slogger.Core.Sessions;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Resp;

namespace Slogger.Integration.Tests.Client;

public sealed class ClientSessionTests(ClientCluster cluster) : IClassFixture<ClientCluster>
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);
    private static int s_names;

    private ClusterDeployment Shards => cluster.Shards;

    private static string Name() => string.Create(CultureInfo.InvariantCulture, $"client:{Interlocked.Increment(ref s_names)}");

    [Fact]
    public async Task Commands_OfEveryKind_AnswerAsRedisDoes()
    {
        await using SloggerClient client = await ClientCluster.ConnectAsync(Shards);
        await using SloggerSession session = client.OpenSession();
        string key = Name();
        Assert.Null((await session.GetAsync(key)).Value);
        Assert.True((await session.SetAsync(key, "grüße")).Value);
        Assert.Equal("grüße", (await session.GetAsync(key)).Value);
        Assert.Equal("grüße"u8.ToArray(), (await session.GetBytesAsync(key)).Value);
        Assert.False((await session.SetIfAbsentAsync(key, "x")).Value);
        Assert.True((await session.ExistsAsync(key)).Value);
        Assert.True((await session.ExpireAsync(key, TimeSpan.FromHours(1))).Value);
        Assert.InRange((await session.ExecuteAsync("PTTL", key)).Value.Integer, 1, 3_600_000);
        Assert.True((await session.DeleteAsync(key)).Value);
        Assert.False((await session.DeleteAsync(key)).Value);
        Assert.Equal(5, (await session.IncrementAsync(key, 5)).Value);
        Assert.Equal(4, (await session.IncrementAsync(key, -1)).Value);
        await session.SetAsync(key, new byte[] { 0, 13, 10, 255 }, TimeSpan.FromMinutes(1));
        Assert.Equal(new byte[] { 0, 13, 10, 255 }, (await session.GetBytesAsync(key)).Value);
        string list = Name();
        Assert.Equal(1, (await session.ListAppendAsync(list, 1.5)).Value);
        Assert.Equal(2, (await session.ListAppendAsync(list, 7)).Value);
        Assert.Equal("[1.5, 7]", (await session.ExecuteAsync("LRANGE", list, 0, -1)).Value.ToString());
        Assert.Equal("PONG", (await session.ExecuteAsync("PING")).Value.ToString());
        RedisErrorException error = await Assert.ThrowsAsync<RedisErrorException>(async () => await session.IncrementAsync(list));
        Assert.StartsWith("WRONGTYPE", error.Message, StringComparison.Ordinal);
        Assert.Equal(session.LastSent, error.Sequence);
        // 1 MB, more than a receive buffer holds, both ways.
        string large = new('x', 1 << 20);
        await session.SetAsync(key, large);
        Assert.Equal(large, (await session.GetAsync(key)).Value);
    }

    [Fact]
    public async Task Transaction_OfSeveralCommands_IsOneOperationInOneVersion()
    {
        await using SloggerClient client = await ClientCluster.ConnectAsync(Shards);
        await using SloggerSession session = client.OpenSession(new() { BatchMax = 4 });
        string tag = "{" + Name() + "}";
        Task<Result<RespValue>>[] all = [.. Enumerable.Range(0, 20).Select(i =>
            session.TransactionAsync([["INCR", tag + "a"], ["INCR", tag + "b"], ["GET", tag + "a"]]).AsTask())];
        for (int i = 0; i < all.Length; i++) { Assert.Equal($"[{i + 1}, {i + 1}, {i + 1}]", (await all[i]).Value.ToString()); }
        Assert.Equal(100, session.LastSent.Number);
        await Assert.ThrowsAsync<RedisErrorException>(async () =>
            await session.TransactionAsync([["INCR", tag + "a"], ["NOSUCHCOMMAND", "x"]]));
        Assert.Equal("20", (await session.GetAsync(tag + "a")).Value);
    }

    [Fact]
    public async Task Operations_OnAllShards_AreNumberedOnceAndDependOnWhatWasAwaited()
    {
        await using SloggerClient client = await ClientCluster.ConnectAsync(Shards);
        await using SloggerSession session = client.OpenSession();
        string[] keys = [.. Enumerable.Range(0, ClientCluster.Count).Select(i => Shards.Key(i, Name()))];
        var seen = new List<long>();
        Result<long> last = default;
        for (int i = 0; i < 60; i++)
        {
            Result<long> result = await session.IncrementAsync(keys[i % keys.Length]);
            Assert.Equal(i % keys.Length, result.Shard.Number);
            Assert.True(result.Version >= last.Version, "awaited before: no earlier version");
            Assert.Equal((i / keys.Length) + 1, result.Value);
            seen.Add(result.Sequence.Number);
            last = result;
        }

        Assert.Equal(Enumerable.Range(1, 60).Select(i => (long)i), seen);
        await session.WaitForCommitAsync().WaitAsync(Generous);
        Assert.Equal(60, session.CommittedUpTo.Number);
        Assert.Empty(session.Exceptions);
    }

    [Fact]
    public async Task Operations_StartedWithoutAwaiting_ArePipelinedInOrderWithinBounds()
    {
        const int Operations = 50_000;
        await using SloggerClient client = await ClientCluster.ConnectAsync(Shards);
        await using SloggerSession session = client.OpenSession(new() { BatchMax = 64, Window = 1024, OutstandingMax = 2048 });
        string[] keys = [.. Enumerable.Range(0, ClientCluster.Count).Select(i => Shards.Key(i, Name()))];
        var tasks = new Queue<(ValueTask<Result<long>> Task, long Expected)>();
        var numbers = new HashSet<long>();
        for (int i = 0; i < Operations; i++)
        {
            if (tasks.Count == 2000) { await TakeAsync(); }
            tasks.Enqueue((session.IncrementAsync(keys[i % keys.Length]), (i / keys.Length) + 1));
        }

        while (tasks.Count > 0) { await TakeAsync(); }
        Assert.Equal(Operations, numbers.Count);
        Assert.Equal(Operations, session.LastSent.Number);
        await session.WaitForCommitAsync().WaitAsync(Generous);
        Assert.Equal(Operations, session.CommittedUpTo.Number);

        async Task TakeAsync()
        {
            (ValueTask<Result<long>> task, long expected) = tasks.Dequeue();
            Result<long> result = await task;
            Assert.Equal(expected, result.Value);
            Assert.True(numbers.Add(result.Sequence.Number));
        }
    }

    [Fact]
    public async Task Operations_MoreThanMayBeOutstanding_AreAnErrorAndReadyAsyncWaits()
    {
        await using SloggerClient client = await ClientCluster.ConnectAsync(Shards);
        await using SloggerSession session = client.OpenSession(new() { BatchMax = 1, Window = 1, OutstandingMax = 4 });
        string key = Name();
        // A script holds the window for a while.
        Task<Result<RespValue>> slow = session.ExecuteAsync("EVAL", "local i = 0 while i < 2000000 do i = i + 1 end return 1", 1, key)
            .AsTask();
        ValueTask ready = session.ReadyAsync();
        var more = new List<Task>();
        for (int i = 0; i < 3; i++) { more.Add(session.IncrementAsync(key).AsTask()); }
        if (!slow.IsCompleted)
        {
            InvalidOperationException error = await Assert.ThrowsAsync<InvalidOperationException>(
                async () => await session.IncrementAsync(key));
            Assert.Contains("ReadyAsync", error.Message, StringComparison.Ordinal);
        }

        await ready;
        await slow;
        await Task.WhenAll(more);
        Assert.Equal("3", (await session.GetAsync(key)).Value);
    }

    [Fact]
    public async Task Session_UsedByManyThreads_CountsEveryOperationOnce()
    {
        await using SloggerClient client = await ClientCluster.ConnectAsync(Shards);
        await using SloggerSession session = client.OpenSession();
        string key = Name();
        Result<long>[][] results = await Task.WhenAll(Enumerable.Range(0, 8).Select(_ => Task.Run(async () =>
        {
            var mine = new List<Result<long>>();
            for (int i = 0; i < 500; i++) { mine.Add(await session.IncrementAsync(key)); }
            return mine.ToArray();
        })));
        Assert.Equal(Enumerable.Range(1, 4000).Select(i => (long)i), results.SelectMany(r => r).Select(r => r.Value).Order());
        Assert.Equal(4000, results.SelectMany(r => r).Select(r => r.Sequence).Distinct().Count());
        foreach (Result<long>[] mine in results)
        {
            Assert.Equal(mine.Select(r => r.Value), mine.OrderBy(r => r.Sequence).Select(r => r.Value));
        }
    }

    [Fact]
    public async Task Sessions_ThatShareConnections_AreCommittedEachByItself()
    {
        await using SloggerClient client = await ClientCluster.ConnectAsync(Shards);
        await Task.WhenAll(Enumerable.Range(0, 20).Select(async n =>
        {
            await using SloggerSession session = client.OpenSession();
            string key = Name();
            for (int i = 0; i < 50; i++) { await session.IncrementAsync(key); }
            await session.WaitForCommitAsync().WaitAsync(Generous);
            Assert.Equal(50, session.CommittedUpTo.Number);
        }));
    }

    [Fact]
    public async Task Commits_AreStreamedAsTheyHappen()
    {
        await using SloggerClient client = await ClientCluster.ConnectAsync(Shards);
        await using SloggerSession session = client.OpenSession();
        string key = Name();
        using var stop = new CancellationTokenSource(Generous);
        var seen = new List<long>();
        Task listening = Task.Run(async () =>
        {
            await foreach (CommitProgress progress in session.CommitsAsync(stop.Token))
            {
                seen.Add(progress.CommittedUpTo.Number);
                if (progress.CommittedUpTo.Number == 100) { return; }
            }
        });
        for (int i = 0; i < 100; i++) { await session.IncrementAsync(key); }
        await listening;
        Assert.Equal(seen.Order().Distinct(), seen);
        Assert.Equal(100, session.CommittedUpTo.Number);
    }

    [Fact]
    public async Task Wait_ForANumberThatWasNotSent_IsAnError()
    {
        await using SloggerClient client = await ClientCluster.ConnectAsync(Shards);
        await using SloggerSession session = client.OpenSession();
        await Assert.ThrowsAsync<ArgumentOutOfRangeException>(() => session.WaitForCommitAsync(new SequenceNumber(1)));
        await session.WaitForCommitAsync();
        Result<bool> set = await session.SetAsync(Name(), "1");
        await session.WaitForCommitAsync(set.Sequence).WaitAsync(Generous);
        Assert.True(session.CommittedUpTo >= set.Sequence);
    }

    [Fact]
    public async Task Cancellation_EndsTheWaitAndNotTheSession()
    {
        await using SloggerClient client = await ClientCluster.ConnectAsync(Shards);
        await using SloggerSession session = client.OpenSession();
        string key = Name();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(
            async () => await session.SetAsync(key, "1", cancellation: new CancellationToken(true)));
        using var cancel = new CancellationTokenSource();
        Task<Result<RespValue>> slow = session.ExecuteAsync(
            OperationFlags.None, cancel.Token, "EVAL", "local i = 0 while i < 3000000 do i = i + 1 end return 1", 1, key).AsTask();
        await cancel.CancelAsync();
        try
        {
            await slow;
        }
        catch (OperationCanceledException)
        {
            // Unless it was faster.
        }

        Assert.Equal(1, (await session.IncrementAsync(key)).Value);
        await session.WaitForCommitAsync().WaitAsync(Generous);
        Assert.Equal(2, session.CommittedUpTo.Number);
    }

    [Fact]
    public async Task Client_ThatKnowsOnlyOneProxy_FindsTheOthers()
    {
        await using SloggerClient client = await SloggerClient.ConnectAsync(Shards.Endpoint(1).ToString()!);
        await using SloggerSession session = client.OpenSession();
        for (int shard = 0; shard < ClientCluster.Count; shard++)
        {
            Assert.Equal(shard, (await session.SetAsync(Shards.Key(shard, Name()), "1")).Shard.Number);
        }
        Assert.Equal("default", client.Cluster);
    }

    [Fact]
    public async Task Client_ThatIsMisled_FollowsMovedAndLearns()
    {
        await using SloggerClient client = await ClientCluster.ConnectAsync(Shards);
        await using SloggerSession session = client.OpenSession();
        string right = Shards.Key(2, Name()), wrong = Shards.Key(0, Name());
        await session.SetAsync(wrong, "1");
        client.OwnSlot(Core.Ownership.HashSlot.Of(System.Text.Encoding.ASCII.GetBytes(right)), Wire(0));
        Task<Result<long>>[] all = [.. Enumerable.Range(0, 50).Select(_ => session.IncrementAsync(right).AsTask())];
        Result<long>[] results = await Task.WhenAll(all);
        Assert.All(results, r => Assert.Equal(2, r.Shard.Number));
        Assert.Equal(Enumerable.Range(1, 50).Select(i => (long)i), results.Select(r => r.Value));
        Assert.True(session.LastSent.Number > 51, "what was redirected has two numbers");
        await session.WaitForCommitAsync().WaitAsync(Generous);

        string Wire(int shard) => Shards.Endpoint(shard).ToString()!;
    }

    [Fact]
    public async Task Connect_WhereNobodyListens_SaysSoForEachEndpoint()
    {
        int port = Workspace.FreePort();
        SloggerException error = await Assert.ThrowsAsync<SloggerException>(() => SloggerClient.ConnectAsync($"127.0.0.1:{port}"));
        Assert.Contains($"127.0.0.1:{port}", error.Message, StringComparison.Ordinal);
        await Assert.ThrowsAsync<ArgumentException>(() => SloggerClient.ConnectAsync("nohost"));
    }
}
