// A follower's log and store: what it takes, what it says, and how far its store goes.
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Cohorts;

public class FollowerTests
{
    private static readonly ShardId s_shard = new(0);
    private static readonly StreamHistory s_history = new("history", 0);
    private static readonly Sender s_leader = new(default, 2, 1);

    private static LogIndex At(long reign, long offset) => new(new WorldLine(1), offset, new VersionNumber(offset)) { Reign = new(reign) };

    private static LogBranch Line(long reign, long offset) =>
        new(new WorldLine(1), new VersionNumber(offset), offset) { Reign = new(reign) };

    private static LogLines Lines(LogIndex end, params LogBranch[] begins) => new([.. begins], end);

    private static WorldPoint Version(long number) => new(new WorldLine(1), new VersionNumber(number));

    private static ShipRequest.Piece Piece(LogIndex from, LogIndex to, LogIndex commit = default, long sentUs = 1) =>
        new(s_shard, s_leader, from, to, commit, default, sentUs);

    private static Follower Of(LogLines lines) =>
        new(new() { Shard = s_shard, History = s_history, Lines = lines });

    // A follower that has greeted its leader, with a log up to 10 in reign 1.
    private static Follower Greeted(out List<ReceiverEffect> effects)
    {
        LogLines lines = Lines(At(1, 10), Line(1, 0));
        Follower follower = Of(lines);
        effects = [];
        follower.Received(new ShipRequest.Hello(s_shard, s_leader, s_history), effects);
        Assert.Equal([new ReceiverEffect.Rewind(null)], effects);
        effects.Clear();
        follower.Rewound(lines, effects);
        Assert.Equal(ShipReplyKind.Welcome, Reply(effects).Kind);
        Assert.Equal(lines, Reply(effects).Lines);
        effects.Clear();
        return follower;
    }

    private static ShipReply Reply(List<ReceiverEffect> effects) => effects.OfType<ReceiverEffect.Reply>().Last().Message;

    [Fact]
    public void Piece_IsAppendedAtOnce_AndAcknowledgedWhenItIsDurable()
    {
        Follower follower = Greeted(out List<ReceiverEffect> effects);
        ShipRequest.Piece piece = Piece(At(1, 10), At(1, 15));
        effects.Clear();
        follower.Received(piece, effects);
        Assert.Equal(new ReceiverEffect.Append(piece), effects[0]);
        Assert.True(effects is [_, ReceiverEffect.Sync { Ticket.Log: var log }] && log == At(1, 15));
        effects.Clear();
        follower.Synced(At(1, 15), effects);
        Assert.Equal((At(1, 15), At(1, 15)), (Reply(effects).Received, Reply(effects).Durable));
    }

    // The node has voted without it: the leader before must not count it any more.
    [Fact]
    public void Sync_EndsBehindAVoteForALaterReign_IsNotAcknowledged()
    {
        Follower follower = Greeted(out List<ReceiverEffect> effects);
        follower.Received(Piece(At(1, 10), At(1, 15)), effects);
        effects.Clear();
        follower.Ballot = new(new(s_leader.Epoch + 1), new("c"));
        follower.Synced(At(1, 15), effects);
        Assert.DoesNotContain(effects, e => e is ReceiverEffect.Reply);
    }

    // Only a version that has ended counts: until then there is nothing to be made durable, however often that is looked at.
    [Fact]
    public void Piece_EndsNoVersion_IsNotSynced()
    {
        Follower follower = Greeted(out List<ReceiverEffect> effects);
        LogIndex part = At(1, 10) with { Offset = 13 };
        follower.Received(Piece(At(1, 10), part), effects);
        Assert.DoesNotContain(effects, e => e is ReceiverEffect.Sync);
        Assert.Equal(part, Reply(effects).Received);
        effects.Clear();
        follower.Synced(At(1, 10), effects);
        Assert.DoesNotContain(effects, e => e is ReceiverEffect.Sync);
        follower.Received(Piece(part, At(1, 15)), effects);
        Assert.Contains(effects, e => e is ReceiverEffect.Sync);
        effects.Clear();
        follower.Synced(At(1, 15), effects);
        Assert.DoesNotContain(effects, e => e is ReceiverEffect.Sync);
        Assert.Equal(At(1, 15), Reply(effects).Durable);
    }

