// Tests of the FASTER store: records, commits and what they hold, going back, by several threads at once.
using System.Text;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commits;
using Slogger.Faster.Records;

namespace Slogger.Faster.Tests;

public sealed class StoreTests : IDisposable
{
    private static readonly WorldLine One = new(1), Two = new(2);
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-faster-").FullName;
    private readonly ValueBuffer _buffer = new();

    public void Dispose() => Directory.Delete(_directory, recursive: true);

    [Fact]
    public void Record_WrittenReadAndRemoved_IsWhatWasWritten()
    {
        using FasterStore store = Open();
        using FasterWorker worker = store.NewWorker();
        Assert.Null(Get(worker, "a"));
        Set(worker, "a", "one", 77);
        Assert.Equal("one", Get(worker, "a"));
        Assert.True(worker.TryRead("a"u8, null, out long expiry, out int length));
        Assert.Equal((77, 3), (expiry, length));
        Set(worker, "a", "a longer value than the one before", 0);
        Assert.Equal("a longer value than the one before", Get(worker, "a"));
        Set(worker, "a", "", 0);
        Assert.Equal("", Get(worker, "a"));
        Remove(worker, "a");
        Assert.Null(Get(worker, "a"));
        Set(worker, "", "of the empty key", 0);
        Assert.Equal("of the empty key", Get(worker, ""));
    }

    [Fact]
    public void Record_AsLargeAsAreAllowed_IsKept()
    {
        using FasterStore store = FasterStore.OpenAt(new() { Directory = _directory, IndexBytes = 1 << 20, MemoryBytes = 256 << 20 });
        using FasterWorker worker = store.NewWorker();
        byte[] key = [.. Enumerable.Repeat((byte)'k', 64 << 10)], value = new byte[16 << 20];
        new Random(1).NextBytes(value);
        int stripe = worker.Enter(key);
        worker.Write(key, value, 5);
        worker.Exit(stripe);
        Assert.True(worker.TryRead(key, _buffer, out _, out int length));
        Assert.Equal(value.Length, length);
        Assert.True(_buffer.Bytes.SequenceEqual(value));
    }

    [Fact]
    public async Task Commit_OpenedAgain_HoldsWhatWasBeforeItAndNothingElse()
    {
        using (FasterStore store = Open())
        {
            using FasterWorker worker = store.NewWorker();
            Set(worker, "kept", "1", 0);
            Set(worker, "removed", "1", 0);
            CommitRecord first = await store.CommitAsync(One, new(1000));
            Assert.Equal(new WorldPoint(One, new(999)), first.Point);
            Assert.Equal(1000, store.Open.Number);
            Set(worker, "kept", "2", 9);
            Remove(worker, "removed");
            await store.CommitAsync(One, new(1001));
            Set(worker, "kept", "3", 0);
            Set(worker, "lost", "3", 0);
        }

        using (FasterStore store = Open())
        {
            using FasterWorker worker = store.NewWorker();
            Assert.Equal(("2", null, null), (Get(worker, "kept"), Get(worker, "removed"), Get(worker, "lost")));
            Assert.Equal(2, store.Commits.Count);
        }

        using (FasterStore store = Open(new WorldPoint(One, new(999))))
        {
            using FasterWorker worker = store.NewWorker();
            Assert.Equal(("1", "1", null), (Get(worker, "kept"), Get(worker, "removed"), Get(worker, "lost")));
            Assert.Single(store.Commits);
        }

        using (FasterStore store = Open()) Assert.Equal(1000, store.Open.Number);
        Assert.Throws<ArgumentOutOfRangeException>(() => FasterStore.OpenAt(Options, null, new(999)));
        using (FasterStore store = FasterStore.OpenAt(Options, null, new(5000))) Assert.Equal(5000, store.Open.Number);
        using (FasterStore store = Open()) Assert.Equal(999, Assert.Single(store.Commits).Point.Version.Number);
    }

