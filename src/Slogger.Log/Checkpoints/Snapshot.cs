// What is known of one kept snapshot of mode bgsave; kept as JSON beside its file, so that a person can read it.
using System.Globalization;
using System.Text.Json.Serialization;
using Slogger.Core.Time;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Log.Checkpoints;

/// <summary>A whole state of the store (an RDB file) at the end of a version: all that is needed to restore that version.</summary>
public sealed record Snapshot
{
    /// <summary>Number of the world-line in which the version was closed.</summary>
    public required long WorldLine { get; init; }

    /// <summary>The version that it holds, with all before it.</summary>
    public required long Version { get; init; }

    /// <summary>The last version that it stands for: above <see cref="Version"/> while the shard was idle, since versions without
    /// operations need no snapshot of their own.</summary>
    public required long LastVersion { get; init; }

    /// <summary>When <see cref="LastVersion"/> was closed: the bits of a hybrid timestamp.</summary>
    public required ulong ClosedAt { get; init; }

    /// <summary>Identity of the store's replication stream when it was taken; null if the store had none.</summary>
    public string? ReplicationId { get; init; }

    /// <summary>Bytes of that stream that it holds; 0 if the store had none.</summary>
    public long Offset { get; init; }

    /// <summary>When it was taken.</summary>
    public required DateTimeOffset CreatedAt { get; init; }

    /// <summary>Length of the file, in bytes; measured by <see cref="SnapshotStore.Add"/>.</summary>
    public long Bytes { get; init; }

    /// <summary>CRC-32C of the file; computed by <see cref="SnapshotStore.Add"/>.</summary>
    public uint Checksum { get; init; }

    /// <summary>Name of the file within the store's directory, without its extension.</summary>
    [JsonIgnore]
    public string Stem => string.Create(CultureInfo.InvariantCulture, $"{WorldLine}-{Version}");

    /// <summary>The last point of history that it stands for.</summary>
    [JsonIgnore]
    public WorldPoint LastPoint => new(new WorldLine(WorldLine), new Version(LastVersion));

    /// <summary><see cref="ClosedAt"/> as a timestamp.</summary>
    [JsonIgnore]
    public HybridTimestamp Time => new(ClosedAt);
}

[JsonSourceGenerationOptions(WriteIndented = true, PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
[JsonSerializable(typeof(Snapshot))]
internal sealed partial class SnapshotJson : JsonSerializerContext;
