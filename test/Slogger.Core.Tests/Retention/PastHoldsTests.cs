using Slogger.Core.Retention;

namespace Slogger.Core.Tests.Retention;

public sealed class PastHoldsTests
{
    [Fact]
    public void Hold_LastsFromItsLastRenewal_AndTheLowestCounts()
    {
        var holds = new PastHolds(lastsMs: 100);
        Assert.Equal(long.MaxValue, holds.Lowest(0));
        holds.Renew(500, 0);
        holds.Renew(300, 50);
        Assert.Equal(300, holds.Lowest(99));
        holds.Renew(500, 120);
        Assert.Equal(300, holds.Lowest(149));
        Assert.Equal(500, holds.Lowest(150));
        Assert.Equal(500, holds.Lowest(219));
        Assert.Equal(long.MaxValue, holds.Lowest(220));
    }
}
