// What the comparison with Redis cannot show: expiry by a clock, several connections, limits, and what becomes of it all at a restart and a
// rollback.
using Slogger.Core.WorldLines;
using Slogger.Faster.Commands;

namespace Slogger.Faster.Tests.Commands;

public sealed class KeyspaceTests : IDisposable
{
    private readonly TestEngine _test = new();

    private TestClient Client => _test.Client;

    public void Dispose() => _test.Dispose();

    [Fact]
    public void Key_ThatHasExpired_IsGoneForEveryoneAtOnce()
    {
        using TestClient other = _test.Connect();
        Assert.Equal("+OK|", Client.Send("SET a 1 PX 1000"));
        Assert.Equal("+OK|", Client.Send("SET b 1 PX 1000"));
        _test.NowMs += 999;
        Assert.Equal("$1|1|", other.Send("GET a"));
        Assert.Equal(":1|", other.Send("PTTL a"));
        _test.NowMs++;
        Assert.Equal(":2|", other.Send("DBSIZE"));
        Assert.Equal("$-1|", other.Send("GET a"));
        Assert.Equal(":1|", other.Send("DBSIZE"));
        Assert.Equal("*0|", Client.Send("KEYS *"));
        Assert.Equal(":1|", Client.Send("DBSIZE"));
        Assert.Equal("*2|$1|0|*0|", Client.Send("SCAN 0 COUNT 1000"));
        Assert.Equal(":0|", Client.Send("DBSIZE"));
        Assert.Equal(":1|", Client.Send("APPEND a x"));
        Assert.Equal(":-1|", Client.Send("TTL a"));
    }

    [Fact]
    public async Task Sweep_OfExpiredKeys_RemovesThemAndShowsItInTheFeed()
    {
        using TestClient owner = _test.Connect(isOwner: true);
        for (int i = 0; i < 3000; i++) Client.Send("SET", $"key:{i}", "v", "PX", i % 3 == 0 ? "1000" : "100000");
        await _test.Store.CommitAsync(new(1), new(10));
        _test.NowMs += 1000;
        int swept = 0, calls = 0;
        for (; swept < 1000 && calls < 10_000; calls++) swept += _test.Engine.SweepExpired(100);
        Assert.Equal(1000, swept);
        Assert.True(calls < 500, $"{calls} calls");
        Assert.Equal(":2000|", Client.Send("DBSIZE"));
        var commit = await _test.Store.CommitAsync(new(1), new(20));
        Assert.Equal(1000, _test.Store.Changes(commit).Count(c => c.Value is null));
        Assert.Equal(0, _test.Engine.SweepExpired(10_000));
    }

    [Fact]
    public async Task Keys_AfterARestart_AreCountedAndListedAsBefore()
    {
        for (int i = 0; i < 1000; i++) Client.Send("SET", $"key:{i}", new string('v', i % 50));
        for (int i = 0; i < 1000; i += 4) Client.Send("DEL", $"key:{i}");
        for (int i = 0; i < 1000; i += 8) Client.Send("SET", $"key:{i}", "again", "PX", "5000");
        await _test.Store.CommitAsync(new(1), new(10));
        Client.Send("SET lost 1");
        Assert.Equal(":876|", Client.Send("DBSIZE"));
        string[] expected = [.. Listed().Where(k => k != "lost")];
        _test.Reopen();
        Assert.Equal(":875|", Client.Send("DBSIZE"));
        Assert.Equal(expected, Listed());
        Assert.Contains("keys=875,expires=125", Client.Send("INFO keyspace"), StringComparison.Ordinal);
    }

    [Fact]
    public async Task Keys_AfterARollback_AreThoseOfTheCommit()
    {
        for (int i = 0; i < 1000; i++) Client.Send("SET", $"key:{i}", "1");
        var commit = await _test.Store.CommitAsync(new(1), new(10));
        for (int i = 0; i < 1000; i += 2) Client.Send("DEL", $"key:{i}");
        for (int i = 0; i < 300; i++) Client.Send("SET", $"new:{i}", "1", "PX", "5000");
        Task<Slogger.Faster.Commits.CommitRecord?> back = _test.Store.RollbackAsync(commit.Point, new(2), new(50), () => { });
        // Whatever the purge has come to: nobody sees what was taken back.
        Assert.Equal("$1|1|", Client.Send("GET key:0"));
        Assert.Equal("$-1|", Client.Send("GET new:0"));
        Assert.Equal(1000, Listed().Length);
        await back;
        Assert.Equal(":1000|", Client.Send("DBSIZE"));
        Assert.Contains("keys=1000,expires=0", Client.Send("INFO keyspace"), StringComparison.Ordinal);
    }

