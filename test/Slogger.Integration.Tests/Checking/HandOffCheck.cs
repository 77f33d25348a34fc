// The list that one writer pushes to and another pops from with BLPOP: what is left must be what was pushed by the
// surviving commands less what was popped by the surviving ones, in order. It is checked apart from the prefixes because
// its state depends on two writers.
using Slogger.Integration.Tests.Model;
using Slogger.Integration.Tests.Workload;

namespace Slogger.Integration.Tests.Checking;

internal static class HandOffCheck
{
    /// <param name="before">The list at the start of the round.</param>
    /// <param name="pushing">The writer that pushes, and its outcome.</param>
    /// <param name="popping">The writer that pops, and its outcome.</param>
    /// <param name="after">The list now.</param>
    public static IEnumerable<Violation> Check(IReadOnlyList<string> before, (WriterHistory History, WriterOutcome Outcome) pushing,
        (WriterHistory History, WriterOutcome Outcome) popping, IReadOnlyList<string> after)
    {
        string key = CommandGenerator.HandOffKey(popping.History.Writer);
        var pushes = pushing.History.Commands.Select((c, i) => (Command: c, K: i + 1)).Where(c => IsPush(c.Command, key)).ToArray();
        var pops = popping.History.Commands.Select((c, i) => (Command: c, K: i + 1)).Where(c => c.Command.IsBlockingPop).ToArray();
        // What was pipelined behind a rollback notice ran after it; between it and the surviving prefix there may be a gap.
        string[] prefix = [.. before, .. pushes.Select(p => p.Command.Arguments[2])];
        int pushedLow = before.Count + pushes.Count(p => p.K <= pushing.Outcome.KMin);
        int pushedHigh = before.Count + pushes.Count(p => p.K <= pushing.Outcome.KMax);
        string[][] courses = [.. pushing.Outcome.Later.Select(c => c.Where(p => IsPush(p, key)).Select(p => p.Arguments[2]).ToArray())];

        // What was popped may have been pushed by commands that are lost; so may what was popped in the new world-line, if the pop is.
        var popped = pops.Where(p => p.Command.Popped is not null).Select(p => p.Command.Popped!).ToArray();
        bool inOrder = popped.SequenceEqual(prefix.Take(popped.Length))
            || courses.Any(later => Enumerable.Range(pushedLow, pushedHigh - pushedLow + 1)
            .Any(n => popped.SequenceEqual(prefix.Take(n).Concat(later).Take(popped.Length))));
        if (!inOrder)
        {
            yield return new(ViolationKind.HandOffBroken,
                $"{key}: popped {string.Join(' ', popped.Take(20))} of {string.Join(' ', prefix.Take(20))}");
            yield break;
        }

        int poppedLow = pops.Count(p => p.K <= popping.Outcome.KMin && p.Command.Popped is not null);
        int poppedHigh = pops.Count(p => (p.K <= popping.Outcome.KMax || IsUncertain(p.K))
            && (p.Command.Popped is not null || p.Command.Fate != Fate.Answered));
        for (int from = poppedLow; from <= poppedHigh; from++)
        {
            for (int to = pushedLow; to <= pushedHigh; to++)
            {
                if (courses.Any(later => to + later.Length >= from && after.SequenceEqual(prefix.Take(to).Concat(later).Skip(from))))
                {
                    yield break;
                }
            }
        }

        yield return new(ViolationKind.HandOffBroken,
            $"{key} holds {after.Count} elements ({string.Join(' ', after.Take(5))}...), expected elements "
            + $"{poppedLow}..{poppedHigh} to {pushedLow}..{pushedHigh} of "
            + $"{string.Join(' ', prefix.Skip(Math.Max(0, poppedLow - 3)).Take(12))}");

        bool IsUncertain(int k) => popping.History.Rollback?.IsUncertain(popping.History.SequenceOf(k)) == true;
    }

    private static bool IsPush(Issued command, string key) => command.Arguments[0] == "RPUSH" && command.Arguments[1] == key;
}
