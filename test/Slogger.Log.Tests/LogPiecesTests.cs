// The log as a shipper reads it, and the cuts that a backup notes in its own. What chance finds is in VersionLogCrashTests, too.
using Slogger.Core.Replication;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Format;
using Slogger.Log.Tests.Simulation;

namespace Slogger.Log.Tests;

public class LogPiecesTests
{
    private const int TailBytes = 4 << 10;

    [Fact]
    public void Piece_OfWhatIsNotDurable_IsReadFromMemory()
    {
        using VersionLog log = LogFixture.Begun(LogFixture.Options(LogFixture.NewDisk()) with { TailBytes = TailBytes });
        LogIndex begin = log.End;
        Boundary first = LogFixture.Write(log, 100, 10);
        log.AppendEmptyRun(new VersionNumber(14), HybridTimestamp.Of(14, 0));
        log.Append(LogFixture.Stream(log.EndOffset, 50));
        using var pieces = new LogPieces(log);
        Assert.Equal(begin, log.DurableEnd);
        Assert.Equal(log.End, pieces.EndOfPiece(begin, log.End, 1000));
        Assert.Equal(new(WorldLine.First, begin.Offset + 30, new VersionNumber(9)), pieces.EndOfPiece(begin, log.End, 30));
        byte[] bytes = new byte[150];
        List<VersionEnd> ends = [];
        Assert.True(pieces.Read(begin, log.End, bytes, ends));
        Assert.Equal(LogFixture.Stream(begin.Offset, 150), bytes);
        Assert.Equal([new(first, false), new(first with { Version = new VersionNumber(14), Time = HybridTimestamp.Of(14, 0) }, true)],
            ends);
    }

    [Fact]
    public void Piece_WithoutATail_EndsWhereTheLogIsDurable()
    {
        using VersionLog log = LogFixture.Begun(LogFixture.NewDisk());
        LogIndex begin = log.End;
        LogFixture.Write(log, 100, 10);
        using var pieces = new LogPieces(log);
        Assert.Equal(begin, pieces.EndOfPiece(begin, log.End, 1000));
        log.Sync();
        Assert.Equal(log.End, pieces.EndOfPiece(begin, log.End, 1000));
    }

    [Fact]
    public void Piece_ThatFellOutOfMemory_IsReadFromTheFiles()
    {
        using VersionLog log = LogFixture.Begun(LogFixture.Options(LogFixture.NewDisk()) with { TailBytes = 512 });
        LogIndex at = log.End;
        for (int v = 10; v < 200; v++) { LogFixture.Write(log, 37, v); }
        log.Sync();
        LogFixture.Write(log, 37, 200);
        using var pieces = new LogPieces(log);
        List<VersionEnd> ends = [];
        long begin = at.Offset;
        while (pieces.EndOfPiece(at, log.End, 400) is { } to && to != at)
        {
            byte[] bytes = new byte[to.Offset - at.Offset];
            Assert.True(pieces.Read(at, to, bytes, ends));
            Assert.Equal(LogFixture.Stream(at.Offset, bytes.Length), bytes);
            at = to;
        }
        Assert.Equal(log.End, at);
        Assert.Equal(Enumerable.Range(10, 191).Select(v => new VersionNumber(v)), ends.Select(e => e.Boundary.Version));
        Assert.Equal(begin + (37 * 191), ends[^1].Boundary.Offset);
    }

    // What a cohort has committed ends where a version does. By now its log goes on behind that, and the run of empty versions is longer.
    [Theory]
    [InlineData(TailBytes)]
    [InlineData(0)]
    public void Piece_UpToAVersionWithinARun_BeforeOpenBytes_EndsThere(int tailBytes)
    {
        using VersionLog log = LogFixture.Begun(LogFixture.Options(LogFixture.NewDisk()) with { TailBytes = tailBytes });
        LogIndex begin = log.End;
        Boundary first = LogFixture.Write(log, 100, 10);
        log.Append(LogFixture.Stream(log.EndOffset, 50));
        log.AppendEmptyRun(new VersionNumber(14), HybridTimestamp.Of(14, 0));
        log.Sync();
        LogIndex limit = log.DurableClosed;
        Assert.Equal((first.Offset, 14), (limit.Offset, limit.Closed.Number));
        log.AppendEmptyRun(new VersionNumber(20), HybridTimestamp.Of(20, 0));
        log.Sync();
        using var pieces = new LogPieces(log);
        Assert.Equal(limit, pieces.EndOfPiece(begin, limit, 1000));
        List<VersionEnd> ends = [];
        Assert.True(pieces.Read(begin, limit, new byte[100], ends));
        Assert.Equal([10, 14], ends.Select(e => e.Boundary.Version.Number));
        ends.Clear();
        LogIndex to = log.DurableClosed;
        Assert.Equal(to, pieces.EndOfPiece(limit, to, 1000));
        Assert.True(pieces.Read(limit, to, default, ends));
        Assert.Equal([20], ends.Select(e => e.Boundary.Version.Number));
        Assert.True(ends[0].IsEmptyRun);
    }

