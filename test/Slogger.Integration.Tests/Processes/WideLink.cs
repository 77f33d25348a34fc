// A wide-area link between two sites, on one machine: a relay that delivers what it is given so much later, in both directions, and that
// can be slow, cut (nobody is told), broken (connections end) or closed (nobody gets in). Each connection has its own delay on top: what
// two of them carry overtakes each other, as over different ways.
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Runtime.InteropServices;

namespace Slogger.Integration.Tests.Processes;

internal sealed partial class WideLink : IDisposable
{
    private const int PiecesMax = 4096, PieceBytes = 64 << 10;
    private const int Monotonic = 1, Absolute = 1, SetTimerSlack = 29;
    private const long NanosecondsInSecond = 1_000_000_000;

    private readonly Socket _listener = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
    private readonly EndPoint _server;
    private readonly Lock _lock = new();
    private readonly List<Pair> _pairs = [];
    private readonly ManualResetEventSlim _isOpen = new(true);
    private long _delay, _rate;
    private volatile bool _isClosed, _isOver;
    private long _bytes;

    /// <summary>Begins to listen.</summary>
    /// <param name="server">What is at the other end.</param>
    /// <param name="oneWay">How long a byte takes.</param>
    public WideLink(EndPoint server, TimeSpan oneWay)
    {
        (_server, OneWay) = (server, oneWay);
        _listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        _listener.Listen(512);
        InBackground(AcceptAll);
    }

    /// <summary>Where it is entered.</summary>
    public int Port => ((IPEndPoint)_listener.LocalEndPoint!).Port;

    /// <summary>How long a byte takes from end to end.</summary>
    public TimeSpan OneWay
    {
        get => TimeSpan.FromTicks(Volatile.Read(ref _delay));
        set => Volatile.Write(ref _delay, value.Ticks);
    }

    /// <summary>How many bytes arrive in a second, on each connection and in each direction; 0: as many as are sent.</summary>
    public long BytesPerSecond
    {
        get => Volatile.Read(ref _rate);
        set => Volatile.Write(ref _rate, value);
    }

    /// <summary>What a connection that is made takes longer than that, drawn for each.</summary>
    public Func<TimeSpan> Detour { get; set; } = () => TimeSpan.Zero;

    /// <summary>Bytes that came in, both ways.</summary>
    public long Bytes => Volatile.Read(ref _bytes);

    /// <summary>Nothing arrives any more until <see cref="Open"/>, and nobody is told.</summary>
    public void Cut() => _isOpen.Reset();

    /// <summary>Ends all connections; what was on its way is lost.</summary>
    public void Break()
    {
        Pair[] pairs;
        lock (_lock)
        {
            pairs = [.. _pairs];
            _pairs.Clear();
        }
        foreach (Pair pair in pairs) { pair.End(); }
    }

    /// <summary>Ends all connections, and lets nobody in until <see cref="Open"/>.</summary>
    public void Close()
    {
        _isClosed = true;
        Break();
    }

    /// <summary>As before.</summary>
    public void Open()
    {
        _isClosed = false;
        _isOpen.Set();
    }

    public void Dispose()
    {
        _isOver = true;
        _listener.Dispose();
        Break();
        _isOpen.Set();
    }

    private sealed record Pair(Socket Here, Socket There)
    {
        public void End()
        {
            Here.Dispose();
            There.Dispose();
        }
    }

    private void AcceptAll()
    {
        while (true)
        {
            Socket here = _listener.Accept();
            InBackground(() => Join(here, Detour()));
        }
    }

    private void Join(Socket here, TimeSpan detour)
    {
        // A connection is made by messages, too.
        SleepUntil(Stopwatch.GetTimestamp() + Nanoseconds(OneWay + detour));
        var there = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        var pair = new Pair(here, there);
        here.NoDelay = true;
        try
        {
            if (!_isClosed && !_isOver)
            {
                there.Connect(_server);
                lock (_lock) { _pairs.Add(pair); }
                // Closed just now: it is not among those that were ended.
                if (!_isClosed && !_isOver)
                {
                    Relay(pair, here, there, detour);
                    Relay(pair, there, here, detour);
                    return;
                }
            }
        }
        catch (SocketException)
        {
            // Nobody there.
        }
        pair.End();
    }

