// What has become of each key, wherever its slots are: where slots move, one list of operations for each key, over all shards. Every
// operation adds to what the one before it on the same key has left, so a value tells all that is in it.
//
// I1 and I2 for keys: an operation finds what the last one has left, at whichever shard that was; what a recovery would find, at whom it
// would give the slots to, is all that the cut holds of a key, and no more. I6: nobody executes for slots that it does not own, or has
// renounced. I8: every move ends, and leaves no copy behind.
using Slogger.Core.Ownership;
using Slogger.Core.WorldLines;
using Slogger.Simulation.Processes;

namespace Slogger.Simulation.Checks;

internal sealed class KeyHistories(Cluster cluster)
{
    private readonly Op?[] _before = new Op?[cluster.Keys.Count];                     // where the world-line began
    private readonly List<Op>[] _since = [.. Enumerable.Range(0, cluster.Keys.Count).Select(_ => new List<Op>())];

    /// <summary>A store has executed an operation; <see cref="Op.Read"/> is what it found.</summary>
    public void OnExecuted(Op op, int shard)
    {
        // What is executed in an abandoned world-line is lost.
        if (op.Line != cluster.Sql.Line) return;
        CheckOwned(op, shard);
        Op? expected = Last(op.Key), found = op.Read;
        if (found != expected) throw new SimException(
            $"{(expected is { Covered: true } ? "I2" : "I1")}: key {op.Key} at shard {shard} is not what the last operation has left "
                + $"({Text(expected)}), but ({Text(found)}): {op}");
        _since[op.Key].Add(op);
    }

    /// <summary>A cut was recorded, and what is inside is known: were everything to fail now, a recovery would find this.</summary>
    public void OnCut()
    {
        OwnershipTable owners = cluster.Sql.Owners.Recover(cluster.Sql.Line.Next, cluster.Sql.Cut.Versions[0]);
        for (int key = 0; key < _before.Length; key++) Recovered(key, owners);
    }

    /// <summary>A world-line has begun, and the owners are those of its table: what the new histories begin with.</summary>
    public void OnWorldLine()
    {
        for (int key = 0; key < _before.Length; key++)
        {
            _before[key] = Recovered(key, cluster.Sql.Owners);
            _since[key].Clear();
        }
    }

    /// <summary>Long after the last failure.</summary>
    public void OnSettled()
    {
        if (cluster.Sql.Owners.Moves is [{ } move, ..]) throw new SimException($"I8: long after the last failure: {move} is not finished");
        OnCut();
        for (int key = 0; key < _before.Length; key++)
        {
            int owner = cluster.Keys.OwnerOf(key, cluster.Sql.Owners.Map);
            foreach (ShardHost host in cluster.Hosts)
            {
                Op? value = host.Store.ValueOf(key);
                if (host.Number != owner && value is not null)
                    throw new SimException($"I8: shard {host.Number} has kept key {key}, which is shard {owner}'s: {value}");
                if (host.Number == owner && value != Last(key))
                    throw new SimException($"I2: key {key} at shard {owner} is ({Text(value)}) in the end, the last operation on it was "
                        + $"({Text(Last(key))})");
            }
        }
    }

    private Op? Last(int key) => _since[key].Count > 0 ? _since[key][^1] : _before[key];

    private void CheckOwned(Op op, int shard)
    {
        OwnershipTable owners = cluster.Sql.Owners;
        int owner = cluster.Keys.OwnerOf(op.Key, owners.Map);
        if (owner != shard) throw new SimException($"I6: shard {shard} executes for key {op.Key}, which is shard {owner}'s: {op}");
        foreach (SlotMove move in owners.Moves)
            if (move.State == MoveState.Leaving && move.Slots.Any(s => s.Contains(cluster.Keys.SlotOf(op.Key))))
                throw new SimException($"I6: shard {shard} executes for key {op.Key}, which it has renounced: {op}");
    }

    private Op? Recovered(int key, OwnershipTable owners)
    {
        ShardHost host = cluster.Hosts[cluster.Keys.OwnerOf(key, owners.Map)];
        Boundary at = Invariants.RestorePoint(host, cluster.Sql.Cut.Versions[host.Number], cluster.Sql.Lines);
        Op? found = host.Log.ValueAt(key, at.Offset);
        List<Op> since = _since[key];
        int last = found == _before[key] ? -1 : since.IndexOf(found!);
        string where = $"key {key} at shard {host.Number}, recovered to {at.Point} in {owners.WorldLine}, is ({Text(found)})";
        if (last < 0 && found != _before[key])
            throw new SimException($"{(since.Exists(o => o.Covered) ? "I2" : "I1")}: {where}, which nobody has left there; before: "
                + $"({Text(_before[key])})");
        for (int i = 0; i < since.Count; i++)
        {
            if (i <= last && !since[i].Covered) throw new SimException($"I1: {where}, which holds what is lost: {since[i]}");
            if (i > last && since[i].Covered) throw new SimException($"I2: {where}, which does not hold what is committed: {since[i]}");
        }

        return found;
    }

    private static string Text(Op? op) => op?.ToString() ?? "nothing";
}
