// The client's half of libDPR, rule by rule; sentences in quotes are DPR's. The property test is in SessionWorldTests.
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Sessions;

public class ClientSessionTests
{
    private static readonly ShardId A = new(0), B = new(1), C = new(2);

    private static ClientSession New(bool strict = false, bool dependencies = false, int window = 100, int runs = 100) =>
        new(new(7), WorldLine.First, new() { Strict = strict, TrackDependencies = dependencies, WindowMax = window, RunsMax = runs });

    private static VersionNumber V(long n) => new(n);

    private static SequenceNumber S(long n) => new(n);

    private static SequenceRange R(long first, long last) => new(S(first), S(last));

    private static WorldPoint P(long version, long line = 1) => new(new(line), V(version));

    private static BatchHeader Begin(ClientSession s, ShardId shard, int count = 1)
    {
        Assert.True(s.TryBegin(shard, count, out BatchHeader header));
        return header;
    }

    private static BatchReply Reply(WorldPoint cut, params VersionRun[] runs) => new(cut.WorldLine, runs, cut);

    private static ReplyOutcome Answer(ClientSession s, ShardId shard, long first, int count, long version, long line = 1) =>
        s.OnReply(shard, S(first), Reply(P(0, line), new VersionRun(count, V(version))));

    /// <summary>One operation, begun and answered.</summary>
    private static void Do(ClientSession s, ShardId shard, long version)
    {
        BatchHeader header = Begin(s, shard);
        Assert.Equal(ReplyOutcome.Completed, Answer(s, shard, header.First.Number, 1, version, s.WorldLine.Number));
    }

    private static string Exceptions(ClientSession s)
    {
        List<ExceptionRange> list = [];
        s.CopyExceptions(list);
        return string.Join(", ", list.Select(e => $"{e.Range} {e.Kind}"));
    }

    private static string Text(ClientRollback? r) => r is null
        ? "known"
        : $"{r.WorldLine}: survived {r.Survived}; except {string.Join(", ", r.Exceptions.Select(e => $"{e.Range} {e.Kind}"))}; lost "
            + $"{string.Join(", ", r.Lost)}; uncertain {string.Join(", ", r.Uncertain)}";

    [Fact]
    public void SessionId_IsShownAs32HexDigits() =>
        Assert.Equal("0000000000000001000000000000000f", new SessionId(new UInt128(1, 15)).ToString());

    // Section 6: "libDPR assigns sequence numbers to operations in the session".
    [Fact]
    public void TryBegin_NumbersOperationsByTheirStart()
    {
        ClientSession s = New();
        Assert.Equal((S(1), 3), (Begin(s, A, 3).First, 3));
        BatchHeader second = Begin(s, B, 2);
        Assert.Equal((s.Id, WorldLine.First, S(4), 2), (second.Session, second.WorldLine, second.First, second.Count));
        Assert.Equal((S(5), 5), (s.Begun, s.Unanswered));
    }

    // Section 3.2: "each client maintains local version counter Vs, the largest version number a session has seen, and
    // appends Vs to every request ... The StateObject returns v to client afterwards, and client sets Vs = max(Vs, v)."
    [Fact]
    public void TryBegin_CarriesTheLargestVersionSeen()
    {
        ClientSession s = New();
        Assert.Equal(VersionNumber.Zero, Begin(s, A).AtLeast);
        Assert.Equal(VersionNumber.Zero, Begin(s, B).AtLeast);
        Answer(s, A, 1, 1, 8);
        Assert.Equal(V(8), Begin(s, C).AtLeast);
        Answer(s, B, 2, 1, 5);
        Assert.Equal(V(8), Begin(s, B).AtLeast);
        s.OnReply(C, S(3), Reply(P(0), new VersionRun(1, V(9))));
        Assert.Equal(V(9), s.AtLeast);
    }

