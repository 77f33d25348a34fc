// How far back the past of a shard can be read: to the first version that ends at or above a checkpoint that is kept. Each version that
// was closed can be read where the log has what follows its checkpoint, and some of them where a reduced file has.
using Slogger.Core.Retention;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Past;

/// <summary>The versions that can be read. Any thread.</summary>
/// <param name="log">The log.</param>
/// <param name="checkpoints">Its checkpoints.</param>
internal sealed class PastWindow(VersionLog log, CheckpointStore checkpoints)
{
    private sealed record Known(string Checkpoint, long Start, long Rewinds, VersionNumber? Detail);

    private volatile Known? _known;
    private volatile Tuple<PastReach>? _last;

    /// <summary>What <see cref="Find"/> found last, which reads nothing: null also if it never has.</summary>
    public PastReach? Last => _last?.Item1;

    /// <summary>How far back it goes; null: nothing is kept yet. Reads the log if something has been deleted since.</summary>
    /// <param name="seen">The newest version that can be read.</param>
    /// <exception cref="LogException">The log cannot be read there.</exception>
    public PastReach? Find(VersionNumber seen)
    {
        PastReach? reach = null;
        if (Detail() is { } detail)
        {
            PastReach found = PastTiles.Reach(detail, [.. checkpoints.Tiles(log).Select(SpanOf)], log.StartOffset, log.Origin.Offset);
            // Of the windows that were shipped the ends can be read.
            reach = found with { Detail = VersionNumber.Max(detail, log.Windows.LastIn(seen).End.Version) };
        }
        _last = reach is { } known ? new(known) : null;
        return reach;
    }

    /// <summary>What has to be known of a tile.</summary>
    public static PastTile SpanOf(Tile tile) => new(tile.Base.Offset,
        tile.Reduced is { } reduced ? new(reduced.First, reduced.Last, reduced.EndsAtGap) : null);

    private VersionNumber? Detail()
    {
        if (log.IsEmpty || checkpoints.Oldest(log) is not { } oldest) { return null; }
        (long start, long rewinds) = (log.StartOffset, log.Rewinds);
        if (_known is { Detail: not null } known && known.Checkpoint == oldest.FileName && (known.Start, known.Rewinds) == (start, rewinds))
        {
            return known.Detail;
        }
        VersionNumber? detail = FirstAtOrAbove(oldest.Offset)?.Version;
        _known = new(oldest.FileName, start, rewinds, detail);
        return detail;
    }

    /// <summary>The end of the first version that ends at or above an offset; null: none does yet.</summary>
    /// <exception cref="LogException">The log cannot be read there.</exception>
    public Boundary? FirstAtOrAbove(long offset)
    {
        (Boundary End, bool IsExact)? place = LogPlaces.EndAtOrBelow(log, offset);
        if (place is { IsExact: true } exact && exact.End.Version >= log.FirstVersion) { return exact.End; }
        foreach (Boundary end in place is { } below ? log.BoundariesFrom(below.End.Version.Next) : log.Boundaries)
        {
            if (end.Offset >= offset) { return end; }
        }
        return null;
    }
}
