// Views of the past: one version that all shards have, questions that find their shard, and what stands in their way.
using System.Collections.Concurrent;
using System.Globalization;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Client.Tests;

public sealed class PastViewTests
{
    private const string Value = "$1\r\nv\r\n";

    // Slots 0 to 8191 are at the first shard. "foo" is of slot 12182, "hello" of 866.
    private const string AtFirst = "hello", AtSecond = "foo";

    [Fact]
    public async Task View_OfTwoShards_IsAtTheVersionThatBothHave()
    {
        // Of a time the first one names 40; the second has not closed that.
        await using var shards = new TwoShards(
            asked => asked.Length > 3 ? Value : asked[1] == "TIME" ? Instant(40) : Instant(Math.Min(38, Number(asked[2]))),
            asked => asked.Length > 3 ? Value : Instant(Math.Min(39, Number(asked[2]))));
        await using SloggerClient client = await shards.ConnectAsync();
        await using SloggerSession session = client.OpenSession();
        await using PastView view = await session.AsOfAsync(DateTimeOffset.FromUnixTimeSeconds(5));

        Assert.Equal((38, 3), (view.Version.Number, view.WorldLine.Number));
        Assert.Equal(DateTimeOffset.UnixEpoch.AddMicroseconds(38_001_234), view.Time);
        Assert.Equal("v", await view.GetAsync(AtFirst));
        Assert.Equal("v", await view.GetAsync(AtSecond));
        Assert.Equal(["DPR.ASOF TIME 5000", "DPR.ASOF VERSION 39", "DPR.ASOF VERSION 38 GET hello"],
            shards.Asked(0));
        Assert.Equal(["DPR.ASOF VERSION 40", "DPR.ASOF VERSION 38", "DPR.ASOF VERSION 38 GET foo"], shards.Asked(1));
    }

    [Fact]
    public async Task Instant_IsNamedAsTheProxyHasIt()
    {
        await using var proxy = new AskedProxy(asked => Instant(7));
        await using SloggerClient client = await SloggerClient.ConnectAsync(proxy.Endpoint);
        await using SloggerSession session = client.OpenSession();
        await (await session.AsOfAsync(TimeSpan.Zero)).DisposeAsync();
        await (await session.AsOfAsync(TimeSpan.FromMinutes(2))).DisposeAsync();
        await (await session.AsOfAsync(new VersionNumber(9))).DisposeAsync();
        await (await session.AsOfAsync(new DateTimeOffset(1970, 1, 1, 2, 0, 1, TimeSpan.FromHours(2)))).DisposeAsync();
        Assert.Equal(["DPR.ASOF AGO 0", "DPR.ASOF AGO 120000", "DPR.ASOF VERSION 9", "DPR.ASOF TIME 1000"], proxy.Asked);
        await Assert.ThrowsAsync<ArgumentOutOfRangeException>(() => session.AsOfAsync(TimeSpan.FromSeconds(-1)));
        await Assert.ThrowsAsync<ArgumentOutOfRangeException>(() => session.AsOfAsync(new VersionNumber(-1)));
        await Assert.ThrowsAsync<ArgumentOutOfRangeException>(() => session.AsOfAsync(DateTimeOffset.UnixEpoch.AddDays(-1)));
    }

    [Theory]
    [InlineData(typeof(PastNotKeptException), "SLOGGER NOTKEPT version 7 is not kept: why")]
    [InlineData(typeof(PastNotClosedException), "SLOGGER NOTCLOSED version 7 is not committed: why")]
    [InlineData(typeof(PastReadOnlyException), "READONLY SLOGGER 'SET' may change data")]
    [InlineData(typeof(PastException), "ERR SLOGGER whatever it is")]
    [InlineData(typeof(PastException), "WRONGTYPE Operation against a key")]
    public async Task Refusal_IsAnExceptionOfItsOwn(Type type, string error)
    {
        bool refuses = true;
        await using var proxy = new AskedProxy(asked => refuses ? $"-{error}\r\n" : asked.Length == 3 ? Instant(7) : Value);
        await using SloggerClient client = await SloggerClient.ConnectAsync(proxy.Endpoint);
        await using SloggerSession session = client.OpenSession();
        Exception found = await Assert.ThrowsAnyAsync<PastException>(() => session.AsOfAsync(new VersionNumber(7)));
        Assert.Equal((type, error), (found.GetType(), found.Message));
        refuses = false;
        await using PastView view = await session.AsOfAsync(new VersionNumber(7));
        refuses = true;
        Exception read = await Assert.ThrowsAnyAsync<PastException>(async () => await view.GetAsync("k"));
        Assert.Equal((type, error), (read.GetType(), read.Message));
        // The view goes on.
        refuses = false;
        Assert.Equal("v", await view.GetAsync("k"));
    }

