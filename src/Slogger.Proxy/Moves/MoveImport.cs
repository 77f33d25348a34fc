// The new owner's side of a copy, as often as it takes: deletes what is here of the slots, copies all keys while the old owner
// serves, then what has changed, until that is little; has the slots withheld, copies the last changes, and tells the machine.
// From then on the copy stands as it is until the metadata says what came of it: to begin anew earlier would delete what may
// be this shard's already.
using System.Buffers.Binary;
using System.Collections.Immutable;
using System.Diagnostics;
using System.Globalization;
using System.Text;
using Slogger.Core.Ownership;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Proxy.Peers;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Moves;

/// <summary>The import of one move.</summary>
/// <param name="moves">The shard's moves.</param>
/// <param name="move">The move.</param>
/// <param name="line">The world-line that it is in.</param>
/// <param name="store">Where Redis is.</param>
internal sealed class MoveImport(SlotMoves moves, SlotMove move, WorldLine line, Func<RedisEndpoint> store)
{
    // So few changed keys are copied while the slots are withheld.
    private const int FewKeys = 64;

    // Where keys change faster than they are copied it does not get better.
    private const int RoundsMax = 400;
    private static readonly TimeSpan FirstPause = TimeSpan.FromMilliseconds(200);
    private static readonly TimeSpan LongestPause = TimeSpan.FromSeconds(5);
    private static readonly TimeSpan NotePeriod = TimeSpan.FromSeconds(1);
    private long _copied;
    private long _lastNote;

    /// <summary>Copies until the row says that it has landed, or is over.</summary>
    public async Task RunAsync(CancellationToken stop)
    {
        TimeSpan pause = FirstPause;
        while (moves.RowOf(move.Id) is { State: MoveState.Planned or MoveState.Leaving } row)
        {
            try
            {
                if (row.State == MoveState.Leaving)
                {
                    // Of an attempt before, whose landing may still be on its way: the old owner takes it back, if it has not landed.
                    await moves.RowAfterAsync(move.Id, row.Changed, stop).ConfigureAwait(false);
                    continue;
                }
                if (await AttemptAsync(stop).ConfigureAwait(false)) { return; }
            }
            catch (Exception e) when (e is IOException or RedisException or MoveException or MetadataException)
            {
                moves.Warn($"move {move.Id.Number} of {moves.TextOf(move.Slots)} from shard {move.From} begins again: {e.Message}");
                await moves.NoteAsync(move.Id, $"begins again: {e.Message}", stop).ConfigureAwait(false);
            }
            await Task.Delay(pause, stop).ConfigureAwait(false);
            pause = pause * 2 < LongestPause ? pause * 2 : LongestPause;
        }
    }

    // True when it has landed; false when it is to begin again.
    private async Task<bool> AttemptAsync(CancellationToken stop)
    {
        _copied = 0;
        await using KeyStore keys = await KeyStore.ConnectAsync(store(), moves.GivenUp, stop).ConfigureAwait(false);
        await keys.PurgeAsync(moves.KeysOf(move.Slots), stop).ConfigureAwait(false);
        FailPoint.Pass(FailPoint.MovePurged);
        await using PeerChannel peer = await moves.ConnectAsync(move.From, stop).ConfigureAwait(false);
        byte[] name = new byte[16];
        BinaryPrimitives.WriteInt64BigEndian(name, move.Id.Number);
        BinaryPrimitives.WriteInt64BigEndian(name.AsSpan(8), line.Number);
        await AskAsync(peer, 'B', name, 'K', stop).ConfigureAwait(false);
        while (await TakeAsync(peer, 'S', keys, "copying", stop).ConfigureAwait(false) > 0) { }
        FailPoint.Pass(FailPoint.MoveCopied);
        int left = int.MaxValue;
        for (int round = 0; left > FewKeys; round++)
        {
            if (round > RoundsMax) { throw new MoveException($"keys change faster than they are copied ({left} are left)"); }
            left = await TakeAsync(peer, 'C', keys, "copying what has changed", stop).ConfigureAwait(false);
        }

        long began = Stopwatch.GetTimestamp();
        byte[] row = await AskAsync(peer, 'F', [], 'L', stop).ConfigureAwait(false);
        MapRevision revision = new(BinaryPrimitives.ReadInt64BigEndian(row));
        while (await TakeAsync(peer, 'C', keys, "", stop).ConfigureAwait(false) > 0) { }
        FailPoint.Pass(FailPoint.MoveComplete);
        Task<SlotMove?> changed = moves.RowAfterAsync(move.Id, revision, stop);
        await moves.CopiedAsync(move.Id, revision, line, stop).ConfigureAwait(false);
        SlotMove? after = await changed.ConfigureAwait(false);
        if (after is { State: MoveState.Planned or MoveState.Leaving }) { return false; }
        if (after is null or { State: MoveState.Landed })
        {
            FailPoint.Pass(FailPoint.MoveLanded);
            moves.Info(string.Create(CultureInfo.InvariantCulture,
                $"move {move.Id.Number}: {moves.TextOf(move.Slots)} of shard {move.From} are here now: {_copied} keys copied, "
                    + $"requests waited {Stopwatch.GetElapsedTime(began).TotalMilliseconds:0.0} ms"));
            await TellOldOwnerAsync(peer, stop).ConfigureAwait(false);
            await moves.NoteAsync(move.Id,
                string.Create(CultureInfo.InvariantCulture,
                    $"{_copied} keys are at shard {move.To}; requests waited {Stopwatch.GetElapsedTime(began).TotalMilliseconds:0.0} ms"),
                        stop).ConfigureAwait(false);
        }
        return true;
    }

    // So that those who wait there need not wait until it looks by itself.
    private static async Task TellOldOwnerAsync(PeerChannel peer, CancellationToken stop)
    {
        try
        {
            await AskAsync(peer, 'W', [], 'K', stop).ConfigureAwait(false);
        }
        catch (Exception e) when (e is IOException or MoveException)
        {
            // It looks by itself.
        }
    }

    // Asks for keys and writes them. Returns how many are left, about.
    private async Task<int> TakeAsync(PeerChannel peer, char kind, KeyStore keys, string note, CancellationToken stop)
    {
        (int left, List<CopiedKey> read) = KeyFrame.Read(await AskAsync(peer, kind, [], 'D', stop).ConfigureAwait(false));
        await keys.WriteAsync(read, stop).ConfigureAwait(false);
        _copied += read.Count;
        if (note.Length > 0 && Stopwatch.GetElapsedTime(_lastNote) > NotePeriod)
        {
            _lastNote = Stopwatch.GetTimestamp();
            await moves.NoteAsync(move.Id, string.Create(CultureInfo.InvariantCulture, $"{note}: {_copied} keys so far"),
                stop).ConfigureAwait(false);
        }
        return left;
    }

    private static async Task<byte[]> AskAsync(PeerChannel peer, char kind, byte[] body, char expected, CancellationToken stop)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(stop);
        limit.CancelAfter(TimeSpan.FromSeconds(60));
        try
        {
            await peer.SendAsync(kind, body, limit.Token).ConfigureAwait(false);
            (char answer, byte[] content) = await peer.ReceiveAsync(limit.Token).ConfigureAwait(false);
            if (answer == expected) { return content; }
            throw new MoveException($"shard {peer.Other}: "
                + $"{(answer == 'E' ? Encoding.UTF8.GetString(content) : $"an answer {answer} is out of place")}");
        }
        catch (OperationCanceledException) when (!stop.IsCancellationRequested)
        {
            throw new PeerException($"shard {peer.Other} does not answer");
        }
    }
}
