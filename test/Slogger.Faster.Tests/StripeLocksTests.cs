// Tests of the locks that all keys share.
namespace Slogger.Faster.Tests;

public sealed class StripeLocksTests
{
    [Fact]
    public void Lock_TakenAgainByItsThread_IsGivenBackOnce()
    {
        var locks = new StripeLocks(4);
        int first = locks.Enter(2), again = locks.Enter(2);
        locks.Exit(again);
        Assert.False(IsFree(locks, 2));
        locks.Exit(first);
        Assert.True(IsFree(locks, 2));
    }

    [Fact]
    public void Locks_TakenTogetherWithOneTwice_AreAllGivenBack()
    {
        var locks = new StripeLocks(8);
        int[] stripes = [5, 1, 5, 7];
        locks.EnterAll(stripes);
        Assert.Equal([true, false, true, true, true, false, true, false], Enumerable.Range(0, 8).Select(s => IsFree(locks, s)));
        locks.ExitAll(stripes);
        Assert.All(Enumerable.Range(0, 8), s => Assert.True(IsFree(locks, s)));
    }

    [Fact]
    public void Look_BehindAChange_SeesIt()
    {
        var locks = new StripeLocks(2);
        long seen = locks.Look(1);
        Assert.True(locks.IsUnchanged(1, seen));
        locks.Exit(locks.Enter(0));
        Assert.True(locks.IsUnchanged(1, seen));
        int entered = locks.Enter(1);
        Assert.False(locks.IsUnchanged(1, seen));
        // Who holds it sees his own changes.
        Assert.True(locks.IsUnchanged(1, locks.Look(1)));
        locks.Exit(entered);
        Assert.False(locks.IsUnchanged(1, seen));
    }

    [Fact]
    public void Alone_ByAThreadThatHoldsALock_IsRefusedAndAllAreFree()
    {
        var locks = new StripeLocks(4);
        int entered = locks.Enter(3);
        Assert.Throws<InvalidOperationException>(() => locks.Alone(() => Assert.Fail("not alone")));
        Assert.Equal([true, true, true, false], Enumerable.Range(0, 4).Select(s => IsFree(locks, s)));
        locks.Exit(entered);
        bool was = false;
        locks.Alone(() => was = Enumerable.Range(0, 4).All(s => !IsFree(locks, s)));
        Assert.True(was);
        Assert.All(Enumerable.Range(0, 4), s => Assert.True(IsFree(locks, s)));
    }

    [Fact]
    public void Locks_OfManyThreads_LeaveNoChangeOut()
    {
        const int Threads = 4, Times = 20_000;
        var locks = new StripeLocks(2);
        long[] counts = new long[2];
        Thread[] threads = [.. Enumerable.Range(0, Threads).Select(t => new Thread(() =>
        {
            for (int i = 0; i < Times; i++)
            {
                int entered = locks.Enter(i & 1);
                counts[i & 1]++;
                locks.Exit(entered);
            }
        }))];
        foreach (Thread thread in threads) thread.Start();
        foreach (Thread thread in threads) thread.Join();
        Assert.Equal(Threads * Times, counts[0] + counts[1]);
    }

    // Whether another thread gets it within a moment: one that is held is held for good here.
    private static bool IsFree(StripeLocks locks, int stripe)
    {
        long before = 0;
        var look = new Thread(() => Volatile.Write(ref before, locks.Look(stripe) + 1)) { IsBackground = true };
        look.Start();
        return look.Join(TimeSpan.FromMilliseconds(200)) && Volatile.Read(ref before) > 0;
    }
}
