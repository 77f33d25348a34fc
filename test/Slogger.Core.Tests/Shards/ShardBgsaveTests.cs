// Mode bgsave: D-Redis as in the paper (DPR, section 6): the boundary is the place of BGSAVE, the version is durable when its
// snapshot has been kept; the stride is as many slots as a save takes, and strides nest.
using Slogger.Core.Shards;

namespace Slogger.Core.Tests.Shards;

public class ShardBgsaveTests
{
    private static ShardHarness Harness() => new(CommitMode.Bgsave);

    [Fact]
    public void Save_AnsweredCompletedAndKept_IsCommitted()
    {
        ShardHarness h = Harness();
        Assert.Equal("StartSave", h.TickAt(2));
        Marker save = h.Marker;
        Assert.Equal(2, h.Machine.OpenVersion.Number);
        Assert.Equal("", h.Answer(save));
        Assert.Equal("", h.Read(save, 100)); // markers in a stream mean nothing here
        Assert.Equal("AppendBoundary RequestSync", h.Do(e => h.Machine.SaveCompleted(save, true, e)));
        Assert.Equal("", h.Do(e => h.Machine.SaveCompleted(save, true, e)));
        Assert.Equal("RecordDurable", h.Durable(1));
        Assert.Equal("Committed", h.Recorded(h.Point));
    }

    [Fact]
    public void Save_RefusedOrFailed_LeavesTheVersionOpen()
    {
        ShardHarness h = Harness();
        h.TickAt(2);
        h.Answer(h.Marker, ok: false); // a save by somebody else is in progress
        Assert.Equal("StartSave", h.TickAt(3, busy: false));
        Marker save = h.Marker;
        h.Answer(save);
        Assert.Equal("", h.Do(e => h.Machine.SaveCompleted(save, false, e)));
        Assert.Equal("StartSave", h.TickAt(4, busy: false));
        Assert.Equal(3, h.Marker.Closed.Number);
    }

    // What was only read is committed without a save; and at once if its client waits.
    [Fact]
    public void Version_InWhichNothingChanged_IsClosedAsAnEmptyOne_WhenSomebodyWaits()
    {
        ShardHarness h = Harness();
        h.TickAt(2);
        Marker save = h.Marker;
        h.Answer(save);
        h.Do(e => h.Machine.SaveCompleted(save, true, e));
        h.Durable(1);
        h.Recorded(h.Point);
        h.Machine.Forwarded();
        Assert.Equal("", h.TickAt(3, busy: false));
        Assert.Equal(3, h.Machine.OpenVersion.Number);
        Assert.Equal("", h.Do(e => h.Machine.CommitAwaited(true, e)));
        Assert.Equal("AppendEmptyRun RequestSync", h.TickAt(4, busy: false));
        Assert.Equal(3, h.Boundary.Version.Number);
        Assert.Equal("RecordDurable", h.Durable(3));
        // Who has done nothing since waits for nothing.
        Assert.DoesNotContain("AppendEmptyRun", h.TickAt(6, busy: false), StringComparison.Ordinal);
    }

    [Fact]
    public void Stride_FollowsTheTimeOfASave_InPowersOfTwo()
    {
        ShardHarness h = Harness();
        h.TickAt(2);
        Marker save = h.Marker;
        h.Answer(save);
        h.TickAt(8); // seven slots later
        h.Do(e => h.Machine.SaveCompleted(save, true, e));
        Assert.Equal(8, h.Machine.StatusAt(h.Now).Stride);
        Assert.Equal("StartSave", h.TickAt(9));
        Assert.Equal((8, 9), (h.Marker.Closed.Number, h.Marker.Next.Number));
        save = h.Marker;
        h.Answer(save);
        h.Do(e => h.Machine.SaveCompleted(save, true, e)); // a quick one
        Assert.Equal(1, h.Machine.StatusAt(h.Now).Stride);
    }

    [Fact]
    public void Stride_HasALeast_WhichItComesBackTo()
    {
        ShardHarness h = new(CommitMode.Faster, strideMin: 4);
        Assert.Equal("", h.TickAt(4)); // the fourth is the first to be closed, and has not ended
        Assert.Equal("StartSave", h.TickAt(6));
        Assert.Equal((4, 6), (h.Marker.Closed.Number, h.Marker.Next.Number));
        Marker save = h.Marker;
        h.Answer(save);
        h.TickAt(12);
        h.Do(e => h.Machine.SaveCompleted(save, true, e));
        Assert.Equal(8, h.Machine.Stride);
        Assert.Equal("StartSave", h.TickAt(17));
        save = h.Marker;
        Assert.Equal(16, save.Closed.Number);
        h.Answer(save);
        h.Do(e => h.Machine.SaveCompleted(save, true, e));
        Assert.Equal(4, h.Machine.Stride);
    }

    [Fact]
    public void Stride_VersionsInBetween_AreNotClosed()
    {
        ShardHarness h = Harness();
        h.TickAt(2);
        Marker save = h.Marker;
        h.Answer(save);
        h.TickAt(4);
        h.Do(e => h.Machine.SaveCompleted(save, true, e));
        Assert.Equal(4, h.Machine.StatusAt(h.Now).Stride);
        Assert.False(h.Machine.BoundaryDue(h.Now));
        Assert.Equal("", h.TickAt(4));
        Assert.Equal("StartSave", h.TickAt(6));
        // Operations labelled up to 2 are within 4; those after it are in 6: the cut at 4 says exactly what it holds.
        Assert.Equal((4, 6), (h.Marker.Closed.Number, h.Marker.Next.Number));
    }

    [Fact]
    public void Stopping_ClosesAMultipleOfTheStride()
    {
        ShardHarness h = Harness();
        h.TickAt(2);
        Marker save = h.Marker;
        h.Answer(save);
        h.TickAt(4);
        h.Do(e => h.Machine.SaveCompleted(save, true, e));
        h.Machine.Stopping();
        Assert.Equal("StartSave", h.TickAfterUs(1));
        save = h.Marker;
        Assert.Equal(4, save.Closed.Number);
        h.Answer(save);
        h.Do(e => h.Machine.SaveCompleted(save, true, e));
        Assert.Equal("RecordDurable", h.Durable(4));
        Assert.Equal("Committed", h.Recorded(h.Point));
        Assert.Equal("Stopped", h.TickAfterUs(1));
    }
}
