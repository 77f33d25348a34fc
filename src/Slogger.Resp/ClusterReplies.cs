// What a node of Redis Cluster says of its cluster, byte for byte as Redis 7.0 says it, so that its clients find their way. Made
// anew for each state of the map and the nodes; what is asked often (a redirection) is written without allocation.
using System.Buffers.Text;
using System.Collections.Immutable;
using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;

namespace Slogger.Resp;

/// <summary>A node as clients see it: a shard and where they reach it.</summary>
/// <param name="Shard">The shard.</param>
/// <param name="Host">An address or a name, as clients are to use it.</param>
/// <param name="Port">Its port.</param>
/// <param name="IsAlive">Whether it is thought to serve.</param>
public sealed record ClusterNode(ShardId Shard, string Host, int Port, bool IsAlive)
{
    /// <summary>Of a shard that is replicated on several nodes: which of them this is, the one that leads. Empty: not known, or there is
    /// one.</summary>
    public string Name { get; init; } = "";

    /// <summary>The shard's other nodes, which follow.</summary>
    public ImmutableArray<ClusterNode> Replicas { get; init; } = [];
}

/// <summary>The replies of CLUSTER's subcommands and the redirections, for one state of the cluster. Immutable. Source: Redis 7.0,
/// cluster.c. A shard that is not among the nodes is not told of: its slots count as not assigned.</summary>
public sealed class ClusterReplies
{
    /// <summary>The longest redirection. Unit: bytes.</summary>
    public const int RedirectionBytesMax = 320;

    private const int HostBytesMax = 255, BusPortOffset = 10_000;
    private readonly string _cluster;
    private readonly Partitioning _partitions;
    private readonly SlotMap _map;
    private readonly MapRevision _revision;
    private readonly ShardId _self;
    private readonly string _selfName;
    private readonly ClusterNode[] _nodes;
    private readonly Dictionary<ShardId, (ClusterNode Node, byte[] Endpoint)> _byShard;

    /// <summary>Describes a cluster.</summary>
    /// <param name="cluster">Its name: with the shard it gives a node's id.</param>
    /// <param name="partitions">Which slot a key is in.</param>
    /// <param name="map">Who owns which slot.</param>
    /// <param name="revision">Shown as the epoch of the configuration.</param>
    /// <param name="nodes">The nodes.</param>
    /// <param name="self">The shard that is asked.</param>
    /// <param name="selfName">Which of the shard's nodes; empty: it has one.</param>
    /// <exception cref="ArgumentException">A shard is twice among the nodes, the one that is asked is not, or a host is too
    /// long or has a character that would break a reply.</exception>
    public ClusterReplies(string cluster, Partitioning partitions, SlotMap map, MapRevision revision, IEnumerable<ClusterNode> nodes,
        ShardId self, string selfName = "")
    {
        _cluster = cluster;
        _selfName = selfName;
        _partitions = partitions;
        _map = map;
        _revision = revision;
        _self = self;
        _nodes = [.. nodes.OrderBy(n => n.Shard.Number)];
        _byShard = _nodes.ToDictionary(n => n.Shard, n =>
            (n, Encoding.UTF8.GetBytes($"{n.Host}:{Text(n.Port)}\r\n")));
        if (!_byShard.ContainsKey(self)) { throw new ArgumentException($"Shard {self} is asked, but not among the nodes.", nameof(nodes)); }
        foreach (ClusterNode node in _nodes.SelectMany(n => n.Replicas.Prepend(n)))
        {
            if (node.Host.Any(c => c <= ' ') || Encoding.UTF8.GetByteCount(node.Host) > HostBytesMax)
            {
                throw new ArgumentException($"The host of shard {node.Shard} is no address.", nameof(nodes));
            }
        }
    }

    /// <summary>The same cluster, of whose shard that is asked more is known.</summary>
    /// <param name="own">Who leads it, and who follows.</param>
    /// <param name="selfName">Which of them is asked.</param>
    public ClusterReplies With(ClusterNode own, string selfName) =>
        new(_cluster, _partitions, _map, _revision, [.. _nodes.Where(n => n.Shard != own.Shard), own], _self, selfName);

    /// <summary>The keys are in several slots.</summary>
    public ReadOnlySpan<byte> CrossSlot => _partitions.Kind == PartitionKind.Hash
        ? "-CROSSSLOT Keys in request don't hash to the same slot\r\n"u8
        : "-CROSSSLOT Keys in request are not in the same range partition\r\n"u8;

