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
        var pushes = pushing.History.Commands.Select((c, i) => (Command: c, K: i + 1))
            .Where(c => c.Command.Arguments[0] == "RPUSH" && c.Command.Arguments[1] == key).ToArray();
        var pops = popping.History.Commands.Select((c, i) => (Command: c, K: i + 1)).Where(c => c.Command.IsBlockingPop).ToArray();
        // What was pipelined behind a rollback notice ran after it; between it and the surviving prefix there may be a gap.
        string[] prefix = [.. before, .. pushes.Where(p => p.Command.Fate != Fate.AnsweredAfterRollback).Select(p => p.Command.Arguments[2])];
        string[] later = [.. pushes.Where(p => p.Command.Fate == Fate.AnsweredAfterRollback).Select(p => p.Command.Arguments[2])];
        int pushedLow = before.Count + pushes.Count(p => p.K <= pushing.Outcome.KMin && p.Command.Fate != Fate.AnsweredAfterRollback);
        int pushedHigh = before.Count + pushes.Count(p => p.K <= pushing.Outcome.KMax && p.Command.Fate != Fate.AnsweredAfterRollback);

        var popped = pops.Where(p => p.Command.Popped is not null).Select(p => p.Command.Popped!).ToArray();
        string[] all = [.. prefix, .. later];
        if (!popped.SequenceEqual(all.Take(popped.Length))
            && !Enumerable.Range(pushedLow, pushedHigh - pushedLow + 1).Any(n => popped.SequenceEqual(prefix.Take(n).Concat(later).Take(popped.Length))))
        {
            yield return new(ViolationKind.HandOffBroken, $"{key}: popped {string.Join(' ', popped.Take(20))} of {string.Join(' ', all.Take(20))}");
            yield break;
        }

        int poppedLow = pops.Count(p => p.K <= popping.Outcome.KMin && p.Command.Popped is not null);
        int poppedHigh = pops.Count(p => (p.K <= popping.Outcome.KMax || IsUncertain(p.K)) && (p.Command.Popped is not null || p.Command.Fate != Fate.Answered));
        for (int from = poppedLow; from <= poppedHigh; from++)
        {
            for (int to = pushedLow; to <= pushedHigh; to++)
            {
                for (int more = 0; more <= later.Length; more++)
                {
                    if (to + more >= from && after.SequenceEqual(prefix.Take(to).Concat(later.Take(more)).Skip(from)))
                    {
                        yield break;
                    }
                }
            }
        }

        yield return new(ViolationKind.HandOffBroken, $"{key} holds {after.Count} elements ({string.Join(' ', after.Take(5))}...), expected elements "
            + $"{poppedLow}..{poppedHigh} to {pushedLow}..{pushedHigh} of {string.Join(' ', all.Skip(Math.Max(0, poppedLow - 3)).Take(12))}");

        bool IsUncertain(int k) => popping.History.Rollback?.IsUncertain(popping.History.SequenceOf(k)) == true;
    }
}
