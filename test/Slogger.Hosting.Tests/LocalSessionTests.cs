// A session in the shard's process, as its caller sees it: what operations do, and what is said of mistakes.
using System.Text;
using Slogger.Client;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;

namespace Slogger.Hosting.Tests;

public sealed class LocalSessionTests
{
    private static byte[] Bytes(string text) => Encoding.UTF8.GetBytes(text);

    [Fact]
    public async Task Operations_HereAndOverTheNetwork_AreOneSession()
    {
        await using HostedShard hosted = await HostedShard.StartAsync();
        await using LocalSession session = hosted.Shard.OpenSession();
        session.Set("k"u8, "41"u8, TimeSpan.FromHours(1));
        Result<long> remote = await session.Remote.IncrementAsync("k");
        Assert.Equal((42, new SequenceNumber(2)), (remote.Value, remote.Sequence));
        Result<long> here = await session.IncrementAsync(Bytes("k"));
        Assert.Equal((43, new SequenceNumber(3)), (here.Value, here.Sequence));
        Assert.True(here.Version >= remote.Version);
        Assert.True(session.TryGetExpiry("k"u8, out DateTimeOffset? expiry, out _));
        Assert.InRange(expiry!.Value, DateTimeOffset.UtcNow, DateTimeOffset.UtcNow.AddHours(1));
        Assert.Equal(Bytes("43"), (await session.GetAsync(Bytes("k"))).Value);
        Assert.True((await session.DeleteAsync(Bytes("k"))).Value);
        Assert.False(session.Exists("k"u8, out _));
        Assert.False(session.Expire("k"u8, TimeSpan.FromHours(1), out _));
        await session.WaitForCommitAsync().WaitAsync(HostedShard.Generous);
        Assert.Equal(session.Last, session.CommittedUpTo);
        Assert.Equal(8, session.Last.Number);
    }

    [Fact]
    public async Task GetAsync_OfALongValue_ReturnsAllOfIt()
    {
        await using HostedShard hosted = await HostedShard.StartAsync();
        await using LocalSession session = hosted.Shard.OpenSession();
        byte[] value = [.. Enumerable.Range(0, 100_000).Select(i => (byte)i)];
        await session.SetAsync(Bytes("k"), value);
        Assert.Equal(value, (await session.GetAsync(Bytes("k"))).Value);
        // The empty key is one like any other, as in Redis.
        await session.SetAsync(default, Bytes("empty"));
        Assert.Equal(Bytes("empty"), (await session.GetAsync(default)).Value);
    }

    [Fact]
    public async Task Mistakes_AreTold_AndChangeNothing()
    {
        await using HostedShard hosted = await HostedShard.StartAsync();
        await using LocalSession session = hosted.Shard.OpenSession();
        session.Set("text"u8, "abc"u8);
        session.Set("most"u8, "9223372036854775807"u8);
        foreach (TimeSpan expiry in (TimeSpan[])[TimeSpan.Zero, TimeSpan.FromTicks(9_999), TimeSpan.FromHours(-1), TimeSpan.MinValue])
        {
            Assert.Equal("expiry", Assert.Throws<ArgumentOutOfRangeException>(() => session.Set("text"u8, "x"u8, expiry)).ParamName);
            Assert.Equal("after", Assert.Throws<ArgumentOutOfRangeException>(() => session.Expire("text"u8, expiry, out _)).ParamName);
        }

        Assert.Equal("key", Assert.Throws<ArgumentException>(() => session.Set(new byte[(64 << 10) + 1], "x"u8)).ParamName);
        Assert.Equal("key", Assert.Throws<ArgumentException>(() => session.Increment(new byte[(64 << 10) + 1], 1, out _)).ParamName);
        Assert.Throws<ArgumentException>(() => session.Set("text"u8, new byte[(16 << 20) + 1]));
        Assert.Contains("not an integer", Assert.Throws<RedisErrorException>(() => session.Increment("text"u8, 1, out _)).Message,
            StringComparison.Ordinal);
        Assert.Contains("overflow", Assert.Throws<RedisErrorException>(() => session.Increment("most"u8, 1, out _)).Message,
            StringComparison.Ordinal);
        byte[] value = new byte[3];
        Assert.True(session.TryGet("text"u8, value, out int length, out _));
        Assert.Equal((3, "abc"), (length, Encoding.UTF8.GetString(value)));
        Assert.True(session.TryGetExpiry("text"u8, out DateTimeOffset? none, out _));
        Assert.Null(none);
        // The longest there is.
        session.Set("text"u8, "x"u8, TimeSpan.MaxValue);
        Assert.True(session.TryGetExpiry("text"u8, out DateTimeOffset? late, out _));
        Assert.Equal(DateTimeOffset.MaxValue.ToUnixTimeMilliseconds(), late!.Value.ToUnixTimeMilliseconds());
        session.Set(new byte[64 << 10], "x"u8);
        using var cancelled = new CancellationTokenSource();
        cancelled.Cancel();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(
            async () => await session.SetAsync(Bytes("text"), Bytes("y"), cancelled.Token));
    }

