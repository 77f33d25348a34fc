// DPR, section 2: "the next call to DPR will return an error with the exact prefix that survived the failure"; design,
// section 5: two bounds for blocked operations, uncertain in between.
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Sessions;

public class SessionProgressTests
{
    private static VersionNumber V(long n) => new(n);

    private static SequenceNumber S(long n) => new(n);

    private static WorldPoint P(long version, long line = 1) => new(new(line), V(version));

    private static SequenceRange R(long first, long last) => new(S(first), S(last));

    [Fact]
    public void OnForwarded_SameVersion_SharesAnEntry()
    {
        SessionProgress p = new(new(1));
        Assert.Equal(S(3), p.OnForwarded(3, V(5)));
        Assert.Equal(S(5), p.OnForwarded(2, V(5)));
        Assert.Equal(S(6), p.OnForwarded(1, V(6)));
        Assert.Equal(2, p.EntryCount);
    }

    [Fact]
    public void OnForwarded_VersionGoesBack_IsACallersMistake()
    {
        SessionProgress p = new(new(1));
        p.OnForwarded(1, V(5));
        Assert.Throws<ArgumentOutOfRangeException>(() => p.OnForwarded(1, V(4)));
        Assert.Throws<ArgumentOutOfRangeException>(() => p.OnForwarded(0, V(5)));
        Assert.Throws<InvalidOperationException>(() => p.OnAnswered(2, V(5)));
    }

    [Fact]
    public void OnCommitted_IsThePrefixOfThatVersion()
    {
        SessionProgress p = new(new(1));
        p.OnForwarded(3, V(5));
        p.OnForwarded(2, V(7));
        p.OnAnswered(5, V(7));
        Assert.Equal(S(0), p.OnCommitted(P(4)));
        Assert.Equal(S(3), p.OnCommitted(P(5)));
        Assert.Equal(S(3), p.OnCommitted(P(6)));
        Assert.Equal(S(3), p.OnCommitted(P(9, line: 2)));
        Assert.Equal(S(5), p.OnCommitted(P(7)));
        Assert.Equal(S(5), p.OnCommitted(P(5)));
    }

    [Fact]
    public void OnCommitted_NotAnswered_DoesNotCountYet()
    {
        SessionProgress p = new(new(1));
        p.OnForwarded(2, V(5));
        Assert.Equal(S(0), p.OnCommitted(P(5)));
        p.OnAnswered(2, V(6));
        Assert.Equal(S(2), p.OnCommitted(P(5)));
    }

    [Fact]
    public void OnCommitted_OpenEnded_CommitsAtTheUpperBound()
    {
        SessionProgress p = new(new(1));
        p.OnForwardedOpenEnded(1, V(5));
        Assert.Equal(S(0), p.OnCommitted(P(8)));
        p.OnAnswered(1, V(9));
        Assert.Equal(S(0), p.OnCommitted(P(8)));
        Assert.Equal(S(1), p.OnCommitted(P(9)));
    }

    [Fact]
    public void OnAnswered_OpenEndedOneByOne_SplitsByVersionOnly()
    {
        SessionProgress p = new(new(1));
        p.OnForwardedOpenEnded(100, V(5));
        for (int i = 0; i < 40; i++) p.OnAnswered(1, V(9));
        for (int i = 0; i < 60; i++) p.OnAnswered(1, V(10));
        Assert.Equal(2, p.EntryCount);
        Assert.Equal(S(40), p.OnCommitted(P(9)));
        Assert.Equal(S(100), p.OnCommitted(P(10)));
    }

    [Fact]
    public void OnForwardedOpenEnded_LowerBelowTheOneBefore_IsRaised()
    {
        SessionProgress p = new(new(1));
        p.OnForwarded(1, V(7));
        p.OnAnswered(1, V(7));
        p.OnForwardedOpenEnded(1, V(5));
        RollbackOutcome outcome = p.OnRollback(new(2), V(6));
        Assert.Equal(R(1, 2), outcome.Lost);
    }

    [Fact]
    public void OnRollback_SaysExactlyWhatSurvived()
    {
        SessionProgress p = new(new(1));
        p.OnForwarded(10, V(5));
        p.OnForwarded(10, V(6));
        p.OnForwarded(10, V(8));
        p.OnAnswered(30, V(8));
        Assert.Equal(new RollbackOutcome(S(20), R(21, 20), R(21, 30)), p.OnRollback(new(2), V(7)));
        Assert.Equal(S(30), p.Committed);
        Assert.Equal([new SessionException(R(21, 30), true)], p.Exceptions.ToArray());
        // The session goes on in the new world-line with new numbers.
        Assert.Equal(S(31), p.OnForwarded(1, V(9)));
        p.OnAnswered(1, V(9));
        Assert.Equal(S(31), p.OnCommitted(P(9, line: 2)));
    }

    [Fact]
    public void OnRollback_OpenEndedAcrossTheBranch_IsUncertain()
    {
        SessionProgress p = new(new(1));
        p.OnForwarded(2, V(5));
        p.OnAnswered(2, V(5));
        p.OnForwardedOpenEnded(3, V(5));
        p.OnAnswered(1, V(6));
        p.OnAnswered(1, V(9));
        p.OnForwardedOpenEnded(1, V(9));
        Assert.Equal(new RollbackOutcome(S(3), R(4, 5), R(6, 6)), p.OnRollback(new(2), V(7)));
    }

