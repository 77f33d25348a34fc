// The clock grid: which version is open at a time, and when a version opens. The cluster shares one grid (it lives in the
// metadata), so the same number covers the same slice of time on every shard. Changing the interval adds a stretch; it
// never makes a version go back (design, section 3). Immutable, so that every thread may use it.
using System.Collections.Immutable;

namespace Slogger.Core.Versions;

/// <summary>A stretch of the grid: from <paramref name="StartUs"/> on, version <paramref name="FirstVersion"/> and its
/// successors open every <paramref name="IntervalUs"/>, until the next stretch starts.</summary>
/// <param name="FirstVersion">The version that opens at the start; at least 1 (version 0 is "before anything").</param>
/// <param name="StartUs">Microseconds since the Unix epoch.</param>
/// <param name="IntervalUs">Microseconds per version.</param>
public readonly record struct GridStretch(VersionNumber FirstVersion, long StartUs, long IntervalUs)
{
    /// <summary>The stretch that follows this one with another interval, at the first grid point at or after a time, and after
    /// this stretch's own start: the version of an instant stays a monotone function of time.</summary>
    /// <exception cref="ArgumentOutOfRangeException">The interval is not positive.</exception>
    public GridStretch Successor(long intervalUs, long notBeforeUs)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(intervalUs, 1);
        checked
        {
            long ahead = notBeforeUs - StartUs;
            long slots = ahead <= 0 ? 1 : Math.Max(1, ((ahead - 1) / IntervalUs) + 1);
            return new(new(FirstVersion.Number + slots), StartUs + (slots * IntervalUs), intervalUs);
        }
    }
}

/// <summary>Maps time to versions and back. Monotone: a later time never has a smaller version.</summary>
public sealed class VersionGrid
{
    /// <summary>The shortest interval, in microseconds.</summary>
    public const long IntervalMinUs = 100;

    /// <summary>The longest interval, in microseconds (one day).</summary>
    public const long IntervalMaxUs = 24L * 3600 * 1_000_000;

    private readonly ImmutableArray<GridStretch> _stretches;
    private readonly bool _isOfHistory;

    /// <summary>Makes a grid of one stretch.</summary>
    public VersionGrid(VersionNumber first, long startUs, long intervalUs)
        : this([new GridStretch(first, startUs, intervalUs)])
    {
    }

    /// <summary>Makes a grid of stretches in order of time.</summary>
    /// <exception cref="ArgumentException">There are none, an interval is out of bounds, or a version would go back.</exception>
    public VersionGrid(IEnumerable<GridStretch> stretches)
    {
        _stretches = [.. stretches];
        if (_stretches.IsEmpty) throw new ArgumentException("A version grid needs at least one stretch.", nameof(stretches));
        for (int i = 0; i < _stretches.Length; i++) Validate(i);
    }

    private VersionGrid(ImmutableArray<GridStretch> stretches, bool isOfHistory) =>
        (_stretches, _isOfHistory) = (stretches, isOfHistory);

    /// <summary>The grids by which a history went, of one site after the other: for what is past. Whoever takes over goes on behind the
    /// last version that it has; those above it that were open at the other site by then are in no history.</summary>
    /// <param name="stretches">The stretches, in order of time and of versions.</param>
    /// <exception cref="ArgumentException">There are none, an interval is out of bounds, or they are in another order.</exception>
    public static VersionGrid OfHistory(IEnumerable<GridStretch> stretches)
    {
        ImmutableArray<GridStretch> all = [.. stretches];
        if (all.IsEmpty) throw new ArgumentException("A version grid needs at least one stretch.", nameof(stretches));
        for (int i = 0; i < all.Length; i++)
        {
            ValidateAlone(all[i]);
            if (i > 0 && (all[i].StartUs <= all[i - 1].StartUs || all[i].FirstVersion <= all[i - 1].FirstVersion))
                throw new ArgumentException($"Stretch {i} of the version grid is not behind the one before.", nameof(stretches));
        }
        return new(all, isOfHistory: true);
    }

    /// <summary>This grid, and those by which the history went before it: see <see cref="OfHistory"/>.</summary>
    /// <param name="before">Theirs; of what this grid has as well, its own stretches count.</param>
    public VersionGrid Behind(VersionGrid before)
    {
        GridStretch first = _stretches[0];
        return new([.. before._stretches.TakeWhile(s => s.StartUs < first.StartUs && s.FirstVersion < first.FirstVersion), .. _stretches],
            isOfHistory: true);
    }

    /// <summary>The stretches, oldest first.</summary>
    public ImmutableArray<GridStretch> Stretches => _stretches;

    /// <summary>The interval in force at a time, in microseconds.</summary>
    public long IntervalUsAt(long timeUs) => _stretches[IndexByTime(timeUs)].IntervalUs;

    /// <summary>The version that is open at a time (microseconds since the Unix epoch). Before the grid's start it is the
    /// first version.</summary>
    public VersionNumber VersionAt(long timeUs)
    {
        int i = IndexByTime(timeUs);
        GridStretch s = _stretches[i];
        VersionNumber open = timeUs <= s.StartUs ? s.FirstVersion : new(s.FirstVersion.Number + ((timeUs - s.StartUs) / s.IntervalUs));
        return _isOfHistory && i + 1 < _stretches.Length ? VersionNumber.Min(open, _stretches[i + 1].FirstVersion.Previous) : open;
    }

    /// <summary>When a version opens, in microseconds since the Unix epoch: the first time at which <see cref="VersionAt"/>
    /// is at least that version. A version below the first opens with the first.</summary>
    public long StartOf(VersionNumber version)
    {
        int i = _stretches.Length - 1;
        while (i > 0 && _stretches[i].FirstVersion > version) i--;
        GridStretch s = _stretches[i];
        if (version <= s.FirstVersion) return s.StartUs;
        long start = checked(s.StartUs + ((version.Number - s.FirstVersion.Number) * s.IntervalUs));
        // A version that the next stretch skips opens with it.
        return i + 1 < _stretches.Length ? Math.Min(start, _stretches[i + 1].StartUs) : start;
    }

    private int IndexByTime(long timeUs)
    {
        int i = _stretches.Length - 1;
        while (i > 0 && _stretches[i].StartUs > timeUs) i--;
        return i;
    }

    private void Validate(int i)
    {
        GridStretch s = _stretches[i];
        ValidateAlone(s);
        if (i == 0) return;
        GridStretch before = _stretches[i - 1];
        long reached = before.FirstVersion.Number + ((s.StartUs - 1 - before.StartUs) / before.IntervalUs);
        if (s.StartUs <= before.StartUs || s.FirstVersion.Number < reached)
            throw new ArgumentException(
                $"Stretch {i} of the version grid goes back: it starts at version {s.FirstVersion}, when {reached} was open.");
    }

    private static void ValidateAlone(GridStretch s)
    {
        if (s.IntervalUs is < IntervalMinUs or > IntervalMaxUs)
            throw new ArgumentException($"A version interval of {s.IntervalUs} us is outside {IntervalMinUs} us to one day.");
        if (s.FirstVersion <= VersionNumber.Zero)
            throw new ArgumentException("The first version of a stretch of the grid is at least 1.");
    }
}
