// Tests of the bounds of the FASTER store: memory, disk, compaction, what is kept.
using System.Diagnostics;
using System.Globalization;
using System.Text;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commits;
using Slogger.Faster.Memory;
using Slogger.Faster.Records;

namespace Slogger.Faster.Tests;

public sealed class MemoryTests : IDisposable
{
    private static readonly WorldLine One = new(1);
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-faster-").FullName;

    public void Dispose() => Directory.Delete(_directory, recursive: true);

    [Fact]
    public async Task Overwrites_OfTenTimesTheMemory_StayWithinItAndKeepTheLastValues()
    {
        string[] last = new string[500];
        long diskMax = 0;
        using (FasterStore store = FasterStore.OpenAt(Options))
        {
            using FasterWorker worker = store.NewWorker();
            for (int n = 0; n < 80_000; n++)
            {
                if (n % 500 == 0) store.Keep((await store.CommitAsync(One, store.Open.Next)).Point);
                await UntilThereIsRoom(store);
                string value = n.ToString(CultureInfo.InvariantCulture).PadRight(400, '.');
                Set(worker, $"key:{n * 7 % last.Length}", last[n * 7 % last.Length] = value);
                FasterStatistics now = store.Statistics();
                Assert.InRange(now.LogBytes, 0, now.LogBytesMax);
                diskMax = Math.Max(diskMax, now.DiskBytes);
            }

            Assert.True(store.Statistics().CompactedBytes > 4 * Options.MemoryBytes);
            Assert.Equal(last.Length, store.Statistics().Keys);
            store.Keep((await store.CommitAsync(One, store.Open.Next)).Point);
        }

        // What was cut off in memory stays until a commit is kept that begins behind it: as much again at most.
        Assert.InRange(diskMax, 1, (2 * Options.MemoryBytes) + (2L << Options.SegmentBits));
        using (FasterStore store = FasterStore.OpenAt(Options))
        {
            using FasterWorker worker = store.NewWorker();
            for (int k = 0; k < last.Length; k++) Assert.Equal(last[k], StoreTests.Get(worker, $"key:{k}"));
            Assert.Equal(last.Length, store.Statistics().Keys);
        }
    }

