// What a leader makes of its followers' answers.
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Cohorts;

public class LeaderTests
{
    private static readonly NodeName s_a = new("a"), s_b = new("b"), s_c = new("c");

    private static LogIndex At(long offset) => new(new WorldLine(1), offset, new VersionNumber(offset)) { Reign = new(2) };

    private static Leader New() => new(s_a, new Reign(2), new([s_a, s_b, s_c]), leaseUs: 100, nowUs: 0);

    private static ShipReply Ack(long durable, long echoUs, bool learns = false) =>
        new(ShipReplyKind.Ack, new(0), 0, At(durable), At(durable), default, default, echoUs, new(default, 2, 1)) { Learns = learns };

    [Fact]
    public void Follower_Answers_CommitAndLease()
    {
        Leader leader = New();
        Assert.False(leader.Synced(At(10)));
        Assert.True(leader.Replied(s_b, Ack(8, echoUs: 50), nowUs: 60));
        Assert.Equal(At(8), leader.Commit);
        Assert.Equal(150, leader.Lease.UntilUs);
    }

    [Fact]
    public void HasHeard_AFollowerHasAnsweredSomethingSentSinceThen()
    {
        Leader leader = New();
        Assert.False(leader.Lease.HasHeard(s_b, 0));
        leader.Replied(s_b, Ack(8, echoUs: 50), nowUs: 60);
        Assert.True(leader.Lease.HasHeard(s_b, 50));
        Assert.False(leader.Lease.HasHeard(s_b, 51));
        Assert.False(leader.Lease.HasHeard(s_c, 0));
    }

    [Fact]
    public void Learner_CountsForNothing()
    {
        Leader leader = New();
        leader.Synced(At(10));
        Assert.False(leader.Replied(s_b, Ack(10, echoUs: 50, learns: true), nowUs: 60));
        Assert.Null(leader.Commit);
        Assert.False(leader.Lease.Holds(70));
    }

    // The node may obey a leader whose reign is over, without knowing: so that leader has to hear from a majority without it.
    [Fact]
    public void Learner_IsAdmitted_WhenItHasTheCommit_AndAMajorityWithoutItHasAnsweredSince()
    {
        Leader leader = New();
        leader.Synced(At(10));
        leader.Replied(s_c, Ack(10, echoUs: 50), nowUs: 60);
        leader.Replied(s_b, Ack(9, echoUs: 0, learns: true), nowUs: 70);
        Assert.False(leader.Admits(s_b));
        leader.Replied(s_b, Ack(10, echoUs: 65, learns: true), nowUs: 80);
        Assert.False(leader.Admits(s_b));
        leader.Replied(s_c, Ack(10, echoUs: 75), nowUs: 85);
        Assert.True(leader.Admits(s_b));
        Assert.False(leader.Admits(s_c));
    }

    [Fact]
    public void Link_IsNew_WhatTheNodeHadSaidIsForgotten()
    {
        Leader leader = New();
        leader.Replied(s_b, Ack(10, echoUs: 50), nowUs: 60);
        leader.Linked(s_b);
        Assert.False(leader.Synced(At(10)));
        Assert.Null(leader.Commit);
    }

    [Fact]
    public void Members_Change_ByOne_AndNotBeforeTheReignsRecordIsCommitted()
    {
        Leader leader = New();
        var cohort = new Cohort([s_a, s_b, s_c]);
        NodeName d = new("d");
        leader.Synced(At(10));
        Assert.False(leader.MayChange(cohort.Without(s_c)));
        leader.Replied(s_b, Ack(10, echoUs: 50), nowUs: 60);
        Assert.True(leader.MayChange(cohort.Without(s_c)));
        // Of the two that are left one is not there, or learns.
        Assert.False(leader.MayChange(cohort.Without(s_a)));
        leader.Replied(s_c, Ack(10, echoUs: 50, learns: true), nowUs: 60);
        Assert.False(leader.MayChange(cohort.Without(s_a)));
        leader.Replied(s_c, Ack(10, echoUs: 70), nowUs: 80);
        Assert.True(leader.MayChange(cohort.Without(s_a)));
        Assert.False(leader.MayChange(cohort));
        Assert.False(leader.MayChange(cohort.Without(s_c).With(d, "")));
        // One that is new has the log first.
        Assert.False(leader.MayChange(cohort.With(d, "")));
        leader.Replied(d, Ack(10, echoUs: 50, learns: true), nowUs: 60);
        Assert.False(leader.MayChange(cohort.With(d, "")));
        leader.Replied(d, Ack(10, echoUs: 70), nowUs: 80);
        Assert.True(leader.MayChange(cohort.With(d, "")));
    }

    [Fact]
    public void Frozen_CommitsNothing_UntilItIsNoMore()
    {
        Leader leader = New();
        leader.Synced(At(10));
        leader.Replied(s_b, Ack(8, echoUs: 50), nowUs: 60);
        leader.IsFrozen = true;
        Assert.False(leader.Replied(s_b, Ack(9, echoUs: 60), nowUs: 70));
        Assert.Equal(At(8), leader.Commit);
        Assert.True(leader.Has(s_b));
        leader.Replied(s_c, Ack(7, echoUs: 60), nowUs: 70);
        Assert.False(leader.Has(s_c));
        leader.IsFrozen = false;
        Assert.True(leader.Replied(s_b, Ack(10, echoUs: 80), nowUs: 90));
        Assert.Equal(At(10), leader.Commit);
    }
}