    [Fact]
    public async Task DbSize_BeforeThePurgeOfARollback_IsThatOfTheCommit()
    {
        for (int i = 0; i < 1000; i++) Client.Send("SET", $"key:{i}", "1");
        var commit = await _test.Store.CommitAsync(new(1), new(10));
        for (int i = 0; i < 1000; i += 2) Client.Send("DEL", $"key:{i}");
        for (int i = 0; i < 300; i++) Client.Send("SET", $"new:{i}", "1");
        string counted = "";
        // Nothing is purged yet: whoever waited for that here would wait in vain.
        await _test.Store.RollbackAsync(commit.Point, new(2), new(50), () => counted = Client.Send("DBSIZE"));
        Assert.Equal(":1000|", counted);
        Assert.Equal(":1000|", Client.Send("DBSIZE"));
    }

    // Nothing is purged yet: whoever waited for that here would wait in vain.
    [Fact]
    public async Task Keys_BeforeThePurgeOfARollback_AreThoseOfTheCommit()
    {
        for (int i = 0; i < 1000; i++) Client.Send("SET", $"key:{i}", "1");
        var commit = await _test.Store.CommitAsync(new(1), new(10));
        string[] expected = Listed();
        for (int i = 0; i < 1000; i += 2) Client.Send("DEL", $"key:{i}");
        for (int i = 0; i < 300; i++) Client.Send("SET", $"new:{i}", "1");
        for (int i = 0; i < 300; i += 3) Client.Send("DEL", $"new:{i}");
        for (int i = 0; i < 1000; i += 10) Client.Send("SET", $"key:{i}", "2");
        string[] listed = [];
        var scanned = new List<string>();
        string random = "";
        await _test.Store.RollbackAsync(commit.Point, new(2), new(50), () =>
        {
            string cursor = "0";
            do
            {
                string[] reply = Client.Send("SCAN", cursor, "COUNT", "50").Split('|');
                cursor = reply[2];
                scanned.AddRange(reply[4..].Where(k => k.Length > 0 && k[0] != '$'));
            }
            while (cursor != "0");
            listed = Listed();
            random = Client.Send("RANDOMKEY");
        });
        Assert.Equal(expected, listed);
        Assert.Equal(expected, scanned.Order(StringComparer.Ordinal));
        Assert.Contains("key:", random, StringComparison.Ordinal);
        Assert.Equal(expected, Listed());
    }

    [Theory]
    [InlineData(4)]
    [InlineData(1500)]
    public void FlushAll_OfKeysOfAnyLength_IsDoneWhollyOrNotAtAll(int keyBytes)
    {
        using var test = new TestEngine(pageBits: 14, memoryBytes: 1 << 20, with: o => o with { IsOutOfMemory = null });
        int keys = 0;
        for (; test.Client.Send("SET", Key(keys), "") == "+OK|"; keys++)
        {
        }

        Assert.True(keys > 100);
        string reply = test.Client.Send("FLUSHALL");
        if (reply == "+OK|") keys = 0;
        else Assert.StartsWith("-OOM", reply, StringComparison.Ordinal);
        Assert.Equal($":{keys}|", test.Client.Send("DBSIZE"));
        Assert.InRange(test.Store.UsedBytes, 0, test.Store.Budget.Pages * test.Store.Budget.PageBytes);

        string Key(int number) => number.ToString(System.Globalization.CultureInfo.InvariantCulture).PadLeft(keyBytes, '0');
    }

    [Fact]
    public async Task Commands_WhileTheLogIsPressed_PauseOnceForEachPieceThatWrites()
    {
        int pauses = 0;
        using var test = new TestEngine(pageBits: 14, memoryBytes: 1 << 20, with: o => o with { Pause = () => pauses++ });
        using TestClient owner = test.Connect(isOwner: true);
        test.Engine.OnCommit = _ => { };
        string value = new('x', 1000);
        for (int i = 0; !test.Store.IsPressed; i++) test.Client.Send("SET", $"key:{i % 10}:{i}", value);
        pauses = 0;
        test.Client.Send("GET key:1:1");
        owner.Send("SLOGGER.COMMIT 1 10");
        Assert.Equal(0, pauses);
        test.Client.Raw(TestClient.Request("SET", "a", "1") + TestClient.Request("GET", "a") + TestClient.Request("SET", "a", "2"));
        Assert.Equal(1, pauses);
        await test.Store.CommitAsync(new(1), new(10));
    }

