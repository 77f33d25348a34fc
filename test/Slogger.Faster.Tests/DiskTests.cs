// Tests of what the FASTER store does with its disk: when a commit is durable, and what happens if the disk is full, or is damaged.
using System.Diagnostics;
using System.Text;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commits;

namespace Slogger.Faster.Tests;

public sealed class DiskTests : IDisposable
{
    private static readonly WorldLine One = new(1);
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-faster-").FullName;
    private readonly WatchedFiles _files = new();

    public void Dispose() => Directory.Delete(_directory, recursive: true);

    [Fact]
    public async Task Commit_ReportedDurable_IsSyncedInTheOrderInWhichItIsNeeded()
    {
        using FasterStore store = FasterStore.OpenAt(Options());
        using FasterWorker worker = store.NewWorker();
        var early = new List<string>();
        // The log is synced, with its files' names, before the commit's file is begun.
        _files.Creating = path => { if (path.EndsWith(".commit", StringComparison.Ordinal)) early.AddRange(_files.Unsynced); };
        for (int i = 0; i < 20; i++)
        {
            for (int k = 0; k < 500; k++) Set(worker, $"key:{k}", $"{i} {new string('x', 100)}");
            await store.CommitAsync(One, store.Open.Next);
            Assert.Empty(_files.Unsynced);
        }

        Assert.Empty(early);
    }

    [Theory]
    [InlineData("log.")]
    [InlineData("commits")]
    public async Task Commit_WhileTheDiskIsFull_FailsAndTheNextOneHoldsAll(string what)
    {
        CommitRecord last;
        using (FasterStore store = FasterStore.OpenAt(Options()))
        {
            using FasterWorker worker = store.NewWorker();
            Set(worker, "before", "1");
            CommitRecord before = await store.CommitAsync(One, new(10));
            Set(worker, "meanwhile", "1");
            _files.Failing = Path.Combine(_directory, what);
            IOException e = await Assert.ThrowsAsync<IOException>(() => store.CommitAsync(One, new(20)));
            Assert.Contains("No space left", e.Message, StringComparison.Ordinal);
            // The store goes on.
            Assert.Equal(before, Assert.Single(store.Commits));
            Assert.Equal(20, store.Open.Number);
            Set(worker, "behind", "1");
            Assert.Equal("1", StoreTests.Get(worker, "meanwhile"));
            _files.Failing = null;
            last = await store.CommitAsync(One, new(30));
            Assert.Equal(29, last.Point.Version.Number);
            string[] changed = [.. store.Commits.SkipWhile(c => c != before).Skip(1).SelectMany(store.Changes)
                .Select(c => Encoding.ASCII.GetString(c.Key)).Order()];
            Assert.Equal(["behind", "meanwhile"], changed);
        }

        using (FasterStore store = FasterStore.OpenAt(Options()))
        {
            using FasterWorker worker = store.NewWorker();
            Assert.Equal(last.Point, store.Commits[^1].Point);
            Assert.Equal(("1", "1", "1"),
                (StoreTests.Get(worker, "before"), StoreTests.Get(worker, "meanwhile"), StoreTests.Get(worker, "behind")));
        }
    }

