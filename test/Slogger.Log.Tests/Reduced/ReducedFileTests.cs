// A reduced file is whole or absent after a crash at any operation, and nothing that was damaged is ever read from it.
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Log.Reduced;
using Slogger.Log.Tests.Simulation;

namespace Slogger.Log.Tests.Reduced;

public sealed class ReducedFileTests
{
    private const string Directory = "/log", Name = "/log/1-7.rlog";

    // The first is empty, the last has several blocks.
    private static readonly int[] s_windows = [0, 5000, 1, 700, (2 << 20) + 300];

    private static readonly ReducedStretch s_stretch = new()
    {
        FirstOffset = 1000, LastOffset = 1000 + (100_000 * s_windows.Length), FirstDatabase = 2, First = new VersionNumber(10),
        Last = Through(s_windows.Length - 1), EndsAtGap = true, CommandsBefore = 50, CommandsAfter = 20,
        Next = "0000000000000100-00000007.rdb",
        Lines = [new(WorldLine.First, new VersionNumber(10)), new(new WorldLine(4), new VersionNumber(30))],
    };

    [Fact]
    public void File_IsReadAsItWasWritten()
    {
        SimulatedDisk disk = NewDisk(1);
        Write(disk);
        Assert.Equal(["1-7.rlog"], disk.List(Directory));
        using ReducedFile file = ReducedFile.Open(disk, Name);
        Check(file);
    }

    [Fact]
    public void File_OnARealDisk_IsReadAsItWasWritten()
    {
        string directory = System.IO.Directory.CreateTempSubdirectory("slogger-reduced").FullName;
        try
        {
            string path = Path.Combine(directory, "1-7.rlog");
            Write(SystemFileLayer.Instance, path);
            using ReducedFile file = ReducedFile.Open(SystemFileLayer.Instance, path);
            Check(file);
        }
        finally
        {
            System.IO.Directory.Delete(directory, recursive: true);
        }
    }

    [Fact]
    public void CrashAtAnyOperation_LeavesTheWholeFileOrNone()
    {
        int whole = 0, none = 0;
        for (int seed = 0; seed < 300; seed++)
        {
            SimulatedDisk disk = NewDisk(seed);
            disk.OperationsUntilCrash = seed % 30;
            bool isWritten = false;
            try
            {
                Write(disk);
                isWritten = true;
            }
            catch (SimulatedCrashException)
            {
            }
            disk.Crash();
            if (!disk.List(Directory).Contains("1-7.rlog"))
            {
                Assert.False(isWritten);
                none++;
                // Another attempt, whatever was left aside.
                Write(disk);
            }
            else { whole++; }
            using ReducedFile file = ReducedFile.Open(disk, Name);
            Check(file);
        }
        Assert.True(whole > 0 && none > 0, $"{whole} whole, {none} none");
    }

    // A sync that does nothing is noticed.
    [Fact]
    public void CrashBehindASyncThatDoesNothing_IsTold()
    {
        int told = 0;
        for (int seed = 0; seed < 50; seed++)
        {
            var disk = new SimulatedDisk(seed) { IgnoresDataSync = true };
            disk.CreateDirectory(Directory);
            Write(disk);
            disk.Crash();
            try
            {
                using ReducedFile file = ReducedFile.Open(disk, Name);
                Check(file);
            }
            catch (LogCorruptException)
            {
                told++;
            }
        }
        Assert.True(told > 0, "the disk lost nothing");
    }

    [Fact]
    public void BitFlipped_IsNeverRead()
    {
        SimulatedDisk disk = NewDisk(1);
        Write(disk);
        int length = (int)disk.LengthOf(Name);
        var random = new Random(1);
        for (int i = 0; i < 400; i++)
        {
            // The header and the small blocks as a whole, and places in the large ones.
            long at = i < 200 ? random.Next(20_000) : random.Next(length);
            byte mask = (byte)(1 << random.Next(8));
            disk.Flip(Name, at, mask);
            Assert.Throws<LogCorruptException>(() => ReducedFile.Open(disk, Name));
            disk.Flip(Name, at, mask);
        }
        using ReducedFile file = ReducedFile.Open(disk, Name);
        Check(file);
    }

    [Fact]
    public void BitFlippedBehindTheOpening_IsNeverRead()
    {
        SimulatedDisk disk = NewDisk(1);
        Write(disk);
        using ReducedFile file = ReducedFile.Open(disk, Name);
        disk.Flip(Name, disk.LengthOf(Name) - (1 << 20), 4);
        Assert.Throws<LogCorruptException>(() => Check(file));
    }

