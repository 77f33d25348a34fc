using Slogger.Core.Identities;
using Slogger.Core.Sites;

namespace Slogger.Core.Tests.Sites;

public class SiteGateTests
{
    private static readonly SiteEpoch First = SiteEpoch.First, Second = First.Next;

    [Fact]
    public void Backup_ThatWasNeverShippedTo_NeedsNoLease_UntilItIsWelcomed()
    {
        SiteGate gate = new(1, isCohort: false, kept: null);
        Assert.False(gate.NeedsLease);
        gate.Begin(First);
        Assert.False(gate.NeedsLease);
        Assert.Equal(First, gate.Welcomed(0));
        Assert.True(gate.NeedsLease);
        // Once is enough.
        Assert.Null(gate.Welcomed(0));
    }

    [Fact]
    public void Process_KnowsWhatAnEarlierOneHasShipped_InThisSiteEpochOnly()
    {
        SiteGate gate = new(1, isCohort: false, kept: First);
        Assert.True(gate.NeedsLease);
        gate.Begin(First);
        Assert.True(gate.NeedsLease);

        gate = new(1, isCohort: false, kept: First);
        gate.Begin(Second);
        Assert.False(gate.NeedsLease);
        Assert.Equal(Second, gate.Welcomed(0));
        Assert.True(gate.NeedsLease);
    }

    [Fact]
    public void Receiver_IsBeingSeeded_TheBackupCannotTakeOver()
    {
        SiteGate gate = new(1, isCohort: false, kept: First);
        gate.Begin(First);
        gate.IsSeeded(0);
        Assert.False(gate.NeedsLease);
        // The store was recovered meanwhile: the receiver has said nothing else since.
        gate.Begin(First);
        Assert.False(gate.NeedsLease);
        Assert.Null(gate.Welcomed(0));
        Assert.True(gate.NeedsLease);
    }

    [Fact]
    public void Receivers_OfABackupWithMoreShards_AllHaveToFollow()
    {
        SiteGate gate = new(2, isCohort: false, kept: null);
        gate.Begin(First);
        Assert.Equal(First, gate.Welcomed(1));
        Assert.False(gate.NeedsLease);
        Assert.Null(gate.Welcomed(0));
        Assert.True(gate.NeedsLease);
        gate.IsSeeded(1);
        Assert.False(gate.NeedsLease);
    }

    [Fact]
    public void Cohort_NeedsTheLeaseAlways()
    {
        SiteGate gate = new(1, isCohort: true, kept: null);
        Assert.True(gate.NeedsLease);
        gate.Begin(First);
        gate.IsSeeded(0);
        Assert.True(gate.NeedsLease);
    }
}