    // Who had a slot then says nothing of who has it now: the session goes on where it was.
    [Fact]
    public async Task Redirection_IsFollowed_AndKeptByTheViewAlone()
    {
        TwoShards? both = null;
        await using var shards = both = new TwoShards(
            asked => asked.Length == 3 ? Instant(7) : $"-MOVED 866 127.0.0.1:{both!.Port(1)}\r\n",
            asked => asked.Length == 3 ? Instant(7) : Value);
        await using SloggerClient client = await shards.ConnectAsync();
        await using SloggerSession session = client.OpenSession();
        await using PastView view = await session.AsOfAsync(new VersionNumber(7));
        Assert.Equal("v", await view.GetAsync(AtFirst));
        Assert.Equal("v", await view.GetAsync(AtFirst));
        Assert.Single(shards.Asked(0), a => a.Contains("GET", StringComparison.Ordinal));
        Assert.Equal(2, shards.Asked(1).Count(a => a.Contains("GET", StringComparison.Ordinal)));
        Assert.Equal(0, (await session.SetAsync(AtFirst, "x")).Shard.Number);
    }

    [Fact]
    public async Task Redirections_WithoutEnd_EndWithTheError()
    {
        AskedProxy? self = null;
        await using var proxy = self = new AskedProxy(asked => asked.Length == 3 ? Instant(7) : $"-MOVED 866 127.0.0.1:{self!.Port}\r\n");
        await using SloggerClient client = await SloggerClient.ConnectAsync(new SloggerClientOptions
        {
            Endpoints = [proxy.Endpoint], RedirectionsMax = 3,
        });
        await using SloggerSession session = client.OpenSession();
        await using PastView view = await session.AsOfAsync(new VersionNumber(7));
        PastException e = await Assert.ThrowsAsync<PastException>(async () => await view.GetAsync(AtFirst));
        Assert.StartsWith("MOVED 866", e.Message);
        Assert.Equal(4, proxy.Asked.Count(a => a.Contains("GET", StringComparison.Ordinal)));
    }

    [Fact]
    public async Task Connection_BrokenBeforeTheAnswer_TheReadIsRepeated()
    {
        int reads = 0;
        await using var proxy = new AskedProxy(asked => asked.Length == 3 ? Instant(7) : reads++ < 2 ? null : Value);
        await using SloggerClient client = await SloggerClient.ConnectAsync(proxy.Endpoint);
        await using SloggerSession session = client.OpenSession();
        await using PastView view = await session.AsOfAsync(new VersionNumber(7));
        Assert.Equal("v", await view.GetAsync("k"));
        Assert.Equal(3, reads);
    }

    [Fact]
    public async Task Shard_ThatNeverAnswers_IsUnreachable()
    {
        await using var proxy = new AskedProxy(asked => asked.Length == 3 ? Instant(7) : null);
        await using SloggerClient client = await SloggerClient.ConnectAsync(new SloggerClientOptions
        {
            Endpoints = [proxy.Endpoint], GiveUpAfter = TimeSpan.Zero,
        });
        await using SloggerSession session = client.OpenSession();
        await using PastView view = await session.AsOfAsync(new VersionNumber(7));
        ShardUnreachableException e = await Assert.ThrowsAsync<ShardUnreachableException>(async () => await view.GetAsync("k"));
        Assert.Contains(proxy.Endpoint, e.Message);
    }