    [Fact]
    public void TryBegin_WindowFull_IsFalseUntilAReply()
    {
        ClientSession s = New(window: 4);
        Begin(s, A, 3);
        Assert.False(s.TryBegin(B, 2, out _));
        Begin(s, B, 1);
        Assert.False(s.TryBegin(B, 1, out _));
        Assert.Equal(S(4), s.Begun);
        Answer(s, A, 1, 3, 5);
        Assert.Equal(S(5), Begin(s, B, 2).First);
        Assert.Throws<ArgumentOutOfRangeException>(() => s.TryBegin(A, 5, out _));
        Assert.Throws<ArgumentOutOfRangeException>(() => s.TryBegin(A, 0, out _));
        Assert.Throws<ArgumentOutOfRangeException>(() => s.TryBegin(new(ClientSession.ShardsMax), 1, out _));
        Assert.Throws<ArgumentOutOfRangeException>(() => s.TryBegin(new(-1), 1, out _));
    }

    [Fact]
    public void Options_BoundsTooSmall_AreACallersMistake()
    {
        Assert.Throws<ArgumentOutOfRangeException>(() => New(window: 0));
        Assert.Throws<ArgumentOutOfRangeException>(() => New(runs: 7));
    }

    [Fact]
    public void OnReply_DoubledOrLate_ChangesNothing()
    {
        ClientSession s = New();
        Begin(s, A, 2);
        Begin(s, B, 2);
        Assert.Equal(ReplyOutcome.Completed, Answer(s, B, 3, 2, 6));
        Assert.Equal(ReplyOutcome.Ignored, Answer(s, B, 3, 2, 9));
        Assert.Equal((V(6), 2), (s.AtLeast, s.Unanswered));
        s.OnConnectionLost(A, []);
        Assert.Equal(ReplyOutcome.Ignored, Answer(s, A, 1, 2, 9));
        Assert.Equal((V(6), 0), (s.AtLeast, s.Unanswered));
    }

    [Fact]
    public void OnReply_ThatFitsNoBatch_IsInvalidAndChangesNothing()
    {
        ClientSession s = New();
        Do(s, B, 5);
        Begin(s, A, 3);
        Assert.Equal(ReplyOutcome.Invalid, Answer(s, A, 5, 1, 6));
        Assert.Equal(ReplyOutcome.Invalid, Answer(s, A, 0, 1, 6));
        Assert.Equal(ReplyOutcome.Invalid, Answer(s, B, 2, 3, 6));
        Assert.Equal(ReplyOutcome.Invalid, Answer(s, A, 2, 2, 6));
        Assert.Equal(ReplyOutcome.Invalid, Answer(s, A, 2, 4, 6));
        Assert.Equal(ReplyOutcome.Invalid, Answer(s, A, 2, 3, 4));
        Assert.Equal(ReplyOutcome.Invalid, Answer(s, A, 2, 3, 6, line: 2));
        Assert.Equal(ReplyOutcome.Invalid, s.OnReply(A, S(2), Reply(P(0), new(4, V(6)), new(-1, V(6)))));
        Assert.Equal(ReplyOutcome.Invalid, s.OnReply(A, S(2), Reply(P(0), new(1, V(7)), new(2, V(6)))));
        Assert.Equal(ReplyOutcome.Invalid, s.OnReply(A, S(2), Reply(P(0))));
        Assert.Equal((V(5), 3, 2), (s.AtLeast, s.Unanswered, s.RunCount));
        Assert.Equal(ReplyOutcome.Completed, Answer(s, A, 2, 3, 5));
    }

    [Fact]
    public void OnReply_TakesInTheCut()
    {
        ClientSession s = New();
        Begin(s, A, 2);
        Begin(s, A, 2);
        s.OnReply(A, S(1), Reply(P(5), new VersionRun(2, V(5))));
        Assert.Equal(S(2), s.Committed);
        // The cut was known before: what is answered into it is committed at once.
        s.OnReply(A, S(3), Reply(P(4), new VersionRun(2, V(5))));
        Assert.Equal(S(4), s.Committed);
    }

    [Fact]
    public void OnReply_SeveralVersions_CommitApart()
    {
        ClientSession s = New();
        Begin(s, A, 9);
        s.OnReply(A, S(1), Reply(P(0), new(4, V(5)), new(2, V(6)), new(3, V(9))));
        Assert.Equal(S(4), s.OnCommitted(P(5)));
        Assert.Equal(S(6), s.OnCommitted(P(8)));
        Assert.Equal(S(9), s.OnCommitted(P(9)));
        Assert.Equal(0, s.RunCount);
    }

