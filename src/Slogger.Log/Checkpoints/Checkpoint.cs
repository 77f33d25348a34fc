using Slogger.Log.Format;

namespace Slogger.Log.Checkpoints;

/// <summary>A whole state of the store (an RDB file) at a point of the stream. From it and the log's bytes above its offset any
/// later version can be restored.</summary>
public sealed record Checkpoint : KeptFile
{
    /// <summary>The history it belongs to: the log's origin.</summary>
    public required StreamOrigin Origin { get; init; }

    /// <summary>Identity of the stream when it was taken.</summary>
    public required string ReplicationId { get; init; }

    /// <summary>Bytes of history it holds.</summary>
    public required long Offset { get; init; }

    /// <summary>The database selected in the stream at <see cref="Offset"/>.</summary>
    public required int Database { get; init; }

    /// <summary>Number of a world-line that it belongs to: in which it was taken, or a later one.</summary>
    public required long WorldLine { get; init; }

    /// <summary>Number of the reign that goes with it: 0 if there was none.</summary>
    public long Reign { get; init; }
}
