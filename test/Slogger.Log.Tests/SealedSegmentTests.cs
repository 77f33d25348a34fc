// What others are told of segments that are not written to any more, that an index beside one goes with it, and where a version ends that
// has a byte.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Format;
using Slogger.Log.Tests.Simulation;
using static Slogger.Log.Tests.LogFixture;

namespace Slogger.Log.Tests;

public class SealedSegmentTests
{
    private static List<Boundary> WriteVersions(VersionLog log, int count, long first)
    {
        var random = new Random((int)first);
        List<Boundary> ends = [];
        for (int i = 0; i < count; i++)
        {
            ends.Add(Write(log, random.Next(200, 3000), first + i));
            if (random.Next(3) == 0) { log.Sync(); }
        }
        log.Sync();
        return ends;
    }

    private static void PutIndex(SimulatedDisk disk, string path) => disk.Create(path).Dispose();

    private static IEnumerable<string> Indexes(SimulatedDisk disk) =>
        disk.List("/log").Where(n => n.Contains(".kix", StringComparison.Ordinal)).Order(StringComparer.Ordinal);

    [Fact]
    public void SealedSegments_AreThoseBeforeTheLast_AndTellWhereACommandBegins()
    {
        SimulatedDisk disk = NewDisk();
        using VersionLog log = Begun(disk);
        Assert.Empty(log.SealedSegments);
        List<Boundary> ends = WriteVersions(log, 60, 10);
        IReadOnlyList<SealedSegment> all = log.SealedSegments;
        Assert.True(all.Count > 3);
        long start = Origin.Offset;
        Assert.Equal((Origin.Offset, Origin.Database), all[0].Before);
        foreach (SealedSegment segment in all)
        {
            Assert.Equal(start, segment.Start);
            long place = ends.LastOrDefault(e => e.Offset <= start).Offset;
            Assert.Equal(place == 0 ? (Origin.Offset, Origin.Database) : (place, 2), segment.Before);
            Assert.EndsWith(".kix", segment.IndexPath, StringComparison.Ordinal);
            Assert.True(log.HasSegment(segment.Sequence));
            start = segment.End;
        }
        Assert.Equal(all.Count, all.Select(s => s.Salt).Distinct().Count());
    }

    [Fact]
    public void BeginWorldLine_WhatItVoidsIsOfNoSegment()
    {
        using VersionLog log = Begun(NewDisk());
        List<Boundary> ends = WriteVersions(log, 60, 10);
        IReadOnlyList<SealedSegment> before = log.SealedSegments;
        Boundary branch = ends.First(e => e.Offset > before[1].Start);
        log.BeginWorldLine(new WorldLine(2), branch, OtherReplicationId);
        WriteVersions(log, 60, branch.Version.Number + 1);
        IReadOnlyList<SealedSegment> after = log.SealedSegments;
        Assert.Equal(before[0], after[0]);
        Assert.Equal(before[1] with { End = branch.Offset }, after[1]);
        Assert.Equal((branch.Offset, (branch.Offset, branch.Database)), (after[2].Start, after[2].Before));
        Assert.DoesNotContain(after, s => s.Sequence == before[2].Sequence);
        // Its file is there until it is trimmed.
        Assert.True(log.HasSegment(before[2].Sequence));
    }

    [Fact]
    public void BeginGap_NoPlaceIsKnownBehindIt_UntilAVersionEnds()
    {
        using VersionLog log = Begun(NewDisk());
        WriteVersions(log, 30, 10);
        long behind = log.EndOffset + 500;
        log.BeginGap(behind);
        WriteVersions(log, 60, 40);
        SealedSegment gap = log.SealedSegments.Single(s => s.Start == behind);
        Assert.Null(gap.Before);
        Assert.All(log.SealedSegments.Where(s => s.Start > behind), s => Assert.True(s.Before?.Offset > behind));
    }

    [Fact]
    public void TrimBefore_DeletesTheIndexWithItsSegment()
    {
        SimulatedDisk disk = NewDisk();
        using VersionLog log = Begun(disk);
        List<Boundary> ends = WriteVersions(log, 60, 10);
        foreach (SealedSegment segment in log.SealedSegments) { PutIndex(disk, segment.IndexPath); }
        log.TrimBefore(ends[40].Offset);
        Assert.True(log.StartOffset > Origin.Offset);
        Assert.Equal(log.SealedSegments.Select(s => Path.GetFileName(s.IndexPath)), Indexes(disk));
        // Of the first one that is left, what is before its start is gone.
        Assert.All(log.SealedSegments.Skip(1), s => Assert.NotNull(s.Before));
        log.Begin(Origin with { Offset = 7 }, WorldLine.First, new VersionNumber(1));
        Assert.Empty(Indexes(disk));
    }

    [Fact]
    public void Open_DeletesIndexesThatACrashHasLeft_AndNoOthers()
    {
        SimulatedDisk disk = NewDisk();
        string[] kept;
        using (VersionLog log = Begun(disk))
        {
            WriteVersions(log, 60, 10);
            kept = [.. log.SealedSegments.Select(s => s.IndexPath)];
            foreach (string path in kept)
            {
                PutIndex(disk, path);
                PutIndex(disk, path + ".tmp");
            }
            PutIndex(disk, "/log/0000000001-000000000999.kix");
        }
        using VersionLog again = VersionLog.Open(Options(disk));
        Assert.Equal(kept.Select(Path.GetFileName), Indexes(disk));
    }

    [Fact]
    public void BoundaryAtOrAbove_AnyOffset_IsTheFirstThatEndsThere()
    {
        using VersionLog log = Begun(NewDisk());
        List<Boundary> ends = WriteVersions(log, 40, 10);
        log.AppendEmptyRun(new VersionNumber(60), default);
        WriteVersions(log, 10, 61);
        log.BeginWorldLine(new WorldLine(2), ends[25], OtherReplicationId);
        Boundary last = WriteVersions(log, 10, ends[26].Version.Number)[^1];
        log.BeginWorldLine(new WorldLine(3), last with { Version = new VersionNumber(90) }, OtherReplicationId);
        WriteVersions(log, 30, 91);
        log.AppendEmptyRun(new VersionNumber(200), default);
        log.Sync();
        List<Boundary> all = [.. log.Boundaries];
        for (long offset = Origin.Offset + 1; offset <= all[^1].Offset; offset += 37)
        {
            Assert.Equal(all.First(b => b.Offset >= offset), log.BoundaryAtOrAbove(offset));
        }
        foreach (Boundary end in all.Where(e => e.Offset > Origin.Offset))
        {
            Assert.Equal(all.First(b => b.Offset >= end.Offset), log.BoundaryAtOrAbove(end.Offset));
        }
        Assert.Null(log.BoundaryAtOrAbove(all[^1].Offset + 1));
    }
}