    [Fact]
    public void OnCommitted_OtherWorldLineOrOlder_IsIgnored()
    {
        ClientSession s = New();
        Do(s, A, 5);
        Do(s, A, 7);
        Assert.Equal(S(0), s.OnCommitted(P(9, line: 2)));
        Assert.Equal(S(0), s.OnCommitted(new(2), [V(9), V(9)]));
        Assert.Equal(S(1), s.OnCommitted(P(6)));
        Assert.Equal(S(1), s.OnCommitted(P(4)));
        Assert.Equal(S(1), s.OnCommitted(WorldLine.First, [V(4)]));
        Assert.Equal(S(2), s.OnCommitted(P(7)));
    }

    [Fact]
    public void OnCommitted_VersionsByShard_HoldEachToItsOwn()
    {
        ClientSession s = New();
        Begin(s, A);
        Begin(s, B);
        Begin(s, A);
        Answer(s, A, 1, 1, 5);
        Answer(s, B, 2, 1, 7);
        Answer(s, A, 3, 1, 5);
        Assert.Equal(S(1), s.OnCommitted(WorldLine.First, [V(6), V(6)]));
        Assert.Equal(S(1), s.OnCommitted(WorldLine.First, [V(9)]));
        Assert.Equal(S(3), s.OnCommitted(WorldLine.First, [V(0), V(7)]));
    }

    // Section 5.4: "recovered prefixes may now have missing PENDING operations that are clearly identified in an exception
    // list as part of the commit."
    [Fact]
    public void OnCommitted_Pending_IsPassedAndListedUntilACutHoldsIt()
    {
        ClientSession s = New();
        Begin(s, B, 2);
        Do(s, A, 5);
        Assert.Equal(S(3), s.OnCommitted(P(5)));
        Assert.Equal("1-2 Open", Exceptions(s));
        // Answered late, in a version that is not committed: still an exception.
        Answer(s, B, 1, 2, 7);
        Assert.Equal("1-2 Open", Exceptions(s));
        Do(s, A, 7);
        Assert.Equal(S(3), s.OnCommitted(P(6)));
        Assert.Equal(S(4), s.OnCommitted(P(7)));
        Assert.Equal("", Exceptions(s));
    }

    [Fact]
    public void OnCommitted_AnsweredButNotInTheCut_IsNotPassed()
    {
        ClientSession s = New();
        Begin(s, B);
        Do(s, A, 5);
        Answer(s, B, 1, 1, 7);
        Assert.Equal(S(0), s.OnCommitted(P(5)));
        Assert.Equal(S(2), s.OnCommitted(P(7)));
    }

    [Fact]
    public void OnCommitted_PendingAtTheEnd_IsNotPassed()
    {
        ClientSession s = New();
        Do(s, A, 5);
        Begin(s, B);
        Assert.Equal(S(1), s.OnCommitted(P(9)));
        Assert.Equal("", Exceptions(s));
    }

    [Fact]
    public void OnCommitted_Strict_StopsAtTheFirstPending()
    {
        ClientSession s = New(strict: true);
        Do(s, A, 5);
        Begin(s, B, 2);
        Do(s, A, 5);
        Assert.Equal(S(1), s.OnCommitted(P(5)));
        Answer(s, B, 2, 2, 5);
        Assert.Equal(S(4), s.Committed);
        Assert.Equal("", Exceptions(s));
    }

    [Fact]
    public void OnRollback_SaysExactlyWhatSurvived()
    {
        ClientSession s = New();
        Begin(s, A, 10);
        Answer(s, A, 1, 10, 5);
        Begin(s, B, 10);
        Answer(s, B, 11, 10, 6);
        Begin(s, A, 10);
        Answer(s, A, 21, 10, 8);
        Assert.Equal("2: survived 20; except ; lost 21-30; uncertain ", Text(s.OnRollback(s.WorldLine, P(7, 2))));
        Assert.Equal((S(30), S(30), 0, new WorldLine(2)), (s.Committed, s.Begun, s.RunCount, s.WorldLine));
        Assert.Equal("21-30 Lost", Exceptions(s));
        // It goes on with new numbers, above the branch.
        BatchHeader header = Begin(s, A);
        Assert.Equal((S(31), new WorldLine(2), V(8)), (header.First, header.WorldLine, header.AtLeast));
        Assert.Equal(ReplyOutcome.Ignored, Answer(s, A, 31, 1, 9));
        Assert.Equal(ReplyOutcome.Completed, Answer(s, A, 31, 1, 9, line: 2));
        Assert.Equal(S(30), s.OnCommitted(P(9)));
        Assert.Equal(S(31), s.OnCommitted(P(9, line: 2)));
    }