    [Fact]
    public async Task Commit_OfAVersionThatIsNotLater_IsRefused()
    {
        using FasterStore store = Open();
        await store.CommitAsync(One, new(10));
        await Assert.ThrowsAsync<ArgumentOutOfRangeException>(() => store.CommitAsync(One, new(10)));
        await Assert.ThrowsAsync<ArgumentOutOfRangeException>(() => store.CommitAsync(One, new(5)));
        Assert.Equal(10, store.Open.Number);
    }

    [Fact]
    public async Task BeginCommit_AmongAThreadsOperations_EndsTheVersionAtItsPlace()
    {
        using FasterStore store = Open();
        using FasterWorker worker = store.NewWorker();
        Set(worker, "before", "1", 0);
        Task<CommitRecord>? durable = store.BeginCommit(One, new(10));
        Assert.NotNull(durable);
        Assert.Equal(10, store.Open.Number);
        Set(worker, "after", "1", 0);
        CommitRecord first = await durable;
        Assert.Equal(["before"], store.Changes(first).Select(c => Encoding.ASCII.GetString(c.Key)));
        CommitRecord second = await store.CommitAsync(One, new(11));
        Assert.Equal(["after"], store.Changes(second).Select(c => Encoding.ASCII.GetString(c.Key)));
        Assert.Throws<ArgumentOutOfRangeException>(() => { _ = store.BeginCommit(One, new(11)); });
    }

    // A change in place does not lengthen the log; the first one of a version does.
    [Fact]
    public async Task IsChanged_IsTrueFromTheFirstChangeOfAVersionOn()
    {
        using FasterStore store = Open();
        using FasterWorker worker = store.NewWorker();
        Assert.False(store.IsChanged);
        for (int version = 2; version < 6; version++)
        {
            Set(worker, "a", "1", 0);
            Assert.True(store.IsChanged);
            await store.CommitAsync(One, new VersionNumber(version));
            Assert.Equal("1", Get(worker, "a"));
            Remove(worker, "none");
            Assert.False(store.IsChanged);
            // As long as the one before it.
            Set(worker, "a", "2", 0);
            Assert.True(store.IsChanged);
            Set(worker, "a", "1", 0);
            Assert.True(store.IsChanged);
        }

        Remove(worker, "a");
        await store.CommitAsync(One, new VersionNumber(6));
        using (FasterWorker other = store.NewWorker()) { Set(other, "b", "1", 0); }
        Assert.True(store.IsChanged);
        await store.RollbackAsync(new(One, new VersionNumber(5)), Two, new VersionNumber(8), () => { });
        Assert.False(store.IsChanged);
    }

    [Fact]
    public async Task BeginCommit_DuringARollback_DoesNothing()
    {
        using FasterStore store = Open();
        CommitRecord commit = await store.CommitAsync(One, new(10));
        bool refused = false;
        CommitRecord? first = await store.RollbackAsync(commit.Point, Two, new(20),
            () => refused = store.BeginCommit(Two, new(15)) is null);
        Assert.True(refused);
        Assert.Equal(19, first!.Point.Version.Number);
        await store.BeginCommit(Two, new(21))!;
    }

    [Fact]
    public async Task Rollback_ThatIsRefused_LeavesTheOneUnderWayAlone()
    {
        using FasterStore store = Open();
        using FasterWorker worker = store.NewWorker();
        for (int k = 0; k < 5000; k++) Set(worker, $"key:{k}", "1", 0);
        CommitRecord commit = await store.CommitAsync(One, new(10));
        for (int k = 0; k < 5000; k++) Set(worker, $"key:{k}", "2", 0);
        Task<CommitRecord?> first = store.RollbackAsync(commit.Point, Two, new(20), () => { });
        await Assert.ThrowsAsync<InvalidOperationException>(() => store.RollbackAsync(new(One, new(5)), new(3), new(30), () => { }));
        await Assert.ThrowsAsync<ArgumentOutOfRangeException>(() => store.RollbackAsync(commit.Point, new(3), new(2), () => { }));
        Assert.Equal(19, (await first)!.Point.Version.Number);
        for (int k = 0; k < 5000; k++) Assert.Equal("1", Get(worker, $"key:{k}"));
        Assert.Equal(5000, store.KeyCount);
    }

