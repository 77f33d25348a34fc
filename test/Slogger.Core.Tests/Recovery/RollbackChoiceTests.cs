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
}
