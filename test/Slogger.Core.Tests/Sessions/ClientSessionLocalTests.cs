// Operations that a session's application executes by itself, on a shard in its own process (DPR, section 5: co-location); sentences in
// quotes are DPR's.
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Sessions;

public class ClientSessionLocalTests
{
    private static readonly ShardId Here = new(0), There = new(1);

    private static ClientSession New(int runs = 100) =>
        new(new(7), WorldLine.First, new() { WindowMax = 100, RunsMax = runs, TrackDependencies = true });

    private static void Execute(ClientSession s, long count, long version) => s.OnExecutedHere(Here, s.WorldLine, count, new(version));

    private static BatchHeader Begin(ClientSession s)
    {
        Assert.True(s.TryBegin(There, 1, out BatchHeader header));
        return header;
    }

    private static void Answer(ClientSession s, BatchHeader header, long version) =>
        Assert.Equal(ReplyOutcome.Completed,
            s.OnReply(There, header.First,
                new(s.WorldLine, new VersionRun[] { new(1, new(version)) }, new(s.WorldLine, VersionNumber.Zero))));

    private static string Exceptions(ClientSession s)
    {
        List<ExceptionRange> list = [];
        s.CopyExceptions(list);
        return string.Join(", ", list.Select(e => $"{e.Range} {e.Kind}"));
    }

    [Fact]
    public void OnExecutedHere_WhatBeginsBehindIt_DependsOnIt()
    {
        ClientSession s = New();
        Execute(s, 1000, 12);
        BatchHeader header = Begin(s);
        Assert.Equal((new VersionNumber(12), new SequenceNumber(1001)), (header.AtLeast, header.First));
        Assert.Equal([new Dependency(Here, new(12))], header.Dependencies.ToArray());
    }

    // Section 5.4: operations that are pending do not hold up those behind them.
    [Fact]
    public void OnExecutedHere_WhileOthersArePending_CommitsPastThem()
    {
        ClientSession s = New();
        BatchHeader pending = Begin(s);
        Execute(s, 10, 5);
        Assert.Equal(new SequenceNumber(11), s.OnCommitted(new WorldPoint(WorldLine.First, new(5))));
        Assert.Equal("1 Open", Exceptions(s));
        Answer(s, pending, 5);
        Assert.Equal("", Exceptions(s));
    }

    // What was answered to another thread while the operations were executed is not what they had to follow.
    [Fact]
    public void OnExecutedHere_BelowWhatWasAnsweredMeanwhile_IsTakenInAndKeepsItsVersion()
    {
        ClientSession s = New();
        BatchHeader pending = Begin(s);
        Answer(s, pending, 9);
        Execute(s, 5, 7);
        Assert.Equal(new VersionNumber(9), s.AtLeast);
        s.OnCommitted(new WorldPoint(WorldLine.First, new(7)));
        ClientRollback rollback = s.OnRollback(WorldLine.First, new WorldPoint(new(2), new(7)))!;
        Assert.Equal(new SequenceNumber(6), rollback.Survived);
        Assert.Equal("1 Lost", string.Join(", ", rollback.Exceptions.Select(e => $"{e.Range} {e.Kind}")));
    }

    [Fact]
    public void OnRollback_SplitsThemAtTheBranch()
    {
        ClientSession s = New();
        Execute(s, 10, 3);
        Execute(s, 10, 4);
        ClientRollback rollback = s.OnRollback(WorldLine.First, new(2), [new VersionNumber(3), new VersionNumber(8)])!;
        Assert.Equal(new SequenceNumber(10), rollback.Survived);
        Assert.Equal("11-20", string.Join(", ", rollback.Lost));
        Assert.Throws<BrokenInvariantException>(() => s.OnExecutedHere(Here, WorldLine.First, 1, new(9)));
    }

    // Memory is bounded by versions that are not committed, and those are merged.
    [Fact]
    public void OnExecutedHere_InEverNewVersions_KeepsNoMoreRunsThanAllowed()
    {
        ClientSession s = New(runs: 16);
        for (long version = 1; version <= 10_000; version++)
        {
            Execute(s, 3, version);
            Assert.InRange(s.RunCount, 1, 17);
        }

        Assert.Equal(new SequenceNumber(30_000), s.OnCommitted(new WorldPoint(WorldLine.First, new(10_000))));
    }

    [Fact]
    public void DependenciesSince_AreWhatWasSeenElsewhereSinceTheShardWasTold()
    {
        ClientSession s = New();
        Answer(s, Begin(s), 9);
        Execute(s, 1, 9);
        Assert.Equal([new Dependency(There, new(9))], s.DependenciesSince(Here, 0).ToArray());
        long told = s.Learned;
        Assert.Empty(s.DependenciesSince(Here, told).ToArray());
        Answer(s, Begin(s), 11);
        Assert.Equal([new Dependency(There, new(11))], s.DependenciesSince(Here, told).ToArray());
    }

    // A batch on its way to the shard over the network says it, too, and may come behind what is executed there now.
    [Fact]
    public void DependenciesSince_WhileABatchThatNamesThemIsOnItsWay_StillNamesThem()
    {
        ClientSession s = New();
        Answer(s, Begin(s), 9);
        Assert.True(s.TryBegin(Here, 1, out BatchHeader header));
        Assert.Equal([new Dependency(There, new(9))], header.Dependencies.ToArray());
        Assert.Equal([new Dependency(There, new(9))], s.DependenciesSince(Here, 0).ToArray());
    }
}