    // World-line 1 was left at version 5.
    [Fact]
    public async Task Version_ThatARecoveryTookBack_IsVoid()
    {
        await using var proxy = new AskedProxy(_ => Instant(6)) { WorldLine = 2 };
        proxy.Refuse = header => header[2] == "1" ? $"ROLLBACK session={header[1]} abandoned=1 worldline=2 branch=5" : null;
        await using SloggerClient client = await SloggerClient.ConnectAsync(proxy.Endpoint);
        await using SloggerSession session = client.OpenSession();
        PastVoidException e = await Assert.ThrowsAsync<PastVoidException>(() => session.AsOfAsync(new VersionNumber(6), WorldLine.First));
        Assert.Equal((2, 5), (e.WorldLine.Number, e.Survived.Number));
        await (await session.AsOfAsync(new VersionNumber(5), WorldLine.First)).DisposeAsync();
        await (await session.AsOfAsync(new VersionNumber(6), new WorldLine(2))).DisposeAsync();
        await (await session.AsOfAsync(new VersionNumber(6))).DisposeAsync();
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task View_ThatIsClosed_OrWhoseClientIs_FailsWhatIsAsked(bool closesView)
    {
        using var isAsked = new SemaphoreSlim(0);
        using var mayAnswer = new SemaphoreSlim(0);
        await using var proxy = new AskedProxy(asked =>
        {
            if (asked.Length == 3) { return Instant(7); }
            isAsked.Release();
            mayAnswer.Wait();
            return Value;
        });
        await using SloggerClient client = await SloggerClient.ConnectAsync(proxy.Endpoint);
        await using SloggerSession session = client.OpenSession();
        PastView view = await session.AsOfAsync(new VersionNumber(7));
        Task<string?> read = view.GetAsync("k").AsTask();
        await isAsked.WaitAsync();
        if (closesView) { await view.DisposeAsync(); }
        else { await client.DisposeAsync(); }
        await Assert.ThrowsAsync<ObjectDisposedException>(() => read);
        mayAnswer.Release();
        await Assert.ThrowsAsync<ObjectDisposedException>(async () => await view.GetAsync("k"));
    }

    [Fact]
    public async Task Wait_ThatIsCancelled_Ends_AndTheViewGoesOn()
    {
        using var mayAnswer = new SemaphoreSlim(0);
        using var isAsked = new SemaphoreSlim(0);
        await using var proxy = new AskedProxy(asked =>
        {
            if (asked.Length == 3) { return Instant(7); }
            isAsked.Release();
            mayAnswer.Wait();
            return $"${asked[4].Length}\r\n{asked[4]}\r\n";
        });
        await using SloggerClient client = await SloggerClient.ConnectAsync(proxy.Endpoint);
        await using SloggerSession session = client.OpenSession();
        await using PastView view = await session.AsOfAsync(new VersionNumber(7));
        using var stop = new CancellationTokenSource();
        Task<string?> first = view.GetAsync("first", stop.Token).AsTask();
        await isAsked.WaitAsync();
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => first);
        mayAnswer.Release(2);
        // Not the answer to the question before.
        Assert.Equal("second", await view.GetAsync("second"));
    }

    [Fact]
    public async Task SessionThatIsClosed_HasNoView()
    {
        await using var proxy = new AskedProxy(_ => Instant(7));
        await using SloggerClient client = await SloggerClient.ConnectAsync(proxy.Endpoint);
        SloggerSession session = client.OpenSession();
        await session.DisposeAsync();
        await Assert.ThrowsAsync<ObjectDisposedException>(() => session.AsOfAsync(TimeSpan.Zero));
    }

    private static string Instant(long version) =>
        string.Create(CultureInfo.InvariantCulture, $"*3\r\n:3\r\n:{version}\r\n:{(version * 1_000_000) + 1234}\r\n");

    private static long Number(string text) => long.Parse(text, CultureInfo.InvariantCulture);

    /// <summary>A proxy that is asked about the past, and says OK to all else.</summary>
    private sealed class AskedProxy : IAsyncDisposable
    {
        private readonly ScriptedProxy _proxy;
        private readonly ConcurrentQueue<string> _asked = new();

        public AskedProxy(Func<string[], string?> answer, int shard = 0) => _proxy = new(shard, request =>
        {
            if (request[0] != "DPR.ASOF") { return "+OK\r\n"; }
            _asked.Enqueue(string.Join(' ', request));
            return answer(request);
        });

        public string Endpoint => _proxy.Endpoint;

        public int Port => _proxy.Port;

        public IReadOnlyCollection<string> Asked => _asked;

        public string? Slots { set => _proxy.Slots = value; }

        public long WorldLine { set => _proxy.WorldLine = value; }

        public Func<string[], string?> Refuse { set => _proxy.Refuse = value; }

        public ValueTask DisposeAsync() => _proxy.DisposeAsync();
    }

    private sealed class TwoShards : IAsyncDisposable
    {
        private readonly AskedProxy[] _shards;

        public TwoShards(Func<string[], string?> first, Func<string[], string?> second)
        {
            _shards = [new(first, 0), new(second, 1)];
            foreach (AskedProxy shard in _shards)
            {
                shard.Slots = $"*2\r\n{Row(0, 8191, _shards[0])}{Row(8192, 16383, _shards[1])}";
            }
        }

        public int Port(int shard) => _shards[shard].Port;

        public IReadOnlyCollection<string> Asked(int shard) => _shards[shard].Asked;

        public Task<SloggerClient> ConnectAsync() => SloggerClient.ConnectAsync([.. _shards.Select(s => s.Endpoint)]);

        public async ValueTask DisposeAsync()
        {
            foreach (AskedProxy shard in _shards) { await shard.DisposeAsync(); }
        }

        private static string Row(int first, int last, AskedProxy owner) =>
            string.Create(CultureInfo.InvariantCulture, $"*3\r\n:{first}\r\n:{last}\r\n*3\r\n$9\r\n127.0.0.1\r\n:{owner.Port}\r\n$1\r\nx\r\n");
    }
}
