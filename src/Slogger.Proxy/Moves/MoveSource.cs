// The old owner's side of a copy: answers a new owner that asks over a connection of its own. First it gives all keys of the slots,
// some at a time, while clients go on; then, round by round, those that have changed; then it stops serving the slots, and gives
// the rest. Whatever ends the connection ends the attempt: the slots are served again, unless the new owner has them.
//
// Frames: B move, world-line -> K; S -> D keys; C -> D changed keys; F -> L the row's revision; W -> K. E text: it cannot be.
using System.Buffers.Binary;
using System.Text;
using Slogger.Core.Ownership;
using Slogger.Core.WorldLines;
using Slogger.Proxy.Peers;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Moves;

/// <summary>One copy, seen from the old owner.</summary>
/// <param name="moves">The shard's moves.</param>
/// <param name="peer">The connection; closed by the caller.</param>
/// <param name="store">Where Redis is.</param>
internal sealed class MoveSource(SlotMoves moves, PeerChannel peer, Func<RedisEndpoint> store)
{
    /// <summary>About as much goes into one frame, unless one key is larger.</summary>
    private const int FrameBytes = 1 << 20;
    private const int KeysAtATime = 256;

    // What is counted for a key besides its value. Unit: bytes.
    private const int KeyOverheadBytes = 64;

    // How fast the new owner can be relied on to write a key that is larger than a frame. Unit: bytes per second.
    private const double RestoreRate = 20e6;
    private static readonly TimeSpan IdleLimit = TimeSpan.FromSeconds(60);
    private static readonly TimeSpan FrozenIdleLimit = TimeSpan.FromSeconds(5);
    private readonly Queue<byte[]> _found = new();
    private byte[] _cursor = "0"u8.ToArray();
    private bool _scanned;
    private readonly Queue<byte[]> _taken = new();   // that have had no room in a frame yet
    private long _sentBytes;

    /// <summary>Serves until the other side hangs up.</summary>
    public async Task RunAsync(CancellationToken stop)
    {
        ChangedKeys? changed = null;
        MoveId move = default;
        WorldLine line = default;
        bool frozen = false;
        try
        {
            await using KeyStore keys = await KeyStore.ConnectAsync(store(), null, stop).ConfigureAwait(false);
            while (true)
            {
                (char kind, byte[] body) = await ReceiveAsync(frozen, stop).ConfigureAwait(false);
                switch (kind)
                {
                    case 'B' when changed is null && body.Length == 16:
                        move = new(BinaryPrimitives.ReadInt64BigEndian(body));
                        line = new(BinaryPrimitives.ReadInt64BigEndian(body.AsSpan(8)));
                        changed = await moves.BeginCopyAsync(move, line, peer.Other, stop).ConfigureAwait(false);
                        await peer.SendAsync('K', default, stop).ConfigureAwait(false);
                        break;
                    case 'S' when changed is not null:
                        await SendAsync(await ScanAsync(keys, moves.KeysOf(moves.SlotsOf(move)), stop).ConfigureAwait(false), changed,
                            stop).ConfigureAwait(false);
                        break;
                    case 'C' when changed is not null:
                        await SendAsync(await ChangesAsync(keys, changed, stop).ConfigureAwait(false), changed, stop).ConfigureAwait(false);
                        FailPoint.Pass(frozen ? FailPoint.MoveLastChangesSent : FailPoint.MoveChangesSent);
                        break;
                    case 'F' when changed is not null:
                        frozen = true;
                        MapRevision row = await moves.FreezeAsync(move, line, stop).ConfigureAwait(false);
                        FailPoint.Pass(FailPoint.MoveLeaving);
                        byte[] revision = new byte[8];
                        BinaryPrimitives.WriteInt64BigEndian(revision, row.Number);
                        await peer.SendAsync('L', revision, stop).ConfigureAwait(false);
                        break;
                    case 'W':
                        await moves.LookAsync(stop).ConfigureAwait(false);
                        await peer.SendAsync('K', default, stop).ConfigureAwait(false);
                        return;
                    default:
                        throw new PeerException($"a frame {kind} of shard {peer.Other} is out of place");
                }
            }
        }
        catch (Exception e) when (e is IOException or RedisException or MoveException)
        {
            await TellAsync(e, stop).ConfigureAwait(false);
        }
        finally
        {
            if (changed is not null) { moves.EndCopy(move, line, changed, frozen); }
        }
    }

