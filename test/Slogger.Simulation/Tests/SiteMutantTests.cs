// Rules of disaster recovery, each switched off: some case among the first so many breaks the invariant that it is for. What needs
// coincidences that few seeds show has a story (Scenarios/the-report-of-a-deposed-receiver.txt), or a test of its own in Slogger.Core.Tests
// (chunks of two seeds, a lease that is counted from a reply that was late, a switch-over that is called off without asking the backup).
using Slogger.Core.Replication;

namespace Slogger.Simulation.Tests;

public class SiteMutantTests
{
    [Theory]
    [InlineData((int)ShipMutation.OwnDurableIsCut, "I4|I7", 100)]
    [InlineData((int)ShipMutation.EndIsDurable, "I4|I7", 100)]
    [InlineData((int)ShipMutation.ResendForgotten, "I8", 1000)]
    public void Shipper_RuleIsOff_IsCaught(int mutation, string by, int seeds) => AssertCaught(mutation, by, seeds);

    // That a copy is offered before its floor is durable, or although a world-line keeps less, harms nobody: a receiver that has it finds
    // the world-line behind its base, and is seeded anew (BehindSeedAccepted).
    [Theory]
    [InlineData((int)ShipMutation.OldLifeCounts, "I8", 4000)]
    [InlineData((int)ShipMutation.CopyUsedUnsynced, "I1|I4|I7", 20000)]
    [InlineData((int)ShipMutation.BehindSeedAccepted, "I5", 4000)]
    public void Seeding_RuleIsOff_IsCaught(int mutation, string by, int seeds) => AssertCaught(mutation, by, seeds);

    [Theory]
    [InlineData((int)ShipMutation.AppendsUnconfirmed, "I4|I7", 100)]
    [InlineData((int)ShipMutation.StagedOutlivesSender, "I6|I7", 8000)]
    [InlineData((int)ShipMutation.OlderSenderAccepted, "I6", 6000)]
    [InlineData((int)ShipMutation.SenderNotRecorded, "I6", 6000)]
    [InlineData((int)ShipMutation.GapsAccepted, "I1|I4|I5|I7", 100)]
    [InlineData((int)ShipMutation.AckBeforeSync, "I4", 100)]
    [InlineData((int)ShipMutation.HeldByReceipt, "I4", 100)]
    [InlineData((int)ShipMutation.HeldWithoutWorldLine, "I4|I7", 1500)]
    [InlineData((int)ShipMutation.AppliesBeforeWatermark, "I4", 100)]
    [InlineData((int)ShipMutation.SeedCountsAtOnce, "I7", 500)]
    public void Receiver_RuleIsOff_IsCaught(int mutation, string by, int seeds) => AssertCaught(mutation, by, seeds);

    // The backup is far behind, and gets windows in place of the log. What needs two streams with windows at a time, or replies that are
    // late to the point, has tests of its own in Slogger.Core.Tests (WindowTests).
    [Theory]
    [InlineData((int)ShipMutation.WindowsBeyondCut, "I4|I5|I7", 500)]
    [InlineData((int)ShipMutation.CutInsideWindow, "I7", 3000)]
    [InlineData((int)ShipMutation.WindowsNotTold, "I4|I7", 3000)]
    [InlineData((int)ShipMutation.WindowTakenInParts, "I1|I7", 3000)]
    public void Windows_RuleIsOff_IsCaught(int mutation, string by, int seeds) =>
        AssertCaught(mutation, by, seeds, settings: ClusterTests.WithWindows);

    [Theory]
    [InlineData((int)ShipMutation.WatermarkBeforeAll, "I4|I7", 100)]
    [InlineData((int)ShipMutation.WatermarkByVersion, "I4", 200)]
    [InlineData((int)ShipMutation.WatermarkIsMax, "I4", 100)]
    [InlineData((int)ShipMutation.FloorsNotCompared, "I7", 4000)]
    [InlineData((int)ShipMutation.OldGenerationCounts, "I4|I7", 3000)]
    public void Watermarks_RuleIsOff_IsCaught(int mutation, string by, int seeds) =>
        AssertCaught(mutation, by, seeds, checksProgress: true);

    [Theory]
    [InlineData((int)ShipMutation.StaleFinalCounts, "I4", 5000)]
    [InlineData((int)ShipMutation.FinalBeforeAll, "I4", 400)]
    [InlineData((int)ShipMutation.SeedingIgnored, "I4|I7", 100)]
    [InlineData((int)ShipMutation.FrozenGoesOn, "I4|I6|I8", 200)]
    [InlineData((int)ShipMutation.FreezeForgotten, "I4|I6|I8", 400)]
    [InlineData((int)ShipMutation.NothingVoided, "I7", 200)]
    [InlineData((int)ShipMutation.OpensBeforeVoid, "I5", 2000)]
    [InlineData((int)ShipMutation.OffersEarly, "I2|I4", 200)]
    [InlineData((int)ShipMutation.OpenVersionNotAwaited, "I2", 2000)]
    [InlineData((int)ShipMutation.LeaseNotAwaited, "I6", 200)]
    [InlineData((int)ShipMutation.GateNotKept, "I6", 4000)]
    [InlineData((int)ShipMutation.OpensForAnyOwner, "I6", 2000)]
    public void Failover_RuleIsOff_IsCaught(int mutation, string by, int seeds) => AssertCaught(mutation, by, seeds);

    // The backup refuses, since it is being seeded: then nobody serves.
    [Fact]
    public void Failover_DeposesBeforeTaken_NobodyGetsOn() =>
        AssertCaught((int)ShipMutation.DeposesBeforeTaken, "I8", 200, checksProgress: true);

    [Theory]
    [InlineData((int)ShipMutation.ReadyBeforeEntered, "I5", 500)]
    [InlineData((int)ShipMutation.OpensBeforeReady, "I5", 200)]
    [InlineData((int)ShipMutation.HandsOverEarly, "I6", 200)]
    [InlineData((int)ShipMutation.PromotionNotAwaited, "I7", 500)]
    [InlineData((int)ShipMutation.DeposedHandsOver, "I6", 2000)]
    public void TakeOver_RuleIsOff_IsCaught(int mutation, string by, int seeds) => AssertCaught(mutation, by, seeds);

    private static void AssertCaught(int mutation, string by, int seeds, bool checksProgress = false, SimSettings? settings = null) =>
        MutantTests.AssertCaught(((ShipMutation)mutation).ToString(), by, seeds,
            (settings ?? new() { Seed = 0, Backup = true }) with { Ship = (ShipMutation)mutation }, checksProgress);
}
