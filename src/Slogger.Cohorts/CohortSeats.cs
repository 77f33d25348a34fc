// Where clients reach the nodes of a cohort, and who leads, as this node has heard it: at a follower all that the leader's beats say, at
// the leader what each node says of itself. Nothing is lost by a takeover: each node has all of it.
using System.Collections.Immutable;
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.FrontEnd;
using Slogger.Proxy.Configuration;
using Slogger.Resp;
using V1 = Slogger.Grpc.Cohorts.V1;

namespace Slogger.Cohorts;

/// <summary>What is known of the nodes. Changed by the node's thread; <see cref="View"/>: any.</summary>
/// <param name="options">The process's.</param>
internal sealed class CohortSeats(ServeOptions options)
{
    private readonly NodeName _self = options.Cohort!.Node;
    private readonly SortedDictionary<string, (string Clients, bool Follows)> _known = new(StringComparer.Ordinal);
    private volatile CohortView _view = new(options.Cohort!.Node.Text, null, [], 0);
    private NodeName? _leader;
    private Reign _reign;

    /// <summary>What the front end is told.</summary>
    public CohortView View => _view;

    /// <summary>A node says where clients reach it, and whether its store follows.</summary>
    public void Hears(NodeName node, string clients, bool follows) => Change(node.Text, (clients, follows));

    /// <summary>These are the members: of others nothing is told.</summary>
    public void Are(Cohort members)
    {
        string[] gone = [.. _known.Keys.Where(node => node != _self.Text && !members.Has(new(node)))];
        foreach (string node in gone) { _known.Remove(node); }
        if (gone.Length > 0) { Show(); }
    }

    /// <summary>A node does not answer.</summary>
    public void Misses(NodeName node)
    {
        if (_known.TryGetValue(node.Text, out (string Clients, bool) known)) { Change(node.Text, (known.Clients, false)); }
    }

    /// <summary>Who leads; null: nobody that this node has heard of.</summary>
    public void Leads(NodeName? leader, Reign reign)
    {
        if (leader == _leader && reign == _reign) { return; }
        (_leader, _reign) = (leader, reign);
        Show();
    }

    /// <summary>What a leader's beat carries.</summary>
    public IEnumerable<V1.NodeClients> ToWire() =>
        _known.Select(k => new V1.NodeClients { Node = k.Key, Clients = k.Value.Clients, Follows = k.Value.Follows });

    /// <summary>A leader's beat: of itself a node knows better.</summary>
    public void FromWire(IEnumerable<V1.NodeClients> nodes)
    {
        foreach (V1.NodeClients node in nodes)
        {
            if (node.Node != _self.Text) { Change(node.Node, (node.Clients, node.Follows)); }
        }
    }

    private void Change(string node, (string Clients, bool Follows) now)
    {
        if (_known.TryGetValue(node, out (string, bool) before) && before == now) { return; }
        _known[node] = now;
        Show();
    }

    // Clients cannot be sent to a Unix socket.
    private void Show()
    {
        ImmutableArray<CohortSeat> nodes = [.. _known
            .Select(k => (k.Key, k.Value.Follows, At: ListenAddress.TryParse(k.Value.Clients, out ListenAddress? at, out _) ? at : null))
            .Where(k => k.At is { IsUnix: false }).Select(k => new CohortSeat(k.Key, k.At!.Host!, k.At.Port, k.Follows))];
        _view = new(_self.Text, nodes.FirstOrDefault(n => n.Node == _leader?.Text), nodes, _reign.Number);
    }
}
