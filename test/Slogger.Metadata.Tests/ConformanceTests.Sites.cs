// What a site is: by SiteState's rules, in one transaction each; and what a site that is no primary refuses.
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Sites;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Metadata.Sql;
using static Slogger.Metadata.Tests.Fixtures.Common;

namespace Slogger.Metadata.Tests;

public abstract partial class ConformanceTests
{
    private static readonly Sender SomeSender = new(SiteEpoch.First, 7, 2);

    [Fact]
    public async Task Site_NobodyHasSaidAnything_IsAloneAndServes()
    {
        await using IMetadataStore store = await FreshStoreAsync(2);
        Assert.Equal(SiteState.Alone.Role, (await store.SiteAsync("c")).Role);
        Assert.Empty((await store.SiteAsync("c")).Streams);
        Assert.True(await store.TakeShardEpochAsync("c", new(0), "me") > 0);
        await Assert.ThrowsAsync<MetadataException>(() => store.ChangeSiteAsync("unknown", s => new(s.DeposedBy(new(1)), null)));
    }

    [Fact]
    public async Task Site_Changed_IsFoundAgainByAnother()
    {
        string spec = await FreshSpecAsync();
        await using IMetadataStore store = await StoreOfAsync(spec);
        await BackupAsync(store);
        await store.ChangeSiteAsync("c", s => new(s.Seeded(new(1), 1).TakeStream(new(0), 4), null));
        Assert.Null((await store.ChangeSiteAsync("c", s => s.Reseed(new(1), 1))).Error);
        Sender? newest = null;
        await store.ChangeSiteAsync("c", s =>
        {
            (SiteState after, newest) = s.Admit(new(0), SomeSender);
            return new(after, null);
        });
        Assert.Equal(SomeSender, newest);
        await using IMetadataStore other = await StoreOfAsync(spec);
        SiteState found = await other.SiteAsync("c");
        Assert.Equal((SiteEpoch.First, SiteRole.Backup, null), (found.Epoch, found.Role, found.Final));
        Assert.Equal([new StreamState(1, StreamPhase.Empty, SomeSender, Owner: 4), new StreamState(2, StreamPhase.Empty, default)],
            found.Streams);
    }

    [Fact]
    public async Task Site_RuleRefuses_NothingIsChanged()
    {
        await using IMetadataStore store = await FreshStoreAsync(2);
        await BackupAsync(store);
        SiteAnswer refused = await store.ChangeSiteAsync("c", s => s.Take([]));
        Assert.Contains("being seeded", refused.Error, StringComparison.Ordinal);
        Assert.Equal(SiteRole.Backup, refused.Site.Role);
        Assert.Equal(SiteRole.Backup, (await store.SiteAsync("c")).Role);
        Assert.Contains("slogger failover",
            (await Assert.ThrowsAsync<MetadataException>(() => store.TakeShardEpochAsync("c", new(0), "me"))).Message,
                StringComparison.Ordinal);
    }

    [Fact]
    public async Task Site_Deposed_NothingOfItsOwnersIsRecordedAnyMore()
    {
        await using IMetadataStore store = await FreshStoreAsync(2);
        long[] epochs = await OwnersAsync(store, 2);
        await RecordAllAsync(store, epochs, 7);
        long role = (await store.TakeCoordinatorAsync("c", default, "h:1"))!.Value;
        long owners = (await store.CoordinatorViewAsync("c")).Owners;
        SiteAnswer deposed = await store.ChangeSiteAsync("c", s => new(s.DeposedBy(new(3)), null));
        Assert.Equal((SiteRole.Deposed, new SiteEpoch(3)), (deposed.Site.Role, deposed.Site.Epoch));
        Assert.Equal(DurableOutcome.Deposed, (await store.RecordDurableAsync("c", new(1), Claim(1, 9), epochs[1])).Outcome);
        Assert.Equal(WorldLineOutcome.Deposed, (await store.BeginWorldLineAsync("c", new(0), new(2), Claim(1, 9), epochs[0])).Outcome);
        Assert.NotEqual(CutOutcome.Recorded, await store.RecordCutAsync("c", Cut.Uniform(new(1), 2, new(7)), role, owners));
        Assert.False(await store.RenewShardAsync("c", new(0), epochs[0]));
        Assert.Contains("slogger seed",
            (await Assert.ThrowsAsync<MetadataException>(() => store.TakeShardEpochAsync("c", new(0), "me"))).Message,
                StringComparison.Ordinal);
        // An older one says nothing new.
        Assert.Equal(new SiteEpoch(3), (await store.ChangeSiteAsync("c", s => new(s.DeposedBy(new(2)), null))).Site.Epoch);
    }

