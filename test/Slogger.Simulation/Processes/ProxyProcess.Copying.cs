// Both sides of a copy, step by step as in the product's MoveImport and MoveSource. The new owner asks over a way that may break at any
// time; either side notices by itself, sooner or later.
using System.Collections.Immutable;
using Slogger.Core.Ownership;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Processes;

/// <summary>The connection over which a new owner asks an old one; and what that one keeps for it.</summary>
internal sealed class MoveWay(MoveId move, ImmutableArray<int> keys)
{
    public MoveId Move => move;

    public ImmutableArray<int> Keys => keys;

    /// <summary>Either side has closed it, or it broke.</summary>
    public bool IsBroken { get; private set; }

    /// <summary>When the old owner has heard something last.</summary>
    public long HeardUs { get; set; }

    /// <summary>Old owner: keys that were not given yet in the first round.</summary>
    public Queue<int> Found { get; } = new(keys);

    /// <summary>Old owner: every change from now on is noted; null: not yet, since the stream has not moved.</summary>
    public HashSet<int>? Changed { get; set; }

    /// <summary>Old owner: it was asked to renounce.</summary>
    public bool IsFrozen { get; set; }

    /// <summary>Old owner: the row that says that it has.</summary>
    public MapRevision? Renounced { get; set; }

    public void Break() => IsBroken = true;
}

internal sealed partial class ProxyProcess
{
    private const int RoundsMax = 40;

    // ---- The new owner ----

    private IEnumerable<bool> ImportTask(MoveWork work, SlotMove move)
    {
        while (MayImport(work, move.Id) && RowOf(work, move.Id) is { State: MoveState.Planned or MoveState.Leaving } row)
        {
            if (row.State == MoveState.Leaving)
            {
                // Of an attempt before, whose landing may be on its way: the old owner takes it back, if it has not landed.
                while (MayImport(work, move.Id) && !HasChanged(work, move.Id, row.Changed)) yield return true;
                continue;
            }

            MoveWay way = new(move.Id, [.. Cluster.Keys.KeysIn(move.Slots)]) { HeardUs = Cluster.NowUs };
            StoreConnection connection = ConnectForMoves();
            foreach (bool step in Attempt(work, move, way, connection)) yield return step;
            way.Break();
            GiveUp(connection);
            for (int n = Cluster.Random.Next(6); n > 0; n--) yield return true;
        }

        work.Imports.Remove(move.Id);
    }

    private IEnumerable<bool> Attempt(MoveWork work, SlotMove move, MoveWay way, StoreConnection connection)
    {
        KeyWrite[] purge = [.. Cluster.Keys.KeysIn(move.Slots).Select(k => new KeyWrite(k, null))];
        foreach (bool step in Write(work, way, connection, purge)) yield return step;

        if (way.IsBroken || Cluster.Hosts[move.From.Number].Newest is not { } source || !source.BeginCopy(way, move, work.Line))
            yield break;
        while (way.Changed is null && MayGoOn(work, way)) yield return true;
        int left = int.MaxValue;
        for (int round = 0; left > 0 && round < RoundsMax; round++)
        {
            foreach (bool step in Ask(work, source, way)) yield return step;
            if (way.IsBroken) yield break;
            (left, List<KeyWrite> read) = source.GiveFound(way);
            foreach (bool step in Write(work, way, connection, read)) yield return step;
        }

        left = int.MaxValue;
        for (int round = 0; left > 1 && round < RoundsMax; round++)
        {
            foreach (bool step in Ask(work, source, way)) yield return step;
            if (way.IsBroken) yield break;
            (left, List<KeyWrite> read) = source.GiveChanged(way);
            foreach (bool step in Write(work, way, connection, read)) yield return step;
        }

        foreach (bool step in Ask(work, source, way)) yield return step;
        if (way.IsBroken || left > 1 || !source.Freeze(way, work.Line)) yield break;
        while (way.Renounced is null && MayGoOn(work, way)) yield return true;
        left = int.MaxValue;
        while (left > 0)
        {
            foreach (bool step in Ask(work, source, way)) yield return step;
            if (way.IsBroken) yield break;
            (left, List<KeyWrite> read) = source.GiveChanged(way);
            foreach (bool step in Write(work, way, connection, read)) yield return step;
            if (way.IsBroken) yield break;
        }

        foreach (bool step in ReportCopied(work, move.Id, way.Renounced!.Value)) yield return step;
    }

