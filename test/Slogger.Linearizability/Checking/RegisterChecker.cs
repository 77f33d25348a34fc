// Whether one register's history is linearizable: the search of Wing and Gong ("Testing and verifying concurrent objects", 1993), with
// what was tried remembered, as Lowe does ("Testing for linearizability", 2017). Values are unique, which prunes it:
//
// - A value that was replaced never comes back. So a write may be placed only when everyone who has seen the present value is placed.
// - A write without an answer that nobody has seen may be left out. One that was seen was done before the first who saw it returned.
// - A compare-and-set that was refused only says that something else was there. That counts where no write that is left out may have been
//   it: all else would be a search through every set of them.
using Slogger.Linearizability.Histories;

namespace Slogger.Linearizability.Checking;

internal static class RegisterChecker
{
    /// <summary>What the register holds before anything is written. No step writes it.</summary>
    public const long Nothing = long.MinValue;

    /// <summary>What is wrong with the history of one register, or null.</summary>
    public static Anomaly? Check(IReadOnlyList<Operation> history)
    {
        if (Unfounded(history) is { } unfounded) { return unfounded; }
        if (IsLinearizable(history)) { return null; }
        // What was refused rests on all writes, so without them it would seem wrong where it is right. Mostly it is not needed.
        Operation[] rest = [.. history.Where(o => !IsRefused(o))];
        if (IsLinearizable(rest)) { return RefusedWrongly(history); }
        // Best shown by writes that were acknowledged.
        var unknown = rest.Where(o => o.Outcome == Outcome.Unknown && Sets(o, out _)).Select(o => o.Step.Value!.Value).ToHashSet();
        Operation[] sure = [.. rest.Where(o => !unknown.Contains(ValueOf(o)))];
        return RegisterDiagnosis.Of(history, Smallest(IsLinearizable(sure) ? rest : sure));
    }

    /// <summary>Whether some order explains all results. Reads of values that no operation writes are left out.</summary>
    public static bool IsLinearizable(IReadOnlyList<Operation> history) => new Search(Calls(history)).Succeeds();

    /// <summary>The value that an operation proves to have been there, if it proves one.</summary>
    public static bool Sees(Operation operation, out long value)
    {
        var step = operation.Step;
        value = (step.Kind == StepKind.Read ? step.Value : step.Expected) ?? Nothing;
        return operation.Outcome == Outcome.Done
            && (step.Kind == StepKind.Read || step is { Kind: StepKind.CompareAndSet, Succeeded: true });
    }

    /// <summary>The value that an operation may have set.</summary>
    public static bool Sets(Operation operation, out long value)
    {
        var step = operation.Step;
        value = step.Value ?? Nothing;
        return step.Kind == StepKind.Write ? operation.Outcome != Outcome.Failed
            : step.Kind == StepKind.CompareAndSet && operation.Outcome != Outcome.Failed && step.Succeeded != false;
    }

    private static Anomaly? Unfounded(IReadOnlyList<Operation> history)
    {
        var writers = history.Where(o => o.Step.Kind != StepKind.Read).ToDictionary(o => o.Step.Value!.Value);
        foreach (var operation in history.OrderBy(o => o.InvokedUs))
        {
            if (!Sees(operation, out long value) || value == Nothing) { continue; }
            if (!writers.TryGetValue(value, out var writer))
            {
                return Anomaly.Of(AnomalyKind.NeverWritten,
                    $"{value} was seen in {operation.Step.Key}, and nobody has written it.", operation);
            }

            if (!Sets(writer, out _))
            {
                return Anomaly.Of(AnomalyKind.AbortedRead,
                    $"{value} was seen in {operation.Step.Key}, though its write was refused.", writer, operation);
            }
        }

        return null;
    }

    // Whose write it is, or what it has seen.
    private static long ValueOf(Operation operation) =>
        Sets(operation, out long set) ? set : Sees(operation, out long seen) ? seen : Nothing;