    [Fact]
    public async Task Site_EverythingThatItSays_IsFoundAgain()
    {
        await using IMetadataStore store = await FreshStoreAsync(2);
        SiteState all = new(new(3), SiteRole.HandingOver,
            [new(4, StreamPhase.Counts, SomeSender, 5, IsLost: true, IsOpen: true), new(6, StreamPhase.Follows, default, 7)], Point("2:9"))
        {
            HandOver = new(8, Point("3:10")), CalledOff = 11,
        };
        SiteState none = new(new(4), SiteRole.Backup, [], null) { HandOver = new(12, null), Layout = new(2, 3) };
        foreach (SiteState said in (SiteState[])[all, none])
        {
            await store.ChangeSiteAsync("c", _ => new(said, null));
            SiteState found = await store.SiteAsync("c");
            Assert.Equal(said.Streams, found.Streams);
            Assert.Equal(said, found with { Streams = said.Streams });
        }
    }

    [Fact]
    public async Task Stream_Taken_HasAnEpochAboveAllAndMakesABackupOfAClusterThatNobodyHasServed()
    {
        await using IMetadataStore store = await FreshStoreAsync(2);
        TakenStreams first = await store.TakeStreamsAsync("c", new(1)), second = await store.TakeStreamsAsync("c", new(1));
        Assert.Equal((SiteRole.Backup, 2), (first.Site.Role, first.Site.Streams.Length));
        Assert.True(first.Owner > 0 && second.Owner > first.Owner);
        Assert.Equal(second.Owner, (await store.SiteAsync("c")).Streams[1].Owner);
        Assert.Equal(0, (await store.SiteAsync("c")).Streams[0].Owner);
        await Assert.ThrowsAsync<MetadataException>(() => store.TakeStreamsAsync("c", new(2)));
    }

    // Two shards that follow three: of the four streams two are of the primary's middle one.
    [Fact]
    public async Task Streams_OfAnotherNumberOfShards_AreTakenAndOpenedByShard()
    {
        await using IMetadataStore store = await FreshStoreAsync(2);
        TakenStreams zero = await store.TakeStreamsAsync("c", new(0), 3), one = await store.TakeStreamsAsync("c", new(1));
        Assert.Equal((4, 3, 2), (one.Site.Streams.Length, one.Site.Sources, one.Site.Shards));
        Assert.Equal([zero.Owner, zero.Owner, one.Owner, one.Owner], one.Site.Streams.Select(s => s.Owner));
        Assert.Contains("made for a primary of 3",
            (await Assert.ThrowsAsync<MetadataException>(() => store.TakeStreamsAsync("c", new(0), 4))).Message, StringComparison.Ordinal);
        Assert.Equal(zero.Owner, (await store.SiteAsync("c")).OwnerOf(new(0)));

        // One that has to be seeded anew takes the others of its shard with it.
        foreach (int s in (int[])[0, 1, 2, 3])
        {
            await store.ChangeSiteAsync("c", site => new(site.Seeded(new(s), 1).Count(new(s), 1), null));
        }
        SiteState seeded = (await store.ChangeSiteAsync("c", s => s.Reseed(new(1), 1))).Site;
        Assert.Equal([(2, StreamPhase.Empty), (2, StreamPhase.Empty), (1, StreamPhase.Counts), (1, StreamPhase.Counts)],
            seeded.Streams.Select(s => ((int)s.Generation, s.Phase)));
        Assert.StartsWith("shard 0 is being seeded", seeded.Take([]).Error, StringComparison.Ordinal);
        foreach (int s in (int[])[0, 1]) { await store.ChangeSiteAsync("c", site => new(site.Seeded(new(s), 2).Count(new(s), 2), null)); }

        SiteEpoch number = (await store.ChangeSiteAsync("c", s => s.Take([]))).Site.Epoch;
        await store.DecideFailoverAsync("c", number, Point("1:900"), []);
        SiteAnswer half = await store.OpenStreamsAsync("c", number, [new(new(0), zero.Owner, "a")]);
        Assert.Null(half.Error);
        Assert.Equal(0, (await store.ShardsAsync("c"))[0].Epoch);
        await store.OpenStreamsAsync("c", number, [new(new(1), zero.Owner, "a"), new(new(2), one.Owner, "b")]);
        Assert.Equal([(zero.Owner, "a"), (0L, "")], (await store.ShardsAsync("c")).Select(s => (s.Epoch, s.Owner)));
        SiteAnswer all = await store.OpenStreamsAsync("c", number, [new(new(3), one.Owner, "b")]);
        Assert.Equal(SiteRole.Primary, all.Site.Role);
        Assert.Equal([(zero.Owner, "a"), (one.Owner, "b")], (await store.ShardsAsync("c")).Select(s => (s.Epoch, s.Owner)));
    }

