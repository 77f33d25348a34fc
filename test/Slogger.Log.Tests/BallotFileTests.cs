// A node never forgets what it promised, and never takes half of a promise for one.
using System.Buffers.Binary;
using System.Text;
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.Log.Ballots;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Log.Tests.Simulation;

namespace Slogger.Log.Tests;

public class BallotFileTests
{
    private const string Directory = "/data";
    private const string FilePath = "/data/ballot";
    private const string Cluster = "0123456789abcdef0123456789abcdef";
    private const int SlotBytes = 4096;

    private static readonly NodeName Node = new("a");

    [Fact]
    public void Open_NoFile_IsNewUntilSomethingIsWritten()
    {
        SimulatedDisk disk = NewDisk();
        Guid incarnation;
        using (BallotFile made = Open(disk))
        {
            Assert.Equal((true, Reign.None, false), (made.IsNew, made.Ballot.Promised, made.Ballot.Learns));
            incarnation = made.Incarnation;
        }
        disk.Crash();
        BallotFile file = Open(disk);
        Assert.Equal((true, incarnation), (file.IsNew, file.Incarnation));
        file.Write(new Ballot(default, default) { Learns = true });
        Assert.False(file.IsNew);
        disk.Crash();
        file = Open(disk);
        Assert.Equal((false, incarnation, true, false), (file.IsNew, file.Incarnation, file.Ballot.Learns, file.Ballot.Founds));
        file.Write(new Ballot(new(1), Node) { Learns = true, Founds = true });
        Assert.True(Open(disk).Ballot is { Learns: true, Founds: true });
        foreach (Founding? founded in (Founding?[])[null, new(new(3), new("b"))])
        {
            file.Write(new Ballot(new(1), Node) { Members = new([Node]) { Founded = founded } });
            Assert.Equal(file.Ballot, Open(disk).Ballot);
        }
        Assert.NotEqual(incarnation, Open(NewDisk()).Incarnation);
    }

    [Fact]
    public void Write_IsDurable_WithOneSync()
    {
        SimulatedDisk disk = NewDisk();
        BallotFile file = Open(disk);
        (int data, int names) = (disk.DataSyncs, disk.DirectorySyncs);
        for (int reign = 1; reign <= 5; reign++)
        {
            Ballot ballot = Promise(reign);
            file.Write(ballot);
            Assert.Equal(ballot, file.Ballot);
            Assert.Equal((data + 1, names), (disk.DataSyncs, disk.DirectorySyncs));
            disk.Crash();
            file = Open(disk);
            Assert.Equal(ballot, file.Ballot);
            (data, names) = (disk.DataSyncs, disk.DirectorySyncs);
        }
    }

    [Fact]
    public void Write_LongestNames_AreRead()
    {
        SimulatedDisk disk = NewDisk();
        var node = new NodeName(new string('n', BallotFile.TextMax));
        string cluster = new('c', BallotFile.TextMax);
        Cohort members = new(Enumerable.Range(0, 7).Select(i => (new NodeName(new string((char)('a' + i), BallotFile.TextMax)),
            new string('h', 255))));
        var ballot = new Ballot(new Reign(long.MaxValue), new NodeName(new string('w', BallotFile.TextMax)))
        {
            Learns = true, Members = members,
        };
        BallotFile.Open(disk, FilePath, cluster, new ShardId(int.MaxValue), node).Write(ballot);
        Assert.Equal(ballot, BallotFile.Open(disk, FilePath, cluster, new ShardId(int.MaxValue), node).Ballot);
        Assert.Throws<ArgumentException>(() => BallotFile.Open(disk, FilePath, cluster + "c", new ShardId(1), node));
        Assert.Throws<ArgumentException>(() => Open(NewDisk()).Write(new Ballot(default, new NodeName("\u00e9"))));
        Assert.Throws<ArgumentException>(() => Open(NewDisk()).Write(ballot with { Members = members.With(new("x"), "") }));
        Assert.Throws<ArgumentException>(
            () => Open(NewDisk()).Write(ballot with { Members = new([(Node, new string('h', 256))]) }));
    }

