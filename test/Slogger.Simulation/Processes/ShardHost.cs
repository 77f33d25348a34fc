// A machine with one shard: its store, its log's disk, its clock, and the processes that own the shard or believe so.
using Slogger.Core.Identities;
using Slogger.Core.Time;

namespace Slogger.Simulation.Processes;

internal sealed class ShardHost(Cluster cluster, int number, bool forgetsAtGap, ShardLog? log = null)
{
    public int Number => number;

    public Store Store { get; } = new(cluster, number);

    public ShardLog Log { get; } = log ?? new(forgetsAtGap);

    /// <summary>What lies below is not there for shipping any more.</summary>
    public long TrimmedBefore { get; set; }

    /// <summary>How far the wall clock is ahead of true time, in microseconds.</summary>
    public long SkewUs { get; set; }

    /// <summary>Its processors are kept so busy that whoever reads its clocks has the wall clock's time this long before the
    /// other's.</summary>
    public long SpreadUs { get; set; }

    /// <summary>What the latest process's clock said, and when by the machine's own clock: the next one continues it.</summary>
    public (long AtUs, HybridTimestamp Time) Clock { get; set; }

    /// <summary>The history of the store that was on its way to a branch when this was noted on the disk; 0: none.</summary>
    public int NotedHistory { get; set; }

    /// <summary>The site epoch in which the backup was first shipped to, as it is on the disk.</summary>
    public SiteEpoch? BackupFollows { get; set; }

    /// <summary>The machine is switched off: nobody starts a process there.</summary>
    public bool IsOff { get; set; }

    /// <summary>Clients ask it for nothing before this many events.</summary>
    public long QuietUntil { get; set; }

    /// <summary>It was given a number, and nobody will ever start it.</summary>
    public bool NeverComes { get; init; }

    /// <summary>All that are not dead, the newest last.</summary>
    public List<ProxyProcess> Proxies { get; } = [];

    public ProxyProcess? Newest => Proxies.Count > 0 ? Proxies[^1] : null;

    /// <summary>Up to where the history is inside the recorded cut.</summary>
    public long CoveredOffset { get; set; }
}
