// A shard's cohort, as the commands reach it: the nodes that --cohort names.
using System.Collections.Immutable;
using Slogger.Cli.Sites;
using Slogger.Grpc.Client;
using Slogger.Grpc.Cohorts;
using Slogger.Proxy.Configuration;
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
    private readonly (CohortMember Member, SiteProcess Process)[] _nodes;

    private CohortAccess(ImmutableArray<CohortMember> members, SiteCredentials credentials) =>
        _nodes = [.. members.Select(m => (m, new SiteProcess($"{m.Address}", [], credentials.Open(m.Address))))];

    /// <summary>What all commands that ask nodes are given.</summary>
    public static IEnumerable<OptionDefinition> Options =>
    [
        new("cohort", SiteArguments.Where, "NAME=HOST:PORT,...", "The nodes of one shard, as their processes are given them. Also "
            + "SLOGGER_COHORT.", "none", ""),
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

    /// <summary>Asks all at once.</summary>
    public async Task<IReadOnlyList<AskedNode>> AskAsync(CancellationToken stop) =>
        await Task.WhenAll(_nodes.Select(async n => new AskedNode(n.Member, await SiteAccess.AskAsync(n.Process, CohortMethods.Status,
            new V1.NodeStatusRequest(), stop).ConfigureAwait(false)))).ConfigureAwait(false);

    /// <summary>Has a leader hand over.</summary>
    /// <param name="leader">Who leads.</param>
    /// <param name="to">To whom; null: to the node whose log is nearest.</param>
    /// <param name="stop">Gives up.</param>
    public Task<Answered<V1.HandOverReply>> HandOverAsync(CohortMember leader, string? to, CancellationToken stop) =>
        SiteAccess.AskAsync(_nodes.First(n => n.Member == leader).Process, CohortMethods.HandOver,
            new V1.HandOverRequest { To = to ?? "" }, stop);

    public void Dispose()
    {
        foreach ((_, SiteProcess process) in _nodes) { process.Channel.Dispose(); }
    }
}
