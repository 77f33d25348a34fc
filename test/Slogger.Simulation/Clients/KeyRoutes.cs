// What a client believes of who owns which key: it was true once, and whoever is asked wrongly says better.
using Slogger.Simulation.Processes;

namespace Slogger.Simulation.Clients;

internal sealed class KeyRoutes(Cluster cluster)
{
    private readonly int[] _owners = [.. Enumerable.Range(0, cluster.Keys.Count)
        .Select(k => cluster.Keys.OwnerOf(k, cluster.Sql.Owners.Map))];

    /// <summary>Some key to ask a shard for: where slots move one that is the shard's, as far as it is known; where shards
    /// come and go, none (-1) if it has none.</summary>
    public int KeyAt(int shard, Random random)
    {
        int first = random.Next(_owners.Length);
        if (!cluster.Keys.Move) return first;
        if (cluster.Grows && random.Next(6) == 0) return -1;
        for (int i = 0; i < _owners.Length; i++)
            if (_owners[(first + i) % _owners.Length] == shard) return (first + i) % _owners.Length;
        return cluster.Grows ? -1 : first;
    }

    /// <summary>An operation was answered.</summary>
    public void OnAnswered(Op op)
    {
        if (op.IsRedirected) _owners[op.Key] = op.RedirectedTo;
    }
}
