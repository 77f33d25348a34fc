// What the client does with cuts and branches of one version for each shard, with what it has to tell shards of each other, and with a
// shard's word that it has executed what it has not answered: against scripted proxies.
namespace Slogger.Client.Tests;

public sealed class ShardCutTests
{
    private const string OnFirst = "bar", OnSecond = "foo";
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(30);

    [Fact]
    public async Task Branches_OfEachShard_DecideEachByItsOwn()
    {
        await using var first = new ScriptedProxy(0, _ => "$1\r\n1\r\n") { Version = 30 };
        await using var second = new ScriptedProxy(1, _ => "$1\r\n1\r\n") { Version = 30 };
        await using SloggerClient client = await ConnectAsync(first, second);
        await using SloggerSession session = client.OpenSession(), lucky = client.OpenSession();
        Result<string?> lost = await session.GetAsync(OnFirst).AsTask().WaitAsync(Generous);
        await lucky.GetAsync(OnSecond).AsTask().WaitAsync(Generous);
        Result<string?> survivor = await session.GetAsync(OnSecond).AsTask().WaitAsync(Generous);
        foreach (ScriptedProxy proxy in new[] { first, second })
        {
            proxy.Refuse = r => r[2] == "1" ? $"ROLLBACK session={r[1]} abandoned=1 worldline=2 branches=25,40" : null;
            (proxy.WorldLine, proxy.Version) = (2, 50);
        }

        RollbackException rollback = await Assert.ThrowsAsync<RollbackException>(
            async () => await session.GetAsync(OnFirst).AsTask().WaitAsync(Generous));
        Assert.Equal((OperationFate.Lost, OperationFate.Survived), (rollback.FateOf(lost.Sequence), rollback.FateOf(survivor.Sequence)));
        Assert.Null(lucky.Rollback);
        Assert.Equal(2, (await lucky.GetAsync(OnSecond).AsTask().WaitAsync(Generous)).WorldLine.Number);
        session.Resume(rollback);
        await session.GetAsync(OnSecond).AsTask().WaitAsync(Generous);
        // One above the lowest branch of the shards that it has used.
        Assert.Contains(second.Headers, h => h.StartsWith($"DPR.BATCH {session.Id} 2 26 4 1", StringComparison.Ordinal));
        Assert.Contains(second.Headers, h => h.StartsWith($"DPR.BATCH {lucky.Id} 2 41 2 1", StringComparison.Ordinal));
    }

