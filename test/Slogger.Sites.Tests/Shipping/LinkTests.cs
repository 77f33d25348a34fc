// Who brings something performs it, or writes it, and what others bring meanwhile.
using Slogger.Replication.Links;

namespace Slogger.Sites.Tests.Shipping;

public class LinkTests
{
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(60);

    [Fact]
    public void Strand_APostOutOfAnInput_ComesAfterIt_AndThenItIsDrained()
    {
        List<string> done = [];
        Strand? strand = null;
        strand = new(input => input(), () => done.Add("drained"));
        strand.Post(() =>
        {
            strand.Post(() => done.Add("second"));
            done.Add("first");
        });
        Assert.Equal(["first", "second", "drained"], done);
    }

    [Fact]
    public void Strand_APostWhenItIsDrained_IsPerformed()
    {
        int performed = 0;
        Strand? strand = null;
        strand = new(input => input(), () =>
        {
            if (performed < 3) { strand!.Post(() => performed++); }
        });
        strand.Post(() => { });
        Assert.Equal(3, performed);
    }

    [Fact]
    public async Task Strand_ManyThreads_EachInputOnce_NeverTwoAtATime_EachThreadsInOrder()
    {
        const int Threads = 4, Each = 20_000;
        int inside = 0, overlaps = 0;
        int[] last = new int[Threads];
        var strand = new Strand(
            input =>
            {
                if (Interlocked.Increment(ref inside) != 1) { overlaps++; }
                input();
                Interlocked.Decrement(ref inside);
            },
            () => { });
        await Task.WhenAll(Enumerable.Range(0, Threads).Select(thread => Task.Run(() =>
        {
            for (int i = 1; i <= Each; i++)
            {
                int number = i;
                strand.Post(() => last[thread] = last[thread] == number - 1 ? number : -1);
            }
        }))).WaitAsync(Limit);
        await strand.DrainAsync().WaitAsync(Limit);
        Assert.Equal(0, overlaps);
        Assert.All(last, l => Assert.Equal(Each, l));
    }

    [Fact]
    public async Task Writer_WhatComesDuringAWrite_IsWrittenAfterIt_TheOldestIsDropped()
    {
        List<(int Message, bool IsLast)> written = [];
        var first = new TaskCompletionSource();
        var writer = new DirectWriter<int>(keeps: 2, async (message, isLast) =>
        {
            if (message == 1) { await first.Task; }
            written.Add((message, isLast));
        });
        for (int i = 1; i <= 4; i++) { writer.Write(i); }
        Task closed = writer.CloseAsync();
        writer.Write(5);
        Assert.False(closed.IsCompleted);
        first.SetResult();
        await closed.WaitAsync(Limit);
        Assert.Equal([(1, true), (3, false), (4, true)], written);
    }

    [Fact]
    public async Task Writer_TheCallIsOver_NothingMoreIsWritten_AndItCloses()
    {
        int writes = 0;
        var writer = new DirectWriter<int>(keeps: 2, async (_, _) =>
        {
            writes++;
            await Task.Yield();
            throw new IOException("gone");
        });
        writer.Write(1);
        await writer.CloseAsync().WaitAsync(Limit);
        writer.Write(2);
        Assert.Equal(1, writes);
    }
}
