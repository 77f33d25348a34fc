// One version that can be restored, and what it is restored from: a base (an RDB file) and maybe a tail of the log.
using Slogger.Core.Time;
using Slogger.Core.WorldLines;
using Slogger.Redis.Feeding;

namespace Slogger.Proxy.Restoring;

internal sealed record RestorePoint
{
    /// <summary>World-line and version.</summary>
    public required WorldPoint Point { get; init; }

    /// <summary>When it was closed; zero if that is not known.</summary>
    public required HybridTimestamp Time { get; init; }

    /// <summary>The RDB file; empty: an embedded store's, which has none.</summary>
    public required string BaseFile { get; init; }

    /// <summary>Bytes of history that it holds.</summary>
    public required long BaseOffset { get; init; }

    /// <summary>Bytes of history at the point.</summary>
    public required long TargetOffset { get; init; }

    /// <summary>The bytes between.</summary>
    public required IHistorySource History { get; init; }

    /// <summary>Identity of the stream that the restored Redis continues; null for a fresh one.</summary>
    public required string? ReplicationId { get; init; }
}

/// <summary>The outcome of looking for a version: the point, or why there is none and what to do.</summary>
internal readonly record struct FoundPoint(RestorePoint? Point, string Problem, string Remedy)
{
    public static FoundPoint None(string problem, string remedy) => new(null, problem, remedy);
}
