// Whether transactions on lists are strictly serializable, by what Kingsbury and Alvaro found out about them ("Elle: inferring isolation
// anomalies from experimental observations", VLDB 2020). Each read shows the whole history of its list, so the order of appends is
// known, and with it who must stand before whom:
//
//   ww  one appended behind what the other had appended
//   wr  one read what the other had appended
//   rw  one read a list without what the other appended
//   rt  one had returned before the other began
//
// The transactions have an order if and only if these have no circle. What is wrong in a single list is looked for first: it has a
// simpler name. Transactions without an answer count when somebody has seen one of their appends.
using Slogger.Linearizability.Histories;

namespace Slogger.Linearizability.Checking;

internal sealed class ListChecker
{
    private readonly IReadOnlyList<Operation> _history;
    private readonly Dictionary<(string Key, long Value), Operation> _appenders = [];
    private readonly Dictionary<string, List<(Operation By, long[] List)>> _reads = [];
    // Of each list what its longest read shows.
    private readonly Dictionary<string, long[]> _orders = [];
    private readonly List<Anomaly> _found = [];

    private ListChecker(IReadOnlyList<Operation> history)
    {
        _history = history;
        foreach (var operation in history)
        {
            foreach (var step in operation.Steps)
            {
                if (step.Kind == StepKind.Append) { _appenders.Add((step.Key, step.Value!.Value), operation); }
                else if (operation.Outcome == Outcome.Done)
                {
                    if (!_reads.TryGetValue(step.Key, out var reads)) { _reads[step.Key] = reads = []; }
                    reads.Add((operation, step.List!));
                }
            }
        }
    }

    /// <summary>What is wrong with the history of lists: at most one finding of each kind.</summary>
    public static IReadOnlyList<Anomaly> Check(IReadOnlyList<Operation> history)
    {
        var checker = new ListChecker(history);
        checker.CheckOwnSteps();
        checker.CheckElements();
        checker.CheckOrders();
        checker.CheckLost();
        // Circles follow from orders. Where these contradict each other circles say nothing more.
        if (!checker._found.Any(f => f.Kind is AnomalyKind.AppliedTwice or AnomalyKind.IncompatibleOrders or AnomalyKind.NeverWritten
            or AnomalyKind.LostAppend or AnomalyKind.StaleRead or AnomalyKind.OwnStepMissed))
        {
            checker.CheckCircles();
        }

        return [.. checker._found.DistinctBy(f => f.Kind)];
    }

    private void Found(AnomalyKind kind, string text, params IEnumerable<Operation> operations) =>
        _found.Add(Anomaly.Of(kind, text, operations));

    // Within a transaction a list is what it was read as before, with what the transaction has appended since.
    private void CheckOwnSteps()
    {
        foreach (var operation in _history.Where(o => o.Outcome == Outcome.Done && o.Steps.Length > 1))
        {
            foreach (var ofKey in operation.Steps.GroupBy(s => s.Key))
            {
                List<long>? known = null;
                List<long> appended = [];
                var own = ofKey.Where(s => s.Kind == StepKind.Append).Select(s => s.Value!.Value).ToHashSet();
                foreach (var step in ofKey)
                {
                    if (step.Kind == StepKind.Append)
                    {
                        appended.Add(step.Value!.Value);
                        known?.Add(step.Value!.Value);
                        continue;
                    }

                    bool isRight = known is null
                        ? step.List!.TakeLast(appended.Count).SequenceEqual(appended)
                            && !step.List!.SkipLast(appended.Count).Any(own.Contains)
                        : known.SequenceEqual(step.List!);
                    if (!isRight)
                    {
                        Found(AnomalyKind.OwnStepMissed,
                            $"#{operation.Id} read {step.Key}, and what it saw does not fit what it had done itself.", operation);
                    }

                    known = [.. step.List!];
                }
            }
        }
    }

    private void CheckElements()
    {
        foreach (var (key, reads) in _reads)
        {
            foreach (var (reader, list) in reads)
            {
                var seen = new HashSet<long>();
                foreach (long value in list)
                {
                    if (!_appenders.TryGetValue((key, value), out var appender))
                    {
                        Found(AnomalyKind.NeverWritten, $"{value} was read in {key}, and nobody has appended it.", reader);
                    }
                    else if (appender.Outcome == Outcome.Failed)
                    {
                        Found(AnomalyKind.AbortedRead, $"{value} was read in {key}, though its append was refused.", appender, reader);
                    }
                    else if (!seen.Add(value))
                    {
                        Found(AnomalyKind.AppliedTwice, $"{key} holds {value} twice; it was appended once.", appender, reader);
                    }
                }

                if (list.Length == 0 || !_appenders.TryGetValue((key, list[^1]), out var last) || last.Id == reader.Id) { continue; }
                var rest = last.Steps.Where(s => s.Kind == StepKind.Append && s.Key == key).Select(s => s.Value!.Value)
                    .SkipWhile(v => v != list[^1]).Skip(1).ToArray();
                if (rest.Length > 0)
                {
                    Found(AnomalyKind.IntermediateRead,
                        $"#{reader.Id} read {key} up to {list[^1]}, in the middle of #{last.Id}, which appended {rest[0]} too.",
                        last, reader);
                }
            }
        }
    }

