// The end of a shard with an embedded store: its memory is the front end's as long as that may be using it.
using System.Text;
using Microsoft.Extensions.Logging;
using Slogger.Core.Shards;
using Slogger.Faster;
using Slogger.FrontEnd.Transports;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Shards;
using Slogger.Proxy.Tests.Harness;
using Slogger.Resp;

namespace Slogger.Proxy.Tests.Shards;

public sealed class FasterShardEndTests : IDisposable
{
    private const int MemoryBytes = 64 << 20, PageBits = 22;
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-end-").FullName;
    private readonly Watched _log = new();
    private readonly TaskCompletionSource<int> _port = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private HeldShard _shard = null!;

    public void Dispose() => Directory.Delete(_directory, recursive: true);

    /// <summary>A shard whose front end the test holds up, and which it ends.</summary>
    private sealed class HeldShard(ServeOptions options, ILogger log) : FasterShard(options, log)
    {
        private readonly TaskCompletionSource _closed = new(TaskCreationOptions.RunContinuationsAsynchronously);

        public FasterStore Store => Faster!;

        /// <summary>Completes when it has done all that it does with what it keeps.</summary>
        public Task Closed => _closed.Task;

        public void OnLoop(Action action) => Access.Post(action);

        // As when another process has taken the shard: nothing more is committed, and nobody waits for that.
        public void EndNow() => Fail(ProxyExit.Failed("the test ends it", ""));

        public void BreakInvariant() => Lifetime.Fatal("an invariant is broken");

        internal override void CloseKept()
        {
            base.CloseKept();
            _closed.SetResult();
        }
    }

    private sealed class Watched() : LineLogger(LogLevel.Trace)
    {
        /// <summary>Whether the store was said to be left as it is.</summary>
        public bool IsLeft { get; private set; }

        protected override void Write(LogLevel level, string message)
        {
            if (message.EndsWith("the front end does not end: the store is left as it is", StringComparison.Ordinal)) { IsLeft = true; }
        }
    }

    [Fact]
    public async Task FrontEndIsInTheMiddleOfACommand_StoreStaysUntilItHasEnded()
    {
        Task<ProxyExit> run = Run();
        using (RespConnection client = RespConnection.To(await _port.Task.WaitAsync(Generous)))
        {
            Assert.Equal("+OK\r\n", client.Call("SET", "k", "value"));
        }
        using var goOn = new ManualResetEventSlim();
        var read = new TaskCompletionSource<string>(TaskCreationOptions.RunContinuationsAsynchronously);
        _shard.OnLoop(() =>
        {
            try
            {
                using var poller = new SocketPoller();
                Channel channel = _shard.Connector.Connect(poller, mayMark: false);
                goOn.Wait();
                read.SetResult(Get(channel));
            }
            catch (Exception e)
            {
                read.SetException(e);
            }
        });
        _shard.EndNow();
        await _shard.Closed.WaitAsync(Generous);
        goOn.Set();
        Assert.Equal("$5\r\nvalue\r\n", await read.Task.WaitAsync(Generous));
        Assert.Equal("the test ends it", (await run.WaitAsync(Generous)).Problem);
        Assert.True(_log.IsLeft);
        _shard.Store.Dispose();
    }

    [Fact]
    public async Task FrontEndHasNothingToDo_StoreIsFreed()
    {
        Task<ProxyExit> run = Run(Generous);
        await _port.Task.WaitAsync(Generous);
        _shard.EndNow();
        await run.WaitAsync(Generous);
        Assert.False(_log.IsLeft);
        // Somebody else can open it.
        FasterStore.OpenAt(new() { Directory = Path.Combine(_directory, DataDirectory.FasterDirectory), MemoryBytes = MemoryBytes,
            PageBits = PageBits }).Dispose();
    }

    // What is rehearsed in a process is not to end that.
    [Fact]
    public async Task InvariantIsBroken_InARehearsal_ItEnds_AndTheProcessGoesOn()
    {
        Task<ProxyExit> run = Run(Generous, isRehearsal: true);
        await _port.Task.WaitAsync(Generous);
        _shard.BreakInvariant();
        Assert.Equal("an invariant is broken", (await run.WaitAsync(Generous)).Problem);
    }

    private Task<ProxyExit> Run(TimeSpan? frontEndLimit = null, bool isRehearsal = false)
    {
        ServeOptions options = new()
        {
            Listen = [ListenAddress.Tcp("127.0.0.1", 0)],
            DataDirectory = _directory,
            Metadata = MetadataSpec.SqliteFile(Path.Combine(_directory, "m")),
            Commit = CommitMode.Faster,
            FasterMemoryBytes = MemoryBytes,
            FasterPageBytes = 1 << PageBits,
            IsRehearsal = isRehearsal,
        };
        return Task.Run(() => ProxyHost.RunAsync(options, _log, (_, bound) => _port.SetResult(bound[0].Port), CancellationToken.None,
            o => _shard = new HeldShard(o, _log) { FrontEndLimit = frontEndLimit ?? TimeSpan.FromMilliseconds(100) }));
    }

    private static unsafe string Get(Channel channel)
    {
        ReadOnlySpan<byte> request = "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"u8;
        byte* reply = stackalloc byte[64];
        fixed (byte* start = request) { Assert.Equal(request.Length, channel.Send(start, request.Length)); }
        return Encoding.ASCII.GetString(reply, channel.Receive(reply, 64));
    }
}
