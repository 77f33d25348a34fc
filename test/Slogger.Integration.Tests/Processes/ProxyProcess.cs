// The product as a person would run it: `slogger serve ...` as a process of its own.
using System.Globalization;
using System.Net;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Processes;

internal sealed partial class ProxyProcess : IDisposable
{
    /// <summary>Overrides where the executable is, for a run against another build.</summary>
    public const string ExecutableVariable = "SLOGGER_TEST_DLL";
    private const string ReadyText = "listening on";
    // It waits for its metadata, which may have to wait for the disk.
    private static readonly TimeSpan ReadyLimit = TimeSpan.FromMinutes(5);

    private readonly ChildProcess _child;

    private ProxyProcess(ChildProcess child, int port)
    {
        _child = child;
        Port = port;
    }

    public int Port { get; }

    public EndPoint Endpoint => new IPEndPoint(IPAddress.Loopback, Port);

    public int Id => _child.Id;

    public bool HasExited => _child.HasExited;

    /// <summary>Starts the proxy and waits until it says that it serves.</summary>
    /// <exception cref="InvalidOperationException">It ended or said nothing; the message has its output.</exception>
    /// <param name="port">Where it listens.</param>
    /// <param name="options">The others of serve.</param>
    /// <param name="environment">Further variables.</param>
    /// <param name="program">Another program in place of the executable, with its first arguments.</param>
    /// <param name="command">Another command than serve.</param>
    public static async Task<ProxyProcess> StartAsync(int port, IEnumerable<string> options,
        IReadOnlyDictionary<string, string>? environment = null, IReadOnlyList<string>? program = null, string command = "serve")
    {
        var proxy = Launch(port, options, environment, program, command);
        try
        {
            return await proxy.ReadyAsync();
        }
        catch (InvalidOperationException)
        {
            proxy.Dispose();
            throw;
        }
    }

    /// <summary>Waits until it says that it serves.</summary>
    /// <exception cref="InvalidOperationException">It ended or said nothing; the message has its output.</exception>
    public async Task<ProxyProcess> ReadyAsync()
    {
        await _child.WaitForLineAsync(l => l.Contains(ReadyText, StringComparison.OrdinalIgnoreCase), ReadyLimit);
        return this;
    }

    /// <summary>Starts the proxy without waiting: for starts that must fail.</summary>
    public static ProxyProcess Launch(int port, IEnumerable<string> options, IReadOnlyDictionary<string, string>? environment = null,
        IReadOnlyList<string>? program = null, string command = "serve") =>
        new(ChildProcess.Start("slogger " + command, "dotnet",
            [.. program ?? [Executable], command, "--listen", string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{port}"),
                .. options], environment), port);

    public Task<RespClient> ConnectAsync() => RespClient.ConnectAsync(Endpoint);

    public void KillHard() => _child.KillHard();

    /// <summary>SIGTERM, then waits for the exit code.</summary>
    public async Task<int> TerminateAsync()
    {
        _child.Terminate();
        return await ExitAsync(TimeSpan.FromSeconds(60)) ?? throw new TimeoutException("no end within 60 s of SIGTERM\n" + Tail());
    }

    /// <summary>The exit code, or null if it still runs after the limit. If it failed, what it said of that has been read.</summary>
    public async Task<int?> ExitAsync(TimeSpan limit)
    {
        if (!await _child.WaitForExitAsync(limit)) { return null; }
        if (_child.ExitCode != 0) { await _child.LastWordsAsync(); }
        return _child.ExitCode;
    }

    public string Tail() => _child.Tail();

    public void Dispose() => _child.Dispose();

    public static string Executable
    {
        get
        {
            if (Environment.GetEnvironmentVariable(ExecutableVariable) is { Length: > 0 } given)
            {
                return given;
            }

            var folder = new DirectoryInfo(AppContext.BaseDirectory);
            string built = Path.Combine(folder.Parent!.Name, folder.Name, "slogger.dll"); // As in Release/net10.0.
            for (; folder is not null; folder = folder.Parent)
            {
                string path = Path.Combine(folder.FullName, "src", "Slogger.Cli", "bin", built);
                if (File.Exists(path))
                {
                    return path;
                }
            }

            throw new InvalidOperationException($"src/Slogger.Cli/bin/{built} is not built");
        }
    }
}
