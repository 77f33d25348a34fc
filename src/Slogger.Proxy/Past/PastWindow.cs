// How far back the past of a shard can be read: to the first version that ends at or above a checkpoint that is kept.
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
    private sealed record Known(string Checkpoint, long Start, long Rewinds, Boundary? From);

    private volatile Known? _known;

    /// <summary>What <see cref="Find"/> found last, which reads nothing: null also if it never has.</summary>
    public Boundary? Last => _known?.From;

    /// <summary>The end of the first version that can be read; null: none is kept yet. Reads the log if something has been deleted
    /// since.</summary>
    /// <exception cref="LogException">The log cannot be read there.</exception>
    public Boundary? Find()
    {
        if (log.IsEmpty || checkpoints.Oldest(log) is not { } oldest) { return null; }
        (long start, long rewinds) = (log.StartOffset, log.Rewinds);
        if (_known is { From: not null } known && known.Checkpoint == oldest.FileName && (known.Start, known.Rewinds) == (start, rewinds))
        {
            return known.From;
        }
        Boundary? from = FirstAtOrAbove(oldest.Offset);
        _known = new(oldest.FileName, start, rewinds, from);
        return from;
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
