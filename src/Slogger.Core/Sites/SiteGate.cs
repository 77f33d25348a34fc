// The gate of a primary with a site lease: when what its clients are answered needs the lease.
//
// Where the backup could take over a primary answers under the lease only: else, once the backup has, it would go on answering what is not
// true any more. A backup that cannot take over has nobody wait, be it away or not. It cannot before all its streams count, and a stream
// counts only when something of the log has come to it behind what it was seeded with (Receiver). So a receiver that is being seeded cannot:
// its database says that it does not count before it asks for the copy. One that is welcomed to follow can, as soon as anything is shipped.
//
// This outlasts the process: the site epoch in which the backup was first shipped to is kept on the disk. In a later epoch, after this site
// has taken over, its backup has to be seeded before anything else. The leader of a cohort does not know what earlier leaders have shipped:
// for it a backup can always take over.
using Slogger.Core.Identities;
using Slogger.Core.Replication;

namespace Slogger.Core.Sites;

/// <summary>Whether a shard's replies need the site lease. One thread at a time changes it; any thread asks.</summary>
public sealed class SiteGate
{
    private readonly bool[] _follows;
    private readonly bool _always;
    private SiteEpoch? _kept;
    private SiteEpoch? _epoch;
    private volatile bool _needsLease;

    /// <summary>Before the site epoch is known the backup may have been shipped to in it.</summary>
    /// <param name="receivers">How many receivers of the backup the shard ships to.</param>
    /// <param name="isCohort">Whether the shard has a cohort.</param>
    /// <param name="kept">What was kept last (<see cref="Welcomed"/>); null: nothing ever.</param>
    public SiteGate(int receivers, bool isCohort, SiteEpoch? kept)
        : this(receivers, isCohort, kept, ShipMutation.None)
    {
    }

    internal SiteGate(int receivers, bool isCohort, SiteEpoch? kept, ShipMutation mutation)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(receivers, 1);
        (_follows, _always) = (new bool[receivers], isCohort);
        _kept = mutation == ShipMutation.GateNotKept ? null : kept;
        Set(isCohort || _kept is not null);
    }

    /// <summary>Whether the backup could take over, for all that is known here.</summary>
    public bool NeedsLease => _needsLease;

    /// <summary>Shipping begins, or begins again.</summary>
    /// <param name="epoch">The site's.</param>
    public void Begin(SiteEpoch epoch)
    {
        if (_always || _epoch == epoch) return;
        _epoch = epoch;
        Set(_kept == epoch);
    }

    /// <summary>A receiver has a log to go on with: it is about to be shipped to.</summary>
    /// <param name="receiver">Its number.</param>
    /// <returns>What is to be kept on the disk before anything is shipped to it; null: nothing.</returns>
    public SiteEpoch? Welcomed(int receiver)
    {
        _follows[receiver] = true;
        _needsLease = Array.TrueForAll(_follows, f => f);
        if (_epoch is not { } epoch || _kept == epoch) return null;
        return _kept = epoch;
    }

    /// <summary>A receiver says that it is being seeded.</summary>
    /// <param name="receiver">Its number.</param>
    public void IsSeeded(int receiver)
    {
        if (_always) return;
        _follows[receiver] = _needsLease = false;
    }

    private void Set(bool follows)
    {
        Array.Fill(_follows, follows);
        _needsLease = follows;
    }
}
