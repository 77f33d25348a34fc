// Reigns in the log, and going back to older lines: what R1 and R4 of the design ask of it. What chance finds is in VersionLogCrashTests.
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Checkpoints;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Log.Tests.Simulation;
using static Slogger.Log.Tests.LogFixture;

namespace Slogger.Log.Tests;

public class ReignTests
{
    private static readonly WorldLine Second = new(2);

    [Fact]
    public void Begin_WithAReign_IsInItFromTheBeginning()
    {
        SimulatedDisk disk = NewDisk();
        using (VersionLog log = VersionLog.Open(Options(disk))) { log.Begin(Origin, Second, new VersionNumber(10), new Reign(4)); }
        using VersionLog again = Reopened(disk);
        Assert.Equal((new Reign(4), new Reign(4)), (again.Reign, again.FirstReign));
        Assert.Equal([At(4, 2, 1000, 9)], again.Lines.Begins.Select(b => b.Index));
        Assert.Equal((At(4, 2, 1000, 9), At(4, 2, 1000, 9)), (again.End, again.Lines.End));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void BeginReign_VoidsTheVersionThatIsOpen_AndKeepsAllThatAreClosed(bool isSynced)
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Boundary kept = Write(log, 30_000, 10);
        log.Append("open version"u8);
        if (isSynced) { log.Sync(); }
        log.BeginReign(new Reign(3));
        disk.Crash();

        log = VersionLog.Open(Options(disk));
        Assert.Equal((new Reign(3), Reign.None, WorldLine.First), (log.Reign, log.FirstReign, log.WorldLine));
        Assert.Equal((At(3, 1, 31_000, 10), At(3, 1, 31_000, 10)), (log.End, log.DurableEnd));
        Assert.Equal(kept, log.LastBoundary);
        Assert.Equal([BranchOf(3, 1, 31_000, 10)], log.Branches);
        Boundary next = Write(log, 100, 11);
        log.Sync();
        log = Reopened(disk);
        Assert.Equal([kept, next], log.Boundaries);
        Assert.Equal(Stream(1000, 30_100), ReadAll(log, 1000));
        log.Verify();
    }

    // The leader has the record of its reign, and then branches off below that; another node has never heard of the record.
    [Fact]
    public void BeginWorldLine_BelowTheRecordOfItsReign_BothLogsAreInTheSameLine()
    {
        SimulatedDisk disk = NewDisk(), others = NewDisk();
        VersionLog log = Begun(disk), other = Begun(others);
        Boundary kept = Write(log, 100, 10);
        Write(log, 100, 11);
        Assert.Equal(kept, Write(other, 100, 10));
        log.BeginReign(new Reign(3));
        log.BeginWorldLine(Second, kept, ReplicationId);
        other.BeginWorldLine(Second, kept, ReplicationId, new Reign(3));
        foreach ((VersionLog each, SimulatedDisk its) in new[] { (log, disk), (other, others) })
        {
            Boundary next = Write(each, 50, 11);
            each.Sync();
            VersionLog again = Reopened(its);
            Assert.Equal(At(3, 2, next.Offset, 11), again.End);
            Assert.Equal([At(0, 1, 1000, 9), At(3, 2, kept.Offset, 10)], again.Lines.Begins.Select(b => b.Index));
            Assert.Equal(Stream(1000, 150), ReadAll(again, 1000));
            again.Verify();
        }
    }

    [Fact]
    public void BeginReign_NothingIsVoid_ReadersGoOn()
    {
        using VersionLog log = Begun(NewDisk());
        Write(log, 10, 10);
        log.Sync();
        using LogReader reader = log.OpenReader(1000);
        log.BeginReign(new Reign(1));
        Write(log, 10, 11);
        log.Sync();
        Assert.Equal((10, 10), (reader.Read(new byte[100]), reader.Read(new byte[100])));
        Assert.Equal(0, log.Rewinds);

        log.Append("open"u8);
        log.BeginReign(new Reign(2));
        Assert.Equal(1, log.Rewinds);
        Assert.Throws<LogHistoryChangedException>(() => reader.Read(new byte[100]));
    }

