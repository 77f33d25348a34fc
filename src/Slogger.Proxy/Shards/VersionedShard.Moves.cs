// Slots that move to and from this shard (Slogger.Proxy.Moves), and the other proxies that come for them. Only for shards among others.
using System.Net.Sockets;
using System.Text;
using Slogger.Core.Shards;
using Slogger.Core.WorldLines;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Moves;
using Slogger.Proxy.Peers;
using Slogger.Redis.Connections;
using Slogger.Resp;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard : IMovingShard
{
    private SlotMoves? _moves;
    private PeerSecret? _peerSecret;
    private PeerMessages? _messages;
    private readonly List<(int Offset, int Length)> _publishedArguments = [];

    private async Task StartMovesAsync(CancellationToken stop)
    {
        _peerSecret = new PeerSecret(await _seat.RetryAsync(() => _seat.Metadata.PeerSecretAsync(_seat.Cluster, stop), stop).ConfigureAwait(false));
        _slots = await SlotWatch.StartAsync(_seat, _store.Endpoint, _report, stop).ConfigureAwait(false);
        _messages = new PeerMessages(_seat.Shard, _slots.AddressOf, _peerSecret, _report);
        _messages.Follow(_seat.Members);
        var moves = new SlotMoves(_seat, _slots, _report, this, _peerSecret);
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

    RedisEndpoint IMovingShard.Endpoint => _store.Endpoint;

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
            if (command.IsEmpty || CommandScanner.ReadArguments(start, start + command.Length, _publishedArguments) <= 0 || _publishedArguments.Count != 3)
            {
                messages.CountLost();
                return;
            }
        }
        ReadOnlySpan<byte> Argument(ReadOnlySpan<byte> of, int index) => of.Slice(_publishedArguments[index].Offset, _publishedArguments[index].Length);
        messages.Publish(Argument(command, 1), Argument(command, 2));
    }

    // ---- Other proxies: DPR.PEER protocol secret to-shard from-shard purpose ----

    public string? PeerRefusal(IReadOnlyList<byte[]> introduction)
    {
        if (_peerSecret is not { } secret || _moves is null) { return "ERR SLOGGER this shard has no others beside it"; }
        if (introduction.Count != 5 || !secret.IsKnownBy(introduction[1])) { return "ERR SLOGGER DPR.PEER is for proxies of the same cluster"; }
        if (Text(introduction[0]) != "1") { return "ERR SLOGGER DPR.PEER: another version of Slogger: start the same one everywhere"; }
        if (Text(introduction[2]) != _seat.Shard.ToString() || !int.TryParse(introduction[3], out _)) { return $"ERR SLOGGER DPR.PEER: this is shard {_seat.Shard}"; }
        return Enum.TryParse(Text(introduction[4]), out PeerPurpose _) ? null : "ERR SLOGGER DPR.PEER: the purpose is not known";
    }

    public void AcceptPeer(Socket connection, IReadOnlyList<byte[]> introduction)
    {
        PeerChannel peer = PeerChannel.Adopt(connection, new ShardId(int.Parse(introduction[3], System.Globalization.CultureInfo.InvariantCulture)));
        _ = Task.Run(() => ServePeerAsync(peer, Enum.Parse<PeerPurpose>(Text(introduction[4])), _ending.Token), CancellationToken.None);
    }

    private async Task ServePeerAsync(PeerChannel peer, PeerPurpose purpose, CancellationToken stop)
    {
        try
        {
            await using (peer)
            {
                await (purpose == PeerPurpose.Copy
                    ? new MoveSource(_moves!, peer, () => _store.Endpoint).RunAsync(stop)
                    : PeerMessages.DeliverAsync(peer, () => _store.Endpoint, stop)).ConfigureAwait(false);
            }
        }
        catch (Exception e) when (e is OperationCanceledException or IOException or ObjectDisposedException)
        {
            // It is over.
        }
        catch (Exception e)
        {
            _report.Error($"shard {_seat.Shard}: a connection of shard {peer.Other} ended: {e}");
        }
    }

    private static string Text(byte[] bytes) => Encoding.Latin1.GetString(bytes);
}
