// Callers in the store's own process: what they do is what commands over a connection do, and holds in one world-line and one version.
using System.Text;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commands;
using Slogger.Faster.Commits;

namespace Slogger.Faster.Tests.Commands;

public sealed class LocalConnectionTests : IDisposable
{
    private static readonly WorldLine One = new(1), Two = new(2);
    private readonly TestEngine _engine = new();
    private readonly LocalConnection _local;
    private LocalTerms _terms = new(One, VersionNumber.Zero);

    public LocalConnectionTests()
    {
        _local = _engine.Engine.ConnectLocal();
        _engine.Store.AdmitLocal(One, new(10));
    }

    public void Dispose()
    {
        _local.Dispose();
        _engine.Dispose();
    }

    private bool Set(string key, string value, out LocalResult result, long expiryMs = 0) =>
        _local.Set(_terms, Bytes(key), Bytes(value), expiryMs, out result);

    private string? Get(string key)
    {
        byte[] into = new byte[100];
        Assert.True(_local.Get(_terms, Bytes(key), into, out LocalResult result));
        return result.Found ? Encoding.UTF8.GetString(into, 0, result.Length) : null;
    }

    private static byte[] Bytes(string text) => Encoding.UTF8.GetBytes(text);

    [Fact]
    public void Operations_AndCommandsOfConnections_SeeEachOther()
    {
        Assert.True(Set("k", "12", out _));
        Assert.Equal("$2|12|", _engine.Client.Send("GET k"));
        Assert.Equal(":1|", _engine.Client.Send("DBSIZE"));
        Assert.Equal(":13|", _engine.Client.Send("INCR k"));
        Assert.True(_local.Increment(_terms, Bytes("k"), 29, out LocalResult sum));
        Assert.Equal(42, sum.Number);
        Assert.Equal("$2|42|", _engine.Client.Send("GET k"));
        Assert.True(_local.Delete(_terms, Bytes("k"), out LocalResult deleted));
        Assert.True(deleted.Found);
        Assert.Equal("$-1|", _engine.Client.Send("GET k"));
        Assert.Equal(":0|", _engine.Client.Send("DBSIZE"));
        Assert.True(_local.Delete(_terms, Bytes("k"), out deleted));
        Assert.False(deleted.Found);
        Assert.Null(Get("k"));
    }

    [Fact]
    public void Get_OfAValueLongerThanTheRoom_TellsItsLength()
    {
        Set("k", "0123456789", out _);
        byte[] into = new byte[4];
        Assert.True(_local.Get(_terms, Bytes("k"), into, out LocalResult result));
        Assert.Equal((true, 10, "0123"), (result.Found, result.Length, Encoding.UTF8.GetString(into)));
    }

    [Fact]
    public void Increment_OfWhatIsNoNumber_OrHasNoRoom_ChangesNothing()
    {
        Set("text", "abc", out _);
        Set("long", new string('1', 30), out _);
        Set("max", long.MaxValue.ToString(System.Globalization.CultureInfo.InvariantCulture), out _);
        foreach ((string key, LocalError error) in new[] { ("text", LocalError.NotANumber), ("long", LocalError.NotANumber),
            ("max", LocalError.Overflow) })
        {
            string? before = Get(key);
            Assert.True(_local.Increment(_terms, Bytes(key), 1, out LocalResult result));
            Assert.Equal(error, result.Error);
            Assert.Equal(before, Get(key));
        }
    }

