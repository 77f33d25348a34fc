// Where the logs of two nodes agree. A log passes through lines: a line begins with the record of a reign, or of a world-line. One node
// writes in a line, its leader; all others copy. So two logs that have a position of the same line are the same below it (what Raft calls
// log matching), and the last line that both have passed through says up to where they are.
using System.Collections.Immutable;

namespace Slogger.Core.Replication;

/// <summary>A log, as its lines.</summary>
/// <param name="Begins">Where each line begins that the log still has something of, in order; the first at the log's own beginning. At
/// least one.</param>
/// <param name="End">The last version that is closed in it.</param>
public sealed record LogLines(ImmutableArray<LogBranch> Begins, LogIndex End)
{
    /// <summary>Up to where two logs are the same.</summary>
    /// <returns>In the last line that both have passed through; null: there is none, so one log has to be copied.</returns>
    public LogIndex? AgreesWith(LogLines other)
    {
        for (int mine = Begins.Length - 1; mine >= 0; mine--)
        {
            LogBranch line = Begins[mine];
            for (int theirs = other.Begins.Length - 1; theirs >= 0; theirs--)
            {
                if (other.Begins[theirs].Line == line.Line) { return LogIndex.Min(EndOf(mine), other.EndOf(theirs)); }
            }
        }
        return null;
    }

    // A later line may begin below this one's own beginning: then all of this one is void, and how far it went is not known any more.
    private LogIndex EndOf(int line) => line == Begins.Length - 1 ? End
        : Begins[line].IsKeptBy(Begins[line + 1])
        ? Begins[line].Index with { Offset = Begins[line + 1].Offset, Closed = Begins[line + 1].Version }
        : Begins[line].Index with { Offset = long.MaxValue };
}
