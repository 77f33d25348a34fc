// Property tests of moves of slots: many seeded worlds with crashes before and after each step, and mutants that prove that
// the properties would notice a wrong line (invariants I1, I2, I5, I6, I8; paper, section 5.3).
using Slogger.Core.Ownership;
using Slogger.Core.Tests.Model;

namespace Slogger.Core.Tests.Ownership;

public class MoveWorldTests
{
    // SLOGGER_TEST_WORLDS in the environment for a long run.
    private static readonly int Worlds =
        int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_TEST_WORLDS"), out int n) ? n : 1500;

    [Fact]
    public void Move_RandomCrashes_OneOwnerAndNothingLost()
    {
        Dictionary<string, int> happened = [];
        for (int seed = 1; seed <= Worlds; seed++)
        {
            MoveWorld world = new(new(seed));
            try
            {
                world.Run();
            }
            catch (Exception e)
            {
                throw new ModelException($"seed {seed}: {e.Message}\n{e.StackTrace}");
            }

            foreach ((string what, int n) in world.Happened) happened[what] = happened.GetValueOrDefault(what) + n;
        }

        TestContext.Current.TestOutputHelper?.WriteLine(string.Join(", ", happened.Select(h => $"{h.Key} {h.Value}")));
        // A world in which nothing happens proves nothing.
        foreach (string what in (string[])["operation", "planned", "cancelled", "process ended", "recovery", "recovery gives slots back",
            "marker lost", "way broken", "Applied Planned", "Withhold", "Import", "Discard", "Applied Leaving", "Applied Landed",
            "Applied Finished", "read at a former owner", "read as a whole", "left out of the whole", "not done by clients",
            "Refused Leaving", "Deposed Leaving", "AlreadyApplied Leaving", "AlreadyApplied Finished"])
            Assert.True(happened.GetValueOrDefault(what) > Worlds / 25,
                $"'{what}' happened {happened.GetValueOrDefault(what)} times in {Worlds} worlds");
    }

    [Theory]
    [InlineData((int)MoveMutation.ServesOn)]
    [InlineData((int)MoveMutation.LeavesBeforeWithheld)]
    [InlineData((int)MoveMutation.CopiesForAnyRow)]
    [InlineData((int)MoveMutation.ServesBeforeTakenBack)]
    [InlineData((int)MoveMutation.LandsBeforeBoundary)]
    [InlineData((int)MoveMutation.LandsAnywhere)]
    [InlineData((int)MoveMutation.DiscardsBeforeCut)]
    [InlineData((int)MoveMutation.FinishesBeforeCut)]
    [InlineData((int)MoveMutation.FinishesBeforeBoundary)]
    [InlineData((int)MoveMutation.AnyWorldLine)]
    [InlineData((int)MoveMutation.ServesByAnyTable)]
    public void Mutant_OfTheMove_IsCaught(int mutation) =>
        // Rare things need longer worlds.
        AssertCaught(seed => new(seed, (MoveMutation)mutation,
            Steps: (MoveMutation)mutation is MoveMutation.AnyWorldLine or MoveMutation.CopiesForAnyRow
                or MoveMutation.ServesBeforeTakenBack or MoveMutation.FinishesBeforeBoundary ? 12000 : 4000),
                    ((MoveMutation)mutation).ToString());

    [Theory]
    [InlineData((int)MoveCallerFault.EpochUnchecked)]
    [InlineData((int)MoveCallerFault.LandingOutlivesRecovery)]
    [InlineData((int)MoveCallerFault.ImportOverOldData)]
    [InlineData((int)MoveCallerFault.CopiesAgainUnasked)]
    [InlineData((int)MoveCallerFault.PastByPresentMap)]
    [InlineData((int)MoveCallerFault.AllOfAStoreIsShown)]
    [InlineData((int)MoveCallerFault.WholeIsShownWhileLeaving)]
    [InlineData((int)MoveCallerFault.DoneByTheVersionItIsIn)]
    public void Mutant_OfTheCaller_IsCaught(int fault) =>
        AssertCaught(seed => new(seed, Fault: (MoveCallerFault)fault), ((MoveCallerFault)fault).ToString());

    private static void AssertCaught(Func<int, MoveWorldSettings> settings, string name)
    {
        Dictionary<string, int> happened = [];
        for (int seed = 1; seed <= 4 * Worlds; seed++)
        {
            try
            {
                MoveWorld world = new(settings(seed));
                world.Run();
                foreach ((string what, int n) in world.Happened) happened[what] = happened.GetValueOrDefault(what) + n;
            }
            catch (Exception e) when (e is ModelException or ArgumentException)
            {
                TestContext.Current.TestOutputHelper?.WriteLine($"{name}: seed {seed}: {e.Message}");
                return;
            }
        }

        throw new ModelException(
            $"The mutant {name} survived {4 * Worlds} worlds, in which happened: "
                + $"{string.Join(", ", happened.Select(h => $"{h.Key} {h.Value}"))}");
    }
}
