// The vocabulary of the version log: points of the replication stream, and what a reader of the log is told about them.
// An "offset" is the number of bytes of history before a point (Redis's master_repl_offset after executing them).
namespace Slogger.Log.Format;

/// <summary>Where a contiguous stream starts. It also names the history: two logs with equal origins hold parts of the
/// same stream.</summary>
/// <param name="ReplicationId">Identity of the stream: 1 to 40 printable ASCII characters.</param>
/// <param name="Offset">Bytes of history before the first byte of the stream.</param>
/// <param name="Database">The database selected at <paramref name="Offset"/>.</param>
public readonly record struct StreamOrigin(string ReplicationId, long Offset, int Database);

/// <summary>What opening a log found and did.</summary>
/// <param name="Segments">Segment files of the log.</param>
/// <param name="TornTail">Whether writes that no sync had confirmed were cut off.</param>
/// <param name="TailFile">The newest segment file, or null for an empty log.</param>
/// <param name="TailPosition">Where the newest file ends, in bytes: the cut if <paramref name="TornTail"/>.</param>
/// <param name="DroppedFiles">Files deleted: prepared but unused segments, and leftovers of an interrupted
/// <see cref="VersionLog.Begin"/>.</param>
public sealed record OpenReport(
    int Segments, bool TornTail, string? TailFile, long TailPosition, IReadOnlyList<string> DroppedFiles);
