using System.Text;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Checkpoints;
using Slogger.Log.Files;
using Slogger.Log.Tests.Simulation;
using static Slogger.Log.Tests.LogFixture;

namespace Slogger.Log.Tests;

public class SnapshotStoreTests
{
    private const string Directory = "/bgsave";

    [Fact]
    public void Add_SameVersionInterruptedAnywhere_LeavesOneThatVerifies()
    {
        for (int seed = 1; seed <= 300; seed++)
        {
            var disk = new SimulatedDisk(seed);
            SnapshotStore store = SnapshotStore.Open(Directory, disk);
            Snapshot first = Add(store, disk, 1, 7, content: 1);
            disk.OperationsUntilCrash = seed % 20;
            try
            {
                Assert.Equal([Add(store, disk, 1, 7, content: 2)], store.All);
            }
            catch (SimulatedCrashException)
            {
            }
            disk.Crash();
            SnapshotStore again = SnapshotStore.Open(Directory, disk);
            Assert.Contains(again.All.Count, (int[])[1, 2]);
            Assert.All(again.All, again.Verify);
            Assert.Equal(again.All.Count * 2, disk.List(Directory).Count);
            // With both there, the new one counts.
            UsableSnapshot newest = again.Latest(new WorldLine(1), _ => default, new VersionNumber(100))!.Value;
            Assert.Equal(again.All.Count == 2, newest.Snapshot != first && again.All.Contains(first));
        }
    }

    [Fact]
    public void Extend_ThenCrash_StandsForTheLaterVersionsUntilABranchBelow()
    {
        SimulatedDisk disk = NewDisk();
        SnapshotStore store = SnapshotStore.Open(Directory, disk);
        Snapshot snapshot = Add(store, disk, 1, 7);
        Snapshot extended = store.Extend(snapshot, new VersionNumber(12), new HybridTimestamp(5));
        disk.Crash();
        SnapshotStore again = SnapshotStore.Open(Directory, disk);
        Assert.Equal([extended], again.All);
        again.Verify(extended);
        Assert.Equal(new UsableSnapshot(extended, new VersionNumber(12)),
            again.Latest(new WorldLine(1), _ => default, new VersionNumber(100)));
        Assert.Equal(new UsableSnapshot(extended, new VersionNumber(9)),
            again.Latest(new WorldLine(2), _ => new VersionNumber(9), new VersionNumber(100)));
        Assert.Null(again.Latest(new WorldLine(2), _ => new VersionNumber(6), new VersionNumber(100)));
    }

    [Fact]
    public void Prune_KeepsTheNewestAtTheCutAndWhatIsAbove()
    {
        SimulatedDisk disk = NewDisk();
        SnapshotStore store = SnapshotStore.Open(Directory, disk);
        Snapshot[] all = [.. new[] { 3, 5, 8, 9 }.Select(version => Add(store, disk, 1, version))];
        store.Prune(2, new WorldPoint(new WorldLine(1), new VersionNumber(8)), _ => new VersionNumber(long.MaxValue));
        Assert.Equal(all[1..], store.All);
        Assert.Equal(all[1..], SnapshotStore.Open(Directory, disk).All);
    }

    [Fact]
    public void Open_ManifestWithoutAName_NamesTheFileBesideIt()
    {
        SimulatedDisk disk = NewDisk();
        disk.CreateDirectory(Directory);
        Write(disk, "1-7.rdb", "data");
        Write(disk, "1-7.json", """{"worldLine":1,"version":7,"lastVersion":7,"closedAt":0,"createdAt":"1970-01-01T00:00:00+00:00","bytes":4}""");
        SnapshotStore store = SnapshotStore.Open(Directory, disk);
        Assert.Equal("1-7.rdb", Assert.Single(store.All).FileName);
        Assert.Equal([Add(store, disk, 1, 7)], store.All);
    }

    private static Snapshot Add(SnapshotStore store, SimulatedDisk disk, long worldLine, long version, int content = 0)
    {
        string path = store.NewTemporaryPath();
        Write(disk, Path.GetFileName(path), $"{worldLine} {version} {content}");
        return store.Add(path, new Snapshot
        {
            WorldLine = worldLine, Version = version, LastVersion = version, ClosedAt = (ulong)version,
                CreatedAt = DateTimeOffset.UnixEpoch,
        });
    }

    private static void Write(SimulatedDisk disk, string name, string text)
    {
        using ILogFile file = disk.Create(Path.Combine(Directory, name));
        file.Write(Encoding.ASCII.GetBytes(text), 0);
    }
}
