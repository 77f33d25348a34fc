// The approximate finder, the default (DPR, section 3.4; design, section 3): the cut is one version of the clock grid at every
// shard. It keeps one durable version and one stride per shard, so that the same cut is one aggregate over published
// rows in SQL (the smallest version, the largest stride).
//
// Why it is safe without knowing any dependency: shards execute an operation only if v >= Vs, so that no version depends on
// a larger one (DPR, section 3.2). Everything that versions up to V depend on is then in versions up to V, and all of these are
// durable if V is the smallest durable version. This finder relies on that rule; the exact one does not.
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Core.Cuts;

/// <summary>Finds grid cuts: min(durable) over all shards, rounded down to a version that each of them can be restored to.</summary>
/// <remarks>Strides are meant to nest (each divides the next): then it is the largest that counts. Where they do not, a
/// multiple of the largest need not be a version of the others, so the least common multiple counts: right for any
/// strides, and slow for ill-chosen ones (one beyond 63 bits never comes).</remarks>
public sealed class ApproximateFinder : IDprFinder
{
    private readonly FinderMutation _mutation;
    private readonly Version[] _durable;
    private readonly long[] _strides;
    private readonly Version[] _next;
    private bool _changed;

    /// <summary>Starts from a recorded cut. Shards count as durable up to it.</summary>
    public ApproximateFinder(Cut current)
        : this(current, FinderMutation.None)
    {
    }

    internal ApproximateFinder(Cut current, FinderMutation mutation)
    {
        _mutation = mutation;
        _durable = new Version[current.ShardCount];
        _strides = new long[current.ShardCount];
        _next = new Version[current.ShardCount];
        Current = current;
        StartFrom(current);
    }

    /// <inheritdoc />
    public Cut Current { get; private set; }

    /// <summary>The largest durable version that any shard reported. A shard that lags closes, at its next commit, at least this
    /// one (it fast-forwards its open version to the next), so that it holds back the others no longer than that.</summary>
    public Version Vmax { get; private set; }

    /// <inheritdoc />
    public void Report(in VersionReport report)
    {
        report.Validate(Current);
        if (report.Durable.WorldLine != Current.WorldLine && _mutation != FinderMutation.AnyWorldLine) return;
        int shard = report.Shard.Number;
        Version durable = report.Durable.Version;
        if (durable < _durable[shard]) return;
        // Two reports of one version are both true; the smaller stride says more.
        _strides[shard] = durable == _durable[shard] ? Math.Min(_strides[shard], report.Stride) : report.Stride;
        _durable[shard] = durable;
        Vmax = Version.Max(Vmax, durable);
        _changed = true;
    }

    /// <inheritdoc />
    public bool Advance()
    {
        if (!_changed) return false;
        _changed = false;
        Version min = _durable[0];
        long multiple = 1;
        for (int i = 0; i < _durable.Length; i++)
        {
            min = Version.Min(min, _durable[i]);
            multiple = CommonMultiple(multiple, _strides[i]);
        }

        if (_mutation == FinderMutation.StrideIgnored) multiple = 1;
        long down = min.Number - (min.Number % multiple);
        return RaiseTo(new(_mutation == FinderMutation.GridOneTooFar ? down + multiple : down));
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
    private bool RaiseTo(Version grid)
    {
        bool moved = false;
        ReadOnlySpan<Version> current = Current.Versions;
        for (int i = 0; i < current.Length; i++)
        {
            moved |= grid > current[i];
            _next[i] = Version.Max(current[i], grid);
        }

        if (moved) Current = Current.MovedTo(_next);
        return moved;
    }

    private void StartFrom(Cut cut)
    {
        cut.Versions.CopyTo(_durable);
        Array.Fill(_strides, 1);
        Vmax = _durable.Max();
        _changed = true;
    }

    private long CommonMultiple(long a, long b)
    {
        if (a % b == 0) return a;
        if (b % a == 0) return b;
        if (_mutation == FinderMutation.LargestStride) return Math.Max(a, b);
        long divisor = a, rest = b;
        while (rest != 0) (divisor, rest) = (rest, divisor % rest);
        Int128 multiple = (Int128)(a / divisor) * b;
        return multiple > long.MaxValue ? long.MaxValue : (long)multiple;
    }
}
