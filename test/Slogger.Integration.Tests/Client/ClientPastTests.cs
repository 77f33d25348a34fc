// Views of the past of Slogger.Client, of one shard and of two that run.
using Slogger.Client;
using Slogger.Core.Versions;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Client;

public sealed class ClientPastTests
{
    [Fact]
    public async Task OneShard_EveryRead_ShowsWhatWasThere()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        await using SloggerClient client = await SloggerClient.ConnectAsync(deployment.Endpoint.ToString()!);
        await using SloggerSession session = client.OpenSession();
        await session.SetAsync("text", "grüße", TimeSpan.FromHours(1));
        await session.SetAsync("bytes", new byte[] { 0, 255, 13, 10 });
        await session.HashSetAsync("hash", [new("a", 1), new("b", new byte[] { 255 })]);
        await session.ListAppendAsync("list", ["x", "y", "z"]);
        await session.SetAddAsync("set", ["m", "n"]);
        await session.SortedSetAddAsync("sorted", [new("one", 1), new("two", 2.5)]);
        await session.StreamAddAsync("stream", [new("field", "1")]);
        StreamEntry[] entries = (await session.StreamRangeAsync("stream")).Value;
        Result<bool> last = await session.SetAsync("number", 7);
        // What is committed is in a version that has ended.
        await session.WaitForCommitAsync();
        DateTimeOffset time = DateTimeOffset.UtcNow;
        await using PastView view = await session.AsOfAsync(time);
        // That version has ended: this is in a later one.
        await session.ExecuteAsync("FLUSHALL");
        Result<bool> after = await session.SetAsync("list", "now text");
        await session.SetAsync("text", "new");

