// Clients that write, and go where a leader is when theirs has gone. They note when the first write of another leader was acknowledged.
using System.Diagnostics;
using System.Net.Sockets;
using System.Text;
using Slogger.Bench.Load;

namespace Slogger.Bench.Cohorts;

internal sealed class TakeoverLoad : IDisposable
{
    private const int Clients = 8, Batch = 25;

    // As long a client rests that was not served: else their connecting is most of the load.
    private const int RestMs = 5;
    private const string Acknowledged = "+OK\r\n";
    private static readonly TimeSpan s_answer = TimeSpan.FromSeconds(2);
    private readonly int[] _ports;
    private readonly double _everyMs;
    private readonly Thread[] _threads;
    private readonly byte[] _one, _request;
    private volatile bool _isStopping;
    private long _from = long.MaxValue, _last, _first = long.MaxValue, _count, _refused;
    private int _old;

    /// <param name="ports">Of the nodes.</param>
    /// <param name="perSecond">Writes of all clients together.</param>
    public TakeoverLoad(int[] ports, double perSecond)
    {
        (_ports, _everyMs) = (ports, 1000.0 * Clients * Batch / perSecond);
        string value = new('x', 64);
        string[] sets = [.. Enumerable.Range(0, Batch).Select(i => $"*3\r\n$3\r\nSET\r\n$6\r\nkey:{i:00}\r\n$64\r\n{value}\r\n")];
        (_one, _request) = (Encoding.ASCII.GetBytes(sets[0]), Encoding.ASCII.GetBytes(string.Concat(sets)));
        _threads = [.. Enumerable.Range(0, Clients).Select(c => new Thread(() => Write(c)) { IsBackground = true })];
        foreach (Thread thread in _threads) { thread.Start(); }
    }

    /// <summary>Writes acknowledged so far.</summary>
    public long Count => Interlocked.Read(ref _count);

    /// <summary>Error replies since <see cref="Away"/> was called last, but for what sends a client to another node.</summary>
    public long Refused => Interlocked.Read(ref _refused);

    /// <summary>From now on the next leader's first acknowledgement counts.</summary>
    /// <param name="port">Who leads now.</param>
    public void Away(int port)
    {
        Volatile.Write(ref _old, port);
        Interlocked.Exchange(ref _refused, 0);
        Interlocked.Exchange(ref _first, long.MaxValue);
        Interlocked.Exchange(ref _from, Stopwatch.GetTimestamp());
    }

    /// <summary>Milliseconds from then to that.</summary>
    /// <param name="limit">How long it may take.</param>
    /// <param name="isPause">From the last acknowledgement of the leader before.</param>
    public double WaitMs(TimeSpan limit, bool isPause)
    {
        long began = Stopwatch.GetTimestamp();
        while (Interlocked.Read(ref _first) == long.MaxValue)
        {
            if (Stopwatch.GetElapsedTime(began) > limit) { throw new BenchException("no other node has acknowledged a write"); }
            Thread.Sleep(1);
        }
        long from = isPause ? Interlocked.Read(ref _last) : Interlocked.Read(ref _from);
        return Stopwatch.GetElapsedTime(from, Interlocked.Read(ref _first)).TotalMilliseconds;
    }

    public void Dispose()
    {
        _isStopping = true;
        foreach (Thread thread in _threads) { thread.Join(); }
    }

    private void Write(int client)
    {
        byte[] buffer = new byte[Batch * 512];
        for (int turn = client; !_isStopping; turn++)
        {
            int port = _ports[turn % _ports.Length];
            try
            {
                using var socket = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
                socket.ReceiveTimeout = (int)s_answer.TotalMilliseconds;
                socket.Connect("127.0.0.1", port);
                bool isServed = WriteOnce(socket, _one, 1, buffer, port);
                while (isServed && !_isStopping) { isServed = WriteOnce(socket, _request, Batch, buffer, port); }
            }
            catch (SocketException)
            {
                // Another node, then.
            }
            Thread.Sleep(RestMs);
        }
    }

    // False: this is no leader.
    private bool WriteOnce(Socket socket, byte[] request, int count, byte[] buffer, int port)
    {
        long began = Stopwatch.GetTimestamp();
        socket.Send(request);
        int read = 0, replies = 0;
        while (replies < count)
        {
            int got = socket.Receive(buffer.AsSpan(read));
            if (got == 0) { return false; }
            replies += buffer.AsSpan(read, got).Count((byte)'\n');
            read += got;
        }
        ReadOnlySpan<byte> all = buffer.AsSpan(0, read);
        int good = all.Count(Encoding.ASCII.GetBytes(Acknowledged));
        if (good < count)
        {
            if (!all.StartsWith("-MOVED"u8) && !all.StartsWith("-CLUSTERDOWN"u8)) { Interlocked.Add(ref _refused, count - good); }
            return false;
        }
        Interlocked.Add(ref _count, count);
        if (port == Volatile.Read(ref _old)) { Volatile.Write(ref _last, Stopwatch.GetTimestamp()); }
        else { Interlocked.CompareExchange(ref _first, Stopwatch.GetTimestamp(), long.MaxValue); }
        double restMs = (_everyMs * count / Batch) - Stopwatch.GetElapsedTime(began).TotalMilliseconds;
        if (restMs > 0) { Thread.Sleep(TimeSpan.FromMilliseconds(restMs)); }
        return true;
    }
}
