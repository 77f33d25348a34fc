// What a log knows of windows that were shipped to it: where they hide versions and recorded cuts, and that one counts with its end only.
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Format;
using Slogger.Log.Segments;
using Slogger.Log.Tests.Simulation;
using static Slogger.Log.Tests.LogFixture;

namespace Slogger.Log.Tests;

public class WindowTests
{
    [Fact]
    public void Window_HidesVersionsAndCuts_AlsoWhenItsFilesAreGone()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Boundary before = Write(log, 100, 10);
        log.AppendHeldCut(before.Point);
        Boundary end = WriteWindow(log, 40_000, 20), second = WriteWindow(log, 300, 30);
        Write(log, 100, 31);
        Boundary last = Write(log, 100, 32);
        log.AppendHeldCut(last.Point);
        // The first cut behind is the one that counts, however often another is noted before a sync.
        log.AppendHeldCut(Write(log, 100, 33).Point);
        Write(log, 40_000, 34);
        log.Sync();
        LogWindows known = new()
        {
            HasStretch = true, Base = before.Point, From = last.Point, End = second.Point, EndOffset = second.Offset,
        };
        for (int opened = 0; opened < 3; opened++)
        {
            Assert.Equal(known, log.Windows);
            Assert.True(log.Windows.Hides(Point(11)) && log.Windows.Hides(second.Point) && log.Windows.Hides(Point(31)));
            Assert.False(log.Windows.Hides(before.Point) || log.Windows.Hides(last.Point) || log.Windows.Hides(Point(34)));
            if (opened == 1)
            {
                log.TrimBefore(log.DurableOffset);
                Assert.True(log.StartOffset > second.Offset);
            }
            if (opened == 0)
            {
                Assert.Equal([true, true, false, true, false, false], new long[] { 11, 19, 20, 25, 30, 31 }.Select(
                    v => log.BoundaryAtOrBelow(new(v))?.Version != new VersionNumber(v) && log.IsInWindow(new(v))));
                Assert.Equal(end, log.BoundaryAtOrBelow(new(25)));
            }
            log = Reopened(disk);
        }
        log.Dispose();
    }

    // At whatever byte the process or the machine dies: the log is at the window's beginning, or has all of it.
    [Fact]
    public void Window_ThatWasNotWhole_IsVoidAfterACrash()
    {
        int whole = 0, part = 0;
        for (int seed = 1; seed <= 200; seed++)
        {
            var disk = new SimulatedDisk(seed);
            VersionLog log = Begun(disk);
            Boundary before = Write(log, 3000, 10);
            log.AppendHeldCut(before.Point);
            log.Sync();
            int bytes = 200 + (seed * 97 % 6000);
            WriteWindow(log, bytes, 20);
            if (seed % 3 == 0) { log.Sync(); }
            if (seed % 2 == 0) { disk.Crash(); }
            else { disk.Kill(); }
            using VersionLog again = VersionLog.Open(Options(disk));
            if (again.Windows.IsOpen)
            {
                part++;
                again.Rewind();
                // Also if nothing of it but its beginning is there.
                Assert.Equal((before.Offset, before), (again.EndOffset, again.DurableBoundary!.Value));
                Assert.False(again.Windows.HasStretch || again.Windows.IsOpen);
                // The same place is passed through again.
                Boundary next = Write(again, 40, 11);
                again.Sync();
                Assert.Equal([before, next], again.Boundaries);
            }
            else if (again.EndOffset > before.Offset)
            {
                whole++;
                Assert.Equal(before.Offset + bytes, again.EndOffset);
                Assert.Equal(new VersionNumber(20), again.DurableBoundary!.Value.Version);
            }
        }
        Assert.True(whole > 20 && part > 20, $"{whole} whole, {part} in part");
    }

    [Fact]
    public void WorldLine_BeginsBelowWindows_NothingOfThemIsKnown()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Boundary before = Write(log, 100, 10);
        log.AppendHeldCut(before.Point);
        WriteWindow(log, 500, 20);
        log.BeginWorldLine(new WorldLine(2), before, OtherReplicationId);
        for (int opened = 0; opened < 2; opened++)
        {
            Assert.False(log.Windows.HasStretch);
            Assert.False(log.IsInWindow(new(15)));
            log = Reopened(disk);
        }
        // Behind them they stay.
        Boundary end = WriteWindow(log, 500, 20), kept = Write(log, 10, 21);
        log.BeginWorldLine(new WorldLine(3), kept, ReplicationId);
        log = Reopened(disk);
        Assert.Equal((true, before.Point, default, end.Offset),
            (log.Windows.HasStretch, log.Windows.Base, log.Windows.From, log.Windows.EndOffset));
        Assert.True(log.IsInWindow(new(15)));
        log.Dispose();
    }

    [Fact]
    public void Stretch_BeginsBehindACut_TheOneBeforeIsForgotten()
    {
        VersionLog log = Begun(NewDisk());
        log.AppendHeldCut(Write(log, 100, 10).Point);
        Boundary first = WriteWindow(log, 100, 20);
        Boundary between = Write(log, 100, 21);
        log.AppendHeldCut(between.Point);
        Boundary end = WriteWindow(log, 100, 30);
        Assert.Equal(new()
        {
            HasStretch = true, Base = between.Point, End = end.Point, EndOffset = end.Offset, EndBefore = first.Point,
            EndOffsetBefore = first.Offset,
        }, log.Windows);
        Assert.False(log.Windows.Hides(between.Point));
        log.Dispose();
    }

    // As after a failover that ended before them.
    [Fact]
    public void WorldLine_BeginsBelowAStretch_CommandsBehindTheWindowsBeforeAreAllThere()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        log.AppendHeldCut(Write(log, 100, 10).Point);
        Boundary first = WriteWindow(log, 100, 20);
        Write(log, 100, 21);
        Boundary held = Write(log, 40_000, 22);
        log.AppendHeldCut(held.Point);
        WriteWindow(log, 40_000, 30);
        log.Sync();
        log = Reopened(disk);
        log.BeginWorldLine(new WorldLine(2), held, OtherReplicationId);
        for (int opened = 0; opened < 2; opened++)
        {
            Assert.Equal((false, first.Point, first.Offset), (log.Windows.HasStretch, log.Windows.End, log.Windows.EndOffset));
            Assert.True(log.IsInWindow(new(15)));
            log = Reopened(disk);
        }
        log.Dispose();
    }

    [Fact]
    public void Window_BeginsInsideOfAVersion_IsRefused()
    {
        VersionLog log = Begun(NewDisk());
        Assert.Throws<InvalidOperationException>(log.BeginWindow);
        Write(log, 100, 10);
        log.Append("more"u8);
        Assert.Throws<InvalidOperationException>(log.BeginWindow);
        log.Dispose();
    }

    // Whoever gets them further on knows of them, too.
    [Fact]
    public void Pieces_TellWhichEndsAreThoseOfWindows()
    {
        VersionLog log = Begun(Options(NewDisk()) with { TailBytes = 8 << 10 });
        Write(log, 100, 10);
        LogIndex from = log.End;
        WriteWindow(log, 100, 20);
        Write(log, 100, 21);
        log.Sync();
        using var pieces = new LogPieces(log);
        List<VersionEnd> ends = [];
        Assert.True(pieces.Read(from, log.End, new byte[200], ends));
        Assert.Equal([(20L, true), (21L, false)], ends.Select(e => (e.Boundary.Version.Number, e.EndsWindow)));
        log.Dispose();
    }

    [Fact]
    public void Header_WithoutWindows_IsOfAFormatFromBefore()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Write(log, 40_000, 10);
        Assert.All(FormatsOf(disk), format => Assert.Equal(3u, format));
        WriteWindow(log, 40_000, 20);
        log.Sync();
        Assert.Equal([3u, SegmentHeader.FormatVersion], FormatsOf(disk).Distinct().Order());
        log.Dispose();
    }

    private static List<uint> FormatsOf(SimulatedDisk disk)
    {
        List<uint> formats = [];
        foreach (string path in disk.Paths.Where(p => p.EndsWith(".slog", StringComparison.Ordinal)))
        {
            using Files.ILogFile file = disk.Open(path, writable: false);
            using var reader = new BlockReader(file, salt: 0);
            // One is made ahead.
            if (reader.Read(0, file.Length) == BlockStatus.Valid) { formats.Add(BitConverter.ToUInt32(reader.Data)); }
        }
        return formats;
    }

    private static WorldPoint Point(long version) => new(WorldLine.First, new(version));

    private static Boundary WriteWindow(VersionLog log, int bytes, long version)
    {
        log.BeginWindow();
        log.Append(Stream(log.EndOffset, bytes));
        Boundary end = Closed(log, version);
        log.AppendBoundary(end, endsWindow: true);
        return end;
    }
}