    [Fact]
    public void OnRollback_Unanswered_IsUncertainUnlessItBeganBehindTheBranch()
    {
        ClientSession s = New();
        Begin(s, B, 2);
        Do(s, A, 6);
        Begin(s, B, 1);
        Do(s, A, 8);
        Begin(s, B, 1);
        // 4 may be in version 6 or 7; 6 was begun after version 8 was seen.
        Assert.Equal("2: survived 3; except 1-2 Uncertain; lost 5-6; uncertain 4", Text(s.OnRollback(s.WorldLine, P(7, 2))));
        Assert.Equal("1-2 Uncertain, 4 Uncertain, 5-6 Lost", Exceptions(s));
        Assert.Equal(ReplyOutcome.Ignored, Answer(s, B, 1, 2, 5));
        Assert.Equal(ReplyOutcome.Ignored, Answer(s, B, 1, 2, 9, line: 2));
    }

    [Fact]
    public void OnRollback_ConcurrentOperationLost_IsAnExceptionBelowTheSurvivors()
    {
        ClientSession s = New();
        Begin(s, B);
        Do(s, A, 5);
        Answer(s, B, 1, 1, 8);
        Assert.Equal("2: survived 2; except 1 Lost; lost ; uncertain ", Text(s.OnRollback(s.WorldLine, P(7, 2))));
    }

    [Fact]
    public void OnRollback_VersionsByShard_DecideEachByItsOwn()
    {
        ClientSession s = New();
        Begin(s, A);
        Begin(s, B);
        Begin(s, C);
        Answer(s, A, 1, 1, 7);
        Answer(s, B, 2, 1, 7);
        Begin(s, A);
        Assert.Equal("2: survived 2; except 1 Lost; lost 4; uncertain 3", Text(s.OnRollback(s.WorldLine, new(2), [V(6), V(8), V(0)])));
        Assert.Equal(V(1), s.AtLeast);
        Assert.Throws<ArgumentException>(() => s.OnRollback(s.WorldLine, new(3), [V(6), V(8)]));
    }

    // Section 7.4: "D-FASTER treated the nested failures simply as two failure-and-recovery sequences."
    [Fact]
    public void OnRollback_Nested_OneByOneOrAtOnce()
    {
        ClientSession s = New();
        Do(s, A, 5);
        Do(s, A, 8);
        Assert.Equal("2: survived 1; except ; lost 2; uncertain ", Text(s.OnRollback(s.WorldLine, P(6, 2))));
        Begin(s, A);
        // The next one starts at the same cut: what was begun above it is surely gone.
        Assert.Equal("3: survived 2; except ; lost 3; uncertain ", Text(s.OnRollback(s.WorldLine, P(6, 3))));
        Assert.Equal("known", Text(s.OnRollback(s.WorldLine, P(6, 3))));
        Assert.Equal("known", Text(s.OnRollback(s.WorldLine, P(6, 2))));
        Do(s, A, 9);
        Assert.Equal("5: survived 4; except ; lost ; uncertain ", Text(s.OnRollback(s.WorldLine, P(9, 5))));
        Assert.Equal("2 Lost, 3 Lost", Exceptions(s));
    }

    // A batch sent in world-line 1 is refused after the session has gone on in 2. Its branch says nothing about what was done in 2.
    [Fact]
    public void OnRollback_WorkedOutForAnOlderWorldLine_IsIgnored()
    {
        ClientSession s = New();
        Do(s, A, 5);
        s.OnRollback(WorldLine.First, P(5, 2));
        Do(s, A, 7);
        s.OnCommitted(P(7, 2));
        Assert.Null(s.OnRollback(WorldLine.First, P(5, 3)));
        Assert.Null(s.OnRollback(WorldLine.First, new(3), [V(5)]));
        Assert.Equal("3: survived 2; except ; lost ; uncertain ", Text(s.OnRollback(new(2), P(7, 3))));
    }