    // The log was rewound while it was synced, and went on: what it had then is not what it has.
    [Fact]
    public void Sync_EndsBehindARewind_WhatTheLogHasNowCounts()
    {
        Follower follower = Greeted(out List<ReceiverEffect> effects);
        follower.Received(Piece(At(1, 10), At(1, 15)), effects);
        var later = new Sender(default, 3, 1);
        follower.Received(new ShipRequest.Hello(s_shard, later, s_history), effects);
        follower.Rewound(Lines(At(1, 12), Line(1, 0)), effects);
        follower.Received(Piece(At(1, 12), At(1, 20)) with { Sender = later }, effects);
        effects.Clear();
        follower.Synced(At(1, 12), effects);
        Assert.Equal((At(1, 20), At(1, 12)), (Reply(effects).Received, Reply(effects).Durable));
        Assert.Contains(effects, e => e is ReceiverEffect.Sync);
    }

    // It was sent before the leader knew where this log ends: its last version is one that the leader's reign has made void.
    [Fact]
    public void Heartbeat_OfBeforeTheWelcome_SaysNothingOfThisLogsEnd()
    {
        Follower follower = Greeted(out List<ReceiverEffect> effects);
        follower.Received(Piece(At(1, 6), At(1, 6), commit: At(2, 12)), effects);
        Assert.Equal(default, follower.Commit);
        Assert.DoesNotContain(effects, e => e is ReceiverEffect.Apply);
        // And the leader may still have it made void.
        follower.Received(new ShipRequest.Rewind(s_shard, s_leader, At(1, 6)), effects);
        Assert.Contains(new ReceiverEffect.Rewind(At(1, 6)), effects);
    }

    [Fact]
    public void Piece_BehindAGap_IsNotTaken()
    {
        Follower follower = Greeted(out List<ReceiverEffect> effects);
        follower.Received(Piece(At(1, 12), At(1, 15)), effects);
        Assert.Equal(ShipReplyKind.Nack, Reply(effects).Kind);
        Assert.DoesNotContain(effects, e => e is ReceiverEffect.Append);
    }

    [Fact]
    public void Line_Begins_DurableAtOnce()
    {
        Follower follower = Greeted(out List<ReceiverEffect> effects);
        follower.Received(Piece(At(1, 10), At(2, 10)), effects);
        Assert.Equal(At(2, 10), Reply(effects).Durable);
        Assert.DoesNotContain(effects, e => e is ReceiverEffect.Sync);
    }

    // One of several shards: another one's loss begins a world-line at the recorded cut, below what this one has committed.
    [Fact]
    public void Store_OfOneOfSeveralShards_GoesToTheRecordedCut_AndNeverIntoWhatAWorldLineMakesVoid()
    {
        LogLines lines = Lines(At(1, 10), Line(1, 0));
        // Versions are named by where they end; 21 to 23 are empty.
        var follower = new Follower(new()
        {
            Shard = s_shard, History = s_history, Lines = lines, EndOf = version => Math.Min(version.Number, 20),
        });
        List<ReceiverEffect> effects = [];
        follower.Received(new ShipRequest.Hello(s_shard, s_leader, s_history), effects);
        follower.Rewound(lines, effects);
        follower.Received(Piece(At(1, 10), At(1, 20)) with { Cut = Version(12) }, effects);
        follower.Synced(At(1, 20), effects);
        follower.Received(Piece(At(1, 20), At(1, 20), commit: At(1, 20)) with { Cut = Version(15) }, effects);
        Assert.Equal(new ReceiverEffect.Apply(Version(15)), Assert.Single(effects.OfType<ReceiverEffect.Apply>()));
        effects.Clear();
        // The cut of a world-line that this log has not come to yet: versions 16 to 20 may be void.
        follower.Received(Piece(At(1, 20), At(1, 20), commit: At(1, 20)) with { Cut = new(new(2), new(15)) }, effects);
        Assert.Empty(effects.OfType<ReceiverEffect.Apply>());
        LogIndex begun = At(1, 15) with { WorldLine = new(2) }, end = begun with { Offset = 20, Closed = new(23) };
        follower.Received(Piece(At(1, 20), begun, commit: At(1, 20)) with { Cut = new(new(2), new(15)) }, effects);
        follower.Received(Piece(begun, end, commit: begun) with { Cut = new(new(2), new(15)) }, effects);
        Assert.Equal(new ReceiverEffect.Apply(new(new(2), new(15))), Assert.Single(effects.OfType<ReceiverEffect.Apply>()));
        effects.Clear();
        follower.Synced(end, effects);
        follower.Received(Piece(end, end, commit: end) with { Cut = new(new(2), new(18)) }, effects);
        Assert.Equal(new ReceiverEffect.Apply(new(new(2), new(18))), Assert.Single(effects.OfType<ReceiverEffect.Apply>()));
        effects.Clear();
        // Nothing is executed any more.
        follower.Received(Piece(end, end, commit: end) with { Cut = new(new(2), new(21)) }, effects);
        Assert.Equal(new ReceiverEffect.Apply(new(new(2), new(23))), Assert.Single(effects.OfType<ReceiverEffect.Apply>()));
    }

