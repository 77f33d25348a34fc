// Any byte of a durable block that changes is found: at opening, or when its segment is read if that is not verified at opening.
using Slogger.Core.Versions;
using Slogger.Log.Format;
using Slogger.Log.Tests.Simulation;
using static Slogger.Log.Tests.LogFixture;

namespace Slogger.Log.Tests;

public class CorruptionTests
{
    [Fact]
    public void Crc32C_OfTheStandardVector_IsRight()
    {
        Assert.Equal(0xE3069283u, Crc32C.Compute("123456789"u8));
        Assert.Equal(0xE3069283u, Crc32C.Compute("6789"u8, Crc32C.Compute("12345"u8)));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void AnyByteOfASyncedBlock_Flipped_IsFoundAtOpen(bool payloadIsZero)
    {
        const int seed = 20_240_117;
        var random = new Random(seed);
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        for (int i = 0; i < 12; i++)
        {
            int count = random.Next(1, 3000);
            log.Append(payloadIsZero ? new byte[count] : Stream(log.EndOffset, count));
            log.AppendBoundary(Closed(log, 10 + i));
            log.Sync();
        }
        string tail;
        log.Dispose();
        using (VersionLog opened = VersionLog.Open(Options(disk)))
        {
            tail = opened.Report.TailFile!;
            Assert.False(opened.Report.TornTail);
            Assert.True(opened.Report.Segments > 1);
        }
        foreach (string path in disk.Paths.ToList())
        {
            long end = path == tail ? TailEnd(disk) : disk.LengthOf(path);
            for (long at = 0; at < end; at += 1 + random.Next(at < 700 || end - at < 700 ? 1 : 5))
            {
                byte mask = (byte)random.Next(1, 256);
                disk.Flip(path, at, mask);
                var caught = Assert.Throws<LogCorruptException>(() => VersionLog.Open(Options(disk)).Dispose());
                Assert.Equal(path, caught.File);
                Assert.InRange(caught.Position, 0, at);
                disk.Flip(path, at, mask);
            }
        }
        using VersionLog intact = VersionLog.Open(Options(disk));
        Assert.Equal(new VersionNumber(21), intact.LastBoundary?.Version);
    }

    [Fact]
    public void OldSegments_NotVerifiedAtOpen_AreVerifiedWhenRead()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Write(log, 60_000, 10);
        log.Sync();
        string first = disk.Paths.First();
        log.Dispose();
        disk.Flip(first, 9000, 1);
        using VersionLog again = VersionLog.Open(Options(disk) with { VerifyAtOpenBytes = 0 });
        Assert.Throws<LogCorruptException>(() => ReadAll(again, 1000));
        Assert.Throws<LogCorruptException>(() => again.Verify());
        Assert.Equal(Stream(50_000, 11_000), ReadAll(again, 50_000));
    }

    [Fact]
    public void ABlockZeroedBelowALaterSyncedOne_IsNotATornTail()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        for (int i = 0; i < 3; i++)
        {
            Write(log, 1000, 10 + i);
            log.Sync();
        }
        string path = disk.Paths.Order().First(); // the next may be prepared already
        log.Dispose();
        long lastBlock = TailEnd(disk) - BlockFormat.TotalBytes(1000, 1);
        for (long at = lastBlock - BlockFormat.TotalBytes(1000, 1); at < lastBlock; at++)
        {
            disk.Flip(path, at, disk.ByteAt(path, at));
        }
        Assert.Throws<LogCorruptException>(() => VersionLog.Open(Options(disk)));
    }

    [Fact]
    public void AMissingSegment_IsNamed()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Write(log, 60_000, 10);
        log.Sync();
        log.Dispose();
        disk.Delete("/log/0000000001-000000000002.slog");
        var caught = Assert.Throws<LogCorruptException>(() => VersionLog.Open(Options(disk)));
        Assert.Contains("segment 2", caught.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void AnUnsyncedTornTail_IsCutAndReported_AndDoesNotComeBack()
    {
        int torn = 0;
        for (int seed = 1; seed <= 50; seed++)
        {
            var disk = new SimulatedDisk(seed);
            VersionLog log = Begun(disk);
            Write(log, 100, 10);
            log.Sync();
            log.Append(Stream(1100, 9000));
            disk.Crash();
            using VersionLog again = VersionLog.Open(Options(disk));
            torn += again.Report.TornTail ? 1 : 0;
            long end = again.EndOffset;
            Assert.InRange(end, 1100, 10_100);
            again.Append("next"u8);
            again.Sync();
            using VersionLog third = Reopened(disk);
            Assert.Equal([.. Stream(1000, (int)(end - 1000)), .. "next"u8], ReadAll(third, 1000));
        }
        Assert.True(torn > 0);
    }

    private static long TailEnd(SimulatedDisk disk)
    {
        using VersionLog log = VersionLog.Open(Options(disk));
        return log.Report.TailPosition;
    }
}
