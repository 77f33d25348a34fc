// Property tests of the commit protocol: many seeded worlds, each with random interleavings of everything that can be
// late, lost or doubled (invariants I1, I2, I3, I5), and mutants that prove that the properties would notice a wrong line.
using Slogger.Core.Sessions;
using Slogger.Core.Shards;

namespace Slogger.Core.Tests.Model;

public class ShardWorldTests
{
    // SLOGGER_TEST_WORLDS in the environment for a long run.
    private static readonly int Worlds =
        int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_TEST_WORLDS"), out int n) ? n : 3000;

    [Fact]
    public void Commit_RandomInterleavings_MappingIsExactAndNothingCommittedIsLost()
    {
        Dictionary<string, int> happened = [];
        for (int seed = 1; seed <= Worlds; seed++)
        {
            ShardWorld world = Run(new() { Seed = seed, Pace = PaceOf(seed) });
            foreach ((string what, int n) in world.Happened) happened[what] = happened.GetValueOrDefault(what) + n;
        }

        TestContext.Current.TestOutputHelper?.WriteLine(string.Join(", ", happened.Select(h => $"{h.Key} {h.Value}")));
        // A world in which nothing happens proves nothing.
        foreach (string what in (string[])["SendMarker", "AppendBoundary", "AppendEmptyRun", "RecordDurable", "Committed",
            "shared connection died",
                     "stream gap", "awaited", "ordered end", "store died", "store unreachable", "proxy died", "power cut", "Continue",
                         "GapCheckpoint", "RestoreFromLog"])
            Assert.True(happened.GetValueOrDefault(what) > Worlds / 10,
                $"'{what}' happened {happened.GetValueOrDefault(what)} times in {Worlds} worlds");
    }

    [Fact]
    public void CommitByBgsave_RandomInterleavings_MappingIsExactAndNothingCommittedIsLost()
    {
        Dictionary<string, int> happened = [];
        for (int seed = 1; seed <= Worlds; seed++)
        {
            ShardWorld world = Run(new() { Seed = seed, Mode = CommitMode.Bgsave, Pace = PaceOf(seed) });
            foreach ((string what, int n) in world.Happened) happened[what] = happened.GetValueOrDefault(what) + n;
        }

        TestContext.Current.TestOutputHelper?.WriteLine(string.Join(", ", happened.Select(h => $"{h.Key} {h.Value}")));
        foreach (string what in (string[])["StartSave", "AppendBoundary", "AppendEmptyRun", "RecordDurable", "Committed", "awaited",
            "ordered end", "RestoreFromLog"])
            Assert.True(happened.GetValueOrDefault(what) > Worlds / 10,
                $"'{what}' happened {happened.GetValueOrDefault(what)} times in {Worlds} worlds");
    }

    [Fact]
    public void Commit_SessionsWithFewEntries_AreNeverToldWrongly()
    {
        for (int seed = 1; seed <= Worlds / 3; seed++) Run(new() { Seed = seed, Entries = 8, Pace = PaceOf(seed) });
    }

    [Theory]
    [InlineData((int)ShardMutation.BusyIgnored)]
    [InlineData((int)ShardMutation.SecondMarker)]
    [InlineData((int)ShardMutation.LostMarkerCounts)]
    [InlineData((int)ShardMutation.LostLeavesClean)]
    [InlineData((int)ShardMutation.RefusedLeavesClean)]
    [InlineData((int)ShardMutation.AnyMarkerCounts)]
    [InlineData((int)ShardMutation.AnyWorldLine)]
    [InlineData((int)ShardMutation.OpenMovesAtAnswer)]
    [InlineData((int)ShardMutation.LowestMovesAtSend)]
    [InlineData((int)ShardMutation.OpenGoesBack)]
    [InlineData((int)ShardMutation.RecordBeforeDurable)]
    [InlineData((int)ShardMutation.RunCountsAtOnce)]
    [InlineData((int)ShardMutation.CommittedBeforeRecorded)]
    [InlineData((int)ShardMutation.OldWorldLineDurable)]
    [InlineData((int)ShardMutation.OldWorldLineCommitted)]
    [InlineData((int)ShardMutation.StopsWithoutTick)]
    public void Mutant_OfTheShard_IsCaught(int mutation) =>
        AssertCaught(seed => new() { Seed = seed, Mutation = (ShardMutation)mutation }, ((ShardMutation)mutation).ToString());