    [Fact]
    public void Store_GoesToWhatIsCommittedAndDurableHere()
    {
        Follower follower = Greeted(out List<ReceiverEffect> effects);
        follower.Received(Piece(At(1, 10), At(1, 20), commit: At(1, 18)), effects);
        Assert.Equal(Version(10), effects.OfType<ReceiverEffect.Apply>().Single().To);
        effects.Clear();
        follower.Synced(At(1, 20), effects);
        Assert.Equal(Version(18), effects.OfType<ReceiverEffect.Apply>().Single().To);
    }

    [Fact]
    public void Rewind_AboveTheCommit_IsDone_AndSaidWhenItIsDurable()
    {
        Follower follower = Greeted(out List<ReceiverEffect> effects);
        follower.Received(new ShipRequest.Rewind(s_shard, s_leader, At(1, 7)), effects);
        Assert.Equal([new ReceiverEffect.Rewind(At(1, 7))], effects);
        effects.Clear();
        // What comes meanwhile is of no use.
        follower.Received(Piece(At(1, 10), At(1, 15)), effects);
        Assert.Empty(effects);
        follower.Rewound(Lines(At(1, 7), Line(1, 0)), effects);
        Assert.Equal(At(1, 7), Reply(effects).Received);
    }

    [Fact]
    public void Rewind_BelowTheCommit_BreaksR4()
    {
        Follower follower = Greeted(out List<ReceiverEffect> effects);
        follower.Received(Piece(At(1, 10), At(1, 10), commit: At(1, 9)), effects);
        var later = new Sender(default, 3, 1);
        follower.Received(new ShipRequest.Hello(s_shard, later, s_history), effects);
        follower.Rewound(Lines(At(1, 10), Line(1, 0)), effects);
        Assert.Throws<BrokenInvariantException>(() => follower.Received(new ShipRequest.Rewind(s_shard, later, At(1, 8)), effects));
    }

    // A late one says where the log was once.
    [Fact]
    public void Rewind_BehindAPiece_IsNotDone()
    {
        Follower follower = Greeted(out List<ReceiverEffect> effects);
        follower.Received(Piece(At(1, 10), At(1, 15)), effects);
        effects.Clear();
        follower.Received(new ShipRequest.Rewind(s_shard, s_leader, At(1, 7)), effects);
        Assert.Empty(effects);
    }

    [Fact]
    public void Hello_OfAnotherHistory_HasTheLogCopiedAnew()
    {
        Follower follower = Of(Lines(At(1, 10), Line(1, 0)));
        List<ReceiverEffect> effects = [];
        follower.Received(new ShipRequest.Hello(s_shard, s_leader, new("other", 0)), effects);
        Assert.IsType<ReceiverEffect.Reseed>(Assert.Single(effects));
    }

    [Fact]
    public void Echo_IsOfTheNewestMessageOfThisLeader()
    {
        Follower follower = Greeted(out List<ReceiverEffect> effects);
        follower.Received(Piece(At(1, 10), At(1, 10), sentUs: 50), effects);
        follower.Received(Piece(At(1, 10), At(1, 10), sentUs: 40), effects);
        Assert.Equal(50, Reply(effects).EchoUs);
        follower.Received(new ShipRequest.Hello(s_shard, new Sender(default, 3, 1), s_history), effects);
        follower.Rewound(Lines(At(1, 10), Line(1, 0)), effects);
        Assert.Equal(0, Reply(effects).EchoUs);
    }

    [Fact]
    public void Learner_SaysSo_AndIsAdmittedByItsLeader()
    {
        Follower follower = Greeted(out List<ReceiverEffect> effects);
        follower.Ballot = new() { Learns = true };
        follower.Received(Piece(At(1, 10), At(1, 12)), effects);
        follower.Synced(At(1, 12), effects);
        Assert.True(Reply(effects).Learns);
        Assert.DoesNotContain(effects, e => e is ReceiverEffect.Learned);
        follower.Received(Piece(At(1, 12), At(1, 12)) with { Admits = true }, effects);
        Assert.Contains(new ReceiverEffect.Learned(), effects);
    }
}
