// When a rollback in place is tried, and how much it may take.
using Slogger.Core.Recovery;

namespace Slogger.Core.Tests.Recovery;

public sealed class RollbackChoiceTests
{
    private const long Megabyte = 1 << 20;

    [Fact]
    public void Budget_MillionKeysAndAReadTail_IsThousandsOfKeys()
    {
        RollbackBudget budget = Assert.NotNull(RollbackChoice.BudgetFor(RollbackChoice.FullUs(90 * Megabyte, 20 * Megabyte), 0));
        Assert.True(budget.Keys > 20_000 && budget.Commands > budget.Keys, budget.ToString());
    }

    [Fact]
    public void Budget_SmallStore_IsSmallToo()
    {
        RollbackBudget small = Assert.NotNull(RollbackChoice.BudgetFor(RollbackChoice.FullUs(1000, 1000), 0));
        RollbackBudget large = Assert.NotNull(RollbackChoice.BudgetFor(RollbackChoice.FullUs(1000 * Megabyte, 1000), 0));
        Assert.True(small.Keys < large.Keys);
        Assert.True(small.Keys > 1000);
    }

    [Fact]
    public void Budget_TailThatTakesLongerToReadThanToReplay_IsNone()
    {
        long full = RollbackChoice.FullUs(Megabyte, 10 * Megabyte);
        Assert.NotNull(RollbackChoice.BudgetFor(full, 10 * Megabyte));
        Assert.Null(RollbackChoice.BudgetFor(full, 200 * Megabyte));
    }

    [Fact]
    public void Budget_HugeStore_IsBounded() =>
        Assert.Equal(new RollbackBudget(250_000, 250_000), RollbackChoice.BudgetFor(RollbackChoice.FullUs(1L << 40, 1L << 40), 0));

    [Fact]
    public void Store_OnTheLogsHistory_GoesBackInPlace()
    {
        Assert.Null(RollbackChoice.WhyNot(Possible));
        Assert.True(RollbackChoice.IsOnHistory(isSame: true, storeOffset: 7, logEnd: 7));
        Assert.False(RollbackChoice.IsOnHistory(isSame: true, storeOffset: 6, logEnd: 7));
        Assert.False(RollbackChoice.IsOnHistory(isSame: false, storeOffset: 7, logEnd: 7));
    }

    [Fact]
    public void Store_AnythingSpeaksAgainstIt_DoesNot()
    {
        RollbackFacts[] facts =
        [
            Possible with { IsWanted = false }, Possible with { IsOnHistory = false }, Possible with { IsNoted = true },
            Possible with { IsUnlogged = true }, Possible with { IsIndexed = false }, Possible with { HasGap = true },
            Possible with { Budget = null },
        ];
        // Each for its own reason.
        Assert.Equal(facts.Length, facts.Select(f => Assert.IsType<string>(RollbackChoice.WhyNot(f))).Distinct().Count());
        Assert.Null(RollbackChoice.WhyNot(facts[1], RollbackMutation.AnyHistoryGoesBack));
    }

    private static RollbackFacts Possible => new()
    {
        IsWanted = true, IsOnHistory = true, IsNoted = false, IsUnlogged = false, IsIndexed = true, HasGap = false,
        Budget = new RollbackBudget(1, 1),
    };
}
