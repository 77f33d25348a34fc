// The real file layer: with real threads, of which one appends, one syncs, or as many as the log has directories, one reads, one trims;
// and with other names for directories.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Checkpoints;
using Slogger.Log.Files;
using Slogger.Log.Format;
using static Slogger.Log.Tests.LogFixture;

namespace Slogger.Log.Tests;

public sealed class RealDiskTests : IDisposable
{
    private readonly string _directory = Path.Combine(Path.GetTempPath(), $"slogger-log-{Guid.NewGuid():n}");

    public void Dispose() => Directory.Delete(_directory, recursive: true);

    // Whole sectors go past the page cache, all else through it: whoever reads must not see the difference.
    [Fact]
    public void File_WrittenDirectlyAndThroughTheCache_ReadsAsOne()
    {
        Directory.CreateDirectory(_directory);
        string path = Path.Combine(_directory, "file");
        using ILogFile file = SystemFileLayer.Instance.Create(path);
        const int length = 1 << 20;
        file.Allocate(length);
        var random = new Random(3);
        byte[] expected = new byte[length];
        ArraySegment<byte> buffer = AlignedBuffer.Allocate(64 << 10);
        byte[] read = new byte[length];
        for (int i = 0; i < 400; i++)
        {
            bool whole = random.Next(3) > 0;
            int unit = whole ? 512 : 1;
            int count = random.Next(1, buffer.Count / unit) * unit;
            int at = random.Next((length - count) / unit) * unit;
            random.NextBytes(buffer.AsSpan(0, count));
            buffer.AsSpan(0, count).CopyTo(expected.AsSpan(at));
            file.Write(buffer.AsSpan(0, count), at);
            if (i % 3 == 0) { file.SyncData(); }
            Assert.Equal(length, file.Read(read, 0));
            Assert.True(read.AsSpan().SequenceEqual(expected), $"after write {i} of {count} bytes at {at}");
        }
        Assert.Equal(expected, File.ReadAllBytes(path));
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    public void AppendSyncReadAndTrim_Together_KeepTheStreamWhole(int directories)
    {
        const int seed = 7;
        const int total = 40_000_000;
        VersionLogOptions options = Options(SystemFileLayer.Instance, Path.Combine(_directory, "log")) with
        {
            MoreDirectories = [.. Enumerable.Range(1, directories - 1).Select(i => Path.Combine(_directory, $"log{i}"))],
            SegmentBytes = 2 << 20, BlockBytes = 128 << 10, BufferBytes = 1 << 20, PrepareInBackground = true,
        };
        using (VersionLog log = Begun(options))
        {
            bool isDone = false;
            long read = 1000;
            Exception? failure = null;
            Thread[] syncers = [.. Enumerable.Range(0, log.SyncsAtATime).Select(_ => Start(() =>
            {
                while (!Volatile.Read(ref isDone))
                {
                    long target = log.EndOffset;
                    Boundary? last = log.LastBoundary;
                    Assert.InRange(log.Sync(), target, log.EndOffset);
                    if (last is { } appended) { Assert.True(log.DurableBoundary?.Version >= appended.Version); }
                }
            }))];
            Assert.Equal(directories, syncers.Length);
            Thread reader = Start(() =>
            {
                using LogReader from = log.OpenReader(1000);
                byte[] buffer = new byte[300_000];
                while (from.Position < 1000 + total)
                {
                    int count = from.Read(buffer);
                    if (count == 0)
                    {
                        Thread.Sleep(1);
                    }
                    Assert.True(buffer.AsSpan(0, count).SequenceEqual(Stream(from.Position - count, count)));
                    Volatile.Write(ref read, from.Position);
                }
            });
            var random = new Random(seed);
            long version = 10;
            while (log.EndOffset < 1000 + total && Volatile.Read(ref failure) is null)
            {
                int count = (int)Math.Min(random.Next(1, 200_000), 1000 + total - log.EndOffset);
                log.Append(Stream(log.EndOffset, count));
                log.AppendBoundary(Closed(log, version++));
                log.AppendEmptyRun(new VersionNumber(version++), default);
                if (random.Next(20) == 0)
                {
                    log.TrimBefore(Volatile.Read(ref read) - 5_000_000);
                }
            }
            reader.Join();
            Volatile.Write(ref isDone, true);
            foreach (Thread syncer in syncers) { syncer.Join(); }
            Assert.Null(failure);
            log.Sync();

            Thread Start(Action work)
            {
                var thread = new Thread(() =>
                {
                    try
                    {
                        work();
                    }
                    catch (Exception e)
                    {
                        failure = e;
                    }
                });
                thread.Start();
                return thread;
            }
        }
        using VersionLog again = VersionLog.Open(options);
        Assert.False(again.Report.TornTail);
        Assert.Equal(1000 + total, again.EndOffset);
        Assert.True(again.StartOffset > 1_000_000);
        Assert.True(ReadAll(again, again.StartOffset).AsSpan().SequenceEqual(
            Stream(again.StartOffset, (int)(again.EndOffset - again.StartOffset))));
        again.Verify();
        Assert.Throws<LogFencedException>(() => VersionLog.Open(options));
    }

    // The log's own directory has two names, and the other one moves to another disk.
    [Fact]
    public void Open_DirectoriesHaveOtherPaths_GoesOn()
    {
        string home = Path.Combine(_directory, "log"), link = Path.Combine(_directory, "link"), more = Path.Combine(_directory, "log1"),
            moved = Path.Combine(_directory, "moved");
        VersionLogOptions options = Options(SystemFileLayer.Instance, home) with { MoreDirectories = [more] };
        using (VersionLog log = Begun(options))
        {
            Write(log, 5000, 10);
            log.Sync();
        }
        Directory.CreateSymbolicLink(link, home);
        int end = 5000;
        foreach ((string own, string other) in ((string, string)[])[(link, more), (home, more), (link, moved), (home, moved)])
        {
            if (!Directory.Exists(other)) { Directory.Move(more, other); }
            using VersionLog log = VersionLog.Open(options with { Directory = own, MoreDirectories = [other] });
            Assert.Equal(Stream(1000, end), ReadAll(log, 1000));
            Write(log, 1000, end);
            log.Sync();
            end += 1000;
        }
    }

    [Fact]
    public void Checkpoints_OnARealDisk_SurviveReopening()
    {
        CheckpointStore store = CheckpointStore.Open(_directory);
        string path = store.NewTemporaryPath();
        File.WriteAllBytes(path, Stream(0, 100_000));
        Checkpoint added = store.Add(path, new Checkpoint
        {
            Origin = Origin, ReplicationId = ReplicationId, Offset = 5000, Database = 3, WorldLine = WorldLine.First.Number,
            CreatedAt = DateTimeOffset.UnixEpoch,
        });
        File.WriteAllText(store.NewTemporaryPath(), "unfinished");
        CheckpointStore again = CheckpointStore.Open(_directory);
        Assert.Equal([added], again.All);
        again.Verify(added);
        Assert.Equal(2, Directory.GetFiles(_directory).Length);
    }
}
