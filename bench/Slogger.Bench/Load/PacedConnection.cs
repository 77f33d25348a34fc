// One connection of the paced load: a non-blocking socket, the times at which its unanswered requests were due, and
// what could not be sent yet. All bounded; a full queue means that the server is overloaded, which ends the run.
using System.Net;
using System.Net.Sockets;
using System.Runtime.InteropServices;
using System.Text;
using Slogger.Bench.Host;

namespace Slogger.Bench.Load;

internal sealed unsafe class PacedConnection : IDisposable
{
    private const int QueueLimit = 1 << 15;
    private const int PendingLimitBytes = 1 << 20;
    private readonly Socket _socket;
    private readonly long[] _due = new long[QueueLimit];
    private readonly byte[] _pending = new byte[PendingLimitBytes];
    private readonly byte[] _received = new byte[1 << 18];
    private int _dueHead, _dueCount, _pendingStart, _pendingEnd, _receivedCount, _repliesOfHead;

    public PacedConnection(int port)
    {
        _socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        _socket.Connect(IPAddress.Loopback, port);
        _socket.Blocking = false;
        Handle = (int)_socket.Handle;
    }

    public int Handle { get; }

    /// <summary>Requests sent and not wholly answered.</summary>
    public int Outstanding => _dueCount;

    /// <summary>Set by a probe: when its SET was answered; 0 before.</summary>
    public long FirstReplyAt { get; set; }

    /// <summary>When a probe sends next.</summary>
    public long NextAt { get; set; }

    public bool HasPending => _pendingEnd > _pendingStart;

    /// <summary>Sends a request, or keeps for later what the socket does not take.</summary>
    /// <exception cref="BenchException">Too much is waiting: the rate is above what the server can do.</exception>
    public void Send(ReadOnlySpan<byte> request, long dueAt)
    {
        if (_dueCount == QueueLimit || request.Length > PendingLimitBytes - (_pendingEnd - _pendingStart))
        {
            throw new BenchException("the server cannot keep up with the rate: lower it");
        }

        _due[(_dueHead + _dueCount++) % QueueLimit] = dueAt;
        int sent = HasPending ? 0 : SendNow(request);
        if (sent < request.Length)
        {
            if (_pendingStart > 0)
            {
                _pending.AsSpan(_pendingStart, _pendingEnd - _pendingStart).CopyTo(_pending);
                (_pendingStart, _pendingEnd) = (0, _pendingEnd - _pendingStart);
            }

            request[sent..].CopyTo(_pending.AsSpan(_pendingEnd));
            _pendingEnd += request.Length - sent;
        }
    }

    /// <summary>Tries again to send what was kept.</summary>
    public void Flush()
    {
        if (HasPending)
        {
            _pendingStart += SendNow(_pending.AsSpan(_pendingStart, _pendingEnd - _pendingStart));
        }
    }

    /// <summary>Reads once; calls <paramref name="onReply"/> for each reply with the request's due time and whether it
    /// was the request's last reply.</summary>
    public void Receive(int repliesPerRequest, ReplyHandler onReply)
    {
        nint n;
        fixed (byte* p = &_received[_receivedCount])
        {
            n = Native.Receive(Handle, p, _received.Length - _receivedCount, 0);
        }

        if (n < 0 && Marshal.GetLastPInvokeError() == Native.Again)
        {
            return;
        }

        if (n <= 0)
        {
            throw new BenchException("the server closed a connection during the paced load");
        }

        _receivedCount += (int)n;
        int position = 0;
        while (position < _receivedCount)
        {
            ReadOnlySpan<byte> rest = _received.AsSpan(position, _receivedCount - position);
            int length = ReplyScanner.Length(rest, out bool isError);
            if (length < 0)
            {
                break;
            }

            if (_dueCount == 0)
            {
                throw new BenchException("a reply came that nobody has asked for");
            }

            bool last = ++_repliesOfHead == repliesPerRequest;
            long due = _due[_dueHead];
            if (last)
            {
                _repliesOfHead = 0;
                _dueHead = (_dueHead + 1) % QueueLimit;
                _dueCount--;
            }

            onReply(this, due, last, isError ? Encoding.UTF8.GetString(rest[..length]).Trim() : null);
            position += length;
        }

        _received.AsSpan(position, _receivedCount - position).CopyTo(_received);
        _receivedCount -= position;
        if (_receivedCount == _received.Length)
        {
            throw new BenchException("a reply is larger than the paced load's buffer");
        }
    }

    public void Dispose() => _socket.Dispose();

    private int SendNow(ReadOnlySpan<byte> bytes)
    {
        fixed (byte* p = bytes)
        {
            nint n = Native.Send(Handle, p, bytes.Length, 0x4000); // MSG_NOSIGNAL
            if (n >= 0)
            {
                return (int)n;
            }

            return Marshal.GetLastPInvokeError() == Native.Again ? 0
                : throw new BenchException("the server closed a connection during the paced load");
        }
    }
}

/// <param name="connection">Where the reply came.</param>
/// <param name="dueAt">When its request was due.</param>
/// <param name="last">The request has no more replies.</param>
/// <param name="error">The text of an error reply, or null.</param>
internal delegate void ReplyHandler(PacedConnection connection, long dueAt, bool last, string? error);
