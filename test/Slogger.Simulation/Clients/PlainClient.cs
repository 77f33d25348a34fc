// A client that knows nothing of versions, on a connection to one proxy. What one such client hears another may act upon at once, at
// another shard: causality that does not pass through the system.
using Slogger.Simulation.Processes;

namespace Slogger.Simulation.Clients;

internal sealed class PlainClient(Cluster cluster, int number, bool isDedicated)
{
    private readonly KeyRoutes _routes = new(cluster);
    private readonly List<Op> _ops = [];
    private PlainLink? _link;

    public int Number => number;

    /// <summary>Its connection has state of its own, and so an upstream of its own.</summary>
    public bool IsDedicated => isDedicated;

    /// <summary>On a dedicated connection: whether it sends commands that block.</summary>
    public bool Blocks { get; set; } = true;

    public PlainLink? Link => _link;

    public IReadOnlyList<Op> Ops => _ops;

    public void Step(Random random)
    {
        if (_link is { IsClosed: true, ToClient.Count: 0 }) _link = null;
        if (_link is null) Connect(random.Next(cluster.Hosts.Length));
        switch (random.Next(20))
        {
            case < 8: if (!cluster.IsQuiet(_link?.Proxy.Shard)) Begin(random); break;
            case < 19: Receive(random); break;
            default: if (cluster.Settings.Faults && random.Next(12) == 0) GiveUp(); break;
        }
    }

    public void Connect(int shard)
    {
        if (cluster.Hosts[shard].Newest is { IsOpen: true } proxy) _link = proxy.Accept(this);
    }

    /// <summary>Begins an operation.</summary>
    /// <param name="random">The dice.</param>
    /// <param name="keyMeant">The key; null: any.</param>
    public void Begin(Random random, int? keyMeant = null)
    {
        if (_link is not { IsClosed: false } link || link.ToProxy.Count > 4) return;
        Op op = new() { Client = number, IsPlain = true, Shard = link.Proxy.Shard, Begun = cluster.NextTick(), Key = keyMeant
            ?? _routes.KeyAt(link.Proxy.Shard, random) };
        _ops.Add(op);
        link.ToProxy.Enqueue(op);
        if (cluster.IsTraced) cluster.Note($"plain client {number} begins an operation at shard {op.Shard}");
    }

    public void Receive(Random random)
    {
        if (!Receive()) return;
        // Somebody is told of it, and acts upon it.
        PlainClient told = cluster.Plains[random.Next(cluster.Plains.Length)];
        if (random.Next(2) == 0 && !cluster.IsQuiet(told.Link?.Proxy.Shard)) told.Begin(random);
    }

    /// <summary>The next answer arrives.</summary>
    /// <returns>Whether there was one.</returns>
    public bool Receive()
    {
        if (_link is not { } link || !link.ToClient.TryDequeue(out Op? op)) return false;
        op.Answered = cluster.NextTick();
        _routes.OnAnswered(op);
        if (cluster.IsTraced) cluster.Note($"plain client {number} hears: {op}");
        cluster.Checks.OnAnswered(op);
        return true;
    }

    public void GiveUp()
    {
        if (_link is not { } link) return;
        cluster.Count("plain connection lost");
        if (!link.Proxy.IsDead) link.Proxy.Forget(link);
        link.IsClosed = true;
        _link = null;
    }
}
