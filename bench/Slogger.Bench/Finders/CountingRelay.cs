// Stands between clients and a PostgreSQL and counts: statements executed (Execute and Query messages of the frontend protocol, version 3)
// and bytes, in both directions.
using System.Buffers.Binary;
using System.Net;
using System.Net.Sockets;

namespace Slogger.Bench.Finders;

internal sealed class CountingRelay : IDisposable
{
    private readonly TcpListener _listener = new(IPAddress.Loopback, 0);
    private readonly int _target;
    private long _statements;
    private long _bytes;

    public CountingRelay(int target)
    {
        _target = target;
        _listener.Start(1024);
        _ = AcceptAsync();
    }

    public int Port => ((IPEndPoint)_listener.LocalEndpoint).Port;

    public long Statements => Volatile.Read(ref _statements);

    public long Bytes => Volatile.Read(ref _bytes);

    private async Task AcceptAsync()
    {
        try
        {
            while (true)
            {
                Socket client = await _listener.AcceptSocketAsync();
                _ = RelayAsync(client);
            }
        }
        catch (Exception e) when (e is SocketException or ObjectDisposedException)
        {
            // The end.
        }
    }

    private async Task RelayAsync(Socket client)
    {
        using Socket server = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        client.NoDelay = true;
        try
        {
            await server.ConnectAsync(IPAddress.Loopback, _target);
            await Task.WhenAny(PumpAsync(client, server, new MessageCounter(this)), PumpAsync(server, client, null));
        }
        catch (SocketException)
        {
            // Either end has gone.
        }

        client.Dispose();
    }

    private async Task PumpAsync(Socket from, Socket to, MessageCounter? counter)
    {
        byte[] buffer = new byte[16 << 10];
        try
        {
            while (await from.ReceiveAsync(buffer) is > 0 and var count)
            {
                Interlocked.Add(ref _bytes, count);
                counter?.Count(buffer.AsSpan(0, count));
                for (int sent = 0; sent < count;) sent += await to.SendAsync(buffer.AsMemory(sent, count - sent));
            }
        }
        catch (Exception e) when (e is SocketException or ObjectDisposedException)
        {
            // Either end has gone.
        }
    }

    public void Dispose() => _listener.Dispose();

    /// <summary>Finds the messages in what a client sends: a type and a length each, but the first, which has no type.</summary>
    private sealed class MessageCounter(CountingRelay relay)
    {
        private readonly byte[] _head = new byte[5];
        private int _headLength;
        private int _bodyLeft;
        private bool _isStarted;

        public void Count(ReadOnlySpan<byte> bytes)
        {
            while (bytes.Length > 0)
            {
                if (_bodyLeft > 0)
                {
                    int skipped = Math.Min(_bodyLeft, bytes.Length);
                    _bodyLeft -= skipped;
                    bytes = bytes[skipped..];
                    continue;
                }

                int headBytes = _isStarted ? 5 : 4;
                _head[_headLength++] = bytes[0];
                bytes = bytes[1..];
                if (_headLength < headBytes) continue;
                int length = BinaryPrimitives.ReadInt32BigEndian(_head.AsSpan(headBytes - 4));
                _bodyLeft = length - 4;
                if (_isStarted && _head[0] is (byte)'E' or (byte)'Q') Interlocked.Increment(ref relay._statements);
                // A request for TLS is answered with one byte, and followed by the real start.
                _isStarted |= length > 8;
                _headLength = 0;
            }
        }
    }
}
