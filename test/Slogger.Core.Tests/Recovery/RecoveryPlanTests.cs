// Issue section "Recovery" and design, sections 5 and 7: what is decided from what is known.
using Slogger.Core.Recovery;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Recovery;

public class RecoveryPlanTests
{
    private static readonly Boundary Last = new(new(3), new(50), 1000, 0, default);

    private static RecoveryFacts Facts(StoreSituation situation, long recorded = 50, bool log = true, bool supervised = false,
        SeedChoice seed = SeedChoice.None) => new()
    {
        Shard = new(2),
        Store = "127.0.0.1:6379",
        Log = log ? new LogEvidence(Last) : null,
        Recorded = new(new(3), new(recorded)),
        Situation = situation,
        Supervised = supervised,
        Seed = seed,
    };

    public static readonly TheoryData<bool, SeedChoice> Owners = new()
    {
        { false, SeedChoice.None }, { false, SeedChoice.FromRedis }, { false, SeedChoice.FromLog },
        { true, SeedChoice.None }, { true, SeedChoice.FromRedis }, { true, SeedChoice.FromLog },
    };

    [Theory, MemberData(nameof(Owners))]
    public void Decide_StreamContinues_ContinuesInTheSameWorldLine(bool supervised, SeedChoice seed) =>
        Assert.IsType<RecoveryDecision.Continue>(RecoveryPlan.Decide(Facts(StoreSituation.Continues, supervised: supervised, seed: seed)));

    [Theory, MemberData(nameof(Owners))]
    public void Decide_BacklogOverflowed_RestartsTheLogFromACheckpointOfTheSameHistory(bool supervised, SeedChoice seed) =>
        Assert.IsType<RecoveryDecision.GapCheckpoint>(
            RecoveryPlan.Decide(Facts(StoreSituation.AheadWithGap, supervised: supervised, seed: seed)));

    [Theory, MemberData(nameof(Owners))]
    public void Decide_StoreCameBackEmptyOrBehind_IsRestoredWhateverTheSeedSays(bool supervised, SeedChoice seed)
    {
        foreach (StoreSituation situation in (StoreSituation[])[StoreSituation.Empty, StoreSituation.BehindKnownOrigin])
            Assert.Equal(new RecoveryDecision.RestoreFromLog(new(4), Last, Begins: true),
                RecoveryPlan.Decide(Facts(situation, 40, supervised: supervised, seed: seed)));
    }

    [Theory, MemberData(nameof(Owners))]
    public void Decide_StoreUnreachable_Waits(bool supervised, SeedChoice seed)
    {
        Assert.IsType<RecoveryDecision.WaitForStore>(
            RecoveryPlan.Decide(Facts(StoreSituation.Unreachable, supervised: supervised, seed: seed)));
        Assert.IsType<RecoveryDecision.WaitForStore>(
            RecoveryPlan.Decide(Facts(StoreSituation.Unreachable, 0, log: false, supervised, seed)));
    }

    [Fact]
    public void Decide_ForeignDataAttached_IsNeverOverwrittenUnasked()
    {
        var refuse = Assert.IsType<RecoveryDecision.Refuse>(RecoveryPlan.Decide(Facts(StoreSituation.Foreign)));
        Assert.Contains("--seed from-redis", refuse.Text, StringComparison.Ordinal);
        Assert.Contains("--seed from-log", refuse.Text, StringComparison.Ordinal);
        Assert.Contains("Shard 2", refuse.Text, StringComparison.Ordinal);
        Assert.Contains("127.0.0.1:6379", refuse.Text, StringComparison.Ordinal);
    }

    [Fact]
    public void Decide_ForeignDataAttachedWithSeed_DoesAsTold()
    {
        Assert.Equal(new RecoveryDecision.RestoreFromLog(new(4), Last, Begins: true),
            RecoveryPlan.Decide(Facts(StoreSituation.Foreign, seed: SeedChoice.FromLog)));
        Assert.Equal(new RecoveryDecision.TakeOverByCheckpoint(new WorldLine(4), new(50)),
            RecoveryPlan.Decide(Facts(StoreSituation.Foreign, 45, seed: SeedChoice.FromRedis)));
    }

    [Theory]
    [InlineData(SeedChoice.None)]
    [InlineData(SeedChoice.FromRedis)]
    [InlineData(SeedChoice.FromLog)]
    public void Decide_ForeignDataInASupervisedRedis_IsOverwritten(SeedChoice seed) =>
        Assert.IsType<RecoveryDecision.RestoreFromLog>(RecoveryPlan.Decide(Facts(StoreSituation.Foreign, supervised: true, seed: seed)));

