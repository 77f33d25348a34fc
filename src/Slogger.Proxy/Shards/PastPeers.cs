// The past of a shard, for another one that has, or had, some of its slots: a reset writes what was there before they moved, and a snapshot
// that rests on an earlier one has what was done there. The proxies ask each other, over a connection of its own.
//
// Frames: T version -> N names, of keys that the other has now; A version, version -> N names, of keys that it had at the second one;
// V version, names -> D values. Each answer may have several frames, of which the last has nothing left. E text: it cannot be.
using System.Buffers.Binary;
using System.Runtime.CompilerServices;
using System.Text;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Moves;
using Slogger.Proxy.Past;
using Slogger.Proxy.Peers;
using Slogger.Redis.Past;
using Slogger.Redis.Rollback;
using Slogger.Resp;

namespace Slogger.Proxy.Shards;

/// <summary>Answers another shard.</summary>
/// <param name="past">The past of this one.</param>
/// <param name="peer">The connection; closed by the caller.</param>
internal sealed class PastSource(ShardPast past, PeerChannel peer)
{
    private const int NamesAtOnce = 10_000;

    /// <summary>Serves until the other side hangs up.</summary>
    public async Task RunAsync(CancellationToken stop)
    {
        while (true)
        {
            (char kind, byte[] body) = await peer.ReceiveAsync(stop).ConfigureAwait(false);
            try
            {
                VersionNumber version = new(BinaryPrimitives.ReadInt64BigEndian(body));
                await (kind switch
                {
                    'T' => SendNamesAsync(version, at: null, stop),
                    'A' => SendNamesAsync(version, new(BinaryPrimitives.ReadInt64BigEndian(body.AsSpan(8))), stop),
                    'V' => SendValuesAsync(version, [.. KeyFrame.Read(body[8..]).Keys.Select(k => k.Key)], stop),
                    _ => throw new PeerException($"a frame {kind} of shard {peer.Other} is out of place"),
                }).ConfigureAwait(false);
            }
            catch (Exception e) when (e is not PeerException && PastAnswer.WhyOf(e) is not null)
            {
                await peer.SendAsync('E', Encoding.UTF8.GetBytes(PastAnswer.WhyOf(e)!), stop).ConfigureAwait(false);
            }
        }
    }

    private async Task SendNamesAsync(VersionNumber since, VersionNumber? at, CancellationToken stop)
    {
        // Of moves between others it may not have heard.
        await past.Instants.Owners.LookAsync(follows: true, stop).ConfigureAwait(false);
        Boundary last = past.Instants.HoldDetail(past.Instants.Committed().Version);
        foreach (StoreKey[] some in past.Touched.For(peer.Other, at, since, last, stop).Chunk(NamesAtOnce))
        {
            await peer.SendAsync('N', KeyFrame.Write(1, [.. some.Distinct().Select(k => new CopiedKey(k.Name, 0, null))]), stop)
                .ConfigureAwait(false);
        }
        await peer.SendAsync('N', KeyFrame.Write(0, []), stop).ConfigureAwait(false);
    }

    private async Task SendValuesAsync(VersionNumber version, byte[][] names, CancellationToken stop)
    {
        await foreach (IReadOnlyList<DumpedKey> some in past.DumpAllAsync(version, names.Select(n => new StoreKey(0, n)), stop)
            .ConfigureAwait(false))
        {
            // Whether it is a string stands before the value.
            await peer.SendAsync('D', KeyFrame.Write(1, [.. some.Select(k => new CopiedKey(k.Key.Name, k.ExpiresAtMs,
                k.Value is null ? null : [k.IsString ? (byte)1 : (byte)0, .. k.Value]))]), stop).ConfigureAwait(false);
        }
        await peer.SendAsync('D', KeyFrame.Write(0, []), stop).ConfigureAwait(false);
    }
}

/// <summary>Asks other shards. Any thread.</summary>
/// <param name="seat">Who asks.</param>
/// <param name="watch">Where the others are.</param>
internal sealed class PastPeers(ClusterSeat seat, SlotWatch watch)
{
    // Of one question.
    private const int NamesAtOnce = 10_000;

    /// <summary>The keys that clients have changed at another shard behind a version, while it had them; of those that this one has
    /// now, or had at the end of another version. A key may come more than once.</summary>
    /// <exception cref="PastException">It cannot tell; the text says why.</exception>
    /// <exception cref="PeerException">It cannot be reached.</exception>
    public async IAsyncEnumerable<StoreKey> TouchedAsync(ShardId other, VersionNumber since, VersionNumber? at,
        [EnumeratorCancellation] CancellationToken stop)
    {
        byte[] then = [];
        if (at is { } version) { BinaryPrimitives.WriteInt64BigEndian(then = new byte[8], version.Number); }
        await foreach (List<CopiedKey> some in AskAsync(other, at is null ? 'T' : 'A', since, then, stop).ConfigureAwait(false))
        {
            foreach (CopiedKey key in some) { yield return new(0, key.Key); }
        }
    }

    /// <summary>What keys were at the end of a version, at the shard that had them.</summary>
    /// <exception cref="PastException">It cannot tell; the text says why.</exception>
    /// <exception cref="PeerException">It cannot be reached.</exception>
    public async IAsyncEnumerable<IReadOnlyList<DumpedKey>> DumpAllAsync(ShardId other, VersionNumber version, IEnumerable<StoreKey> keys,
        [EnumeratorCancellation] CancellationToken stop)
    {
        foreach (StoreKey[] asked in keys.Chunk(NamesAtOnce))
        {
            byte[] names = KeyFrame.Write(0, [.. asked.Select(k => new CopiedKey(k.Name, 0, null))]);
            await foreach (List<CopiedKey> some in AskAsync(other, 'V', version, names, stop).ConfigureAwait(false))
            {
                yield return [.. some.Select(k => new DumpedKey(new(0, k.Key), k.Value is [1, ..], k.Value?[1..], k.ExpiresAt))];
            }
        }
    }

    private async IAsyncEnumerable<List<CopiedKey>> AskAsync(ShardId other, char kind, VersionNumber version, byte[] further,
        [EnumeratorCancellation] CancellationToken stop)
    {
        ListenAddress at = watch.AddressOf(other) ?? throw new PastException(
            $"version {version} is not kept: shard {other} had slots of this one, and has left since", PastProblem.NotKept);
        await using PeerChannel peer = await PeerChannel.ConnectAsync(seat, at, PeerKind.Past, other, stop).ConfigureAwait(false);
        var question = new byte[8 + further.Length];
        BinaryPrimitives.WriteInt64BigEndian(question, version.Number);
        further.CopyTo(question, 8);
        await peer.SendAsync(kind, question, stop).ConfigureAwait(false);
        for (bool isThereMore = true; isThereMore;)
        {
            (char answer, byte[] content) = await peer.ReceiveAsync(stop).ConfigureAwait(false);
            if (answer == 'E') { throw new PastException($"shard {other}: {Encoding.UTF8.GetString(content)}"); }
            (int left, List<CopiedKey> keys) = KeyFrame.Read(content);
            yield return keys;
            isThereMore = left > 0;
        }
    }
}
