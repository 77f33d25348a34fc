// A log in several directories: its segments have a file in each, blocks go to them in turn, and what one disk lacks ends all of it (R7).
// What is missing, or is not its own, is told by name. VersionLogCrashTests has the crashes.
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Log.Tests.Simulation;
using static Slogger.Log.Tests.LogFixture;

namespace Slogger.Log.Tests;

public class LogDirectoriesTests
{
    private static VersionLogOptions In(IFileLayer files, params string[] more) =>
        Options(files) with { MoreDirectories = more, SegmentBytes = 64 << 10, BufferBytes = 32 << 10 };

    private static IEnumerable<string> Segments(SimulatedDisk disk, string directory) =>
        disk.List(directory).Where(n => n.EndsWith(".slog", StringComparison.Ordinal));

    [Fact]
    public void Log_InOneDirectory_HasTheFilesItHadBefore()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(In(disk));
        Write(log, 1000, 10);
        log.Sync();
        Assert.Equal(1, log.SyncsAtATime);
        string only = Assert.Single(disk.Paths);
        Assert.Equal("/log/0000000001-000000000001.slog", only);
        Assert.Equal(3, disk.ByteAt(only, BlockFormat.HeaderBytes));
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(7)]
    public void Log_InSeveralDirectories_ReadsAsOne(int more)
    {
        SimulatedDisk disk = NewDisk();
        string[] directories = [.. Enumerable.Range(1, more).Select(i => $"/log{i}")];
        VersionLogOptions options = In(disk, directories) with { SegmentBytes = (1 + more) * (16 << 10) };
        VersionLog log = Begun(options);
        List<Boundary> closed = [];
        for (int i = 0; i < 60; i++)
        {
            closed.Add(Write(log, 1500, 10 + i));
            if (i % 3 == 0) { log.Sync(); }
        }
        log.Sync();
        for (int life = 0; life < 2; life++)
        {
            Assert.Equal(closed, log.Boundaries);
            Assert.Equal(Stream(1000, 90_000), ReadAll(log, 1000));
            Assert.Equal(Stream(33_333, 57_667), ReadAll(log, 33_333));
            Assert.Equal(closed[40], log.BoundaryAtOrBelow(closed[40].Version));
            Assert.All(directories, d => Assert.NotEmpty(Segments(disk, d)));
            log.Verify();
            disk.Kill();
            log = VersionLog.Open(options);
        }
        Assert.False(log.Report.TornTail);
        log.TrimBefore(80_000);
        Assert.Equal(Stream(80_000, 11_000), ReadAll(log, 80_000));
        int kept = Segments(disk, "/log").Count();
        Assert.All(directories, d => Assert.Equal(kept, Segments(disk, d).Count()));
        log.Begin(Origin, WorldLine.First, new VersionNumber(10));
        Assert.All(directories.Prepend("/log"), d => Assert.Single(Segments(disk, d)));
    }

    [Fact]
    public void Segments_NotWrittenToAnyMore_GiveBackWhatTheyDoNotUse()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(In(disk, "/log1"));
        Boundary end = Write(log, 5000, 10);
        log.BeginWorldLine(new WorldLine(2), end, OtherReplicationId);
        long used = disk.LengthOf("/log/0000000001-000000000001.slog")
            + Segments(disk, "/log1").Where(n => n.StartsWith("0000000001-000000000001", StringComparison.Ordinal)).Sum(
                n => disk.LengthOf("/log1/" + n));
        Assert.InRange(used, 5000, 9000);
        Assert.Equal(used + (64 << 10), log.SizeBytes);
        Assert.Equal(Stream(1000, 5000), ReadAll(log, 1000));
    }

    // R7.
    [Fact]
    public void Durable_BlocksAreSyncedBeforeEarlierOnes_WaitsForThose()
    {
        VersionLog log = Begun(In(NewDisk(), "/log1", "/log2") with { BufferBytes = 4 << 10 });
        Write(log, 100, 10);
        log.Sync();
        DealtBlocks[] dealt = Deal(log, 3);
        log.Sync(dealt[2]);
        Assert.Equal(1100, log.DurableOffset);
        log.Sync(dealt[1]);
        Assert.Equal((1100, new VersionNumber(10)), (log.DurableOffset, log.DurableBoundary!.Value.Version));
        log.Sync(dealt[0]);
        Assert.Equal((1100 + 3000, new VersionNumber(13)), (log.DurableOffset, log.DurableBoundary!.Value.Version));
        Assert.Equal(Stream(1000, 3100), ReadAll(log, 1000));
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(2)]
    public void Open_OneDiskHasLostItsBlocks_WhatLiesBehindIsVoidForGood(int lost)
    {
        SimulatedDisk disk = NewDisk();
        VersionLogOptions options = In(disk, "/log1", "/log2") with { BufferBytes = 4 << 10 };
        VersionLog log = Begun(options);
        Write(log, 100, 10);
        log.Sync();
        DealtBlocks[] dealt = Deal(log, 3, written: n => n != lost);
        foreach (DealtBlocks kept in dealt.Where((_, n) => n != lost)) { log.Sync(kept); }
        Assert.Equal(1100 + (lost * 1000), log.DurableOffset);
        for (int life = 0; life < 3; life++)
        {
            disk.Crash();
            log = VersionLog.Open(options);
            Assert.Equal((1100 + (lost * 1000), 10 + lost), (log.EndOffset, log.LastBoundary!.Value.Version.Number));
            Assert.Equal(lost < 2, log.Report.TornTail);
        }
        byte[] other = new byte[5000];
        Array.Fill(other, (byte)7);
        log.Append(other);
        log.AppendBoundary(Closed(log, 20));
        log.Sync();
        for (int life = 0; life < 2; life++)
        {
            disk.Crash();
            log = VersionLog.Open(options);
            Assert.Equal([.. Stream(1000, 100 + (lost * 1000)), .. other], ReadAll(log, 1000));
            log.Verify();
        }
    }

    // A later block that was dealt when this one was durable proves it.
    [Fact]
    public void Open_ABlockThatWasDurableIsGone_IsCorruption()
    {
        SimulatedDisk disk = NewDisk();
        VersionLogOptions options = In(disk, "/log1");
        VersionLog log = Begun(options);
        for (int i = 0; i < 6; i++)
        {
            Write(log, 100, 10 + i);
            log.Sync();
        }
        string file = "/log1/" + Segments(disk, "/log1").First();
        for (int i = 0; i < 512; i++) { disk.Flip(file, i, disk.ByteAt(file, i)); }
        disk.Kill();
        string message = Assert.Throws<LogCorruptException>(() => VersionLog.Open(options)).Message;
        Assert.Contains("a block is missing below blocks written after its sync (files /log/0000000001-000000000001.slog and "
            + $"{file}, position ", message, StringComparison.Ordinal);
        Assert.Contains(" in the segment)", message, StringComparison.Ordinal);
    }

    [Fact]
    public void Open_AByteOfABlockIsFlipped_NamesItsFileAndThePlaceInIt()
    {
        const int seed = 20_240_118;
        var random = new Random(seed);
        SimulatedDisk disk = NewDisk();
        VersionLogOptions options = In(disk, "/log1", "/log2") with { SegmentBytes = 3 * (16 << 10) };
        VersionLog log = Begun(options);
        for (int i = 0; i < 40; i++)
        {
            Write(log, 1500, 10 + i);
            log.Sync();
        }
        Assert.True(Segments(disk, "/log").Count() > 1);
        log.Dispose();
        foreach (string path in disk.Paths.Where(p => p.EndsWith(".slog", StringComparison.Ordinal)).ToList())
        {
            // A block does not end with a zero.
            long end = disk.LengthOf(path);
            while (end > 0 && disk.ByteAt(path, end - 1) == 0) { end--; }
            Assert.True(end > 0, path);
            int before = path.StartsWith("/log/", StringComparison.Ordinal) ? SegmentHeader.BytesMax : 2 << 10;
            for (long at = 0; at < end; at += random.Next(1, 200))
            {
                byte mask = (byte)random.Next(1, 256);
                disk.Flip(path, at, mask);
                var caught = Assert.Throws<LogCorruptException>(() => VersionLog.Open(options));
                Assert.Equal(path, caught.File);
                Assert.InRange(caught.Position, at - before, at);
                disk.Flip(path, at, mask);
            }
        }
        Assert.Equal(Stream(1000, 60_000), ReadAll(VersionLog.Open(options), 1000));
    }

    [Fact]
    public void Append_TheBuffersAreFull_WritesAndDoesNotSync()
    {
        SimulatedDisk disk = NewDisk();
        VersionLogOptions options = In(disk, "/log1") with { BufferBytes = 4 << 10 };
        VersionLog log = Begun(options);
        int before = disk.DataSyncs;
        log.Append(Stream(1000, 5000));
        Assert.Equal(before, disk.DataSyncs);
        Assert.Single(log.Dealt);
        Assert.Equal(6000, log.Sync());
        // Nor is it forgotten where a segment begins.
        log.Append(Stream(6000, 100_000));
        Assert.Equal(106_000, log.Sync());
        Assert.Empty(log.Dealt);
        disk.Crash();
        log = VersionLog.Open(options);
        Assert.Equal(Stream(1000, 105_000), ReadAll(log, 1000));
        Assert.True(log.Report.Segments > 1);
    }

    [Fact]
    public void Open_DirectoriesAreNotGiven_FindsThoseOfLastTime()
    {
        SimulatedDisk disk = NewDisk();
        Written(In(disk, "/log1", "/log2"));
        disk.Kill();
        VersionLog log = VersionLog.Open(Options(disk) with { SegmentBytes = 64 << 10 });
        Assert.Equal(3, log.SyncsAtATime);
        Assert.Equal(Stream(1000, 5000), ReadAll(log, 1000));
    }

    [Fact]
    public void Open_ADirectoryIsAddedOrLeftOutWhenItHasNothing_GoesOn()
    {
        SimulatedDisk disk = NewDisk();
        Written(In(disk));
        disk.Kill();
        VersionLog log = VersionLog.Open(In(disk, "/log1"));
        Boundary second = Write(log, 5000, 20);
        log.Sync();
        disk.Kill();
        log = VersionLog.Open(In(disk, "/log2", "/log1"));
        Assert.Equal(Stream(1000, 10_000), ReadAll(log, 1000));
        Write(log, 5000, 21);
        log.Sync();
        log.TrimBefore(second.Offset + 1);
        Assert.Single(Segments(disk, "/log1"));
        log.Begin(Origin, WorldLine.First, new VersionNumber(10));
        disk.Kill();
        Assert.Throws<LogDirectoriesException>(() => VersionLog.Open(In(disk)));
        log = VersionLog.Open(In(disk, "/log2", "/log1"));
        log.Dispose();
        // The new history's first segment has files in all.
        Assert.Contains("/log2", Assert.Throws<LogDirectoriesException>(() => VersionLog.Open(In(disk, "/log1"))).Message,
            StringComparison.Ordinal);
    }

    [Fact]
    public void Open_ADirectoryOfWhichNothingIsNeeded_MayBeLeftOutAndComeBack()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = VersionLog.Open(In(disk, "/log1"));
        log.Dispose();
        Written(In(disk));
        disk.Kill();
        log = VersionLog.Open(In(disk, "/log1"));
        Assert.Equal(Stream(1000, 5000), ReadAll(log, 1000));
    }

    [Fact]
    public void Open_ADirectoryWithSegmentsIsLeftOut_IsRefusedByName()
    {
        SimulatedDisk disk = NewDisk();
        Written(In(disk, "/log1", "/log2"));
        disk.Kill();
        string[] before = [.. disk.Paths];
        var e = Assert.Throws<LogDirectoriesException>(() => VersionLog.Open(In(disk, "/log1")));
        Assert.Contains("has a file in /log2, which is not among the directories that are given", e.Message, StringComparison.Ordinal);
        Assert.Equal(before, disk.Paths);
        Assert.Equal(Stream(1000, 5000), ReadAll(VersionLog.Open(In(disk, "/log1", "/log2")), 1000));
    }

    [Fact]
    public void Open_ADirectoryWasEmptied_IsRefusedByName()
    {
        SimulatedDisk disk = NewDisk();
        VersionLogOptions options = In(disk, "/log1");
        Written(options);
        disk.Kill();
        foreach (string path in disk.Paths.Where(p => p.StartsWith("/log1/", StringComparison.Ordinal)).ToList()) { disk.Delete(path); }
        foreach (VersionLogOptions each in (VersionLogOptions[])[options, options with { MoreDirectories = null }])
        {
            var e = Assert.Throws<LogDirectoriesException>(() => VersionLog.Open(each));
            Assert.Contains("/log1 has no slogger-log.json, but segment 0000000001-000000000001.slog of the version log in /log has a file "
                + "there: it may not be mounted", e.Message, StringComparison.Ordinal);
            Assert.Empty(disk.List("/log1"));
        }
    }

    [Fact]
    public void Open_ADirectoryElsewhere_IsFoundThere()
    {
        SimulatedDisk disk = NewDisk();
        Written(In(disk, "/log1"));
        disk.Kill();
        disk.CreateDirectory("/elsewhere");
        foreach (string name in disk.List("/log1")) { disk.Rename("/log1/" + name, "/elsewhere/" + name); }
        VersionLog log = VersionLog.Open(In(disk, "/elsewhere"));
        Assert.Equal(Stream(1000, 5000), ReadAll(log, 1000));
        log.Dispose();
        Assert.Equal(Stream(1000, 5000), ReadAll(VersionLog.Open(Options(disk) with { SegmentBytes = 64 << 10 }), 1000));
    }

    [Fact]
    public void Open_ADirectoryOfAnotherLog_IsRefusedByName()
    {
        SimulatedDisk disk = NewDisk();
        Written(In(disk, "/log1"));
        disk.Kill();
        VersionLogOptions other = In(disk, "/log1") with { Directory = "/other", Shard = new ShardId(2) };
        var e = Assert.Throws<LogDirectoriesException>(() => VersionLog.Open(other));
        Assert.Contains("/log1 belongs to another version log: that of shard 1 in /log, not the one in /other", e.Message,
            StringComparison.Ordinal);
        // Nor the own directory of one.
        e = Assert.Throws<LogDirectoriesException>(() => VersionLog.Open(other with { MoreDirectories = ["/log"] }));
        Assert.Contains("/log has segments of a version log, but no slogger-log.json", e.Message, StringComparison.Ordinal);
        Assert.Equal(Stream(1000, 5000), ReadAll(VersionLog.Open(In(disk, "/log1")), 1000));
        Assert.Throws<LogFencedException>(() => VersionLog.Open(other));
    }

    [Fact]
    public void Open_TheLogsOwnDirectoryWasEmptied_SaysHowToBeginAnew()
    {
        SimulatedDisk disk = NewDisk();
        VersionLogOptions options = In(disk, "/log1");
        Written(options);
        disk.Kill();
        Empty("/log");
        Assert.Contains("/log1 belongs to another version log: one of shard 1 that was in /log before. If /log was lost, put it back; to "
            + "begin anew, empty /log1, too.", Assert.Throws<LogDirectoriesException>(() => VersionLog.Open(options)).Message,
            StringComparison.Ordinal);
        Empty("/log1");
        Written(options);

        void Empty(string directory)
        {
            foreach (string name in disk.List(directory)) { disk.Delete($"{directory}/{name}"); }
        }
    }

    [Fact]
    public void Open_ADirectoryIsGivenTwice_IsRefusedByName()
    {
        SimulatedDisk disk = NewDisk();
        foreach (string[] directories in (string[][])[["/log"], ["/log1", "/log1"]])
        {
            Assert.Contains($"{directories[0]} is given twice", Assert.Throws<LogDirectoriesException>(
                () => VersionLog.Open(In(disk, directories))).Message, StringComparison.Ordinal);
        }
    }

    [Fact]
    public void Open_ADirectoryAndItsCopyAreGiven_IsRefusedByName()
    {
        SimulatedDisk disk = NewDisk();
        Written(In(disk, "/log1"));
        disk.Kill();
        disk.CreateDirectory("/copy");
        foreach (string name in disk.List("/log1")) { disk.LinkOrCopy("/log1/" + name, "/copy/" + name); }
        foreach (string[] both in (string[][])[["/log1", "/copy"], ["/copy", "/log1"]])
        {
            Assert.Contains($"{both[1]} is a copy of {both[0]}: give one of them", Assert.Throws<LogDirectoriesException>(
                () => VersionLog.Open(In(disk, both))).Message, StringComparison.Ordinal);
        }
        Assert.Equal(Stream(1000, 5000), ReadAll(VersionLog.Open(In(disk, "/log1")), 1000));
    }

    [Fact]
    public void Open_TheLogsOwnDirectoryIsACopy_IsRefusedByName()
    {
        SimulatedDisk disk = NewDisk();
        Written(In(disk, "/log1"));
        disk.Kill();
        disk.CreateDirectory("/copy");
        foreach (string name in disk.List("/log")) { disk.LinkOrCopy("/log/" + name, "/copy/" + name); }
        VersionLogOptions copy = In(disk, "/log1") with { Directory = "/copy" };
        Assert.Contains("/log1 belongs to the version log in /log, of which /copy is a copy", Assert.Throws<LogDirectoriesException>(
            () => VersionLog.Open(copy)).Message, StringComparison.Ordinal);
        // Nor while that log is open.
        using VersionLog log = VersionLog.Open(In(disk, "/log1"));
        Assert.Throws<LogFencedException>(() => VersionLog.Open(copy));
    }

    // All of it, or its newest segment.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Open_TheLogsOwnDirectoryLostWhatTheOthersHave_ChangesNothing(bool all)
    {
        SimulatedDisk disk = NewDisk();
        VersionLogOptions options = In(disk, "/log1");
        VersionLog log = Begun(options);
        Write(log, 200_000, 10);
        for (int version = 11; version < 15; version++)
        {
            log.Sync();
            Write(log, 100, version);
        }
        log.Sync();
        log.Dispose();
        string[] own = [.. disk.List("/log").Where(n => n.EndsWith(".slog", StringComparison.Ordinal)).Order(StringComparer.Ordinal)];
        foreach (string name in all ? own : own[^1..]) { disk.Delete("/log/" + name); }
        string[] before = [.. disk.Paths];
        Assert.Contains("is of a later segment than any in /log", Assert.Throws<LogDirectoriesException>(
            () => VersionLog.Open(options)).Message, StringComparison.Ordinal);
        Assert.Equal(before, disk.Paths);
    }

    [Fact]
    public void Open_AFileOfASegmentIsMissing_IsCorruption()
    {
        SimulatedDisk disk = NewDisk();
        VersionLogOptions options = In(disk, "/log1");
        Written(options);
        disk.Kill();
        string file = "/log1/" + Assert.Single(Segments(disk, "/log1"));
        disk.Delete(file);
        LogCorruptException e = Assert.Throws<LogCorruptException>(() => VersionLog.Open(options));
        Assert.Contains($"a file of segment 1 is missing (file {file}", e.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Open_ACrashLeftFilesOfNoSegment_DeletesThem()
    {
        SimulatedDisk disk = NewDisk();
        VersionLogOptions options = In(disk, "/log1") with { KeepsSpare = true };
        VersionLog log = Begun(options);
        Write(log, 100, 10);
        log.Sync();
        // The next segment is prepared.
        Assert.Equal(2, Segments(disk, "/log1").Count());
        log.BeginWorldLine(new WorldLine(2), log.DurableBoundary!.Value, OtherReplicationId);
        Write(log, 100, 11);
        log.Sync();
        disk.Kill();
        // As a trim that a crash has interrupted.
        disk.Delete("/log/0000000001-000000000001.slog");
        // What the log has not written itself stays.
        string[] others = [.. Segments(disk, "/log1").SelectMany(n => (string[])[n + ".bak", n[..^6] + ".slog", n[..^6] + "xx.slog"])];
        foreach (string name in others) { disk.LinkOrCopy("/log1/" + Segments(disk, "/log1").First(), "/log1/" + name); }
        log = VersionLog.Open(options);
        Assert.Equal(["0000000001-000000000002"], Segments(disk, "/log1").Except(others).Select(n => n[..23]));
        Assert.Equal(others.Order(), disk.List("/log1").Intersect(others).Order());
        Assert.Equal(1, log.Report.Segments);
    }

    [Fact]
    public void Sync_AWriteFailed_IsMadeUpForByTheNext()
    {
        SimulatedDisk disk = NewDisk();
        VersionLogOptions options = In(disk, "/log1", "/log2") with { BufferBytes = 4 << 10 };
        VersionLog log = Begun(options);
        Write(log, 100, 10);
        log.Sync();
        DealtBlocks[] dealt = Deal(log, 3, written: n => n > 0);
        disk.WriteFailureRate = 1;
        Assert.False(Assert.Throws<LogIOException>(() => log.Write(dealt[0])).IsFatal);
        Assert.False(Assert.Throws<LogIOException>(() => log.Sync()).IsFatal);
        Assert.Equal(1100, log.DurableOffset);
        disk.WriteFailureRate = 0;
        Assert.Equal(4100, log.Sync());
        disk.Crash();
        Assert.Equal(Stream(1000, 3100), ReadAll(VersionLog.Open(options), 1000));
    }

    [Fact]
    public void Sync_OneFailed_NothingIsSyncedAnyMore()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(In(disk, "/log1") with { BufferBytes = 4 << 10 });
        Write(log, 100, 10);
        log.Sync();
        DealtBlocks[] dealt = Deal(log, 2);
        disk.SyncFailureRate = 1;
        Assert.True(Assert.Throws<LogIOException>(() => log.Sync(dealt[0])).IsFatal);
        disk.SyncFailureRate = 0;
        Assert.True(Assert.Throws<LogIOException>(() => log.Sync()).IsFatal);
        Assert.Equal(1100, log.DurableOffset);
    }

    // One block for each of so many writers, each with a version.
    private static DealtBlocks[] Deal(VersionLog log, int writers, Func<int, bool>? written = null)
    {
        var dealt = new DealtBlocks[writers];
        for (int i = 0; i < writers; i++)
        {
            Write(log, 1000, 11 + i);
            dealt[i] = log.Deal(log.Writers[i], withCurrent: true, out _)!;
            if (written?.Invoke(i) ?? true) { log.Write(dealt[i]); }
        }
        return dealt;
    }

    private static void Written(VersionLogOptions options)
    {
        VersionLog log = Begun(options);
        for (int i = 0; i < 5; i++)
        {
            Write(log, 1000, 10 + i);
            log.Sync();
        }
    }
}