    [Fact]
    public void BeginReign_NextFileIsReady_TakesOneSyncAlone()
    {
        SimulatedDisk disk = NewDisk();
        using VersionLog log = Begun(Options(disk) with { KeepsSpare = true });
        Write(log, 10, 10);
        log.Sync();
        (int data, int names) = (disk.DataSyncs, disk.DirectorySyncs);
        log.BeginReign(new Reign(1));
        Assert.Equal((data + 1, names), (disk.DataSyncs, disk.DirectorySyncs));
    }

    [Fact]
    public void BeginReign_Repeated_ChangesNothing_UntilSomethingIsAppended()
    {
        SimulatedDisk disk = NewDisk();
        using VersionLog log = Begun(disk);
        Write(log, 10, 10);
        log.BeginReign(new Reign(2));
        int files = disk.Paths.Count();
        log.BeginReign(new Reign(2));
        Assert.Equal(files, disk.Paths.Count());
        Assert.Throws<ArgumentException>(() => log.BeginReign(new Reign(1)));
        log.Append("x"u8);
        Assert.Throws<ArgumentException>(() => log.BeginReign(new Reign(2)));
        Assert.Equal(1011, log.EndOffset);
    }

    [Fact]
    public void BeginReign_AWorldLineHasBegunInIt_IsNotRepeated()
    {
        using VersionLog log = Begun(NewDisk());
        Boundary kept = Write(log, 10, 10);
        log.BeginReign(new Reign(2));
        log.BeginWorldLine(Second, kept, OtherReplicationId);
        Assert.Throws<ArgumentException>(() => log.BeginReign(new Reign(2)));
        Assert.Equal([BranchOf(2, 1, 1010, 10), BranchOf(2, 2, 1010, 10)], log.Branches);
    }