    [Fact]
    public async Task Stream_OfAClusterThatServes_IsNotTaken()
    {
        await using IMetadataStore store = await FreshStoreAsync(2);
        await OwnersAsync(store, 1);
        Assert.Contains("slogger serve", (await Assert.ThrowsAsync<MetadataException>(() => store.TakeStreamsAsync("c", new(0)))).Message,
            StringComparison.Ordinal);
        Assert.Equal(SiteRole.Primary, (await store.SiteAsync("c")).Role);
        await store.ChangeSiteAsync("c", s => new(s.DeposedBy(new(1)), null));
        Assert.Contains("slogger seed", (await Assert.ThrowsAsync<MetadataException>(() => store.TakeStreamsAsync("c", new(0)))).Message,
            StringComparison.Ordinal);
    }

    // What received the stream owns the shard, with the same epoch: nobody else had it in between.
    [Fact]
    public async Task Stream_Opened_IsItsProcessesShard()
    {
        await using IMetadataStore store = await FreshStoreAsync(2);
        long late = (await store.TakeStreamsAsync("c", new(0))).Owner, zero = (await store.TakeStreamsAsync("c", new(0))).Owner, one =
            (await store.TakeStreamsAsync("c", new(1))).Owner;
        foreach (int s in (int[])[0, 1]) { await store.ChangeSiteAsync("c", site => new(site.Seeded(new(s), 1).Count(new(s), 1), null)); }
        SiteEpoch number = (await store.ChangeSiteAsync("c", s => s.Take([]))).Site.Epoch;
        Assert.NotNull((await store.OpenStreamsAsync("c", number, [new(new(0), zero, "me")])).Error);
        long before = (DateTime.UtcNow - DateTime.UnixEpoch).Ticks / TimeSpan.TicksPerMicrosecond;
        await store.DecideFailoverAsync("c", number, Point("1:900"), []);
        Assert.Contains("another process", (await store.OpenStreamsAsync("c", number, [new(new(0), late, "late")])).Error,
            StringComparison.Ordinal);
        Assert.Equal(SiteRole.FailingOver, (await store.OpenStreamsAsync("c", number, [new(new(0), zero, "me")])).Site.Role);
        Assert.Equal(SiteRole.FailingOver, (await store.OpenStreamsAsync("c", number, [new(new(0), zero, "me")])).Site.Role);
        Assert.Equal(SiteRole.Primary, (await store.OpenStreamsAsync("c", number, [new(new(1), one, "me")])).Site.Role);
        IReadOnlyList<ShardRecord> shards = await store.ShardsAsync("c");
        Assert.Equal([zero, one], shards.Select(s => s.Epoch));
        Assert.All(shards, s => Assert.Equal((number.FirstWorldLine, number.FirstWorldLine, new VersionNumber(900)),
            (s.Entered, s.WorldLine, s.Durable.Version)));
        // The version behind the final watermark opens when that was decided, whatever the other site's grid was.
        GridState grid = (await store.GridAsync("c", new(0), 0, zero))!;
        Assert.Equal(new VersionNumber(901), Assert.Single(grid.Stretches).FirstVersion);
        Assert.True(grid.Stretches[0].StartUs >= before);
        Assert.Equal(DurableOutcome.Recorded,
            (await store.RecordDurableAsync("c", new(0), new(new(number.FirstWorldLine, new(901)), 1, new(901)), zero)).Outcome);
        // The next process takes it as a primary's shard; the one before is deposed.
        Assert.Equal((SiteRole.Primary, 0L),
            ((await store.TakeStreamsAsync("c", new(0))) is var taken ? (taken.Site.Role, taken.Owner) : default));
        long next = await store.TakeShardEpochAsync("c", new(0), "next");
        Assert.True(next > one);
        Assert.NotNull((await store.OpenStreamsAsync("c", number, [new(new(0), zero, "me")])).Error);
    }

