// A log that is put together from what was received: pieces, and lines that begin.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Redis.Feeding;

namespace Slogger.Replication.Receiving;

/// <summary>Appends to a log what a shipper has sent.</summary>
internal static class ReceivedLog
{
    /// <summary>Appends a piece: bytes and ends of versions as they follow each other.</summary>
    /// <param name="log">The log.</param>
    /// <param name="from">Where the piece begins: where the log ends.</param>
    /// <param name="bytes">Its bytes.</param>
    /// <param name="ends">Its ends of versions.</param>
    public static void Append(VersionLog log, LogIndex from, ReadOnlySpan<byte> bytes, IReadOnlyList<VersionEnd> ends)
    {
        long at = from.Offset;
        foreach (VersionEnd end in ends)
        {
            if (end.IsEmptyRun)
            {
                log.AppendEmptyRun(end.Boundary.Version, end.Boundary.Time);
                continue;
            }
            int count = (int)(end.Boundary.Offset - at);
            log.Append(bytes[..count]);
            bytes = bytes[count..];
            at = end.Boundary.Offset;
            log.AppendBoundary(end.Boundary, end.EndsWindow);
        }
        log.Append(bytes);
    }

    /// <summary>Appends a part of a window: what is left of it, and, where it ends, commands that do nothing up to the offset of that. So
    /// offsets go on behind it as at the sender.</summary>
    /// <param name="log">The log.</param>
    /// <param name="piece">The part.</param>
    /// <param name="window">The window.</param>
    /// <param name="bytes">What it brings.</param>
    /// <param name="ends">The end of the version, with the last part.</param>
    public static void AppendPart(VersionLog log, ShipRequest.Piece piece, in ShipWindow window, ReadOnlySpan<byte> bytes,
        IReadOnlyList<VersionEnd> ends)
    {
        if (piece.From == window.From) { log.BeginWindow(); }
        log.Append(bytes);
        if (piece.To != window.To) { return; }
        Boundary end = ends[0].Boundary;
        foreach (ReadOnlyMemory<byte> filler in Filler.Stretch(end.Offset - log.EndOffset, end.Database)) { log.Append(filler.Span); }
        log.AppendBoundary(end, endsWindow: true);
    }

    /// <summary>Begins a line at the end of a version, durably; void is what lies above. The stream is the same whatever its identity at
    /// the sender: here nobody asks for that.</summary>
    /// <param name="log">The log.</param>
    /// <param name="line">Which line.</param>
    /// <param name="version">The last version that it keeps.</param>
    /// <param name="offset">Where that ends; null: the log knows.</param>
    /// <exception cref="BrokenInvariantException">I7: that version does not end there in this log.</exception>
    public static void Begin(VersionLog log, LogLine line, VersionNumber version, long? offset)
    {
        log.Sync();
        // Before the first version has ended the log's own beginning is where it goes back to.
        Boundary? branch = log.BoundaryAtOrBelow(version)
            ?? (offset == log.Origin.Offset ? new(log.WorldLine, version, log.Origin.Offset, log.Origin.Database, default) : null);
        // A world-line of a later reign may branch off below the record of that reign, which is void then.
        bool isReign = line.Reign > log.Reign && line.WorldLine == log.WorldLine;
        bool isThere = branch is { } found && (offset is not { } expected || found.Offset == expected)
            // A reign begins where the log ends.
            && (!isReign || version == log.DurableClosed.Closed);
        if (!isThere)
        {
            throw new BrokenInvariantException(
                $"I7: line {line} begins at version {version}, offset {offset}, and that version ends at {branch?.Offset} here");
        }
        if (isReign) { log.BeginReign(line.Reign); }
        else { log.BeginWorldLine(line.WorldLine, branch!.Value with { Version = version }, log.ReplicationId, line.Reign); }
    }
}
