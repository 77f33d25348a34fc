// A copy on its way: a far link is kept full, and what is lost is sent again, whatever comes in which order.
using Slogger.Core.Replication;
using static Slogger.Core.Tests.Replication.ShipKit;

namespace Slogger.Core.Tests.Replication;

public class SeedFlowTests
{
    private static readonly ShipperOptions Options = new() { PieceBytesMax = 10, WindowBytes = 40, ResendUs = 100 };
    private static readonly Seed Copy = new("copy", 3, 100, History, Index("1:3@37"), Point("1:4"));

    [Fact]
    public void Window_IsFullAtOnce_AndGoesOnAsTheReceiverDoes()
    {
        SeedFlow flow = new(Options);
        Assert.Null(flow.Next());
        flow.Asked(new(3, null, 0), Copy, 0);
        Assert.Equal([0, 10, 20, 30], Sent(flow));
        flow.Asked(new(3, "copy", 10), Copy, 5);
        flow.Asked(new(3, "copy", 20), Copy, 6);
        Assert.Equal([40, 50], Sent(flow));
        // One that is late says nothing new.
        flow.Asked(new(3, "copy", 10), Copy, 7);
        Assert.Empty(Sent(flow));
        flow.Asked(new(3, "copy", 60), Copy, 8);
        Assert.Equal([60, 70, 80, 90], Sent(flow));
        flow.Asked(new(3, "copy", 100), Copy, 9);
        Assert.Empty(Sent(flow));
    }

    [Fact]
    public void Chunks_Lost_AreSentAgainAfterAWhile()
    {
        SeedFlow flow = new(Options);
        flow.Asked(new(3, "copy", 20), Copy, 0);
        Assert.Equal([20, 30, 40, 50], Sent(flow));
        flow.Asked(new(3, "copy", 30), Copy, 50);
        Assert.Equal([60], Sent(flow));
        flow.Asked(new(3, "copy", 30), Copy, 149);
        Assert.Empty(Sent(flow));
        flow.Asked(new(3, "copy", 30), Copy, 150);
        Assert.Equal([30, 40, 50, 60], Sent(flow));
        // Just sent: not at once again.
        flow.Asked(new(3, "copy", 30), Copy, 151);
        Assert.Empty(Sent(flow));
    }

    // Its disk refused, or forgot.
    [Fact]
    public void Receiver_GoesBack_ItIsFollowed()
    {
        SeedFlow flow = new(Options);
        flow.Asked(new(3, "copy", 60), Copy, 0);
        Assert.Equal([60, 70, 80, 90], Sent(flow));
        flow.Asked(new(3, "copy", 30), Copy, 100);
        Assert.Equal([30, 40, 50, 60], Sent(flow));
    }

    [Fact]
    public void AnotherCopy_BeginsAnew_AndOfAnotherLifeThereIsNone()
    {
        SeedFlow flow = new(Options);
        flow.Asked(new(3, null, 0), Copy, 0);
        Assert.Equal(4, Sent(flow).Count);
        flow.Asked(new(3, "copy", 10), Copy with { Id = "other" }, 1);
        Assert.Equal([0, 10, 20, 30], Sent(flow));
        flow.Asked(new(4, null, 0), Copy, 2);
        Assert.Null(flow.Seed);
        Assert.Empty(Sent(flow));
    }

    [Fact]
    public void EmptyCopy_IsSaidOnceForEachAsk()
    {
        SeedFlow flow = new(Options);
        flow.Asked(new(3, null, 0), Copy with { Bytes = 0 }, 0);
        Assert.Equal([0], Sent(flow));
        flow.Asked(new(3, null, 0), Copy with { Bytes = 0 }, 1);
        Assert.Equal([0], Sent(flow));
    }

    private static List<long> Sent(SeedFlow flow)
    {
        List<long> at = [];
        while (flow.Next() is { } chunk) { at.Add(chunk.At); }
        return at;
    }
}
