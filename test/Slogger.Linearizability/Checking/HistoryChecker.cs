// Checks a whole history: each register alone (a history is linearizable when it is so key by key), all lists together, since
// transactions join them.
using Slogger.Linearizability.Histories;

namespace Slogger.Linearizability.Checking;

internal static class HistoryChecker
{
    /// <summary>What is wrong with a history, if anything: at most one finding for each register, and of each kind for lists.</summary>
    /// <exception cref="ArgumentException">It is no history: a client overtook itself, or a value was written twice.</exception>
    public static IReadOnlyList<Anomaly> Check(IReadOnlyList<Operation> history)
    {
        Validate(history);
        var lists = history.Where(o => o.Steps[0].IsOfList).ToArray();
        return
        [
            .. history.Where(o => !o.Steps[0].IsOfList).GroupBy(o => o.Step.Key).OrderBy(g => g.Key, StringComparer.Ordinal)
                .Select(g => RegisterChecker.Check([.. g])).OfType<Anomaly>(),
            .. ListChecker.Check(lists),
        ];
    }

    private static void Validate(IReadOnlyList<Operation> history)
    {
        var written = new HashSet<(string, long)>();
        var ofList = new Dictionary<string, bool>();
        var ids = new HashSet<int>();
        foreach (var operation in history)
        {
            Require(ids.Add(operation.Id), $"two operations have the number {operation.Id}");
            Require(operation.Steps.Length == 1 || operation.Steps.All(s => s.IsOfList),
                $"registers have operations of one step: {operation}");
            Require(operation.Outcome != Outcome.Done || operation.ReturnedUs >= operation.InvokedUs,
                $"it ends before it begins: {operation}");
            foreach (var step in operation.Steps)
            {
                Require(ofList.TryAdd(step.Key, step.IsOfList) || ofList[step.Key] == step.IsOfList, $"{step.Key} is register and list");
                if (step.Kind is StepKind.Read or StepKind.ReadList) { continue; }
                Require(step.Value is { } value && written.Add((step.Key, value)), $"a value is written twice: {operation}");
            }
        }

        foreach (var ofClient in history.GroupBy(o => o.Client))
        {
            // Behind an operation without an answer a client may go on at once.
            long free = long.MinValue;
            foreach (var operation in ofClient.OrderBy(o => o.InvokedUs).ThenBy(o => o.ReturnedUs))
            {
                Require(operation.InvokedUs >= free, $"a client has one operation at a time: {operation}");
                free = operation.Outcome == Outcome.Done ? operation.ReturnedUs : operation.InvokedUs;
            }
        }

        static void Require(bool isSo, string otherwise)
        {
            if (!isSo) { throw new ArgumentException(otherwise); }
        }
    }
}