    [Fact]
    public void OnRollback_BelowWhatWasCommitted_BreaksAnInvariant()
    {
        ClientSession s = New();
        Do(s, A, 5);
        s.OnCommitted(P(5));
        BrokenInvariantException e = Assert.Throws<BrokenInvariantException>(() => s.OnRollback(s.WorldLine, P(4, 2)));
        Assert.StartsWith("I2, I3:", e.Message, StringComparison.Ordinal);
        Assert.Throws<BrokenInvariantException>(() => s.OnRollback(s.WorldLine, new(2), [V(4)]));
        s.OnCommitted(WorldLine.First, [V(7), V(3)]);
        Assert.Throws<BrokenInvariantException>(() => s.OnRollback(s.WorldLine, new(2), [V(6), V(9)]));
        Assert.Throws<BrokenInvariantException>(() => s.OnRollback(s.WorldLine, P(6, 2)));
        Assert.Equal(WorldLine.First, s.WorldLine);
        Assert.NotNull(s.OnRollback(s.WorldLine, new(2), [V(7), V(5)]));
    }

    [Fact]
    public void OnConnectionLost_PendingAreUncertainForEver_AndTheSessionGoesOn()
    {
        ClientSession s = New();
        Begin(s, A, 2);
        Begin(s, B);
        Begin(s, A);
        Begin(s, A, 2);
        List<SequenceRange> uncertain = [];
        s.OnConnectionLost(A, uncertain);
        Assert.Equal([R(1, 2), R(4, 6)], uncertain);
        Assert.Equal(1, s.Unanswered);
        Answer(s, B, 3, 1, 5);
        Do(s, A, 6);
        // The end of the prefix is not held up by what nobody will ever answer.
        Assert.Equal((S(6), "1-2 Uncertain, 3 Open, 4-6 Uncertain"), (s.Committed, Exceptions(s)));
        Assert.Equal(S(6), s.OnCommitted(P(5)));
        Assert.Equal("1-2 Uncertain, 4-6 Uncertain", Exceptions(s));
        Assert.Equal("2: survived 7; except ; lost ; uncertain ", Text(s.OnRollback(s.WorldLine, P(6, 2))));
        s.OnConnectionLost(A, uncertain);
        Assert.Empty(uncertain);
    }

    [Fact]
    public void OnConnectionLost_NotPassedYet_IsNotReportedTwice()
    {
        ClientSession s = New();
        Do(s, A, 8);
        Begin(s, B);
        s.OnConnectionLost(B, []);
        Assert.Equal((S(0), "2 Uncertain"), (s.Committed, Exceptions(s)));
        Assert.Equal("2: survived 0; except ; lost 1; uncertain ", Text(s.OnRollback(s.WorldLine, P(7, 2))));
        Assert.Equal("1 Lost, 2 Uncertain", Exceptions(s));
    }

    [Fact]
    public void OnConnectionLost_Strict_NoLongerStopsThePrefix()
    {
        ClientSession s = New(strict: true);
        Begin(s, B);
        Do(s, A, 5);
        Assert.Equal(S(0), s.OnCommitted(P(5)));
        s.OnConnectionLost(B, []);
        Assert.Equal(S(2), s.Committed);
    }

    // Section 6: libDPR "computes dependencies for message headers"; section 3.1: a token depends on another if "there exists
    // a SessionOrder, where an operation included in A-m is immediately followed by an operation included in B-n".
    [Fact]
    public void Dependencies_AreWhatWasSeenElsewhereSinceTheShardWasTold()
    {
        ClientSession s = New(dependencies: true);
        Assert.Equal("", Told(s, A, 5));
        Assert.Equal("", Told(s, A, 6));
        Assert.Equal("A-6", Told(s, B, 7));
        Assert.Equal("A-6 B-7", Told(s, C, 7));
        Assert.Equal("C-7", Told(s, B, 8));
        Assert.Equal("B-8 C-7", Told(s, A, 9));
        Assert.Equal("A-9 B-8", Told(s, C, 9));
        Assert.Equal("A-9 C-9", Told(s, B, 9));
        Assert.Equal("", Told(s, B, 9));
    }

