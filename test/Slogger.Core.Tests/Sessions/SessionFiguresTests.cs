// DPR, section 5.4 and figure 7: relaxed against strict DPR, and figure 5: sessions during a recovery.
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Sessions;

public class SessionFiguresTests
{
    private static readonly ShardId Local = new(0), Remote = new(1), OtherRemote = new(2);

    private static WorldPoint P(long version) => new(WorldLine.First, new(version));

    /// <summary>"Operations shown in blue (10, 12, 15) are local and execute immediately, whereas others execute remotely and
    /// go PENDING." The boundary is version 5.</summary>
    private static ClientSession Figure7(bool strict)
    {
        ClientSession s = new(new(1), WorldLine.First, new() { Strict = strict });
        Begin(s, Local, 9);
        Answer(s, Local, 1, 9, 4);
        Begin(s, Local, 1);
        Answer(s, Local, 10, 1, 5);
        Begin(s, Remote, 1);
        Begin(s, Local, 1);
        Answer(s, Local, 12, 1, 5);
        Begin(s, OtherRemote, 1);
        Begin(s, Remote, 1);
        Answer(s, OtherRemote, 13, 1, 5);
        Begin(s, Local, 1);
        Answer(s, Local, 15, 1, 6);
        return s;
    }

    // "This seemingly leads to a violation of DPR properties: the recovered prefix (10, 12, 13) misses operation 11. Observe,
    // however, that this is not an anomaly - 12 and 13 are concurrent with 11 and cannot depend on it."
    [Fact]
    public void Figure7_Relaxed_ThePrefixIs10And12And13WithoutOperation11()
    {
        ClientSession s = Figure7(strict: false);
        Assert.Equal(new(13), s.OnCommitted(P(5)));
        List<ExceptionRange> exceptions = [];
        s.CopyExceptions(exceptions);
        Assert.Equal([new(new(new(11), new(11)), ExceptionKind.Open)], exceptions);

        ClientRollback r = s.OnRollback(WorldLine.First, new(new(2), new(5)))!;
        Assert.Equal(new(13), r.Survived);
        Assert.Equal([new(new(new(11), new(11)), ExceptionKind.Uncertain)], r.Exceptions);
        Assert.Equal([new(new(15), new(15))], r.Lost);
        Assert.Equal([new(new(14), new(14))], r.Uncertain);
    }

    // "Operations that started before a prefix boundary must finish execution before later operations."
    [Fact]
    public void Figure7_Strict_ThePrefixStopsBefore11UntilItIsAnswered()
    {
        ClientSession s = Figure7(strict: true);
        Assert.Equal(new(10), s.OnCommitted(P(5)));
        Answer(s, Remote, 11, 1, 5);
        Assert.Equal(new(13), s.Committed);
    }

    // "relaxed DPR is merely a restating of the strict DPR guarantee that uses an alternative ordering": 12 did not follow
    // 11, so it does not have to be executed in a version as late; what begins after 11 was answered does.
    [Fact]
    public void Figure7_WhatBeginsAfterTheAnswer_DependsOnIt()
    {
        ClientSession s = Figure7(strict: false);
        Answer(s, Remote, 11, 1, 9);
        Assert.True(s.TryBegin(Local, 1, out BatchHeader header));
        Assert.Equal(new VersionNumber(9), header.AtLeast);
        Assert.Equal(new(10), s.OnCommitted(P(5)));
    }

    // Figure 5: "At this time, the client assumes that it is operating in a post-recovery world, but B has not recovered. A
    // subsequent call to Restore() from B wipes out operation 11, which violates the prefix guarantee."
    [Fact]
    public void Figure5_Operation11IsDelayedUntilBHasRecovered()
    {
        ShardId a = Local, b = Remote;
        VersionGrid grid = new(new(1), 1_000_000, 1000);
        BatchGate gate = new(new());
        HybridTimestamp now = HybridTimestamp.Of(1_008_500, 0);
        GateShard shardA = new(new(2), new(9), grid, [new(new(2), new(5))]), shardB = new(WorldLine.First, new(9), grid, []);

        ClientSession s = new(new(1), WorldLine.First, new());
        Begin(s, b, 9);
        Answer(s, b, 1, 9, 5);
        Assert.True(s.TryBegin(a, 1, out BatchHeader tenth));
        GateDecision refused = gate.Decide(tenth, shardA, now);
        Assert.Equal(new(GateVerdict.Rollback, Branch: new(new(2), new(5))), refused);
        ClientRollback rollback = s.OnRollback(tenth.WorldLine, refused.Branch)!;
        Assert.Equal(new(9), rollback.Survived);

        Assert.True(s.TryBegin(b, 1, out BatchHeader eleventh));
        Assert.Equal(GateVerdict.WaitForWorldLine, gate.Decide(eleventh, shardB, now).Verdict);
        shardB = shardB with { WorldLine = new(2), Branches = shardA.Branches };
        Assert.Equal(GateVerdict.Execute, gate.Decide(eleventh, shardB, now).Verdict);
    }

    private static void Begin(ClientSession s, ShardId shard, int count) => Assert.True(s.TryBegin(shard, count, out _));

    private static void Answer(ClientSession s, ShardId shard, long first, int count, long version) =>
        Assert.Equal(ReplyOutcome.Completed,
            s.OnReply(shard, new(first), new(WorldLine.First, new VersionRun[] { new(count, new(version)) }, P(0))));
}