    [Theory]
    [InlineData((int)ShardMutation.AwaitedSyncIsPutOff, (int)Pace.Never, "I8")]
    [InlineData((int)ShardMutation.AwaitedRecordIsPutOff, (int)Pace.Never, "I8")]
    [InlineData((int)ShardMutation.StoppingIsPutOff, (int)Pace.Never, "I8")]
    [InlineData((int)ShardMutation.PutOffSyncCounts, (int)Pace.Slow, "I2")]
    [InlineData((int)ShardMutation.RecordBeforeDurable, (int)Pace.Slow, "I2")]
    [InlineData((int)ShardMutation.RunCountsAtOnce, (int)Pace.Slow, "I2")]
    [InlineData((int)ShardMutation.CommittedBeforeRecorded, (int)Pace.Slow, "I2")]
    [InlineData((int)ShardMutation.StopsWithoutTick, (int)Pace.Slow, "I2")]
    public void Mutant_OfThePace_IsCaught(int mutation, int pace, string by)
    {
        string text = AssertCaught(seed => new() { Seed = seed, Mutation = (ShardMutation)mutation, Pace = (Pace)pace },
            ((ShardMutation)mutation).ToString());
        Assert.StartsWith(by, text, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData((int)SessionMutation.LowerBoundCommits, 1024)]
    [InlineData((int)SessionMutation.LowerBoundSurvives, 1024)]
    [InlineData((int)SessionMutation.RunsMerge, 1024)]
    [InlineData((int)SessionMutation.CoarseEarly, 8)]
    public void Mutant_OfTheSession_IsCaught(int mutation, int entries) =>
        AssertCaught(seed => new() { Seed = seed, SessionMutation = (SessionMutation)mutation, Entries = entries },
            ((SessionMutation)mutation).ToString());

    [Theory]
    [InlineData((int)ShardMutation.RefusedLeavesClean)]
    [InlineData((int)ShardMutation.OpenMovesAtAnswer)]
    [InlineData((int)ShardMutation.StrideIgnoresLabels)]
    [InlineData((int)ShardMutation.StopsWithoutTick)]
    public void Mutant_OfTheShardInBgsave_IsCaught(int mutation) =>
        AssertCaught(seed => new() { Seed = seed, Mode = CommitMode.Bgsave, Mutation = (ShardMutation)mutation },
            ((ShardMutation)mutation).ToString());

    [Fact]
    public void Mutant_OfTheCallerWhoTakesUnblockedOperationsForIdle_IsCaught() =>
        AssertCaught(seed => new() { Seed = seed, UnblockedIsIdle = true }, "UnblockedIsIdle");

    // Every third world does all at once, every third puts off, every third puts off for ever what is not awaited.
    private static Pace PaceOf(int seed) => (Pace)(seed % 3);

    private static string AssertCaught(Func<int, ShardWorldSettings> settings, string name)
    {
        for (int seed = 1; seed <= 2 * Worlds; seed++)
        {
            try
            {
                new ShardWorld(settings(seed)).Run();
            }
            catch (Exception e) when (e is ModelException or ArgumentException or InvalidOperationException)
            {
                TestContext.Current.TestOutputHelper?.WriteLine($"{name}: seed {seed}: {e.Message}");
                return e.Message;
            }
        }

        throw new ModelException($"The mutant {name} survived {2 * Worlds} worlds.");
    }

    private static ShardWorld Run(ShardWorldSettings settings)
    {
        ShardWorld world = new(settings);
        try
        {
            world.Run();
            return world;
        }
        catch (Exception e)
        {
            throw new ModelException($"seed {settings.Seed}, entries {settings.Entries}: {e.Message}\n{e.StackTrace}");
        }
    }
}
