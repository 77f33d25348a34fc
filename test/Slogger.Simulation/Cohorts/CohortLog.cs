// A log of a case: a list of versions, and where each line begins in it. An offset is a number of versions.
using System.Collections.Immutable;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Cohorts;

/// <summary>A version in a log.</summary>
/// <param name="Reign">In which it was made.</param>
/// <param name="Id">Unique: two logs that hold it at one place agree on it.</param>
internal readonly record struct CohortEntry(Reign Reign, long Id);

internal sealed record CohortLog(ImmutableArray<CohortEntry> Entries, ImmutableArray<LogBranch> Begins) : IShippedLog
{
    public static readonly ShardId Shard = new(0);

    public static readonly StreamHistory History = new("history", 0);

    private static readonly LogBranch s_first = new(new WorldLine(1), VersionNumber.Zero, 0);

    public static readonly CohortLog Empty = new([], [s_first]);

    /// <summary>How far it goes; the default: nothing was ever in it.</summary>
    public LogIndex Index => Begins.Length == 1 && Entries.IsEmpty ? default : Lines.End;

    public LogLines Lines => new(Begins, UpTo(Entries.Length, Begins[^1].Line));

    public CohortLog Add(params ReadOnlySpan<CohortEntry> entries) => this with { Entries = Entries.AddRange(entries) };

    public CohortLog Begin(LogBranch line) => this with { Begins = Begins.Add(line) };

    public CohortLog RewindTo(LogIndex to) =>
        new(Entries[..(int)to.Offset], [.. Begins.TakeWhile(b => b.Line <= to.Line)]);

    public int Common(ReadOnlySpan<CohortEntry> other) => Entries.AsSpan().CommonPrefixLength(other);

    public LogIndex? EndOfPiece(LogIndex from, LogIndex limit, int bytesMax) =>
        UpTo((int)Math.Min(limit.Offset, from.Offset + bytesMax), from.Line);

    private static LogIndex UpTo(int count, LogLine line) => new(line.WorldLine, count, new VersionNumber(count)) { Reign = line.Reign };
}
