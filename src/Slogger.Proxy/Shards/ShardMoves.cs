// Slots that move to and from a shard (Slogger.Proxy.Moves), who owns which, and published messages. Only for a shard among others: one
// alone starts none of it.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Moves;
using Slogger.Proxy.Peers;
using Slogger.Redis.Connections;
using Slogger.Resp;

namespace Slogger.Proxy.Shards;

/// <summary>The slots, the moves and the messages of one shard. Any thread, if nothing else is said.</summary>
internal sealed class ShardMoves(VersionedShard shard, ILogger report) : IMovingShard
{
    private readonly List<(int Offset, int Length)> _publishedArguments = [];   // the thread that reads the store's stream
    private WorldPoint _durable;
    private SlotMoves? _moves;          // set under the machine's lock: its effects are told
    private PeerMessages? _messages;

    /// <summary>Slots on their way; null for a shard alone.</summary>
    public SlotMoves? Moves => _moves;

    /// <summary>Who owns which slot; null for a shard alone, and before it is known.</summary>
    public SlotWatch? Watch { get; private set; }

    /// <summary>What looks at the slots, and delivers messages, until the shard ends.</summary>
    public Task Watching { get; private set; } = Task.CompletedTask;

    // ---- From the start to the end: the control task; until Attach, the caller of StartAsync ----

    /// <summary>Learns who owns what.</summary>
    public async Task StartAsync(CancellationToken stop)
    {
        if (!shard.Seat.HasPeers) { return; }
        Watch = await SlotWatch.StartAsync(shard.Seat, await shard.CommandsAsync(stop).ConfigureAwait(false), report,
            stop).ConfigureAwait(false);
        _messages = new PeerMessages(shard.Seat, Watch.AddressOf, report);
        _messages.Follow(shard.Seat.Members);
        var moves = new SlotMoves(shard.Seat, Watch, report, this);
        lock (shard.Versions.Lock) { _moves = moves; }
    }

    /// <summary>The front end is there.</summary>
    public void Attach(FrontEndLoop loop) => _moves?.Attach(loop);

    /// <summary>The shard follows: it serves the slots of its site's own table.</summary>
    public void Follow() => _moves?.Follow();

    /// <summary>Looks at the slots, and delivers messages, until the end.</summary>
    public void Run(CancellationToken stop)
    {
        if (Watch is not null) { Watching = Task.WhenAll(Watch.RunAsync(stop), _messages!.RunAsync(stop)); }
    }

    /// <summary>The store serves in this world-line.</summary>
    public Task OpenAsync(WorldLine line, CancellationToken stop) => _moves?.OpenAsync(line, stop) ?? Task.CompletedTask;

    /// <summary>The store is lost, or the shard ends.</summary>
    public Task CloseAsync() => _moves?.CloseAsync() ?? Task.CompletedTask;

    // ---- What happens ----

    /// <summary>A version has ended. Under the machine's lock.</summary>
    public void OnBoundary(WorldPoint point)
    {
        if (!IsReplicated) { _moves?.OnBoundary(point); }
    }

    /// <summary>How far versions are durable. Under the machine's lock; as often as it likes.</summary>
    public void OnDurable(WorldPoint point)
    {
        if (!IsReplicated || point == _durable) { return; }
        _durable = point;
        _moves?.OnBoundary(point);
    }

    // Another node may take the lead without a world-line, and has only what a majority has. What is said of a move in the metadata stays
    // said then: so for moves a version has ended when a majority has it.
    private bool IsReplicated => shard.CohortShard is not null;

    /// <summary>A cut was recorded. Under the machine's lock.</summary>
    public void OnCut(WorldPoint point) => _moves?.OnCut(point);

    /// <summary>Who is in the cluster was looked at.</summary>
    public void OnMembers() => _messages?.Follow(shard.Seat.Members);

    /// <summary>Bytes of the stream, for those who want to know which keys change. The link's thread.</summary>
    public void OnBytes(ReadOnlySpan<byte> bytes, bool endsCommand) => _moves?.OnBytes(bytes, endsCommand);

    /// <summary>The stream has ended.</summary>
    public void OnStreamEnded() => _moves?.OnStreamEnded();

    /// <summary>The store has published a message. The thread that reads the store's stream.</summary>
    public unsafe void OnPublished(ReadOnlySpan<byte> command)
    {
        if (_messages is not { } messages) { return; }
        fixed (byte* start = command)
        {
            if (command.IsEmpty || CommandScanner.ReadArguments(start, start + command.Length, _publishedArguments) <= 0
                || _publishedArguments.Count != 3)
            {
                messages.CountLost();
                return;
            }
        }
        ReadOnlySpan<byte> Argument(ReadOnlySpan<byte> of, int index) =>
            of.Slice(_publishedArguments[index].Offset, _publishedArguments[index].Length);
        messages.Publish(Argument(command, 1), Argument(command, 2));
    }

    /// <summary>The same, of a message that is known by its parts.</summary>
    public void OnPublished(ReadOnlySpan<byte> channel, ReadOnlySpan<byte> message) => _messages?.Publish(channel, message);

    /// <summary>The lines of the status.</summary>
    public void AppendStatus(Action<string, object> line)
    {
        if (_messages is not { } messages) { return; }
        line("messages_sent", messages.Sent);
        line("messages_dropped", messages.Dropped);
    }

    // ---- What moves need ----

    WorldPoint IMovingShard.OpenPoint
    {
        get
        {
            lock (shard.Versions.Lock) { return new WorldPoint(new WorldLine(shard.WorldLine), shard.Versions.OpenForAll); }
        }
    }

    void IMovingShard.MarkChanged() => shard.Versions.MarkChanged();

    WorldPoint IMovingShard.CloseChanged(VersionNumber behind)
    {
        shard.Versions.MarkChanged();
        WorldPoint open = ((IMovingShard)this).OpenPoint;
        shard.AwaitCommitOf(VersionNumber.Max(open.Version, behind.Next));
        return open;
    }

    Task IMovingShard.StreamReadAsync(CancellationToken stop) => shard.StreamReadAsync(stop);

    Task IMovingShard.AwaitMajorityAsync(WorldPoint version, CancellationToken stop)
    {
        if (!IsReplicated) { return Task.CompletedTask; }
        shard.AwaitCommitOf(version.Version);
        return shard.AwaitMajorityAsync(version, stop);
    }

    // Moves to and from a store that cannot be copied are not planned.
    RedisEndpoint IMovingShard.Endpoint =>
        shard.Endpoint ?? throw new InvalidOperationException($"keys of {shard.StoreName} do not move");

    string? IMovingShard.KeepsSlots => shard.KeepsSlots;

    bool IMovingShard.IsSetBack => shard.Reset.IsHeld;
}
