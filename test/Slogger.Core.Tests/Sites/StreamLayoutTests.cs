// Which streams there are between sites of different numbers of shards.
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Sites;

namespace Slogger.Core.Tests.Sites;

public sealed class StreamLayoutTests
{
    [Theory]
    [InlineData(2, 1, "0-0 1-0")]
    [InlineData(1, 2, "0-0 0-1")]
    [InlineData(2, 3, "0-0 0-1 1-1 1-2")]
    [InlineData(3, 2, "0-0 1-0 1-1 2-1")]
    [InlineData(4, 2, "0-0 1-0 2-1 3-1")]
    public void Pairs_AreThoseWhoseSlotsOverlap(int sources, int shards, string expected)
    {
        StreamLayout layout = StreamLayout.Of(sources, shards);
        Assert.Equal(expected, string.Join(' ', layout.Pairs.Select(p => $"{p.Source}-{p.Shard}")));
        int stream = 0;
        foreach ((int Source, int Shard) pair in layout.Pairs)
        {
            Assert.Equal(pair, layout[stream]);
            Assert.Contains(stream++, layout.StreamsOf(pair.Shard));
        }
    }

    // Each slot comes to the shard that owns it there, out of the one that owns it here, once.
    [Fact]
    public void Slots_OfAllNumbers_AreBroughtOnceToWhomTheyBelong()
    {
        for (int sources = 1; sources <= 9; sources++)
        {
            for (int shards = 1; shards <= 9; shards++)
            {
                SlotMap from = SlotMap.Even(sources), to = SlotMap.Even(shards);
                StreamLayout layout = new(sources, shards);
                if (layout.IsPlain) { continue; }
                int[] brought = new int[HashSlot.Count];
                for (int stream = 0; stream < layout.Pairs.Count(); stream++)
                {
                    SlotRange slots = layout.SlotsOf(stream);
                    for (int slot = slots.First.Number; slot <= slots.Last.Number; slot++)
                    {
                        brought[slot]++;
                        Assert.Equal(layout[stream], (from.Owner(new(slot)).Number, to.Owner(new(slot)).Number));
                    }
                }

                Assert.All(brought, n => Assert.Equal(1, n));
                for (int s = 0; s < sources; s++)
                {
                    Assert.Equal(from.Rows.Single(r => r.Shard.Number == s).Slots, SlotMap.EvenSlots(sources, s));
                }
            }
        }
    }

    [Fact]
    public void SameNumber_IsAStreamForEach_AsItAlwaysWas()
    {
        SiteState site = SiteState.BackupOf(3, 3, SiteEpoch.First);
        Assert.Equal(SiteState.BackupOf(3, SiteEpoch.First).Layout, site.Layout);
        Assert.Equal((3, 3, 3), (site.Streams.Length, site.Sources, site.Shards));
        Assert.Equal((2, "2"), (site.ShardOf(2), site.NameOf(2)));
    }

    // The number of shards may be another one each time: no two lives of a stream are numbered alike.
    [Fact]
    public void Follow_AnotherNumberThanBefore_BeginsLivesThatNeverWere()
    {
        SiteState deposed = SiteState.BackupOf(2, SiteEpoch.First) with { Role = SiteRole.Deposed,
            Streams = [new(3, StreamPhase.Counts, default), new(7, StreamPhase.Counts, default)] };
        SiteState after = deposed.Follow(1, 2, SiteEpoch.First.Next).After!;
        Assert.Equal((1, 2, 2), (after.Sources, after.Shards, after.Streams.Length));
        Assert.All(after.Streams, s => Assert.Equal((8, StreamPhase.Empty), (s.Generation, s.Phase)));
    }

    [Fact]
    public void Lose_AShardOfSeveralStreams_LosesAll()
    {
        SiteState site = SiteState.BackupOf(3, 2, SiteEpoch.First);
        SiteState taken = (site with { Streams =
            [.. site.Streams.Select((s, i) => s with { Phase = i < 2 ? StreamPhase.Empty : StreamPhase.Counts })] }).Take([0]).After!;
        Assert.Equal([true, true, false, false], taken.Streams.Select(s => s.IsLost));
        Assert.Equal([true, true, true, true], taken.Lose(new(1)).After!.Streams.Select(s => s.IsLost));
    }
}
