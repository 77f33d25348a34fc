// Lines that begin in a log that is received: once, and again by a process that was killed before it noted so.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Log.Tests.Simulation;
using Slogger.Replication.Receiving;

namespace Slogger.Sites.Tests;

public sealed class ReceivedLogTests
{
    private const string Identity = "0123456789abcdef0123456789abcdef01234567";
    private readonly SimulatedDisk _disk = new(seed: 1);

    [Fact]
    public void WorldLine_BeginsAgain_AfterTheProcessWasKilled()
    {
        var next = new LogLine(Reign.None, new WorldLine(7));
        VersionLog log = Begun();
        Close(log, 83);
        log.Append("the version that is open"u8);
        ReceivedLog.Begin(log, next, new VersionNumber(200), null);
        Assert.Equal((next.WorldLine, 1010L), (log.WorldLine, log.EndOffset));

        _disk.Kill();
        log = Open();
        ReceivedLog.Begin(log, next, new VersionNumber(200), null);
        Assert.Equal((next.WorldLine, 1010L), (log.WorldLine, log.EndOffset));
        Assert.Equal(2, log.Lines.Begins.Count());
    }

    [Fact]
    public void WorldLine_BeginsAgainBelowItsBranch_IsRefused()
    {
        VersionLog log = Begun();
        Close(log, 83);
        Close(log, 84);
        ReceivedLog.Begin(log, new(Reign.None, new WorldLine(7)), new VersionNumber(84), null);
        Assert.Throws<ArgumentException>(() => ReceivedLog.Begin(log, new(Reign.None, new WorldLine(7)), new VersionNumber(83), null));
    }

    [Fact]
    public void Reign_BeginsWhereTheLogEnds_AndNowhereElse()
    {
        VersionLog log = Begun();
        Close(log, 83);
        Close(log, 84);
        var next = new LogLine(new Reign(3), WorldLine.First);
        Assert.Throws<BrokenInvariantException>(() => ReceivedLog.Begin(log, next, new VersionNumber(83), null));
        ReceivedLog.Begin(log, next, new VersionNumber(84), 1020);
        Assert.Equal((new Reign(3), WorldLine.First), (log.Reign, log.WorldLine));
    }

    private VersionLog Begun()
    {
        VersionLog log = Open();
        log.Begin(new(Identity, 1000, 0), WorldLine.First, new VersionNumber(80));
        return log;
    }

    private VersionLog Open() => VersionLog.Open(new()
    {
        Directory = "/log", Shard = new(0), Files = _disk, PrepareInBackground = false,
        SegmentBytes = 16 << 10, BlockBytes = 512, BufferBytes = 4096,
    });

    private static void Close(VersionLog log, long version)
    {
        log.Append("ten bytes."u8);
        log.AppendBoundary(new(log.WorldLine, new VersionNumber(version), log.EndOffset, 0, HybridTimestamp.Of(version, 0)));
    }
}