    [Fact]
    public async Task Branches_ThatLeaveOutAShardOfTheSession_EndIt()
    {
        await using var first = new ScriptedProxy(0, _ => "$1\r\n1\r\n");
        await using var second = new ScriptedProxy(1, _ => "$1\r\n1\r\n");
        await using SloggerClient client = await ConnectAsync(first, second);
        await using SloggerSession session = client.OpenSession();
        await session.GetAsync(OnSecond).AsTask().WaitAsync(Generous);
        foreach (ScriptedProxy proxy in new[] { first, second })
        {
            proxy.Refuse = r => r[2] == "1" ? $"ROLLBACK session={r[1]} abandoned=1 worldline=2 branches=25" : null;
            proxy.WorldLine = 2;
        }

        SloggerException broken = await Assert.ThrowsAsync<SloggerException>(
            async () => await session.GetAsync(OnSecond).AsTask().WaitAsync(Generous));
        Assert.Contains("shard 1", broken.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Cuts_OfEachShard_CommitWhatTheyHold()
    {
        await using var first = new ScriptedProxy(0, _ => "$1\r\n1\r\n") { Version = 30, Cuts = [10, 40] };
        await using var second = new ScriptedProxy(1, _ => "$1\r\n1\r\n") { Version = 40, Cuts = [10, 40] };
        await using SloggerClient client = await ConnectAsync(first, second);
        await using SloggerSession one = client.OpenSession(), two = client.OpenSession();
        await one.GetAsync(OnSecond).AsTask().WaitAsync(Generous);
        await two.GetAsync(OnFirst).AsTask().WaitAsync(Generous);
        Task open = two.WaitForCommitAsync();
        await one.WaitForCommitAsync().WaitAsync(Generous);
        Assert.Equal((1L, 0L), (one.CommittedUpTo.Number, two.CommittedUpTo.Number));
        Assert.False(open.IsCompleted);
        first.Cuts = second.Cuts = [30, 40];
        await open.WaitAsync(Generous);
        Assert.Equal(1, two.CommittedUpTo.Number);
    }

    [Fact]
    public async Task Dependencies_AreToldOnce_AndAgainOnANewConnection()
    {
        await using var first = new ScriptedProxy(0, _ => "$1\r\n1\r\n") { Version = 30 };
        await using var second = new ScriptedProxy(1, r => r[0] == "SET" ? null : "$1\r\n1\r\n") { Version = 30 };
        await using SloggerClient client = await ConnectAsync(first, second);
        await using SloggerSession session = client.OpenSession(), other = client.OpenSession();
        await session.GetAsync(OnFirst).AsTask().WaitAsync(Generous);
        for (int i = 0; i < 2; i++) { await session.GetAsync(OnSecond).AsTask().WaitAsync(Generous); }
        // The connection breaks while this session has nothing under way on it.
        await Assert.ThrowsAsync<UncertainException>(async () => await other.SetAsync(OnSecond, "1").AsTask().WaitAsync(Generous));
        await session.GetAsync(OnSecond).AsTask().WaitAsync(Generous);
        string[] headers = [.. second.Headers.Where(h => h.Contains(session.Id.ToString(), StringComparison.Ordinal))
            .Select(h => h[(h.IndexOf(' ', 10) + 1)..])];
        Assert.Equal(["1 30 2 1 DEP 0 30", "1 30 3 1", "1 30 4 1 DEP 0 30"], headers);
    }

    [Fact]
    public async Task Connection_ThatBreaks_WhatTheShardHasExecutedIsSaidAndTheRestIsUncertain()
    {
        await using var proxy = new ScriptedProxy(0, r => r[0] == "SET" ? null : "$1\r\n1\r\n") { Version = 20 };
        await using SloggerClient client = await SloggerClient.ConnectAsync(proxy.Endpoint);
        await using SloggerSession session = client.OpenSession();
        proxy.Executed = _ => (1, 33);
        ReplyLostException executed = await Assert.ThrowsAsync<ReplyLostException>(
            async () => await session.SetAsync("k", "1").AsTask().WaitAsync(Generous));
        Assert.Equal((1L, 0, 33L, 1L),
            (executed.Sequence.Number, executed.Shard.Number, executed.Latest.Number, executed.WorldLine.Number));
        UncertainException uncertain = await Assert.ThrowsAsync<UncertainException>(
            async () => await session.SetAsync("k", "2").AsTask().WaitAsync(Generous));
        Assert.Equal(2, uncertain.Sequence.Number);
        // What comes next rests on it, and it commits like an answered one.
        proxy.Version = 40;
        await session.GetAsync("k").AsTask().WaitAsync(Generous);
        Assert.Contains(proxy.Headers, h => h == $"DPR.BATCH {session.Id} 1 33 3 1");
        proxy.Cut = 33;
        await session.WaitForCommitAsync(executed.Sequence).WaitAsync(Generous);
        Assert.Equal(2, session.CommittedUpTo.Number);
        Assert.Equal(["2 Uncertain"], session.Exceptions.Select(e => $"{e.Range} {e.Kind}"));
    }

    private static Task<SloggerClient> ConnectAsync(ScriptedProxy first, ScriptedProxy second)
    {
        first.Slots = second.Slots =
            $"*2\r\n*3\r\n:0\r\n:8191\r\n*3\r\n$9\r\n127.0.0.1\r\n:{first.Port}"
                + $"\r\n$1\r\nx\r\n*3\r\n:8192\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:{second.Port}\r\n$1\r\ny\r\n";
        return SloggerClient.ConnectAsync(first.Endpoint);
    }
}