    /// <summary>Nobody serves the slot.</summary>
    public static ReadOnlySpan<byte> NotServed => "-CLUSTERDOWN Hash slot not served\r\n"u8;

    /// <summary>A number that is no slot was given.</summary>
    public static ReadOnlySpan<byte> InvalidSlot => "-ERR Invalid slot\r\n"u8;

    /// <summary>The id of a node: 40 hexadecimal digits, the same for all who ask and for ever.</summary>
    public static string NodeId(string cluster, ShardId shard, string name = "") =>
        Convert.ToHexStringLower(SHA256.HashData(Encoding.UTF8.GetBytes($"{cluster}/{shard}{(name.Length > 0 ? "/" : "")}{name}"))
            .AsSpan(0, 20));

    /// <summary>Writes -MOVED to a slot's owner.</summary>
    /// <param name="to">At least <see cref="RedirectionBytesMax"/> bytes.</param>
    /// <param name="slot">The slot.</param>
    /// <param name="owner">Who serves it; if that is no node, "not served" is written.</param>
    /// <returns>How many bytes were written.</returns>
    public int WriteMoved(Span<byte> to, HashSlot slot, ShardId owner)
    {
        if (!_byShard.TryGetValue(owner, out (ClusterNode Node, byte[] Endpoint) node))
        {
            NotServed.CopyTo(to);
            return NotServed.Length;
        }
        ReadOnlySpan<byte> moved = "-MOVED "u8;
        moved.CopyTo(to);
        Utf8Formatter.TryFormat(slot.Number, to[moved.Length..], out int digits);
        int at = moved.Length + digits;
        to[at++] = (byte)' ';
        node.Endpoint.CopyTo(to[at..]);
        return at + node.Endpoint.Length;
    }

    /// <summary>The reply of CLUSTER KEYSLOT.</summary>
    public byte[] KeySlot(ReadOnlySpan<byte> key) => Number(_partitions.Of(key).Number);

    /// <summary>The reply of CLUSTER COUNTKEYSINSLOT, and of others that are a number.</summary>
    public static byte[] Number(long number) => Encoding.ASCII.GetBytes($":{Text(number)}\r\n");

    /// <summary>The reply of CLUSTER MYID.</summary>
    public byte[] MyId() => Bulk(new(), NodeId(_cluster, _self, _selfName)).ToBytes();

    /// <summary>The reply of CLUSTER SLOTS.</summary>
    /// <param name="protocol">2 or 3.</param>
    public byte[] Slots(int protocol)
    {
        SlotRow[] rows = [.. _map.Rows.Where(r => _byShard.ContainsKey(r.Shard))];
        StringBuilder text = new StringBuilder().Append(Text($"*{rows.Length}\r\n"));
        foreach (SlotRow row in rows)
        {
            ClusterNode[] nodes = [.. AliveOf(_byShard[row.Shard].Node)];
            text.Append(Text($"*{2 + nodes.Length}\r\n:{row.Slots.First}\r\n:{row.Slots.Last}\r\n"));
            foreach (ClusterNode node in nodes)
            {
                Bulk(text.Append("*4\r\n"), node.Host).Append(Text($":{node.Port}\r\n"));
                // Nothing more to tell of the node.
                Bulk(text, IdOf(node)).Append(Map(protocol, 0));
            }
        }
        return text.ToBytes();
    }

    /// <summary>The reply of CLUSTER SHARDS.</summary>
    /// <param name="protocol">2 or 3.</param>
    public byte[] Shards(int protocol)
    {
        StringBuilder text = new StringBuilder().Append(Text($"*{_nodes.Length}\r\n"));
        foreach (ClusterNode node in _nodes)
        {
            SlotRange[] slots = [.. RangesOf(node.Shard)];
            Bulk(text.Append(Map(protocol, 2)), "slots").Append(Text($"*{slots.Length * 2}\r\n"));
            foreach (SlotRange range in slots) { text.Append(Text($":{range.First}\r\n:{range.Last}\r\n")); }
            Bulk(text, "nodes").Append(Text($"*{1 + node.Replicas.Length}\r\n"));
            AppendNode(text, protocol, node, "master");
            foreach (ClusterNode replica in node.Replicas) { AppendNode(text, protocol, replica, "replica"); }
        }
        return text.ToBytes();
    }

