// A PostgreSQL server of the test's own, as the user postgres when the test runs as root (it refuses to run as root).
using System.Globalization;

namespace Slogger.Integration.Tests.Processes;

internal sealed class PostgresProcess : IDisposable
{
    private const int SigKill = 9;

    // After a kill it makes good what it had not written, and syncs all of its files first: under load minutes.
    private static readonly TimeSpan ReadyLimit = TimeSpan.FromMinutes(5);
    private readonly string _directory;
    private ChildProcess? _child;

    private PostgresProcess(string directory, int port)
    {
        _directory = directory;
        Port = port;
    }

    public int Port { get; }

    public string ConnectionString =>
        string.Create(CultureInfo.InvariantCulture, $"Host=127.0.0.1;Port={Port};Username=postgres;Database=postgres;Timeout=3");

    /// <summary>The folder with initdb and postgres, or null if it is not installed.</summary>
    public static string? Programs => Directory.Exists("/usr/lib/postgresql")
        ? Directory.GetDirectories("/usr/lib/postgresql").Select(d => Path.Combine(d, "bin"))
        .Where(d => File.Exists(Path.Combine(d, "initdb"))).Order().LastOrDefault()
        : null;

    public static async Task<PostgresProcess> StartAsync(Workspace workspace, string name = "postgres")
    {
        string directory = workspace.Folder(name);
        if (Environment.IsPrivilegedProcess && !OperatingSystem.IsWindows())
        {
            File.SetUnixFileMode(workspace.Root,
                File.GetUnixFileMode(workspace.Root) | UnixFileMode.GroupExecute | UnixFileMode.OtherExecute);
            await ChildProcess.RunAsync("chown", ["postgres", directory]);
        }

        var postgres = new PostgresProcess(directory, Workspace.FreePort());
        var (file, arguments) = AsPostgres("initdb", "-D", directory, "-A", "trust", "-U", "postgres", "--no-sync");
        var (exitCode, output) = await ChildProcess.RunAsync(file, arguments);
        if (exitCode != 0)
        {
            throw new InvalidOperationException("initdb failed\n" + output);
        }

        await postgres.RestartAsync();
        return postgres;
    }

    /// <summary>Kills the postmaster; its children end by themselves.</summary>
    public void KillHard()
    {
        if (PostmasterId is { } id)
        {
            ChildProcess.Signal(id, SigKill);
        }

        _child?.KillHard();
    }

    public async Task RestartAsync()
    {
        string said = "", answer = "";
        try
        {
            await Eventually.AsyncTrue("postgres accepts connections", ReadyLimit, AcceptsAsync);
        }
        catch (TimeoutException e)
        {
            throw new TimeoutException($"{e.Message}; pg_isready says: {answer.Trim()}\n{said}{Tail()}", e);
        }

        async Task<bool> AcceptsAsync()
        {
            // After a kill the children of the old postmaster may hold its memory for a moment: then a start fails.
            if (_child is null or { HasExited: true })
            {
                // Why it has ended is all that there may be to see.
                said = Tail();
                _child?.Dispose();
                var (file, arguments) = AsPostgres("postgres", "-D", _directory, "-k", _directory, "-p",
                    Port.ToString(CultureInfo.InvariantCulture), "-c", "listen_addresses=127.0.0.1");
                _child = ChildProcess.Start("postgres", file, arguments);
            }

            await Task.Delay(100);
            (int exitCode, answer) = await ChildProcess.RunAsync(
                Path.Combine(Programs!, "pg_isready"), ["-h", "127.0.0.1", "-p", Port.ToString(CultureInfo.InvariantCulture), "-t", "10"]);
            return exitCode == 0;
        }
    }

    public string Tail() => _child?.Tail() ?? "";

    public void Dispose()
    {
        KillHard();
        _child?.Dispose();
    }

    private int? PostmasterId
    {
        get
        {
            string file = Path.Combine(_directory, "postmaster.pid");
            return File.Exists(file) && int.TryParse(File.ReadLines(file).First(), out int id) ? id : null;
        }
    }

    private static (string File, string[] Arguments) AsPostgres(string program, params string[] arguments)
    {
        string path = Path.Combine(Programs ?? throw new InvalidOperationException("PostgreSQL is not installed"), program);
        return Environment.IsPrivilegedProcess ? ("runuser", ["-u", "postgres", "--", path, .. arguments]) : (path, arguments);
    }
}