    // All in one transaction; one that has another owner by now is left out of it, and the site waits for that one.
    [Fact]
    public async Task Streams_OpenedTogether_AreThoseThatTheirProcessesStillHave()
    {
        await using IMetadataStore store = await FreshStoreAsync(2);
        long gone = (await store.TakeStreamsAsync("c", new(0))).Owner, one = (await store.TakeStreamsAsync("c", new(1))).Owner;
        foreach (int s in (int[])[0, 1]) { await store.ChangeSiteAsync("c", site => new(site.Seeded(new(s), 1).Count(new(s), 1), null)); }
        SiteEpoch number = (await store.ChangeSiteAsync("c", s => s.Take([]))).Site.Epoch;
        await store.DecideFailoverAsync("c", number, Point("1:900"), []);
        long zero = (await store.TakeStreamsAsync("c", new(0))).Owner;
        SiteAnswer answer = await store.OpenStreamsAsync("c", number, [new(new(0), gone, "gone"), new(new(1), one, "one")]);
        Assert.Contains("another process", answer.Error, StringComparison.Ordinal);
        Assert.Equal(SiteRole.FailingOver, answer.Site.Role);
        Assert.Equal([false, true], (await store.SiteAsync("c")).Streams.Select(s => s.IsOpen));
        Assert.Equal([0L, one], (await store.ShardsAsync("c")).Select(s => s.Epoch));
        answer = await store.OpenStreamsAsync("c", number, [new(new(0), zero, "zero"), new(new(1), one, "one")]);
        Assert.Null(answer.Error);
        Assert.Equal(SiteRole.Primary, (await store.SiteAsync("c")).Role);
        Assert.Equal([zero, one], (await store.ShardsAsync("c")).Select(s => s.Epoch));
    }

    // What was answered before the hand-over is still to be committed; then nobody is an owner any more.
    [Fact]
    public async Task Site_HandsOver_KeepsItsOwnersUntilItIsDeposed()
    {
        await using IMetadataStore store = await FreshStoreAsync(2);
        long[] epochs = await OwnersAsync(store, 2);
        await RecordAllAsync(store, epochs, 7);
        Assert.Equal(SiteRole.HandingOver, (await store.ChangeSiteAsync("c", s => s.Hold(0))).Site.Role);
        await RecordAllAsync(store, epochs, 9);
        Assert.Equal(new VersionNumber(9), (await store.AdvanceCutAsync("c")).Cut.Version);
        Assert.Null((await store.ChangeSiteAsync("c", s => s.Offer(1, Point("1:9")))).Error);
        epochs[0] = await store.TakeShardEpochAsync("c", new(0), "started again");
        Assert.Contains("ask it first", (await store.ChangeSiteAsync("c", s => s.Resume(1, isCalledOff: false))).Error,
            StringComparison.Ordinal);
        Assert.Equal(SiteRole.Primary, (await store.ChangeSiteAsync("c", s => s.Resume(1, isCalledOff: true))).Site.Role);
        await RecordAllAsync(store, epochs, 11);
        await store.ChangeSiteAsync("c", s => s.Hold(1));
        await store.ChangeSiteAsync("c", s => new(s.DeposedBy(new(1)), null));
        Assert.Equal(DurableOutcome.Deposed, (await store.RecordDurableAsync("c", new(0), Claim(1, 13), epochs[0])).Outcome);
    }

