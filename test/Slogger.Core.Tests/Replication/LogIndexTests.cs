using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.WorldLines;
using static Slogger.Core.Tests.Replication.ShipKit;

namespace Slogger.Core.Tests.Replication;

public class LogIndexTests
{
    // Along a history: bytes, the end of a version, more bytes, a run of empty versions, and a world-line that keeps less of it.
    [Fact]
    public void Order_AlongAHistory_NeverGoesBack()
    {
        LogIndex[] along = [Index("1:0@0"), Index("1:0@10"), Index("1:1@10"), Index("1:1@17"), Index("1:4@17"), Index("2:1@10"),
            Index("2:1@12"), Index("2:5@12")];
        for (int i = 1; i < along.Length; i++)
        {
            Assert.True(along[i] > along[i - 1]);
            Assert.Equal(along[i], LogIndex.Max(along[i - 1], along[i]));
            Assert.Equal(along[i - 1], LogIndex.Min(along[i], along[i - 1]));
        }
    }

    [Fact]
    public void SiteEpoch_WorldLines_AreAboveAllOfTheSiteBefore()
    {
        SiteEpoch second = SiteEpoch.First.Next;
        Assert.Equal(WorldLine.First, SiteEpoch.First.FirstWorldLine);
        Assert.True(second.FirstWorldLine > new WorldLine(uint.MaxValue));
        Assert.Equal(second, SiteEpoch.Of(second.FirstWorldLine.Next));
        Assert.Equal(SiteEpoch.First, SiteEpoch.Of(new(uint.MaxValue)));
    }
}
