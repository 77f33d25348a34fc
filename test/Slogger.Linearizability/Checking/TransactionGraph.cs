// Who must stand before whom, and the shortest circle in it. Real time has nodes of its own: one for each moment at which a transaction
// returns, in a chain. A transaction points to the moment of its return, and the last moment before it began points to it; so the many
// pairs of "returned before the other began" need two edges a transaction.
using Slogger.Linearizability.Histories;

namespace Slogger.Linearizability.Checking;

internal enum EdgeKind
{
    WriteWrite,
    WriteRead,
    ReadWrite,
    RealTime,
}

internal sealed class TransactionGraph
{
    // A circle is looked for from each of so many transactions; the shortest one of all need not be found.
    private const int StartsMax = 400;

    private readonly Operation[] _operations;
    private readonly Dictionary<int, int> _nodes = [];
    private readonly List<(int To, EdgeKind Kind, string? Why)>[] _edges;

    public TransactionGraph(IEnumerable<Operation> operations)
    {
        _operations = [.. operations];
        for (int i = 0; i < _operations.Length; i++) { _nodes.Add(_operations[i].Id, i); }
        var returns = _operations.Where(o => o.Outcome == Outcome.Done).OrderBy(o => o.ReturnedUs).ToArray();
        long[] times = [.. returns.Select(o => o.ReturnedUs)];
        _edges = new List<(int, EdgeKind, string?)>[_operations.Length + returns.Length];
        for (int i = 0; i < _edges.Length; i++) { _edges[i] = []; }
        for (int i = 0; i < returns.Length; i++)
        {
            int moment = _operations.Length + i;
            _edges[_nodes[returns[i].Id]].Add((moment, EdgeKind.RealTime, null));
            if (i > 0) { _edges[moment - 1].Add((moment, EdgeKind.RealTime, null)); }
        }

        for (int i = 0; i < _operations.Length; i++)
        {
            // The last that returned earlier than this one began.
            int at = LowerBound(times, _operations[i].InvokedUs) - 1;
            if (at >= 0) { _edges[_operations.Length + at].Add((i, EdgeKind.RealTime, null)); }
        }
    }

    public bool Has(Operation operation) => _nodes.ContainsKey(operation.Id);

    /// <summary>One must stand before the other. Of one transaction it says nothing.</summary>
    public void Add(Operation before, Operation behind, EdgeKind kind, string why)
    {
        if (before.Id == behind.Id) { return; }
        _edges[_nodes[before.Id]].Add((_nodes[behind.Id], kind, why));
    }

    /// <summary>A shortest circle, of the simplest kind that there is; null if the transactions have an order.</summary>
    public Anomaly? Circle()
    {
        (AnomalyKind Kind, string Name, EdgeKind[] Edges)[] kinds =
        [
            (AnomalyKind.WriteCycle, "Writes stand in a circle", [EdgeKind.WriteWrite]),
            (AnomalyKind.InformationCycle, "Transactions have seen each other in a circle", [EdgeKind.WriteWrite, EdgeKind.WriteRead]),
            (AnomalyKind.MissedWriteCycle, "Transactions have seen and missed each other in a circle",
                [EdgeKind.WriteWrite, EdgeKind.WriteRead, EdgeKind.ReadWrite]),
            (AnomalyKind.WriteCycle, "Writes stand in a circle with real time", [EdgeKind.WriteWrite, EdgeKind.RealTime]),
            (AnomalyKind.InformationCycle, "Transactions have seen each other in a circle with real time",
                [EdgeKind.WriteWrite, EdgeKind.WriteRead, EdgeKind.RealTime]),
            (AnomalyKind.StaleRead, "A read has missed what was done before it", [.. Enum.GetValues<EdgeKind>()]),
        ];
        foreach (var (kind, name, edges) in kinds)
        {
            if (Shortest(edges) is { } circle)
            {
                return Anomaly.Of(kind, $"{name}: {string.Join("; ", Reasons(circle))}.",
                    circle.Select(e => e.From).Where(n => n < _operations.Length).Select(n => _operations[n]));
            }
        }

        return null;
    }

    private static int LowerBound(long[] sorted, long value)
    {
        int low = 0, high = sorted.Length;
        while (low < high)
        {
            int middle = (low + high) / 2;
            if (sorted[middle] < value) { low = middle + 1; }
            else { high = middle; }
        }

        return low;
    }

