// I5 in the log: nothing of an abandoned world-line is read after its successor has started. I4's neighbour: a log that ends below
// the recorded cut is an error.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Format;
using Slogger.Log.Tests.Simulation;
using static Slogger.Log.Tests.LogFixture;

namespace Slogger.Log.Tests;

public class WorldLineTests
{
    private static readonly WorldLine Second = new(2);

    [Fact]
    public void BeginWorldLine_ThenCrash_IsDurable()
    {
        for (int seed = 1; seed <= 40; seed++)
        {
            var disk = new SimulatedDisk(seed);
            VersionLog log = Begun(disk);
            Boundary kept = Write(log, 20, 10);
            Write(log, 20, 11);
            log.BeginWorldLine(new WorldLine(2), kept, OtherReplicationId);
            disk.Crash();
            using VersionLog again = VersionLog.Open(Options(disk));
            Assert.Equal((new WorldLine(2), kept.Offset), (again.WorldLine, again.EndOffset));
        }
    }

    [Fact]
    public void BeginWorldLine_VoidsWhatIsAboveTheBranch_Durably()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Boundary kept = Write(log, 40_000, 10);
        Write(log, 40_000, 11);
        log.Append("open version"u8);
        log.BeginWorldLine(Second, kept, OtherReplicationId);
        Assert.Equal((41_000, 41_000), (log.EndOffset, log.DurableOffset));
        Assert.Equal(new WorldPoint(Second, new VersionNumber(10)), log.DurableBoundary?.Point);
        disk.Crash();

