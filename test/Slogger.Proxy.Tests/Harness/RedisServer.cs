// A redis-server of a test's own: a loopback port of its own, its data in a temporary directory, stopped by its process.
using System.Diagnostics;
using System.Globalization;
using System.Net;
using Slogger.TestSupport;

namespace Slogger.Proxy.Tests.Harness;

internal sealed class RedisServer : IDisposable
{
    private readonly Process _process;

    /// <summary>Starts a server and waits until it takes connections.</summary>
    /// <param name="tls">Its only port takes TLS, with these files.</param>
    /// <param name="options">Further options of redis-server.</param>
    public RedisServer(Certificates? tls = null, params string[] options)
    {
        string[] places = ["/usr/bin/redis-server", "/usr/local/bin/redis-server"];
        string program = places.FirstOrDefault(File.Exists)
            ?? throw new InvalidOperationException("redis-server is not installed: apt-get install redis-server");
        Directory = System.IO.Directory.CreateTempSubdirectory("slogger-px-").FullName;
        Port = TestPorts.Next();
        string port = Port.ToString(CultureInfo.InvariantCulture);
        string[] where = tls is null
            ? ["--port", port]
            : ["--port", "0", "--tls-port", port, "--tls-cert-file", tls.ServerFile, "--tls-key-file", tls.ServerKeyFile,
            "--tls-ca-cert-file", tls.AuthorityFile];
        string[] common = ["--bind", "127.0.0.1", "--dir", Directory, "--save", "", "--logfile", "log", "--unixsocket", UnixPath,
            "--enable-debug-command", "yes"];
        _process = Process.Start(new ProcessStartInfo(program, [.. where, .. common, .. options]))!;
        // It listens at its port before it has made its Unix socket.
        string log = Path.Combine(Directory, "log");
        for (int i = 0; i < 3000 && !_process.HasExited; i++)
        {
            if (File.Exists(log) && File.ReadAllText(log).Contains("eady to accept connections", StringComparison.Ordinal)) { return; }
            Thread.Sleep(20);
        }
        throw new InvalidOperationException("redis-server does not listen: " + File.ReadAllText(log));
    }

    public string Directory { get; }

    public int Port { get; }

    public string UnixPath => Path.Combine(Directory, "s");

    public RespConnection Connect() => RespConnection.To(Port);

    public void Dispose()
    {
        _process.Kill();
        _process.WaitForExit();
        _process.Dispose();
        System.IO.Directory.Delete(Directory, recursive: true);
    }
}