    [Fact]
    public void Expiry_IsTheStoresClock_AndAWriteStartsAfresh()
    {
        Set("k", "5", out _, expiryMs: _engine.NowMs + 1000);
        Assert.True(_local.Look(_terms, Bytes("k"), out LocalResult look));
        Assert.Equal(_engine.NowMs + 1000, look.Number);
        Assert.True(_local.Increment(_terms, Bytes("k"), 1, out _));
        Assert.Equal(":1000|", _engine.Client.Send("PTTL k"));
        _engine.NowMs += 1000;
        Assert.Null(Get("k"));
        Assert.True(_local.Increment(_terms, Bytes("k"), 1, out LocalResult sum));
        Assert.Equal(1, sum.Number);
        Assert.Equal(":-1|", _engine.Client.Send("PTTL k"));
        Assert.True(_local.Expire(_terms, Bytes("k"), _engine.NowMs + 5, out LocalResult expire));
        Assert.True(expire.Found);
        Assert.Equal(":5|", _engine.Client.Send("PTTL k"));
        Assert.True(_local.Expire(_terms, Bytes("k"), _engine.NowMs, out _));
        Assert.Equal(":0|", _engine.Client.Send("EXISTS k"));
    }

    [Fact]
    public void Results_OfAKeyThatIsMissing_SayNothingOfAnother()
    {
        Set("k", "12345", out _, expiryMs: _engine.NowMs + 1000);
        _local.Delete(_terms, Bytes("k"), out _);
        byte[] into = new byte[8];
        foreach (string key in (string[])["k", "never"])
        {
            Assert.True(_local.Get(_terms, Bytes(key), into, out LocalResult get));
            Assert.True(_local.Look(_terms, Bytes(key), out LocalResult look));
            Assert.True(_local.Delete(_terms, Bytes(key), out LocalResult deleted));
            Assert.True(_local.Expire(_terms, Bytes(key), 1, out LocalResult expired));
            foreach (LocalResult result in (LocalResult[])[get, look, deleted, expired])
            {
                Assert.Equal((false, 0, 0L, LocalError.None), (result.Found, result.Length, result.Number, result.Error));
            }
        }
    }

    [Fact]
    public void Expiry_ThatIsNoTime_IsRefused_AndChangesNothing()
    {
        Set("k", "1", out _);
        foreach (long expiryMs in (long[])[-1, long.MinValue, (1L << 62) - 1, 1L << 62, long.MaxValue])
        {
            Assert.Throws<ArgumentOutOfRangeException>(() => Set("k", "2", out _, expiryMs));
            Assert.Throws<ArgumentOutOfRangeException>(() => _local.Expire(_terms, Bytes("k"), expiryMs, out _));
        }

        Assert.Equal("$1|1|", _engine.Client.Send("GET k"));
        Assert.Equal(":-1|", _engine.Client.Send("PTTL k"));
        Set("k", "3", out _, (1L << 62) - 2);
        Assert.Equal("3", Get("k"));
        Set("k", "4", out _, expiryMs: 1);
        Assert.Equal("$-1|", _engine.Client.Send("GET k"));
    }

    [Fact]
    public void Set_OfAWatchedKey_HasTheTransactionDoNothing()
    {
        _engine.Client.Send("WATCH k");
        Set("k", "1", out _);
        _engine.Client.Send("MULTI");
        _engine.Client.Send("SET k 2");
        Assert.Equal("*-1|", _engine.Client.Send("EXEC"));
        Assert.Equal("1", Get("k"));
    }

    [Fact]
    public void Operation_InAnotherWorldLine_OrBelowWhatWasSeen_IsNotDone()
    {
        foreach (LocalTerms terms in (LocalTerms[])[new(Two, VersionNumber.Zero), new(One, new(11))])
        {
            _terms = terms;
            Assert.False(Set("k", "1", out _));
            Assert.False(_local.Get(_terms, Bytes("k"), new byte[1], out _));
            Assert.False(_local.Look(_terms, Bytes("k"), out _));
            Assert.False(_local.Delete(_terms, Bytes("k"), out _));
            Assert.False(_local.Increment(_terms, Bytes("k"), 1, out _));
            Assert.False(_local.Expire(_terms, Bytes("k"), 0, out _));
        }

        _terms = new(One, new(10));
        Assert.True(Set("k", "1", out LocalResult result));
        Assert.Equal(new VersionNumber(10), result.Version);
        _engine.Store.ShutOutLocal();
        Assert.False(Set("k", "2", out _));
        Assert.Equal("$1|1|", _engine.Client.Send("GET k"));
    }

