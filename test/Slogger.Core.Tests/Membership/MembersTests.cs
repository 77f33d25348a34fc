// Who may join and leave a cluster, and from when on a joiner counts.
using Slogger.Core.Cuts;
using Slogger.Core.Membership;
using Slogger.Core.Ownership;
using Slogger.Core.Recovery;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Membership;

public sealed class MembersTests
{
    private static WorldPoint P(long line, long version) => new(new(line), new(version));

    private static OwnershipTable Owners(int shards) => new(MapRevision.First, WorldLine.First, SlotMap.Even(shards), []);

    [Fact]
    public void Add_TheNextNumber_JoinsOnce()
    {
        Members two = Members.New(2);
        Members three = two.Add(new(2), FinderKind.Approximate).After!;
        Assert.Equal([MemberState.Member, MemberState.Member, MemberState.Joining], three.States);
        Assert.Equal(three.States, three.Add(new(2), FinderKind.Approximate).After!.States);
        Members joined = three.With(new(2), MemberState.Member);
        Assert.Equal(joined.States, joined.Add(new(2), FinderKind.Approximate).After!.States);
    }

    [Theory]
    [InlineData(2, 3, FinderKind.Approximate, "the next shard to join is 2")]
    [InlineData(2, 1, FinderKind.Approximate, "made with")]
    [InlineData(1, 1, FinderKind.Approximate, "made with one shard")]
    [InlineData(2, 2, FinderKind.Exact, "finder is exact")]
    [InlineData(2, 2, FinderKind.Hybrid, "finder is hybrid")]
    [InlineData(Cut.ShardsMax, Cut.ShardsMax, FinderKind.Approximate, "cannot have more")]
    public void Add_WhatCannotBe_IsRefusedAndSaysWhy(int count, int shard, FinderKind finder, string why)
    {
        MemberChange change = Members.New(count).Add(new(shard), finder);
        Assert.Null(change.After);
        Assert.Contains(why, change.Error, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(MemberState.Left)]
    [InlineData(MemberState.Leaving)]
    public void Add_ANumberThatHasLeft_IsNotGivenOutAgain(MemberState state)
    {
        Members three = Members.New(2).Add(new(2), FinderKind.Approximate).After!.With(new(2), state);
        Assert.Contains("the next shard to join is 3", three.Add(new(2), FinderKind.Approximate).Error, StringComparison.Ordinal);
        Assert.Equal(MemberState.Joining, three.Add(new(3), FinderKind.Approximate).After!.States[3]);
    }

    // What the cluster may go back to from then on, the joiner has to be able to go back to.
    [Theory]
    [InlineData(1, 10, 1, 8, 1, 8, false)]   // it is behind
    [InlineData(1, 10, 1, 10, 1, 10, true)]
    [InlineData(1, 10, 1, 15, 1, 9, true)]
    [InlineData(1, 10, 1, 15, 1, 11, false)]  // it began later, and has nothing before
    [InlineData(1, 10, 1, 16, 4, 8, false)]   // between two of its versions
    [InlineData(1, 12, 1, 16, 4, 8, true)]
    [InlineData(2, 10, 1, 15, 1, 9, false)]   // of a world-line that is over
    public void Admits_OnlyWhoCanBeRestoredToTheRecordedCut(long line, long cut, long ownLine, long durable, long stride, long floor,
        bool expected) =>
        Assert.Equal(expected, Members.Admits(P(line, cut), new DurableClaim(P(ownLine, durable), stride, new(floor))));

    [Fact]
    public void Leave_OwnsSlotsOrMoves_IsRefused()
    {
        Members three = Members.New(3);
        OwnershipTable owners = Owners(3);
        Assert.Contains("owns 5461 hash slots", three.Leave(new(2), owners).Error, StringComparison.Ordinal);
        OwnershipTable two = Owners(2);
        OwnershipTable moving = two.Plan([new(new(0), new(5))], new(2), out _)!;
        Assert.Contains("takes part in move", three.Leave(new(2), moving).Error, StringComparison.Ordinal);
        Assert.Contains("has no shard 3", three.Leave(new(3), two).Error, StringComparison.Ordinal);
        Members leaving = three.Leave(new(2), two).After!;
        Assert.Equal(MemberState.Leaving, leaving.States[2]);
        Assert.True(Members.Counts(leaving.States[2]));
        Assert.Equal(leaving.States, leaving.Leave(new(2), two).After!.States);
    }

    [Fact]
    public void Leave_HasNotJoined_HasLeftAtOnce()
    {
        Members three = Members.New(2).Add(new(2), FinderKind.Approximate).After!;
        Assert.Equal(MemberState.Left, three.Leave(new(2), Owners(2)).After!.States[2]);
    }

    [Fact]
    public void Finder_OfSomeShards_GoesByThoseThatCount()
    {
        ApproximateFinder finder = new(Cut.Uniform(WorldLine.First, 4, new(5)), [true, false, true, false]);
        finder.Report(VersionReport.WithoutDependencies(new(0), P(1, 9), 1));
        finder.Report(VersionReport.WithoutDependencies(new(1), P(1, 7), 8));
        finder.Advance();
        Assert.Equal(new(5), finder.Current.Versions[0]);
        finder.Report(VersionReport.WithoutDependencies(new(2), P(1, 8), 1));
        Assert.True(finder.Advance());
        Assert.Equal(Cut.Uniform(WorldLine.First, 4, new(8)), finder.Current);
        Assert.Throws<ArgumentException>(() => new ApproximateFinder(Cut.Uniform(WorldLine.First, 2, new(5)), [false, false]));
        Assert.Throws<ArgumentException>(() => new ApproximateFinder(Cut.Uniform(WorldLine.First, 2, new(5)), [true]));
    }

    [Theory]
    [InlineData(StoreSituation.Empty)]
    [InlineData(StoreSituation.Continues)]
    [InlineData(StoreSituation.BehindKnownOrigin)]
    public void Recovery_AJoiner_BeginsAnewAndNeverBelowWhatItSaid(StoreSituation situation)
    {
        RecoveryFacts facts = new() { Shard = new(2), Recorded = P(3, 40), Situation = situation, IsJoining = true };
        Assert.Equal(new RecoveryDecision.BeginToJoin(P(3, 40)), RecoveryPlan.Decide(facts));
        Assert.Equal(new RecoveryDecision.BeginToJoin(P(3, 44)), RecoveryPlan.Decide(facts with { Log = new(At(3, 44)) }));
        Assert.Equal(new RecoveryDecision.BeginToJoin(P(3, 40)), RecoveryPlan.Decide(facts with { Log = new(At(2, 44)) }));
        Assert.IsType<RecoveryDecision.Refuse>(RecoveryPlan.Decide(facts with { Log = new(At(4, 44)) }));
        Assert.Contains("empty Redis", Assert.IsType<RecoveryDecision.Refuse>(RecoveryPlan.Decide(facts with { KeyCount = 1 })).Text,
            StringComparison.Ordinal);
    }

    private static Boundary At(long line, long version) => new(new(line), new VersionNumber(version), 100, 0, default);
}