    [Fact]
    public async Task Failover_Decided_BeginsTheWorldLineOnce()
    {
        await using IMetadataStore store = await FreshStoreAsync(2);
        await BackupAsync(store);
        await SeededAsync(store);
        SiteState taken = (await store.ChangeSiteAsync("c", s => s.Take([]))).Site;
        Assert.Equal((new SiteEpoch(1), SiteRole.FailingOver), (taken.Epoch, taken.Role));
        WorldPoint final = Point("3:50");
        // A later branch of the other site is none that this one has kept anything of.
        WorldPoint[] lineage = [Point("2:20"), Point("3:40"), Point("4:60")];
        Assert.Null((await store.DecideFailoverAsync("c", taken.Epoch, final, lineage)).Error);
        Assert.Equal(final, (await store.DecideFailoverAsync("c", taken.Epoch, Point("3:70"), lineage)).Site.Final);
        WorldLine line = taken.Epoch.FirstWorldLine;
        Assert.Equal([Point("1:0"), Point("2:20"), Point("3:40"), new(line, new(50))],
            (await store.WorldLinesAsync("c")).Select(l => new WorldPoint(l.WorldLine, l.BranchCut)));
        Assert.Equal(new WorldPoint(line, new VersionNumber(50)), (await store.AdvanceCutAsync("c")).Cut);
        Assert.All(await store.ShardsAsync("c"), s => Assert.Equal(new WorldPoint(line, new VersionNumber(50)), s.Durable));

        // Whoever opens a shard before all can be opened is refused; then the site serves, and shards are taken as ever.
        await store.ChangeSiteAsync("c", s => s.Open(taken.Epoch, new(new(0), s.Streams[0].Owner, "x")));
        await Assert.ThrowsAsync<MetadataException>(() => store.TakeShardEpochAsync("c", new(0), "me"));
        Assert.Equal(SiteRole.Primary,
            (await store.ChangeSiteAsync("c", s => s.Open(taken.Epoch, new(new(1), s.Streams[1].Owner, "x")))).Site.Role);
        long[] epochs = await OwnersAsync(store, 2);
        Assert.Equal(DurableOutcome.Recorded,
            (await store.RecordDurableAsync("c", new(0), DurableClaim.Of(new(line, new(55))), epochs[0])).Outcome);
        Assert.Equal(DurableOutcome.StaleWorldLine, (await store.RecordDurableAsync("c", new(0), Claim(3, 55), epochs[0])).Outcome);
    }

    [Fact]
    public async Task Failover_TakenByManyAtOnce_IsOne()
    {
        string spec = await FreshSpecAsync();
        await using IMetadataStore store = await StoreOfAsync(spec);
        await BackupAsync(store);
        await SeededAsync(store);
        IMetadataStore[] stores = await Task.WhenAll(Enumerable.Range(0, 4).Select(_ => StoreOfAsync(spec)));
        SiteAnswer[] answers = await Task.WhenAll(stores.Select(s => EventuallyAsync(() => s.ChangeSiteAsync("c", site => site.Take([])))));
        Assert.All(answers, a => Assert.Equal((new SiteEpoch(1), SiteRole.FailingOver, null), (a.Site.Epoch, a.Site.Role, a.Error)));
        foreach (IMetadataStore s in stores) { await s.DisposeAsync(); }
    }

