// Many connections at once: compare-and-set has one winner, and nothing recorded is ever below a later branch (I3, I6).
using System.Collections.Concurrent;
using Slogger.Core.Cuts;
using Slogger.Core.WorldLines;
using Slogger.Metadata.Sql;
using static Slogger.Metadata.Tests.Fixtures.Common;

namespace Slogger.Metadata.Tests;

public abstract partial class ConformanceTests
{
    private const int RacersCount = 6;

    private async Task<IMetadataStore[]> RacersAsync()
    {
        string spec = await FreshSpecAsync();
        IMetadataStore[] stores = new IMetadataStore[RacersCount];
        for (int i = 0; i < stores.Length; i++)
        {
            // Long waits: a loaded machine must not turn a wait for a lock into a failure.
            stores[i] = MetadataStoreFactory.Create(spec, new() { CommandTimeout = TimeSpan.FromSeconds(60) });
            await stores[i].InitializeAsync();
        }

        return stores;
    }

    private static async Task DisposeAllAsync(IMetadataStore[] stores)
    {
        foreach (IMetadataStore store in stores)
        {
            await store.DisposeAsync();
        }
    }

    private static async Task<T[]> AllAtOnceAsync<T>(IMetadataStore[] stores, Func<IMetadataStore, int, Task<T>> call)
    {
        using Barrier start = new(stores.Length);
        return await Task.WhenAll(stores.Select((store, i) => Task.Factory.StartNew(
            () =>
            {
                start.SignalAndWait();
                return call(store, i);
            },
            CancellationToken.None,
            TaskCreationOptions.LongRunning,
            TaskScheduler.Default).Unwrap()));
    }

    [Fact]
    public async Task GetOrCreateCluster_ManyProposals_OneWinsForAll()
    {
        IMetadataStore[] stores = await RacersAsync();
        for (int round = 0; round < 10; round++)
        {
            string cluster = $"c{round}";
            ClusterSettings[] seen = await AllAtOnceAsync(
                stores, (s, i) => s.GetOrCreateClusterAsync(cluster, Settings(shards: i + 1, interval: 1000 * (i + 1))));
            Assert.All(seen, s => Assert.Equal(seen[0].ShardCount, s.ShardCount));
            Assert.All(seen, s => Assert.Equal(1000 * s.ShardCount, Assert.Single(s.Grid).IntervalUs));
            Assert.Equal(seen[0].ShardCount, (await stores[0].ShardsAsync(cluster)).Count);
        }

        await DisposeAllAsync(stores);
    }

    [Fact]
    public async Task TakeShardEpoch_ManyTakers_EpochsDifferAndOnlyTheNewestCommits()
    {
        IMetadataStore[] stores = await RacersAsync();
        await stores[0].GetOrCreateClusterAsync("c", Settings());
        for (int round = 1; round <= 10; round++)
        {
            WorldPoint cut = new(new(1), new(round));
            long[] epochs = await AllAtOnceAsync(stores, (s, i) => s.TakeShardEpochAsync("c", Shard0, $"owner{i}"));
            Assert.Equal(RacersCount, epochs.Distinct().Count());
            DurableOutcome[] results = await AllAtOnceAsync(stores, (s, i) => s.RecordAsync("c", Shard0, cut, epochs[i]));
            for (int i = 0; i < RacersCount; i++)
            {
                Assert.Equal(epochs[i] == epochs.Max() ? DurableOutcome.Recorded : DurableOutcome.Deposed, results[i]);
            }

            Assert.Equal($"owner{Array.IndexOf(epochs, epochs.Max())}", (await stores[0].ShardsAsync("c"))[0].Owner);
        }

        await DisposeAllAsync(stores);
    }

    [Fact]
    public async Task BeginWorldLine_ManyManagers_OneStartsEach()
    {
        IMetadataStore[] stores = await RacersAsync();
        await stores[0].GetOrCreateClusterAsync("c", Settings(shards: RacersCount));
        long[] epochs = await AllAtOnceAsync(stores, (s, i) => s.TakeShardEpochAsync("c", new(i), $"owner{i}"));
        for (int line = 2; line <= 12; line++)
        {
            WorldLineResult[] results = await AllAtOnceAsync(
                stores, (s, i) => s.BeginWorldLineAsync(
                    "c", new(i), new(line), DurableClaim.Of(new(new(line - 1), new(100 * line))), epochs[i]));
            int winner = Assert.Single(Enumerable.Range(0, RacersCount), i => results[i].Outcome == WorldLineOutcome.Started);
            // The others have nothing durable: the branch is what was committed, nothing.
            Assert.All(results, r => Assert.Equal(new(new(line), new(0)), r.Current));
            Assert.Equal(epochs[winner], (await stores[0].WorldLinesAsync("c"))[^1].StartedByEpoch);
        }

        await DisposeAllAsync(stores);
    }

