// The typed commands of Slogger.Client against three running shards: what each answers, where there is something and where there is not.
using System.Globalization;
using Slogger.Client;
using Slogger.Core.Keys;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Client;

public sealed class ClientCommandTests(ClientCluster cluster) : IClassFixture<ClientCluster>, IAsyncLifetime
{
    private static int s_names;
    private readonly string _key = Name(), _none = Name();
    private SloggerClient _client = null!;
    private SloggerSession _session = null!;

    private ClusterDeployment Shards => cluster.Shards;

    public async ValueTask InitializeAsync()
    {
        _client = await ClientCluster.ConnectAsync(Shards);
        _session = _client.OpenSession();
    }

    public async ValueTask DisposeAsync()
    {
        await _session.DisposeAsync();
        await _client.DisposeAsync();
    }

    private static string Name() => string.Create(CultureInfo.InvariantCulture, $"typed:{Interlocked.Increment(ref s_names)}");

    [Fact]
    public async Task Hashes_AnswerAsRedisDoes()
    {
        Assert.True(await Of(_session.HashSetAsync(_key, "a", "grüße")));
        Assert.False(await Of(_session.HashSetAsync(_key, "a", "1")));
        Assert.Equal(2, await Of(_session.HashSetAsync(_key, [new("a", 2), new("b", "x"), new("c", new byte[] { 0, 255 })])));
        Assert.Equal("2", await Of(_session.HashGetAsync(_key, "a")));
        Assert.Null(await Of(_session.HashGetAsync(_key, "none")));
        Assert.Equal([0, 255], await Of(_session.HashGetBytesAsync(_key, "c")));
        Assert.Equal((string?[])["x", null, "2"], await Of(_session.HashGetAsync(_key, ["b", "none", "a"])));
        Assert.True(await Of(_session.HashDeleteAsync(_key, "c")));
        Assert.False(await Of(_session.HashDeleteAsync(_key, "c")));
        Assert.Equal([new("a", "2"), new("b", "x")], (await Of(_session.HashGetAllAsync(_key))).OrderBy(f => f.Key));
        Assert.Empty(await Of(_session.HashGetAllAsync(_none)));
        Assert.Equal(["a", "b"], (await Of(_session.HashKeysAsync(_key))).Order());
        Assert.Equal(2, await Of(_session.HashLengthAsync(_key)));
        Assert.True(await Of(_session.HashExistsAsync(_key, "a")));
        Assert.False(await Of(_session.HashExistsAsync(_key, "none")));
        Assert.True(await Of(_session.HashSetIfAbsentAsync(_key, "n", 5)));
        Assert.False(await Of(_session.HashSetIfAbsentAsync(_key, "n", 6)));
        Assert.Equal(6, await Of(_session.HashIncrementAsync(_key, "n")));
        Assert.Equal(4, await Of(_session.HashIncrementAsync(_key, "n", -2)));
        Assert.Equal(4.5, await Of(_session.HashIncrementAsync(_key, "n", 0.5)));
        Assert.Equal(2, await Of(_session.HashDeleteAsync(_key, ["a", "b", "none"])));
    }

