// A real redis-server on a socket in a directory of its own.
using System.Diagnostics;
using System.Net.Sockets;
using System.Text;
using Slogger.Resp;

namespace Slogger.Faster.Tests.Commands.Differential;

internal sealed unsafe class RedisServer : IDisposable
{
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-redis-").FullName;
    private readonly Process _process;
    private readonly Socket _socket;
    private byte[] _buffer = new byte[1 << 16];

    public RedisServer()
    {
        string path = Path.Combine(_directory, "redis.sock");
        // A key that has expired goes when it is asked for, not at some time: as many times as it is tried it is the same.
        _process = Process.Start(
            new ProcessStartInfo("redis-server",
                ["--port", "0", "--unixsocket", path, "--save", "", "--databases", "1", "--enable-debug-command", "yes", "--dir",
                    _directory]) { RedirectStandardOutput = true })!;
        _process.BeginOutputReadLine();
        _socket = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        for (int tries = 0; ; tries++)
        {
            try
            {
                _socket.Connect(new UnixDomainSocketEndPoint(path));
                break;
            }
            catch (SocketException) when (tries < 1000 && !_process.HasExited)
            {
                Thread.Sleep(10);
            }
        }

        Send(["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    }

    /// <summary>One more connection.</summary>
    public Socket Connect()
    {
        var socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified) { ReceiveTimeout = 20_000 };
        socket.Connect(new UnixDomainSocketEndPoint(Path.Combine(_directory, "redis.sock")));
        return socket;
    }

    public string Send(params string[] arguments) =>
        Encoding.Latin1.GetString(Exchange(Encoding.Latin1.GetBytes(TestClient.Request(arguments)), 1));

    /// <summary>Sends requests and returns as many replies.</summary>
    public byte[] Exchange(byte[] requests, int replies)
    {
        Task sending = Task.Run(() =>
        {
            for (int sent = 0; sent < requests.Length;) sent += _socket.Send(requests, sent, requests.Length - sent, SocketFlags.None);
        });
        int length = 0, scanned = 0;
        ReplyState state = default;
        while (replies > 0)
        {
            if (length == _buffer.Length) Array.Resize(ref _buffer, length * 2);
            int received = _socket.Receive(_buffer, length, _buffer.Length - length, SocketFlags.None);
            if (received == 0) throw new InvalidOperationException(
                $"Redis has closed the connection: {Encoding.Latin1.GetString(_buffer, 0, length)}");
            length += received;
            fixed (byte* at = _buffer) scanned = (int)(ReplyScanner.Consume(at + scanned, at + length, ref state, ref replies) - at);
        }

        sending.Wait();
        return _buffer.AsSpan(0, length).ToArray();
    }

    public void Dispose()
    {
        _socket.Dispose();
        _process.Kill();
        _process.WaitForExit();
        _process.Dispose();
        Directory.Delete(_directory, recursive: true);
    }
}
