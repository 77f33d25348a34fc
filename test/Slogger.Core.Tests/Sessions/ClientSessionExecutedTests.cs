// What a session makes of a shard's word that it has executed batches whose replies are lost; and what it has yet to see committed.
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Sessions;

public class ClientSessionExecutedTests
{
    private static readonly ShardId A = new(0), B = new(1);

    private static ClientSession New() => new(new(7), WorldLine.First, new() { TrackDependencies = true, WindowMax = 100, RunsMax = 100 });

    private static VersionNumber V(long n) => new(n);

    private static SequenceNumber S(long n) => new(n);

    private static WorldPoint P(long version, long line = 1) => new(new(line), V(version));

    private static BatchHeader Begin(ClientSession s, ShardId shard, int count = 1)
    {
        Assert.True(s.TryBegin(shard, count, out BatchHeader header));
        return header;
    }

    private static void Do(ClientSession s, ShardId shard, long version)
    {
        BatchHeader header = Begin(s, shard);
        Assert.Equal(ReplyOutcome.Completed,
            s.OnReply(shard, header.First, new(WorldLine.First, new VersionRun[] { new(1, V(version)) }, P(0))));
    }

    private static string Text(ClientRollback? r) =>
        $"survived {r!.Survived}; except {string.Join(", ", r.Exceptions.Select(e => $"{e.Range} {e.Kind}"))}; lost "
            + $"{string.Join(", ", r.Lost)}; uncertain {string.Join(", ", r.Uncertain)}";

    [Fact]
    public void OnExecuted_BatchesUpToTheLast_CommitByTheBound_AndTheRestIsUncertain()
    {
        ClientSession s = New();
        Begin(s, A, 2);
        Begin(s, B);
        Begin(s, A, 2);
        Begin(s, A);
        s.OnExecuted(A, S(5), V(9));
        List<SequenceRange> uncertain = [];
        s.OnConnectionLost(A, uncertain);
        Assert.Equal([new SequenceRange(S(6), S(6))], uncertain);
        Assert.Equal((1, V(9), V(9)), (s.Unanswered, s.AtLeast, s.Uncommitted));
        Assert.Equal(S(0), s.OnCommitted(P(8)));
        Assert.Equal(S(6), s.OnCommitted(P(9)));
        List<ExceptionRange> exceptions = [];
        s.CopyExceptions(exceptions);
        Assert.Equal(["3 Open", "6 Uncertain"], exceptions.Select(e => $"{e.Range} {e.Kind}"));
        Assert.Equal(V(0), s.Uncommitted);
        // A reply that comes late all the same changes nothing.
        Assert.Equal(ReplyOutcome.Ignored, s.OnReply(A, S(1), new(WorldLine.First, new VersionRun[] { new(2, V(7)) }, P(0))));
    }

    // Begun behind version 5, executed up to 9.
    [Theory]
    [InlineData(4, "survived 0; except ; lost 1-3; uncertain ")]
    [InlineData(5, "survived 1; except ; lost ; uncertain 2-3")]
    [InlineData(8, "survived 1; except ; lost ; uncertain 2-3")]
    [InlineData(9, "survived 3; except ; lost ; uncertain ")]
    public void OnExecuted_ThenARollback_IsJudgedByBothBounds(long branch, string what)
    {
        ClientSession s = New();
        Do(s, B, 5);
        Begin(s, A, 2);
        s.OnExecuted(A, S(3), V(9));
        s.OnConnectionLost(A, []);
        Assert.Equal(what, Text(s.OnRollback(WorldLine.First, P(branch, 2))));
    }

    [Fact]
    public void OnExecuted_WhatBeginsThen_DependsOnIt()
    {
        ClientSession s = New();
        Begin(s, A);
        Assert.Empty(Begin(s, B).Dependencies.ToArray());
        s.OnExecuted(A, S(1), V(9));
        s.OnConnectionLost(A, []);
        BatchHeader header = Begin(s, B);
        Assert.Equal(V(9), header.AtLeast);
        Assert.Equal([new Dependency(A, V(9))], header.Dependencies.ToArray());
    }

    [Fact]
    public void OnExecuted_NothingThatFar_ChangesNothing()
    {
        ClientSession s = New();
        Begin(s, A, 2);
        Begin(s, B);
        s.OnExecuted(A, S(1), V(9));
        s.OnExecuted(B, S(2), V(9));
        Assert.Equal((3, V(0)), (s.Unanswered, s.AtLeast));
    }

    [Fact]
    public void OnExecuted_BelowWhatWasSeen_BreaksAnInvariant()
    {
        ClientSession s = New();
        Do(s, B, 9);
        Begin(s, A);
        Assert.Contains("I1", Assert.Throws<BrokenInvariantException>(() => s.OnExecuted(A, S(2), V(8))).Message, StringComparison.Ordinal);
        Assert.Throws<BrokenInvariantException>(() => s.OnExecuted(A, S(2), V(0)));
    }

    [Fact]
    public void Uncommitted_IsTheLargestVersionThatItsShardsCutDoesNotHold()
    {
        ClientSession s = New();
        Assert.Equal(V(0), s.Uncommitted);
        Do(s, A, 5);
        Do(s, B, 7);
        Begin(s, A);
        Assert.Equal(V(7), s.Uncommitted);
        s.OnCommitted(WorldLine.First, [V(4), V(8)]);
        Assert.Equal((V(5), S(0)), (s.Uncommitted, s.Committed));
        s.OnCommitted(WorldLine.First, [V(5), V(8)]);
        Assert.Equal((V(0), S(2)), (s.Uncommitted, s.Committed));
    }
}
