// The right of a primary site to report commits, granted by the backup with every reply to what is shipped. By option: a site that is cut
// off but healthy would else go on committing while the backup takes over; without it the operator has to attest that it is down.
//
// Each shard has its own. It runs from when the shard *sent* what the reply answers, by its own clock; the backup counts from when all
// receivers were frozen, which is later than any reply of theirs: so no two clocks are compared, only how fast they run.
using Slogger.Core.Replication;

namespace Slogger.Core.Sites;

/// <summary>One shard's lease, by one way to the backup. One thread at a time grants; any thread asks.</summary>
public sealed class SiteLease
{
    private readonly long _termUs;
    private readonly ShipMutation _mutation;

    /// <summary>A shard that has heard nothing from the backup.</summary>
    /// <param name="termUs">How long a grant holds. Microseconds.</param>
    public SiteLease(long termUs)
        : this(termUs, ShipMutation.None)
    {
    }

    internal SiteLease(long termUs, ShipMutation mutation)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(termUs, 1);
        (_termUs, _mutation) = (termUs, mutation);
    }

    /// <summary>A reply came.</summary>
    /// <param name="echoUs"><see cref="ShipReply.EchoUs"/>; 0: it grants nothing.</param>
    /// <param name="nowUs">The shard's clock, which counts the time in which the machine sleeps.</param>
    public void Granted(long echoUs, long nowUs)
    {
        if (echoUs == 0) return;
        // It only grows: a thread that reads an older value tells less, not more.
        UntilUs = Math.Max(UntilUs, (_mutation == ShipMutation.LeaseFromArrival ? nowUs : echoUs) + _termUs);
    }

    /// <summary>When it runs out, by the shard's clock. Commits may be told before that moment.</summary>
    public long UntilUs { get; private set; } = long.MinValue;

    /// <summary>Whether commits may be told now.</summary>
    public bool Holds(long nowUs) => nowUs < UntilUs;

    /// <summary>How long a failover waits after the last receiver was frozen, so that no lease is left: the term, by a clock that may run
    /// faster, and a quarter of it more. A process that has seen its lease hold, and is stopped for less than that before it sends, has
    /// sent in time.</summary>
    /// <param name="termUs">The term.</param>
    /// <param name="driftPpm">By how much two clocks may run apart, in millionths.</param>
    public static long WaitUs(long termUs, long driftPpm) => termUs + (termUs * driftPpm / 1_000_000) + MarginUs(termUs) + 1;

    /// <summary>For how long a process may be stopped between its look at the lease and its send.</summary>
    public static long MarginUs(long termUs) => termUs / 4;
}