    // At whichever shard a key is: its name decides.
    [Fact]
    public async Task VersionsOfKeys_AreKeptAtEveryShard()
    {
        for (int i = 0; i < 12; i++)
        {
            string key = $"{_key}:{i}";
            Versioned<string?> missing = await Of(_session.GetVersionedAsync(key));
            Assert.Null(missing.Value);
            ConditionalOutcome first = await Of(_session.PutIfAsync(key, KeyVersion.Missing, "grüße"));
            Assert.True(first.IsDone);
            Assert.Equal(new Versioned<string?>("grüße", first.Version), await Of(_session.GetVersionedAsync(key)));
            Assert.Equal(first.Version, KeyVersion.Parse(first.Version.ToString()));
            Assert.Equal(new ConditionalOutcome(false, first.Version), await Of(_session.PutIfAsync(key, missing.Version, "x")));
            Assert.Equal(new ConditionalOutcome(false, first.Version), await Of(_session.DeleteIfAsync(key, KeyVersion.Missing)));
            ConditionalOutcome second = await Of(_session.PutIfAsync(key, first.Version, new byte[] { 0, 255 }, TimeSpan.FromMinutes(1)));
            Assert.True(second.IsDone);
            Assert.Equal([0, 255], (await Of(_session.GetVersionedBytesAsync(key))).Value);
            KeyVersion third = await Of(_session.PutVersionedAsync(key, 3));
            Assert.False((await Of(_session.DeleteIfAsync(key, second.Version))).IsDone);
            Assert.True((await Of(_session.DeleteIfAsync(key, third))).IsDone);
            Assert.False(await Of(_session.ExistsAsync(key)));
            KeyVersion deleted = await Of(_session.DeleteVersionedAsync(key));
            ConditionalOutcome field = await Of(_session.HashPutIfAsync(key, "f", deleted, "1"));
            Assert.True(field.IsDone);
            Assert.Equal(new Versioned<string?>("1", field.Version), await Of(_session.HashGetVersionedAsync(key, "f")));
            Assert.False((await Of(_session.HashDeleteIfAsync(key, "f", KeyVersion.Missing))).IsDone);
            Assert.True((await Of(_session.HashDeleteIfAsync(key, "f", field.Version))).IsDone);
        }
        await _session.WaitForCommitAsync();
    }

    // Many at once share batches.
    [Fact]
    public async Task ConditionalPuts_OfManyAtOnce_LoseNoIncrement()
    {
        const int Workers = 8, Each = 40;
        await Task.WhenAll(Enumerable.Range(0, Workers).Select(async worker =>
        {
            await using SloggerSession session = _client.OpenSession();
            for (int done = 0; done < Each;)
            {
                string key = $"{_key}:{(worker + done) % 4}";
                Versioned<string?> read = await Of(session.GetVersionedAsync(key));
                ConditionalOutcome put = await Of(session.PutIfAsync(key, read.Version, long.Parse(read.Value ?? "0", null) + 1));
                if (put.IsDone) { done++; }
            }
        }));
        long sum = 0;
        for (int i = 0; i < 4; i++) { sum += long.Parse(await Of(_session.GetAsync($"{_key}:{i}")) ?? "0", null); }
        Assert.Equal(Workers * Each, sum);
    }

    [Fact]
    public async Task Lists_AnswerAsRedisDoes()
    {
        Assert.Equal(1, await Of(_session.ListAppendAsync(_key, "c")));
        Assert.Equal(3, await Of(_session.ListAppendAsync(_key, ["d", "e"])));
        Assert.Equal(4, await Of(_session.ListPrependAsync(_key, "b")));
        Assert.Equal(6, await Of(_session.ListPrependAsync(_key, ["a", "z"])));
        Assert.Equal(["z", "a", "b", "c", "d", "e"], await Of(_session.ListRangeAsync(_key)));
        Assert.Equal(["a", "b"], await Of(_session.ListRangeAsync(_key, 1, 2)));
        Assert.Empty(await Of(_session.ListRangeAsync(_none)));
        Assert.Equal(6, await Of(_session.ListLengthAsync(_key)));
        Assert.Equal("e", await Of(_session.ListGetAsync(_key, -1)));
        Assert.Null(await Of(_session.ListGetAsync(_key, 6)));
        Assert.True(await Of(_session.ListSetAsync(_key, 1, "d")));
        Assert.Equal(1, await Of(_session.ListRemoveAsync(_key, "d", -1)));
        Assert.Equal(["z", "d", "b", "c", "e"], await Of(_session.ListRangeAsync(_key)));
        Assert.Equal(1, await Of(_session.ListRemoveAsync(_key, "d")));
        Assert.Equal("z", await Of(_session.ListPopFirstAsync(_key)));
        Assert.Equal("e", await Of(_session.ListPopLastAsync(_key)));
        Assert.Null(await Of(_session.ListPopFirstAsync(_none)));
        Assert.Null(await Of(_session.ListPopLastAsync(_none)));
        await Of(_session.ListAppendAsync(_key, ["d", "e", "f"]));
        Assert.Equal(["b", "c"], await Of(_session.ListPopFirstAsync(_key, 2)));
        Assert.True(await Of(_session.ListTrimAsync(_key, 0, 1)));
        Assert.Equal(["e", "d"], await Of(_session.ListPopLastAsync(_key, 5)));
        Assert.Empty(await Of(_session.ListPopFirstAsync(_key, 5)));
        await Assert.ThrowsAsync<RedisErrorException>(() => Of(_session.ListSetAsync(_none, 0, "x")));
    }

