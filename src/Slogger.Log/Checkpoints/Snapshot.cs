using System.Text.Json.Serialization;
using Slogger.Core.Time;

namespace Slogger.Log.Checkpoints;

/// <summary>A whole state of the store (an RDB file) at the end of a version: all that is needed to restore that version.</summary>
public sealed record Snapshot : KeptFile
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

    /// <summary><see cref="ClosedAt"/> as a timestamp.</summary>
    [JsonIgnore]
    public HybridTimestamp Time => new(ClosedAt);
}