    [Fact]
    public async Task Watch_OverARollback_HasChanged()
    {
        Client.Send("SET a 1");
        var commit = await _test.Store.CommitAsync(new(1), new(10));
        Client.Send("SET a 2");
        Client.Send("WATCH a");
        await _test.Store.RollbackAsync(commit.Point, new(2), new(50), () => { });
        Client.Send("MULTI");
        Client.Send("GET a");
        Assert.Equal("*-1|", Client.Send("EXEC"));
        Assert.Equal("$1|1|", Client.Send("GET a"));
    }

    [Theory]
    [InlineData("SET a 1")]
    [InlineData("SET a 2")]
    [InlineData("DEL a")]
    [InlineData("EXPIRE a 100")]
    [InlineData("RENAME other a")]
    [InlineData("RENAME a other")]
    [InlineData("COPY other a REPLACE")]
    [InlineData("MSET x 1 a 2")]
    [InlineData("FLUSHALL")]
    [InlineData("SETBIT a 100 1")]
    [InlineData("GETDEL a")]
    public void Watch_OfAKeyThatAnotherChanges_ForbidsTheTransaction(string change)
    {
        using TestClient other = _test.Connect();
        Client.Send("MSET a 1 other 1");
        Client.Send("WATCH b a");
        other.Send(change);
        Assert.Equal("+OK|", Client.Send("MULTI"));
        Assert.Equal("+QUEUED|", Client.Send("SET done 1"));
        Assert.Equal("*-1|", Client.Send("EXEC"));
        Assert.Equal(":0|", Client.Send("EXISTS done"));
        // It watches nothing any more.
        other.Send("SET a 5");
        Client.Send("MULTI");
        Client.Send("SET done 1");
        Assert.Equal("*1|+OK|", Client.Send("EXEC"));
    }

    [Theory]
    [InlineData("GET a")]
    [InlineData("SET c 1")]
    [InlineData("SETBIT a 7 1")]
    [InlineData("DEL nothing")]
    [InlineData("SETNX a 5")]
    [InlineData("PERSIST a")]
    public void Watch_OfAKeyThatNobodyChanges_AllowsTheTransaction(string noChange)
    {
        using TestClient other = _test.Connect();
        Client.Send("MSET a 1 b 1");
        Client.Send("WATCH a b");
        other.Send(noChange);
        Client.Send("MULTI");
        Client.Send("SET done 1");
        Assert.Equal("*1|+OK|", Client.Send("EXEC"));
    }

    [Fact]
    public void Watch_OfAKeyThatExpires_ForbidsTheTransaction()
    {
        Client.Send("SET a 1 PX 100");
        Client.Send("WATCH a");
        _test.NowMs += 100;
        Client.Send("MULTI");
        Assert.Equal("*-1|", Client.Send("EXEC"));
        // One that had expired before is missing, and stays so.
        Client.Send("SET a 1 PX 100");
        _test.NowMs += 100;
        Client.Send("WATCH a");
        Client.Send("EXISTS a");
        Client.Send("MULTI");
        Assert.Equal("*0|", Client.Send("EXEC"));
    }

    [Fact]
    public void OutOfMemory_ForCommandsThatNeedMemory_IsRedisError()
    {
        const string Oom = "-OOM command not allowed when used memory > 'maxmemory'.|";
        Client.Send("SET a 1");
        Client.Send("MULTI");
        Client.Send("SET a 2");
        _test.IsOutOfMemory = true;
        Assert.Equal(Oom, Client.Send("GET a"));
        Assert.Equal("-EXECABORT Transaction discarded because of previous errors.|", Client.Send("EXEC"));
        foreach (string command in new[] { "SET a 2", "INCR a", "APPEND a 1", "MSET a 1", "SETBIT a 1 1", "COPY a b", "SETRANGE a 1 x" })
            Assert.Equal(Oom, Client.Send(command));
        Assert.Equal("$1|1|", Client.Send("GET a"));
        Assert.Equal(":1|", Client.Send("EXPIRE a 100"));
        Assert.Equal("+OK|", Client.Send("RENAME a b"));
        Assert.Equal(":1|", Client.Send("DEL b"));
        _test.IsOutOfMemory = false;
        Client.Send("MULTI");
        Client.Send("SET a 2");
        _test.IsOutOfMemory = true;
        Assert.StartsWith("-EXECABORT Transaction discarded because of: OOM", Client.Send("EXEC"), StringComparison.Ordinal);
    }