    [Fact]
    public async Task Rollback_ThatIsGivenUpWhileAnotherPurges_LeavesThePurgeToItsEnd()
    {
        using FasterStore store = Open();
        using FasterWorker worker = store.NewWorker();
        for (int k = 0; k < 200_000; k++) Set(worker, $"key:{k}", "1", 0);
        CommitRecord commit = await store.CommitAsync(One, new(10));
        for (int k = 0; k < 200_000; k++) Set(worker, $"key:{k}", "2", 0);
        var begun = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        Task<CommitRecord?> first = store.RollbackAsync(commit.Point, Two, new(20), begun.SetResult);
        await begun.Task;
        await Assert.ThrowsAnyAsync<OperationCanceledException>(
            () => store.RollbackAsync(commit.Point, new(3), new(30), () => { }, new CancellationToken(true)));
        await first;
        // Commits go on.
        CommitRecord last = await store.CommitAsync(new(3), new(40));
        Assert.Equal(39, last.Point.Version.Number);
        for (int k = 0; k < 200_000; k += 100) Assert.Equal("1", Get(worker, $"key:{k}"));
        Assert.Equal(200_000, store.KeyCount);
    }

    // A thread that has found a record of one rollback's stretch may get its key's lock when another has begun, which goes back further.
    [Fact]
    public async Task PutBack_OfARollbackThatAnotherHasOvertaken_ChangesNothing()
    {
        using FasterStore store = Open();
        using FasterWorker worker = store.NewWorker();
        for (int k = 0; k < 100; k++) Set(worker, $"key:{k}", "1", 0);
        CommitRecord first = await store.CommitAsync(One, new(10));
        for (int k = 0; k < 100; k++) Set(worker, $"key:{k}", "2", 0);
        CommitRecord second = await store.CommitAsync(One, new(20));
        for (int k = 0; k < 100; k++) Set(worker, $"key:{k}", "3", 0);
        Task<CommitRecord?> further = Task.FromResult<CommitRecord?>(null);
        CommitRecord? none = await store.RollbackAsync(second.Point, Two, new(30), () =>
        {
            Undo overtaken = store.BeingUndone!;
            // It waits for its turn, and the purge of this one ends before its first key.
            further = store.RollbackAsync(first.Point, new(3), new(40),
                () => worker.PutBack("key:7"u8, FasterWorker.HashOf("key:7"u8), overtaken));
        });
        Assert.Null(none);
        Assert.NotNull(await further);
        for (int k = 0; k < 100; k++) Assert.Equal("1", Get(worker, $"key:{k}"));
    }

    [Fact]
    public void Write_LargerThanAPage_IsRefused()
    {
        using FasterStore store = Open();
        using FasterWorker worker = store.NewWorker();
        Assert.Throws<ArgumentException>(() => worker.Write("a"u8, new byte[1 << 20], 0));
    }