    // From here on the copy stands as it is, until the row says something else.
    private IEnumerable<bool> ReportCopied(MoveWork work, MoveId move, MapRevision renounced)
    {
        WorldPoint open = Is(SimMutation.CopyNotNoted) ? new(work.Line, OpenForAll) : CloseChanged(work.Line);
        _ownersAskedUs = 0;
        yield return true;
        if (work.IsOver) yield break;
        Cluster.Count("move: copied");
        DoMoves(w => w.Ownership.Copied(move, renounced, open, _moveEffects));
        while (MayImport(work, move) && !HasChanged(work, move, renounced)) yield return true;
    }

    // Writes keys here, and awaits the answers.
    private IEnumerable<bool> Write(MoveWork work, MoveWay way, StoreConnection connection, IReadOnlyList<KeyWrite> writes)
    {
        foreach (KeyWrite write in writes) connection.ToStore.Enqueue(new(null, null, write));
        int answered = 0;
        while (answered < writes.Count)
        {
            if (connection.IsDead) way.Break();
            if (!MayGoOn(work, way)) yield break;
            for (; connection.ToProxy.Count > 0; answered++) connection.ToProxy.Dequeue();
            if (answered < writes.Count) yield return true;
        }
    }

    // The next request is on its way, until the other side takes it in.
    private IEnumerable<bool> Ask(MoveWork work, ProxyProcess source, MoveWay way)
    {
        long since = Cluster.NowUs;
        do
        {
            yield return true;
            if (Cluster.Settings.Faults && Cluster.Dice(40)) way.Break();
            if (source.IsDead || Cluster.NowUs - since > 3 * PatienceUs) way.Break();
        }
        while (MayGoOn(work, way) && !source.IsRunning);
        if (way.IsBroken) Cluster.Count("way of a copy broke");
        way.HeardUs = Cluster.NowUs;
    }

    private bool MayGoOn(MoveWork work, MoveWay way)
    {
        if (!MayImport(work, way.Move)) way.Break();
        return !way.IsBroken;
    }

    private bool MayImport(MoveWork work, MoveId move) => !work.IsOver && !IsDead && work.Imports[move];

    // Another world-line's table says nothing of this one's row.
    private static bool HasChanged(MoveWork work, MoveId move, MapRevision since) =>
        work.Ownership.Table is not null && (RowOf(work, move) is not { } row || row.Changed > since);

    // ---- The old owner ----

    private bool BeginCopy(MoveWay way, SlotMove move, WorldLine line)
    {
        if (!IsRunning || _work is not { } work || work.Line != line || _attachedTo == 0) return false;
        if (RowOf(work, move.Id) is not { } row || row.From.Number != Shard || row.To != move.To) return false;
        // One that is still there is of an attempt before.
        foreach (MoveWay before in work.Ways.Where(w => w.Move == move.Id).ToArray()) EndWay(work, before, isReplaced: true);
        work.Ways.Add(way);
        // A marker makes the stream move, if nothing else does.
        MarkChanged();
        return true;
    }

    private (int Left, List<KeyWrite> Keys) GiveFound(MoveWay way)
    {
        Cluster.Count("move: copying");
        return way.Found.TryDequeue(out int key) ? (way.Found.Count, Read(way, [key])) : (0, []);
    }

    private (int Left, List<KeyWrite> Keys) GiveChanged(MoveWay way)
    {
        int[] taken = [.. way.Changed!.Take(2)];
        foreach (int key in taken) way.Changed!.Remove(key);
        return (way.Changed!.Count, Read(way, taken));
    }

    private List<KeyWrite> Read(MoveWay way, IEnumerable<int> keys)
    {
        Store store = _host.Store;
        if (!store.IsUp || !store.Admits(Epoch) || _work is null) way.Break();
        return way.IsBroken ? [] : [.. keys.Select(k => new KeyWrite(k, store.ValueOf(k)))];
    }

    private bool Freeze(MoveWay way, WorldLine line)
    {
        way.IsFrozen = true;
        bool isReady = false;
        DoMoves(w => isReady = w.Ownership.Ready(way.Move, line, _moveEffects));
        return isReady;
    }

    // The slots are served again, unless they are not this shard's any more.
    private void EndWay(MoveWork work, MoveWay way, bool isReplaced = false)
    {
        way.Break();
        work.Ways.Remove(way);
        if (way.IsFrozen || isReplaced) DoMoves(w => w.Ownership.NotReady(way.Move, work.Line, _moveEffects));
    }

    // The stream tells of a change. What comes before the first that it tells of is read with all the rest.
    private void NoteChange(in Command command)
    {
        if (_work is not { } work) return;
        foreach (MoveWay way in work.Ways)
        {
            if (way.Changed is null) way.Changed = [];
            else if (way.Keys.Contains(command.Key)) way.Changed.Add(command.Key);
        }
    }
}
