// What a recovery did to the session (DPR, sections 2, 4.2 and 5.4; invariants I1, I2 and I3).
using System.Collections.Immutable;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Sessions;

public sealed partial class ClientSession
{
    /// <summary>A new world-line started, from a cut at one version.</summary>
    /// <param name="abandoned">The world-line that the branch was worked out for: that of the batch that was refused.</param>
    /// <param name="branch">The new world-line, and the version that every shard went back to. If there were several
    /// world-lines since the abandoned one: the newest, and the lowest of their branches.</param>
    /// <returns>What became of every operation. Null if the session is not in the abandoned world-line any more: nothing
    /// changes. It either knows the new one, or will hear of it with the branch that counts for what it has done since.</returns>
    /// <exception cref="BrokenInvariantException">The branch does not hold what was reported as committed.</exception>
    public ClientRollback? OnRollback(WorldLine abandoned, WorldPoint branch)
    {
        if (!IsNews(abandoned, branch.WorldLine)) return null;
        for (int s = 0; s < _shards.Length; s++) CheckBranch(branch.WorldLine, s, branch.Version);
        _uniformCut = branch.Version;
        return Settle(branch.WorldLine);
    }

    /// <summary>A new world-line started, from a cut of one version for each shard.</summary>
    /// <param name="abandoned">The world-line that the branch was worked out for: that of the batch that was refused.</param>
    /// <param name="next">The new world-line.</param>
    /// <param name="byShard">What each shard went back to, by number. If there were several world-lines since the abandoned
    /// one: the lowest of each shard.</param>
    /// <returns>As with one version.</returns>
    /// <exception cref="ArgumentException">A shard is missing that the session has used.</exception>
    /// <exception cref="BrokenInvariantException">The branch does not hold what was reported as committed.</exception>
    public ClientRollback? OnRollback(WorldLine abandoned, WorldLine next, ReadOnlySpan<VersionNumber> byShard)
    {
        if (!IsNews(abandoned, next)) return null;
        for (int s = byShard.Length; s < _shards.Length; s++)
            if (_shards[s].IsUsed) throw new ArgumentException(
                $"The branch says nothing of shard {s}, which session {Id} has used.", nameof(byShard));
        for (int s = 0; s < byShard.Length; s++) CheckBranch(next, s, byShard[s]);
        for (int s = 0; s < byShard.Length; s++) _shards[s].Cut = byShard[s];
        return Settle(next);
    }

    // Several shards refuse batches of the same world-line, and not all know the same newest one.
    private bool IsNews(WorldLine abandoned, WorldLine next) =>
        (abandoned == WorldLine || Is(ClientMutation.AnyBranchCounts)) && next > WorldLine;

    private void CheckBranch(WorldLine next, int shard, VersionNumber branch)
    {
        _ = ViewOf(new(shard));
        if (branch >= CutOf(shard)) return;
        throw new BrokenInvariantException(
            $"I2, I3: session {Id}, shard {shard}: world-line {next} branches off at version {branch}, but version {CutOf(shard)} of "
                + $"world-line {WorldLine} was reported as committed.");
    }

    /// <summary>The branch is the first cut of the new world-line: decides by it, and goes on above it.</summary>
    private ClientRollback Settle(WorldLine next)
    {
        List<ExceptionRange> gone = [];
        (VersionNumber lowest, VersionNumber highest) = CutBounds();
        SequenceNumber survived = Committed;
        int p = 0, a = 0;
        while (p < _pending.Count || a < _answered.Count)
        {
            bool unanswered = a == _answered.Count || (p < _pending.Count && _pending[p].First < _answered[a].First);
            Run run = unanswered ? _pending[p++] : _answered[a++];
            if (!unanswered && run.Upper == VersionNumber.Zero) continue; // reported as uncertain already
            VersionNumber last = run.Shard == Run.SeveralShards ? highest : CutOf(run.Shard);
            if (Survives(run, unanswered)) survived = run.Last > survived ? run.Last : survived;
            else if (run.Lower > last || (unanswered && Is(ClientMutation.UnansweredIsLost))) Extend(gone, run.Range, ExceptionKind.Lost);
            else Extend(gone, run.Range, ExceptionKind.Uncertain);
        }

        _pending.Clear();
        _answered.Clear();
        Unanswered = 0;
        foreach (ExceptionRange range in gone) Remember(range);
        for (int s = 0; s < _shards.Length; s++) _shards[s] = new() { Cut = _shards[s].Cut, IsUsed = _shards[s].IsUsed };
        WorldLine = next;
        AtLeast = lowest.Next;
        Committed = Begun;
        return new(
            next, survived,
            [.. gone.Where(g => g.Range.Last < survived)],
            Behind(survived, gone, ExceptionKind.Lost),
            Behind(survived, gone, ExceptionKind.Uncertain));
    }

    private bool Survives(in Run run, bool unanswered)
    {
        // An answer is the only proof that an operation was executed at all.
        if (unanswered) return Is(ClientMutation.UnansweredSurvives) && run.Lower <= CutOf(run.Shard);
        return IsCovered(run) || (Is(ClientMutation.LowerBoundSurvives) && run.Lower <= CutBounds().Highest);
    }

    private static ImmutableArray<SequenceRange> Behind(SequenceNumber survived, List<ExceptionRange> gone, ExceptionKind kind) =>
        [.. gone.Where(g => g.Kind == kind && g.Range.First > survived).Select(g => g.Range)];

    private static void Extend(List<ExceptionRange> ranges, SequenceRange next, ExceptionKind kind)
    {
        if (ranges.Count > 0 && ranges[^1].Kind == kind && ranges[^1].Range.Last.Number + 1 == next.First.Number)
            ranges[^1] = new(new(ranges[^1].Range.First, next.Last), kind);
        else ranges.Add(new(next, kind));
    }
}
