// The other proxies of the cluster, when they come: who they are, and which conversation they are for.
using System.Net.Sockets;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Moves;
using Slogger.Proxy.Peers;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard
{
    // A shard has one connection of each kind to another, and some more while it connects anew.
    private const int PeersOfShardMax = 8;
    private const int PeersMin = 16;
    private int _peerCount;

    /// <inheritdoc />
    public Action<Socket>? ReadPeer(IReadOnlyList<byte[]> words, out string refusal)
    {
        refusal = "ERR SLOGGER DPR.PEER: this shard has no others beside it";
        if (_seat.Secret is not { } secret || _moves is null) { return null; }
        if (PeerIntroduction.Read(words, secret, _seat.Shard, _seat.ShardCount, out refusal) is not { } introduction) { return null; }
        if (introduction.Kind == PeerKind.Cuts && !_coordinator!.IsActive) { refusal = $"ERR SLOGGER DPR.PEER: shard {_seat.Shard} does not coordinate the cluster now"; }
        else if (introduction.Kind == PeerKind.Keys && Endpoint is null) { refusal = $"ERR SLOGGER DPR.PEER: the keys of {_store.Name}, the store of shard {_seat.Shard}, do not move"; }
        else if (Volatile.Read(ref _peerCount) >= PeersMin + (PeersOfShardMax * _seat.ShardCount)) { refusal = "ERR SLOGGER DPR.PEER: too many connections of other proxies"; }
        return refusal.Length == 0 ? connection => Accept(connection, introduction) : null;
    }

    /// <summary>Publishes at this shard's store what another proxy sends, until it hangs up.</summary>
    protected virtual Task DeliverAsync(PeerChannel peer, CancellationToken stop) => PeerMessages.DeliverAsync(peer, () => Endpoint, stop);

    private void Accept(Socket connection, PeerIntroduction introduction)
    {
        Interlocked.Increment(ref _peerCount);
        _ = Task.Run(() => ServePeerAsync(connection, introduction, _ending.Token), CancellationToken.None);
    }

    private async Task ServePeerAsync(Socket connection, PeerIntroduction introduction, CancellationToken stop)
    {
        try
        {
            await using PeerChannel peer = PeerChannel.Adopt(connection, introduction);
            await (introduction.Kind switch
            {
                PeerKind.Cuts => _coordinator!.HearAsync(peer, introduction.Epoch, stop),
                PeerKind.Keys => new MoveSource(_moves!, peer, () => Endpoint!).RunAsync(stop),
                _ => DeliverAsync(peer, stop),
            }).ConfigureAwait(false);
        }
        catch (Exception e) when (e is OperationCanceledException or IOException or SocketException or ObjectDisposedException)
        {
            // It is over.
        }
        catch (Exception e)
        {
            _report.Error($"shard {_seat.Shard}: a connection of shard {introduction.From} ended: {e}");
        }
        finally
        {
            Interlocked.Decrement(ref _peerCount);
        }
    }
}
