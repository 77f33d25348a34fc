// Private ports and directories of one test. Everything is under one temporary directory, removed at the end.
using System.Net;
using System.Net.Sockets;

namespace Slogger.Integration.Tests.Processes;

internal sealed class Workspace : IDisposable
{
    private const int FirstPort = 25000;
    private const int PortCount = 1000;
    private static int s_next = Environment.ProcessId % PortCount;

    public Workspace() => Root = Directory.CreateTempSubdirectory("slogger-it-").FullName;

    public string Root { get; }

    /// <summary>A directory below the root, made if need be.</summary>
    public string Folder(string name) => Directory.CreateDirectory(Path.Combine(Root, name)).FullName;

    public string File(string name) => Path.Combine(Root, name);

    /// <summary>A loopback port in 25000..25999 that nobody listens on now.</summary>
    public static int FreePort()
    {
        for (int i = 0; i < PortCount; i++)
        {
            int port = FirstPort + ((int)((uint)Interlocked.Increment(ref s_next)) % PortCount);
            using var probe = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
            try
            {
                probe.Bind(new IPEndPoint(IPAddress.Loopback, port));
                return port;
            }
            catch (SocketException)
            {
                // Taken: the next one.
            }
        }

        throw new InvalidOperationException($"no free port in {FirstPort}..{FirstPort + PortCount - 1}");
    }

    public void Dispose()
    {
        if (Environment.GetEnvironmentVariable("SLOGGER_TEST_KEEP") is { Length: > 0 })
        {
            Console.WriteLine("kept: " + Root);
            return;
        }

        try
        {
            Directory.Delete(Root, recursive: true);
        }
        catch (IOException)
        {
            // A server may still be writing; the system's temporary directory is cleaned by others.
        }
    }
}