    [Fact]
    public async Task Open_AtACommitThatIsNotThere_SaysWhichAre()
    {
        using (FasterStore store = Open()) await store.CommitAsync(One, new(10));
        var e = Assert.Throws<InvalidOperationException>(() => Open(new WorldPoint(One, new(8))));
        Assert.Contains("9", e.Message, StringComparison.Ordinal);
        using FasterStore again = Open();
        Assert.Single(again.Commits);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    public async Task Versions_UnderLoadOfTwoThreads_HoldExactlyTheirChanges(int seed)
    {
        var commits = new List<CommitRecord>();
        var load = new Load(seed);
        using (FasterStore store = Open())
        {
            Task running = load.Start(store, threads: 2);
            for (int i = 0; i < 12; i++)
            {
                await Task.Delay(20);
                commits.Add(await store.CommitAsync(One, new(store.Open.Number + 1 + (i % 4 * 3))));
            }

            await load.StopAsync(running);
            long before = 0;
            foreach (CommitRecord commit in commits)
            {
                Dictionary<string, string?> expected = load.ChangesBetween(before, commit.Point.Version.Number);
                var found = new Dictionary<string, string?>();
                foreach (Change change in store.Changes(commit))
                    found.Add(Encoding.ASCII.GetString(change.Key), change.Value is null ? null : Encoding.ASCII.GetString(change.Value));
                // A key that was made and removed within the version may leave a removal, or nothing.
                foreach ((string key, string? value) in expected) if (value is null && !found.ContainsKey(key)
                    && load.StateAt(before).GetValueOrDefault(key) is null) found.Add(key, null);
                Assert.Equal(expected.OrderBy(p => p.Key, StringComparer.Ordinal), found.OrderBy(p => p.Key, StringComparer.Ordinal));
                before = commit.Point.Version.Number;
            }
        }

        for (int i = commits.Count - 1; i >= 0; i -= 4)
        {
            using FasterStore store = Open(commits[i].Point);
            using FasterWorker worker = store.NewWorker();
            AssertState(load.StateAt(commits[i].Point.Version.Number), worker);
        }
    }

    [Theory]
    [InlineData(4)]
    [InlineData(5)]
    public async Task Rollback_UnderLoadOfTwoThreads_ShowsNothingThatWasTakenBack(int seed)
    {
        var load = new Load(seed);
        FasterStore store = Open();
        Task running = load.Start(store, threads: 2);
        await Task.Delay(50);
        WorldLine line = One;
        for (int round = 0; round < 6; round++)
        {
            CommitRecord commit = await store.CommitAsync(line, new(store.Open.Number + 1));
            await Task.Delay(30);
            if (round % 2 == 0) await store.CommitAsync(line, new(store.Open.Number + 2));
            await Task.Delay(10);
            line = line.Next;
            // Some twice in short succession: the second comes while the first is under way.
            Task<CommitRecord?> first = store.RollbackAsync(commit.Point, line, new(store.Open.Number + 50),
                () => load.Forget(commit.Point.Version.Number));
            CommitRecord? made = null;
            if (round % 3 == 1)
            {
                line = line.Next;
                made = await store.RollbackAsync(commit.Point, line, new(store.Open.Number + 100),
                    () => load.Forget(commit.Point.Version.Number));
                // It was made before the second began, or not at all; that one may have taken it back.
                await first;
            }
            else
            {
                made = await first;
            }

            Assert.NotNull(made);
            Assert.Equal(line, made.Point.WorldLine);
            Assert.Equal(made, store.Commits[^1]);
        }

        await load.StopAsync(running);
        using (FasterWorker worker = store.NewWorker()) AssertState(load.StateAt(long.MaxValue), worker);
        CommitRecord last = await store.CommitAsync(line, store.Open.Next);
        store.Dispose();
        using FasterStore again = Open();
        using FasterWorker reader = again.NewWorker();
        Assert.Equal(last.Point, again.Commits[^1].Point);
        AssertState(load.StateAt(long.MaxValue), reader);
    }

    private FasterOptions Options =>
        new() { Directory = _directory, IndexBytes = 4 << 20, MemoryBytes = 512 << 20, PageBits = 20, SegmentBits = 24 };

    private FasterStore Open(WorldPoint? at = null) => FasterStore.OpenAt(Options, at);

    private static void AssertState(Dictionary<string, string> expected, FasterWorker worker)
    {
        var wrong = new List<string>();
        foreach (string key in Load.Keys)
        {
            string? found = Get(worker, key), wanted = expected.GetValueOrDefault(key);
            if (found != wanted) wrong.Add($"{key}: {found ?? "none"}, should be {wanted ?? "none"}");
        }

        Assert.Empty(wrong);
    }

    internal static string? Get(FasterWorker worker, string key)
    {
        var buffer = new ValueBuffer();
        return worker.TryRead(Encoding.ASCII.GetBytes(key), buffer, out _, out _) ? Encoding.ASCII.GetString(buffer.Bytes) : null;
    }

    private static void Set(FasterWorker worker, string key, string value, long expiryMs)
    {
        byte[] name = Encoding.ASCII.GetBytes(key);
        int stripe = worker.Enter(name);
        worker.Write(name, Encoding.ASCII.GetBytes(value), expiryMs);
        worker.Exit(stripe);
    }

    private static void Remove(FasterWorker worker, string key)
    {
        byte[] name = Encoding.ASCII.GetBytes(key);
        int stripe = worker.Enter(name);
        worker.Remove(name);
        worker.Exit(stripe);
    }
}
