// The approximate finder, the default (DPR, section 3.4; design, section 3): keeps the newest claim of each shard and applies
// the rule of GridCut to them. Here is what a coordinator needs around that rule: reports that come late, doubled or of another
// world-line, and branches that another finder found.
//
// Why it is safe without knowing any dependency: shards execute an operation only if v >= Vs, so that no version depends on
// a larger one (DPR, section 3.2). Everything that versions up to V depend on is then in versions up to V, and all of these are
// durable if V is the smallest durable version. This finder relies on that rule; the exact one does not.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Cuts;

/// <summary>Finds grid cuts: min(durable) over all shards, rounded down to a version that each of them can be restored to.</summary>
public sealed class ApproximateFinder : IDprFinder
{
    private readonly FinderMutation _mutation;
    private readonly DurableClaim[] _claims;
    private readonly DurableClaim[] _ofCounted;
    private readonly int[] _counted;
    private readonly VersionNumber[] _next;
    private bool _changed;

    /// <summary>Starts from a recorded cut. Shards count as durable up to it.</summary>
    public ApproximateFinder(Cut current)
        : this(current, FinderMutation.None)
    {
    }

    /// <summary>The same for a cluster of which not all shards count: some have not joined yet, or have left.</summary>
    /// <param name="current">The recorded cut, the same version at all.</param>
    /// <param name="counts">By number, whether a shard counts; at least one does. Reports of the others change nothing.</param>
    /// <exception cref="ArgumentException">None counts, or there are not as many as shards.</exception>
    public ApproximateFinder(Cut current, IReadOnlyList<bool> counts)
        : this(current, FinderMutation.None, counts)
    {
    }

    internal ApproximateFinder(Cut current, FinderMutation mutation, IReadOnlyList<bool>? counts = null)
    {
        _mutation = mutation;
        if (counts is not null && (counts.Count != current.ShardCount || !counts.Contains(true)))
            throw new ArgumentException($"Of {counts.Count} shards {counts.Count(c => c)} count; the cut has {current.ShardCount}.",
                nameof(counts));
        _counted = [.. Enumerable.Range(0, current.ShardCount).Where(i => counts is null || counts[i])];
        _claims = new DurableClaim[current.ShardCount];
        _ofCounted = new DurableClaim[_counted.Length];
        _next = new VersionNumber[current.ShardCount];
        Current = current;
        StartFrom(current);
    }

    /// <inheritdoc />
    public Cut Current { get; private set; }

    /// <summary>The largest durable version that any shard reported. A shard that lags closes, at its next commit, at least this
    /// one (it fast-forwards its open version to the next), so that it holds back the others no longer than that.</summary>
    public VersionNumber Vmax { get; private set; }

    /// <inheritdoc />
    public void Report(in VersionReport report)
    {
        report.Validate(Current);
        if (report.Durable.WorldLine != Current.WorldLine && _mutation != FinderMutation.AnyWorldLine) return;
        ref DurableClaim known = ref _claims[report.Shard.Number];
        VersionNumber durable = report.Durable.Version;
        if (durable < known.Point.Version) return;
        bool isSame = durable == known.Point.Version;
        // Two reports of one version are both true; the smaller stride, and the lower floor, say more.
        known = new(
            report.Durable,
            isSame ? Math.Min(known.Stride, report.Stride) : report.Stride,
            isSame ? VersionNumber.Min(known.Floor, report.Floor) : report.Floor);
        Vmax = VersionNumber.Max(Vmax, durable);
        _changed = true;
    }

    /// <inheritdoc />
    public bool Advance()
    {
        if (!_changed) return false;
        _changed = false;
        return RaiseTo(GridCut.Common(Counted(), _mutation));
    }

    /// <inheritdoc />
    public void BeginWorldLine(Cut branch)
    {
        if (!Current.IsFollowedBy(branch)) return;
        Current = branch;
        if (_mutation != FinderMutation.OldWorldLineKept) StartFrom(branch);
    }

    /// <summary>A branch that another finder found need not be on the grid: a shard above it stays where it is until the grid
    /// has passed it. Two closed cuts together are closed.</summary>
    private bool RaiseTo(VersionNumber grid)
    {
        bool moved = false;
        ReadOnlySpan<VersionNumber> current = Current.Versions;
        // A shard that would have to move to it must be restorable there.
        foreach (int i in _counted)
            if (grid > current[i] && grid < _claims[i].Floor && _mutation != FinderMutation.FloorIgnored) return false;
        for (int i = 0; i < current.Length; i++)
        {
            moved |= grid > current[i];
            _next[i] = VersionNumber.Max(current[i], grid);
        }

        if (moved) Current = Current.MovedTo(_next);
        return moved;
    }

    private ReadOnlySpan<DurableClaim> Counted()
    {
        if (_counted.Length == _claims.Length) return _claims;
        for (int i = 0; i < _counted.Length; i++) _ofCounted[i] = _claims[_counted[i]];
        return _ofCounted.AsSpan(0, _counted.Length);
    }

    private void StartFrom(Cut cut)
    {
        for (int i = 0; i < _claims.Length; i++) _claims[i] = DurableClaim.Of(new(cut.WorldLine, cut.Versions[i]));
        Vmax = _claims.Max(c => c.Point.Version);
        _changed = true;
    }
}
