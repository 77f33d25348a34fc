// How the client learns where keys are cut into ranges, and goes by it: against scripted proxies.
using Slogger.Core.Ownership;

namespace Slogger.Client.Tests;

public sealed class RangeTests
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(30);

    [Fact]
    public async Task Connect_ToAClusterOfRanges_RoutesByThem()
    {
        int? movedTo = null;
        await using var first = new ScriptedProxy(0, r => Answer(r, "$1\r\n0\r\n")) { Partitions = "range" };
        await using var second = new ScriptedProxy(1, r => Answer(r, "$1\r\n1\r\n")) { Partitions = "range" };
        // Partition 0 to the first, 1 and 2 to the second.
        first.Slots = second.Slots =
            $"*2\r\n*3\r\n:0\r\n:0\r\n*3\r\n$9\r\n127.0.0.1\r\n:{first.Port}\r\n$1\r\nx\r\n*3\r\n:1\r\n:2\r\n*3\r\n$9\r\n127.0.0.1\r\n:"
                + $"{second.Port}\r\n$1\r\ny\r\n";
        await using SloggerClient client = await SloggerClient.ConnectAsync(second.Endpoint);
        Assert.Equal(@"range:m,t\x0d\x0a", client.Partitions.ToString());
        await using SloggerSession session = client.OpenSession();
        foreach ((string key, string shard) in new[] { ("a", "0"), ("lzzz", "0"), ("m", "1"), ("t\r\n", "1"), ("{a}", "1"), ("", "0") })
        {
            Assert.Equal(shard, (await session.GetAsync(key).AsTask().WaitAsync(Generous)).Value);
            Assert.Equal(shard, (await session.ExecuteAsync("GET", key).AsTask().WaitAsync(Generous)).Value.ToString());
        }

        // A range has moved: the next one of it goes straight to its owner. The client may look up the owners meanwhile.
        first.Slots = second.Slots = $"*1\r\n*3\r\n:0\r\n:2\r\n*3\r\n$9\r\n127.0.0.1\r\n:{first.Port}\r\n$1\r\nx\r\n";
        movedTo = first.Port;
        Assert.Equal("0", (await session.GetAsync("n").AsTask().WaitAsync(Generous)).Value);
        int asked = second.Requests.Count;
        Assert.Equal("0", (await session.GetAsync("nn").AsTask().WaitAsync(Generous)).Value);
        Assert.Equal(asked, second.Requests.Count);

        string Answer(string[] request, string value) => request[0] == "DPR.PARTITIONS"
            ? "*2\r\n$5\r\nrange\r\n*2\r\n$1\r\nm\r\n$3\r\nt\r\n\r\n"
            : value == "$1\r\n1\r\n" && movedTo is { } port ? $"-MOVED 1 127.0.0.1:{port}\r\n" : value;
    }

    [Fact]
    public async Task Moved_ByShardsThatDoNotAgreeYet_IsFollowedUntilTheyDo()
    {
        const int Disagreements = 10;
        int asked = 0;
        ScriptedProxy? other = null;
        await using var first = new ScriptedProxy(0, _ => Interlocked.Increment(ref asked) > Disagreements ? "$2\r\nok\r\n"
            : $"-MOVED 15495 127.0.0.1:{other!.Port}\r\n");
        await using var second = new ScriptedProxy(1, _ => Interlocked.Increment(ref asked) > Disagreements ? "$2\r\nok\r\n"
            : $"-MOVED 15495 127.0.0.1:{first.Port}\r\n");
        other = second;
        await using SloggerClient client = await SloggerClient.ConnectAsync(first.Endpoint);
        await using SloggerSession session = client.OpenSession();
        Assert.Equal("ok", (await session.GetAsync("a").AsTask().WaitAsync(Generous)).Value);
        Assert.Equal(Disagreements + 1, asked);
    }

    // As many as are followed are enough for shards that look once a second; the first are not held up.
    [Fact]
    public void Redirections_AsManyAsAreFollowed_TakeLongerThanShardsNeedToAgree()
    {
        TimeSpan[] pauses = [.. Enumerable.Range(1, new SloggerClientOptions { Endpoints = [] }.RedirectionsMax)
            .Select(n => SloggerSession.PauseBefore(Redirection.Moved, n))];
        Assert.Equal([TimeSpan.Zero, TimeSpan.Zero], pauses[..2]);
        Assert.True(pauses.Aggregate((a, b) => a + b) > TimeSpan.FromSeconds(2));
        Assert.True(SloggerSession.PauseBefore(Redirection.TryAgain, 1) > TimeSpan.Zero);
    }

    [Theory]
    [InlineData("*2\r\n$5\r\nrange\r\n*0\r\n", "no split key")]
    [InlineData("*1\r\n$5\r\nrange\r\n", "DPR.PARTITIONS of")]
    [InlineData("-ERR unknown command\r\n", "DPR.PARTITIONS of")]
    public async Task Connect_ToWhatDoesNotSayItsRanges_FailsClearly(string answer, string what)
    {
        await using var proxy = new ScriptedProxy(0, _ => answer) { Partitions = "range" };
        SloggerException error = await Assert.ThrowsAsync<SloggerException>(() => SloggerClient.ConnectAsync(proxy.Endpoint));
        Assert.Contains(what, error.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(null)]
    [InlineData("hash")]
    public async Task Connect_ToAClusterOfSlots_AsksForNoRanges(string? partitions)
    {
        await using var proxy = new ScriptedProxy(0, _ =>
            throw new InvalidOperationException("nothing is asked")) { Partitions = partitions };
        await using SloggerClient client = await SloggerClient.ConnectAsync(proxy.Endpoint);
        Assert.Same(Partitioning.Hash, client.Partitions);
    }
}
