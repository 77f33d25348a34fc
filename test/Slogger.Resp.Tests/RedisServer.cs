// A redis-server of these tests' own, on a loopback port of its own, stopped by its process handle.
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using Slogger.TestSupport;

namespace Slogger.Resp.Tests;

public class RedisServer : IDisposable
{
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-resp-").FullName;
    private readonly Process _process;

    public RedisServer()
        : this([])
    {
    }

    protected RedisServer(params string[] options)
    {
        string[] places = ["/usr/bin/redis-server", "/usr/local/bin/redis-server"];
        string program = places.FirstOrDefault(File.Exists)
            ?? throw new InvalidOperationException("redis-server is not installed: apt-get install redis-server");
        Port = TestPorts.Next();
        var start = new ProcessStartInfo(
            program, ["--port", $"{Port}", "--bind", "127.0.0.1", "--dir", _directory, "--save", "", "--logfile", "log", .. options]);
        _process = Process.Start(start)!;
        for (int i = 0; i < 500; i++)
        {
            try
            {
                using Socket probe = Connect();
                return;
            }
            catch (SocketException)
            {
                Thread.Sleep(20);
            }
        }
        throw new InvalidOperationException("redis-server does not listen: " + File.ReadAllText(Path.Combine(_directory, "log")));
    }

    public int Port { get; }

    public Socket Connect()
    {
        var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true,
            ReceiveTimeout = 20_000 };
        socket.Connect(IPAddress.Loopback, Port);
        return socket;
    }

    /// <summary>Sends everything, ends the stream, and returns all that comes back until Redis ends it too.</summary>
    public byte[] Exchange(ReadOnlySpan<byte> bytes)
    {
        using Socket socket = Connect();
        var answer = new List<byte>();
        byte[] buffer = new byte[16 << 10];
        try
        {
            while (!bytes.IsEmpty) { bytes = bytes[socket.Send(bytes)..]; }
            socket.Shutdown(SocketShutdown.Send);
            int got;
            while ((got = socket.Receive(buffer)) > 0) { answer.AddRange(buffer.AsSpan(0, got)); }
        }
        catch (SocketException e) when (e.SocketErrorCode != SocketError.TimedOut)
        {
            // Closed by Redis before all was read: what had come counts.
        }
        return [.. answer];
    }

    public void Dispose()
    {
        GC.SuppressFinalize(this);
        _process.Kill();
        _process.WaitForExit();
        _process.Dispose();
        Directory.Delete(_directory, recursive: true);
    }
}
