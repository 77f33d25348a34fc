using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;

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

    // The margin: who looked in time, and was stopped for a quarter of the term before it sent, has sent before anybody else serves.
    [Fact]
    public void Wait_AfterTheLastLookThatFoundALease_LastsForAQuarterOfTheTerm()
    {
        SiteLease lease = new(1000);
        lease.Granted(500, 600);
        Assert.True(lease.Holds(1499));
        Assert.False(lease.Holds(1500));
        // Frozen when the grant was sent: as early as can be.
        Assert.True(500 + SiteLease.WaitUs(1000, 0) > 1499 + SiteLease.MarginUs(1000));
        Assert.Equal(250, SiteLease.MarginUs(1000));
    }

    [Fact]
    public void Right_OfSeveralWays_HoldsWhileAllLeasesDo()
    {
        CommitRight right = new(2, 100);
        Assert.False(right.Granted(0, 10, 20));
        Assert.False(right.Holds(20));
        Assert.True(right.Granted(1, 5, 20));
        Assert.True(right.Holds(104));
        Assert.False(right.Holds(105));
        Assert.False(right.Granted(0, 100, 106));
        Assert.True(right.Granted(1, 100, 106));
        Assert.False(right.Granted(1, 101, 107));
    }

    // What was tellable is not for ever: the moment counts at which it is told.
    [Theory]
    [InlineData((int)ShipMutation.None, 0)]
    [InlineData((int)ShipMutation.ToldForEver, 7)]
    public void Cut_AfterTheLease_SaysNothing(int mutation, long told)
    {
        CommitRight right = new(1, 100, (ShipMutation)mutation);
        WorldPoint cut = new(new(1), new(7));
        Assert.Equal(0, right.Tellable(cut, 0).Version.Number);
        right.Granted(0, 10, 10);
        Assert.Equal(cut, right.Tellable(cut, 109));
        Assert.Equal(new(new(1), new(told)), right.Tellable(cut, 110));
        Assert.Equal(new(new(2), default), right.Tellable(new(new(2), new(8)), 110));
    }
}
