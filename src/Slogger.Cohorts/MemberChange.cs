// A member comes or goes, one at a time, as somebody asks the leader for. It asks again until that is done, so nothing is kept of what was
// asked but which node is given the log meanwhile. The change itself is a hand-over: the next reign has the other members (Core, Cohort).
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.Log.Ballots;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Ports;

namespace Slogger.Cohorts;

/// <summary>What a leader does for it. The node's thread.</summary>
/// <param name="node">The node.</param>
/// <param name="options">The process's.</param>
internal sealed class MemberChange(CohortNode node, ServeOptions options)
{
    // Nobody asks any more: it was given up.
    private const long PatienceUs = 30_000_000;
    private NodeName? _joining;
    private long _askedUs;

    private NodeName Self => options.Cohort!.Node;

    /// <summary>A leader's time.</summary>
    public void Tick()
    {
        if (_joining is not { } joining || CohortNode.NowUs - _askedUs < PatienceUs) { return; }
        _joining = null;
        if (!node.Members.Has(joining)) { _ = node.Lead?.ForgetAsync(joining); }
    }

    /// <summary>Somebody asks for a member, or for one less.</summary>
    /// <param name="name">Which.</param>
    /// <param name="address">Where the others reach it; empty: it is to go.</param>
    /// <returns>Why it cannot be done; or what has to happen first. Neither: it is done, and a majority of the members knows.</returns>
    public (string? Problem, string? WaitsFor) Ask(NodeName name, string address)
    {
        if (node.Lead is not { } lead) { return ($"node {Self} does not lead", null); }
        bool comes = address.Length > 0;
        Cohort members = node.Members;
        if (members.Has(name) == comes)
        {
            return lead.Commit is null ? (null, $"a majority of {members} to have the record of reign {lead.Reign}") : (null, null);
        }
        return comes ? Add(lead, name, address) : Remove(lead, name);
    }

    private (string? Problem, string? WaitsFor) Add(ICohortLead lead, NodeName name, string address)
    {
        Cohort members = node.Members;
        if (!OptionText.Name(name.Text, out _, out string problem)) { return ($"the node's name {problem}", null); }
        if (members.Voters.Length >= BallotFile.MembersMax) { return ($"there are {members.Voters.Length} members, the most", null); }
        if (members.Members.FirstOrDefault(m => m.Address == address) is { Address: not null } other)
        {
            return ($"node {other.Node} is at {address}", null);
        }
        if (node.Against(address) is { } against) { return (against, null); }
        if (_joining is { } joining && joining != name) { return ($"node {joining} is being added: members come one at a time", null); }
        if (_joining is null)
        {
            _joining = name;
            lead.ShipTo(name, node.WayTo(name, address));
        }
        _askedUs = CohortNode.NowUs;
        CohortFollowerStatus follower = lead.Followers.FirstOrDefault(f => f.Node == name);
        return follower switch
        {
            { Node.Text: null } => (null, "the leader to ship its log"),
            { Problem: { } silent } => (null, $"{name} to answer at {address}: {silent}"),
            { SilentUs: < 0 } => (null, $"{name} to answer at {address}"),
            { Seeding: { } copy } => (null, $"{name} to have a copy of the store: {copy}"),
            { Learns: true } => (null, $"{name} to have what is committed"),
            _ => HandOver(lead, members.With(name, address)),
        };
    }

    private (string? Problem, string? WaitsFor) Remove(ICohortLead lead, NodeName name)
    {
        Cohort members = node.Members;
        return members.Voters.Length == 1 ? ($"{name} is the only member", null)
            : members.Voters.Length == 2 && name != Self
            ? ($"{Self} would be left alone, and cannot hand over to itself: have {name} lead first", null)
            : HandOver(lead, members.Without(name));
    }

    private (string? Problem, string? WaitsFor) HandOver(ICohortLead lead, Cohort next)
    {
        CohortFollowerStatus[] able = [.. node.HandingOver.Able.Where(f => next.Has(f.Node))];
        int there = able.Length + (next.Has(Self) ? 1 : 0);
        if (there < next.Majority || able.Length == 0)
        {
            return ($"of {next} a majority has to be there, and {(there == 0 ? "none is"
                : $"only {string.Join(", ", able.Select(f => f.Node).Concat(next.Has(Self) ? [Self] : []))} {(there == 1 ? "is" : "are")}")}",
                null);
        }
        if (!lead.MayChange(next)) { return (null, $"a majority of {node.Members} to have the record of reign {lead.Reign}"); }
        // A member knows the others already.
        NodeName to = able.MaxBy(f => (node.Members.Has(f.Node), f.Durable)).Node;
        node.HandingOver.Begin(to, next);
        return (null, $"{to} to lead with {next}");
    }
}