    // What an older world-line has kept is shipped up to its branch, nothing of what is void.
    [Fact]
    public void Piece_OfAnOlderWorldLine_EndsAtTheBranch()
    {
        using VersionLog log = LogFixture.Begun(LogFixture.Options(LogFixture.NewDisk()) with { TailBytes = TailBytes });
        LogIndex begin = log.End;
        LogFixture.Write(log, 100, 10);
        Boundary branch = LogFixture.Write(log, 100, 11);
        LogFixture.Write(log, 100, 12);
        log.BeginWorldLine(new WorldLine(2), branch, LogFixture.OtherReplicationId);
        Boundary after = LogFixture.Write(log, 60, 12);
        using var pieces = new LogPieces(log);
        var limit = new LogIndex(WorldLine.First, branch.Offset, branch.Version);
        Assert.Equal(limit, pieces.EndOfPiece(begin, limit, 1000));
        List<VersionEnd> ends = [];
        Assert.True(pieces.Read(begin, limit, new byte[200], ends));
        Assert.Equal([10, 11], ends.Select(e => e.Boundary.Version.Number));
        var next = new LogIndex(new WorldLine(2), branch.Offset, branch.Version);
        Assert.Equal(log.End, pieces.EndOfPiece(next, log.End, 1000));
        ends.Clear();
        byte[] bytes = new byte[60];
        Assert.True(pieces.Read(next, log.End, bytes, ends));
        Assert.Equal([new(after, false)], ends);
        Assert.Equal(LogFixture.Stream(branch.Offset, 60), bytes);
    }

    // Told from memory; read when the files hold, in the same place, what a later world-line has put there.
    [Fact]
    public void Piece_WhosePlaceALaterWorldLineHasTaken_IsNotRead()
    {
        using VersionLog log = LogFixture.Begun(LogFixture.Options(LogFixture.NewDisk()) with { TailBytes = TailBytes });
        LogIndex begin = log.End;
        Boundary branch = LogFixture.Write(log, 100, 10);
        LogFixture.Write(log, 100, 11);
        using var pieces = new LogPieces(log);
        LogIndex told = pieces.EndOfPiece(begin, log.End, 1000)!.Value;
        LogIndex inside = pieces.EndOfPiece(begin, log.End, 150)!.Value;
        log.BeginWorldLine(new WorldLine(2), branch, LogFixture.OtherReplicationId);
        LogFixture.Write(log, 300, 11);
        log.Sync();
        Assert.False(pieces.Read(begin, told, new byte[200], []));
        Assert.False(pieces.Read(begin, inside, new byte[150], []));
        Assert.True(pieces.Read(begin, new(WorldLine.First, branch.Offset, branch.Version), new byte[100], []));
    }

    [Fact]
    public void Piece_ThatAWorldLineMadeVoidMeanwhile_IsNotRead()
    {
        using VersionLog log = LogFixture.Begun(LogFixture.NewDisk());
        LogIndex begin = log.End;
        Boundary branch = LogFixture.Write(log, 100, 10);
        LogFixture.Write(log, 100, 11);
        log.Sync();
        using var pieces = new LogPieces(log);
        LogIndex to = pieces.EndOfPiece(begin, log.End, 150)!.Value;
        Assert.True(pieces.Read(begin, to, new byte[150], []));
        LogIndex rest = pieces.EndOfPiece(to, log.End, 150)!.Value;
        log.BeginWorldLine(new WorldLine(2), branch, LogFixture.OtherReplicationId);
        Assert.False(pieces.Read(to, rest, new byte[rest.Offset - to.Offset], []));
    }