    [Fact]
    public async Task OutOfMemory_WhenTooMuchIsInUse_IsTrueUntilItIsRemoved()
    {
        using FasterStore store = FasterStore.OpenAt(Options);
        using FasterWorker worker = store.NewWorker();
        int keys = 0;
        for (; !store.IsOutOfMemory && keys < 100_000; keys++)
        {
            if (keys % 500 == 0) store.Keep((await store.CommitAsync(One, store.Open.Next)).Point);
            Set(worker, $"key:{keys}", new string('x', 400));
        }

        Assert.InRange(store.Statistics().LiveBytes, Options.MemoryBytes / 2, Options.MemoryBytes);
        for (int k = 0; k < keys; k += 2) Remove(worker, $"key:{k}");
        store.Keep((await store.CommitAsync(One, store.Open.Next)).Point);
        await UntilThereIsRoom(store);
        Set(worker, "one more", "1");
        for (int k = 0; k < keys; k++) Assert.Equal(k % 2 == 0 ? null : new string('x', 400), StoreTests.Get(worker, $"key:{k}"));
        Assert.Equal((keys / 2) + 1, store.Statistics().Keys);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task OutOfMemory_OfWhatOneVersionHasOverwritten_IsOverWhenItIsCommitted(bool isReopened)
    {
        var store = FasterStore.OpenAt(Options);
        string[] last = new string[10];
        using (FasterWorker worker = store.NewWorker())
        {
            // A value that grows makes another record.
            for (int n = 0; !store.IsOutOfMemory && n < 100_000; n++) Set(worker, $"key:{n % 10}", last[n % 10] = new string('x', 100 + n));
        }

        Assert.True(store.IsOutOfMemory);
        Assert.True(store.Statistics().LiveBytes < Options.MemoryBytes / 2);
        CommitRecord commit = await store.CommitAsync(One, store.Open.Next);
        if (isReopened)
        {
            store.Dispose();
            store = FasterStore.OpenAt(Options, commit.Point);
        }

        await UntilThereIsRoom(store);
        using (FasterWorker worker = store.NewWorker())
        {
            for (int k = 0; k < last.Length; k++) Assert.Equal(last[k], StoreTests.Get(worker, $"key:{k}"));
        }

        store.Dispose();
    }

    [Fact]
    public async Task Write_BeyondTheMemoryWithoutAsking_IsRefusedAndNothingIsLost()
    {
        using FasterStore store = FasterStore.OpenAt(Options);
        using FasterWorker worker = store.NewWorker();
        int keys = 0;
        var e = Assert.Throws<InvalidOperationException>(() =>
        {
            for (; keys < 1_000_000; keys++) Set(worker, $"key:{keys}", new string('x', 400));
        });
        Assert.Contains(nameof(FasterStore.IsOutOfMemory), e.Message, StringComparison.Ordinal);
        Assert.True(store.IsOutOfMemory && store.IsPressed);
        for (int k = 0; k < keys; k++) Assert.Equal(400, StoreTests.Get(worker, $"key:{k}")!.Length);
        await store.CommitAsync(One, new(10));
        Assert.Equal(keys, store.Commits[0].Keys);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(5)]
    public async Task Write_OfLargeValuesThatGrow_StaysWithinTheMemory(int threads)
    {
        const int Keys = 10;
        using FasterStore store = FasterStore.OpenAt(Options with { MemoryBytes = 16 << 20, PageBits = 20, SegmentBits = 20 });
        using FasterWorker filler = store.NewWorker();
        // Each leaves almost half of a page empty.
        int[] lengths = [.. Enumerable.Repeat(550_000, Keys)];
        for (int k = 0; k < Keys; k++) Set(filler, $"key:{k}", new string('x', lengths[k]));
        await store.CommitAsync(One, new(10));
        void Fill(int thread)
        {
            using FasterWorker worker = store.NewWorker();
            // Each replaces one far below, in another record.
            for (int n = thread; ; n += threads)
            {
                int key = n % Keys, length = 550_000 + n;
                if (key % threads != thread) continue;
                Set(worker, $"key:{key}", new string('x', length));
                lengths[key] = length;
            }
        }

        await Task.WhenAll(Enumerable.Range(0, threads)
            .Select(t => Task.Factory.StartNew(() => { Assert.Throws<InvalidOperationException>((Action)(() => Fill(t))); },
                TaskCreationOptions.LongRunning)));
        Assert.InRange(store.UsedBytes, store.Budget.Wall, store.Budget.Pages * store.Budget.PageBytes);
        for (int k = 0; k < Keys; k++) Assert.Equal(new string('x', lengths[k]), StoreTests.Get(filler, $"key:{k}"));
        await store.CommitAsync(One, new(20));
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    public async Task Records_WhileTheLogIsCompacted_AreAllThatTheCommitHolds(int seed)
    {
        var load = new Load(seed);
        using FasterStore store = FasterStore.OpenAt(Options with { MemoryBytes = 2 << 20, PageBits = 14 });
        Task running = load.Start(store, threads: 2);
        CommitRecord? before = null;
        while (store.Statistics().CompactedBytes < 10 << 20)
        {
            await Task.Delay(10);
            CommitRecord commit = await store.CommitAsync(One, store.Open.Next);
            store.Keep(commit.Point);
            Dictionary<string, string> found = store.Records(commit)
                .ToDictionary(c => Encoding.ASCII.GetString(c.Key), c => Encoding.ASCII.GetString(c.Value!));
            Assert.Equal(load.StateAt(commit.Point.Version.Number).OrderBy(p => p.Key, StringComparer.Ordinal),
                found.OrderBy(p => p.Key, StringComparer.Ordinal));
            before ??= commit;
        }

        await load.StopAsync(running);
        // Of one that was not kept nobody can tell.
        Assert.Throws<InvalidOperationException>(() => store.Records(before!).Count());
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    public async Task Changes_WhileTheLogIsCompacted_AreThoseOfTheApplicationsOnly(int seed)
    {
        var load = new Load(seed);
        using FasterStore store = FasterStore.OpenAt(Options with { MemoryBytes = 2 << 20, PageBits = 14 });
        Task running = load.Start(store, threads: 2);
        long before = 0;
        int commits = 0;
        // However busy the machine is: until much more was compacted than there is room for.
        while (store.Statistics().CompactedBytes < 10 << 20)
        {
            await Task.Delay(10);
            CommitRecord commit = await store.CommitAsync(One, store.Open.Next);
            commits++;
            var found = store.Changes(commit)
                .ToDictionary(c => Encoding.ASCII.GetString(c.Key), c => c.Value is null ? null : Encoding.ASCII.GetString(c.Value));
            Dictionary<string, string?> expected = load.ChangesBetween(before, commit.Point.Version.Number);
            // A key that was made and removed within the version may leave a removal, or nothing.
            foreach ((string key, string? value) in expected) if (value is null) found.TryAdd(key, null);
            Assert.Equal(expected.OrderBy(p => p.Key, StringComparer.Ordinal), found.OrderBy(p => p.Key, StringComparer.Ordinal));
            before = commit.Point.Version.Number;
            store.Keep(commit.Point);
        }

        await load.StopAsync(running);
        Assert.True(commits > 1);
        CommitRecord last = await store.CommitAsync(One, store.Open.Next);
        Assert.Equal(load.StateAt(last.Point.Version.Number).Count, store.Statistics().Keys);
    }

    [Fact]
    public async Task Changes_OfACommitThatIsNotKept_AreRefused()
    {
        using FasterStore store = FasterStore.OpenAt(Options);
        using FasterWorker worker = store.NewWorker();
        Set(worker, "a", "1");
        CommitRecord first = await store.CommitAsync(One, store.Open.Next);
        for (int n = 0; store.Statistics().CompactedBytes < 2 * Options.MemoryBytes; n++)
        {
            await UntilThereIsRoom(store);
            Set(worker, $"key:{n % 100}", new string('x', 400));
            if (n % 500 == 0) store.Keep((await store.CommitAsync(One, store.Open.Next)).Point);
        }

        Assert.DoesNotContain(first, store.Commits);
        Assert.Throws<InvalidOperationException>(() => store.Changes(first).Count());
        Assert.Equal("1", StoreTests.Get(worker, "a"));
    }

    [Fact]
    public async Task Rollback_ToACommitThatIsKept_FindsAllAlthoughTheLogWasCompactedSince()
    {
        const int Kept = 200;
        using FasterStore store = FasterStore.OpenAt(Options);
        using FasterWorker worker = store.NewWorker();
        for (int k = 0; k < Kept; k++) Set(worker, $"kept:{k}", "1");
        CommitRecord commit = await store.CommitAsync(One, store.Open.Next);
        store.Keep(commit.Point);
        // All of it is copied to the end, in versions that are committed; but the commit that is kept does not hold the copies.
        for (int n = 0; store.Statistics().CompactedBytes < 2 * store.Budget.Step && !store.IsOutOfMemory; n++)
        {
            Set(worker, $"other:{n % 50}", new string('x', 400));
            if (n % 100 == 0) await store.CommitAsync(One, store.Open.Next);
        }

        Assert.True(store.Statistics().CompactedBytes > 0);
        for (int i = 0; i < 5; i++)
        {
            await store.CommitAsync(One, store.Open.Next);
            await Task.Delay(30);
        }

        await store.RollbackAsync(commit.Point, One.Next, store.Open.Next.Next, () => { });
        for (int k = 0; k < Kept; k++) Assert.Equal("1", StoreTests.Get(worker, $"kept:{k}"));
        for (int k = 0; k < 50; k++) Assert.Null(StoreTests.Get(worker, $"other:{k}"));
        Assert.Equal(Kept, store.KeyCount);
    }

    [Fact]
    public async Task Rollback_ThatDoesNotFitIntoTheMemory_IsRefusedAndTheStoreGoesOn()
    {
        CommitRecord commit;
        string value = new('1', 1000), later = new('2', 1000);
        int keys;
        using (FasterStore store = FasterStore.OpenAt(Options))
        {
            using FasterWorker worker = store.NewWorker();
            for (keys = 0; store.UsedBytes < store.Budget.Wall / 2; keys++) Set(worker, $"key:{keys}", value);
            commit = await store.CommitAsync(One, new(10));
            store.Keep(commit.Point);
            for (int k = 0; store.UsedBytes < store.Budget.Wall * 7 / 8; k++) Set(worker, $"key:{k}", later);
            await store.CommitAsync(One, new(20));
            bool begun = false;
            var e = await Assert.ThrowsAsync<InvalidOperationException>(
                () => store.RollbackAsync(commit.Point, One.Next, new(30), () => begun = true));
            Assert.Contains(commit.Point.ToString(), e.Message, StringComparison.Ordinal);
            Assert.False(begun);
            Assert.Equal(later, StoreTests.Get(worker, "key:0"));
            Set(worker, "one more", "1");
            await store.CommitAsync(One, new(40));
            Assert.Equal(3, store.Commits.Count);
        }

        using (FasterStore store = FasterStore.OpenAt(Options, commit.Point))
        {
            using FasterWorker worker = store.NewWorker();
            for (int k = 0; k < keys; k++) Assert.Equal(value, StoreTests.Get(worker, $"key:{k}"));
            Assert.Null(StoreTests.Get(worker, "one more"));
        }
    }

    [Fact]
    public async Task Rollback_OfFewKeysThatWereWrittenOften_FitsIntoTheMemory()
    {
        string value = new('1', 1000);
        using FasterStore store = FasterStore.OpenAt(Options);
        using FasterWorker worker = store.NewWorker();
        int keys = 0;
        // So much that keys and log together would not fit once more, and too little to be compacted.
        for (; store.UsedBytes < store.Budget.Wall * 3 / 16; keys++) Set(worker, $"key:{keys}", value);
        CommitRecord commit = await store.CommitAsync(One, new(10));
        store.Keep(commit.Point);
        // Each of a few keys again and again: what they were is little.
        for (int n = 0; store.UsedBytes < store.Budget.Wall * 6 / 16; n++) Set(worker, $"key:{n % 10}", new string('2', 1000 + n));
        Assert.NotNull(await store.RollbackAsync(commit.Point, One.Next, new(20), () => { }));
        for (int k = 0; k < keys; k++) Assert.Equal(value, StoreTests.Get(worker, $"key:{k}"));
    }

    [Fact]
    public async Task Keep_OfAPoint_LeavesTheNewestCommitUpToIt()
    {
        using FasterStore store = FasterStore.OpenAt(Options);
        for (int v = 10; v <= 50; v += 10) await store.CommitAsync(One, new(v));
        store.Keep(new(One, new(35)));
        await Eventually(() => store.Commits.Count == 3);
        Assert.Equal([29, 39, 49], store.Commits.Select(c => c.Point.Version.Number));
        store.Keep(new(new(9), new(1000)));
        await Eventually(() => store.Commits.Count == 1);
        Assert.Equal(49, store.Commits[0].Point.Version.Number);
    }

    [Fact]
    public async Task Read_WithoutALockBesideWriters_IsNeverOfTwoValues()
    {
        using FasterStore store = FasterStore.OpenAt(Options with { MemoryBytes = 256 << 20, PageBits = 20, SegmentBits = 22 });
        byte[][] keys = [.. Enumerable.Range(0, 4).Select(k => new[] { (byte)k })];
        using var stop = new CancellationTokenSource();
        Task writing = Task.Factory.StartNew(() => WriteUntil(store, keys, stop.Token), TaskCreationOptions.LongRunning);
        using FasterWorker reader = store.NewWorker();
        var buffer = new ValueBuffer();
        int read = 0, torn = 0;
        for (int n = 0; n < 40; n++)
        {
            var clock = Stopwatch.StartNew();
            while (clock.ElapsedMilliseconds < 20)
            {
                foreach (byte[] key in keys)
                {
                    if (!reader.TryRead(key, buffer, out long expiry, out int length)) continue;
                    read++;
                    // A value is its length's number of one byte, which is its expiry.
                    if (length != buffer.Bytes.Length || length != 8 + ((int)expiry * 3)
                        || buffer.Bytes.IndexOfAnyExcept((byte)expiry) >= 0) torn++;
                }
            }

            if (n % 8 == 0) store.Keep((await store.CommitAsync(One, store.Open.Next)).Point);
        }

        await stop.CancelAsync();
        await writing;
        Assert.Equal(0, torn);
        Assert.True(read > 0);
    }

    [Fact]
    public void Operations_OnKeysThatAreThere_AllocateNothing()
    {
        using FasterStore store = FasterStore.OpenAt(Options);
        using FasterWorker worker = store.NewWorker();
        var buffer = new ValueBuffer();
        byte[] key = [1, 2, 3], value = new byte[100];
        for (int round = 0; round < 3; round++)
        {
            long before = GC.GetAllocatedBytesForCurrentThread();
            for (int n = 0; n < 10_000; n++)
            {
                store.Throttle();
                int entered = worker.Enter(key);
                worker.Write(key, value, n);
                worker.Exit(entered);
                worker.TryRead(key, buffer, out _, out _);
            }

            // The first time methods are compiled.
            if (round == 2) Assert.Equal(0, GC.GetAllocatedBytesForCurrentThread() - before);
        }
    }

    [Fact]
    public void Budget_OfAnyNumberOfPages_LeavesRoomBetweenItsBounds()
    {
        for (int pages = 4; pages <= 1 << 20; pages *= 2)
        {
            var budget = new LogBudget(1 << 16, pages);
            Assert.True(0 < budget.Step && budget.LiveMax < budget.Pressed && budget.Pressed < budget.Full && budget.Full < budget.Wall
                && budget.Wall + (2 * budget.PageBytes) <= pages * budget.PageBytes);
            Assert.False(budget.IsWorthwhile(budget.LiveMax / 2, budget.LiveMax / 2));
            // What is in use at most leaves enough to give back before writers are slowed down.
            Assert.True(budget.IsWorthwhile(budget.Pressed, budget.LiveMax));
        }
    }

    private FasterOptions Options =>
        new() { Directory = _directory, IndexBytes = 1 << 20, MemoryBytes = 4 << 20, PageBits = 14, SegmentBits = 16 };

    private static void WriteUntil(FasterStore store, byte[][] keys, CancellationToken stop)
    {
        using FasterWorker worker = store.NewWorker();
        var random = new Random(1);
        byte[] value = new byte[1000];
        while (!stop.IsCancellationRequested)
        {
            store.Throttle();
            byte[] key = keys[random.Next(keys.Length)];
            int kind = random.Next(256);
            value.AsSpan().Fill((byte)kind);
            int entered = worker.Enter(key);
            worker.Write(key, value.AsSpan(0, 8 + (kind * 3)), kind);
            worker.Exit(entered);
        }
    }

    private static async Task UntilThereIsRoom(FasterStore store)
    {
        long start = Stopwatch.GetTimestamp();
        while (store.IsOutOfMemory)
        {
            // What was copied is in the next commit.
            store.Keep((await store.CommitAsync(One, store.Open.Next)).Point);
            await Task.Delay(5);
            if (Stopwatch.GetElapsedTime(start) > TimeSpan.FromMinutes(2)) throw new TimeoutException($"no room: {store.Statistics()}");
        }
    }

    private static async Task Eventually(Func<bool> condition)
    {
        long start = Stopwatch.GetTimestamp();
        while (!condition())
        {
            if (Stopwatch.GetElapsedTime(start) > TimeSpan.FromMinutes(1)) throw new TimeoutException("not in a minute");
            await Task.Delay(5);
        }
    }

    private static void Set(FasterWorker worker, string key, string value)
    {
        byte[] name = Encoding.ASCII.GetBytes(key);
        int entered = worker.Enter(name);
        try
        {
            worker.Write(name, Encoding.ASCII.GetBytes(value), 0);
        }
        finally
        {
            worker.Exit(entered);
        }
    }

    private static void Remove(FasterWorker worker, string key)
    {
        byte[] name = Encoding.ASCII.GetBytes(key);
        int entered = worker.Enter(name);
        worker.Remove(name);
        worker.Exit(entered);
    }
}
