// A PostgreSQL of the suite's own, in its directory, as the user postgres when the bench runs as root (it refuses to run as root).
using Slogger.Bench.Host;

namespace Slogger.Bench.Finders;

internal sealed class PrivatePostgres : IDisposable
{
    private const int SigInt = 2;
    private readonly string _data;
    private readonly ManagedProcess _server;

    public PrivatePostgres(string directory, int port)
    {
        string programs = Directory.Exists("/usr/lib/postgresql")
            ? Directory.GetDirectories("/usr/lib/postgresql").Select(d => Path.Combine(d, "bin"))
            .Where(d => File.Exists(Path.Combine(d, "initdb"))).Order().LastOrDefault() ?? ""
            : "";
        if (programs.Length == 0) throw new BenchException("PostgreSQL is not installed (/usr/lib/postgresql/*/bin/initdb)");
        Port = port;
        _data = Path.Combine(directory, "postgres");
        Directory.CreateDirectory(_data);
        if (Environment.IsPrivilegedProcess && !OperatingSystem.IsWindows())
        {
            File.SetUnixFileMode(directory, File.GetUnixFileMode(directory) | UnixFileMode.GroupExecute | UnixFileMode.OtherExecute);
            Run("chown", "postgres", _data);
        }

        Run(AsPostgres(Path.Combine(programs, "initdb"), "-D", _data, "-A", "trust", "-U", "postgres"));
        _server = ManagedProcess.Start("postgres", AsPostgres(Path.Combine(programs, "postgres"),
            "-D", _data, "-k", _data, "-p", port.ToString(), "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=600"), directory,
                null);
        DateTime end = DateTime.UtcNow.AddSeconds(60);
        while (ManagedProcess.Run([Path.Combine(programs, "pg_isready"), "-h", "127.0.0.1", "-p", port.ToString()], null,
            TimeSpan.FromSeconds(10)).ExitCode != 0)
        {
            if (DateTime.UtcNow > end || _server.HasExited) throw new BenchException("PostgreSQL does not start\n" + _server.LogTail());
            Thread.Sleep(100);
        }
    }

    public int Port { get; }

    /// <summary>Of the server; its children serve connections. 0: it does not run.</summary>
    public int ProcessId
    {
        get
        {
            string file = Path.Combine(_data, "postmaster.pid");
            return File.Exists(file) && int.TryParse(File.ReadLines(file).First(), out int pid) ? pid : 0;
        }
    }

    public void Dispose()
    {
        if (ProcessId is not 0 and var pid) _ = Native.Kill(pid, SigInt);
        _server.Stop(TimeSpan.FromSeconds(20));
    }

    private static string[] AsPostgres(params string[] command) =>
        Environment.IsPrivilegedProcess ? ["runuser", "-u", "postgres", "--", .. command] : command;

    private static void Run(params string[] command)
    {
        (string output, string errors, int exit) = ManagedProcess.Run(command, null, TimeSpan.FromMinutes(2));
        if (exit != 0) throw new BenchException($"{string.Join(' ', command)} failed\n{output}{errors}");
    }
}
