// Small durable files on a disk that tears and forgets, with a crash at any operation: what was written last is there, whole, or what was
// being written.
using System.Text;
using Slogger.Log.Files;
using Slogger.Log.Tests.Simulation;

namespace Slogger.Log.Tests;

public sealed class DurableFileTests
{
    private const string Directory = "/notes", Name = Directory + "/note";

    [Fact]
    public void File_WithACrashAtAnyOperation_HoldsWhatWasWrittenLast()
    {
        for (int seed = 1; seed <= 400; seed++) { Assert.Null(Wrong(seed, new SimulatedDisk(seed))); }
    }

    // What it relies on: the same rounds notice a disk that does not sync.
    [Theory]
    [InlineData(true, false)]
    [InlineData(false, true)]
    public void Disk_DoesNotSync_IsNoticed(bool data, bool directories) =>
        Assert.Contains(
            Enumerable.Range(1, 400),
                seed => Wrong(seed, new(seed) { IgnoresDataSync = data, IgnoresDirectorySync = directories }) is not null);

    [Fact]
    public void File_WhoseSyncFailsOnce_IsAsItWas_AndTheNextWriteIsDurable()
    {
        var disk = new SimulatedDisk(3);
        disk.CreateDirectory(Directory);
        DurableFile.Write(disk, Name, "old"u8);
        disk.SyncFailureRate = 1;
        Assert.Throws<IOException>(() => DurableFile.Write(disk, Name, "new"u8));
        disk.SyncFailureRate = 0;
        Assert.Equal("old", Text(disk));
        DurableFile.Write(disk, Name, "newer"u8);
        disk.Crash();
        Assert.Equal("newer", Text(disk));
    }

    // A device and a file of the kernel that cannot be synced: who says they are has not asked.
    [Fact]
    public void SystemFiles_WhatCannotBeSynced_IsNotSaidToBeDurable()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "elsewhere other calls are made");
        using ILogFile device = SystemFileLayer.Instance.Open("/dev/null", writable: true);
        Assert.Throws<IOException>(device.SyncData);
        Assert.Throws<IOException>(() => SystemFileLayer.Instance.SyncDirectory("/proc/self"));
    }

    private static string? Wrong(int seed, SimulatedDisk disk)
    {
        var random = new Random(seed);
        disk.CreateDirectory(Directory);
        string? durable = null;
        for (int life = 0; life < 5; life++)
        {
            string? next = durable;
            disk.OperationsUntilCrash = random.Next(1, 25);
            try
            {
                while (true)
                {
                    // More than a sector, so that it can be torn.
                    next = random.Next(6) == 0 ? null : new string((char)('a' + random.Next(26)), random.Next(1, 1500));
                    if (next is null) { DurableFile.Delete(disk, Name); }
                    else { DurableFile.Write(disk, Name, Encoding.ASCII.GetBytes(next)); }
                    durable = next;
                }
            }
            catch (SimulatedCrashException)
            {
                disk.Crash();
            }
            string? found = Text(disk);
            if (found != durable && found != next)
            {
                return $"seed {seed}, life {life}: {found} is there, written: {durable}, then {next}";
            }
            durable = found;
        }
        return null;
    }

    private static string? Text(SimulatedDisk disk) => DurableFile.Read(disk, Name) is { } bytes ? Encoding.ASCII.GetString(bytes) : null;
}
