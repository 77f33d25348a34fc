// The way to a TLS client where commits may be told for a time only. TLS encrypts ahead of the socket, so what a slow client leaves there is looked
// at again right before each system call that sends: it may not be true any more, and then nothing of it leaves.
using System.Net.Sockets;

namespace Slogger.Proxy.Transports;

/// <summary>A connection on which bytes leave only while they may.</summary>
internal sealed class GuardedStream : NetworkStream
{
    private const int RetryMilliseconds = 1, RetryMillisecondsMax = 32;
    private readonly Func<long, bool> _mayPass;
    private long _givenOutUs = Harmless;

    /// <param name="socket">Connected; it becomes non-blocking, and is closed with the stream.</param>
    /// <param name="mayPass">See <see cref="TlsBridge.ServeAsync"/>.</param>
    public GuardedStream(Socket socket, Func<long, bool> mayPass)
        : base(socket, ownsSocket: true)
    {
        _mayPass = mayPass;
        // A NetworkStream wants it to be blocking when it begins.
        socket.Blocking = false;
    }

    /// <summary>For <see cref="GivenOutUs"/>: what is written tells nothing.</summary>
    public const long Harmless = long.MaxValue;

    /// <summary>When what is written from here on was given out at the earliest.</summary>
    public long GivenOutUs
    {
        get => Volatile.Read(ref _givenOutUs);
        set => Volatile.Write(ref _givenOutUs, value);
    }

    /// <exception cref="IOException">The connection broke, or the bytes may not be sent any more: some may have been.</exception>
    public override async ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
    {
        int wait = RetryMilliseconds;
        while (!buffer.IsEmpty)
        {
            cancellationToken.ThrowIfCancellationRequested();
            if (!_mayPass(GivenOutUs)) { throw new IOException("what it tells may not be true any more"); }
            int sent = Socket.Send(buffer.Span, SocketFlags.None, out SocketError error);
            if (error == SocketError.Success)
            {
                buffer = buffer[sent..];
                wait = RetryMilliseconds;
                continue;
            }
            if (error != SocketError.WouldBlock) { throw new IOException("the connection broke", new SocketException((int)error)); }
            // An asynchronous send would wait for room, and then send without asking.
            await Task.Delay(wait, cancellationToken).ConfigureAwait(false);
            wait = Math.Min(2 * wait, RetryMillisecondsMax);
        }
    }

    public override Task WriteAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken) =>
        WriteAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();
}
