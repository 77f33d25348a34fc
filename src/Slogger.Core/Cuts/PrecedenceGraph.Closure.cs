// The maximal closure (DPR, section 3.3): the largest cut above the floor such that all it holds is durable, known, and has what
// it depends on inside. Closed sets that are prefixes of each shard have a union that is closed too, so there is one largest.
//
// The paper visits, from each version, all that it depends on. Here the largest cut is found from above: take everything up
// to the first lost range of each shard, then take out what has an unmet dependency, with all behind it at its shard and, by
// transitivity, all that depends on what was taken out. Versions that depend on each other both ways (the rule of section
// 3.2 allows it within one version) need no special care so. Each range is taken out at most once and each dependency is
// looked at twice at most: the cost is linear in the size of the graph above the floor, times the log of a shard's ranges.
using System.Runtime.InteropServices;
using Slogger.Core.Versions;

namespace Slogger.Core.Cuts;

internal sealed partial class PrecedenceGraph
{
    // Kept between calls, so that the steady state allocates nothing. A vertex is a range; its number is _first of its
    // shard plus its index there.
    private readonly int[] _first;
    private readonly int[] _taken;           // by shard: how many of its ranges are still in
    private readonly VersionNumber[] _reach;       // by shard: up to which version that is
    private int[] _dependents = [];          // by vertex: the first of the edges that lead to it, or -1
    private int[] _takenOut = [];            // vertices whose dependents have not been looked at yet
    private int _takenOutCount;
    private Edge[] _edges = [];
    private int _edgeCount;

    /// <summary>Moves the floor to the maximal closure.</summary>
    /// <returns>Whether it moved.</returns>
    public bool Close()
    {
        if (!_changed) return false;
        _changed = false;
        TakeAllKnown();
        for (int shard = 0; shard < _ranges.Length; shard++) LinkOrTakeOut(shard);
        while (_takenOutCount > 0 && _mutation != FinderMutation.NoTransitivity) TakeOutDependents(_takenOut[--_takenOutCount]);
        return MoveFloor();
    }

    private void TakeAllKnown()
    {
        int vertices = 0;
        for (int shard = 0; shard < _ranges.Length; shard++)
        {
            Span<Range> ranges = CollectionsMarshal.AsSpan(_ranges[shard]);
            int taken = 0;
            while (taken < ranges.Length && (ranges[taken].Dependencies is not null || _mutation == FinderMutation.LostIsTrusted)) taken++;
            _first[shard] = vertices;
            _taken[shard] = taken;
            _reach[shard] = taken > 0 ? ranges[taken - 1].Through : _floor[shard];
            vertices += taken;
        }

        if (_dependents.Length < vertices)
        {
            _dependents = new int[vertices * 2];
            _takenOut = new int[vertices * 2];
        }

        _dependents.AsSpan(0, vertices).Fill(-1);
        _takenOutCount = _edgeCount = 0;
    }

    /// <summary>Links the ranges of a shard to those that they depend on, up to the first whose dependencies are out.</summary>
    private void LinkOrTakeOut(int shard)
    {
        Span<Range> ranges = CollectionsMarshal.AsSpan(_ranges[shard]);
        for (int i = 0; i < _taken[shard]; i++)
        {
            if (ranges[i].Dependencies is not { } dependencies) continue;
            foreach (Dependency d in dependencies.Items)
            {
                int on = d.Shard.Number;
                if (d.Version <= _floor[on]) continue;
                if (d.Version <= _reach[on])
                {
                    Link(_first[on] + RangeOf(on, d.Version), shard, i);
                    continue;
                }

                TakeOutFrom(shard, _mutation == FinderMutation.GraphOneTooFar ? i + 1 : i);
                break;
            }
        }
    }

    private void Link(int vertex, int shard, int index)
    {
        if (_edgeCount == _edges.Length) Array.Resize(ref _edges, Math.Max(64, _edgeCount * 2));
        _edges[_edgeCount] = new(_dependents[vertex], shard, index);
        _dependents[vertex] = _edgeCount++;
    }

    private void TakeOutDependents(int vertex)
    {
        for (int e = _dependents[vertex]; e >= 0; e = _edges[e].Next)
            TakeOutFrom(_edges[e].Shard, _edges[e].Index);
    }

    /// <summary>A range is out with all that follow it: a cut holds a prefix of each shard's versions.</summary>
    private void TakeOutFrom(int shard, int index)
    {
        if (index >= _taken[shard]) return;
        for (int i = index; i < _taken[shard]; i++) _takenOut[_takenOutCount++] = _first[shard] + i;
        _taken[shard] = index;
        _reach[shard] = index > 0 ? _ranges[shard][index - 1].Through : _floor[shard];
    }

    private bool MoveFloor()
    {
        bool moved = false;
        for (int shard = 0; shard < _ranges.Length; shard++)
        {
            if (_taken[shard] == 0) continue;
            _floor[shard] = _reach[shard];
            _ranges[shard].RemoveRange(0, _taken[shard]);
            moved = true;
        }

        return moved;
    }

    /// <summary>The index of the range that holds a version between the shard's floor and its reach.</summary>
    private int RangeOf(int shard, VersionNumber version)
    {
        Span<Range> ranges = CollectionsMarshal.AsSpan(_ranges[shard]);
        int low = 0, high = _taken[shard] - 1;
        while (low < high)
        {
            int middle = (low + high) / 2;
            if (ranges[middle].Through < version) low = middle + 1;
            else high = middle;
        }

        return low;
    }

    /// <summary>The range at Index of Shard depends on the vertex in whose list this is.</summary>
    private readonly record struct Edge(int Next, int Shard, int Index);
}