    [Fact]
    public void Dependencies_Unanswered_AreNone()
    {
        ClientSession s = New(dependencies: true);
        Begin(s, A);
        Assert.Equal("", Told(s, B, 5));
        Answer(s, A, 1, 1, 6);
        Assert.Equal("A-6", Told(s, B, 6));
    }

    [Fact]
    public void Dependencies_ConnectionLost_AreToldAgain()
    {
        ClientSession s = New(dependencies: true);
        Told(s, A, 5);
        Assert.Equal(1, Begin(s, B).Dependencies.Length);
        s.OnConnectionLost(B, []);
        Assert.Equal("A-5", Told(s, B, 6));
    }

    [Fact]
    public void Dependencies_Rollback_StartAnew()
    {
        ClientSession s = New(dependencies: true);
        Told(s, A, 5);
        s.OnRollback(s.WorldLine, P(4, 2));
        Assert.Equal("", Told(s, B, 6));
        Assert.Equal("B-6", Told(s, A, 6));
    }

    [Fact]
    public void Dependencies_ManyShards_AreAllTold()
    {
        ClientSession s = New(dependencies: true);
        for (int shard = 0; shard < 100; shard++) Told(s, new(shard), 5 + shard);
        Dependency[] told = Begin(s, new(ClientSession.ShardsMax - 1)).Dependencies.ToArray();
        Assert.Equal(Enumerable.Range(0, 100).Select(shard => new Dependency(new(shard), V(5 + shard))), told);
    }

    [Fact]
    public void Dependencies_NotWanted_AreNone()
    {
        ClientSession s = New();
        Do(s, A, 5);
        Assert.Equal(0, Begin(s, B).Dependencies.Length);
    }

    private static string Told(ClientSession s, ShardId shard, long version)
    {
        BatchHeader header = Begin(s, shard);
        string told = string.Join(' ', header.Dependencies.ToArray().Select(d => $"{(char)('A' + d.Shard.Number)}-{d.Version}"));
        Answer(s, shard, header.First.Number, 1, version, s.WorldLine.Number);
        return told;
    }