    [Fact]
    public async Task BeginCommit_EndsTheVersionOfLocalChanges()
    {
        Assert.True(Set("k", "1", out LocalResult before));
        Assert.True(_engine.Store.IsChanged);
        Task<CommitRecord> commit = _engine.Store.BeginCommit(One, new(13), open: new(20))!;
        Assert.False(_engine.Store.IsChanged);
        Assert.True(Set("k", "2", out LocalResult after));
        Assert.Equal((new VersionNumber(10), new VersionNumber(20)), (before.Version, after.Version));
        Assert.Equal(new VersionNumber(12), (await commit).Point.Version);
        _local.Dispose();
        _engine.Reopen(new WorldPoint(One, new(12)));
        Assert.Equal("$1|1|", _engine.Client.Send("GET k"));
    }

    [Fact]
    public void PassVersions_TellsWhetherTheOpenOneHasChanges()
    {
        _engine.Store.PassVersions(changed =>
        {
            Assert.False(changed);
            return new VersionNumber(15);
        });
        Assert.True(_local.Get(_terms, Bytes("k"), new byte[1], out LocalResult read));
        Assert.Equal(new VersionNumber(15), read.Version);
        Assert.False(_engine.Store.IsChanged);
        Set("k", "1", out _);
        _engine.Store.PassVersions(changed =>
        {
            Assert.True(changed);
            return null;
        });
        Assert.Equal(new VersionNumber(15), _engine.Store.Open);
    }

    // The shard lets a version pass empty only if nobody has changed anything in it: no change may slip in between.
    [Fact]
    public async Task PassVersions_WhileAnotherThreadChanges_NoChangeIsInAVersionThatPassed()
    {
        const int Changes = 20_000;
        var changed = new List<long>();
        var passed = new HashSet<long>();
        long next = 11;
        int turns = 0;
        Task writer = Task.Run(() =>
        {
            for (int i = 0; i < Changes; i++)
            {
                Assert.True(Set("k", "1", out LocalResult result));
                changed.Add(result.Version.Number);
                if (i % 8 == 0) { Thread.Yield(); }
                if (i % 1000 != 0) { continue; }
                // The first of two whole turns may find the changes, the second finds none.
                int after = Volatile.Read(ref turns) + 3;
                Assert.True(SpinWait.SpinUntil(() => Volatile.Read(ref turns) >= after, TimeSpan.FromSeconds(30)));
            }
        });
        while (!writer.IsCompleted)
        {
            Interlocked.Increment(ref turns);
            Task<CommitRecord>? commit = null;
            bool isEmpty = false;
            long open = _engine.Store.Open.Number;
            _engine.Store.PassVersions(any => (isEmpty = !any) ? new VersionNumber(next) : null);
            if (isEmpty) { passed.Add(open); }
            else { commit = _engine.Store.BeginCommit(One, new(next)); }
            if (commit is not null) { await commit; }
            next = _engine.Store.Open.Number + 1;
        }

        await writer;
        Assert.NotEmpty(passed);
        Assert.DoesNotContain(changed, passed.Contains);
    }

    [Fact]
    public void Operations_AllocateNothing()
    {
        byte[] key = Bytes("key"), value = Bytes("12345678"), into = new byte[16];
        void Work(int times)
        {
            for (int i = 0; i < times; i++)
            {
                _local.Set(_terms, key, value, 0, out _);
                _local.Get(_terms, key, into, out _);
                _local.Increment(_terms, key, 1, out _);
                _local.Look(_terms, key, out _);
            }
        }

        Work(2000);
        long before = GC.GetAllocatedBytesForCurrentThread();
        Work(2000);
        Assert.InRange(GC.GetAllocatedBytesForCurrentThread() - before, 0, 2000);
    }
}
