// A front end on a loop of the test's own, in front of a given Redis, over a shard of the test's own: the test says when versions end, when
// they are settled, and whether what was read may be told.
using System.Net;
using System.Net.Sockets;
using System.Text;
using Slogger.FrontEnd;
using Slogger.FrontEnd.Transports;
using Slogger.Resp;

namespace Slogger.Proxy.Tests.Harness;

/// <summary>A shard whose versions end when the test wants it. Its first version is 1.</summary>
internal sealed class HeldShard(bool holdsReplies) : IShardPort
{
    private readonly byte[] _marker = Encoding.ASCII.GetBytes("*3\r\n$8\r\nSPUBLISH\r\n$6\r\nmarker\r\n$1\r\nx\r\n");
    private long _open = 1, _closed, _settled;
    private int _ends, _passes;
    private volatile bool _isSilent, _rests;

    /// <summary>Versions end by themselves, one with each turn, and are settled when their marker is answered.</summary>
    public bool RunsByItself { get; init; }

    public bool HoldsReplies => holdsReplies;

    public bool HoldsReads { get; init; }

    public long SettledVersion => Volatile.Read(ref _settled);

    public bool MaySpeak => !_isSilent;

    /// <summary>Versions whose marker was answered.</summary>
    public long Closed => Volatile.Read(ref _closed);

    public void Settle(long version) => Volatile.Write(ref _settled, version);

    public void Speak(bool may) => _isSilent = !may;

    public void EndVersion() => Interlocked.Increment(ref _ends);

    /// <summary>Of a cohort's node.</summary>
    public ICohortPort? Cohort { get; init; }

    public bool IsFollowing { get; init; }

    public bool IsVersioned => true;

    public bool IsPunctual => false;

    public bool IsOpen => true;

    public long WorldLine => 1;

    public long OpenVersion => _open;

    public long CommittedVersion => 0;

    public string MarkerChannel => "marker";

    public CommandCounts OwnCommands { get; } = new();

    public bool KeepsClients => false;

    public long MicrosecondsToNextTick() => RunsByItself || Volatile.Read(ref _ends) > 0 ? 0 : 100_000_000;

    public long MicrosecondsToReplies() => 0;

    public MarkerToSend? Tick(bool busy, bool inFlight)
    {
        if (!RunsByItself) { Interlocked.Decrement(ref _ends); }
        return new(_marker, ++_open);
    }

    /// <summary>Versions may pass unseen.</summary>
    public void Rest(bool may) => _rests = may;

    public bool MayRest => _rests;

    /// <summary>How often versions have passed that were slept over.</summary>
    public int Passes => Volatile.Read(ref _passes);

    public MarkerToSend? Pass()
    {
        Interlocked.Exchange(ref _ends, 0);
        Interlocked.Increment(ref _passes);
        return null;
    }

    public void MarkerAnswered(bool counts)
    {
        Volatile.Write(ref _closed, _open - 1);
        if (RunsByItself) { Settle(_open - 1); }
    }

    public void MarkerLost()
    {
    }

    public string InfoText(FrontEndLoop loop) => "";

    public void StoreUnreachable(string reason)
    {
    }

    public void Warn(string message)
    {
    }
}

/// <summary>The loop, on a thread of its own.</summary>
internal sealed class HeldLoop : IDisposable
{
    private readonly Thread _thread;
    private readonly EndPoint _address;

    public HeldLoop(RedisServer redis, HeldShard shard, FrontEndLimits? limits = null)
    {
        Shard = shard;
        var listener = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen(1024);
        _address = listener.LocalEndPoint!;
        IPoller poller = OperatingSystem.IsLinux() ? new EpollPoller() : new SocketPoller();
        Loop = new FrontEndLoop(poller, new StoreConnector(ListenAddress.Tcp("127.0.0.1", redis.Port)), shard,
            limits ?? new FrontEndLimits());
        Loop.Post(() =>
        {
            Loop.Listen(listener);
            Loop.OpenStore();
        });
        _thread = new Thread(Loop.Run);
        _thread.Start();
    }

    public HeldShard Shard { get; }

    public FrontEndLoop Loop { get; }

    /// <summary>Of a client to which nothing has been said yet.</summary>
    public RespConnection ConnectOnly() => RespConnection.To(_address);

    public RespConnection Connect()
    {
        RespConnection client = ConnectOnly();
        Assert.Equal("+PONG\r\n", client.Call("PING"));
        return client;
    }

    /// <summary>What was in the store before is settled, and version 2 is open.</summary>
    public void Begin()
    {
        EndVersion();
        Settle(Shard.Closed);
    }

    /// <summary>Ends the open version.</summary>
    /// <returns>It.</returns>
    public long EndVersion()
    {
        long next = Shard.Closed + 1;
        Shard.EndVersion();
        Loop.Post(() => { });
        Until(() => Shard.Closed >= next);
        return next;
    }

    public void Settle(long version)
    {
        Shard.Settle(version);
        Loop.Post(Loop.OnSettled);
    }

    public void Speak(bool may)
    {
        Shard.Speak(may);
        Loop.Post(Loop.OnSettled);
    }

    /// <summary>So many bytes of replies have been read, and wait.</summary>
    public void AwaitHeld(long bytes) => Until(() => Of(static loop => loop.OutputBytes) == bytes);

    /// <summary>A value of the loop's.</summary>
    public T Of<T>(Func<FrontEndLoop, T> value)
    {
        var result = new TaskCompletionSource<T>();
        Loop.Post(() => result.SetResult(value(Loop)));
        return result.Task.WaitAsync(TimeSpan.FromMilliseconds(RespConnection.PatienceMilliseconds)).GetAwaiter().GetResult();
    }

    public static void Until(Func<bool> happened)
    {
        if (!SpinWait.SpinUntil(happened, RespConnection.PatienceMilliseconds)) { throw new TimeoutException(); }
    }

    public void Dispose()
    {
        Loop.Stop();
        _thread.Join();
        Loop.Dispose();
    }
}