    [Fact]
    public void OnRollback_UnansweredInAKeptVersion_IsUncertainNeverSurvived()
    {
        SessionProgress p = new(new(1));
        p.OnForwarded(5, V(5));
        p.OnAnswered(3, V(5));
        p.OnForwarded(2, V(6));
        Assert.Equal(new RollbackOutcome(S(3), R(4, 5), R(6, 7)), p.OnRollback(new(2), V(5)));
    }

    [Fact]
    public void OnRollback_SeveralTimes_ListsEachOnce()
    {
        SessionProgress p = new(new(1));
        p.OnForwarded(4, V(5));
        p.OnAnswered(4, V(5));
        p.OnRollback(new(2), V(4));
        p.OnForwarded(1, V(8));
        p.OnAnswered(1, V(8));
        Assert.Equal(new RollbackOutcome(S(5), R(6, 5), R(6, 5)), p.OnRollback(new(4), V(8)));
        Assert.Throws<ArgumentOutOfRangeException>(() => p.OnRollback(new(4), V(8)));
        Assert.Equal([new SessionException(R(1, 4), true)], p.Exceptions.ToArray());
    }

    [Fact]
    public void OnUpstreamLost_UnansweredBecomeExceptions_AndTheSessionGoesOn()
    {
        SessionProgress p = new(new(1));
        p.OnForwarded(4, V(5));
        p.OnAnswered(2, V(5));
        p.OnForwarded(2, V(6));
        Assert.Equal(R(3, 6), p.OnUpstreamLost());
        Assert.True(p.OnUpstreamLost().IsEmpty);
        p.OnForwarded(1, V(6));
        p.OnAnswered(1, V(6));
        Assert.Equal(S(6), p.OnCommitted(P(5)));
        Assert.Equal(S(7), p.OnCommitted(P(6)));
        Assert.Equal([new SessionException(R(3, 6), false)], p.Exceptions.ToArray());
    }

    [Fact]
    public void OnUpstreamLost_NothingElseTracked_SettlesAtOnce()
    {
        SessionProgress p = new(new(1));
        p.OnForwardedOpenEnded(2, V(5));
        p.OnUpstreamLost();
        Assert.Equal(S(2), p.Committed);
        Assert.Equal(0, p.EntryCount);
    }

    [Fact]
    public void Exceptions_Many_AreMergedIntoWiderUncertainOnes()
    {
        SessionProgress p = new(new(1));
        for (int i = 0; i < 100; i++)
        {
            p.OnForwarded(1, V(5 + i));
            p.OnAnswered(1, V(5 + i));
            p.OnForwarded(1, V(5 + i));
            p.OnUpstreamLost();
        }

        SessionException[] all = p.Exceptions.ToArray();
        Assert.Equal(SessionProgress.ExceptionsMax, all.Length);
        Assert.Equal(S(2), all[0].Range.First);
        Assert.Equal(R(200, 200), all[^1].Range);
        for (int i = 2; i <= 200; i += 2) Assert.Contains(all, e => e.Range.First <= S(i) && S(i) <= e.Range.Last);
    }

    [Fact]
    public void TryVersionNeededFor_IsWhatAWaiterWaitsFor()
    {
        SessionProgress p = new(new(1));
        Assert.True(p.TryVersionNeededFor(p.Forwarded, out VersionNumber none));
        Assert.Equal(VersionNumber.Zero, none);
        p.OnForwarded(3, V(5));
        p.OnForwarded(3, V(8));
        p.OnForwardedOpenEnded(1, V(8));
        Assert.True(p.TryVersionNeededFor(S(3), out VersionNumber five));
        Assert.True(p.TryVersionNeededFor(S(4), out VersionNumber eight));
        Assert.Equal((V(5), V(8)), (five, eight));
        Assert.False(p.TryVersionNeededFor(S(7), out _));
        p.OnAnswered(7, V(11));
        Assert.True(p.TryVersionNeededFor(S(7), out VersionNumber eleven));
        Assert.Equal(V(11), eleven);
    }

    [Fact]
    public void Entries_ManyUncommittedVersions_AreBoundedAndNeverWronglySafe()
    {
        SessionProgress p = new(new(1), entriesMax: 16);
        for (int v = 1; v <= 10_000; v++)
        {
            p.OnForwarded(1, V(v));
            p.OnAnswered(1, V(v));
            Assert.True(p.EntryCount <= 16);
        }

        SequenceNumber at9990 = p.OnCommitted(P(9_990));
        Assert.InRange(at9990.Number, 1, 9_990);
        RollbackOutcome outcome = p.OnRollback(new(2), V(9_995));
        Assert.InRange(outcome.Survived.Number, at9990.Number, 9_995);
        Assert.True(outcome.Lost.First.Number > 9_995);
    }

    [Fact]
    public void Progress_SteadyState_AllocatesNothing()
    {
        SessionProgress p = new(new(1));
        void Round(int v)
        {
            p.OnForwarded(16, V(v));
            p.OnAnswered(16, V(v));
            p.OnForwardedOpenEnded(1, V(v));
            p.OnAnswered(1, V(v + 1));
            p.TryVersionNeededFor(p.Forwarded, out _);
            p.OnCommitted(P(v - 3));
        }

        for (int v = 10; v < 300; v += 2) Round(v);
        long before = GC.GetAllocatedBytesForCurrentThread();
        for (int v = 300; v < 50_000; v += 2) Round(v);
        Assert.True(GC.GetAllocatedBytesForCurrentThread() - before < 1000);
    }
}
