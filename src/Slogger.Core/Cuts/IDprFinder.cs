// What the three finders have in common: reports in, a cut out. Pure: the caller decides when to advance (once per tick),
// and records each new cut before it tells anybody (effects carry their order: recorded before committed).

namespace Slogger.Core.Cuts;

/// <summary>Finds which cut of the cluster is committed, given what the shards report durable. Not thread-safe.
/// Source: DPR, sections 3.3 and 3.4.</summary>
/// <remarks>Promises of every finder: each cut is closed under dependency and durable at every shard; the cut never goes
/// back (invariant I3); once all reports of a world-line have come the result is that of their order, however late, often or mixed they
/// came (only a stride that grew may hold back longer who was not told of it in time); nothing that was reported in another
/// world-line counts (invariant I5).</remarks>
public interface IDprFinder
{
    /// <summary>The cut as of the last <see cref="Advance"/>; before it, the one that the finder started from.</summary>
    Cut Current { get; }

    /// <summary>A shard reported. A report of another world-line, or of what is known already, changes nothing.</summary>
    /// <exception cref="ArgumentException">The cluster has no such shard, the range goes back, or the stride is below 1.</exception>
    void Report(in VersionReport report);

    /// <summary>Moves the cut as far as the reports allow.</summary>
    /// <returns>Whether <see cref="Current"/> is another one now.</returns>
    bool Advance();

    /// <summary>A new world-line has started at this cut, which becomes the current one. Each shard counts as durable up to
    /// its branch, and no further, until it reports in the new world-line. One that is not new is ignored.</summary>
    /// <exception cref="ArgumentException">The branch is below the current cut (invariant I3), or has other shards.</exception>
    void BeginWorldLine(Cut branch);
}