    [Fact]
    public void Runs_SameShardAndVersion_AreOne()
    {
        ClientSession s = New();
        for (int i = 0; i < 50; i++) Do(s, A, 5);
        Assert.Equal(1, s.RunCount);
        Begin(s, A);
        Begin(s, A);
        Answer(s, A, 52, 1, 5);
        Answer(s, A, 51, 1, 5);
        Assert.Equal(2, s.RunCount);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    public void OnReply_LargeWindowInRandomOrder_EndsAsInOrder(int seed)
    {
        Random random = new(seed);
        ClientSession s = New(window: 1000, runs: 3000);
        List<long> unanswered = [];
        long version = 5;
        for (int step = 0; step < 20_000; step++)
        {
            if (random.Next(2) == 0 && s.TryBegin(new((int)(s.Begun.Number % 5)), 1, out BatchHeader header))
            {
                unanswered.Add(header.First.Number);
                continue;
            }

            if (unanswered.Count == 0) continue;
            int n = random.Next(unanswered.Count);
            long first = unanswered[n];
            unanswered.RemoveAt(n);
            if (random.Next(100) == 0) version++;
            Assert.Equal(ReplyOutcome.Completed, Answer(s, new((int)((first - 1) % 5)), first, 1, version));
            if (random.Next(500) == 0) s.OnCommitted(P(version - 3));
            Assert.Equal(unanswered.Count, s.Unanswered);
        }

        s.OnCommitted(P(version));
        Assert.Equal(unanswered.Where(u => u < s.Committed.Number).Order().Select(u => $"{u} Open"),
            Exceptions(s).Split(", ", StringSplitOptions.RemoveEmptyEntries));
        foreach (long first in unanswered) Answer(s, new((int)((first - 1) % 5)), first, 1, version);
        Assert.Equal((s.Begun, 0, ""), (s.Committed, s.RunCount, Exceptions(s)));
    }

    [Fact]
    public void Runs_ManyUncommitted_AreMergedAndNeverWronglySafe()
    {
        ClientSession s = New(runs: 16);
        for (int v = 1; v <= 10_000; v++)
        {
            Do(s, new(v % 3), v);
            Assert.True(s.RunCount <= 16);
        }

        SequenceNumber at9990 = s.OnCommitted(P(9_990));
        Assert.InRange(at9990.Number, 1, 9_990);
        ClientRollback r = s.OnRollback(s.WorldLine, P(9_995, 2))!;
        Assert.InRange(r.Survived.Number, at9990.Number, 9_995);
        Assert.True(r.Lost[0].First.Number > 9_995);
        Assert.Equal(10_000, r.Survived.Number + r.Lost.Sum(x => x.Count) + r.Uncertain.Sum(x => x.Count));
    }

    [Fact]
    public void Runs_NoRoom_NothingBeginsUntilTheCutMoves()
    {
        ClientSession s = New(runs: 8);
        for (int i = 0; i < 4; i++)
        {
            Begin(s, B);
            Do(s, A, 5);
        }

        // Nothing lies beside anything: nothing can be merged.
        Assert.False(s.TryBegin(A, 1, out _));
        Assert.Equal(8, s.RunCount);
        s.OnCommitted(P(5));
        Assert.Equal(4, s.RunCount);
        Begin(s, A);
    }

    [Fact]
    public void Runs_NoRoomForTheRunsOfAReply_AreOneCoarseRun()
    {
        ClientSession s = New(runs: 8);
        for (int i = 0; i < 3; i++)
        {
            Begin(s, B);
            Do(s, A, 5);
        }

        Begin(s, C, 3);
        s.OnReply(C, S(7), Reply(P(0), new(1, V(5)), new(1, V(6)), new(1, V(7))));
        Assert.True(s.RunCount <= 8);
        Assert.Equal(S(6), s.OnCommitted(P(6)));
        Assert.Equal("2: survived 6; except 1 Uncertain, 3 Uncertain, 5 Uncertain; lost ; uncertain 7-9",
            Text(s.OnRollback(s.WorldLine, P(6, 2))));
    }

    [Fact]
    public void Exceptions_Many_TheNewestAreRemembered()
    {
        ClientSession s = New();
        s.OnCommitted(P(5));
        for (int i = 0; i < 300; i++)
        {
            Begin(s, A);
            s.OnConnectionLost(A, []);
            Do(s, B, 5);
        }

        List<ExceptionRange> list = [];
        s.CopyExceptions(list);
        Assert.Equal(ClientSession.ExceptionsMax, list.Count);
        Assert.Equal(new(R(599, 599), ExceptionKind.Uncertain), list[^1]);
        Assert.Equal(300 - ClientSession.ExceptionsMax, s.ExceptionsForgotten);
    }

    [Fact]
    public void Session_SteadyState_AllocatesNothing()
    {
        ClientSession s = New(dependencies: true);
        VersionRun[] runs = new VersionRun[2];
        List<ExceptionRange> exceptions = new(64);
        void Round(int v)
        {
            // Answered out of order, in two versions, and committed two versions later.
            s.TryBegin(A, 16, out BatchHeader a);
            s.TryBegin(B, 1, out BatchHeader b);
            s.TryBegin(C, 16, out BatchHeader c);
            (runs[0], runs[1]) = (new(10, V(v)), new(6, V(v + 1)));
            s.OnReply(C, c.First, new(WorldLine.First, runs, P(v - 3)));
            s.OnReply(A, a.First, new(WorldLine.First, runs, P(v - 3)));
            s.CopyExceptions(exceptions);
            runs[0] = new(1, V(v + 1));
            s.OnReply(B, b.First, new(WorldLine.First, runs.AsMemory(0, 1), P(v - 3)));
            s.OnCommitted(P(v - 2));
        }

        for (int v = 10; v < 300; v += 2) Round(v);
        long before = GC.GetAllocatedBytesForCurrentThread();
        for (int v = 300; v < 50_000; v += 2) Round(v);
        Assert.True(GC.GetAllocatedBytesForCurrentThread() - before < 1000);
        Assert.InRange(s.Committed.Number, s.Begun.Number - 200, s.Begun.Number);
    }
}
