// Up to where a backup may apply what it has received (the paper, section 5.4): the newest cut that every stream holds durably. A stream
// says of itself which recorded cut it holds (Receiver); the least of these is one too, since a recorded cut is one version of all shards,
// and each of those that say a newer one holds it as well. But for one that was seeded since: it holds what is at or above its floor only,
// so the least counts once it has passed all floors.
//
// It remembers nothing that matters: whatever it has ever said follows from what the logs hold, now and after any crash. So any process may
// be it, and two at once do no harm: both say what is true, and whoever hears them takes the larger. A lease on the role (LeaseWatch) only
// spares work.
using System.Collections.Immutable;
using Slogger.Core.Replication;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Watermarks;

// Whom it tells: everybody who follows, when the watermark has moved, and again when a stream says again what it holds. Whoever follows may
// have passed over what it was told, since its own log was not there yet; so reports come again, and each is answered.
/// <summary>The watermark of one backup site. Not thread-safe. Source: the paper, section 5.4; design, sections 4 (I4) and 10.</summary>
public sealed class WatermarkService
{
    private readonly ShipMutation _mutation;
    private ImmutableArray<long> _generations = [];
    private (long Generation, WorldPoint Floor, WorldPoint? Held)[] _vector = [];
    private WatermarkReport?[] _said = [];
    private bool _isBackup = true;

    /// <summary>Begins: nobody has reported.</summary>
    /// <param name="generations">The members, one for each of the primary's streams by number: the generation that counts, as the backup's
    /// SQL has it. 0: the stream is none any more.</param>
    public WatermarkService(ImmutableArray<long> generations)
        : this(generations, ShipMutation.None)
    {
    }

    internal WatermarkService(ImmutableArray<long> generations, ShipMutation mutation)
    {
        _mutation = mutation;
        Members(generations);
    }

    /// <summary>The watermark; null before every stream has reported. Never goes back.</summary>
    public WorldPoint? Current { get; private set; }

    /// <summary>What whoever begins to follow is told at once; null: nothing yet, or the site is no backup any more.</summary>
    public WorldPoint? Tellable => _isBackup || _mutation == ShipMutation.ToldByNoBackup ? Current : null;

    /// <summary>SQL was read again. Streams that were seeded since have to report anew; until then the watermark stays.</summary>
    /// <param name="generations">As in the constructor.</param>
    /// <param name="isBackup">Whether the site is a backup: else nobody is told anything.</param>
    public void Members(ImmutableArray<long> generations, bool isBackup = true)
    {
        (_generations, _isBackup) = (generations, isBackup);
        Array.Resize(ref _said, generations.Length);
        (long Generation, WorldPoint Floor, WorldPoint? Held)[] next = new (long, WorldPoint, WorldPoint?)[generations.Length];
        for (int s = 0; s < next.Length; s++)
        {
            bool isKnown = s < _vector.Length && (_vector[s].Generation == generations[s] || _mutation == ShipMutation.OldGenerationCounts);
            next[s] = isKnown ? _vector[s] with { Generation = generations[s] } : (generations[s], default, null);
        }

        _vector = next;
    }

    /// <summary>A stream reports. What is late, doubled, or of another generation changes nothing.</summary>
    /// <returns>Whether all who follow are to be told <see cref="Current"/>: it has moved, or the stream says this again.</returns>
    public bool Report(in WatermarkReport report)
    {
        int s = report.Stream.Number;
        if (s < 0 || s >= _vector.Length) return false;
        bool isAgain = report == _said[s] && _mutation != ShipMutation.AgainNotTold;
        _said[s] = report;
        return (HasMoved(report) || isAgain) && Tellable is not null;
    }

    private bool HasMoved(in WatermarkReport report)
    {
        int s = report.Stream.Number;
        if (report.Generation != _generations[s] && _mutation != ShipMutation.OldGenerationCounts) return false;
        if (_vector[s].Held >= report.Held) return false;
        (_vector[s].Floor, _vector[s].Held) = (report.Floor, report.Held);
        if (Least() is not { } least || least <= Current) return false;
        foreach ((_, WorldPoint floor, _) in _vector)
            if (least < floor && _mutation != ShipMutation.FloorsNotCompared) return false;

        Current = least;
        return true;
    }

    private WorldPoint? Least()
    {
        WorldPoint? least = null;
        for (int s = 0; s < _vector.Length; s++)
        {
            if (_generations[s] == 0) continue;
            if (_vector[s].Held is not { } held)
            {
                if (_mutation == ShipMutation.WatermarkBeforeAll) continue;
                return null;
            }

            bool isLess = least is not { } l
                || (_mutation switch
                {
                    ShipMutation.WatermarkByVersion => held.Version < l.Version,
                    ShipMutation.WatermarkIsMax => held > l,
                    _ => held < l,
                });
            if (isLess) least = held;
        }

        return least;
    }
}