    // Steps through moments become one reason.
    private IEnumerable<string> Reasons(List<(int From, int To, string? Why)> circle)
    {
        int start = circle.FindIndex(e => e.From < _operations.Length);
        int? returned = null;
        foreach (var (from, to, why) in circle.Skip(start).Concat(circle.Take(start)))
        {
            if (why is not null) { yield return why; }
            if (from < _operations.Length) { returned = from; }
            if (why is null && to < _operations.Length)
            {
                yield return $"#{_operations[returned!.Value].Id} had returned before #{_operations[to].Id} began";
            }
        }
    }

    private List<(int From, int To, string? Why)>? Shortest(EdgeKind[] kinds)
    {
        int[] component = Components(kinds, out var sizes);
        List<(int From, int To, string? Why)>? best = null;
        int bestLength = int.MaxValue, starts = 0;
        for (int i = 0; i < _operations.Length && starts < StartsMax; i++)
        {
            if (sizes[component[i]] < 2) { continue; }
            starts++;
            var circle = From(i, kinds, component);
            int length = circle.Count(e => e.From < _operations.Length);
            if (length < bestLength) { (best, bestLength) = (circle, length); }
        }

        return best;
    }

    // Breadth first within a component, back to its start. Moments cost nothing.
    private List<(int From, int To, string? Why)> From(int start, EdgeKind[] kinds, int[] component)
    {
        var from = new Dictionary<int, (int From, string? Why)>();
        var distances = new Dictionary<int, int>();
        var queue = new LinkedList<(int Node, int Distance)>([(start, 0)]);
        while (queue.First is { } first)
        {
            queue.RemoveFirst();
            var (at, distance) = first.Value;
            if (at == start && distance > 0) { return Path(start, from); }
            if (distance > distances.GetValueOrDefault(at, int.MaxValue)) { continue; }
            foreach (var (to, kind, why) in _edges[at])
            {
                bool isMoment = to >= _operations.Length;
                int there = distance + (isMoment ? 0 : 1);
                if (component[to] != component[start] || !kinds.Contains(kind)) { continue; }
                if (distances.GetValueOrDefault(to, int.MaxValue) <= there) { continue; }
                (distances[to], from[to]) = (there, (at, why));
                if (isMoment) { queue.AddFirst((to, there)); }
                else { queue.AddLast((to, there)); }
            }
        }

        throw new InvalidOperationException("a component without a circle");
    }

    private static List<(int From, int To, string? Why)> Path(int start, Dictionary<int, (int From, string? Why)> from)
    {
        var path = new List<(int, int, string?)>();
        int at = start;
        do
        {
            var (before, why) = from[at];
            path.Insert(0, (before, at, why));
            at = before;
        }
        while (at != start);
        return path;
    }

    // Tarjan's strongly connected components, with a stack of its own: chains of real time are long.
    private int[] Components(EdgeKind[] kinds, out List<int> sizes)
    {
        int count = _edges.Length, index = 0;
        int[] indexes = new int[count], low = new int[count], component = new int[count], next = new int[count];
        Array.Fill(indexes, -1);
        Array.Fill(component, -1);
        sizes = [];
        var stack = new Stack<int>();
        var calls = new Stack<int>();
        for (int root = 0; root < count; root++)
        {
            if (indexes[root] >= 0) { continue; }
            calls.Push(root);
            while (calls.TryPeek(out int node))
            {
                if (indexes[node] < 0)
                {
                    indexes[node] = low[node] = index++;
                    stack.Push(node);
                }

                if (next[node] < _edges[node].Count)
                {
                    var (to, kind, _) = _edges[node][next[node]++];
                    if (!kinds.Contains(kind)) { continue; }
                    if (indexes[to] < 0) { calls.Push(to); }
                    else if (component[to] < 0) { low[node] = Math.Min(low[node], indexes[to]); }
                    continue;
                }

                calls.Pop();
                if (calls.TryPeek(out int caller)) { low[caller] = Math.Min(low[caller], low[node]); }
                if (low[node] != indexes[node]) { continue; }
                int size = 0, member;
                do
                {
                    member = stack.Pop();
                    component[member] = sizes.Count;
                    size += member < _operations.Length ? 1 : 0;
                }
                while (member != node);
                sizes.Add(size);
            }
        }

        return component;
    }
}