    [Fact]
    public async Task Session_UsedByTwoThreadsAtOnce_SaysSo_AndIsWhole()
    {
        await using HostedShard hosted = await HostedShard.StartAsync();
        await using LocalSession session = hosted.Shard.OpenSession();
        long told = 0, done = 0;
        long limit = Environment.TickCount64 + (long)HostedShard.Generous.TotalMilliseconds;
        void Work()
        {
            while (Volatile.Read(ref told) == 0 && Environment.TickCount64 < limit)
            {
                try
                {
                    session.Increment("k"u8, 1, out _);
                    Interlocked.Increment(ref done);
                }
                catch (InvalidOperationException e)
                {
                    Assert.Contains("two threads", e.Message, StringComparison.Ordinal);
                    Interlocked.Increment(ref told);
                }
            }
        }

        await Task.WhenAll(Task.Factory.StartNew(Work, TaskCreationOptions.LongRunning),
            Task.Factory.StartNew(Work, TaskCreationOptions.LongRunning));
        Assert.True(told > 0, "two threads were never told");
        Assert.Equal((done, done), (session.Increment("k"u8, 0, out _), session.Last.Number - 1));
    }

    [Fact]
    public async Task Session_ThatWasClosed_RefusesEverything()
    {
        await using HostedShard hosted = await HostedShard.StartAsync();
        LocalSession session = hosted.Shard.OpenSession();
        session.Set("k"u8, "1"u8);
        await session.DisposeAsync();
        await session.DisposeAsync();
        Assert.Throws<ObjectDisposedException>(() => session.Set("k"u8, "2"u8));
        Assert.Throws<ObjectDisposedException>(() => session.TryGet("k"u8, default, out _, out _));
        await Assert.ThrowsAsync<ObjectDisposedException>(async () => await session.GetAsync(Bytes("k")));
        await Assert.ThrowsAsync<ObjectDisposedException>(() => session.WaitForCommitAsync());
        await using LocalSession other = hosted.Shard.OpenSession();
        Assert.Equal(Bytes("1"), (await other.GetAsync(Bytes("k"))).Value);
    }

    [Fact]
    public async Task Shard_BeforeItServes_AndAfterItsEnd_SaysWhatToDo()
    {
        await using HostedShard hosted = HostedShard.New();
        Assert.Contains("await ISloggerShard.Ready", Assert.Throws<InvalidOperationException>(() => hosted.Shard.OpenSession()).Message,
            StringComparison.Ordinal);
        Assert.Throws<InvalidOperationException>(() => hosted.Shard.Client);
        await hosted.StartAsync();
        await hosted.Shard.Ready.WaitAsync(HostedShard.Generous);
        LocalSession session = hosted.Shard.OpenSession();
        Task working = Task.Run(() =>
        {
            while (true) { session.Increment("k"u8, 1, out _); }
        });
        await hosted.StopAsync();
        Assert.IsType<ObjectDisposedException>(await Assert.ThrowsAnyAsync<Exception>(() => working.WaitAsync(HostedShard.Generous)));
        Assert.Throws<ObjectDisposedException>(() => session.Exists("k"u8, out _));
        Assert.Contains("has ended", Assert.Throws<InvalidOperationException>(() => hosted.Shard.OpenSession()).Message,
            StringComparison.Ordinal);
    }

    [Fact]
    public async Task Shard_ThatCannotStart_SaysWhy()
    {
        await using HostedShard hosted = HostedShard.New(o => o.Serve["faster-memory"] = "1kb");
        await hosted.StartAsync();
        SloggerException why = await Assert.ThrowsAsync<SloggerException>(() => hosted.Shard.Ready.WaitAsync(HostedShard.Generous));
        Assert.Contains("faster-memory", why.Message, StringComparison.Ordinal);
        Assert.Contains(why.Message, Assert.Throws<InvalidOperationException>(() => hosted.Shard.OpenSession()).Message,
            StringComparison.Ordinal);
    }

    [Fact]
    public async Task Operations_AllocateNothing()
    {
        await using HostedShard hosted = await HostedShard.StartAsync();
        await using LocalSession session = hosted.Shard.OpenSession();
        const int Times = 20_000, BytesOfVersion = 4096;
        byte[] value = new byte[8];
        long versions = 0;
        VersionNumber last = default;
        void Work()
        {
            for (int i = 0; i < Times; i++)
            {
                session.Set("key"u8, "12345678"u8);
                session.TryGet("key"u8, value, out _, out _);
                session.Increment("number"u8, 1, out VersionNumber version);
                session.Exists("key"u8, out _);
                if (version != last) { versions++; }
                last = version;
            }
        }

        Work();
        versions = 0;
        long before = GC.GetAllocatedBytesForCurrentThread();
        Work();
        // When a version begins FASTER makes a context for the next, and what was done in the last is taken in. An operation allocates
        // nothing: 24 bytes for each would be two million.
        Assert.InRange(GC.GetAllocatedBytesForCurrentThread() - before, 0, (versions + 1) * BytesOfVersion);
    }
}
