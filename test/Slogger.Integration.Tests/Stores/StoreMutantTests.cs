// The tests of the suite: a store with a fault (FaultyStores) does not pass it. For each fault one test of the suite is named that finds
// it, and by which of its words.
namespace Slogger.Integration.Tests.Stores;

public sealed class StoreMutantTests
{
    /// <summary>The suite, for such a store.</summary>
    private sealed class Suite(StoreFault fault) : StoreConformanceTests
    {
        private protected override StoreUnderTest Store { get; } = StoreUnderTest.FasterWith(fault);
    }

    // What the others rest on: nothing but the fault is in the way.
    [Fact]
    public Task NoFault_Passes() => new Suite(StoreFault.None).Batch_OfAnotherWorldLine_IsRefusedAndNotExecuted();

    // The next process sees it before any client does.
    [Fact]
    public Task NamedTooEarly_IsCaught() =>
        AssertCaughtAsync(StoreFault.NamedTooEarly, "was committed, but its version log ends at version|is not in the state at the "
            + "end of version", s => s.Commit_IsReported_AllUpToItSurvivesKill9());

    [Fact]
    public Task RestoresTheOneBefore_IsCaught() =>
        AssertCaughtAsync(StoreFault.RestoresTheOneBefore, "is not in the state at the end of version",
            s => s.Version_Ends_WhatCameBeforeIsInItAndNothingAfter());

    [Fact]
    public Task RestoresTheNewest_IsCaught() =>
        AssertCaughtAsync(StoreFault.RestoresTheNewest, "is there, and was lost",
            s => s.Rollback_OfASurvivorUnderLoad_RestoresTheBranchAndNothingNewer());

    [Fact]
    public Task LeavesAKey_IsCaught() =>
        AssertCaughtAsync(StoreFault.LeavesAKey, "is there, and was lost",
            s => s.Rollback_OfASurvivorUnderLoad_RestoresTheBranchAndNothingNewer());

    [Fact]
    public Task DeletesWhatIsNeeded_IsCaught() =>
        AssertCaughtAsync(StoreFault.DeletesWhatIsNeeded, "was committed, but its version log",
            s => s.Rollback_OfASurvivorUnderLoad_RestoresTheBranchAndNothingNewer());

    private static async Task AssertCaughtAsync(StoreFault fault, string words, Func<StoreConformanceTests, Task> test)
    {
        Exception? found = await Record.ExceptionAsync(() => test(new Suite(fault)));
        Assert.True(found is not null, $"a store with the fault {fault} passes");
        Assert.True(words.Split('|').Any(w => found.Message.Contains(w, StringComparison.Ordinal)), found.ToString());
    }
}
