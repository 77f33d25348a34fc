// Tries every order of a few operations. Slow, and plain enough to be believed.
using Slogger.Linearizability.Histories;

namespace Slogger.Linearizability.Tests;

internal static class BruteForce
{
    /// <summary>Whether some order, which keeps to real time, explains all results. Operations without an answer may be left out.</summary>
    public static bool HasOrder(IReadOnlyList<Operation> history) =>
        Place([.. history.Where(o => o.Outcome != Outcome.Failed)], []);

    private static bool Place(List<Operation> rest, Dictionary<string, long[]> state)
    {
        if (rest.All(o => o.Outcome == Outcome.Unknown)) { return true; }
        foreach (var next in rest)
        {
            if (rest.Any(o => o.Outcome == Outcome.Done && o.ReturnedUs < next.InvokedUs)) { continue; }
            var after = new Dictionary<string, long[]>(state);
            if (next.Steps.All(s => Fits(s, next.Outcome == Outcome.Unknown, after)) && Place([.. rest.Where(o => o.Id != next.Id)], after))
            {
                return true;
            }
        }

        return false;
    }

    // A register is a list of at most one number.
    private static bool Fits(Step step, bool isUnknown, Dictionary<string, long[]> state)
    {
        long[] now = state.GetValueOrDefault(step.Key, []);
        long? held = now.Length == 0 ? null : now[^1];
        switch (step.Kind)
        {
            case StepKind.Read:
                return isUnknown || held == step.Value;
            case StepKind.ReadList:
                return isUnknown || now.SequenceEqual(step.List!);
            case StepKind.Write:
                state[step.Key] = [step.Value!.Value];
                return true;
            case StepKind.Append:
                state[step.Key] = [.. now, step.Value!.Value];
                return true;
            default:
                if (held == step.Expected) { state[step.Key] = [step.Value!.Value]; }
                return isUnknown || held == step.Expected == step.Succeeded;
        }
    }
}
