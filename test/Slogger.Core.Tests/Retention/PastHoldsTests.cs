using Slogger.Core.Retention;

namespace Slogger.Core.Tests.Retention;

public sealed class PastHoldsTests
{
    [Fact]
    public void Hold_LastsFromItsLastRenewal_AndTheLowestCounts()
    {
        var holds = new PastHolds(lastsMs: 100);
        Assert.Equal(long.MaxValue, holds.Lowest(0));
        holds.Take(500, 0);
        holds.Take(300, 50);
        Assert.Equal(300, holds.Lowest(99));
        Assert.True(holds.TryRenew(500, 120));
        Assert.Equal(300, holds.Lowest(149));
        Assert.Equal(500, holds.Lowest(150));
        Assert.Equal(500, holds.Lowest(219));
        Assert.Equal(long.MaxValue, holds.Lowest(220));
    }

    [Fact]
    public void Renew_OfWhatIsHeldBelow_Lasts_AndOfWhatIsNot_IsNone()
    {
        var holds = new PastHolds(lastsMs: 100);
        Assert.False(holds.TryRenew(500, 0));
        Assert.Equal(long.MaxValue, holds.Lowest(0));
        holds.Take(500, 0);
        Assert.False(holds.TryRenew(499, 1));
        Assert.True(holds.TryRenew(700, 50));
        Assert.Equal(700, holds.Lowest(149));
        Assert.False(holds.TryRenew(700, 150));
    }
}
