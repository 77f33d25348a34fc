// The way to a TLS client where commits may be told for a time only. TLS encrypts ahead of the socket, so where a slow client leaves what
// tells a commit it is asked again right before each system call that sends: it may not be true any more, and then nothing of it leaves.
using System.Net.Sockets;

namespace Slogger.FrontEnd.Transports;

/// <summary>A connection on which bytes leave only while they may.</summary>
internal sealed class GuardedStream : NetworkStream
{
    private const int RetryMilliseconds = 1, RetryMillisecondsMax = 32;
    private readonly Func<bool> _mayTell;
    private volatile bool _tells;

    /// <param name="socket">Connected; it becomes non-blocking, and is closed with the stream.</param>
    /// <param name="mayTell">See <see cref="TlsBridge.ServeAsync"/>.</param>
    public GuardedStream(Socket socket, Func<bool> mayTell)
        : base(socket, ownsSocket: true)
    {
        _mayTell = mayTell;
        // A NetworkStream wants it to be blocking when it begins.
        socket.Blocking = false;
    }

    /// <summary>What the loop says of the bytes.</summary>
    public ToldCommits Told { get; } = new();

    /// <summary>Whether what is written from here on tells commits.</summary>
    public bool Tells
    {
        get => _tells;
        set => _tells = value;
    }

    /// <exception cref="IOException">The connection broke, or the bytes may not be sent any more: some may have been.</exception>
    public override async ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
    {
        int wait = RetryMilliseconds;
        while (!buffer.IsEmpty)
        {
            cancellationToken.ThrowIfCancellationRequested();
            if (_tells && !_mayTell()) { throw new IOException("what it tells may not be true any more"); }
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
