// The past in seeded cases, and the tests of the tests: with one rule switched off some case breaks the invariant that the rule is for.
using Slogger.Core.Resets;
using Slogger.Core.Retention;
using Slogger.Core.Versions;
using Slogger.Simulation.Past;

namespace Slogger.Simulation.Tests;

public class PastTests
{
    // In four parts, since a test has ten minutes, and a busy machine may have little time for it.
    [Theory]
    [InlineData(1)]
    [InlineData(5_001)]
    [InlineData(10_001)]
    [InlineData(15_001)]
    public void Past_AnySeed_EveryInvariantHolds(int first)
    {
        var happened = new HashSet<string>();
        for (int seed = first; seed < first + 5_000; seed++)
        {
            string? broken = PastRun.Try(new() { Seed = seed }, out PastWorld? world);
            Assert.True(broken is null, $"seed {seed}: {broken}");
            happened.UnionWith(world!.Happened.Keys);
        }
        string[] all = ["read in detail", "read from reduced files", "read as of a time", "snapshots", "reduced", "reduced in vain",
            "trimmed", "pruned", "gaps", "died before a gap", "moves", "moves given up", "resets", "resets called off", "managers of a reset killed",
            "leaders lost in a reset", "takeovers in the same world-line",
            "processes killed", "power cuts", "rollbacks",
            "closed by a stride", "checkpoints that nothing is read from"];
        Assert.Empty(all.Except(happened));
    }

    // KeepsOneLess is a rule for restores alone, and IgnoresNeeded one for logs that follow: TilePlanTests.
    [Theory]
    [InlineData("Past.OpenIsClosed", "R1")]
    [InlineData("Past.ExpiredIsShown", "R1|R4")]
    [InlineData("Past.SettledIgnored", "R1|R2")]
    [InlineData("Past.GapIgnored", "R1")]
    [InlineData("Past.LaterWindowServes", "R4")]
    [InlineData("Past.PruneIgnoresHold", "R6")]
    [InlineData("Past.PruneBreaksChain", "I1|R3|R6")]
    [InlineData("Past.LeaseIgnored", "R6")]
    [InlineData("Common.LowerIsNoMatter", "R2")]
    [InlineData("PastSim.ReducedNotDurable", "R3")]
    [InlineData("PastSim.OtherLineUsed", "R1")]
    [InlineData("PastSim.SyncForgotten", "R7")]
    [InlineData("Tile.DeletesUnreduced", "R3|R6")]
    [InlineData("Tile.SkipsUnreduced", "R3|R6")]
    [InlineData("Tile.IgnoresHold", "R6")]
    [InlineData("Tile.IgnoresCut", "I1|R3|R6")]
    [InlineData("Tile.IgnoresDetail", "R3|R6")]
    [InlineData("Tile.KeepsIdle", "R3")]
    [InlineData("Reset.WritesBeforeCommitted", "R5")]
    [InlineData("Reset.WritesBesideMarker", "R5")]
    [InlineData("Reset.ClosesWhileWriting", "R5")]
    [InlineData("Reset.ClosesTooEarly", "R5")]
    [InlineData("Reset.LetsInBeforeCut", "R5")]
    [InlineData("Reset.MarkIgnored", "R5")]
    public void Rule_IsOff_IsCaught(string rule, string by)
    {
        PastSettings settings = new PastSettings { Seed = 0 }.Without(rule)!;
        for (int seed = 1; seed <= 2000; seed++)
        {
            if (PastRun.Try(settings with { Seed = seed }, out _) is not { } broken) { continue; }
            Assert.Contains(broken.Split(':')[0], by.Split('|'));
            return;
        }
        Assert.Fail($"{rule}: not caught in 2000 seeds");
    }
}
