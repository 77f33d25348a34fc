// Tests of what a shard needs of the store besides: which commits there are, and rollbacks whose first commit is the caller's.
using System.Text;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commits;

namespace Slogger.Faster.Tests;

public sealed class KeptTests : IDisposable
{
    private static readonly WorldLine One = new(1), Two = new(2);
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-faster-").FullName;

    public void Dispose() => Directory.Delete(_directory, recursive: true);

    [Fact]
    public async Task Rollback_WithoutACommit_LeavesItToTheCaller()
    {
        CommitRecord first;
        using (FasterStore store = FasterStore.OpenAt(Options))
        {
            using FasterWorker worker = store.NewWorker();
            Set(worker, "a", "1");
            first = await store.CommitAsync(One, new(10));
            Set(worker, "a", "2");
            await store.CommitAsync(One, new(20));
            Set(worker, "b", "3");
            bool begun = false;
            Assert.True(await store.RollbackAsync(first.Point, () => begun = true));
            Assert.True(begun);
            Assert.Equal([first], store.Commits);
            Assert.Equal(20, store.Open.Number);
            Assert.Equal(("1", null), (StoreTests.Get(worker, "a"), StoreTests.Get(worker, "b")));
            Set(worker, "c", "4");
            CommitRecord next = await store.BeginCommit(Two, new(30))!;
            Assert.Equal(new WorldPoint(Two, new(29)), next.Point);
        }

        using FasterStore again = FasterStore.OpenAt(Options);
        using FasterWorker reader = again.NewWorker();
        Assert.Equal(("1", null, "4"), (StoreTests.Get(reader, "a"), StoreTests.Get(reader, "b"), StoreTests.Get(reader, "c")));
    }

    [Fact]
    public async Task EmptyStore_OpenAtAnyVersion_CommitsThatVersionFirst()
    {
        using FasterStore store = FasterStore.OpenAt(Options, open: new(0));
        CommitRecord commit = await store.CommitAsync(One, new(1));
        Assert.Equal(new WorldPoint(One, new(0)), commit.Point);
    }

    [Fact]
    public async Task CommitsIn_AreThoseThatOpeningWouldFind()
    {
        Assert.Empty(FasterStore.CommitsIn(Options));
        var commits = new List<CommitRecord>();
        using (FasterStore store = FasterStore.OpenAt(Options))
        {
            using FasterWorker worker = store.NewWorker();
            for (int i = 1; i <= 3; i++)
            {
                Set(worker, "a", new string('x', 1000 * i));
                commits.Add(await store.CommitAsync(One, new(10 * i)));
            }

            Assert.Equal(3, store.CommitCount);
        }

        Assert.Equal(commits, FasterStore.CommitsIn(Options));
        using (FileStream log = File.OpenWrite(Path.Combine(_directory, "log.0")))
        {
            log.Position = commits[1].To - 30;
            log.Write("garbage"u8);
        }

        Assert.Equal(commits[..1], FasterStore.CommitsIn(Options));
    }

    private FasterOptions Options =>
        new() { Directory = _directory, IndexBytes = 4 << 20, MemoryBytes = 64 << 20, PageBits = 20, SegmentBits = 24 };

    private static void Set(FasterWorker worker, string key, string value)
    {
        byte[] name = Encoding.ASCII.GetBytes(key);
        int entered = worker.Enter(name);
        worker.Write(name, Encoding.ASCII.GetBytes(value), 0);
        worker.Exit(entered);
    }
}
