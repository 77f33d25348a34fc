// Where versions end in a log, by offsets.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;

namespace Slogger.Replication.Following;

/// <summary>Finds ends of versions.</summary>
internal static class LogPlaces
{
    /// <summary>Where in the log an offset is: the last version that ends at or below it, as the first of those that end at the same place;
    /// and whether it ends there. Null: the log does not hold it.</summary>
    public static (Boundary End, bool IsExact)? EndAtOrBelow(VersionLog log, long offset)
    {
        if (log.IsEmpty) { return null; }
        if (log.DurableBoundary is not { } last || Search(log, last.Version, offset) is not { } found)
        {
            return offset < log.Origin.Offset || log.StartOffset > log.Origin.Offset ? null
                : (new(log.FirstWorldLine, log.FirstVersion.Previous, log.Origin.Offset, log.Origin.Database, default),
                offset == log.Origin.Offset);
        }
        VersionNumber first = FirstAt(log, found, Search(log, found.Version, found.Offset - 1) is { } before ? before.Version.Next
            : VersionNumber.Max(log.FirstVersion, log.FirstBoundary?.Version ?? found.Version));
        // Of the world-line that has closed it, not of one that has begun there.
        WorldLine line = log.Branches.Where(b => b.Version < first).Select(b => b.WorldLine).Append(log.FirstWorldLine).Max();
        return (found with { Version = first, WorldLine = line }, found.Offset == offset);
    }

    /// <summary>What a log began with, as the end of the version before its first.</summary>
    public static Boundary BaseOf(VersionLog log) =>
        new(log.WorldLine, log.FirstVersion.Previous, log.Origin.Offset, log.Origin.Database, default);

    // The first version that ends where another one does. Those that were closed together with a later one end nowhere.
    private static VersionNumber FirstAt(VersionLog log, in Boundary end, VersionNumber from)
    {
        (long low, long high) = (from.Number, end.Version.Number);
        while (low < high)
        {
            long middle = low + ((high - low) / 2);
            if (log.BoundaryAtOrBelow(new(middle))?.Offset == end.Offset) { high = middle; } else { low = middle + 1; }
        }
        return new(high);
    }

    // The last version that ends at or below an offset.
    private static Boundary? Search(VersionLog log, VersionNumber last, long offset)
    {
        Boundary? found = null;
        long low = log.FirstVersion.Number, high = last.Number;
        while (low <= high)
        {
            long middle = low + ((high - low) / 2);
            // Of what has been trimmed nothing is known: it lies below.
            if (log.BoundaryAtOrBelow(new(middle)) is not { } end) { low = middle + 1; }
            else if (end.Offset <= offset)
            {
                found = end;
                low = middle + 1;
            }
            else { high = middle - 1; }
        }
        return found;
    }
}