    // Two slots of 512 bytes without members. It is of the new format once it was opened.
    [Fact]
    public void Open_OfFormat1_IsReadAndReplaced()
    {
        byte[] slot = new byte[512];
        "SLBT"u8.CopyTo(slot);
        slot[4] = 1;
        slot[8] = 77;
        slot[24] = 5;
        slot[32] = 9;
        slot[40] = 1;
        int at = 45;
        foreach (string text in (string[])[Cluster, Node.Text, "c"])
        {
            slot[at++] = (byte)text.Length;
            at += Encoding.ASCII.GetBytes(text, slot.AsSpan(at));
        }
        BinaryPrimitives.WriteUInt32LittleEndian(slot.AsSpan(508), Crc32C.Compute(slot.AsSpan(0, 508)));
        SimulatedDisk disk = DiskOf([.. new byte[512], .. slot]);
        var ballot = new Ballot(new Reign(9), new NodeName("c"));
        Assert.Equal(ballot, Open(disk).Ballot);
        disk.Crash();
        Assert.Equal(2 * SlotBytes, disk.LengthOf(FilePath));
        BallotFile file = Open(disk);
        Assert.Equal((ballot, 77), (file.Ballot, file.Incarnation.ToByteArray()[0]));
        file.Write(ballot with { Members = new([(Node, "cache0:7400")]) });
        disk.Crash();
        Assert.Equal([(Node, "cache0:7400")], Open(disk).Ballot.Members!.Members);
    }

    [Fact]
    public void Open_ASlotTornAtAnyByte_IsTheBallotBefore()
    {
        for (int slot = 0; slot < 2; slot++)
        {
            SimulatedDisk disk = NewDisk();
            BallotFile file = Open(disk);
            for (int reign = 1; reign <= 3 + slot; reign++) { file.Write(Promise(reign)); }
            byte[] before = Content(disk);
            file.Write(Promise(9));
            byte[] after = Content(disk);
            for (int torn = 1; torn < SlotBytes; torn++)
            {
                byte[] mixed = [.. before];
                int at = before.AsSpan(0, SlotBytes).SequenceEqual(after.AsSpan(0, SlotBytes)) ? SlotBytes : 0;
                after.AsSpan(at, torn).CopyTo(mixed.AsSpan(at));
                // Its last bytes, of the checksum, may be the same.
                bool isWhole = mixed.AsSpan().SequenceEqual(after);
                Assert.Equal(Promise(isWhole ? 9 : 3 + slot), Open(DiskOf(mixed)).Ballot);
            }
        }
    }

    [Fact]
    public void Open_ABitHasChangedAnywhereInTheSlotThatCounts_IsTheBallotBefore()
    {
        SimulatedDisk disk = NewDisk();
        BallotFile file = Open(disk);
        file.Write(Promise(1));
        file.Write(Promise(2));
        byte[] content = Content(disk);
        for (int at = 0; at < 2 * SlotBytes; at++)
        {
            byte[] changed = [.. content];
            changed[at] ^= 1;
            Assert.Contains(Open(DiskOf(changed)).Ballot, (Ballot[])[Promise(1), Promise(2)]);
        }
    }

    [Fact]
    public void Open_NoSlotIsWhole_IsRefused()
    {
        foreach (byte[] content in (byte[][])[[7], new byte[2 * SlotBytes], [.. Enumerable.Repeat((byte)0xFF, 2000)]])
        {
            InvalidDataException e = Assert.Throws<InvalidDataException>(() => Open(DiskOf(content)));
            Assert.Contains("Delete the node's data directory", e.Message, StringComparison.Ordinal);
        }
        Assert.True(Open(DiskOf([])).IsNew);
    }

