// Who is in the cluster, in the oracle of SQL: by the rules that the product's store applies (Members), each method one transaction. Every
// change takes a new epoch, as if a shard had changed hands.
using Slogger.Core.Cuts;
using Slogger.Core.Membership;
using Slogger.Core.Sites;

namespace Slogger.Simulation.Processes;

/// <summary>What a shard's beat finds.</summary>
internal sealed record SqlBeat(long Epoch, MemberState State, long ChangeUs, SiteState Site);

internal sealed partial class Sql
{
    /// <summary>Who is in it.</summary>
    public Members Members { get; private set; }

    public SqlBeat Beat(int shard) => new(Shards[shard].Epoch, Members.States[shard], Proposal.ChangeUs, Site);

    /// <summary>Whether a shard holds and moves the cut.</summary>
    public bool Counts(int shard) => Members.Counts(Members.States[shard], _settings.Member);

    /// <summary>Gives a number to a shard that is to join; false if there can be none.</summary>
    public bool AddShard()
    {
        if (Members.Add(new(Shards.Count), _settings.Finder).After is not { } grown) return false;
        Members = grown;
        _epochLast++;
        Shards.Add(new() { Claim = DurableClaim.Of(new(Line, Cut.Versions[0])) });
        Cut = Cut.Uniform(Line, Shards.Count, Cut.Versions[0]);
        Changed();
        return true;
    }

    /// <summary>A joiner asks to count from now on, with what it has durable.</summary>
    /// <returns>Whether it counts.</returns>
    public object Admit(int shard, DurableClaim claim, long epoch)
    {
        SqlShard s = Shards[shard];
        bool isJoining = Members.States[shard] == MemberState.Joining && s.Epoch == epoch;
        if (isJoining && Members.Admits(new(Line, Cut.Versions[0]), claim, _settings.Member))
        {
            (s.Claim, s.Entered) = (claim with { Point = claim.Point with { WorldLine = Line } }, Line);
            SetState(shard, MemberState.Member);
            _cluster.OnMember("joined", shard);
            _cluster.Checks.OnAdmitted(_cluster.Hosts[shard]);
        }

        return Members.Counts(Members.States[shard]);
    }

    /// <summary>Somebody has a shard leave.</summary>
    /// <returns>Where it stands then; false if it may not.</returns>
    public object Leave(int shard)
    {
        if (Members.Leave(new(shard), Owners).After is not { } after) return false;
        if (after.States[shard] != Members.States[shard])
        {
            _cluster.OnMember(after.States[shard] == MemberState.Left ? "joiner left" : "leaves", shard);
            SetState(shard, after.States[shard]);
        }

        return Members.States[shard];
    }

    /// <summary>A leaver counts no more.</summary>
    /// <returns>Whether it has left.</returns>
    public object EndMembership(int shard, long epoch)
    {
        if (Members.States[shard] == MemberState.Leaving && Shards[shard].Epoch == epoch)
        {
            _cluster.OnMember("left", shard);
            SetState(shard, MemberState.Left);
        }

        return Members.States[shard] == MemberState.Left;
    }

    private void SetState(int shard, MemberState state)
    {
        Members = Members.With(new(shard), state);
        _epochLast++;
        // Whoever still runs as that shard is deposed: the epoch is nobody's.
        if (state == MemberState.Left && Shards[shard].Epoch > 0) Shards[shard].Epoch = _epochLast;
        Changed();
    }
}