    [Fact]
    public async Task Sets_AnswerAsRedisDoes()
    {
        Assert.True(await Of(_session.SetAddAsync(_key, "a")));
        Assert.False(await Of(_session.SetAddAsync(_key, "a")));
        Assert.Equal(3, await Of(_session.SetAddAsync(_key, ["a", "b", "c", 7])));
        Assert.True(await Of(_session.SetContainsAsync(_key, "7")));
        Assert.False(await Of(_session.SetContainsAsync(_key, "8")));
        Assert.Equal(["7", "a", "b", "c"], (await Of(_session.SetMembersAsync(_key))).Order());
        Assert.Equal(4, await Of(_session.SetCountAsync(_key)));
        Assert.True(await Of(_session.SetRemoveAsync(_key, 7)));
        Assert.False(await Of(_session.SetRemoveAsync(_key, 7)));
        Assert.Contains(await Of(_session.SetRandomAsync(_key)), (string?[])["a", "b", "c"]);
        Assert.Equal(["a", "b", "c"], (await Of(_session.SetRandomAsync(_key, 9))).Order());
        Assert.Equal(5, (await Of(_session.SetRandomAsync(_key, -5))).Length);
        Assert.Contains(await Of(_session.SetPopAsync(_key)), (string?[])["a", "b", "c"]);
        Assert.Equal(2, (await Of(_session.SetPopAsync(_key, 9))).Distinct().Count());
        Assert.Null(await Of(_session.SetPopAsync(_key)));
        Assert.Null(await Of(_session.SetRandomAsync(_key)));
        Assert.Empty(await Of(_session.SetPopAsync(_key, 9)));
        await Of(_session.SetAddAsync(_key, ["a", "b"]));
        Assert.Equal(2, await Of(_session.SetRemoveAsync(_key, ["a", "b", "c"])));
    }

    [Fact]
    public async Task SortedSets_AnswerAsRedisDoes()
    {
        ScoredMember low = new("low", double.NegativeInfinity), one = new("one", 1), two = new("two", 2.5), three = new("three", 1e20),
            high = new("high", double.PositiveInfinity);
        Assert.True(await Of(_session.SortedSetAddAsync(_key, "one", 5)));
        Assert.False(await Of(_session.SortedSetAddAsync(_key, "one", 1)));
        Assert.Equal(4, await Of(_session.SortedSetAddAsync(_key, [low, one, two, three, high])));
        Assert.Equal([low, one, two, three, high], await Of(_session.SortedSetRangeByRankAsync(_key)));
        Assert.Equal([three, two], await Of(_session.SortedSetRangeByRankAsync(_key, 1, 2, isDescending: true)));
        Assert.Empty(await Of(_session.SortedSetRangeByRankAsync(_none)));
        Assert.Equal([one, two], await Of(_session.SortedSetRangeByScoreAsync(_key, 1, 2.5)));
        Assert.Equal([two], await Of(_session.SortedSetRangeByScoreAsync(_key, "(1", 2.5)));
        Assert.Equal([two, one], await Of(_session.SortedSetRangeByScoreAsync(_key, "-inf", "(1e20", isDescending: true, take: 2)));
        Assert.Equal([one, two, three], await Of(
            _session.SortedSetRangeByScoreAsync(_key, double.NegativeInfinity, double.PositiveInfinity, skip: 1, take: 3)));
        Assert.Equal(5, await Of(_session.SortedSetCountAsync(_key)));
        Assert.Equal(2, await Of(_session.SortedSetCountAsync(_key, 0, 100)));
        Assert.Equal(2.5, await Of(_session.SortedSetScoreAsync(_key, "two")));
        Assert.Null(await Of(_session.SortedSetScoreAsync(_key, "none")));
        Assert.Equal(double.PositiveInfinity, await Of(_session.SortedSetScoreAsync(_key, "high")));
        Assert.Equal(1, await Of(_session.SortedSetRankAsync(_key, "one")));
        Assert.Equal(3, await Of(_session.SortedSetRankAsync(_key, "one", isDescending: true)));
        Assert.Null(await Of(_session.SortedSetRankAsync(_key, "none")));
        Assert.Equal(2, await Of(_session.SortedSetIncrementAsync(_key, "one")));
        Assert.Equal(0.5, await Of(_session.SortedSetIncrementAsync(_key, "new", 0.5)));
        Assert.Equal([low], await Of(_session.SortedSetPopMinAsync(_key)));
        Assert.Equal([high, three], await Of(_session.SortedSetPopMaxAsync(_key, 2)));
        Assert.Empty(await Of(_session.SortedSetPopMinAsync(_none)));
        Assert.Equal(1, await Of(_session.SortedSetRemoveRangeByRankAsync(_key, 0, 0)));
        Assert.Equal(1, await Of(_session.SortedSetRemoveRangeByScoreAsync(_key, "(2", "+inf")));
        Assert.Equal([new("one", 2)], await Of(_session.SortedSetRangeByRankAsync(_key)));
        Assert.True(await Of(_session.SortedSetRemoveAsync(_key, "one")));
        Assert.False(await Of(_session.SortedSetRemoveAsync(_key, "one")));
        await Of(_session.SortedSetAddAsync(_key, [one, two]));
        Assert.Equal(2, await Of(_session.SortedSetRemoveAsync(_key, ["one", "two", "three"])));
    }

