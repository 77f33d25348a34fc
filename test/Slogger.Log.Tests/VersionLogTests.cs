using Slogger.Core.Identities;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Format;
using Slogger.Log.Tests.Simulation;
using static Slogger.Log.Tests.LogFixture;

namespace Slogger.Log.Tests;

public class VersionLogTests
{
    [Fact]
    public void NewLog_IsEmpty_AndRefusesAppends()
    {
        using VersionLog log = VersionLog.Open(Options(NewDisk()));
        Assert.True(log.IsEmpty);
        Assert.Throws<InvalidOperationException>(() => log.Append("x"u8));
        Assert.Throws<InvalidOperationException>(() => log.Origin);
        Assert.Null(log.FirstBoundary);
        Assert.Equal(0, log.Sync());
    }

    [Fact]
    public void Sync_ThenCrash_KeepsBytesAndBoundaries()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Boundary first = Write(log, 5000, 10);
        Boundary second = Write(log, 10, 12);
        Assert.Equal(6010, log.Sync());
        Assert.Equal(second, log.DurableBoundary);
        log.Append("not synced"u8);
        disk.Crash();

        using VersionLog again = VersionLog.Open(Options(disk));
        Assert.Equal(Origin, again.Origin);
        Assert.Equal(ReplicationId, again.ReplicationId);
        Assert.Equal((1000, 6010), (again.StartOffset, again.EndOffset));
        Assert.Equal([first, second], again.Boundaries);
        Assert.Equal((first, second), (again.FirstBoundary, again.LastBoundary));
        Assert.Equal(Stream(1000, 5010), ReadAll(again, 1000));
        Assert.Equal(Stream(3333, 2677), ReadAll(again, 3333));
    }

    [Fact]
    public void Reader_SeesOnlyWhatIsDurable_AndFollows()
    {
        using VersionLog log = Begun(NewDisk());
        log.Append(Stream(1000, 100));
        using LogReader reader = log.OpenReader(1000, toOffset: 1150);
        byte[] buffer = new byte[500];
        Assert.Equal(0, reader.Read(buffer));
        log.Sync();
        Assert.Equal(100, reader.Read(buffer));
        Assert.Equal(0, reader.Read(buffer));
        log.Append(Stream(1100, 100));
        log.Sync();
        Assert.Equal(50, reader.Read(buffer));
        Assert.Equal(Stream(1100, 50), buffer[..50]);
        Assert.Equal(0, reader.Read(buffer));
        Assert.Throws<ArgumentOutOfRangeException>(() => log.OpenReader(999));
        Assert.Throws<ArgumentOutOfRangeException>(() => log.OpenReader(1201));
    }

    [Fact]
    public void AppendBoundary_OfWrongOffsetVersionOrWorldLine_IsRefused()
    {
        using VersionLog log = Begun(NewDisk());
        Boundary good = Write(log, 10, 11);
        Assert.Throws<ArgumentException>(() => log.AppendBoundary(good));
        Assert.Throws<ArgumentException>(() => log.AppendBoundary(good with { Version = new VersionNumber(12), Offset = 1009 }));
        Assert.Throws<ArgumentException>(
            () => log.AppendBoundary(good with { Version = new VersionNumber(12), WorldLine = new WorldLine(2) }));
        Assert.Throws<ArgumentException>(() => log.AppendEmptyRun(new VersionNumber(11), default));
        Assert.Equal(good, log.LastBoundary);
    }

    [Fact]
    public void FirstVersion_BelowTheHistory_IsRefused()
    {
        using VersionLog log = Begun(NewDisk());
        Assert.Throws<ArgumentException>(() => log.AppendBoundary(Closed(log, 9)));
    }

    [Fact]
    public void EmptyRuns_WriteNothingUntilSync_AndBecomeOne()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Boundary closed = Write(log, 10, 10);
        log.Sync();
        int syncs = disk.DataSyncs;
        for (int version = 11; version <= 10_000; version++)
        {
            log.AppendEmptyRun(new VersionNumber(version), HybridTimestamp.Of(version, 0));
        }
        Assert.Equal(syncs, disk.DataSyncs);
        Assert.Equal(closed, log.DurableBoundary);
        Boundary run = closed with { Version = new VersionNumber(10_000), Time = HybridTimestamp.Of(10_000, 0) };
        Assert.Equal(run, log.LastBoundary);
        log.Sync();
        Assert.Equal(syncs + 1, disk.DataSyncs);
        Assert.Equal(run, log.DurableBoundary);
        disk.Crash();

        using VersionLog again = VersionLog.Open(Options(disk));
        Assert.Equal([closed, run], again.Boundaries);
        Assert.Equal(closed with { Version = new VersionNumber(77) }, again.BoundaryAtOrBelow(new VersionNumber(77)));
    }

    [Fact]
    public void EmptyRun_BeforeAnyBoundary_ClosesAtTheOrigin()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        log.AppendEmptyRun(new VersionNumber(20), HybridTimestamp.Of(5, 0));
        log.Sync();
        Assert.Equal((1000, 2), (log.DurableBoundary?.Offset, log.DurableBoundary?.Database));
        Assert.Equal(new VersionNumber(15), log.BoundaryAtOrBelow(new VersionNumber(15))?.Version);
    }

    [Fact]
    public void Sync_WithNothingNew_DoesNotTouchTheDisk()
    {
        SimulatedDisk disk = NewDisk();
        using VersionLog log = Begun(disk);
        Write(log, 10, 10);
        log.Sync();
        int syncs = disk.DataSyncs;
        Assert.Equal(1010, log.Sync());
        Assert.Equal(syncs, disk.DataSyncs);
    }

    [Fact]
    public void BoundaryAtOrBelow_AcrossSegments_FindsTheNearest()
    {
        SimulatedDisk disk = NewDisk();
        using VersionLog log = Begun(disk);
        var closed = new List<Boundary>();
        for (int version = 10; version < 400; version += 3)
        {
            closed.Add(Write(log, 700, version));
            log.Sync();
        }
        Assert.True(disk.Paths.Count() > 5);
        Assert.Null(log.BoundaryAtOrBelow(new VersionNumber(9)));
        for (int version = 10; version < 420; version++)
        {
            Assert.Equal(closed.Last(b => b.Version.Number <= version), log.BoundaryAtOrBelow(new VersionNumber(version)));
        }
    }

    [Fact]
    public void Append_LargerThanAllBuffers_WritesOutByItself()
    {
        using VersionLog log = Begun(NewDisk());
        log.Append(Stream(1000, 50_000));
        Assert.Equal(51_000, log.EndOffset);
        Assert.Equal(51_000, log.Sync());
        Assert.Equal(Stream(1000, 50_000), ReadAll(log, 1000));
    }

    [Fact]
    public void Append_AllocatesNothing()
    {
        using VersionLog log = Begun(Options(NewDisk()) with { SegmentBytes = 64 << 20, BlockBytes = 1 << 20, BufferBytes = 8 << 20 });
        byte[] bytes = new byte[100];
        log.Append(bytes);
        log.AppendBoundary(Closed(log, 10));
        log.AppendEmptyRun(new VersionNumber(11), default);
        long before = GC.GetAllocatedBytesForCurrentThread();
        for (int i = 0; i < 1000; i++)
        {
            log.Append(bytes);
            log.AppendBoundary(new Boundary(WorldLine.First, new VersionNumber(20 + (2 * i)), log.EndOffset, 0, default));
            log.AppendEmptyRun(new VersionNumber(21 + (2 * i)), default);
        }
        Assert.Equal(0, GC.GetAllocatedBytesForCurrentThread() - before);
    }

    [Fact]
    public void TrimBefore_DeletesWholeSegmentsBelow_AndReadersSayTrimmed()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        for (int version = 10; version < 60; version++)
        {
            Write(log, 1000, version);
            log.Sync();
        }
        using LogReader behind = log.OpenReader(1000);
        long size = log.SizeBytes;
        log.TrimBefore(30_500);
        Assert.InRange(log.StartOffset, 15_000, 30_500);
        Assert.True(log.SizeBytes < size);
        Assert.Throws<LogHistoryChangedException>(() => behind.Read(new byte[10]));
        Assert.InRange(log.FirstBoundary!.Value.Offset, log.StartOffset, log.StartOffset + 1000);
        Assert.Null(log.BoundaryAtOrBelow(new VersionNumber(11)));
        long start = log.StartOffset;

        using VersionLog again = Reopened(disk);
        Assert.Equal(start, again.StartOffset);
        Assert.Equal(Stream(start, (int)(51_000 - start)), ReadAll(again, start));
        again.TrimBefore(long.MaxValue);
        Assert.Equal(new VersionNumber(59), again.BoundaryAtOrBelow(new VersionNumber(100))?.Version);
    }

    [Fact]
    public void DiskFull_NothingIsLost_AndSyncGoesOnWhenThereIsSpace()
    {
        SimulatedDisk disk = NewDisk();
        using VersionLog log = Begun(disk);
        disk.CapacityBytes = 20_000;
        LogIOException failure = Assert.Throws<LogIOException>(() => log.Append(Stream(1000, 60_000)));
        Assert.True(failure.IsDiskFull);
        Assert.False(failure.IsFatal);
        long taken = log.EndOffset;
        Assert.Throws<LogIOException>(() => log.Sync());
        Assert.Equal(Stream(1000, (int)(log.DurableOffset - 1000)), ReadAll(log, 1000));
        disk.CapacityBytes = long.MaxValue;
        Assert.Equal(taken, log.Sync());
        Assert.Equal(Stream(1000, (int)(taken - 1000)), ReadAll(log, 1000));
    }

    [Fact]
    public void FailedSync_IsFatal_KeepsWhatWasDurableReadable_AndIsNeverRetried()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Write(log, 100, 10);
        log.Sync();
        Write(log, 100, 11);
        disk.SyncFailureRate = 1;
        Assert.True(Assert.Throws<LogIOException>(() => log.Sync()).IsFatal);
        disk.SyncFailureRate = 0;
        Assert.Throws<LogIOException>(() => log.Sync());
        Assert.Throws<LogIOException>(() => log.Append("x"u8));
        Assert.NotNull(log.Failure);
        Assert.Equal((1100, 10), (log.DurableOffset, log.DurableBoundary!.Value.Version.Number));
        Assert.Equal(Stream(1000, 100), ReadAll(log, 1000));

        // What the kernel still shows after the failure may not be on the disk: opening must write it again.
        VersionLog again = Reopened(disk);
        long reported = again.DurableOffset;
        disk.Crash();
        using VersionLog third = VersionLog.Open(Options(disk));
        Assert.Equal(reported, third.DurableOffset);
    }

    [Fact]
    public void Open_Twice_OrWithAnOlderEpoch_OrForAnotherShard_IsRefused()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(Options(disk) with { Epoch = 5 });
        Assert.Throws<LogFencedException>(() => VersionLog.Open(Options(disk) with { Epoch = 6 }));
        log.Dispose();
        Assert.Throws<LogFencedException>(() => VersionLog.Open(Options(disk) with { Epoch = 4 }));
        Assert.Throws<ArgumentException>(() => VersionLog.Open(Options(disk) with { Epoch = 6, Shard = new ShardId(2) }));
        using VersionLog next = VersionLog.Open(Options(disk) with { Epoch = 6 });
        Write(next, 10, 10);
        next.Sync();
        Assert.Contains(disk.Paths, p => p.StartsWith("/log/0000000006-", StringComparison.Ordinal));
    }

    [Theory]
    [InlineData("")]
    [InlineData("with space")]
    [InlineData("0123456789abcdef0123456789abcdef012345678")]
    public void Begin_WithABadReplicationId_IsRefused(string id)
    {
        using VersionLog log = VersionLog.Open(Options(NewDisk()));
        Assert.ThrowsAny<ArgumentException>(() => log.Begin(new StreamOrigin(id, 0, 0), WorldLine.First, new VersionNumber(1)));
    }
}
