// "We assume the distributed data store has capabilities to bootstrap a new replica from an existing replica set of a shard" (the paper,
// section 5.5.5): here, by copies of the store that are resumed after any break.
using Slogger.Core.Replication;
using static Slogger.Core.Tests.Replication.ShipKit;

namespace Slogger.Core.Tests.Replication;

public class SeedTransferTests
{
    private static readonly Seed First = new("first", 3, 100, History, Index("1:3@37"), Point("1:4"));
    private static readonly Seed Second = First with { Id = "second", Bytes = 70 };

    [Fact]
    public void Transfer_BrokenOff_GoesOnWithWhatIsOnTheDisk()
    {
        SeedSink sink = new(3, null, 0);
        Assert.True(sink.Take(Answer(sink, First)));
        Assert.True(sink.Take(Answer(sink, First)));
        Assert.Equal((80, false), (sink.HasBytes, sink.IsComplete));
        // Of the second piece the disk had only a part.
        sink = new(3, First, 55);
        Assert.Equal(new(First, 55, 40), Answer(sink, First));
        Assert.True(sink.Take(Answer(sink, First)));
        Assert.True(sink.Take(Answer(sink, First)));
        Assert.True(sink.IsComplete);
    }

    [Fact]
    public void Transfer_TheCopyIsGone_BeginsAnew()
    {
        SeedSink sink = new(3, First, 55);
        SeedChunk chunk = Answer(sink, Second);
        Assert.Equal(0, chunk.At);
        Assert.True(sink.Take(chunk));
        Assert.Equal((Second, 40), (sink.Seed, sink.HasBytes));
    }

    [Fact]
    public void Pieces_LateOrDoubled_ChangeNothing()
    {
        SeedSink sink = new(3, null, 0);
        SeedChunk first = Answer(sink, First);
        sink.Take(first);
        Assert.False(sink.Take(first));
        sink.Take(Answer(sink, First));
        Assert.False(sink.Take(new(First, 40, 40)));
        Assert.False(sink.Take(new(First, 90, 10)));
        Assert.Equal(80, sink.HasBytes);
    }

    // Of another copy, at just the place that this one has come to.
    [Fact]
    public void Pieces_OfAnotherCopy_AreNotMixedIn()
    {
        SeedSink sink = new(3, First, 40);
        Assert.False(sink.Take(new(Second, 40, 30)));
        Assert.True(new SeedSink(3, First, 40, ShipMutation.SeedsMixed).Take(new(Second, 40, 30)));
    }

    // A copy from before the stream was given up could lie below what others were told to apply since.
    [Fact]
    public void Copy_OfAnEarlierGeneration_IsNone()
    {
        Assert.Null(SeedSource.Answer(new(4, "first", 40), First, 40));
        SeedSink sink = new(4, First, 40);
        Assert.Null(sink.Seed);
        Assert.False(sink.Take(new(First, 0, 40)));
    }

    [Fact]
    public void Copy_OfAnEmptyStore_IsCompleteAtOnce()
    {
        SeedSink sink = new(3, null, 0);
        Assert.False(sink.Take(new(First with { Bytes = 0 }, 0, 0)));
        Assert.True(sink.IsComplete);
    }

    private static SeedChunk Answer(SeedSink sink, Seed seed) => SeedSource.Answer(sink.Ask, seed, 40)!.Value;
}
