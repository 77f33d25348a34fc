// Copies of stores as primaries make them: files in a registry of checkpoints, with what is known of them.
using System.Buffers;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Redis.Rdb;
using Slogger.Replication.Seeding;

namespace Slogger.Sites.Tests;

internal static class SeedKit
{
    /// <summary>Keeps a copy of a shard's store, as of an offset of its log.</summary>
    public static Checkpoint Keep(this CheckpointStore store, VersionLog log, long offset, byte[] content)
    {
        string file = store.NewTemporaryPath();
        File.WriteAllBytes(file, content);
        return store.Add(file, new Checkpoint { Origin = log.Origin, ReplicationId = log.ReplicationId, Offset = offset, Database = 0,
            WorldLine = log.WorldLine.Number, CreatedAt = DateTimeOffset.UtcNow });
    }

    /// <summary>The stream's disk in a directory of its own.</summary>
    public static StreamDisk OpenDisk(string directory, VersionLog log) =>
        StreamDisk.Open(directory, log, CheckpointStore.Open(Path.Combine(directory, "checkpoints")));

    /// <summary>Has a stream begin on an empty store, as when it has been seeded with one.</summary>
    public static void BeginEmpty(this StreamDisk disk, StreamHistory history, long generation)
    {
        byte[] empty = RdbFile.Empty();
        string directory = Directory.CreateTempSubdirectory("slogger-seed").FullName;
        string file = Path.Combine(directory, "empty");
        File.WriteAllBytes(file, empty);
        uint checksum = CheckpointStore.Open(directory)
            .Add(file, new Checkpoint { Origin = default, ReplicationId = "-", Offset = 0, Database = 0, WorldLine = 1,
                CreatedAt = default }).Checksum;
        Directory.Delete(directory, recursive: true);
        var seed = new Seed($"empty {generation}", generation, empty.Length, history,
            new(WorldLine.First, history.Offset, VersionNumber.Zero),
            new(WorldLine.First, new(1))) { Checksum = checksum };
        disk.Write(new(seed, 0, empty.Length), new ReadOnlySequence<byte>(empty));
        disk.Sync();
        Assert.True(disk.Begin());
    }
}