    [Fact]
    public void BeginReign_BeforeAnyVersion_IsAtTheOrigin()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        log.Append("open"u8);
        log.BeginReign(new Reign(1));
        Assert.Equal((At(1, 1, 1000, 9), (Boundary?)null), (log.End, log.LastBoundary));
        using VersionLog again = Reopened(disk);
        Assert.Equal(At(1, 1, 1000, 9), again.DurableEnd);
    }

    [Fact]
    public void BeginWorldLine_RepeatedInALaterReign_ChangesNothing()
    {
        using VersionLog log = Begun(NewDisk());
        Boundary kept = Write(log, 10, 10);
        log.BeginWorldLine(Second, kept, OtherReplicationId);
        log.BeginReign(new Reign(1));
        log.Append("a filler"u8);
        log.BeginWorldLine(Second, kept, OtherReplicationId);
        Assert.Equal(At(1, 2, 1010, 10), log.End);
        Assert.Equal([BranchOf(0, 2, 1010, 10), BranchOf(1, 2, 1010, 10)], log.Branches);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void RewindTo_AnOlderLine_IsInItAgain(bool isReopened)
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Boundary first = Write(log, 20_000, 10), second = Write(log, 20_000, 11);
        log.BeginReign(new Reign(5));
        Write(log, 100, 12);
        log.BeginWorldLine(Second, second, OtherReplicationId);
        Write(log, 20_000, 12);
        log.Append("open"u8);
        log.Sync();
        if (isReopened) { log = Reopened(disk); }
        log.RewindTo(At(0, 1, first.Offset, 10));
        Assert.Equal(1, log.Rewinds);
        disk.Crash();

        log = VersionLog.Open(Options(disk));
        Assert.Equal((Reign.None, WorldLine.First, OtherReplicationId), (log.Reign, log.WorldLine, log.ReplicationId));
        Assert.Equal((At(0, 1, 21_000, 10), At(0, 1, 21_000, 10), first), (log.End, log.DurableEnd, log.LastBoundary));
        Assert.Empty(log.Branches);
        Boundary other = Write(log, 50, 12);
        log.BeginReign(new Reign(6));
        Boundary last = Write(log, 50, 13);
        log.Sync();
        log = Reopened(disk);
        Assert.Equal([first, other, last], log.Boundaries);
        Assert.Equal([BranchOf(6, 1, 21_050, 12)], log.Branches);
        Assert.Equal(Stream(1000, 20_100), ReadAll(log, 1000));
        Assert.Equal(first, log.BoundaryAtOrBelow(new VersionNumber(11)));
        log.Verify();
    }

    [Fact]
    public void RewindTo_WhatIsNoEndOfItsLine_IsRefused_AndNothingChanges()
    {
        using VersionLog log = Begun(NewDisk());
        Boundary first = Write(log, 100, 10);
        Write(log, 100, 11);
        log.BeginReign(new Reign(2));
        Boundary third = Write(log, 100, 12);
        log.BeginWorldLine(Second, first, OtherReplicationId);
        Write(log, 100, 14);
        LogIndex end = log.End;
        LogIndex[] none =
        [
            At(0, 1, 1200, 11),         // void
            At(2, 1, 1200, 11),         // its own beginning is
            At(2, 1, third.Offset, 12), // and so is it
            At(0, 2, 1100, 10),         // no such line
            At(3, 2, 1100, 10),
            At(2, 2, 1150, 10),         // no end
            At(2, 2, 1200, 13),         // of another version
            At(2, 2, 1200, 15),         // not closed
            At(2, 2, 1000, 9),          // not of that line
            At(0, 1, 900, 8),           // before the log
        ];
        Assert.All(none, to => Assert.Throws<ArgumentException>(() => log.RewindTo(to)));
        Assert.Equal((end, 0), (log.End, log.Rewinds));
        log.RewindTo(end);
        Assert.Equal((end, end, 0), (log.End, log.DurableEnd, log.Rewinds));
    }

    [Fact]
    public void RewindTo_BelowWhatWasTrimmed_IsRefused()
    {
        using VersionLog log = Begun(NewDisk());
        Boundary first = Write(log, 40_000, 10);
        Boundary second = Write(log, 40_000, 11);
        log.Sync();
        log.TrimBefore(second.Offset);
        Assert.True(log.StartOffset > first.Offset);
        Assert.Throws<ArgumentException>(() => log.RewindTo(At(0, 1, first.Offset, 10)));
        Assert.Throws<ArgumentException>(() => log.RewindTo(At(0, 1, 1000, 9)));
    }

    [Fact]
    public void RewindTo_APartOfARun_IsThere_InFilesAndForShippers()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Boundary kept = Write(log, 10, 10);
        // Behind bytes of a version that is void then, in a file of its own.
        log.Append(Stream(log.EndOffset, 20_000));
        log.Sync();
        log.AppendEmptyRun(new VersionNumber(20), HybridTimestamp.Of(20, 0));
        Write(log, 100, 21);
        log.RewindTo(At(0, 1, 1010, 15));
        Boundary next = Write(log, 10, 16);
        log.Sync();
        log = Reopened(disk);
        Assert.Equal(kept with { Version = new VersionNumber(13) }, log.BoundaryAtOrBelow(new VersionNumber(13)));
        Assert.Equal(next, log.BoundaryAtOrBelow(new VersionNumber(16)));
        Assert.Equal(next, log.BoundaryAtOrBelow(new VersionNumber(21)));
        using var pieces = new LogPieces(log);
        List<VersionEnd> ends = [];
        Assert.True(pieces.Read(At(0, 1, 1000, 9), log.End, new byte[20], ends));
        Assert.Equal([(10, false), (15, true), (16, false)], ends.Select(e => ((int)e.Boundary.Version.Number, e.IsEmptyRun)));
    }

    [Fact]
    public void RewindTo_TheBeginning_IsEmptyAgain()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Write(log, 30_000, 10);
        log.BeginReign(new Reign(1));
        log.RewindTo(At(0, 1, 1000, 9));
        log = Reopened(disk);
        Assert.Equal((At(0, 1, 1000, 9), (Boundary?)null, 1000L), (log.End, log.LastBoundary, log.StartOffset));
        Assert.Empty(log.Boundaries);
        Boundary next = Write(log, 10, 10);
        Assert.Equal(next, log.LastBoundary);
    }

    [Fact]
    public void RewindTo_BehindAGap_TheGapIsGone()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Write(log, 100, 10);
        log.BeginGap(5000);
        log.AppendEmptyRun(new VersionNumber(12), HybridTimestamp.Of(12, 0));
        Write(log, 100, 13);
        log.Sync();
        Assert.True(log.HasGap(1000, 5100));
        log.RewindTo(At(0, 1, 1100, 12));
        Write(log, 100, 13);
        log.Sync();
        log = Reopened(disk);
        Assert.False(log.HasGap(1000, 1200));
        Assert.Equal((1000L, Origin.Offset), (log.ContiguousFrom(1000), log.History.Offset));
        Assert.Equal(Stream(1000, 200), ReadAll(log, 1000));
        Assert.Equal([12, 13], log.Boundaries.Select(b => b.Version.Number).Where(v => v > 10));
    }

    [Fact]
    public void RewindTo_TheCutThatIsHeld_IsTheNewestThatItStillReaches()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        long offset = 0;
        for (long v = 10; v <= 40; v++)
        {
            long end = Write(log, 1500, v).Offset;
            if (v == 30) { offset = end; }
            if (v % 3 == 0) { log.AppendHeldCut(new(WorldLine.First, new VersionNumber(v - 1))); }
        }
        log.Sync();
        log.RewindTo(At(0, 1, offset, 30));
        Assert.Equal(new WorldPoint(WorldLine.First, new VersionNumber(29)), log.HeldCut);
        Write(log, 10, 31);
        log.AppendHeldCut(new(WorldLine.First, new VersionNumber(31)));
        log.Sync();
        log = Reopened(disk);
        Assert.Equal(new WorldPoint(WorldLine.First, new VersionNumber(31)), log.HeldCut);
        log.RewindTo(At(0, 1, offset, 30));
        Assert.Equal(new WorldPoint(WorldLine.First, new VersionNumber(29)), log.HeldCut);
        Assert.Equal(log.HeldCut, Reopened(disk).HeldCut);
    }

    [Fact]
    public void Pieces_TheLogWentBackAndOnAnotherWay_AreOfWhatItHasNow()
    {
        foreach (int tail in (int[])[0, 64 << 10])
        {
            using VersionLog log = Begun(Options(NewDisk()) with { TailBytes = tail });
            Write(log, 10, 10);
            Write(log, 10, 11);
            log.Sync();
            LogIndex begin = At(0, 1, 1000, 9);
            using var pieces = new LogPieces(log);
            Assert.Equal(At(0, 1, 1020, 11), pieces.EndOfPiece(begin, log.End, 1000));
            log.RewindTo(At(0, 1, 1010, 10));
            log.Append("otherwise"u8);
            log.AppendBoundary(Closed(log, 12));
            log.Sync();
            LogIndex end = pieces.EndOfPiece(begin, log.End, 1000)!.Value;
            byte[] bytes = new byte[19];
            List<VersionEnd> ends = [];
            Assert.Equal(At(0, 1, 1019, 12), end);
            Assert.True(pieces.Read(begin, end, bytes, ends));
            Assert.Equal([.. Stream(1000, 10), .. "otherwise"u8], bytes);
            Assert.Equal([10, 12], ends.Select(e => e.Boundary.Version.Number));
            log.BeginReign(new Reign(1));
            Assert.Throws<ArgumentException>(() => pieces.EndOfPiece(begin, log.End, 1000));
            Assert.Equal(log.End, pieces.EndOfPiece(log.End, log.End, 1000));
        }
    }

    [Fact]
    public void Lines_SayWhereTwoLogsAgree_AndOneGoesBackToThere()
    {
        using VersionLog leader = Begun(NewDisk()), deposed = Begun(NewDisk());
        foreach (VersionLog log in (VersionLog[])[leader, deposed])
        {
            Write(log, 100, 10);
            log.BeginReign(new Reign(1));
            Write(log, 100, 11);
            log.Sync();
        }
        Write(deposed, 100, 12);
        deposed.Append("open"u8);
        deposed.Sync();
        leader.BeginReign(new Reign(2));
        Write(leader, 50, 12);
        leader.Sync();
        Assert.Equal([At(0, 1, 1000, 9), At(1, 1, 1100, 10), At(2, 1, 1200, 11)], leader.Lines.Begins.Select(b => b.Index));
        Assert.Equal(At(1, 1, 1300, 12), deposed.Lines.End);
        LogIndex to = deposed.Lines.AgreesWith(leader.Lines)!.Value;
        Assert.Equal(At(1, 1, 1200, 11), to);
        deposed.RewindTo(to);
        Assert.Equal(to, deposed.End);
    }

    [Fact]
    public void Lines_OneWhoseBeginningIsVoid_IsNoneOfThem()
    {
        using VersionLog log = Begun(NewDisk());
        Boundary first = Write(log, 100, 10);
        Write(log, 100, 11);
        log.BeginReign(new Reign(1));
        log.BeginWorldLine(Second, first, OtherReplicationId);
        LogLines lines = log.Lines;
        Assert.Equal([At(0, 1, 1000, 9), At(1, 2, 1100, 10)], lines.Begins.Select(b => b.Index));
        Assert.Equal(2, log.Branches.Count);
    }

    [Fact]
    public void IsInHistory_KnowsTheReign()
    {
        using VersionLog log = Begun(NewDisk());
        Write(log, 100, 10);
        log.Append("open"u8);
        log.BeginReign(new Reign(2));
        Write(log, 100, 11);
        log.Sync();
        Assert.True(log.IsInHistory(Origin, Reign.None, WorldLine.First, 1100));
        Assert.False(log.IsInHistory(Origin, Reign.None, WorldLine.First, 1101));
        Assert.True(log.IsInHistory(Origin, new Reign(2), WorldLine.First, 1200));
        Assert.False(log.IsInHistory(Origin, new Reign(1), WorldLine.First, 1100));
        Assert.False(log.IsInHistory(Origin, new Reign(3), WorldLine.First, 1100));
        log.RewindTo(At(0, 1, 1100, 10));
        Assert.False(log.IsInHistory(Origin, new Reign(2), WorldLine.First, 1100));
    }

    [Fact]
    public void Checkpoint_OfAReignThatWasVoid_IsNotUsed()
    {
        SimulatedDisk disk = NewDisk();
        using VersionLog log = Begun(disk);
        CheckpointStore store = CheckpointStore.Open("/checkpoints", disk);
        Write(log, 100, 10);
        Checkpoint kept = Add(store, disk, log);
        log.BeginReign(new Reign(1));
        Write(log, 100, 11);
        Add(store, disk, log);
        log.RewindTo(At(0, 1, 1100, 10));
        log.BeginReign(new Reign(2));
        Write(log, 200, 11);
        log.Sync();
        Assert.Equal(kept, store.Latest(log, log.EndOffset));
        Assert.Equal([0L, 1L], CheckpointStore.Open("/checkpoints", disk).All.Select(c => c.Reign));
    }

    [Fact]
    public void CarryForward_ManyReigns_TheCheckpointStaysUsable_AlsoWhenTheLogGoesBack()
    {
        SimulatedDisk disk = NewDisk();
        using VersionLog log = Begun(disk);
        CheckpointStore store = CheckpointStore.Open("/checkpoints", disk);
        Write(log, 20, 10);
        Add(store, disk, log);
        for (int reign = 1; reign < 200; reign++)
        {
            LogIndex before = log.End;
            log.BeginReign(new Reign(reign));
            store.CarryForward(log);
            Assert.NotNull(store.Latest(log, log.EndOffset));
            if (reign % 10 == 0)
            {
                log.RewindTo(before);
                Assert.NotNull(store.Latest(log, log.EndOffset));
            }
            else
            {
                Write(log, 20, 10 + reign);
            }
        }
        Assert.Equal(64, log.Branches.Count);
        using VersionLog again = Reopened(disk);
        Assert.Equal(64, again.Lines.Begins.Length);
    }

    [Theory]
    [InlineData("reign")]
    [InlineData("back")]
    public void Change_InterruptedAnywhere_HasHappenedOrNot(string change)
    {
        for (int seed = 1; seed <= 200; seed++)
        {
            var disk = new SimulatedDisk(seed);
            VersionLog log = Begun(disk);
            Boundary first = Write(log, 20_000, 10);
            log.BeginReign(new Reign(1));
            Write(log, 20_000, 11);
            log.Append("open"u8);
            log.Sync();
            LogIndex before = log.End, after = change == "reign" ? At(2, 1, 41_000, 11) : At(0, 1, first.Offset, 10);
            disk.OperationsUntilCrash = seed % 12;
            bool hasHappened = false;
            try
            {
                if (change == "reign") { log.BeginReign(new Reign(2)); }
                else { log.RewindTo(after); }
                hasHappened = true;
            }
            catch (SimulatedCrashException)
            {
                // As wanted.
            }
            disk.Crash();
            using VersionLog again = VersionLog.Open(Options(disk));
            Assert.True(again.End == after || (again.End == before && !hasHappened), $"seed {seed}: {again.End}");
            Assert.Equal(Stream(1000, (int)(again.Lines.End.Offset - 1000)), ReadAll(again, 1000)[..(int)(again.Lines.End.Offset - 1000)]);
        }
    }

    [Fact]
    public void Open_WithoutAnEpoch_TakesThatOfTheNewestFile()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(Options(disk) with { Epoch = 7 });
        Write(log, 10, 10);
        log.Sync();
        log = Reopened(disk, o => o with { Epoch = null });
        Write(log, 10, 11);
        log.Sync();
        Assert.All(disk.Paths, p => Assert.StartsWith("0000000007-", Path.GetFileName(p), StringComparison.Ordinal));
        Assert.Equal(1020, Reopened(disk, o => o with { Epoch = 7 }).EndOffset);

        SimulatedDisk other = NewDisk();
        Begun(Options(other) with { Epoch = null });
        Assert.All(other.Paths, p => Assert.StartsWith("0000000000-", Path.GetFileName(p), StringComparison.Ordinal));
    }

    private static LogIndex At(long reign, long worldLine, long offset, long closed) =>
        new(new WorldLine(worldLine), offset, new VersionNumber(closed)) { Reign = new Reign(reign) };

    private static LogBranch BranchOf(long reign, long worldLine, long offset, long version) =>
        new(new WorldLine(worldLine), new VersionNumber(version), offset) { Reign = new Reign(reign) };

    private static Checkpoint Add(CheckpointStore store, SimulatedDisk disk, VersionLog log)
    {
        string path = store.NewTemporaryPath();
        using (ILogFile file = disk.Create(path)) { file.Write("data"u8, 0); }
        return store.Add(path, new Checkpoint
        {
            Origin = log.Origin, ReplicationId = ReplicationId, Offset = log.EndOffset, Database = 0, WorldLine = log.WorldLine.Number,
            Reign = log.Reign.Number, CreatedAt = DateTimeOffset.UnixEpoch,
        });
    }
}
