using Slogger.Core.Shipping;
using Slogger.Core.Sites;

namespace Slogger.Core.Tests.Sites;

public class SiteLeaseTests
{
    [Fact]
    public void Lease_RunsFromWhenTheAnsweredWasSent()
    {
        SiteLease lease = new(100);
        Assert.False(lease.Holds(0));
        lease.Granted(0, 50);
        Assert.False(lease.Holds(50));
        lease.Granted(40, 90);
        Assert.True(lease.Holds(139));
        Assert.False(lease.Holds(140));
        lease.Granted(30, 95);
        Assert.True(lease.Holds(139));
    }

    // Whatever the way takes, and however fast either clock runs: when the backup has waited nobody holds one.
    [Theory]
    [InlineData((int)ShipMutation.None, true)]
    [InlineData((int)ShipMutation.LeaseFromArrival, false)]
    public void Lease_WhenTheBackupHasWaited_IsOver(int mutation, bool isOver)
    {
        Random random = new(5);
        bool wasOver = true;
        for (int n = 0; n < 1000; n++)
        {
            SiteLease lease = new(100, (ShipMutation)mutation);
            long sentUs = random.Next(1, 1000), repliedUs = sentUs + random.Next(200), arrivesUs = repliedUs + random.Next(200);
            lease.Granted(sentUs, arrivesUs);
            // Frozen behind the reply; the backup's clock runs as much faster as it may.
            long decidedUs = repliedUs + (SiteLease.WaitUs(100, 100_000) * 1_000_000 / 1_100_000) + 1;
            wasOver &= !lease.Holds(decidedUs);
        }

        Assert.Equal(isOver, wasOver);
    }
}
