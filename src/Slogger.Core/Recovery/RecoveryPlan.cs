// Decides how a shard goes on at a start or after a failure (design, sections 5 and 7; invariants I3 and I5). Pure: the same
// facts give the same decision. What must never happen: data of unknown origin overwritten unasked, a recovery below the
// recorded cut, a continuation of an abandoned world-line.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Recovery;

/// <summary>The recovery decision.</summary>
public static class RecoveryPlan
{
    /// <summary>Decides. The seed choice only matters where the decision would otherwise be a refusal, so that it can stay in a
    /// unit file without doing harm at the next crash.</summary>
    public static RecoveryDecision Decide(RecoveryFacts facts)
    {
        if (facts.Situation == StoreSituation.Unreachable)
            return new RecoveryDecision.WaitForStore($"Shard {facts.Shard}: {facts.Store} cannot be reached yet.");
        if (facts.IsJoining && !(facts.Log?.Last.WorldLine > facts.Recorded.WorldLine)) return ToJoin(facts);
        return facts.Log is { } log ? WithLog(facts, log) : WithoutLog(facts);
    }

    // Nobody was served, so all of its versions are empty, whatever world-line they were in: it begins where it need never go back
    // behind, and not below what it has said itself.
    private static RecoveryDecision ToJoin(RecoveryFacts facts)
    {
        if (facts.KeyCount > 0)
        {
            return new RecoveryDecision.Refuse(
                $"Shard {facts.Shard}: {facts.Store} holds {facts.KeyCount} keys, and a shard joins a cluster with an empty Redis. "
                + "Nothing was changed. Give it another Redis, or empty this one (FLUSHALL) if its data is of no use.");
        }

        VersionNumber at = facts.Recorded.Version;
        if (facts.Log is { } log && log.Last.WorldLine == facts.Recorded.WorldLine) at = VersionNumber.Max(at, log.Last.Version);
        return new RecoveryDecision.BeginToJoin(new(facts.Recorded.WorldLine, at));
    }

    private static RecoveryDecision WithoutLog(RecoveryFacts facts)
    {
        if (facts.Recorded.Version > VersionNumber.Zero)
            return BelowCut(facts, "its version log is empty");
        if (facts.Situation == StoreSituation.Empty) return new RecoveryDecision.FirstStartEmpty();
        if (facts.Seed == SeedChoice.FromLog)
        {
            return new RecoveryDecision.Refuse(
                $"Shard {facts.Shard}: --seed from-log was given, but the version log is empty: there is nothing to restore. "
                + $"Start without --seed to take over the data of {facts.Store}, or give the data directory (--data) that holds the log.");
        }

        return new RecoveryDecision.TakeOverByCheckpoint(null, VersionNumber.Zero);
    }

    private static RecoveryDecision WithLog(RecoveryFacts facts, LogEvidence log)
    {
        WorldLine current = facts.Recorded.WorldLine;
        Boundary last = log.Last;
        if (last.WorldLine > current)
        {
            return new RecoveryDecision.Refuse(
                $"Shard {facts.Shard}: the version log is in world-line {last.WorldLine}, the metadata only in {current}. "
                + "The metadata was restored from an old copy, or --data and --metadata do not belong together. Bring the matching pair.");
        }

        bool abandoned = last.WorldLine < current;
        if (abandoned)
        {
            // The records above the branch are void, and the store may hold their effects.
            if (facts.LastBelowBranch is not { } valid)
                return BelowCut(facts, "its version log has no boundary below the branch of the current world-line");
            last = valid;
        }

        if (last.Version < facts.Recorded.Version && facts.Restored is not { AcceptsLoss: true })
            return BelowCut(facts, $"its version log ends at version {last.Version}");
        if (facts.Restored is { } restored) return AfterRestore(facts, restored, last);
        RecoveryDecision restore = new RecoveryDecision.RestoreFromLog(abandoned ? current : current.Next, last, !abandoned);
        return facts.Situation switch
        {
            StoreSituation.Continues when !abandoned => new RecoveryDecision.Continue(),
            StoreSituation.AheadWithGap when !abandoned => new RecoveryDecision.GapCheckpoint(),
            StoreSituation.Foreign when !facts.Supervised => facts.Seed switch
            {
                SeedChoice.FromLog => restore,
                SeedChoice.FromRedis => new RecoveryDecision.TakeOverByCheckpoint(current.Next, last.Version),
                _ => Unknown(facts, last),
            },
            _ => restore,
        };
    }