    private static bool IsRefused(Operation operation) =>
        operation is { Outcome: Outcome.Done, Step: { Kind: StepKind.CompareAndSet, Succeeded: false } };

    private static Anomaly RefusedWrongly(IReadOnlyList<Operation> history)
    {
        var sure = history.Where(o => !IsRefused(o)).ToArray();
        var few = Reduction.Smallest(history.Where(IsRefused).ToList(), refused => !IsLinearizable([.. sure, .. refused]));
        var expected = few.Select(o => o.Step.Expected ?? Nothing).ToHashSet();
        return Anomaly.Of(AnomalyKind.RefusedWrongly,
            $"a compare-and-set of {few[0].Step.Key} was refused, though the register held what it expected, whatever the order.",
            [.. few, .. sure.Where(o => (Sets(o, out long set) && expected.Contains(set))
                || (Sees(o, out long seen) && expected.Contains(seen)))]);
    }

    // Fewer and fewer operations that are still wrong: whole values first (a write with all who saw it), then single operations.
    private static List<Operation> Smallest(IReadOnlyList<Operation> history)
    {
        var byValue = history.GroupBy(ValueOf).Select(g => g.ToArray());
        var few = Reduction.Smallest(byValue.ToList(), parts => !IsLinearizable([.. parts.SelectMany(p => p)]));
        return Reduction.Smallest(few.SelectMany(p => p).ToList(), parts => !IsLinearizable(parts));
    }

    private static List<Call> Calls(IReadOnlyList<Operation> history)
    {
        // When a value was seen first: its write was done by then, whatever became of the answer.
        var seenBy = new Dictionary<long, long>();
        foreach (var operation in history)
        {
            if (!Sees(operation, out long value)) { continue; }
            seenBy[value] = Math.Min(operation.ReturnedUs, seenBy.GetValueOrDefault(value, long.MaxValue));
        }

        var unknown = history.Where(o => o.Outcome == Outcome.Unknown && Sets(o, out _)).ToDictionary(o => o.Step.Value!.Value);
        // A compare-and-set without an answer whose value was seen has itself seen what it expected.
        var newly = new Stack<long>(unknown.Keys.Where(seenBy.ContainsKey));
        while (newly.TryPop(out long value))
        {
            if (unknown[value].Step is not { Kind: StepKind.CompareAndSet } step) { continue; }
            long expected = step.Expected ?? Nothing;
            if (seenBy.GetValueOrDefault(expected, long.MaxValue) <= seenBy[value]) { continue; }
            seenBy[expected] = seenBy[value];
            if (unknown.ContainsKey(expected)) { newly.Push(expected); }
        }

        var values = history.Where(o => Sets(o, out _)).Select(o => o.Step.Value!.Value).Append(Nothing).ToHashSet();
        var leftOut = unknown.Where(u => !seenBy.ContainsKey(u.Key)).ToDictionary();
        bool MayHide(Operation unseen, Operation refused) => unseen.InvokedUs <= refused.ReturnedUs
            && (unseen.Step.Kind == StepKind.Write || unseen.Step.Expected == refused.Step.Expected
                || (unseen.Step.Expected is { } e && leftOut.ContainsKey(e)));
        var calls = new List<Call>(history.Count);
        foreach (var operation in history)
        {
            var step = operation.Step;
            long end = operation.ReturnedUs;
            if (operation.Outcome == Outcome.Unknown && !(Sets(operation, out long set) && seenBy.TryGetValue(set, out end))) { continue; }
            if (operation.Outcome == Outcome.Failed) { continue; }
            // A value that came from nowhere can only be so in a part of a history: the write is elsewhere, and so nothing is known.
            long? from = Sees(operation, out long seen) || (operation.Outcome == Outcome.Unknown && step.Kind == StepKind.CompareAndSet)
                ? (operation.Outcome == Outcome.Unknown ? step.Expected ?? Nothing : seen) : null;
            if (from is { } f && !values.Contains(f))
            {
                if (step.Kind == StepKind.Read) { continue; }
                from = null;
            }

            calls.Add(new(operation.InvokedUs, Math.Max(end, operation.InvokedUs), from, Sets(operation, out long to) ? to : null,
                IsRefused(operation) && !leftOut.Values.Any(u => MayHide(u, operation)) ? step.Expected ?? Nothing : null));
        }

        return calls;
    }