    [Fact]
    public async Task Commit_OnASmallDiskThatFillsUp_IsMadeWhenThereIsRoomAgain()
    {
        Assert.SkipUnless(Environment.IsPrivilegedProcess && OperatingSystem.IsLinux(), "mounting a small tmpfs needs root");
        string mount = Path.Combine(_directory, "small"), filler = Path.Combine(mount, "filler");
        Directory.CreateDirectory(mount);
        Assert.SkipUnless(Run("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", mount) == 0, "cannot mount a tmpfs here");
        try
        {
            var options = new FasterOptions { Directory = Path.Combine(mount, "store"), IndexBytes = 1 << 20, MemoryBytes = 64 << 20,
                PageBits = 16, SegmentBits = 20 };
            using (FasterStore store = FasterStore.OpenAt(options))
            {
                using FasterWorker worker = store.NewWorker();
                await File.WriteAllBytesAsync(filler, new byte[8 << 20]);
                for (int k = 0; k < 12_000; k++) Set(worker, $"key:{k}", new string('x', 1000));
                await Assert.ThrowsAsync<IOException>(() => store.CommitAsync(One, new(10)));
                Set(worker, "later", "1");
                File.Delete(filler);
                await store.CommitAsync(One, new(20));
            }

            using (FasterStore store = FasterStore.OpenAt(options))
            {
                using FasterWorker worker = store.NewWorker();
                Assert.Equal(19, store.Commits[^1].Point.Version.Number);
                Assert.Equal(12_001, store.Statistics().Keys);
                for (int k = 0; k < 12_000; k++) Assert.Equal(1000, StoreTests.Get(worker, $"key:{k}")!.Length);
            }
        }
        finally
        {
            Run("umount", mount);
        }
    }

    [Theory]
    [InlineData("cut")]
    [InlineData("garbage")]
    [InlineData("empty")]
    [InlineData("gone")]
    public async Task Open_WhenTheNewestCommitWasNotFinished_IsAtTheOneBefore(string how)
    {
        (CommitRecord first, CommitRecord second) = await TwoCommits();
        string path = Path.Combine(_directory, "commits", second.Token.ToString("N") + ".commit");
        byte[] bytes = await File.ReadAllBytesAsync(path);
        byte[] torn = how switch { "cut" => bytes[..^7], "empty" => [], _ => [.. bytes[..20], .. new byte[16], .. bytes[36..]] };
        if (how == "gone") File.Delete(path);
        else await File.WriteAllBytesAsync(path, torn);
        using FasterStore store = FasterStore.OpenAt(Options());
        using FasterWorker worker = store.NewWorker();
        Assert.Equal(first.Point, Assert.Single(store.Commits).Point);
        Assert.Equal(("1", null), (StoreTests.Get(worker, "a"), StoreTests.Get(worker, "b")));
        Assert.Null(store.Damage);
        Assert.False(File.Exists(path));
        // The next commit is of its own.
        Set(worker, "c", "3");
        await store.CommitAsync(One, new(40));
        Assert.Equal(2, store.Commits.Count);
    }

    [Theory]
    [InlineData("cut")]
    [InlineData("garbage")]
    public async Task Open_WhenTheEndOfTheLogIsDamaged_IsAtTheNewestWholeCommitAndSaysSo(string how)
    {
        (CommitRecord first, CommitRecord second) = await TwoCommits();
        string path = Path.Combine(_directory, "log.0");
        using (FileStream log = File.OpenWrite(path))
        {
            if (how == "cut") log.SetLength(second.To - 5);
            log.Position = second.To - 30;
            if (how == "garbage") log.Write("garbage"u8);
        }

        using (FasterStore store = FasterStore.OpenAt(Options()))
        {
            using FasterWorker worker = store.NewWorker();
            Assert.Equal(first.Point, Assert.Single(store.Commits).Point);
            Assert.Equal(("1", null), (StoreTests.Get(worker, "a"), StoreTests.Get(worker, "b")));
            Assert.Contains("damaged", store.Damage!, StringComparison.Ordinal);
        }

        // Whoever knows that the second was durable is told that it is not there.
        Assert.Throws<InvalidOperationException>(() => FasterStore.OpenAt(Options(), second.Point));

        // What is written in its place is not taken for its damage.
        CommitRecord third;
        using (FasterStore store = FasterStore.OpenAt(Options()))
        {
            using FasterWorker worker = store.NewWorker();
            Set(worker, "d", "4");
            third = await store.CommitAsync(new WorldLine(2), new(second.Point.Version.Number + 10));
        }

        using (FasterStore store = FasterStore.OpenAt(Options(), third.Point))
        {
            using FasterWorker worker = store.NewWorker();
            Assert.Null(store.Damage);
            Assert.Equal(("1", null, "4"), (StoreTests.Get(worker, "a"), StoreTests.Get(worker, "b"), StoreTests.Get(worker, "d")));
        }
    }

