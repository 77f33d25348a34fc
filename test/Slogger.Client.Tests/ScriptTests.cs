// What the client does with answers that running proxies seldom give: ASK, TRYAGAIN, answers that break the protocol, refusals.
using System.Globalization;

namespace Slogger.Client.Tests;

public sealed class ScriptTests
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(30);

    [Fact]
    public async Task Ask_IsFollowedOnceWithAsking()
    {
        await using var target = new ScriptedProxy(1, r => r[0] == "ASKING" ? "+OK\r\n" : "$3\r\nyes\r\n");
        await using var source = new ScriptedProxy(0, r => r[1] == "moving" ? $"-ASK 7 127.0.0.1:{target.Port}\r\n" : "$2\r\nno\r\n");
        await using SloggerClient client = await SloggerClient.ConnectAsync(source.Endpoint);
        await using SloggerSession session = client.OpenSession();
        Result<string?> result = await session.GetAsync("moving").AsTask().WaitAsync(Generous);
        Assert.Equal(("yes", 1), (result.Value, result.Shard.Number));
        Assert.Equal(["ASKING", "GET moving"], target.Requests);
        // 1 was redirected, 2 is ASKING.
        Assert.Equal(3, result.Sequence.Number);
        Assert.Equal("no", (await session.GetAsync("other").AsTask().WaitAsync(Generous)).Value);
        Assert.Equal("yes", (await session.GetAsync("moving").AsTask().WaitAsync(Generous)).Value);
        Assert.Equal(4, target.Requests.Count);
    }

    [Fact]
    public async Task Ask_ToAShardThatAsksBack_EndsWithTheErrorAfterSoMany()
    {
        ScriptedProxy? target = null;
        await using var source = new ScriptedProxy(0, r => r[0] == "ASKING" ? "+OK\r\n" : $"-ASK 7 127.0.0.1:{target!.Port}\r\n");
        await using ScriptedProxy other = target = new ScriptedProxy(1, r => r[0] == "ASKING" ? "+OK\r\n"
            : $"-ASK 7 127.0.0.1:{source.Port}\r\n");
        await using SloggerClient client = await SloggerClient.ConnectAsync(
            new SloggerClientOptions { Endpoints = [source.Endpoint], RedirectionsMax = 5 });
        await using SloggerSession session = client.OpenSession();
        RedisErrorException error = await Assert.ThrowsAsync<RedisErrorException>(
            async () => await session.GetAsync("k").AsTask().WaitAsync(Generous));
        Assert.StartsWith("ASK 7", error.Message, StringComparison.Ordinal);
        Assert.Equal(["GET k", "ASKING", "GET k", "ASKING", "GET k"], source.Requests);
    }

    [Fact]
    public async Task TryAgain_IsTriedAgainWhereItWas()
    {
        int asked = 0;
        await using var proxy = new ScriptedProxy(0, _ => ++asked < 4 ? "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"
            : "$1\r\n1\r\n");
        await using SloggerClient client = await SloggerClient.ConnectAsync(proxy.Endpoint);
        await using SloggerSession session = client.OpenSession();
        Assert.Equal("1", (await session.GetAsync("k").AsTask().WaitAsync(Generous)).Value);
        Assert.Equal(4, asked);
        Assert.Equal(4, session.LastSent.Number);
    }

    [Fact]
    public async Task Moved_ToAnAddressWithoutHost_IsTheSameHost()
    {
        await using var target = new ScriptedProxy(1, _ => "$1\r\n1\r\n");
        await using var source = new ScriptedProxy(0, _ => $"-MOVED 7 :{target.Port}\r\n");
        await using SloggerClient client = await SloggerClient.ConnectAsync(source.Endpoint);
        await using SloggerSession session = client.OpenSession();
        Assert.Equal(1, (await session.GetAsync("k").AsTask().WaitAsync(Generous)).Shard.Number);
    }

    // A moved operation has no number while it is on its way to its new shard: all numbers that were given out are committed then.
    [Fact]
    public async Task WaitForCommit_OfAnOperationThatIsBetweenTwoShards_WaitsForIt()
    {
        using var mayGreet = new ManualResetEventSlim();
        var greeted = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        await using var target = new ScriptedProxy(1, _ => "$1\r\n1\r\n")
        {
            Version = 20,
            Executed = _ =>
            {
                greeted.TrySetResult();
                Assert.True(mayGreet.Wait(Generous));
                return null;
            },
        };
        await using var source = new ScriptedProxy(0, _ => $"-MOVED 7 127.0.0.1:{target.Port}\r\n") { Cut = 10 };
        await using SloggerClient client = await SloggerClient.ConnectAsync(
            new SloggerClientOptions { Endpoints = [source.Endpoint], ConnectTimeout = Generous });
        await using SloggerSession session = client.OpenSession();
        Task<Result<string?>> moved = session.GetAsync("k").AsTask();
        try
        {
            await greeted.Task.WaitAsync(Generous);
            await session.WaitForCommitAsync(session.LastSent).WaitAsync(Generous);
            Assert.Equal(1, session.CommittedUpTo.Number);
            Task wait = session.WaitForCommitAsync();
            Assert.False(wait.IsCompleted, "the operation is not answered");
            Assert.False(moved.IsCompleted);
            mayGreet.Set();
            Assert.Equal(2, (await moved.WaitAsync(Generous)).Sequence.Number);
            (source.Cut, target.Cut) = (20, 20);
            await wait.WaitAsync(Generous);
            Assert.Equal(2, session.CommittedUpTo.Number);
        }
        finally
        {
            mayGreet.Set();
        }
    }

    [Fact]
    public async Task Batches_GatherWhileOneIsUnderWayAndCarryWhatWasSeen()
    {
        await using var proxy = new ScriptedProxy(0, _ => "$1\r\n1\r\n") { Version = 33 };
        await using SloggerClient client = await SloggerClient.ConnectAsync(proxy.Endpoint);
        await using SloggerSession session = client.OpenSession(new() { BatchMax = 10 });
        await session.GetAsync("warm").AsTask().WaitAsync(Generous);
        Task[] all = [.. Enumerable.Range(0, 26).Select(_ => session.GetAsync("k").AsTask())];
        await Task.WhenAll(all).WaitAsync(Generous);
        int[] counts = [.. proxy.Headers.Select(h => int.Parse(h.Split(' ')[5], CultureInfo.InvariantCulture))];
        Assert.Equal(27, counts.Sum());
        Assert.All(counts, c => Assert.InRange(c, 1, 10));
        string[][] headers = [.. proxy.Headers.Select(h => h.Split(' '))];
        Assert.All(headers, h => Assert.Equal((session.Id.ToString(), "1"), (h[1], h[2])));
        Assert.Equal("0", headers[0][3]);
        Assert.All(headers.Skip(1), h => Assert.Equal("33", h[3]));
        Assert.Equal(headers.Select(h => long.Parse(h[4], CultureInfo.InvariantCulture)),
            counts.Select((_, i) => 1L + counts.Take(i).Sum()));
    }

    [Fact]
    public async Task Trailer_WithAVersionBelowWhatWasSeen_BreaksTheConnection()
    {
        int asked = 0;
        ScriptedProxy? script = null;
        await using ScriptedProxy proxy = script = new ScriptedProxy(0, _ =>
        {
            script!.Version = ++asked == 2 ? 5 : 50;
            return "$1\r\n1\r\n";
        });
        await using SloggerClient client = await SloggerClient.ConnectAsync(proxy.Endpoint);
        await using SloggerSession session = client.OpenSession();
        await session.GetAsync("k").AsTask().WaitAsync(Generous);
        UncertainException error = await Assert.ThrowsAsync<UncertainException>(
            async () => await session.GetAsync("k", OperationFlags.None).AsTask().WaitAsync(Generous));
        Assert.Equal(2, error.Sequence.Number);
        Assert.Equal("1", (await session.GetAsync("k").AsTask().WaitAsync(Generous)).Value);
    }

    [Fact]
    public async Task Refusal_OfABatch_IsARollbackForAllSessionsOfTheClient()
    {
        await using var proxy = new ScriptedProxy(0, _ => "$1\r\n1\r\n") { Version = 20 };
        await using SloggerClient client = await SloggerClient.ConnectAsync(proxy.Endpoint);
        await using SloggerSession one = client.OpenSession(), two = client.OpenSession(), three = client.OpenSession();
        Result<string?> survivor = await one.GetAsync("k").AsTask().WaitAsync(Generous);
        proxy.Version = 30;
        Result<string?> lost = await one.GetAsync("k").AsTask().WaitAsync(Generous);
        await two.GetAsync("k").AsTask().WaitAsync(Generous);
        proxy.Refuse = r => r[2] == "1" ? $"ROLLBACK session={r[1]} abandoned=1 worldline=2 branch=25" : null;
        (proxy.WorldLine, proxy.Version) = (2, 40);
        RollbackException rollback = await Assert.ThrowsAsync<RollbackException>(
            async () => await one.GetAsync("k").AsTask().WaitAsync(Generous));
        Assert.Equal((OperationFate.Survived, OperationFate.Lost), (rollback.FateOf(survivor.Sequence), rollback.FateOf(lost.Sequence)));
        Assert.Equal((3L, 2L, 1L), (rollback.Operation.Number, rollback.WorldLine.Number, rollback.Survived.Number));
        // The one that does nothing is told at its next call; the one that has done nothing has lost nothing.
        RollbackException other = await Assert.ThrowsAsync<RollbackException>(async () => await two.GetAsync("k"));
        Assert.Equal(0, other.Operation.Number);
        Result<string?> free = await three.GetAsync("k").AsTask().WaitAsync(Generous);
        Assert.Equal(2, free.WorldLine.Number);
        two.Resume(rollback);
        await Assert.ThrowsAsync<RollbackException>(async () => await two.GetAsync("k"));
        one.Resume(rollback);
        Assert.Equal(2, (await one.GetAsync("k").AsTask().WaitAsync(Generous)).WorldLine.Number);
        Assert.Contains(proxy.Headers, h => h.StartsWith($"DPR.BATCH {one.Id} 2 26 4 1", StringComparison.Ordinal));
    }

    [Fact]
    public async Task Branch_BelowWhatWasCommitted_EndsTheSessionThatWasToldSo()
    {
        await using var proxy = new ScriptedProxy(0, _ => "$1\r\n1\r\n") { Version = 20, Cut = 20 };
        await using SloggerClient client = await SloggerClient.ConnectAsync(proxy.Endpoint);
        await using SloggerSession session = client.OpenSession();
        await session.GetAsync("k").AsTask().WaitAsync(Generous);
        Assert.Equal(1, session.CommittedUpTo.Number);
        proxy.Refuse = r => r[2] == "1" ? $"ROLLBACK session={r[1]} abandoned=1 worldline=2 branch=10" : null;
        proxy.WorldLine = 2;
        SloggerException broken = await Assert.ThrowsAsync<SloggerException>(
            async () => await session.GetAsync("k").AsTask().WaitAsync(Generous));
        Assert.Contains("I2", broken.Message, StringComparison.Ordinal);
        await Assert.ThrowsAsync<SloggerException>(() => session.WaitForCommitAsync());
        await using SloggerSession next = client.OpenSession();
        Assert.Equal("1", (await next.GetAsync("k").AsTask().WaitAsync(Generous)).Value);
    }

    [Fact]
    public async Task Login_ThatIsRefused_IsSaidAtOnce()
    {
        await using var proxy = new ScriptedProxy(0, r => r[0] == "AUTH"
            ? r is ["AUTH", "u", "right"] ? "+OK\r\n" : "-WRONGPASS invalid\r\n" : "$1\r\n1\r\n");
        SloggerException error = await Assert.ThrowsAsync<SloggerException>(
            () => SloggerClient.ConnectAsync(new SloggerClientOptions { Endpoints = [proxy.Endpoint], User = "u", Password = "wrong" }));
        Assert.Contains("WRONGPASS", error.Message, StringComparison.Ordinal);
        Assert.DoesNotContain("wrong\"", error.Message, StringComparison.Ordinal);
        await using SloggerClient client = await SloggerClient.ConnectAsync(
            new SloggerClientOptions { Endpoints = [proxy.Endpoint], User = "u", Password = "right" });
        await using SloggerSession session = client.OpenSession();
        Assert.Equal("1", (await session.GetAsync("k").AsTask().WaitAsync(Generous)).Value);
    }

    [Theory]
    [InlineData(0, 1, 1)]
    [InlineData(1, 0, 1)]
    [InlineData(2, 1, 2)]
    [InlineData(70000, 70000, 70000)]
    public async Task Options_OutOfBounds_AreAnError(int batch, int window, int outstanding)
    {
        await using var proxy = new ScriptedProxy(0, _ => "$1\r\n1\r\n");
        await using SloggerClient client = await SloggerClient.ConnectAsync(proxy.Endpoint);
        Assert.Throws<ArgumentOutOfRangeException>(
            () => client.OpenSession(new() { BatchMax = batch, Window = window, OutstandingMax = outstanding }));
    }
}