    [Fact]
    public void Open_OfAnotherClusterShardOrNode_IsRefused()
    {
        SimulatedDisk disk = NewDisk();
        Open(disk).Write(Promise(1));
        Refused(() => BallotFile.Open(disk, FilePath, "other", new ShardId(1), Node));
        Refused(() => BallotFile.Open(disk, FilePath, Cluster, new ShardId(2), Node));
        Refused(() => BallotFile.Open(disk, FilePath, Cluster, new ShardId(1), new NodeName("b")));
        Assert.Equal(Promise(1), Open(disk).Ballot);

        static void Refused(Func<BallotFile> open) => Assert.Contains($"node a of shard 1 in cluster {Cluster}, not of node",
            Assert.Throws<InvalidDataException>(open).Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Write_InterruptedAnywhere_NeverForgetsWhatWasPromised()
    {
        for (int seed = 1; seed <= 500; seed++)
        {
            var disk = new SimulatedDisk(seed);
            disk.CreateDirectory(Directory);
            var random = new Random(seed);
            int promised = 0, tried = 0;
            for (int life = 0; life < 5; life++)
            {
                disk.OperationsUntilCrash = random.Next(20);
                disk.SyncFailureRate = seed % 3 == 0 ? 0.2 : 0;
                try
                {
                    BallotFile file = Open(disk);
                    int found = (int)file.Ballot.Promised.Number;
                    Assert.True(found >= promised && found <= tried, $"seed {seed}: {found} after {promised}, tried {tried}");
                    // Whoever asked is answered by what it says.
                    promised = found;
                    while (true)
                    {
                        tried = (int)file.Ballot.Promised.Number + 1;
                        file.Write(Promise(tried));
                        promised = tried;
                    }
                }
                catch (Exception e) when (e is SimulatedCrashException or IOException)
                {
                    // The life ends here.
                }
                if (random.Next(2) == 0) { disk.Kill(); }
                else { disk.Crash(); }
            }
        }
    }

    [Fact]
    public void Write_TheDiskRefused_NothingIsPromisedUntilItIsOpenedAnew()
    {
        SimulatedDisk disk = NewDisk();
        BallotFile file = Open(disk);
        file.Write(Promise(1));
        disk.SyncFailureRate = 1;
        Assert.Throws<IOException>(() => file.Write(Promise(2)));
        disk.SyncFailureRate = 0;
        Assert.Throws<IOException>(() => file.Write(Promise(3)));
        Assert.Equal(Promise(1), file.Ballot);
        Ballot found = Open(disk).Ballot;
        disk.Crash();
        Assert.Equal(found, Open(disk).Ballot);
    }

    [Fact]
    public void Write_OnARealDisk_IsRead()
    {
        string directory = System.IO.Directory.CreateTempSubdirectory("slogger-ballot-").FullName;
        try
        {
            string path = Path.Combine(directory, "ballot");
            using (BallotFile file = BallotFile.Open(SystemFileLayer.Instance, path, Cluster, new ShardId(1), Node))
            {
                file.Write(Promise(1));
                file.Write(Promise(2));
            }
            using BallotFile again = BallotFile.Open(SystemFileLayer.Instance, path, Cluster, new ShardId(1), Node);
            Assert.Equal(Promise(2), again.Ballot);
        }
        finally
        {
            System.IO.Directory.Delete(directory, recursive: true);
        }
    }

    private static Ballot Promise(long reign) => new(new Reign(reign), new NodeName($"n{reign}"));

    private static BallotFile Open(SimulatedDisk disk) => BallotFile.Open(disk, FilePath, Cluster, new ShardId(1), Node);

    private static SimulatedDisk NewDisk()
    {
        var disk = new SimulatedDisk(seed: 1);
        disk.CreateDirectory(Directory);
        return disk;
    }

    private static SimulatedDisk DiskOf(byte[] content)
    {
        SimulatedDisk disk = NewDisk();
        using ILogFile file = disk.Create(FilePath);
        file.Write(content, 0);
        return disk;
    }

    private static byte[] Content(SimulatedDisk disk) =>
        [.. Enumerable.Range(0, (int)disk.LengthOf(FilePath)).Select(at => disk.ByteAt(FilePath, at))];
}
