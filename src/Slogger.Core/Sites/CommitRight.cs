// Whether a shard may tell commits now: one lease for each way to the backup, and all of them have to hold.
//
// It is asked with the clock read at that moment, right before the system call that sends. What was allowed a moment ago is not: a process
// may be stopped in between for as long as somebody likes. No check can end that moment altogether, so a failover waits for longer than the
// term (SiteLease.WaitUs): a process that is stopped between the check and the send for less than that margin tells nothing wrong.
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Sites;

/// <summary>A shard's right to tell commits. One thread at a time grants; any thread asks.</summary>
public sealed class CommitRight
{
    private readonly SiteLease[] _leases;
    private readonly ShipMutation _mutation;
    private WorldPoint _told;

    /// <summary>Of a shard that has heard nothing from the backup: it has none.</summary>
    /// <param name="ways">How many ways to the backup there are; at least 1.</param>
    /// <param name="termUs">How long a grant holds. Microseconds.</param>
    public CommitRight(int ways, long termUs)
        : this(ways, termUs, ShipMutation.None)
    {
    }

    internal CommitRight(int ways, long termUs, ShipMutation mutation)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(ways, 1);
        _leases = [.. Enumerable.Range(0, ways).Select(_ => new SiteLease(termUs, mutation))];
        _mutation = mutation;
    }

    /// <summary>A reply came.</summary>
    /// <param name="way">By which way.</param>
    /// <param name="echoUs">As in <see cref="SiteLease.Granted"/>.</param>
    /// <param name="nowUs">The shard's clock, which counts the time in which the machine sleeps.</param>
    /// <returns>Whether the right begins to hold: who has waited for it can be told.</returns>
    public bool Granted(int way, long echoUs, long nowUs)
    {
        bool held = Holds(nowUs);
        _leases[way].Granted(echoUs, nowUs);
        return !held && Holds(nowUs);
    }

    /// <summary>Whether commits may be told at this moment.</summary>
    public bool Holds(long nowUs) => nowUs < UntilUs;

    /// <summary>What of a recorded cut may be told at this moment: version 0, which says nothing, without the right.</summary>
    public WorldPoint Tellable(WorldPoint cut, long nowUs)
    {
        bool holds = Holds(nowUs);
        if (_mutation == ShipMutation.ToldForEver && holds) _told = cut;
        if (_mutation == ShipMutation.ToldForEver && _told.WorldLine == cut.WorldLine) return _told;
        return holds ? cut : new(cut.WorldLine, VersionNumber.Zero);
    }

    private long UntilUs
    {
        get
        {
            long untilUs = long.MaxValue;
            foreach (SiteLease lease in _leases) untilUs = Math.Min(untilUs, lease.UntilUs);
            return untilUs;
        }
    }
}
