// The formats of a segment's header: what this program writes, what it still reads, and what it refuses.
using System.Buffers.Binary;
using System.Text;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Log.Segments;
using Slogger.Log.Tests.Simulation;
using static Slogger.Log.Tests.LogFixture;

namespace Slogger.Log.Tests;

public class HeaderFormatTests
{
    [Fact]
    public void Header_OfThisFormat_IsReadAsItWasWritten()
    {
        SegmentHeader header = HeaderOf(SegmentHeader.BranchesMax);
        byte[] bytes = new byte[SegmentHeader.BytesMax];
        int length = header.Encode(bytes);
        SegmentHeader read = SegmentHeader.Decode(bytes.AsSpan(0, length), "file");
        Assert.Equal(header.Branches, read.Branches);
        Assert.Equal(header, read with { Branches = header.Branches });
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    public void Header_OfAnOlderFormat_IsReadWithoutReigns(int format)
    {
        SegmentHeader header = HeaderOf(3);
        SegmentHeader read = SegmentHeader.Decode(OldBytes(header, format), "file");
        Assert.Equal(header.Branches.Select(b => b with { Reign = Reign.None }), read.Branches);
        Assert.Equal(header with { Reign = Reign.None, FirstReign = Reign.None, Held = format == 1 ? default : header.Held },
            read with { Branches = header.Branches });
    }

    [Fact]
    public void Header_OfANewerFormat_IsRefused()
    {
        SimulatedDisk disk = NewDisk();
        Write(Begun(disk), 10, 10);
        byte[] bytes = new byte[SegmentHeader.BytesMax];
        Rewrite(disk, header =>
        {
            Array.Resize(ref bytes, header.Encode(bytes));
            BinaryPrimitives.WriteUInt32LittleEndian(bytes, SegmentHeader.FormatVersion + 1);
            return bytes;
        });
        LogCorruptException e = Assert.Throws<LogCorruptException>(() => Reopened(disk));
        Assert.Contains("format 6 is not the format 5 that this program reads; use the program that wrote it", e.Message,
            StringComparison.Ordinal);
    }

    // The lowest one that says all: a program from before goes on with a log that has neither several directories nor windows.
    [Theory]
    [InlineData(3, false, false)]
    [InlineData(4, true, false)]
    [InlineData(5, false, true)]
    [InlineData(5, true, true)]
    public void Header_HasTheLowestFormatThatSaysAll(int format, bool hasParts, bool hasWindows)
    {
        SegmentHeader header = HeaderOf(2) with
        {
            Parts = hasParts ? [5, 7] : [],
            Windows = hasWindows ? default(LogWindows).Began(Held).Ended(new(WorldLine.First, new(9)), 4000)
                .Noted(new(WorldLine.First, new(11))).Began(new(WorldLine.First, new(12)))
                .Ended(new(new WorldLine(2), new(20)), 4500) : default,
        };
        byte[] bytes = new byte[SegmentHeader.BytesMax];
        int length = header.Encode(bytes);
        Assert.Equal(format, BinaryPrimitives.ReadInt32LittleEndian(bytes));
        SegmentHeader read = SegmentHeader.Decode(bytes.AsSpan(0, length), "file");
        Assert.Equal(header.Parts, read.Parts);
        Assert.Equal(header.Windows, read.Windows);
        Assert.Equal(header, read with { Branches = header.Branches, Parts = header.Parts });
    }

    // As the program from before windows wrote it, of a segment in three directories.
    [Fact]
    public void Header_OfFormat4_IsReadWithoutWindows()
    {
        SegmentHeader header = HeaderOf(1);
        byte[] bytes = new byte[SegmentHeader.BytesMax];
        int length = header.Encode(bytes);
        BinaryPrimitives.WriteUInt32LittleEndian(bytes, 4);
        foreach (uint number in (uint[])[2, 7, 9])
        {
            BinaryPrimitives.WriteUInt32LittleEndian(bytes.AsSpan(length), number);
            length += sizeof(uint);
        }
        SegmentHeader read = SegmentHeader.Decode(bytes.AsSpan(0, length), "file");
        Assert.Equal([7u, 9u], read.Parts);
        Assert.Equal(header, read with { Branches = header.Branches, Parts = header.Parts });
    }

    [Fact]
    public void Header_ThatNamesADirectoryTwice_IsRefused()
    {
        byte[] bytes = new byte[SegmentHeader.BytesMax];
        int length = (HeaderOf(1) with { Parts = [5, 7, 5] }).Encode(bytes);
        LogCorruptException e = Assert.Throws<LogCorruptException>(() => SegmentHeader.Decode(bytes.AsSpan(0, length), "file"));
        Assert.Contains("names a directory twice (file file", e.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    public void Open_ALogOfAnOlderFormat_GoesOnInIt(int format)
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        Boundary first = Write(log, 40_000, 10);
        Write(log, 100, 11);
        log.BeginWorldLine(new WorldLine(2), first, OtherReplicationId);
        Boundary second = Write(log, 100, 11);
        log.Sync();
        Rewrite(disk, header => OldBytes(header, format));

        log = Reopened(disk);
        Assert.Equal((Reign.None, Reign.None, new WorldLine(2)), (log.Reign, log.FirstReign, log.WorldLine));
        Assert.Equal([new LogBranch(new WorldLine(2), new VersionNumber(10), 41_000)], log.Branches);
        log.BeginReign(new Reign(1));
        Boundary third = Write(log, 100, 12);
        log.Sync();
        log = Reopened(disk);
        Assert.Equal((new Reign(1), Reign.None), (log.Reign, log.FirstReign));
        Assert.Equal([first, second, third], log.Boundaries);
        Assert.Equal(Stream(1000, 40_200), ReadAll(log, 1000));
        log.Verify();
    }

    private static WorldPoint Held => new(WorldLine.First, new VersionNumber(3));

    private static SegmentHeader HeaderOf(int branches) => new()
    {
        Shard = 1, Salt = 2, Reason = SegmentReason.Continue, Epoch = 3, Sequence = 4, PreviousSequence = 3, PreviousEnd = 512,
        HistorySequence = 1, Origin = Origin, ReplicationId = OtherReplicationId,
        WorldLine = new WorldLine(7), FirstWorldLine = WorldLine.First, Reign = new Reign(9), FirstReign = new Reign(2),
        FirstVersion = new VersionNumber(1), StartOffset = 5000,
        LastBoundary = new Boundary(new WorldLine(7), new VersionNumber(40), 4990, 3, default),
        Branches = [.. Enumerable.Range(1, branches).Select(
            i => new LogBranch(new WorldLine(1 + (i / 10)), new VersionNumber(10 + i), 1000 + i) { Reign = new Reign(2 + i) })],
        Held = Held,
    };

    // Puts other headers into the files of a log, each of as many bytes as before: they end with zeros then.
    private static void Rewrite(SimulatedDisk disk, Func<SegmentHeader, byte[]> encode)
    {
        foreach (string path in disk.Paths.Where(p => p.EndsWith(".slog", StringComparison.Ordinal)).ToList())
        {
            using ILogFile file = disk.Open(path, writable: true);
            using var reader = new BlockReader(file, salt: 0);
            Assert.Equal(BlockStatus.Valid, reader.Read(0, file.Length));
            byte[] block = new byte[reader.Header.TotalBytes];
            SegmentHeader header = SegmentHeader.Decode(reader.Data, path);
            encode(header).CopyTo(block, BlockFormat.HeaderBytes);
            BlockFormat.Seal(block, BlockKind.SegmentHeader, 0, header.StartOffset, 0, 0, reader.Header.DataBytes, 0, 0);
            file.Write(block, 0);
        }
    }

    // As the programs of before wrote them.
    private static byte[] OldBytes(SegmentHeader header, int format)
    {
        var bytes = new MemoryStream();
        using var writer = new BinaryWriter(bytes, Encoding.ASCII);
        writer.Write(format);
        writer.Write(header.Shard);
        writer.Write(header.Salt);
        writer.Write((int)header.Reason);
        writer.Write(header.Epoch);
        writer.Write(header.Sequence);
        writer.Write(header.PreviousSequence);
        writer.Write(header.PreviousEnd);
        writer.Write(header.HistorySequence);
        writer.Write(header.Origin.ReplicationId);
        writer.Write(header.Origin.Offset);
        writer.Write(header.Origin.Database);
        writer.Write(header.ReplicationId);
        writer.Write(header.WorldLine.Number);
        writer.Write(header.FirstWorldLine.Number);
        writer.Write(header.FirstVersion.Number);
        writer.Write(header.StartOffset);
        writer.Write(header.LastBoundary is not null);
        Boundary last = header.LastBoundary ?? default;
        writer.Write(last.WorldLine.Number);
        writer.Write(last.Version.Number);
        writer.Write(last.Offset);
        writer.Write(last.Database);
        writer.Write(last.Time.Bits);
        writer.Write(header.Branches.Count);
        foreach (LogBranch branch in header.Branches)
        {
            writer.Write(branch.WorldLine.Number);
            writer.Write(branch.Version.Number);
            writer.Write(branch.Offset);
        }
        if (format == 1) { return bytes.ToArray(); }
        writer.Write(header.Held.WorldLine.Number);
        writer.Write(header.Held.Version.Number);
        return bytes.ToArray();
    }
}
