// Tests of the note in a record that another has replaced it: compaction passes over such records, so it must never count where the other
// one is gone or was never there: behind a restart at an earlier version, and behind a rollback.
using System.Diagnostics;
using System.Text;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commits;

namespace Slogger.Faster.Tests;

public sealed class ReplacedTests : IDisposable
{
    private const int Keys = 300;
    private static readonly WorldLine One = new(1);
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-faster-").FullName;
    private readonly WatchedFiles _files = new();

    public void Dispose() => Directory.Delete(_directory, recursive: true);

    [Fact]
    public async Task Restart_AtACommitThatWasWrittenAfterItsRecordsHadBeenReplaced_LosesNoneToCompaction()
    {
        CommitRecord commit;
        using (FasterStore store = FasterStore.OpenAt(Options))
        {
            using FasterWorker worker = store.NewWorker();
            _files.Failing = Path.Combine(_directory, "log.");
            SetAll(worker, "old");
            Task<CommitRecord> durable = store.CommitAsync(One, store.Open.Next);
            SetAll(worker, "new");
            await Assert.ThrowsAsync<IOException>(() => durable);
            // From here on it can be written, and is: as it is in memory now.
            _files.Failing = null;
            await UntilAsync(() => store.Commits.Count > 0);
            commit = store.Commits[^1];
        }

        using (FasterStore store = FasterStore.OpenAt(Options))
        {
            Assert.Equal(commit.Point, store.Commits[^1].Point);
            using FasterWorker worker = store.NewWorker();
            AssertAll(worker, "old");
            await CompactAsync(store, worker);
            AssertAll(worker, "old");
            Assert.Equal(Keys + 100, store.KeyCount);
        }
    }

    [Fact]
    public async Task Rollback_ToRecordsThatHadBeenReplaced_LosesNoneToCompaction()
    {
        using FasterStore store = FasterStore.OpenAt(Options);
        using FasterWorker worker = store.NewWorker();
        SetAll(worker, "old");
        CommitRecord commit = await store.CommitAsync(One, store.Open.Next);
        store.Keep(commit.Point);
        SetAll(worker, "new");
        await store.RollbackAsync(commit.Point, One.Next, store.Open.Next.Next, () => { });
        AssertAll(worker, "old");
        await CompactAsync(store, worker);
        AssertAll(worker, "old");
        Assert.Equal(Keys + 100, store.KeyCount);
    }

    [Fact]
    public async Task Changes_ThatHaveBeenReplacedSince_AreReadAsTheyWere()
    {
        using FasterStore store = FasterStore.OpenAt(Options);
        using FasterWorker worker = store.NewWorker();
        SetAll(worker, "old", expiryMs: 4_000_000_000_000);
        CommitRecord commit = await store.CommitAsync(One, store.Open.Next);
        SetAll(worker, "new");
        Change[] changes = [.. store.Changes(commit)];
        Assert.Equal(Keys, changes.Length);
        Assert.All(changes, c => Assert.Equal(("old", 4_000_000_000_000), (Encoding.ASCII.GetString(c.Value!), c.ExpiryMs)));
    }

    private FasterOptions Options =>
        new() { Directory = _directory, IndexBytes = 1 << 20, MemoryBytes = 4 << 20, PageBits = 14, SegmentBits = 16, Files = _files };

    // Until all that there was has been cut off: what is still there has been copied.
    private static async Task CompactAsync(FasterStore store, FasterWorker worker)
    {
        byte[] filling = new byte[400];
        long start = Stopwatch.GetTimestamp(), end = store.Kv.Log.TailAddress;
        while (store.Kv.Log.BeginAddress < end)
        {
            for (int k = 0; k < 100 && !store.IsOutOfMemory; k++) worker.Set(Encoding.ASCII.GetBytes($"filling:{k}"), filling, 0);
            store.Keep((await store.CommitAsync(store.Commits[^1].Point.WorldLine, store.Open.Next)).Point);
            if (Stopwatch.GetElapsedTime(start) > TimeSpan.FromMinutes(2))
                throw new TimeoutException($"compaction does not go on: {store.Statistics()}");
        }
    }

    private static async Task UntilAsync(Func<bool> condition)
    {
        for (long start = Stopwatch.GetTimestamp(); !condition(); await Task.Delay(5))
            if (Stopwatch.GetElapsedTime(start) > TimeSpan.FromMinutes(1)) throw new TimeoutException();
    }

    private static void SetAll(FasterWorker worker, string value, long expiryMs = 0)
    {
        for (int k = 0; k < Keys; k++) worker.Set(Encoding.ASCII.GetBytes($"key:{k}"), Encoding.ASCII.GetBytes(value), expiryMs);
    }

    private static void AssertAll(FasterWorker worker, string value)
    {
        for (int k = 0; k < Keys; k++) Assert.Equal(value, StoreTests.Get(worker, $"key:{k}"));
    }
}

file static class Writes
{
    public static void Set(this FasterWorker worker, byte[] key, byte[] value, long expiryMs)
    {
        int entered = worker.Enter(key);
        worker.Write(key, value, expiryMs);
        worker.Exit(entered);
    }
}
