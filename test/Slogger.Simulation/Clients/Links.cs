// Connections between clients and proxies. Requests of a connection stay in order; what comes back may be overtaken, doubled or
// lost, which for a client of its session protocol is the same as a late answer.
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Simulation.Processes;

namespace Slogger.Simulation.Clients;

/// <summary>A batch on its way, or a question without operations: what is committed?</summary>
internal sealed class Batch(BatchHeader header, Op[] ops)
{
    public BatchHeader Header => header;

    public Op[] Ops => ops;

    /// <summary>How many of its operations the store has answered.</summary>
    public int Answered { get; set; }

    public SessionLink? Link { get; set; }
}

/// <summary>What a proxy says to a session: a reply, a rollback, or a cut.</summary>
internal sealed record SessionMessage
{
    public Batch? Batch { get; init; }

    public BatchReply Reply { get; init; }

    /// <summary>The cut, or the branch of a new world-line.</summary>
    public WorldLine Line { get; init; }

    public VersionNumber[]? ByShard { get; init; }

    /// <summary>For a rollback: the world-line that the branch was worked out for.</summary>
    public WorldLine? Abandoned { get; init; }

    /// <summary>Whether all shards have the same version there.</summary>
    public bool IsUniform { get; init; }
}

/// <summary>A session's connection to a shard.</summary>
internal sealed class SessionLink(SessionClient client, ProxyProcess proxy)
{
    public SessionClient Client => client;

    public ProxyProcess Proxy => proxy;

    public Queue<Batch> ToProxy { get; } = new();

    public List<SessionMessage> ToClient { get; } = [];

    /// <summary>Batches that were forwarded and not answered.</summary>
    public int InFlight { get; set; }

    /// <summary>The proxy has closed it, or is gone.</summary>
    public bool IsClosed { get; set; }
}

/// <summary>A plain client's connection, with what the proxy knows of its progress.</summary>
internal sealed class PlainLink(int id, PlainClient client, ProxyProcess proxy, SessionProgress progress)
{
    public int Id => id;

    public PlainClient Client => client;

    public ProxyProcess Proxy => proxy;

    public SessionProgress Progress => progress;

    public Queue<Op> ToProxy { get; } = new();

    public Queue<Op> ToClient { get; } = new();

    /// <summary>What was forwarded, by number.</summary>
    public List<Op> Ops { get; } = [];

    /// <summary>Its dedicated connection to the store; null while it uses the shared one.</summary>
    public StoreConnection? Own { get; set; }

    public int ExactInFlight { get; set; }

    /// <summary>What was given to its connection while a marker was on its way, and how much of it is known to be of one version.</summary>
    public List<Command> Held { get; } = [];

    public int HeldExact { get; set; }

    public int BlockedInFlight { get; set; }

    public bool IsClosed { get; set; }

    public int CheckedCommitted { get; set; }

    public int Settled { get; set; }
}
