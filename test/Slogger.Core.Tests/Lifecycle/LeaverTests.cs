// A shard that leaves its cluster: until when it counts.
using Slogger.Core.Lifecycle;
using Slogger.Core.Shards;
using Slogger.Core.Tests.Shards;
using Slogger.Core.WorldLines;
using Xunit;

namespace Slogger.Core.Tests.Lifecycle;

public class LeaverTests
{
    // What was answered last is in the version that is open when nobody is served any more. The front end tells of it when that version
    // ends.
    [Fact]
    public void Leaver_ServedInTheOpenVersion_AwaitsItsEnd_AndTheCut()
    {
        ShardHarness h = new(peers: true);
        Close(h, 3, 110);
        Leaver leaver = new();
        Assert.False(leaver.Look(h.Machine));
        // The versions before are durable, recorded, and in the cut.
        h.Recorded(new(new(1), new(2)));
        Assert.Equal(new WorldPoint(new(1), new(2)), h.Machine.Committed);
        Assert.False(leaver.Look(h.Machine));
        Assert.Null(leaver.Last);

        Close(h, 4, 120);
        Assert.False(leaver.Look(h.Machine));
        Assert.Equal(new(3), leaver.Last);
        Assert.False(leaver.MayEnd(h.Machine));
        h.Recorded(new(new(1), new(3)));
        Assert.True(leaver.Look(h.Machine));
        Assert.True(leaver.MayEnd(h.Machine));
    }

    [Theory]
    [InlineData((int)LifecycleMutation.None, false)]
    [InlineData((int)LifecycleMutation.OpenVersionForgotten, true)]
    public void Leaver_TheVersionsBeforeAreInTheCut_MayNotLeaveYet(int mutation, bool may)
    {
        ShardHarness h = new(peers: true);
        Close(h, 3, 110);
        h.Recorded(new(new(1), new(2)));
        Assert.Equal(may, new Leaver((LifecycleMutation)mutation).Look(h.Machine));
    }

    private static void Close(ShardHarness h, long next, long offset)
    {
        h.TickAt(next);
        Marker marker = h.Marker;
        h.Answer(marker);
        h.Read(marker, offset);
        h.Durable(next - 1);
    }
}