    private void Relay(Pair pair, Socket from, Socket to, TimeSpan detour)
    {
        var onTheWay = new Pipeline();
        InBackground(() =>
        {
            try
            {
                byte[] buffer = new byte[PieceBytes];
                while (from.Receive(buffer) is > 0 and int count)
                {
                    Interlocked.Add(ref _bytes, count);
                    onTheWay.Add(Stopwatch.GetTimestamp() + Nanoseconds(OneWay + detour), buffer[..count]);
                }
            }
            finally
            {
                onTheWay.Add(0, null);
            }
        });
        InBackground(() =>
        {
            try
            {
                _ = ProcessControl(SetTimerSlack, 1, 0, 0, 0);
                long free = 0;
                while (onTheWay.Take() is (var due, { } bytes))
                {
                    SleepUntil(due);
                    _isOpen.Wait();
                    if (BytesPerSecond is > 0 and var rate)
                    {
                        free = Math.Max(free, Stopwatch.GetTimestamp()) + (bytes.Length * NanosecondsInSecond / rate);
                        SleepUntil(free);
                    }
                    for (int sent = 0; sent < bytes.Length;) { sent += to.Send(bytes, sent, bytes.Length - sent, SocketFlags.None); }
                }
                to.Shutdown(SocketShutdown.Send);
            }
            catch (SocketException)
            {
                // The other side of it is to hear of that.
                pair.End();
            }
        });
    }

    // Who waits here does not spin, as a BlockingCollection's does: the machine's few cores are the sites'.
    private sealed class Pipeline
    {
        private readonly Queue<(long Due, byte[]? Bytes)> _pieces = [];

        public void Add(long due, byte[]? bytes)
        {
            lock (_pieces)
            {
                while (bytes is not null && _pieces.Count >= PiecesMax) { Monitor.Wait(_pieces); }
                _pieces.Enqueue((due, bytes));
                Monitor.PulseAll(_pieces);
            }
        }

        // Without bytes: there are no more.
        public (long Due, byte[]? Bytes) Take()
        {
            lock (_pieces)
            {
                while (_pieces.Count == 0) { Monitor.Wait(_pieces); }
                if (_pieces.Count >= PiecesMax) { Monitor.PulseAll(_pieces); }
                return _pieces.Dequeue();
            }
        }
    }

    private static long Nanoseconds(TimeSpan time) => (long)(time.TotalSeconds * Stopwatch.Frequency);

    // A sleep of the system's is late by a twentieth of a millisecond; a timer's by one.
    private static void SleepUntil(long due)
    {
        if (Stopwatch.Frequency != NanosecondsInSecond) { throw new PlatformNotSupportedException("the clock does not count nanoseconds"); }
        var at = new TimeSpec(due / NanosecondsInSecond, due % NanosecondsInSecond);
        while (Stopwatch.GetTimestamp() < due) { _ = ClockSleep(Monotonic, Absolute, in at, 0); }
    }

    private static void InBackground(Action action) => new Thread(() =>
    {
        try
        {
            action();
        }
        catch (Exception e) when (e is SocketException or ObjectDisposedException)
        {
            // Over.
        }
    }, 256 << 10)
    { IsBackground = true }.Start();

    [StructLayout(LayoutKind.Sequential)]
    private readonly record struct TimeSpec(long Seconds, long Nanoseconds);

    [LibraryImport("libc", EntryPoint = "clock_nanosleep")]
    private static partial int ClockSleep(int clock, int flags, in TimeSpec until, nint remaining);

    [LibraryImport("libc", EntryPoint = "prctl")]
    private static partial int ProcessControl(int option, nuint a, nuint b, nuint c, nuint d);
}