        Assert.True(view.Time <= time);
        Assert.Equal(session.WorldLine, view.WorldLine);
        Assert.True(view.Version >= last.Version && view.Version < after.Version);
        Assert.Equal("grüße", await view.GetAsync("text"));
        Assert.Null(await view.GetAsync("none"));
        Assert.Equal([0, 255, 13, 10], await view.GetBytesAsync("bytes"));
        Assert.True(await view.ExistsAsync("hash"));
        Assert.False(await view.ExistsAsync("none"));
        Assert.Equal("1", await view.HashGetAsync("hash", "a"));
        Assert.Equal([255], await view.HashGetBytesAsync("hash", "b"));
        Assert.Equal((string?[])["1", null], await view.HashGetAsync("hash", ["a", "none"]));
        Assert.Equal(["a", "b"], (await view.HashGetAllAsync("hash")).Select(f => f.Key).Order());
        Assert.Equal(["a", "b"], (await view.HashKeysAsync("hash")).Order());
        Assert.Equal(2, await view.HashLengthAsync("hash"));
        Assert.True(await view.HashExistsAsync("hash", "a"));
        Assert.False(await view.HashExistsAsync("hash", "none"));
        Assert.Equal(["x", "y", "z"], await view.ListRangeAsync("list"));
        Assert.Equal("z", await view.ListGetAsync("list", -1));
        Assert.Equal(3, await view.ListLengthAsync("list"));
        Assert.Equal(["m", "n"], (await view.SetMembersAsync("set")).Order());
        Assert.True(await view.SetContainsAsync("set", "m"));
        Assert.Equal(2, await view.SetCountAsync("set"));
        Assert.Equal(2.5, await view.SortedSetScoreAsync("sorted", "two"));
        Assert.Null(await view.SortedSetScoreAsync("sorted", "none"));
        Assert.Equal(0, await view.SortedSetRankAsync("sorted", "two", isDescending: true));
        Assert.Equal([new("one", 1), new("two", 2.5)], await view.SortedSetRangeByRankAsync("sorted"));
        Assert.Equal([new("two", 2.5)], await view.SortedSetRangeByScoreAsync("sorted", 2, "+inf", isDescending: true));
        Assert.Equal(2, await view.SortedSetCountAsync("sorted"));
        Assert.Equal(1, await view.SortedSetCountAsync("sorted", 2, 3));
        Assert.Equal(entries.Select(e => e.Id), (await view.StreamRangeAsync("stream", count: 5)).Select(e => e.Id));
        Assert.Equal(1, await view.StreamLengthAsync("stream"));
        Assert.Equal(8, (await view.ScriptEvaluateAsync("return redis.call('GET', KEYS[1]) + ARGV[1]", ["number"], [1])).AsInteger());
        Assert.Equal("hash", (await view.ExecuteAsync("TYPE", "hash")).AsText());
        Assert.InRange((await view.ExecuteAsync("PTTL", "text")).AsInteger(), 1, 3_600_000);
        // Of the same view many at once.
        string?[] same = await Task.WhenAll(Enumerable.Range(0, 20).Select(_ => view.GetAsync("number").AsTask()));
        Assert.All(same, n => Assert.Equal("7", n));
        await Assert.ThrowsAsync<PastReadOnlyException>(async () => await view.ExecuteAsync("SET", "text", "x"));
        PastException wrong = await Assert.ThrowsAsync<PastException>(async () => await view.GetAsync("list"));
        Assert.StartsWith("WRONGTYPE", wrong.Message);
        await using (PastView version = await session.AsOfAsync(view.Version, last.WorldLine))
        {
            Assert.Equal(view.Version, version.Version);
            Assert.Equal("7", await version.GetAsync("number"));
        }
        await using (PastView ago = await session.AsOfAsync(DateTimeOffset.UtcNow - time))
        {
            Assert.True(ago.Version >= view.Version);
        }
        await using (PastView now = await session.AsOfAsync(TimeSpan.Zero))
        {
            Assert.True(now.Version >= after.Version);
            Assert.Equal("new", await now.GetAsync("text"));
            Assert.Null(await now.GetAsync("number"));
        }
        await Assert.ThrowsAsync<PastNotKeptException>(() => session.AsOfAsync(VersionNumber.Zero));
        await Assert.ThrowsAsync<PastNotKeptException>(() => session.AsOfAsync(DateTimeOffset.UtcNow.AddYears(-1)));
        await Assert.ThrowsAsync<PastNotClosedException>(() => session.AsOfAsync(DateTimeOffset.UtcNow.AddDays(1)));
    }

    // The sum of two accounts is the same in what was there at one time, however transfers go on: each gives before it takes.
    [Fact]
    public async Task TwoShards_AnyInstant_IsOneStateOfBoth()
    {
        const int Total = 2000, Most = 50;
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 2, usesPostgres: false);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        string[] accounts = [cluster.Key(0, "account"), cluster.Key(1, "account")];
        await using SloggerClient client = await ClientCluster.ConnectAsync(cluster);
        await using SloggerSession session = client.OpenSession();
        foreach (string account in accounts) { await session.SetAsync(account, Total / 2); }
        await session.WaitForCommitAsync();
        DateTimeOffset begin = DateTimeOffset.UtcNow;
        using var stop = new CancellationTokenSource();
        Task transfers = Task.Run(async () =>
        {
            var random = new Random(1);
            while (!stop.IsCancellationRequested)
            {
                int from = random.Next(2), amount = random.Next(1, Most);
                await session.IncrementAsync(accounts[1 - from], amount);
                await session.IncrementAsync(accounts[from], -amount);
                // What is shown is made of all that was done to a key.
                await Task.Delay(1);
            }
        });
        HashSet<string> seen = [];
        for (int i = 0; i < 20; i++)
        {
            await Task.Delay(20);
            TimeSpan ago = (DateTimeOffset.UtcNow - begin) * Random.Shared.NextDouble();
            await using PastView view = await session.AsOfAsync(ago);
            long[] amounts = [.. (await Task.WhenAll(accounts.Select(a => view.GetAsync(a).AsTask()))).Select(long.Parse!)];
            Assert.InRange(amounts.Sum(), Total, Total + Most);
            seen.Add(string.Join(' ', amounts));
            // The same again.
            await using PastView again = await session.AsOfAsync(view.Version, view.WorldLine);
            Assert.Equal((view.Version, view.Time), (again.Version, again.Time));
            Assert.Equal(amounts[i % 2], long.Parse((await again.GetAsync(accounts[i % 2]))!, null));
        }
        // What was acknowledged is in an instant that is asked for afterwards, at both.
        string[] keys = [cluster.Key(0, "acknowledged"), cluster.Key(1, "acknowledged")];
        for (int i = 0; i < 3; i++)
        {
            foreach (string key in keys) { await session.SetAsync(key, i); }
            await using PastView now = await session.AsOfAsync(TimeSpan.Zero);
            foreach (string key in keys) { Assert.Equal($"{i}", await now.GetAsync(key)); }
        }
        await stop.CancelAsync();
        await transfers;
        Assert.True(seen.Count > 5, "hardly anything was transferred meanwhile");
    }

    // Versions of a second, so that what is written last is not committed when Redis dies.
    [Fact]
    public async Task VersionThatARollbackTookBack_IsVoid_AndTheOneBeforeIsThere()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(VersionInterval: "1s"));
        await deployment.StartAsync();
        await using SloggerClient client = await SloggerClient.ConnectAsync(deployment.Endpoint.ToString()!);
        await using SloggerSession session = client.OpenSession();
        Result<long> first = await session.IncrementAsync("visits");
        await session.WaitForCommitAsync();
        Result<long> lost = await session.IncrementAsync("visits");
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        RollbackException rollback = await Assert.ThrowsAsync<RollbackException>(() => session.WaitForCommitAsync());
        Assert.Equal(OperationFate.Lost, rollback.FateOf(lost.Sequence));
        await Assert.ThrowsAsync<RollbackException>(() => session.AsOfAsync(first.Version));
        session.Resume(rollback);

        PastVoidException e = await Assert.ThrowsAsync<PastVoidException>(() => session.AsOfAsync(lost.Version, lost.WorldLine));
        Assert.Equal(session.WorldLine, e.WorldLine);
        Assert.True(e.Survived >= first.Version && e.Survived < lost.Version);
        await using PastView view = await session.AsOfAsync(e.Survived, first.WorldLine);
        Assert.Equal((e.Survived, "1"), (view.Version, await view.GetAsync("visits")));
    }
}
