// What the two sides of a copy need of their shard's moves.
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Metadata;
using Slogger.Proxy.Peers;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Moves;

internal sealed partial class SlotMoves
{
    private static readonly TimeSpan TrackLimit = TimeSpan.FromSeconds(5);
    private readonly Dictionary<MoveId, ChangedKeys> _copies = [];
    private volatile ChangedKeys[] _tracked = [];

    // ---- The old owner ----

    /// <summary>The next bytes of the replication stream. The link's thread.</summary>
    /// <param name="bytes">The bytes.</param>
    /// <param name="endsCommand">Whether they end with the end of a command.</param>
    public void OnBytes(ReadOnlySpan<byte> bytes, bool endsCommand)
    {
        foreach (ChangedKeys changed in _tracked) { changed.OnBytes(bytes, endsCommand); }
    }

    /// <summary>The replication stream has ended: what comes next may not follow.</summary>
    public void OnStreamEnded()
    {
        foreach (ChangedKeys changed in _tracked) { changed.Fail("the replication stream was interrupted"); }
    }

    /// <summary>A copy begins: from here on all changes are known. Another of the same move ends.</summary>
    /// <exception cref="MoveException">There is nothing to copy for this shard.</exception>
    public async Task<ChangedKeys> BeginCopyAsync(MoveId move, WorldLine line, ShardId to, CancellationToken stop)
    {
        ChangedKeys changed;
        if (shard.KeepsSlots is { } why) { throw new MoveException(why); }
        await LookAsync(stop).ConfigureAwait(false);
        lock (_gate)
        {
            if (_work is not { } work || work.Line != line)
            {
                throw new MoveException($"shard {seat.Shard} is not in world-line {line} now");
            }
            if (Row(move) is not { } row || row.From != seat.Shard || row.To != to)
            {
                throw new MoveException($"no move {move.Number} from shard {seat.Shard} to shard {to} is known");
            }
            changed = new ChangedKeys(watch.Keys, seat.Partitions, row.Slots);
            if (_copies.Remove(move, out ChangedKeys? before))
            {
                before.Fail("another copy has begun");
                Untrack(before);
                work.Ownership.NotReady(move, line, _effects);
                Perform(work);
            }
            _copies[move] = changed;
            _tracked = [.. _tracked, changed];
        }
        // A marker makes the stream move, if nothing else does.
        shard.MarkChanged();
        try
        {
            await changed.Begun.WaitAsync(TrackLimit, stop).ConfigureAwait(false);
        }
        catch (TimeoutException)
        {
            EndCopy(move, line, changed, wasFrozen: false);
            throw new MoveException("the replication stream stands still");
        }
        return changed;
    }

    /// <summary>A copy has ended, as it should or not: slots that were withheld for it are served again, unless they are not this
    /// shard's any more.</summary>
    public void EndCopy(MoveId move, WorldLine line, ChangedKeys changed, bool wasFrozen)
    {
        lock (_gate)
        {
            Untrack(changed);
            if (!_copies.TryGetValue(move, out ChangedKeys? current) || current != changed) { return; }
            _copies.Remove(move);
            if (_work is not { } work || !wasFrozen) { return; }
            work.Freezes.Remove(move);
            work.Ownership.NotReady(move, line, _effects);
            Perform(work);
            Tell();
        }
    }

    private void Untrack(ChangedKeys changed) => _tracked = [.. _tracked.Where(t => t != changed)];

    /// <summary>Stops serving the slots, and renounces them.</summary>
    /// <returns>The revision of the row that says so: from here on nothing of them changes.</returns>
    /// <exception cref="MoveException">It cannot be now.</exception>
    public async Task<MapRevision> FreezeAsync(MoveId move, WorldLine line, CancellationToken stop)
    {
        var renounced = new TaskCompletionSource<MapRevision>(TaskCreationOptions.RunContinuationsAsynchronously);
        lock (_gate)
        {
            if (_work is not { } work) { throw new MoveException($"shard {seat.Shard} has lost its store"); }
            if (shard.IsSetBack) { throw new MoveException($"shard {seat.Shard} is being set back (slogger reset)"); }
            work.Freezes[move] = renounced;
            work.Renounced.Remove(move);
            if (!work.Ownership.Ready(move, line, _effects)) { throw new MoveException($"move {move.Number} cannot go on now"); }
            Perform(work);
        }
        try
        {
            return await renounced.Task.WaitAsync(FreezeLimit, stop).ConfigureAwait(false);
        }
        catch (TimeoutException)
        {
            throw new MoveException($"it took more than {FreezeLimit.TotalSeconds:0} s to renounce the slots");
        }
    }

