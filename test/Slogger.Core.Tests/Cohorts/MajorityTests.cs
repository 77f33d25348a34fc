// What a majority of a cohort has: the commit, and the leader's lease.
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Cohorts;

public class MajorityTests
{
    private static readonly NodeName[] s_names = [new("a"), new("b"), new("c"), new("d"), new("e")];

    private static Cohort Of(int nodes) => new(s_names.Take(nodes));

    private static LogIndex Log(long reign, long offset) => new(new WorldLine(1), offset, new VersionNumber(offset)) { Reign = new(reign) };

    [Theory]
    [InlineData(1, 1)]
    [InlineData(2, 2)]
    [InlineData(3, 2)]
    [InlineData(4, 3)]
    [InlineData(5, 3)]
    public void Commit_NeedsAMajority(int nodes, int majority)
    {
        var rule = new CommitRule(new(1), Of(nodes));
        for (int i = 0; i < nodes; i++)
        {
            Assert.Equal(i + 1 == majority, rule.Durable(s_names[i], Log(1, 10)));
            Assert.Equal(i + 1 >= majority ? Log(1, 10) : default(LogIndex?), rule.Commit);
        }
    }

    [Fact]
    public void Commit_AnyTwoOfThree_TheLeaderNeedNotBeAmongThem()
    {
        var rule = new CommitRule(new(1), Of(3));
        Assert.False(rule.Durable(s_names[1], Log(1, 20)));
        Assert.True(rule.Durable(s_names[2], Log(1, 15)));
        Assert.Equal(Log(1, 15), rule.Commit);
        Assert.True(rule.Durable(s_names[0], Log(1, 18)));
        Assert.Equal(Log(1, 18), rule.Commit);
    }

    // The paper's hole: what a majority has in an older line may yet be made void.
    [Fact]
    public void Commit_LogsOfAnOlderLine_DoNotCount()
    {
        var rule = new CommitRule(new(3), Of(3));
        Assert.False(rule.Durable(s_names[0], Log(3, 10)));
        Assert.False(rule.Durable(s_names[1], Log(2, 30)));
        Assert.False(rule.Durable(s_names[2], Log(2, 30)));
        Assert.Null(rule.Commit);
        Assert.True(rule.Durable(s_names[2], Log(3, 5)));
        Assert.Equal(Log(3, 5), rule.Commit);
    }

    // It had it, and said so; then its disk was lost, and with it the majority.
    [Fact]
    public void Commit_ANodeSaysHelloAgain_WhatItHadDoesNotCount()
    {
        var rule = new CommitRule(new(1), Of(3));
        Assert.False(rule.Durable(s_names[1], Log(1, 20)));
        rule.Forget(s_names[1]);
        Assert.False(rule.Durable(s_names[0], Log(1, 20)));
        Assert.True(rule.Durable(s_names[1], Log(1, 12)));
        Assert.Equal(Log(1, 12), rule.Commit);
    }

    [Fact]
    public void Commit_LateMessages_SayNothing()
    {
        var rule = new CommitRule(new(1), Of(3));
        rule.Durable(s_names[0], Log(1, 10));
        rule.Durable(s_names[1], Log(1, 10));
        Assert.False(rule.Durable(s_names[1], Log(1, 5)));
        Assert.Equal(Log(1, 10), rule.Commit);
        Assert.Equal(Log(1, 10), rule.DurableOf(s_names[1]));
    }

    [Fact]
    public void Commit_OfWhoDoesNotVote_IsNotCounted()
    {
        var rule = new CommitRule(new(1), Of(3));
        rule.Durable(s_names[0], Log(1, 10));
        Assert.False(rule.Durable(s_names[4], Log(1, 10)));
        Assert.Null(rule.Commit);
        Assert.Equal(Log(1, 10), rule.DurableOf(s_names[4]));
    }

    [Theory]
    [InlineData(1, 0)]
    [InlineData(3, 1)]
    [InlineData(5, 2)]
    public void Lease_NeedsTheEchoesOfAMajority_TheLeaderCounted(int nodes, int echoes)
    {
        var lease = new LeaderLease(s_names[0], Of(nodes), 100, nowUs: 0);
        for (int i = 0; i < echoes; i++)
        {
            Assert.False(lease.Holds(1050));
            lease.Echoed(s_names[i + 1], 1000, 1050);
        }
        Assert.True(lease.Holds(1050));
    }

    [Fact]
    public void Lease_RunsFromTheSending_OfTheSlowestThatIsNeeded()
    {
        var lease = new LeaderLease(s_names[0], Of(5), 100, nowUs: 0);
        lease.Echoed(s_names[1], 1000, 1090);
        lease.Echoed(s_names[2], 1030, 1090);
        lease.Echoed(s_names[3], 1020, 1090);
        Assert.Equal((1020L, 1120L), (lease.MajorityUs, lease.UntilUs));
        Assert.True(lease.Holds(1119));
        Assert.False(lease.Holds(1120));
        lease.Echoed(s_names[3], 900, 1200);
        Assert.Equal(1120, lease.UntilUs);
    }

    [Fact]
    public void Cohort_NobodyOrOneTwice_IsRefused()
    {
        Assert.Throws<ArgumentException>(() => new Cohort(Array.Empty<NodeName>()));
        Assert.Throws<ArgumentException>(() => new Cohort([s_names[0], s_names[0]]));
    }
}
