// What the oracle of SQL says of the site: by the rules that the product's store will apply (SiteState), each method one transaction.
using Slogger.Core.Identities;
using Slogger.Core.Membership;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Processes;

internal sealed partial class Sql
{
    /// <summary>What the site is.</summary>
    public SiteState Site { get; private set; } = SiteState.Alone;

    /// <summary>Another site is the primary.</summary>
    public object DeposedBy(SiteEpoch by) => Change(new(Site.DeposedBy(by), null));

    /// <summary>A switch-over begins: what shards have said in one before does not count.</summary>
    public object Hold(long after)
    {
        SiteChange change = Site.Hold(after);
        if (change.After is not null)
            foreach (SqlShard s in Shards) s.Held = null;
        return Change(change);
    }

    public object Offer(long number, WorldPoint cut) => Change(Site.Offer(number, cut));

    public object Resume(long number, bool isCalledOff) => Change(Site.Resume(number, isCalledOff, _settings.Ship));

    /// <summary>A shard holds all operations for a switch-over.</summary>
    public object NoteHeld(int shard, long number, WorldPoint point, long epoch)
    {
        bool counts = Shards[shard].Epoch == epoch && Site.Role == SiteRole.HandingOver && Site.HandOver.Number == number;
        if (counts) Shards[shard].Held = (epoch, point);
        return this;
    }

    /// <summary>How far a switch-over has come: what the site is, what each shard's owner of this moment has said, and the cut.</summary>
    public object LookAtSite() =>
        (Site, Shards.Where((s, i) => Members.Counts(Members.States[i]))
            .Select(s => s.Held is { } held && held.Epoch == s.Epoch ? held.Point : (WorldPoint?)null).ToArray(),
        new WorldPoint(Line, Cut.Versions[0]));

    private SiteChange Change(SiteChange change)
    {
        if (change.After is { } after) Site = after;
        Changed();
        return change;
    }
}
