// What may have run behind a rollback notice, in the new world-line: a client learns of the rollback by the reply to one request,
// and has pipelined others behind it. Those that were answered ran; of those that were not, which is so when the connection
// ended, first some may have been refused with the notice, then some may have run, and the last may never have been read.
using Slogger.Integration.Tests.Workload;

namespace Slogger.Integration.Tests.Checking;

internal static class LaterCourses
{
    /// <summary>Every course that the promises allow, the likeliest first; one empty course if nothing was behind a notice.</summary>
    public static IEnumerable<Issued[]> Of(WriterHistory history, CheckRules rules)
    {
        if (history.Rollback is null)
        {
            return [[]];
        }

        var behind = history.Commands.Select((c, i) => (Command: c, K: i + 1)).Skip(history.NoticeAt).ToArray();
        Issued[] answered = [.. behind.Where(c => c.Command.Fate == Fate.AnsweredAfterRollback).Select(c => c.Command)];
        Issued[] open = [.. behind.Where(c => c.Command.Fate == Fate.Unanswered).Select(c => c.Command)];
        // A second rollback took back what was not committed, and nobody could be told of it.
        int least = rules.MayBeKilledAgain && history.Ended
            ? behind.Count(c => c.Command.Fate == Fate.AnsweredAfterRollback && c.K <= history.CommittedLater)
            : answered.Length;
        return All(answered, open, least);
    }

    private static IEnumerable<Issued[]> All(Issued[] answered, Issued[] open, int least)
    {
        yield return answered;
        for (int refused = 0; refused <= (answered.Length > 0 ? 0 : open.Length); refused++)
        {
            for (int ran = 1; refused + ran <= open.Length; ran++)
            {
                yield return [.. answered, .. open.Skip(refused).Take(ran)];
            }
        }

        for (int kept = answered.Length - 1; kept >= least; kept--)
        {
            yield return answered[..kept];
        }
    }
}