    [Fact]
    public async Task ChangeInterval_ManyAtOnce_EpochsFormOneGrid()
    {
        IMetadataStore[] stores = await RacersAsync();
        await stores[0].GetOrCreateClusterAsync("c", Settings());
        await AllAtOnceAsync(stores, (s, i) => s.ChangeIntervalAsync("c", 100 + i, 1_700_000_000_000_000 + (i * 12_345)));
        ClusterSettings settings = (await stores[0].FindClusterAsync("c"))!;
        Assert.Equal(RacersCount + 1, settings.Grid.Count);
        settings.Validate();
        await DisposeAllAsync(stores);
    }

    /// <summary>I3 under fire: owners record cuts and are deposed while others branch off; no branch is below what any call
    /// has acknowledged before it in the world-line it ends.</summary>
    [Fact]
    public async Task RecordCut_WhileWorldLinesBegin_NoAcknowledgedCutIsLost()
    {
        int seed = Environment.TickCount;
        TestContext.Current.TestOutputHelper?.WriteLine($"seed {seed}");
        IMetadataStore[] stores = await RacersAsync();
        await stores[0].GetOrCreateClusterAsync("c", Settings());
        ConcurrentBag<WorldPoint> acknowledged = [];
        int begun = 0;
        // Whose turn it is the machine decides: the race goes on until there was one.
        bool WasARace() => Volatile.Read(ref begun) > 1 && acknowledged.Count > 10;
        await AllAtOnceAsync(stores, async (store, racer) =>
        {
            Random random = new(seed + racer);
            long epoch = await store.TakeShardEpochAsync("c", Shard0, $"owner{racer}");
            ShardRecord now = await store.RegisterShardAsync("c", Shard0, "a", "redis");
            long next = now.Durable.Version.Number;
            for (int step = 0; step < 150 || (!WasARace() && step < 5000); step++)
            {
                next += random.Next(3);
                WorldPoint cut = new(now.WorldLine, new(next));
                if (random.Next(6) == 0)
                {
                    // The branch is what this racer knows, which may well be below what others have recorded.
                    long branch = Math.Max(0, next - (random.Next(3) == 0 ? 2 : 0));
                    WorldLineResult result = await store.BeginAsync("c", now.WorldLine.Next, new(branch), epoch);
                    if (result.Outcome == WorldLineOutcome.Started)
                    {
                        Interlocked.Increment(ref begun);
                    }
                }
                else if (await store.RecordAsync("c", Shard0, cut, epoch) == DurableOutcome.Recorded)
                {
                    acknowledged.Add(cut);
                    continue;
                }

                if (random.Next(2) == 0)
                {
                    epoch = await store.TakeShardEpochAsync("c", Shard0, $"owner{racer}");
                }

                now = (await store.ShardsAsync("c"))[0];
                next = Math.Max(now.Durable.Version.Number, next);
            }

            return true;
        });

        IReadOnlyList<WorldLineRecord> lines = await stores[0].WorldLinesAsync("c");
        Assert.True(WasARace(), $"The race was none: {lines.Count} lines (seed {seed}).");
        Assert.Equal(Enumerable.Range(1, lines.Count).Select(n => (long)n), lines.Select(l => l.WorldLine.Number));
        foreach (WorldPoint cut in acknowledged)
        {
            WorldLineRecord? successor = lines.FirstOrDefault(l => l.WorldLine == cut.WorldLine.Next);
            Assert.True(successor is null || successor.BranchCut >= cut.Version, $"{cut} lost by {successor} (seed {seed}).");
        }

        WorldPoint last = (await stores[0].ShardsAsync("c"))[0].Durable;
        Assert.True(acknowledged.Max() <= last, $"{acknowledged.Max()} was acknowledged, {last} is recorded (seed {seed}).");
        await DisposeAllAsync(stores);
    }
}