    /// <summary>An operation as the search places it.</summary>
    /// <param name="Begin">Not placed before anything that ends earlier.</param>
    /// <param name="End">Placed before anything that begins later.</param>
    /// <param name="From">The register must hold this; null: whatever it holds.</param>
    /// <param name="To">And holds this behind it; null: the same.</param>
    /// <param name="Not">The register must hold something else.</param>
    private readonly record struct Call(long Begin, long End, long? From, long? To, long? Not);

    private sealed class Search
    {
        private readonly List<Call> _calls;
        // Begins (even) and ends (odd) of calls that are not placed, in the order of time; the head stands behind all of them.
        private readonly int[] _next, _previous;
        private readonly int _head;
        private readonly UInt128[] _marks;
        // How many have yet to see a value.
        private readonly Dictionary<long, int> _viewers = [];
        private readonly HashSet<(UInt128 Placed, long State)> _tried = [];
        private UInt128 _placed;
        private long _state = Nothing;

        public Search(List<Call> calls)
        {
            _calls = calls;
            _head = 2 * calls.Count;
            _next = new int[_head + 1];
            _previous = new int[_head + 1];
            // At one moment begins come first: what touches overlaps.
            int[] events = [.. Enumerable.Range(0, _head)
                .OrderBy(e => e % 2 == 0 ? calls[e / 2].Begin : calls[e / 2].End).ThenBy(e => e % 2)];
            int last = _head;
            foreach (int e in events)
            {
                (_next[last], _previous[e]) = (e, last);
                last = e;
            }

            (_next[last], _previous[_head]) = (_head, last);
            var random = new Random(calls.Count);
            _marks = [.. calls.Select(_ => new UInt128((ulong)random.NextInt64(), (ulong)random.NextInt64()))];
            foreach (var call in calls)
            {
                if (call.From is { } from) { _viewers[from] = _viewers.GetValueOrDefault(from) + 1; }
            }
        }

        public bool Succeeds()
        {
            var placed = new Stack<(int Call, long Before)>();
            int at = _next[_head];
            while (_next[_head] != _head)
            {
                if (at % 2 == 0 && at != _head)
                {
                    int call = at / 2;
                    long before = _state;
                    if (Fits(_calls[call]))
                    {
                        Place(call);
                        if (_tried.Add((_placed, _state)))
                        {
                            placed.Push((call, before));
                            at = _next[_head];
                            continue;
                        }

                        TakeBack(call, before);
                    }

                    at = _next[at];
                    continue;
                }

                // Something ends here that could not be placed: the last one placed was a mistake.
                if (!placed.TryPop(out var mistake)) { return false; }
                TakeBack(mistake.Call, mistake.Before);
                at = _next[2 * mistake.Call];
            }

            return true;
        }

        private bool Fits(Call call)
        {
            if ((call.From is { } from && from != _state) || call.Not == _state) { return false; }
            return call.To is null || _viewers.GetValueOrDefault(_state) == (call.From is null ? 0 : 1);
        }

        private void Place(int call)
        {
            Unlink(2 * call);
            Unlink((2 * call) + 1);
            _placed ^= _marks[call];
            if (_calls[call].From is { } from) { _viewers[from]--; }
            _state = _calls[call].To ?? _state;
        }

        private void TakeBack(int call, long before)
        {
            Link((2 * call) + 1);
            Link(2 * call);
            _placed ^= _marks[call];
            if (_calls[call].From is { } from) { _viewers[from]++; }
            _state = before;
        }

        private void Unlink(int e) => (_next[_previous[e]], _previous[_next[e]]) = (_next[e], _previous[e]);

        private void Link(int e) => (_next[_previous[e]], _previous[_next[e]]) = (e, e);
    }
}