    [Fact]
    public async Task Streams_AnswerAsRedisDoes()
    {
        Assert.Matches("^[0-9]{13}-[0-9]+$", await Of(_session.StreamAddAsync(Name(), [new("a", 1)])));
        Assert.Equal("1-0", await Of(_session.StreamAddAsync(_key, [new("a", 1), new("b", "x")], "1-0")));
        Assert.Equal("2-0", await Of(_session.StreamAddAsync(_key, [new("a", 2)], "2-0")));
        Assert.Equal("3-0", await Of(_session.StreamAddAsync(_key, [new("a", 3)], "3-0", maxLength: 9)));
        Assert.Equal(["1-0 a=1 b=x", "2-0 a=2", "3-0 a=3"], Texts(await Of(_session.StreamRangeAsync(_key))));
        Assert.Equal(["3-0 a=3", "2-0 a=2"], Texts(await Of(_session.StreamRangeAsync(_key, "2", "3", isDescending: true))));
        Assert.Equal(["1-0 a=1 b=x"], Texts(await Of(_session.StreamRangeAsync(_key, count: 1))));
        Assert.Empty(await Of(_session.StreamRangeAsync(_none)));
        Assert.Equal(["2-0 a=2", "3-0 a=3"], Texts(await Of(_session.StreamReadAsync(_key, "1-0"))));
        Assert.Equal(["1-0 a=1 b=x"], Texts(await Of(_session.StreamReadAsync(_key, count: 1))));
        Assert.Empty(await Of(_session.StreamReadAsync(_key, "3-0")));
        Assert.Equal(3, await Of(_session.StreamLengthAsync(_key)));
        await Of(_session.StreamAddAsync(_key, [new("a", 4)], "4-0", maxLength: 2));
        Assert.Equal(["3-0 a=3", "4-0 a=4"], Texts(await Of(_session.StreamRangeAsync(_key))));
        await Of(_session.StreamAddAsync(_key, [new("a", 5)], "5-0", maxLength: 2, isApproximate: true));
        Assert.Equal(1, await Of(_session.StreamDeleteAsync(_key, ["5-0", "9-0"])));
        Assert.Equal(0, await Of(_session.StreamTrimAsync(_key, 1, isApproximate: true)));
        Assert.Equal(1, await Of(_session.StreamTrimAsync(_key, 1)));
        Assert.Equal(["4-0 a=4"], Texts(await Of(_session.StreamRangeAsync(_key))));
    }