    [Fact]
    public void Memory_FullInTheMiddleOfATransaction_IsAnErrorAndNothingIsStuck()
    {
        using var small = new TestEngine(pageBits: 16, memoryBytes: 1 << 20, with: o => o with { IsOutOfMemory = null });
        small.Client.Send("MULTI");
        for (int i = 0; i < 100; i++) small.Client.Send("SET", $"key:{i}", new string('v', 60_000));
        Assert.StartsWith("-ERR SLOGGER the memory for records became full", small.Client.Send("EXEC"), StringComparison.Ordinal);
        Assert.Equal(":60000|", small.Client.Send("STRLEN key:0"));
        Assert.Equal("-OOM command not allowed when used memory > 'maxmemory'.|", small.Client.Send("SET a 1"));
        Assert.Equal("-OOM command not allowed when used memory > 'maxmemory'.|", small.Client.Send("DEL key:0"));
        using TestClient other = small.Connect();
        Assert.Equal(":60000|", other.Send("STRLEN key:0"));
    }

    [Fact]
    public void Commit_AtItsPlace_IsTheOwnersOnly()
    {
        var order = new List<string>();
        using TestClient owner = _test.Connect(isOwner: true);
        Assert.StartsWith("-ERR unknown command 'SLOGGER.COMMIT'", owner.Send("SLOGGER.COMMIT 1 10"), StringComparison.Ordinal);
        _test.Engine.OnCommit = c =>
        {
            order.Add($"{c.Line.Number} {c.Next.Number} {_test.Connect().Send("GET a")}");
            c.Refusal = order.Count > 1 ? "a commit is under way" : null;
        };
        Assert.StartsWith("-ERR unknown command 'SLOGGER.COMMIT'", Client.Send("SLOGGER.COMMIT 1 10"), StringComparison.Ordinal);
        string requests = TestClient.Request("SET", "a", "1") + TestClient.Request("SLOGGER.COMMIT", "3", "10")
            + TestClient.Request("SET", "a", "2") + TestClient.Request("SLOGGER.COMMIT", "3", "11");
        Assert.Equal("+OK\r\n+OK\r\n+OK\r\n-ERR SLOGGER a commit is under way\r\n", owner.Raw(requests));
        Assert.Equal(["3 10 $1|1|", "3 11 $1|2|"], order);
    }

    [Fact]
    public void KeysAndValues_ThatAreTooLarge_AreRefusedByName()
    {
        using var large = new TestEngine(pageBits: 25);
        TestClient client = large.Client;
        string key = new('k', 64 << 10), value = new('v', 16 << 20);
        Assert.Equal("+OK|", client.Send("SET", key, value));
        Assert.Equal($":{16 << 20}|", client.Send("STRLEN", key));
        Assert.Equal($"-ERR SLOGGER a key has at most 65536 bytes, not 65537|", client.Send("SET", key + "k", "1"));
        Assert.StartsWith("-ERR SLOGGER a value has at most 16777216 bytes", client.Send("APPEND", key, "1"), StringComparison.Ordinal);
        Assert.StartsWith("-ERR SLOGGER a value has at most 16777216 bytes", client.Send("SETRANGE", "a", $"{16 << 20}", "1"),
            StringComparison.Ordinal);
        // Larger than any value: passed over as it comes, and then goes on.
        string reply = client.Raw(TestClient.Request("MSET", "a", value + "v", "b", "1") + TestClient.Request("PING"));
        Assert.StartsWith("-ERR SLOGGER an argument has at most 16777216 bytes", reply, StringComparison.Ordinal);
        Assert.EndsWith("\r\n+PONG\r\n", reply, StringComparison.Ordinal);
        Assert.Equal(":0|", client.Send("EXISTS a b"));
        // With small pages the page decides.
        Assert.StartsWith("-ERR SLOGGER a key and its value have at most", Client.Send("SET", "a", new string('v', 1 << 20)),
            StringComparison.Ordinal);
    }

    [Fact]
    public void ReplyMode_OffAndSkip_AnswersWhatItShould()
    {
        Assert.Equal("", Client.Send("CLIENT REPLY OFF"));
        Assert.Equal("", Client.Send("SET a 1"));
        Assert.Equal("+OK|", Client.Send("CLIENT REPLY ON"));
        Assert.Equal("", Client.Send("CLIENT REPLY SKIP"));
        Assert.Equal("", Client.Send("GET a"));
        Assert.Equal("$1|1|", Client.Send("GET a"));
    }

    private string[] Listed() =>
        [.. Client.Send("KEYS *").Split('|').Where(l => l.Length > 0 && l[0] is not ('$' or '*')).Order(StringComparer.Ordinal)];
}
