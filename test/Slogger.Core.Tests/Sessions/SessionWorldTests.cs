// Property tests of libDPR's two halves: many seeded worlds (invariants I1, I2, I3, I5, I8), and mutants that prove that the
// properties would notice a wrong line.
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.Tests.Model;

namespace Slogger.Core.Tests.Sessions;

public class SessionWorldTests
{
    // SLOGGER_TEST_WORLDS in the environment for a long run.
    private static readonly int Worlds =
        int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_TEST_WORLDS"), out int n) ? n : 1500;

    [Theory]
    [InlineData((int)CutKind.Grid)]
    [InlineData((int)CutKind.RealTime)]
    [InlineData((int)CutKind.Exact)]
    public void Sessions_RandomInterleavings_AreToldExactlyWhatIsTrue(int cuts)
    {
        Dictionary<string, int> happened = [];
        for (int seed = 1; seed <= Worlds; seed++)
        {
            SessionWorld world = Run(Settings(seed, (CutKind)cuts));
            foreach ((string what, int n) in world.Happened) happened[what] = happened.GetValueOrDefault(what) + n;
        }

        TestContext.Current.TestOutputHelper?.WriteLine(string.Join(", ", happened.Select(h => $"{h.Key} {h.Value}")));
        // A world in which nothing happens proves nothing.
        foreach (string what in (string[])["Completed", "Ignored", "Execute", "Rollback", "WaitForWorldLine", "cut", "connection lost",
                     "crash", "crash during recovery", "rollback", "rollback over several world-lines", "late refusal", "Survived", "Lost",
                         "Uncertain"])
            Assert.True(happened.GetValueOrDefault(what) > Worlds / 10,
                $"'{what}' happened {happened.GetValueOrDefault(what)} times in {Worlds} worlds");
        // Where replies are held, whoever has heard one finds its version open on every clock.
        foreach (string what in (string[])["WaitUntil", "FastForward"])
            Assert.Equal((CutKind)cuts != CutKind.RealTime, happened.ContainsKey(what));
    }

    [Theory]
    [InlineData((int)CutKind.Grid)]
    [InlineData((int)CutKind.Exact)]
    public void Sessions_WithFewRuns_AreNeverToldWrongly(int cuts)
    {
        for (int seed = 1; seed <= Worlds; seed++) Run(Settings(seed, (CutKind)cuts) with { RunsMax = 8 });
    }

    [Theory]
    [InlineData((int)ClientMutation.SeenIsForgotten, (int)CutKind.Grid, "I1")]
    [InlineData((int)ClientMutation.ToldForEver, (int)CutKind.Exact, "I1")]
    [InlineData((int)ClientMutation.OneDependency, (int)CutKind.Exact, "I1")]
    [InlineData((int)ClientMutation.AnyWorldLineCommits, (int)CutKind.Grid, "I")]
    [InlineData((int)ClientMutation.PendingIsNoException, (int)CutKind.Grid, "I2")]
    [InlineData((int)ClientMutation.LateIsCommitted, (int)CutKind.Grid, "I2")]
    [InlineData((int)ClientMutation.UncoveredIsPassed, (int)CutKind.Grid, "I1")]
    [InlineData((int)ClientMutation.StrictIsRelaxed, (int)CutKind.Grid, "I1")]
    [InlineData((int)ClientMutation.AnyBranchCounts, (int)CutKind.Grid, "I")]
    [InlineData((int)ClientMutation.UnansweredIsLost, (int)CutKind.Grid, "I1")]
    [InlineData((int)ClientMutation.UnansweredSurvives, (int)CutKind.Grid, "I1")]
    public void Mutant_OfTheSession_IsCaught(int mutation, int cuts, string by) =>
        AssertCaught(seed => Settings(seed, (CutKind)cuts) with { Mutation = (ClientMutation)mutation },
            ((ClientMutation)mutation).ToString(), by);

    [Theory]
    [InlineData((int)ClientMutation.MergedCommitsEarly, (int)CutKind.Grid)]
    [InlineData((int)ClientMutation.MergedIsOfOneShard, (int)CutKind.Exact)]
    [InlineData((int)ClientMutation.LowerBoundSurvives, (int)CutKind.Grid)]
    public void Mutant_OfMergedRuns_IsCaught(int mutation, int cuts) =>
        AssertCaught(seed => Settings(seed, (CutKind)cuts) with { Mutation = (ClientMutation)mutation, RunsMax = 8 },
            ((ClientMutation)mutation).ToString(), "I");

    [Theory]
    [InlineData((int)GateMutation.OlderWorldLineExecutes)]
    [InlineData((int)GateMutation.NewerWorldLineExecutes)]
    [InlineData((int)GateMutation.EarlierVersionExecutes)]
    public void Mutant_OfTheGate_IsCaught(int mutation) =>
        AssertCaught(seed => Settings(seed, CutKind.Grid) with { GateMutation = (GateMutation)mutation },
            ((GateMutation)mutation).ToString(), "I");

    [Fact]
    public void Mutant_OfTheShardThatHoldsNoReplies_IsCaught() =>
        AssertCaught(seed => Settings(seed, CutKind.RealTime) with { RepliesAreNotHeld = true }, "RepliesAreNotHeld", "I1");

    private static SessionWorldSettings Settings(int seed, CutKind cuts) => new() { Seed = seed, Cuts = cuts, Strict = seed % 4 == 3 };

    private static void AssertCaught(Func<int, SessionWorldSettings> settings, string name, string by)
    {
        for (int seed = 1; seed <= 2 * Worlds; seed++)
        {
            try
            {
                new SessionWorld(settings(seed)).Run();
            }
            catch (Exception e) when (e is ModelException or BrokenInvariantException)
            {
                TestContext.Current.TestOutputHelper?.WriteLine($"{name}: seed {seed}: {e.Message}");
                Assert.StartsWith(by, e.Message, StringComparison.Ordinal);
                return;
            }
        }

        throw new ModelException($"The mutant {name} survived {2 * Worlds} worlds.");
    }

    private static SessionWorld Run(SessionWorldSettings settings)
    {
        SessionWorld world = new(settings);
        try
        {
            world.Run();
            return world;
        }
        catch (Exception e)
        {
            throw new ModelException($"seed {settings.Seed}, cuts {settings.Cuts}, runs {settings.RunsMax}: {e.Message}\n{e.StackTrace}");
        }
    }
}
