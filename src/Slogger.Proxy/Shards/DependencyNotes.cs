// What the versions of a shard depend on, for the exact and the hybrid finder: Core's DependencyTrail, which batches add to while the
// recorder reads rows from it.
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Proxy.Shards;

/// <summary>The trail, and its lock. Any thread.</summary>
internal sealed class DependencyNotes(ShardId shard, int shardCount)
{
    private readonly Lock _lock = new();
    private readonly DependencyTrail _trail = new(shard, shardCount);      // under _lock

    /// <summary>See <see cref="DependencyTrail.Begin"/>.</summary>
    public void Begin(WorldPoint committed, VersionNumber executed)
    {
        lock (_lock) { _trail.Begin(committed, executed); }
    }

    /// <summary>See <see cref="DependencyTrail.Add"/>.</summary>
    public void Add(ReadOnlySpan<Dependency> dependencies, VersionNumber open)
    {
        lock (_lock) { _trail.Add(dependencies, open); }
    }

    /// <summary>The same from a thread that does not close versions: it is noted in a version that is open, and only if the trail is of its
    /// world-line.</summary>
    /// <returns>Whether it is.</returns>
    public bool Add(WorldLine line, ReadOnlySpan<Dependency> dependencies, Func<VersionNumber> open)
    {
        lock (_lock)
        {
            if (_trail.WorldLine != line) { return false; }
            // One that has ended meanwhile may have its row already.
            for (VersionNumber now = default; now != open();) { _trail.Add(dependencies, now = open()); }
            return true;
        }
    }

    /// <summary>See <see cref="DependencyTrail.RowFor"/>.</summary>
    public PrecedenceRow? RowFor(WorldPoint through, bool startsOver)
    {
        lock (_lock) { return _trail.RowFor(through, startsOver); }
    }

    /// <summary>See <see cref="DependencyTrail.StepOf"/>.</summary>
    public DurableClaim StepOf(in DurableClaim claim)
    {
        lock (_lock) { return _trail.StepOf(claim); }
    }

    /// <summary>See <see cref="DependencyTrail.RowForBranch"/>.</summary>
    public PrecedenceRow? RowForBranch(WorldPoint point, VersionNumber cut)
    {
        lock (_lock) { return _trail.RowForBranch(point, cut); }
    }

    /// <summary>See <see cref="DependencyTrail.Committed"/>.</summary>
    public void Committed(WorldPoint own)
    {
        lock (_lock) { _trail.Committed(own); }
    }
}