    [Fact]
    public async Task Groups_OfStreams_AnswerAsRedisDoes()
    {
        Assert.True(await Of(_session.StreamGroupCreateAsync(_key, "g")));
        RedisErrorException there = await Assert.ThrowsAsync<RedisErrorException>(() => Of(_session.StreamGroupCreateAsync(_key, "g")));
        Assert.StartsWith("BUSYGROUP", there.Message, StringComparison.Ordinal);
        Assert.Empty(await Of(_session.StreamReadGroupAsync(_key, "g", "ann")));
        StreamPending none = await Of(_session.StreamPendingAsync(_key, "g"));
        Assert.Equal((0, null, null, 0), (none.Count, none.First, none.Last, none.Consumers.Count));

        for (int i = 1; i <= 4; i++) { await Of(_session.StreamAddAsync(_key, [new("a", i)], $"{i}-0")); }
        Assert.Equal(["1-0 a=1"], Texts(await Of(_session.StreamReadGroupAsync(_key, "g", "ann", count: 1))));
        Assert.Equal(["2-0 a=2", "3-0 a=3", "4-0 a=4"], Texts(await Of(_session.StreamReadGroupAsync(_key, "g", "ben"))));
        StreamPending pending = await Of(_session.StreamPendingAsync(_key, "g"));
        Assert.Equal((4, "1-0", "4-0"), (pending.Count, pending.First, pending.Last));
        Assert.Equal([new("ann", 1), new("ben", 3)], pending.Consumers);
        Assert.Equal(2, await Of(_session.StreamAcknowledgeAsync(_key, "g", ["2-0", "3-0", "9-0"])));
        // One that a consumer has, and that is deleted.
        await Of(_session.StreamDeleteAsync(_key, ["4-0"]));
        Assert.Equal(["4-0"], Texts(await Of(_session.StreamReadGroupAsync(_key, "g", "ben", "0"))));
        Assert.True(await Of(_session.StreamGroupCreateAsync(_key, "late", "1-0")));
        Assert.Equal(["2-0 a=2", "3-0 a=3"], Texts(await Of(_session.StreamReadGroupAsync(_key, "late", "ann"))));
    }

    [Fact]
    public async Task Scripts_AtEveryShard_AreSentOnceAndThenNamed()
    {
        // No other test has run it.
        string script = $"-- {Guid.NewGuid()}\nreturn {{KEYS[1], redis.call('INCRBY', KEYS[1], ARGV[1]), ARGV[2]}}";
        for (int shard = 0; shard < ClientCluster.Count; shard++)
        {
            string key = Shards.Key(shard, _key);
            (long Named, long Sent) before = await CallsAsync(shard);
            Result<Resp.RespValue> first = await _session.ScriptEvaluateAsync(script, [key], [5, "x"]);
            Assert.Equal(($"[{key}, 5, x]", shard), (first.Value.ToString(), first.Shard.Number));
            Assert.Equal($"[{key}, 7, y]", (await Of(_session.ScriptEvaluateAsync(script, [key], [2, "y"]))).ToString());
            (long Named, long Sent) after = await CallsAsync(shard);
            Assert.Equal((2, 1), (after.Named - before.Named, after.Sent - before.Sent));
        }

        Assert.Equal("7", (await Of(_session.ScriptEvaluateAsync("return 7"))).ToString());
        RedisErrorException error = await Assert.ThrowsAsync<RedisErrorException>(
            () => Of(_session.ScriptEvaluateAsync("return redis.error_reply('WHY not')")));
        Assert.StartsWith("WHY not", error.Message, StringComparison.Ordinal);
    }

    // How often a shard's Redis was asked for a script by its name, and by its text.
    private async Task<(long Named, long Sent)> CallsAsync(int shard)
    {
        using RespClient plain = await Shards.ConnectAsync(shard);
        string[] lines = (await plain.CallAsync("INFO", "commandstats")).Text.Split("\r\n");
        return (CallsOf("evalsha"), CallsOf("eval"));

        long CallsOf(string command) => lines.Where(l => l.StartsWith($"cmdstat_{command}:calls=", StringComparison.Ordinal))
            .Select(l => long.Parse(l.Split('=', ',')[1], CultureInfo.InvariantCulture)).SingleOrDefault();
    }

    private static string[] Texts(IEnumerable<StreamEntry> entries) =>
        [.. entries.Select(e => string.Join(' ', [e.Id, .. e.Fields.Select(f => $"{f.Key}={f.Value}")]))];

    private static async Task<T> Of<T>(ValueTask<Result<T>> operation) =>
        (await operation.AsTask().WaitAsync(TimeSpan.FromSeconds(60))).Value;
}
