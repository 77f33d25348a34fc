// A store that follows another: one connection feeds it, all others read; keys expire when the other says so; and what tells two stores
// apart, or makes a second one of a commit.
using Slogger.Faster.Commands;
using Slogger.Faster.Commits;

namespace Slogger.Faster.Tests.Commands;

public sealed class FollowingTests : IDisposable
{
    private readonly TestEngine _test = new();
    private readonly TestClient _feed;

    public FollowingTests()
    {
        _test.Engine.IsFollowing = true;
        _feed = new(_test.Engine.ConnectFeed());
    }

    private TestClient Client => _test.Client;

    public void Dispose()
    {
        _feed.Dispose();
        _test.Dispose();
    }

    [Fact]
    public void Client_OfAStoreThatFollows_ReadsAndWritesNothing()
    {
        Assert.Equal("+OK|", _feed.Send("SET a 1"));
        Assert.Equal("$1|1|", Client.Send("GET a"));
        foreach (string write in (string[])["SET a 2", "DEL a", "EXPIRE a 1", "FLUSHALL", "GETEX a", "GETDEL a"])
            Assert.StartsWith("-READONLY ", Client.Send(write));
        Assert.Equal("+OK|", Client.Send("MULTI"));
        Assert.StartsWith("-READONLY ", Client.Send("SET a 3"));
        Assert.StartsWith("-EXECABORT ", Client.Send("EXEC"));
        Assert.Equal("$1|1|", Client.Send("GET a"));
        Assert.StartsWith("*5|$5|slave|", Client.Send("ROLE"));
        Assert.Contains("role:slave|", Client.Send("INFO replication"));
        _test.Engine.IsFollowing = false;
        Assert.Equal("+OK|", Client.Send("SET a 2"));
        Assert.StartsWith("*3|$6|master|", Client.Send("ROLE"));
    }

    [Fact]
    public void Key_ThatHasExpired_IsMissingToReaders_AndThereForTheFeed()
    {
        _feed.Send("SET", "a", "1", "PXAT", $"{_test.NowMs - 5}");
        _feed.Send("SET", "b", "1", "PXAT", $"{_test.NowMs + 5}");
        _feed.Send("SET c 1");
        _feed.Send("PEXPIREAT", "c", $"{_test.NowMs - 1}");
        _test.NowMs += 10;
        Assert.Equal("*3|$-1|$-1|$-1|", Client.Send("MGET a b c"));
        Assert.Equal("*0|", Client.Send("KEYS *"));
        Assert.Equal("*2|$1|0|*0|", Client.Send("SCAN 0 COUNT 1000"));
        Assert.Equal(0, _test.Engine.SweepExpired(1000));
        Assert.Equal(":3|", Client.Send("DBSIZE"));
        // What the other does with it, it did before it expired there.
        Assert.Equal(":2|", _feed.Send("APPEND a x"));
        Assert.Equal(":1|", _feed.Send("PERSIST a"));
        Assert.Equal("$2|1x|", Client.Send("GET a"));
        _test.Engine.IsFollowing = false;
        Assert.Equal("$-1|", Client.Send("GET b"));
        Assert.Equal(":2|", Client.Send("DBSIZE"));
    }

    [Fact]
    public void Feed_AtACommandThatCannotBeDone_EndsAndSaysWhy()
    {
        Assert.Equal("+OK|-ERR value is not an integer or out of range|",
            _feed.Raw("SET a x\r\nINCR a\r\nSET b 1\r\n").Replace("\r\n", "|", StringComparison.Ordinal));
        Assert.Contains("not an integer", _feed.Connection.FeedError);
        Assert.Equal("$-1|", Client.Send("GET b"));
    }

    [Fact]
    public void Digest_IsOfWhatThereIs_InWhateverOrderItCame()
    {
        using var other = new TestEngine();
        for (int i = 0; i < 3000; i++)
        {
            _feed.Send("SET", $"key:{i}", $"{i}", "PXAT", $"{4_000_000_000_000 + i}");
            other.Client.Send("SET", $"key:{2999 - i}", $"{2999 - i}", "PXAT", $"{4_000_000_002_999 - i}");
        }

        Assert.Equal(_test.Engine.Digest(), other.Engine.Digest());
        Assert.Equal(3000, other.Engine.Digest().Keys);
        string before = other.Engine.Digest().Digest;
        foreach (string change in (string[])["PEXPIREAT key:7 4000000000008", "APPEND key:8 x", "DEL key:9", "SET more 1"])
        {
            other.Client.Send(change);
            string after = other.Engine.Digest().Digest;
            Assert.NotEqual(before, after);
            before = after;
        }
    }

    [Fact]
    public async Task CopyOfACommit_IsAStoreOfItsOwn_AsItWasThen()
    {
        for (int i = 0; i < 5000; i++) _feed.Send("SET", $"key:{i % 700}", new string('v', i % 900));
        CommitRecord commit = await _test.Store.CommitAsync(new(1), new(10));
        string then = _test.Engine.Digest().Digest;
        for (int i = 0; i < 5000; i++) _feed.Send("SET", $"key:{i % 800}", new string('w', i % 900));
        CommitRecord later = await _test.Store.CommitAsync(new(1), new(20));
        string now = _test.Engine.Digest().Digest;
        Assert.True(FasterStore.IsWhole(_test.StoreOptions, commit) && FasterStore.IsWhole(_test.StoreOptions, later));
        Assert.False(FasterStore.IsWhole(_test.StoreOptions, later with { To = later.To - 8 }));
        foreach ((CommitRecord copied, string digest) in ((CommitRecord, string)[])[(commit, then), (later, now)])
        {
            string directory = Directory.CreateTempSubdirectory("slogger-copy-").FullName;
            try
            {
                FasterStore.CopyCommit(_test.StoreOptions, copied, directory);
                using var store = FasterStore.OpenAt(_test.StoreOptions with { Directory = directory }, copied.Point);
                using var engine = new CommandEngine(store, new EngineOptions());
                Assert.Equal(digest, engine.Digest().Digest);
            }
            finally
            {
                Directory.Delete(directory, recursive: true);
            }
        }
    }
}