    private void AppendNode(StringBuilder text, int protocol, ClusterNode node, string role)
    {
        Bulk(Bulk(text.Append(Map(protocol, 7)), "id"), IdOf(node));
        Bulk(text, "port").Append(Text($":{node.Port}\r\n"));
        Bulk(Bulk(text, "ip"), node.Host);
        Bulk(Bulk(text, "endpoint"), node.Host);
        Bulk(Bulk(text, "role"), role);
        Bulk(text, "replication-offset").Append(":0\r\n");
        Bulk(Bulk(text, "health"), node.IsAlive ? "online" : "fail");
    }

    // Who serves a shard's slots, and who of the others may be read: Redis leaves out replicas that fail.
    private static IEnumerable<ClusterNode> AliveOf(ClusterNode node) => node.Replicas.Where(r => r.IsAlive).Prepend(node);

    private string IdOf(ClusterNode node) => NodeId(_cluster, node.Shard, node.Name);

    /// <summary>The reply of CLUSTER NODES.</summary>
    /// <param name="protocol">2 or 3.</param>
    public byte[] Nodes(int protocol)
    {
        var lines = new StringBuilder();
        foreach (ClusterNode node in _nodes)
        {
            AppendLine(lines, node, "master", "-");
            foreach (SlotRange range in RangesOf(node.Shard)) { lines.Append(' ').Append(range.ToString()); }
            lines.Append('\n');
            foreach (ClusterNode replica in node.Replicas)
            {
                AppendLine(lines, replica, "slave", IdOf(node));
                lines.Append('\n');
            }
        }
        return Verbatim(protocol, lines.ToString());
    }

    private void AppendLine(StringBuilder lines, ClusterNode node, string role, string master)
    {
        string flags = (node.Shard == _self && node.Name == _selfName ? "myself," : "") + role + (node.IsAlive ? "" : ",fail");
        lines.Append(Text($"{IdOf(node)} {node.Host}:{node.Port}@{node.Port + BusPortOffset} {flags} {master} 0 0 {_revision} "))
            .Append(node.IsAlive ? "connected" : "disconnected");
    }

    /// <summary>The reply of CLUSTER INFO. The cluster is "ok" while every slot is assigned to a node that is alive.</summary>
    /// <param name="protocol">2 or 3.</param>
    public byte[] Info(int protocol)
    {
        int assigned = _nodes.Sum(n => RangesOf(n.Shard).Sum(r => r.Count));
        int alive = _nodes.Where(n => n.IsAlive).Sum(n => RangesOf(n.Shard).Sum(r => r.Count));
        int size = _nodes.Count(n => RangesOf(n.Shard).Any());
        (string, object)[] fields =
        [
            ("state", alive == _map.Count ? "ok" : "fail"), ("slots_assigned", assigned), ("slots_ok", alive), ("slots_pfail", 0),
            ("slots_fail", assigned - alive), ("known_nodes", _nodes.Sum(n => 1 + n.Replicas.Length)), ("size", size),
            ("current_epoch", _revision), ("my_epoch", _revision),
            ("stats_messages_sent", 0), ("stats_messages_received", 0),
        ];
        var text = new StringBuilder();
        foreach ((string name, object value) in fields) { text.Append(Text($"cluster_{name}:{value}\r\n")); }
        return Verbatim(protocol, text.Append("total_cluster_links_buffer_limit_exceeded:0\r\n").ToString());
    }

    private IEnumerable<SlotRange> RangesOf(ShardId shard) => _map.Rows.Where(r => r.Shard == shard).Select(r => r.Slots);

    private static string Map(int protocol, int pairs) => protocol == 3 ? Text($"%{pairs}\r\n") : Text($"*{pairs * 2}\r\n");

    private static byte[] Verbatim(int protocol, string text)
    {
        int length = Encoding.UTF8.GetByteCount(text);
        return Encoding.UTF8.GetBytes(protocol == 3 ? Text($"={length + 4}\r\ntxt:{text}\r\n") : Text($"${length}\r\n{text}\r\n"));
    }

    private static StringBuilder Bulk(StringBuilder text, string value) =>
        text.Append(Text($"${Encoding.UTF8.GetByteCount(value)}\r\n{value}\r\n"));

    private static string Text(FormattableString text) => text.ToString(CultureInfo.InvariantCulture);

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
}

internal static class StringBuilderExtensions
{
    public static byte[] ToBytes(this StringBuilder text) => Encoding.UTF8.GetBytes(text.ToString());
}