    private async Task WithholdAsync(Work work, SlotMove move, long attempt, CancellationToken stop)
    {
        var withholding = new Withholding(FrontEndLoop.Microseconds() + WithholdMicroseconds,
            connections => _ = BlockedCommands.EndAsync(shard.Endpoint, connections, stop));
        try
        {
            ClusterSlots view;
            FrontEndLoop loop;
            lock (_gate)
            {
                if (_loop is null || _work != work) { return; }
                (loop, view) = (_loop, ViewNow());
                _told = view;
                loop.Post(() => loop.Withhold(view, watch.Commands, withholding));
            }
            if (!await withholding.Answered.Task.WaitAsync(stop).ConfigureAwait(false))
            {
                throw new MoveException("requests that were under way have not been answered: a long script, or a large request "
                    + "that comes slowly");
            }
            await shard.StreamReadAsync(stop).ConfigureAwait(false);
            FailPoint.Pass(FailPoint.MoveWithheld);
            WorldPoint open = shard.OpenPoint;
            // What is handed out stays done, whoever leads here next.
            await shard.AwaitMajorityAsync(open, stop).ConfigureAwait(false);
            Do(w => w.Ownership.Withheld(move.Id, attempt, open, _effects));
        }
        catch (Exception e) when (e is MoveException or RedisException)
        {
            lock (_gate)
            {
                if (work.Freezes.TryGetValue(move.Id, out TaskCompletionSource<MapRevision>? freeze))
                {
                    freeze.TrySetException(new MoveException(e.Message));
                }
            }
        }
        finally
        {
            withholding.IsGivenUp = true;
        }
    }

    // ---- The new owner ----

    /// <summary>Connects to another shard's proxy.</summary>
    public async Task<PeerChannel> ConnectAsync(ShardId other, CancellationToken stop) =>
        await PeerChannel.ConnectAsync(seat, watch.AddressOf(other)
            ?? throw new PeerException($"shard {other} has no address yet"), PeerKind.Keys, other, stop).ConfigureAwait(false);

    /// <summary>A copy is complete.</summary>
    public async Task CopiedAsync(MoveId move, MapRevision row, WorldLine line, CancellationToken stop)
    {
        await LookAsync(stop).ConfigureAwait(false);
        // It lands behind the old owner's last version.
        WorldPoint open = shard.CloseChanged(behind: RowOf(move)?.Boundary ?? VersionNumber.Zero);
        Do(work => work.Ownership.Copied(move, row, open with { WorldLine = line }, _effects));
    }

    /// <summary>Completes when a row says something else than at a revision.</summary>
    /// <returns>The row; null: it is gone.</returns>
    public async Task<SlotMove?> RowAfterAsync(MoveId move, MapRevision revision, CancellationToken stop)
    {
        while (true)
        {
            Task read;
            lock (_gate)
            {
                // Another world-line's table says nothing of this one's row.
                if (_work?.Ownership.Table is not null && (Row(move) is not { } row || row.Changed > revision)) { return Row(move); }
                read = _tableRead.Task;
            }
            await read.WaitAsync(stop).ConfigureAwait(false);
        }
    }

    /// <summary>Says for people how far a move is.</summary>
    public async Task NoteAsync(MoveId move, string note, CancellationToken stop)
    {
        try
        {
            await seat.Metadata.NoteMoveAsync(seat.Cluster, move, note, stop).ConfigureAwait(false);
        }
        catch (MetadataException)
        {
            // Nothing depends on it.
        }
    }
}