    private void CheckOrders()
    {
        foreach (var (key, reads) in _reads)
        {
            var (longest, order) = reads.MaxBy(r => r.List.Length);
            _orders[key] = order;
            var places = new Dictionary<long, int>();
            for (int i = 0; i < order.Length; i++) { places[order[i]] = i; }
            foreach (var appender in order.Select(v => _appenders.GetValueOrDefault((key, v))).OfType<Operation>().DistinctBy(o => o.Id))
            {
                int[] own = [.. appender.Steps.Where(s => s.Kind == StepKind.Append && s.Key == key && places.ContainsKey(s.Value!.Value))
                    .Select(s => places[s.Value!.Value])];
                if (!own.SequenceEqual(own.Order()))
                {
                    Found(AnomalyKind.IncompatibleOrders,
                        $"What #{appender.Id} has appended to {key} was read in another order.", appender, longest);
                }
            }

            foreach (var (reader, list) in reads)
            {
                int same = order.AsSpan().CommonPrefixLength(list);
                if (same < list.Length)
                {
                    Found(AnomalyKind.IncompatibleOrders,
                        $"Behind {same} equal numbers of {key}, #{reader.Id} read {list[same]}, and #{longest.Id} read {order[same]}.",
                        reader, longest);
                }
            }
        }
    }

    // An append was acknowledged, and a read that began later has not seen it.
    private void CheckLost()
    {
        foreach (var ofKey in _appenders.Where(a => a.Value.Outcome == Outcome.Done).GroupBy(a => a.Key.Key))
        {
            if (!_reads.TryGetValue(ofKey.Key, out var reads)) { continue; }
            // Reads by their beginning, with the numbers of the last one: what nobody sees any more is lost, else a read was stale.
            var inTime = reads.OrderBy(r => r.By.InvokedUs).Select(r => (r.By, Seen: r.List.ToHashSet())).ToArray();
            long[] begins = [.. inTime.Select(r => r.By.InvokedUs)];
            foreach (var ((key, value), appender) in ofKey)
            {
                int from = Array.BinarySearch(begins, appender.ReturnedUs);
                for (from = from < 0 ? ~from : from; from < begins.Length && begins[from] == appender.ReturnedUs;) { from++; }
                int missed = Array.FindIndex(inTime, from, r => !r.Seen.Contains(value));
                if (missed < 0) { continue; }
                var reader = inTime[missed].By;
                string text = $"#{appender.Id} appended {value} to {key} and was answered before #{reader.Id} began; that read lacks it";
                if (inTime.Any(r => r.By.InvokedUs > reader.ReturnedUs && r.Seen.Contains(value)))
                {
                    Found(AnomalyKind.StaleRead, $"{text}, and later ones have it.", appender, reader);
                }
                else
                {
                    int lacking = inTime.Skip(missed).Count(r => !r.Seen.Contains(value));
                    Found(AnomalyKind.LostAppend, $"{text}, and so do all that began later ({lacking} reads in all).", appender, reader);
                }
            }
        }
    }

    private void CheckCircles()
    {
        // Who happened: all that were answered, and those without an answer of which an append was seen.
        var seen = new HashSet<int>();
        foreach (var (key, order) in _orders) { seen.UnionWith(order.Select(v => _appenders[(key, v)].Id)); }
        var graph = new TransactionGraph(_history.Where(o => o.Outcome == Outcome.Done || seen.Contains(o.Id)));
        foreach (var (key, order) in _orders)
        {
            var appenders = order.Select(v => _appenders[(key, v)]).ToArray();
            for (int i = 1; i < order.Length; i++)
            {
                graph.Add(appenders[i - 1], appenders[i], EdgeKind.WriteWrite,
                    $"#{appenders[i].Id} appended {order[i]} to {key} behind {order[i - 1]} of #{appenders[i - 1].Id}");
            }

            var unseen = _appenders.Where(a => a.Key.Key == key && graph.Has(a.Value)).Where(a => !order.Contains(a.Key.Value)).ToArray();
            foreach (var ((_, value), appender) in unseen.Where(_ => order.Length > 0))
            {
                graph.Add(appenders[^1], appender, EdgeKind.WriteWrite,
                    $"#{appender.Id} appended {value} to {key}, where nobody read it, so behind {order[^1]} of #{appenders[^1].Id}");
            }

            foreach (var (reader, list) in _reads[key])
            {
                if (list.Length > 0)
                {
                    graph.Add(appenders[list.Length - 1], reader, EdgeKind.WriteRead,
                        $"#{reader.Id} read {list[^1]} in {key}, which #{appenders[list.Length - 1].Id} had appended");
                }

                if (list.Length < order.Length)
                {
                    graph.Add(reader, appenders[list.Length], EdgeKind.ReadWrite,
                        $"#{reader.Id} read {key} without {order[list.Length]}, which #{appenders[list.Length].Id} appended");
                    continue;
                }

                foreach (var ((_, value), appender) in unseen)
                {
                    graph.Add(reader, appender, EdgeKind.ReadWrite,
                        $"#{reader.Id} read {key} without {value}, which #{appender.Id} appended");
                }
            }
        }

        if (graph.Circle() is { } circle) { _found.Add(circle); }
    }
}