        VersionLog again = VersionLog.Open(Options(disk));
        Assert.Equal((Second, OtherReplicationId, 41_000L), (again.WorldLine, again.ReplicationId, again.EndOffset));
        Assert.Equal(Origin, again.Origin);
        Assert.Equal([new LogBranch(Second, new VersionNumber(10), 41_000)], again.Branches);
        Assert.Equal(Stream(1000, 40_000), ReadAll(again, 1000));
        again.Append("another future"u8);
        Boundary other = Closed(again, 11);
        again.AppendBoundary(other);
        again.Sync();
        Assert.Equal([kept, other], again.Boundaries);
        Assert.Equal(other, again.BoundaryAtOrBelow(new VersionNumber(50)));
        Assert.Equal(kept with { WorldLine = Second }, again.BoundaryAtOrBelow(new VersionNumber(10)));
        Assert.Equal("another future"u8.ToArray(), ReadAll(again, 41_000));
    }

    [Fact]
    public void Lost_IsWhatWasAboveTheBranch_AsLongAsItsFilesAreThere()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Boundary kept = Write(log, 40_000, 10);
        Boundary lost = Write(log, 40_000, 11);
        log.Append("open version"u8);
        log.BeginWorldLine(Second, kept, OtherReplicationId);
        Write(log, 500, 11);
        // One that takes nothing back.
        Boundary end = Write(log, 30_000, 12);
        log.BeginWorldLine(Second.Next, end, OtherReplicationId);
        for (int opened = 0; opened < 2; opened++)
        {
            LostStretch stretch = log.Lost(Second)!;
            Assert.Equal((kept.Offset, lost.Offset + 12), (stretch.Branch.Offset, stretch.End));
            Assert.Equal(new WorldPoint(Second, kept.Version), stretch.Branch.Point);
            Assert.Equal([lost], stretch.Boundaries);
            Assert.Equal([.. Stream(kept.Offset, 40_000), .. "open version"u8], ReadLost(stretch, kept.Offset));
            Assert.Equal("open version"u8.ToArray(), ReadLost(stretch, lost.Offset));
            LostStretch nothing = log.Lost(Second.Next)!;
            Assert.Equal((end.Offset, end.Offset), (nothing.Branch.Offset, nothing.End));
            Assert.Empty(nothing.Boundaries);
            Assert.Null(log.Lost(WorldLine.First));
            Assert.Null(log.Lost(new(9)));
            disk.Crash();
            log = VersionLog.Open(Options(disk));
        }
        log.TrimBefore(log.DurableOffset);
        Assert.Null(log.Lost(Second));
        log.Dispose();
    }

    private static byte[] ReadLost(LostStretch stretch, long from)
    {
        using LogReader reader = stretch.OpenReader(from);
        var bytes = new byte[stretch.End - from];
        for (int filled = 0; filled < bytes.Length;)
        {
            int count = reader.Read(bytes.AsSpan(filled));
            Assert.NotEqual(0, count);
            filled += count;
        }
        return bytes;
    }

    [Fact]
    public void BeginWorldLine_NextFileIsReady_TakesOneSyncAlone()
    {
        SimulatedDisk disk = NewDisk();
        using VersionLog log = Begun(Options(disk) with { KeepsSpare = true });
        Boundary kept = Write(log, 10, 10);
        log.Sync();
        (int data, int names) = (disk.DataSyncs, disk.DirectorySyncs);
        log.BeginWorldLine(Second, kept, OtherReplicationId);
        Assert.Equal((data + 1, names), (disk.DataSyncs, disk.DirectorySyncs));
    }

    [Fact]
    public void BeginWorldLine_Repeated_ChangesNothing()
    {
        SimulatedDisk disk = NewDisk();
        using VersionLog log = Begun(disk);
        Boundary kept = Write(log, 10, 10);
        log.BeginWorldLine(Second, kept, OtherReplicationId);
        Write(log, 10, 11);
        log.Sync();
        log.BeginWorldLine(Second, kept, OtherReplicationId);
        Assert.Equal(1020, log.EndOffset);
        Assert.Throws<ArgumentException>(() => log.BeginWorldLine(Second, Closed(log, 11), OtherReplicationId));
        Assert.Throws<ArgumentException>(() => log.BeginWorldLine(WorldLine.First, kept, OtherReplicationId));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void BeginWorldLine_RepeatedBehindAnAttemptThatCameToNothing_GoesBackToTheBranch(bool isReopened)
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Boundary kept = Write(log, 10, 10);
        Write(log, 10, 11);
        log.BeginWorldLine(Second, kept, OtherReplicationId);
        log.Append("a filler"u8);
        log.Sync();
        if (isReopened) { log = Reopened(disk); }
        log.BeginWorldLine(Second, kept, ReplicationId);
        Assert.Equal((1010L, 1010L, ReplicationId), (log.EndOffset, log.DurableOffset, log.ReplicationId));
        log.Append("as it is"u8);
        Boundary next = Closed(log, 11);
        log.AppendBoundary(next);
        log.Sync();
        VersionLog again = Reopened(disk);
        Assert.Equal([new LogBranch(Second, new VersionNumber(10), 1010)], again.Branches);
        Assert.Equal([.. Stream(1000, 10), .. "as it is"u8], ReadAll(again, 1000));
        Assert.Equal([kept, next], again.Boundaries);
        again.Verify();
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Rewind_BytesBehindTheLastVersion_AreVoid_Durably(bool isReopened)
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Boundary first = Write(log, 10, 10);
        log.BeginWorldLine(Second, first, OtherReplicationId);
        // Several segments of it are without an end.
        Boundary kept = Write(log, 10, 11);
        log.Append(Stream(log.EndOffset, 60_000));
        log.Sync();
        if (isReopened) { log = Reopened(disk); }
        log.Rewind();
        Assert.Equal((1020L, 1020L, 1L), (log.EndOffset, log.DurableOffset, log.Rewinds));
        disk.Crash();
        log = Reopened(disk);
        Assert.Equal((1020L, kept), (log.EndOffset, log.LastBoundary));
        log.Append("another part"u8);
        Boundary next = Closed(log, 12);
        log.AppendBoundary(next);
        log.Sync();
        log.Rewind();
        VersionLog again = Reopened(disk);
        Assert.Equal([new LogBranch(Second, new VersionNumber(10), 1010)], again.Branches);
        Assert.Equal([.. Stream(1000, 20), .. "another part"u8], ReadAll(again, 1000));
        Assert.Equal([first, kept, next], again.Boundaries);
        Assert.Equal(kept, again.BoundaryAtOrBelow(new VersionNumber(11)));
        again.Verify();
    }

    [Fact]
    public void Rewind_BeforeAnyVersion_GoesBackToTheOrigin()
    {
        using VersionLog log = Begun(NewDisk());
        log.Append("a part"u8);
        log.Rewind();
        Assert.Equal((1000L, (Boundary?)null), (log.EndOffset, log.LastBoundary));
    }

    [Fact]
    public void BeginWorldLine_AtAnUnknownBoundary_IsRefused()
    {
        using VersionLog log = Begun(NewDisk());
        Boundary kept = Write(log, 10, 10);
        Write(log, 10, 11);
        Assert.Throws<ArgumentException>(() => log.BeginWorldLine(Second, kept with { Offset = 1009 }, OtherReplicationId));
        Assert.Throws<ArgumentException>(
            () => log.BeginWorldLine(Second, kept with { Version = new VersionNumber(11) }, OtherReplicationId));
        Assert.Equal(WorldLine.First, log.WorldLine);
    }

    [Fact]
    public void BeginWorldLine_AtTheStart_BeforeAnyVersion_Works()
    {
        using VersionLog log = Begun(NewDisk());
        log.Append("lost"u8);
        log.BeginWorldLine(Second, new Boundary(WorldLine.First, new VersionNumber(9), 1000, 2, default), OtherReplicationId);
        Assert.Equal(1000, log.EndOffset);
        Write(log, 5, 10);
        Assert.Equal(1005, log.Sync());
    }

    [Fact]
    public void Reader_OpenedBefore_ReadsNothingAfter()
    {
        using VersionLog log = Begun(NewDisk());
        Boundary kept = Write(log, 10, 10);
        Write(log, 10, 11);
        log.Sync();
        using LogReader reader = log.OpenReader(1000);
        Assert.Equal(5, reader.Read(new byte[5]));
        log.BeginWorldLine(Second, kept, OtherReplicationId);
        Assert.Throws<LogHistoryChangedException>(() => reader.Read(new byte[5]));
    }

    [Fact]
    public void ManyWorldLines_KeepWorking()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        for (int line = 2; line < 120; line++)
        {
            Boundary kept = Write(log, 20, 10 + line);
            Write(log, 20, 11 + line);
            log.BeginWorldLine(new WorldLine(line), kept, OtherReplicationId);
        }
        Assert.Equal(64, log.Branches.Count);
        using VersionLog again = Reopened(disk);
        Assert.Equal(Stream(1000, 118 * 20), ReadAll(again, 1000));
        Assert.Equal(new WorldLine(119), again.WorldLine);
        Assert.False(again.IsInHistory(Origin, Reign.None, WorldLine.First, 1001));
    }

    [Fact]
    public void SetReplicationId_KeepsHistory()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Write(log, 10, 10);
        log.SetReplicationId(OtherReplicationId);
        using LogReader reader = log.OpenReader(1000);
        Write(log, 10, 11);
        log.Sync();
        Assert.Equal(10, reader.Read(new byte[100]));
        Assert.Equal(10, reader.Read(new byte[100]));
        using VersionLog again = Reopened(disk);
        Assert.Equal((OtherReplicationId, Origin, 1020L), (again.ReplicationId, again.Origin, again.EndOffset));
    }

    [Fact]
    public void Begin_Again_DropsWhatWasBefore()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Write(log, 50_000, 10);
        log.Sync();
        log.Append("unsynced"u8);
        var seeded = new StreamOrigin(OtherReplicationId, 77, 0);
        log.Begin(seeded, Second, new VersionNumber(30));
        Assert.Equal((77, 77), (log.StartOffset, log.EndOffset));
        Assert.Null(log.LastBoundary);
        disk.Crash();
        using VersionLog again = VersionLog.Open(Options(disk));
        Assert.Equal((seeded, Second, 77L), (again.Origin, again.WorldLine, again.EndOffset));
        Assert.Single(disk.Paths, p => p.EndsWith(".slog", StringComparison.Ordinal));
    }

    [Fact]
    public void Begin_WhoseSyncFailed_OpenedAndInterruptedAnywhere_LeavesOneOfTheHistories()
    {
        for (int seed = 1; seed <= 300; seed++)
        {
            var disk = new SimulatedDisk(seed);
            VersionLog log = Begun(disk);
            Write(log, 60_000, 10);
            log.Sync();
            var seeded = new StreamOrigin(OtherReplicationId, 77, 0);
            disk.SyncFailureRate = seed % 3 == 0 ? 1 : 0;
            disk.OperationsUntilCrash = seed % 3 == 0 ? -1 : seed % 20;
            try
            {
                log.Begin(seeded, Second, new VersionNumber(30));
            }
            catch (Exception e) when (e is SimulatedCrashException or LogIOException)
            {
            }
            disk.SyncFailureRate = 0;
            // The process dies, and the machine while the next process opens the log.
            disk.Kill();
            disk.OperationsUntilCrash = seed / 3 % 40;
            try
            {
                VersionLog.Open(Options(disk));
            }
            catch (SimulatedCrashException)
            {
            }
            disk.Crash();
            using VersionLog again = VersionLog.Open(Options(disk));
            Assert.Equal(again.Origin == seeded ? 77 : 61_000, again.EndOffset);
        }
    }

    [Fact]
    public void IsInHistory_KnowsWhatABranchVoided()
    {
        using VersionLog log = Begun(NewDisk());
        Boundary kept = Write(log, 100, 10);
        Write(log, 100, 11);
        log.BeginWorldLine(Second, kept, OtherReplicationId);
        Write(log, 100, 11);
        log.Sync();
        Assert.True(log.IsInHistory(Origin, Reign.None, WorldLine.First, 1100));
        Assert.False(log.IsInHistory(Origin, Reign.None, WorldLine.First, 1101));
        Assert.True(log.IsInHistory(Origin, Reign.None, Second, 1200));
        Assert.False(log.IsInHistory(Origin, Reign.None, new WorldLine(3), 1100));
        Assert.False(log.IsInHistory(Origin with { Offset = 500 }, Reign.None, WorldLine.First, 1100));
    }
}
