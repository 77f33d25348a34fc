// Slots that move to and from this shard (Slogger.Proxy.Moves), and published messages. Only for shards among others.
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Moves;
using Slogger.Proxy.Peers;
using Slogger.Redis.Connections;
using Slogger.Resp;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard : IMovingShard
{
    private SlotMoves? _moves;
    private PeerMessages? _messages;
    private readonly List<(int Offset, int Length)> _publishedArguments = [];

    /// <summary>Slots on their way; null for a shard alone.</summary>
    internal SlotMoves? Moves => _moves;

    /// <summary>Who owns which slot; null for a shard alone.</summary>
    protected ClusterSlots? Slots => _slots?.View;

    private async Task StartMovesAsync(CancellationToken stop)
    {
        _slots = await SlotWatch.StartAsync(_seat, await CommandsAsync(stop).ConfigureAwait(false), _report, stop).ConfigureAwait(false);
        _messages = new PeerMessages(_seat, _slots.AddressOf, _report);
        _messages.Follow(_seat.Members);
        var moves = new SlotMoves(_seat, _slots, _report, this);
        lock (_machineLock) { _moves = moves; }
    }

    // ---- What moves need ----

    WorldPoint IMovingShard.OpenPoint
    {
        get
        {
            lock (_machineLock) { return new WorldPoint(new WorldLine(WorldLine), _machine!.OpenVersion); }
        }
    }

    void IMovingShard.MarkChanged() => MarkChanged();

    Task IMovingShard.StreamReadAsync(CancellationToken stop) => StreamReadAsync(stop);

    // Moves to and from a store that cannot be copied are not planned.
    RedisEndpoint IMovingShard.Endpoint => Endpoint ?? throw new InvalidOperationException($"keys of {_store.Name} do not move");

    /// <inheritdoc />
    public virtual string? KeepsSlots => null;

    /// <summary>Completes when all that the store has executed until now has been read.</summary>
    protected virtual Task StreamReadAsync(CancellationToken stop) => Task.CompletedTask;

    /// <summary>Bytes of the stream, for those who want to know which keys change. The link's thread.</summary>
    protected void FollowChanges(ReadOnlySpan<byte> bytes, bool endsCommand) => _moves?.OnBytes(bytes, endsCommand);

    /// <summary>The stream has ended.</summary>
    protected void FollowingEnded() => _moves?.OnStreamEnded();

    /// <summary>The store has published a message. The link's thread.</summary>
    protected unsafe void OnPublished(ReadOnlySpan<byte> command)
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
    protected void OnPublished(ReadOnlySpan<byte> channel, ReadOnlySpan<byte> message) => _messages?.Publish(channel, message);
}
