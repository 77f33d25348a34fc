// The order of operations on one key while its slot's owner changes: they are executed as they were started, though some were sent
// to the old owner and some to the new one.
using System.Collections.Concurrent;
using System.Globalization;
using System.Text;
using Slogger.Core.Ownership;

namespace Slogger.Client.Tests;

public sealed class RedirectionOrderTests
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(30);

    // The first write is redirected while the second is still under way to the old owner. A third one, started then, must not
    // overtake the second.
    [Fact]
    public async Task Write_StartedWhenTheOwnerHasChanged_DoesNotOvertakeOneThatIsStillAtTheOldOwner()
    {
        using var bothStarted = new SemaphoreSlim(0);
        using var second = new SemaphoreSlim(0);
        using var mayAnswer = new SemaphoreSlim(0);
        await using var owner = new ScriptedProxy(1, _ => "+OK\r\n");
        await using var before = new ScriptedProxy(0, r =>
        {
            if (r[2] == "0") { return "+OK\r\n"; }
            if (r[2] == "1") { Assert.True(bothStarted.Wait(Generous)); }
            if (r[2] == "2")
            {
                second.Release();
                Assert.True(mayAnswer.Wait(Generous));
            }

            return $"-MOVED 7 127.0.0.1:{owner.Port}\r\n";
        });
        // The slot that the redirections name has to be the key's.
        string key = Enumerable.Range(0, 1_000_000).Select(i => i.ToString(CultureInfo.InvariantCulture)).First(k => SlotOf(k).Number == 7);
        await using SloggerClient client = await SloggerClient.ConnectAsync(before.Endpoint);
        client.OwnSlot(SlotOf("elsewhere"), owner.Endpoint);
        // From here on both say so, to a client that looks up who owns what.
        before.Slots = $"*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:{owner.Port}\r\n$1\r\nx\r\n";
        // One operation to a batch.
        await using SloggerSession session = client.OpenSession(new() { BatchMax = 1 });
        // The old owner is known to be one: what is started is sent at once.
        await session.SetAsync(key, "0").AsTask().WaitAsync(Generous);
        Task<Result<bool>>[] writes = new Task<Result<bool>>[5];
        writes[0] = session.SetAsync(key, "1").AsTask();
        writes[1] = session.SetAsync(key, "2").AsTask();
        bothStarted.Release();
        Assert.True(await second.WaitAsync(Generous));
        // The owner is known now: it has answered the first.
        await writes[0].WaitAsync(Generous);
        writes[2] = session.SetAsync(key, "3").AsTask();
        writes[3] = session.SetAsync(key, "4").AsTask();
        // Another slot's keys wait for nobody. This goes to the owner behind the third, had that gone.
        await session.SetAsync("elsewhere", "x").AsTask().WaitAsync(Generous);
        mayAnswer.Release();
        await Task.WhenAll(writes[..4]).WaitAsync(Generous);
        writes[4] = session.SetAsync(key, "5").AsTask();
        await writes[4].WaitAsync(Generous);
        Assert.Equal(["1", "2", "3", "4", "5"], owner.Requests.Where(r => r.StartsWith($"SET {key} ", StringComparison.Ordinal))
            .Select(r => r.Split(' ')[2]));
        Assert.All(writes, w => Assert.Equal(1, w.Result.Shard.Number));
    }

    // The new owner does not know yet that it is one, and learns it between two writes that it would receive behind each other.
    [Fact]
    public async Task Writes_ToAnOwnerThatDoesNotKnowYet_AreExecutedAsTheyWereStarted()
    {
        const int Writes = 20;
        using var allStarted = new SemaphoreSlim(0);
        int refused = 0;
        var executed = new List<string>();
        ScriptedProxy? before = null;
        await using var owner = new ScriptedProxy(1, r =>
        {
            // Knows it, forgets it, and knows it again.
            if (refused++ is 0 or 3 or 4) { return $"-MOVED 7 127.0.0.1:{before!.Port}\r\n"; }
            lock (executed) { executed.Add(r[2]); }
            return "+OK\r\n";
        });
        await using var other = before = new ScriptedProxy(0, r =>
        {
            if (r[2] == "first") { return "+OK\r\n"; }
            if (r[2] == "0") { allStarted.Wait(Generous); }
            return $"-MOVED 7 127.0.0.1:{owner.Port}\r\n";
        });
        string key = Enumerable.Range(0, 1_000_000).Select(i => i.ToString(CultureInfo.InvariantCulture)).First(k => SlotOf(k).Number == 7);
        await using SloggerClient client = await SloggerClient.ConnectAsync(before.Endpoint);
        await using SloggerSession session = client.OpenSession(new() { BatchMax = 1 });
        // That one is known to be the owner: what is started is sent at once.
        await session.SetAsync(key, "first").AsTask().WaitAsync(Generous);
        Task[] writes = [.. Enumerable.Range(0, Writes)
            .Select(i => session.SetAsync(key, i.ToString(CultureInfo.InvariantCulture)).AsTask())];
        allStarted.Release(Writes);
        await Task.WhenAll(writes).WaitAsync(Generous);
        Assert.Equal(Enumerable.Range(0, Writes).Select(i => i.ToString(CultureInfo.InvariantCulture)), executed);
    }

    // The client has looked up who owns the slot, with nothing under way, and that shard does not know it yet: it refuses the first write
    // that it gets, and learns it before the next. The first one that it gets is answered only when all have been started.
    [Theory]
    [InlineData("-MOVED 7 127.0.0.1:{0}\r\n")]
    [InlineData("-CLUSTERDOWN Hash slot not served\r\n")]
    [InlineData("-TRYAGAIN Multiple keys request during rehashing of slot\r\n")]
    [InlineData(null)]
    public async Task Writes_ToAnOwnerThatWasLookedUp_AndDoesNotKnowYet_AreExecutedAsTheyWereStarted(string? refusal)
    {
        using var allStarted = new SemaphoreSlim(0);
        var executed = new ConcurrentQueue<string>();
        int sets = 0;
        ScriptedProxy? before = null;
        await using var owner = new ScriptedProxy(1, r =>
        {
            if (r[1] == "elsewhere") { return "+OK\r\n"; }
            int place = sets++;
            if (place == 0) { Assert.True(allStarted.Wait(Generous)); }
            // One whose connection ends proves nothing: the next one is refused then.
            if (place == 0 && refusal is null) { return null; }
            if (place == (refusal is null ? 1 : 0))
            {
                return string.Format(CultureInfo.InvariantCulture, refusal ?? "-MOVED 7 127.0.0.1:{0}\r\n", before!.Port);
            }
            executed.Enqueue(r[2]);
            return "+OK\r\n";
        });
        await using var other = before = new ScriptedProxy(0, _ => $"-MOVED 7 127.0.0.1:{owner.Port}\r\n");
        before.Slots = $"*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:{owner.Port}\r\n$1\r\nx\r\n";
        string key = Enumerable.Range(0, 1_000_000).Select(i => i.ToString(CultureInfo.InvariantCulture)).First(k => SlotOf(k).Number == 7);
        await using SloggerClient client = await SloggerClient.ConnectAsync(before.Endpoint);
        await using SloggerSession session = client.OpenSession(new() { BatchMax = 1 });
        // There is a connection: what is started is sent at once.
        await session.SetAsync("elsewhere", "x").AsTask().WaitAsync(Generous);
        Task[] writes = [.. Enumerable.Range(1, 4).Select(i => session.SetAsync(key, i.ToString(CultureInfo.InvariantCulture)).AsTask())];
        allStarted.Release();
        if (refusal is null) { await Assert.ThrowsAsync<UncertainException>(() => writes[0].WaitAsync(Generous)); }
        await Task.WhenAll(writes[(refusal is null ? 1 : 0)..]).WaitAsync(Generous);
        Assert.Equal(refusal is null ? ["2", "3", "4"] : ["1", "2", "3", "4"], executed);
    }

    private static HashSlot SlotOf(string key) => HashSlot.Of(Encoding.ASCII.GetBytes(key));

    // Refused for a moment: what is started meanwhile waits for it.
    [Fact]
    public async Task Write_BehindOneThatIsTriedAgain_WaitsForIt()
    {
        int refused = 0;
        await using var proxy = new ScriptedProxy(0, r => r[2] == "1" && refused++ < 3
            ? "-TRYAGAIN Multiple keys request during rehashing of slot\r\n" : "+OK\r\n");
        await using SloggerClient client = await SloggerClient.ConnectAsync(proxy.Endpoint);
        await using SloggerSession session = client.OpenSession();
        Task first = session.SetAsync("k", "1").AsTask();
        while (refused == 0) { await Task.Delay(1, TestContext.Current.CancellationToken); }
        // Answered behind the first refusal.
        await session.SetAsync("other", "x").AsTask().WaitAsync(Generous);
        Task later = session.SetAsync("k", "2").AsTask();
        await Task.WhenAll(first, later).WaitAsync(Generous);
        Assert.Equal(4, proxy.Requests.Count(r => r == "SET k 1"));
        Assert.Equal("SET k 2", proxy.Requests.Last(r => r.StartsWith("SET k ", StringComparison.Ordinal)));
    }

    // What waits for its turn has an end when the session has one.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Write_ThatWaitsForItsTurn_FailsWithTheSession(bool rollsBack)
    {
        await using var proxy = new ScriptedProxy(0, r => r[0] == "SET" && r[2] == "1"
            ? "-TRYAGAIN Multiple keys request during rehashing of slot\r\n" : "+OK\r\n") { Version = 30 };
        await using SloggerClient client = await SloggerClient.ConnectAsync(
            new SloggerClientOptions { Endpoints = [proxy.Endpoint], RedirectionsMax = 1000 });
        SloggerSession session = client.OpenSession();
        await session.SetAsync("other", "x").AsTask().WaitAsync(Generous);
        Task first = session.SetAsync("k", "1").AsTask();
        // Each time it is refused it waits longer: by now for more than a tenth of a second.
        while (proxy.Requests.Count(r => r == "SET k 1") < 8) { await Task.Delay(1, TestContext.Current.CancellationToken); }
        await session.SetAsync("other", "x").AsTask().WaitAsync(Generous);
        Task later = session.SetAsync("k", "2").AsTask();
        Assert.False(later.IsCompleted);
        if (rollsBack)
        {
            proxy.Refuse = r => r[2] == "1" ? $"ROLLBACK session={r[1]} abandoned=1 worldline=2 branch=25" : null;
            (proxy.WorldLine, proxy.Version) = (2, 40);
            // Another operation hears of it.
            Task other = session.SetAsync("other", "y").AsTask();
            RollbackException rollback = await Assert.ThrowsAsync<RollbackException>(() => later.WaitAsync(Generous));
            session.Resume(rollback);
            // It may find the first one still waiting to be tried again: nobody else wakes it then.
            Task<Result<bool>> next = session.SetAsync("k", "3").AsTask();
            await Assert.ThrowsAsync<RollbackException>(() => other.WaitAsync(Generous));
            await Assert.ThrowsAsync<RollbackException>(() => first.WaitAsync(Generous));
            Assert.True((await next.WaitAsync(Generous)).Value);
            Assert.DoesNotContain("SET k 2", proxy.Requests);
            await session.DisposeAsync();
            return;
        }

        await session.DisposeAsync();
        await Assert.ThrowsAsync<ObjectDisposedException>(() => later.WaitAsync(Generous));
        await Assert.ThrowsAsync<ObjectDisposedException>(() => first.WaitAsync(Generous));
    }
}