    [Fact]
    public async Task TakeoverTimes_Noted_StayWhateverTheSiteBecomes_AndCorrectTheNextEstimate()
    {
        await using IMetadataStore store = await StoreOfAsync(await FreshSpecAsync());
        Assert.Equal(default, await store.TakeoverTimesAsync("c"));
        await BackupAsync(store);
        TimeSpan ms(int number) => TimeSpan.FromMilliseconds(number);
        Assert.Equal(ms(7), (await store.TakeoverTimesAsync("c")).Correct(ms(7)));
        await store.NoteFailoverAsync("c", ms(20));
        // Nothing had been estimated before it.
        Assert.Equal((ms(20), ms(30)),
            ((await store.TakeoverTimesAsync("c")).Correct(ms(7)), (await store.TakeoverTimesAsync("c")).Correct(ms(30))));
        await store.NoteDrillAsync("c", ms(7));
        await store.NoteFailoverAsync("c", ms(25));
        await store.NoteDrillAsync("c", ms(9));
        await store.ChangeSiteAsync("c", s => new(s.Seeded(new(0), 1), null));
        Assert.Equal(new(ms(9), ms(25), ms(7)), await store.TakeoverTimesAsync("c"));
        Assert.Equal((ms(27), ms(25)),
            ((await store.TakeoverTimesAsync("c")).Correct(ms(9)), new TakeoverTimes(ms(9), ms(25), ms(100)).Correct(ms(9))));
    }

    [Fact]
    public async Task SiteAddress_Noted_IsFoundByAnotherAndReplaced()
    {
        string spec = await FreshSpecAsync();
        await using IMetadataStore store = await StoreOfAsync(spec), other = await StoreOfAsync(spec);
        Assert.Empty(await store.SiteAddressesAsync("c"));
        await store.NoteSiteAddressAsync("c", new(1), "b1:7001");
        await store.NoteSiteAddressAsync("c", new(0), "b0:7001");
        await store.NoteSiteAddressAsync("c", new(1), "[2001:db8::1]:7002");
        await store.NoteSiteAddressAsync("c", new(1), "[2001:db8::1]:7002");
        Assert.Equal([(new(0), "b0:7001"), (new(1), "[2001:db8::1]:7002")],
            (await other.SiteAddressesAsync("c")).Select(a => (a.Key, a.Value)).OrderBy(a => a.Key.Number));
        // What the site is, and becomes, takes nothing of it away.
        await BackupAsync(store);
        await store.ChangeSiteAsync("c", s => new(s.Seeded(new(0), 1), null));
        Assert.Equal(2, (await other.SiteAddressesAsync("c")).Count);
        Assert.Empty(await store.SiteAddressesAsync("d"));
        await Assert.ThrowsAsync<MetadataException>(() => store.NoteSiteAddressAsync("unknown", new(0), "b0:7001"));
        await Assert.ThrowsAsync<ArgumentException>(() => store.NoteSiteAddressAsync("c", new(0), ""));
    }

    [Fact]
    public async Task SiteAddress_NotedByManyAtOnce_AllAreKept()
    {
        string spec = await FreshSpecAsync();
        IMetadataStore[] stores = await Task.WhenAll(Enumerable.Range(0, 4).Select(_ => StoreOfAsync(spec)));
        await Task.WhenAll(stores.Select((s, i) => EventuallyAsync(async () =>
        {
            await s.NoteSiteAddressAsync("c", new(i), $"b{i}:1");
            await s.NoteSiteAddressAsync("c", new(9), "b9:1");
            return true;
        })));
        Assert.Equal(5, (await stores[0].SiteAddressesAsync("c")).Count);
        foreach (IMetadataStore s in stores) { await s.DisposeAsync(); }
    }

    private static async Task<IMetadataStore> StoreOfAsync(string spec)
    {
        IMetadataStore store = MetadataStoreFactory.Create(spec);
        await store.InitializeAsync();
        await store.GetOrCreateClusterAsync("c", Settings(2));
        return store;
    }

    private static Task<SiteAnswer> BackupAsync(IMetadataStore store) =>
        store.ChangeSiteAsync("c", _ => new(SiteState.BackupOf(2, SiteEpoch.First), null));

    private static async Task SeededAsync(IMetadataStore store)
    {
        for (int s = 0; s < 2; s++)
        {
            await store.ChangeSiteAsync("c", site => new(site.Seeded(new(s), 1), null));
            await store.ChangeSiteAsync("c", site => new(site.Count(new(s), 1), null));
        }
    }
}