    // An administrator has put an older version into the store. Neither the newest version nor the older one may win without a word: --seed
    // stays in unit files, so it is no such word. To go on from the older one is a write like any other, so the cut need not go back (I2,
    // I3).
    private static RecoveryDecision AfterRestore(RecoveryFacts facts, RestoredState restored, Boundary last)
    {
        if (!restored.GoesOn)
        {
            return new RecoveryDecision.Refuse(
                $"Shard {facts.Shard}: slogger restore has put version {restored.Version} into {facts.Store}, and the history goes "
                + $"up to version {last.Version}. Nothing was changed. Choose how to go on, with the --data and --metadata of this shard: "
                + $"slogger restore --version {restored.Version} --keep goes on from version {restored.Version}, in a new world-line "
                + "(what was done after it is undone); slogger restore --latest returns to the newest version. Then start again.");
        }

        if (restored.Version > last.Version)
        {
            return new RecoveryDecision.Refuse(
                $"Shard {facts.Shard}: it is to go on from version {restored.Version}, but a recovery of the cluster has gone "
                + $"back to version {last.Version} since. Choose another version (slogger restore --list shows them), or return to the "
                + "newest by slogger restore --latest.");
        }

        return facts.Situation == StoreSituation.Foreign && !facts.Supervised && facts.Seed != SeedChoice.FromLog
            ? new RecoveryDecision.Refuse(
                $"Shard {facts.Shard}: it is to go on from version {restored.Version}, but {facts.Store} holds data of unknown origin. "
                + "Nothing was changed. Give the Redis that was restored, or an empty one; --seed from-log replaces the data of this one.")
            // Nothing of this shard is in a world-line that it has not entered: whoever has begun it, this content can stand at its branch.
            : restored.Begun == facts.Recorded.WorldLine
            ? new RecoveryDecision.GoOnFrom(restored.Begun, restored.Version, facts.Recorded.Version, Begins: false)
            : new RecoveryDecision.GoOnFrom(facts.Recorded.WorldLine.Next, restored.Version,
                VersionNumber.Max(last.Version, facts.Recorded.Version), Begins: true);
    }

    private static RecoveryDecision BelowCut(RecoveryFacts facts, string how)
    {
        // Lowering the cut would take back what clients were told is committed. A store that is adopted, as declared truth, goes on above
        // it; so does a version of the log, by the word of who accepts the loss.
        if (facts.Seed == SeedChoice.FromRedis && facts.Situation != StoreSituation.Empty)
            return new RecoveryDecision.TakeOverByCheckpoint(facts.Recorded.WorldLine.Next, facts.Recorded.Version);
        return new RecoveryDecision.Refuse(
            $"Shard {facts.Shard}: version {facts.Recorded.Version} of world-line {facts.Recorded.WorldLine} was committed, but {how}. "
            + "Committed operations would be lost; this is not a torn tail. Check that --data is this shard's directory and that its disk "
            + "is complete. "
            + (facts.MaySeed
                ? $"If the log is gone for good, --seed from-redis makes the data that {facts.Store} holds now the truth, in a "
                    + "new world-line; --seed from-log cannot help, since the log holds less than what was committed. "
                : "Bring the directory back from a copy: what was committed is nowhere else. ")
            + (facts.Log is null ? "" : "To go on without what is lost: slogger restore --latest --keep --i-accept-loss."));
    }

    private static RecoveryDecision.Refuse Unknown(RecoveryFacts facts, Boundary last) => new(
        $"Shard {facts.Shard}: {facts.Store} holds data of unknown origin, and the version log holds history up to version {last.Version}. "
        + "Nothing was changed. Choose which is the truth: "
        + "--seed from-redis keeps the data of the Redis and starts a new history from it (what the log holds is no longer used); "
        + "--seed from-log replaces the data of the Redis by the log's last version (what the Redis holds now is lost).");
}
