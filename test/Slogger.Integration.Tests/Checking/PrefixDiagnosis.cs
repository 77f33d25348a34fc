// Explains to a person why no prefix fits: the nearest one, and what differs from it. Only called on failure.
using Slogger.Integration.Tests.Model;
using Slogger.Integration.Tests.Workload;

namespace Slogger.Integration.Tests.Checking;

internal static class PrefixDiagnosis
{
    private const int CommandsTried = 20_000;

    public static string Explain(WriterHistory history, ObservedState observed)
    {
        var found = observed.OfWriter(history.Writer).Where(e => KeyspaceModel.IsFingerprinted(e.Key.Name)).ToDictionary();
        var state = history.Start.Clone();
        int bestK = 0;
        int bestCount = int.MaxValue;
        string[] best = [];
        for (int k = 0; ; k++)
        {
            if (k >= history.Commands.Count - CommandsTried)
            {
                var expected = state.Entries.Where(e => KeyspaceModel.IsFingerprinted(e.Key.Name)).ToDictionary();
                var differences = ObservedState.Differences(expected, found, limit: Math.Min(bestCount, 30)).ToArray();
                if (differences.Length < bestCount)
                {
                    (bestK, bestCount, best) = (k, differences.Length, differences);
                }
            }

            if (k == history.Commands.Count)
            {
                break;
            }

            state.Apply(history.Commands[k].Arguments, history.Commands[k].Expired);
        }

        var near = history.Commands.Skip(Math.Max(0, bestK - 5)).Take(12)
            .Select((c, i) => $"      #{Math.Max(0, bestK - 5) + i + 1} {c} [{c.Fate}]");
        int after = history.Commands.FindIndex(c => c.Fate == Fate.AnsweredAfterRollback);
        var later = after < 0 ? [] : history.Commands.Skip(Math.Max(0, after - 8)).Take(30)
            .Select((c, i) => $"      #{Math.Max(0, after - 8) + i + 1} {c} [{c.Fate}]");
        return $"{history.Name}: no k fits; sent {history.Commands.Count}, acknowledged {history.Acknowledged}, committed "
            + $"{history.Committed}, "
            + $"told {history.Rollback?.ToString() ?? "nothing"}; nearest k = {bestK} with {bestCount} differing keys:\n    "
            + string.Join("\n    ", best) + "\n    commands there:\n" + string.Join('\n', near)
            + (after < 0 ? "" : "\n    commands about the rollback:\n" + string.Join('\n', later));
    }
}
