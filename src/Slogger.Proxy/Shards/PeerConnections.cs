// The other proxies of the cluster, when they come: who they are, and which conversation they are for.
using System.Net.Sockets;
using Slogger.Proxy.Moves;
using Slogger.Proxy.Past;
using Slogger.Proxy.Peers;

namespace Slogger.Proxy.Shards;

/// <summary>The connections of other proxies to a shard.</summary>
internal sealed class PeerConnections(VersionedShard shard, ILogger report)
{
    // A shard has one connection of each kind to another, and some more while it connects anew.
    private const int PeersOfShardMax = 8;
    private const int PeersMin = 16;
    private int _count;

    /// <summary>See <see cref="FrontEnd.IShardPort.ReadPeer"/>.</summary>
    public Action<Socket>? Read(IReadOnlyList<byte[]> words, out string refusal)
    {
        refusal = "ERR SLOGGER DPR.PEER: this shard has no others beside it";
        if (shard.Seat.Secret is not { } secret || shard.Moves.Moves is null) { return null; }
        if (PeerIntroduction.Read(words, secret, shard.Seat.Shard, shard.Seat.ShardCount, out refusal) is not { } introduction)
        {
            return null;
        }
        if (introduction.Kind == PeerKind.Cuts && shard.Cuts?.Coordination is not { Coordinator.IsActive: true })
        {
            refusal = $"ERR SLOGGER DPR.PEER: shard {shard.Seat.Shard} does not coordinate the cluster now";
        }
        else if (introduction.Kind == PeerKind.Keys && shard.Endpoint is null)
        {
            refusal = $"ERR SLOGGER DPR.PEER: the keys of {shard.StoreName}, the store of shard {shard.Seat.Shard}, do not move";
        }
        else if (introduction.Kind == PeerKind.Past && shard.Past is not ShardPast)
        {
            refusal = $"ERR SLOGGER DPR.PEER: shard {shard.Seat.Shard} shows no past";
        }
        else if (Volatile.Read(ref _count) >= PeersMin + (PeersOfShardMax * shard.Seat.ShardCount))
        {
            refusal = "ERR SLOGGER DPR.PEER: too many connections of other proxies";
        }
        return refusal.Length == 0 ? connection => Accept(connection, introduction) : null;
    }

    private void Accept(Socket connection, PeerIntroduction introduction)
    {
        Interlocked.Increment(ref _count);
        _ = Task.Run(() => ServeAsync(connection, introduction, shard.Lifetime.End), CancellationToken.None);
    }

    private async Task ServeAsync(Socket connection, PeerIntroduction introduction, CancellationToken stop)
    {
        try
        {
            await using PeerChannel peer = PeerChannel.Adopt(connection, introduction);
            await (introduction.Kind switch
            {
                PeerKind.Cuts => shard.Cuts!.Coordination!.Coordinator.HearAsync(peer, introduction.Epoch, stop),
                PeerKind.Past => new PastSource((ShardPast)shard.Past!, peer).RunAsync(stop),
                PeerKind.Keys => new MoveSource(shard.Moves.Moves!, peer, () => shard.Endpoint!).RunAsync(stop),
                _ => shard.DeliverAsync(peer, stop),
            }).ConfigureAwait(false);
        }
        catch (Exception e) when (e is OperationCanceledException or IOException or SocketException or ObjectDisposedException)
        {
            // It is over.
        }
        catch (Exception e)
        {
            report.Error($"shard {shard.Seat.Shard}: a connection of shard {introduction.From} ended: {e}");
        }
        finally
        {
            Interlocked.Decrement(ref _count);
        }
    }
}
