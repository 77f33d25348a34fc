// A gap in the stream: what lies before it stays restorable, what lies behind it is restored from the gap's checkpoint, and
// nothing is ever read across it.
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Log.Tests.Simulation;
using static Slogger.Log.Tests.LogFixture;

namespace Slogger.Log.Tests;

public class GapTests
{
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void BeginGap_BothSides_AreFoundAndNothingIsReadAcross(bool crash)
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Boundary before = Write(log, 40_000, 10);
        log.Append("the open version, of which the end is unknown"u8);
        log.BeginGap(90_000);
        Boundary behind = Write(log, 30_000, 14);
        log.Sync();
        if (crash)
        {
            disk.Crash();
            log = VersionLog.Open(Options(disk));
        }

        Assert.Equal((120_000L, 120_000L), (log.EndOffset, log.DurableOffset));
        Assert.Equal(Origin, log.Origin);
        Assert.Equal([before, behind], log.Boundaries);
        Assert.Equal(before, log.BoundaryAtOrBelow(new VersionNumber(10)));
        Assert.Equal(before, log.BoundaryAtOrBelow(new VersionNumber(13)));
        Assert.Equal(behind, log.BoundaryAtOrBelow(new VersionNumber(14)));
        Assert.Equal(Stream(90_000, 30_000), ReadAll(log, 90_000));
        using LogReader reader = log.OpenReader(1000);
        byte[] bytes = new byte[100_000];
        int read = 0, count;
        while (read < 40_000 && (count = reader.Read(bytes.AsSpan(read))) > 0) { read += count; }
        Assert.Equal(Stream(1000, 40_000), bytes[..read]);
        Assert.Throws<LogHistoryChangedException>(() => reader.Read(bytes));
        Assert.True(log.HasGap(41_000, 90_000));
        Assert.False(log.HasGap(1000, 41_000) || log.HasGap(90_000, 120_000));
        Assert.Equal((90_000L, 100_000L), (log.ContiguousFrom(1000), log.ContiguousFrom(100_000)));
    }

    [Fact]
    public void BeginGap_BeforeAnyVersionIsClosedBehindIt_TheLogEndsWithTheVersionBefore()
    {
        SimulatedDisk disk = NewDisk();
        Boundary before = Write(Begun2(disk, out VersionLog log), 5_000, 10);
        log.BeginGap(90_000);
        log.Append("something"u8);
        log.Sync();
        disk.Crash();
        VersionLog again = VersionLog.Open(Options(disk));
        Assert.Equal(before, again.DurableBoundary);
        Assert.Equal(90_009, again.EndOffset);
        Assert.Equal("something"u8.ToArray(), ReadAll(again, again.ContiguousFrom(before.Offset)));
    }

    [Fact]
    public void BeginWorldLine_BelowAGap_VoidsTheGapAndWhatIsBehindIt()
    {
        SimulatedDisk disk = NewDisk();
        Boundary before = Write(Begun2(disk, out VersionLog log), 5_000, 10);
        log.BeginGap(90_000);
        Write(log, 30_000, 14);
        log.BeginWorldLine(new WorldLine(2), before, OtherReplicationId);
        log.Append("another future"u8);
        log.Sync();
        disk.Crash();
        VersionLog again = VersionLog.Open(Options(disk));
        Assert.Equal([.. Stream(1000, 5_000), .. "another future"u8], ReadAll(again, 1000));
        Assert.False(again.HasGap(1000, 200_000));
        Assert.False(again.IsInHistory(Origin, Reign.None, WorldLine.First, 90_000));
    }

    [Fact]
    public void BeginGap_BelowTheEnd_IsRefused()
    {
        VersionLog log = Begun(NewDisk());
        Write(log, 5_000, 10);
        Assert.Throws<ArgumentOutOfRangeException>(() => log.BeginGap(5_999));
        log.BeginGap(6_000);
    }

    [Fact]
    public void Checkpoints_AcrossAGap_AreNotUsedAndThatOfTheGapIsKept()
    {
        SimulatedDisk disk = NewDisk();
        Write(Begun2(disk, out VersionLog log), 5_000, 10);
        CheckpointStore checkpoints = CheckpointStore.Open("/checkpoints", disk);
        Add(1000);
        log.BeginGap(90_000);
        Assert.Null(checkpoints.Latest(log, 95_000));
        Add(90_000);
        Write(log, 30_000, 14);
        Add(100_000);
        Add(110_000);
        Assert.Equal([1000, 1000, 90_000, 90_000, 100_000],
            new long[] { 5_000, 89_999, 90_000, 99_999, 105_000 }.Select(o => checkpoints.Latest(log, o)!.Offset));
        // The cut is before the gap; everything but the newest is near another one.
        checkpoints.Prune(log, keep: 1, offset: 6_000, apart: 1_000_000);
        Assert.Equal([1000, 90_000, 110_000], checkpoints.All.Select(c => c.Offset));
        checkpoints.Prune(log, keep: 1, offset: 115_000, apart: 1_000_000);
        Assert.Equal([110_000], checkpoints.All.Select(c => c.Offset));

        void Add(long offset)
        {
            string file = checkpoints.NewTemporaryPath();
            using (var written = disk.Create(file))
            {
                written.Write("REDIS"u8, 0);
                written.SyncData();
            }

            checkpoints.Add(file, new Checkpoint { Origin = log.Origin, ReplicationId = ReplicationId, Offset = offset, Database = 0,
                WorldLine = 1, CreatedAt = DateTimeOffset.UnixEpoch });
        }
    }

    private static VersionLog Begun2(SimulatedDisk disk, out VersionLog log) => log = Begun(disk);
}