    private async Task<(char Kind, byte[] Body)> ReceiveAsync(bool frozen, CancellationToken stop)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(stop);
        // Who writes a large key says nothing meanwhile.
        limit.CancelAfter((frozen ? FrozenIdleLimit : IdleLimit) + TimeSpan.FromSeconds(_sentBytes / RestoreRate));
        try
        {
            return await peer.ReceiveAsync(limit.Token).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (!stop.IsCancellationRequested)
        {
            throw new PeerException($"shard {peer.Other} says nothing");
        }
    }

    private async Task SendAsync((int Left, List<CopiedKey> Keys) read, ChangedKeys changed, CancellationToken stop)
    {
        // Asked after the keys were read: what was taken of them is not in the frame as it was, or is and comes again.
        if (changed.Failure is { } failure) { throw new MoveException($"the copy begins again: {failure}"); }
        await peer.SendAsync('D', KeyFrame.Write(read.Left, read.Keys), stop).ConfigureAwait(false);
    }

    private async Task TellAsync(Exception e, CancellationToken stop)
    {
        try
        {
            await peer.SendAsync('E', Encoding.UTF8.GetBytes(e.Message), stop).ConfigureAwait(false);
        }
        catch (Exception other) when (other is IOException or OperationCanceledException or ObjectDisposedException)
        {
            // It hears of it by the end of the connection.
        }
    }

    // The next keys of the first round; nothing is left when the count is 0.
    private async Task<(int Left, List<CopiedKey> Keys)> ScanAsync(KeyStore keys, Func<byte[], bool> wanted, CancellationToken stop)
    {
        // Far apart where few keys are in the slots: a frame now and then shows that it goes on.
        for (int i = 0; i < 100 && _found.Count < KeysAtATime && !_scanned; i++)
        {
            (_cursor, List<byte[]> found) = await keys.ScanAsync(_cursor, wanted, stop).ConfigureAwait(false);
            foreach (byte[] key in found) { _found.Enqueue(key); }
            _scanned = _cursor.AsSpan().SequenceEqual("0"u8);
        }
        List<CopiedKey> read = await ReadAsync(keys, take =>
            [.. Enumerable.Range(0, Math.Min(take, _found.Count)).Select(_ => _found.Dequeue())], stop).ConfigureAwait(false);
        int left = _found.Count + _taken.Count;
        return (_scanned && left == 0 ? 0 : left + 1, read);
    }

    private async Task<(int Left, List<CopiedKey> Keys)> ChangesAsync(KeyStore keys, ChangedKeys changed, CancellationToken stop)
    {
        List<CopiedKey> read = await ReadAsync(keys, changed.Take, stop).ConfigureAwait(false);
        return (changed.Count + _taken.Count, read);
    }

    // About a frame: one key at least, and no more than its share of memory, however large keys are.
    private async Task<List<CopiedKey>> ReadAsync(KeyStore keys, Func<int, IReadOnlyList<byte[]>> take, CancellationToken stop)
    {
        var all = new List<CopiedKey>();
        long bytes = 0;
        while (bytes < FrameBytes)
        {
            if (_taken.Count == 0)
            {
                foreach (byte[] key in take(KeysAtATime)) { _taken.Enqueue(key); }
                if (_taken.Count == 0) { break; }
            }
            IReadOnlyList<long> sizes = await keys.SizesAsync([.. _taken], stop).ConfigureAwait(false);
            var some = new List<byte[]>();
            while (_taken.Count > 0 && (bytes == 0 || bytes + sizes[some.Count] <= FrameBytes))
            {
                bytes += sizes[some.Count] + KeyOverheadBytes;
                some.Add(_taken.Dequeue());
            }
            if (some.Count == 0) { break; }
            all.AddRange(await keys.ReadAsync(some, stop).ConfigureAwait(false));
        }
        _sentBytes = bytes;
        return all;
    }
}

/// <summary>A step of a move cannot be made now.</summary>
internal sealed class MoveException(string message) : Exception(message);