    [Fact]
    public void Decide_FirstStart_TakesOverWhatIsThere()
    {
        Assert.IsType<RecoveryDecision.FirstStartEmpty>(RecoveryPlan.Decide(Facts(StoreSituation.Empty, 0, log: false)));
        Assert.Equal(new RecoveryDecision.TakeOverByCheckpoint(null, VersionNumber.Zero),
            RecoveryPlan.Decide(Facts(StoreSituation.Foreign, 0, log: false)));
        Assert.Equal(new RecoveryDecision.TakeOverByCheckpoint(null, VersionNumber.Zero),
            RecoveryPlan.Decide(Facts(StoreSituation.Foreign, 0, log: false, seed: SeedChoice.FromRedis)));
        Assert.IsType<RecoveryDecision.Refuse>(RecoveryPlan.Decide(Facts(StoreSituation.Foreign, 0, log: false, seed: SeedChoice.FromLog)));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Decide_LogEndsBelowTheRecordedCut_IsAnErrorNotATornTail(bool log)
    {
        foreach (StoreSituation situation in Enum.GetValues<StoreSituation>())
        {
            if (situation == StoreSituation.Unreachable) continue;
            foreach (bool supervised in (bool[])[false, true])
            {
                var refuse = Assert.IsType<RecoveryDecision.Refuse>(RecoveryPlan.Decide(Facts(situation, 51, log, supervised)));
                Assert.Contains("51", refuse.Text, StringComparison.Ordinal);
                Assert.IsType<RecoveryDecision.Refuse>(RecoveryPlan.Decide(Facts(situation, 51, log, supervised, SeedChoice.FromLog)));
            }
        }

        Assert.Equal(
            new RecoveryDecision.TakeOverByCheckpoint(new WorldLine(4), new(51)),
            RecoveryPlan.Decide(Facts(StoreSituation.Foreign, 51, log, seed: SeedChoice.FromRedis)));
        Assert.IsType<RecoveryDecision.Refuse>(RecoveryPlan.Decide(Facts(StoreSituation.Empty, 51, log, seed: SeedChoice.FromRedis)));
    }

    [Fact]
    public void Decide_LogEndsBelowTheRecordedCut_SeedIsAdvisedOnlyWhereItIsFor()
    {
        RecoveryFacts facts = Facts(StoreSituation.Empty, recorded: 60);
        Assert.Contains("--seed from-redis makes", Assert.IsType<RecoveryDecision.Refuse>(RecoveryPlan.Decide(facts)).Text,
            StringComparison.Ordinal);
        string text = Assert.IsType<RecoveryDecision.Refuse>(RecoveryPlan.Decide(facts with { MaySeed = false })).Text;
        Assert.DoesNotContain("--seed", text, StringComparison.Ordinal);
        Assert.Contains("Bring the directory back from a copy", text, StringComparison.Ordinal);
    }

    [Fact]
    public void Decide_LogOfAnAbandonedWorldLine_NeverContinues()
    {
        // The proxy died between starting the world-line in the metadata and in the log.
        Boundary valid = Last with { Version = new(40), Offset = 800 };
        RecoveryFacts facts = Facts(StoreSituation.Continues) with { Recorded = new(new(4), new(40)), LastBelowBranch = valid };
        Assert.Equal(new RecoveryDecision.RestoreFromLog(new(4), valid, Begins: false), RecoveryPlan.Decide(facts));
        Assert.Equal(new RecoveryDecision.RestoreFromLog(new(4), valid, Begins: false),
            RecoveryPlan.Decide(facts with { Situation = StoreSituation.AheadWithGap }));
        Assert.IsType<RecoveryDecision.Refuse>(RecoveryPlan.Decide(facts with { LastBelowBranch = null }));
        Assert.IsType<RecoveryDecision.Refuse>(RecoveryPlan.Decide(facts with { LastBelowBranch = valid with { Version = new(39) } }));
    }

    private static RecoveryFacts Restored(StoreSituation situation, bool goesOn, long version = 30, long begun = 0,
        bool supervised = false, SeedChoice seed = SeedChoice.None) =>
        Facts(situation, supervised: supervised, seed: seed) with { Restored = new(new(version), goesOn, new(begun)) };

    [Theory, MemberData(nameof(Owners))]
    public void Decide_AnOlderVersionWasRestored_AsksWhateverTheSeedSays(bool supervised, SeedChoice seed)
    {
        foreach (StoreSituation situation in Enum.GetValues<StoreSituation>().Where(s => s != StoreSituation.Unreachable))
        {
            string text = Assert.IsType<RecoveryDecision.Refuse>(
                RecoveryPlan.Decide(Restored(situation, goesOn: false, supervised: supervised, seed: seed))).Text;
            Assert.Contains("slogger restore --version 30 --keep", text, StringComparison.Ordinal);
            Assert.Contains("slogger restore --latest", text, StringComparison.Ordinal);
            Assert.Contains("version 50", text, StringComparison.Ordinal);
        }
    }

    [Theory, MemberData(nameof(Owners))]
    public void Decide_GoesOnFromAnOlderVersion_BeginsAWorldLineBehindTheWholeHistory(bool supervised, SeedChoice seed)
    {
        foreach (StoreSituation situation in (StoreSituation[])[StoreSituation.Continues, StoreSituation.AheadWithGap,
            StoreSituation.BehindKnownOrigin, StoreSituation.Empty])
            Assert.Equal(new RecoveryDecision.GoOnFrom(new(4), new(30), new(50), Begins: true),
                RecoveryPlan.Decide(Restored(situation, goesOn: true, supervised: supervised, seed: seed)));
        Assert.IsType<RecoveryDecision.WaitForStore>(
            RecoveryPlan.Decide(Restored(StoreSituation.Unreachable, goesOn: true, supervised: supervised, seed: seed)));
    }

    // The start died behind the step in which the world-line was begun: it is that one, at its recorded branch, and no further one.
    [Fact]
    public void Decide_GoesOnFromAnOlderVersion_AStartThatDiedIsGoneOnWith()
    {
        Boundary valid = Last with { Version = new(45), Offset = 900 };
        RecoveryFacts facts = Restored(StoreSituation.Empty, goesOn: true, begun: 4) with { Recorded = new(new(4), new(44)),
            LastBelowBranch = valid };
        Assert.Equal(new RecoveryDecision.GoOnFrom(new(4), new(30), new(44), Begins: false), RecoveryPlan.Decide(facts));
        // Another shard's recovery has begun one since: this content is the first of the one behind it.
        Assert.Equal(new RecoveryDecision.GoOnFrom(new(6), new(30), new(45), Begins: true),
            RecoveryPlan.Decide(facts with { Recorded = new(new(5), new(44)) }));
    }

    [Fact]
    public void Decide_GoesOnFromAVersionThatARecoveryHasUndone_IsRefused()
    {
        Boundary valid = Last with { Version = new(29), Offset = 700 };
        RecoveryFacts facts = Restored(StoreSituation.Empty, goesOn: true) with { Recorded = new(new(4), new(29)),
            LastBelowBranch = valid };
        string text = Assert.IsType<RecoveryDecision.Refuse>(RecoveryPlan.Decide(facts)).Text;
        Assert.Contains("version 30", text, StringComparison.Ordinal);
        Assert.Contains("gone back to version 29", text, StringComparison.Ordinal);
        Assert.IsType<RecoveryDecision.GoOnFrom>(RecoveryPlan.Decide(facts with { LastBelowBranch = valid with { Version = new(30) } }));
    }

    [Theory, MemberData(nameof(Owners))]
    public void Decide_GoesOnFromAnOlderVersion_ForeignDataIsOverwrittenOnlyIfThatIsSaid(bool supervised, SeedChoice seed)
    {
        RecoveryDecision decision = RecoveryPlan.Decide(Restored(StoreSituation.Foreign, goesOn: true, supervised: supervised, seed: seed));
        if (supervised || seed == SeedChoice.FromLog)
        {
            Assert.Equal(new RecoveryDecision.GoOnFrom(new(4), new(30), new(50), Begins: true), decision);
        }
        else { Assert.Contains("--seed from-log", Assert.IsType<RecoveryDecision.Refuse>(decision).Text, StringComparison.Ordinal); }
    }

    // What was committed is not given up for it.
    [Fact]
    public void Decide_GoesOnFromAnOlderVersion_TheLogMustReachTheRecordedCutAllTheSame() =>
        Assert.Contains("would be lost",
            Assert.IsType<RecoveryDecision.Refuse>(
                RecoveryPlan.Decide(Restored(StoreSituation.Empty, goesOn: true) with { Recorded = new(new(3), new(51)) })).Text,
                    StringComparison.Ordinal);

    // By the word of who accepts it. The branch is not below the cut: no version number is given twice.
    [Theory]
    [InlineData(51, 51)]
    [InlineData(50, 50)]
    [InlineData(40, 50)]
    public void Decide_LessThanTheCutAndTheLossIsAccepted_GoesOnAboveTheCut(long recorded, long branch)
    {
        RecoveryFacts facts = Restored(StoreSituation.Empty, goesOn: true, version: 50) with { Recorded = new(new(3), new(recorded)) };
        facts = facts with { Restored = facts.Restored!.Value with { AcceptsLoss = true } };
        Assert.Equal(new RecoveryDecision.GoOnFrom(new(4), new(50), new(branch), Begins: true), RecoveryPlan.Decide(facts));
        // The start died behind the step in which the world-line was begun.
        facts = facts with
        {
            Restored = facts.Restored!.Value with { Begun = new(4) }, Recorded = new(new(4), new(branch)), LastBelowBranch = Last,
        };
        Assert.Equal(new RecoveryDecision.GoOnFrom(new(4), new(50), new(branch), Begins: false), RecoveryPlan.Decide(facts));
    }

    [Fact]
    public void Decide_LogAheadOfTheMetadatasWorldLine_IsRefused() =>
        Assert.IsType<RecoveryDecision.Refuse>(
            RecoveryPlan.Decide(Facts(StoreSituation.Continues) with { Recorded = new(new(2), new(10)) }));

    [Fact]
    public void LastValid_SeveralBranches_IsTheLowestLaterOne()
    {
        WorldLineBranch[] branches = [new(new(1), VersionNumber.Zero), new(new(2), new(10)), new(new(3), new(8)), new(new(4), new(30))];
        Assert.Equal(new(8), WorldLineBranches.LastValid(new(1), branches));
        Assert.Equal(new(30), WorldLineBranches.LastValid(new(3), branches));
        Assert.Equal(new(long.MaxValue), WorldLineBranches.LastValid(new(4), branches));
    }
}