    // Consecutive runs become one: what was told of the shorter one still holds.
    [Theory]
    [InlineData(0)]
    [InlineData(TailBytes)]
    public void Piece_EndingInARunThatHasGrownSince_EndsWhereItWasTold(int tailBytes)
    {
        using VersionLog log = LogFixture.Begun(LogFixture.Options(LogFixture.NewDisk()) with { TailBytes = tailBytes });
        LogIndex begin = log.End;
        Boundary first = LogFixture.Write(log, 100, 10);
        log.AppendEmptyRun(new VersionNumber(14), HybridTimestamp.Of(14, 0));
        LogIndex told = log.End;
        log.AppendEmptyRun(new VersionNumber(19), HybridTimestamp.Of(19, 0));
        log.Sync();
        using var pieces = new LogPieces(log);
        List<VersionEnd> ends = [];
        Assert.True(pieces.Read(begin, told, new byte[100], ends));
        Assert.Equal([new(first, false), new(first with { Version = new VersionNumber(14), Time = HybridTimestamp.Of(19, 0) }, true)],
            ends);
        ends.Clear();
        Assert.True(pieces.Read(told, log.End, [], ends));
        Assert.Equal([new VersionNumber(19)], ends.Select(e => e.Boundary.Version));
    }

    [Fact]
    public void Piece_BelowWhatWasTrimmed_IsNone()
    {
        using VersionLog log = LogFixture.Begun(LogFixture.NewDisk());
        LogIndex begin = log.End;
        for (int v = 10; v < 60; v++)
        {
            LogFixture.Write(log, 1000, v);
            log.Sync();
        }
        log.TrimBefore(log.EndOffset);
        using var pieces = new LogPieces(log);
        Assert.Null(pieces.EndOfPiece(begin, log.End, 1000));
    }

    [Fact]
    public void HeldCut_IsFoundAgain_OnceItIsDurable()
    {
        SimulatedDisk disk = LogFixture.NewDisk();
        VersionLog log = LogFixture.Begun(disk);
        LogFixture.Write(log, 100, 10);
        Assert.Throws<ArgumentException>(() => log.AppendHeldCut(new(WorldLine.First, new VersionNumber(11))));
        log.AppendHeldCut(new(WorldLine.First, new VersionNumber(10)));
        Assert.Equal(default, log.HeldCut);
        log.Sync();
        Assert.Equal(10, log.HeldCut.Version.Number);
        LogFixture.Write(log, 100, 11);
        log.AppendHeldCut(new(WorldLine.First, new VersionNumber(11)));
        using VersionLog again = LogFixture.Reopened(disk);
        Assert.Equal(new WorldPoint(WorldLine.First, new VersionNumber(10)), again.HeldCut);
        // Each new file says it again: the one that has it may be trimmed.
        for (int v = 11; v < 60; v++)
        {
            LogFixture.Write(again, 1000, v);
            again.Sync();
        }
        again.TrimBefore(again.EndOffset);
        using VersionLog later = LogFixture.Reopened(disk);
        Assert.True(later.FirstBoundary is { } first && first.Version.Number > 11);
        Assert.Equal(new WorldPoint(WorldLine.First, new VersionNumber(10)), later.HeldCut);
        Assert.Equal([new VersionNumber(59)], [later.LastBoundary!.Value.Version]);
    }

    // An idle backup notes a cut and closes a run in turn: that may not fill its disk.
    [Fact]
    public void HeldCuts_BetweenEmptyRuns_TakeNoSpaceUntilTheNextSync()
    {
        using VersionLog log = LogFixture.Begun(LogFixture.NewDisk());
        Boundary first = LogFixture.Write(log, 100, 10);
        for (int v = 11; v < 5000; v++)
        {
            log.AppendEmptyRun(new VersionNumber(v), HybridTimestamp.Of(v, 0));
            log.AppendHeldCut(new(WorldLine.First, new VersionNumber(v)));
        }
        log.Sync();
        Assert.Equal(16 << 10, log.SizeBytes);
        Assert.Equal(4999, log.HeldCut.Version.Number);
        Assert.Equal([10, 4999], log.Boundaries.Select(b => b.Version.Number));
        Assert.Equal(first with { Version = new VersionNumber(77) },
            log.BoundaryAtOrBelow(new VersionNumber(77))!.Value with { Time = first.Time });
    }

}