    [Fact]
    public void FileCutShortOrLonger_IsRefused()
    {
        var random = new Random(1);
        for (int i = 0; i < 60; i++)
        {
            SimulatedDisk disk = NewDisk(1);
            Write(disk);
            int length = (int)disk.LengthOf(Name);
            using (ILogFile open = disk.Open(Name, writable: true))
            {
                open.SetLength(i == 0 ? length + 512 : i == 1 ? 0 : random.Next(length));
            }
            Assert.Throws<LogCorruptException>(() => ReducedFile.Open(disk, Name));
        }
    }

    [Fact]
    public void Garbage_IsRefused()
    {
        var random = new Random(1);
        for (int i = 0; i < 200; i++)
        {
            SimulatedDisk disk = NewDisk(1);
            byte[] garbage = new byte[random.Next(30_000)];
            random.NextBytes(garbage);
            using (ILogFile open = disk.Create(Name)) { open.Write(garbage, 0); }
            Assert.Throws<LogCorruptException>(() => ReducedFile.Open(disk, Name));
        }
    }

    // Each block is right, and in the right place: only the salt tells.
    [Fact]
    public void BlocksOfAnotherFile_AreRefused()
    {
        SimulatedDisk disk = NewDisk(1);
        Write(disk);
        using var first = new MemoryStream();
        using (ILogFile open = disk.Open(Name, writable: false))
        {
            byte[] header = new byte[BlockFormat.TotalBytes(ReducedHeader.Bytes, 0)];
            open.Read(header, 0);
            first.Write(header);
        }
        Write(disk);
        using (ILogFile open = disk.Open(Name, writable: true)) { open.Write(first.ToArray(), 0); }
        Assert.Throws<LogCorruptException>(() => ReducedFile.Open(disk, Name));
    }

    [Fact]
    public void DiskRefuses_NothingIsLeftAside()
    {
        SimulatedDisk disk = NewDisk(1);
        disk.WriteFailureRate = 1;
        Assert.ThrowsAny<IOException>(() => Write(disk));
        Assert.Empty(disk.List(Directory));
    }

    [Fact]
    public void Writer_WindowThatEndsBelow_IsRefused()
    {
        using var writer = new ReducedFileWriter(NewDisk(1), Name);
        writer.EndWindow(End(1), Through(1));
        Assert.Throws<ArgumentException>(() => writer.EndWindow(End(1), Through(2)));
        Assert.Throws<ArgumentException>(() => writer.EndWindow(End(2), End(1).Version));
        Assert.Throws<ArgumentException>(() => writer.Finish(s_stretch));
        writer.Append([1]);
        Assert.Throws<ArgumentException>(() => writer.Finish(s_stretch with { LastOffset = End(1).Offset }));
    }

    private static void Write(IFileLayer disk, string path = Name)
    {
        using var writer = new ReducedFileWriter(disk, path);
        long at = 0;
        for (int i = 0; i < s_windows.Length; i++)
        {
            byte[] data = LogFixture.Stream(at, s_windows[i]);
            // In two pieces.
            writer.Append(data.AsSpan(0, data.Length / 3));
            writer.Append(data.AsSpan(data.Length / 3));
            writer.EndWindow(End(i), Through(i));
            at += data.Length;
        }
        writer.Finish(s_stretch);
    }

    private static void Check(ReducedFile file)
    {
        Assert.Equal(s_stretch, file.Stretch with { Lines = s_stretch.Lines });
        Assert.Equal(s_stretch.Lines, file.Stretch.Lines);
        Assert.Equal(s_windows.Length, file.Windows.Count);
        byte[] all = new byte[file.DataBytes];
        int count, length = 0;
        while ((count = file.Read(length, all.AsSpan(length, Math.Min(3000, all.Length - length)))) > 0) { length += count; }
        Assert.Equal(LogFixture.Stream(0, s_windows.Sum()), all);
        long at = 0;
        for (int i = 0; i < s_windows.Length; i++)
        {
            Assert.Equal(new ReducedFileWindow(End(i), Through(i), at, at + s_windows[i]), file.Windows[i]);
            at += s_windows[i];
        }
    }

    // Empty versions follow each second one.
    private static VersionNumber Through(int window) => new(10 + (10 * window) + (window % 2 * 5));

    private static Boundary End(int window) => new(
        window < 2 ? WorldLine.First : new WorldLine(4), new VersionNumber(10 + (10 * window)), 1000 + (100_000 * (window + 1)), window % 3,
        HybridTimestamp.Of(window + 1, 0));

    private static SimulatedDisk NewDisk(int seed)
    {
        var disk = new SimulatedDisk(seed);
        disk.CreateDirectory(Directory);
        return disk;
    }
}
