// A shard's cohort, as the commands reach it: the nodes that --cohort names.
using System.Collections.Immutable;
using Slogger.Cli.Sites;
using Slogger.Grpc.Client;
using Slogger.Grpc.Cohorts;
using Slogger.Proxy.Configuration;
using Slogger.Resp;
using Slogger.Sites.Access;
using V1 = Slogger.Grpc.Cohorts.V1;

namespace Slogger.Cli.Cohorts;

/// <summary>A node, and what it has answered.</summary>
/// <param name="Member">Which.</param>
/// <param name="Answer">What it says of itself; no reply: why not.</param>
internal readonly record struct AskedNode(CohortMember Member, Answered<V1.NodeStatusReply> Answer);

/// <summary>Its nodes.</summary>
internal sealed class CohortAccess : IDisposable
{
    private readonly SiteCredentials _credentials;
    private readonly List<(CohortMember Member, SiteProcess Process)> _nodes = [];

    private CohortAccess(ImmutableArray<CohortMember> members, SiteCredentials credentials)
    {
        _credentials = credentials;
        foreach (CohortMember member in members) { Open(member); }
    }

    /// <summary>What all commands that ask nodes are given.</summary>
    public static IEnumerable<OptionDefinition> Options =>
    [
        new("cohort", SiteArguments.Where, "NAME=HOST:PORT,...", "The nodes of one shard, as their processes are given them. Members that "
            + "were added later are found by these. Also SLOGGER_COHORT.", "none", ""),
        .. SiteArguments.Access,
    ];

    /// <summary>What the arguments name; null: they say what is wrong.</summary>
    public static CohortAccess? Of(SiteArguments arguments)
    {
        ImmutableArray<CohortMember> members = arguments.Value<ImmutableArray<CohortMember>>("cohort", CohortOptionsReader.Members, []);
        if (members.IsEmpty && arguments.Errors.Count == 0)
        {
            arguments.Fail("no cohort is named", "give --cohort a=HOST:PORT,b=HOST:PORT,c=HOST:PORT as the nodes' processes have it");
        }
        SiteCredentials credentials = arguments.Known();
        return arguments.Errors.Count > 0 ? null : new(members, credentials);
    }

    /// <summary>Asks all at once, then the members that were not named and that the newest leader knows.</summary>
    public async Task<IReadOnlyList<AskedNode>> AskAsync(CancellationToken stop)
    {
        AskedNode[] named = await AskAsync(_nodes, stop).ConfigureAwait(false);
        int known = _nodes.Count;
        foreach (Grpc.Shipping.V1.Member member in named.Select(n => n.Answer.Reply).OfType<V1.NodeStatusReply>().MaxBy(r => r.Reign)?.Members ?? [])
        {
            if (!_nodes.Any(n => n.Member.Node.Text == member.Node) && ListenAddress.TryParse(member.Address, out ListenAddress? at, out _))
            {
                Open(new(new(member.Node), at));
            }
        }
        return [.. named, .. await AskAsync(_nodes.Skip(known), stop).ConfigureAwait(false)];
    }

    /// <summary>Has a leader hand over.</summary>
    /// <param name="leader">Who leads.</param>
    /// <param name="to">To whom; null: to the node whose log is nearest.</param>
    /// <param name="stop">Gives up.</param>
    public Task<Answered<V1.HandOverReply>> HandOverAsync(CohortMember leader, string? to, CancellationToken stop) =>
        SiteAccess.AskAsync(_nodes.First(n => n.Member == leader).Process, CohortMethods.HandOver,
            new V1.HandOverRequest { To = to ?? "" }, stop);

    /// <summary>Has a leader add a member, or remove one.</summary>
    /// <param name="leader">Who leads.</param>
    /// <param name="node">Which.</param>
    /// <param name="address">Where the others reach it; null: it is to go.</param>
    /// <param name="stop">Gives up.</param>
    public Task<Answered<V1.ChangeReply>> ChangeAsync(CohortMember leader, string node, string? address, CancellationToken stop) =>
        SiteAccess.AskAsync(_nodes.First(n => n.Member == leader).Process, CohortMethods.Change,
            new V1.ChangeRequest { Node = node, Address = address ?? "" }, stop);

    public void Dispose()
    {
        foreach ((_, SiteProcess process) in _nodes) { process.Channel.Dispose(); }
    }

    private void Open(CohortMember member) =>
        _nodes.Add((member, new SiteProcess($"{member.Address}", [], _credentials.Open(member.Address))));

    private static async Task<AskedNode[]> AskAsync(IEnumerable<(CohortMember Member, SiteProcess Process)> nodes, CancellationToken stop) =>
        await Task.WhenAll(nodes.Select(async n => new AskedNode(n.Member, await SiteAccess.AskAsync(n.Process, CohortMethods.Status,
            new V1.NodeStatusRequest(), stop).ConfigureAwait(false)))).ConfigureAwait(false);
}
