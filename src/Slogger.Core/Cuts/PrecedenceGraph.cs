// The precedence graph above the cut (DPR, section 3.1), for the exact and the hybrid finder. All in here is durable.
//
// Per shard it is a row of ranges of versions without a gap between them, from the cut (the floor) to the last version
// reported. A range has its dependencies, or it is *lost*: durable, but what it depends on is not known (the report is late, was lost,
// or went to a coordinator that died). A lost range may depend on anything: only a cut found in another way passes it, or a
// report that comes after all. Ranges end only where a shard reported a version that it closed.
//
// What is below the floor is forgotten. What is above is bounded: where more than so many ranges of a shard pile up (another is
// slow, and this one depends on it), the last ones are merged. That is safe, and may hold back what finer ranges would let pass;
// the first ones, which are to pass next, stay as they are.
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Cuts;

internal sealed partial class PrecedenceGraph
{
    /// <summary>How many ranges of a shard are kept apart.</summary>
    public const int RangesMax = 128;

    private readonly FinderMutation _mutation;
    private readonly int _rangesMax;
    private readonly List<Range>[] _ranges;
    private readonly VersionNumber[] _floor;
    private bool _changed;

    /// <summary>An empty graph above a cut.</summary>
    public PrecedenceGraph(Cut floor, FinderMutation mutation, int rangesMax)
    {
        _mutation = mutation;
        _rangesMax = rangesMax;
        _floor = floor.Versions.ToArray();
        _ranges = new List<Range>[floor.ShardCount];
        for (int i = 0; i < _ranges.Length; i++) _ranges[i] = [];
        _first = new int[floor.ShardCount];
        _taken = new int[floor.ShardCount];
        _reach = new VersionNumber[floor.ShardCount];
    }

    /// <summary>The cut, by shard.</summary>
    public ReadOnlySpan<VersionNumber> Floor => _floor;

    /// <summary>Forgets all, and starts above another cut.</summary>
    public void Restart(ReadOnlySpan<VersionNumber> floor)
    {
        floor.CopyTo(_floor);
        if (_mutation == FinderMutation.OldWorldLineKept) return;
        foreach (List<Range> ranges in _ranges) ranges.Clear();
    }

    /// <summary>Adds what is not known yet of a row; a range keeps the dependencies that it was first reported with.</summary>
    public void Add(in PrecedenceRow row)
    {
        int shard = row.Shard.Number;
        VersionNumber through = row.Through.Version, after = row.After, top = Top(shard);
        if (through <= _floor[shard]) return;
        if (after > top) Append(shard, new(after, _mutation == FinderMutation.GapIsClosed ? DependencySet.Empty : null));
        else if (after < through) FillLost(shard, after, through, row.Dependencies);
        if (through > Top(shard)) Append(shard, new(through, row.Dependencies));
    }

    /// <summary>A cut was found in another way: the floor is no lower from now on.</summary>
    /// <returns>Whether it moved.</returns>
    public bool RaiseFloor(ReadOnlySpan<VersionNumber> cut)
    {
        bool moved = false;
        for (int i = 0; i < cut.Length; i++)
        {
            if (cut[i] <= _floor[i]) continue;
            _floor[i] = cut[i];
            List<Range> ranges = _ranges[i];
            int passed = 0;
            while (passed < ranges.Count && ranges[passed].Through <= cut[i]) passed++;
            ranges.RemoveRange(0, passed);
            _changed = moved = true;
        }

        return moved;
    }

    /// <summary>The rows above the floor, shard by shard in order of versions, without the lost ones.</summary>
    public List<PrecedenceRow> Rows(WorldLine worldLine)
    {
        List<PrecedenceRow> rows = [];
        for (int i = 0; i < _ranges.Length; i++)
        {
            VersionNumber after = _floor[i];
            foreach (Range range in _ranges[i])
            {
                if (range.Dependencies is { } known) rows.Add(new(new ShardId(i), new(worldLine, range.Through), after, known));
                after = range.Through;
            }
        }

        return rows;
    }

    private VersionNumber Top(int shard)
    {
        List<Range> ranges = _ranges[shard];
        return ranges.Count > 0 ? ranges[^1].Through : _floor[shard];
    }

    private void Append(int shard, Range range)
    {
        List<Range> ranges = _ranges[shard];
        if (range.Dependencies is null && ranges.Count > 0 && ranges[^1].Dependencies is null) ranges[^1] = range;
        else ranges.Add(range);
        _changed = true;
        Shrink(ranges);
    }

    /// <summary>Gives the lost parts of (after, through] their dependencies.</summary>
    private void FillLost(int shard, VersionNumber after, VersionNumber through, DependencySet dependencies)
    {
        List<Range> ranges = _ranges[shard];
        VersionNumber start = _floor[shard];
        for (int i = 0; i < ranges.Count && start < through; i++)
        {
            Range range = ranges[i];
            if (range.Dependencies is null && range.Through > after)
            {
                VersionNumber from = VersionNumber.Max(start, after), to = VersionNumber.Min(range.Through, through);
                if (_mutation == FinderMutation.FillsWholeGap) (from, to) = (start, range.Through);
                if (start < from) ranges.Insert(i++, new(from, null));
                ranges[i] = new(to, dependencies);
                if (to < range.Through) ranges.Insert(++i, range);
                _changed = true;
            }

            start = range.Through;
        }

        Shrink(ranges);
    }

    /// <summary>Merges the topmost two neighbours that are both known or both lost. If there are none, there are many gaps:
    /// what is known at the top, above them all, is forgotten.</summary>
    private void Shrink(List<Range> ranges)
    {
        while (ranges.Count > _rangesMax)
        {
            int i = ranges.Count - 1;
            while (i > 0 && ranges[i].Dependencies is null != ranges[i - 1].Dependencies is null) i--;
            if (i == 0) i = ranges.Count - 1;
            ranges[i - 1] = Merged(ranges[i - 1], ranges[i]);
            ranges.RemoveAt(i);
        }
    }

    private Range Merged(Range first, Range second)
    {
        if (first.Dependencies is null || second.Dependencies is null) return new(second.Through, null);
        return _mutation == FinderMutation.MergeForgets ? second : new(second.Through, first.Dependencies.Union(second.Dependencies));
    }

    /// <summary>The versions up to Through, from where the range before ends. Dependencies is null if they are lost.</summary>
    private readonly record struct Range(VersionNumber Through, DependencySet? Dependencies);
}
