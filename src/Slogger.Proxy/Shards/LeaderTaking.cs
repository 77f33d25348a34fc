// The shard of a cohort, in the metadata: whoever leads takes it for its reign, once. So the metadata, and whoever asks it, knows who leads,
// and an earlier leader can write nothing there any more.
using Slogger.Core.Identities;
using Slogger.Metadata;

namespace Slogger.Proxy.Shards;

/// <summary>Takes the shard for the reign that its node leads. One caller at a time.</summary>
/// <param name="shard">The shard.</param>
/// <param name="report">For people.</param>
internal sealed class LeaderTaking(VersionedShard shard, ILogger report)
{
    /// <summary>Whether it is taken.</summary>
    public bool IsTaken { get; private set; }

    /// <summary>Takes it, if it is not taken. A later leader may have come first: this node is slow then, and steps down, and this does not
    /// end before it is given up.</summary>
    /// <param name="stop">Gives up.</param>
    public async Task TakeAsync(CancellationToken stop)
    {
        if (IsTaken) { return; }
        Reign reign = shard.CohortShard!.Lead!.Reign;
        if (await shard.Seat.TakeAsLeaderAsync(reign, stop).ConfigureAwait(false) is not { } later)
        {
            IsTaken = true;
            return;
        }
        report.Warn($"shard {shard.Seat.Shard}: the metadata knows of reign {later}, which is later than {reign}: this node steps down");
        shard.StepsDown(later);
        await Task.Delay(Timeout.Infinite, stop).ConfigureAwait(false);
    }

    /// <summary>Takes it, and looks whether a world-line has to begin, since a leader before has begun to write a reset.</summary>
    /// <param name="stop">Gives up.</param>
    public async Task<bool> TakesWithResetAsync(CancellationToken stop)
    {
        await TakeAsync(stop).ConfigureAwait(false);
        ShardRecord record = await shard.Seat.RecordAsync(stop).ConfigureAwait(false);
        return shard.Reset.BeginsWithWorldLine(record.Reset, record.WorldLine);
    }
}