    [Fact]
    public async Task Dispose_WhileTheDiskIsFull_EndsWithoutTheCommit()
    {
        using (FasterStore store = FasterStore.OpenAt(Options()))
        {
            using FasterWorker worker = store.NewWorker();
            Set(worker, "a", "1");
            _files.Failing = Path.Combine(_directory, "log.");
            await Assert.ThrowsAsync<IOException>(() => store.CommitAsync(One, new(10)));
        }

        _files.Failing = null;
        using FasterStore again = FasterStore.OpenAt(Options());
        Assert.Empty(again.Commits);
    }

    [Fact]
    public async Task Dispose_WhileTheDiskIsFull_TellsThoseWhoWaitForTheirTurn()
    {
        Task<CommitRecord> waiting;
        using (FasterStore store = FasterStore.OpenAt(Options()))
        {
            using FasterWorker worker = store.NewWorker();
            Set(worker, "a", "1");
            _files.Failing = Path.Combine(_directory, "log.");
            await Assert.ThrowsAsync<IOException>(() => store.CommitAsync(One, new(10)));
            waiting = store.CommitAsync(One, new(20));
            Assert.False(waiting.IsCompleted);
        }

        await Assert.ThrowsAsync<ObjectDisposedException>(() => waiting.WaitAsync(TimeSpan.FromMinutes(1)));
        Assert.Equal(0, _files.OpenCount);
    }

    [Theory]
    [InlineData("log.2")]
    [InlineData(".commit")]
    public async Task Open_ThatFails_LeavesNothingOpen(string what)
    {
        CommitRecord last;
        using (FasterStore store = FasterStore.OpenAt(Options()))
        {
            using FasterWorker worker = store.NewWorker();
            for (int k = 0; k < 1000; k++) Set(worker, $"key:{k}", new string('x', 1000));
            last = await store.CommitAsync(One, new(10));
        }

        _files.Opening = path => { if (path.EndsWith(what, StringComparison.Ordinal))
            throw new IOException($"Input/output error: '{path}'."); };
        Assert.Throws<IOException>(() => FasterStore.OpenAt(Options()));
        Assert.Equal(0, _files.OpenCount);
        _files.Opening = null;
        using FasterStore again = FasterStore.OpenAt(Options());
        Assert.Equal(last.Point, again.Commits[^1].Point);
    }

    [Fact]
    public async Task Open_WithAnotherPageSize_IsRefused()
    {
        await TwoCommits();
        var e = Assert.Throws<InvalidDataException>(() => FasterStore.OpenAt(Options() with { PageBits = 15 }));
        Assert.Contains("2^16", e.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Open_WhileAnotherHasTheDirectory_IsRefused()
    {
        using FasterStore store = FasterStore.OpenAt(Options());
        var e = Assert.Throws<InvalidOperationException>(() => FasterStore.OpenAt(Options()));
        Assert.Contains("in use", e.Message, StringComparison.Ordinal);
    }

    private async Task<(CommitRecord First, CommitRecord Second)> TwoCommits()
    {
        using FasterStore store = FasterStore.OpenAt(Options());
        using FasterWorker worker = store.NewWorker();
        Set(worker, "a", "1");
        CommitRecord first = await store.CommitAsync(One, new(10));
        Set(worker, "a", "2");
        Set(worker, "b", "2");
        return (first, await store.CommitAsync(One, new(20)));
    }

    private FasterOptions Options() =>
        new() { Directory = _directory, IndexBytes = 1 << 20, MemoryBytes = 16 << 20, PageBits = 16, SegmentBits = 18, Files = _files };

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

    private static int Run(string program, params string[] words)
    {
        using Process process = Process.Start(new ProcessStartInfo(program, words) { RedirectStandardError = true })!;
        process.WaitForExit();
        return process.ExitCode;
    }
}
