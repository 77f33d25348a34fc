// A real PostgreSQL server of the tests' own: data in a temporary directory, loopback only, a private port. As root it runs
// as user postgres, which PostgreSQL insists on. Can be killed the hard way and started again.
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using Npgsql;
using Slogger.TestSupport;

namespace Slogger.Metadata.Tests.Fixtures;

public sealed class PostgresServer : IAsyncLifetime
{
    public const string Password = "pg-s3cret-Passw0rd";

    private static readonly string? Binaries = FindBinaries();

    private readonly string directory = Path.Combine(Path.GetTempPath(), "slogger-pg-" + Guid.NewGuid().ToString("N")[..12]);
    private int schemas;
    private Process? server;

    public int Port { get; private set; }

    /// <summary>Connection string of the superuser in the database "postgres".</summary>
    public string ConnectionString => Connect("slogger_admin", Password);

    public string Connect(string user, string password, string database = "postgres") => string.Create(
        CultureInfo.InvariantCulture,
        $"Host=127.0.0.1;Port={Port};Database={database};Username={user};Password={password};Pooling=false;Timeout=10");

    public async ValueTask InitializeAsync()
    {
        if (Binaries is null)
        {
            return;
        }

        Directory.CreateDirectory(directory);
        string passwordFile = Path.Combine(directory, "password");
        await File.WriteAllTextAsync(passwordFile, Password);
        if (Environment.IsPrivilegedProcess)
        {
            await RunAsync("chown", "-R", "postgres", directory);
        }

        await RunAsPostgresAsync(
            Path.Combine(Binaries, "initdb"), "-D", Data, "-U", "slogger_admin", "-E", "UTF8", "--locale=C", "-A", "scram-sha-256",
            "--pwfile", passwordFile, "--no-sync");
        await StartAsync();
    }

    /// <summary>Starts the server and waits until it answers.</summary>
    public async Task StartAsync()
    {
        Assert.SkipWhen(Binaries is null, "PostgreSQL's server is not installed.");
        for (int attempt = 0; ; attempt++)
        {
            Port = Port != 0 ? Port : TestPorts.Next();
            ProcessStartInfo start = AsPostgres(
                Path.Combine(Binaries!, "postgres"), "-D", Data, "-p", Port.ToString(CultureInfo.InvariantCulture),
                "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "shared_buffers=16MB",
                "-c", "max_connections=60", "-c", "logging_collector=on", "-c", "log_directory=log");
            start.RedirectStandardOutput = true;
            start.RedirectStandardError = true;
            server = Process.Start(start)!;
            server.BeginOutputReadLine();
            server.BeginErrorReadLine();
            if (await AnswersAsync())
            {
                return;
            }

            // The port was taken by someone else in between, or the dead server's memory was not released yet.
            Assert.True(attempt < 10, "The PostgreSQL server does not start; see its log in " + directory);
            await KillAsync();
            await Task.Delay(200);
        }
    }

    /// <summary>kill -9 of the server and all its processes.</summary>
    public async Task KillAsync()
    {
        if (server is null)
        {
            return;
        }

        // Under runuser the server is its child. Stopped first, it starts no more children while they are looked for.
        await SignalAllAsync("-STOP");
        List<int> all = Descendants(server.Id);
        foreach (int pid in all)
        {
            await RunAsync("kill", false, "-9", pid.ToString(CultureInfo.InvariantCulture));
        }

        await server.WaitForExitAsync();
        while (all.Any(pid => Directory.Exists($"/proc/{pid}")))
        {
            await Task.Delay(10);
        }

        server.Dispose();
        server = null;
    }

    /// <summary>Stops or resumes the server processes without killing them: a hung machine.</summary>
    public async Task SignalAllAsync(string signal)
    {
        foreach (int pid in Descendants(server!.Id))
        {
            await RunAsync("kill", false, signal, pid.ToString(CultureInfo.InvariantCulture));
        }
    }

    /// <summary>A spec for an empty schema of its own.</summary>
    public async Task<string> FreshSpecAsync()
    {
        Assert.SkipWhen(Binaries is null, "PostgreSQL's server is not installed.");
        string schema = string.Create(CultureInfo.InvariantCulture, $"fresh{Interlocked.Increment(ref schemas)}");
        await ExecuteAsync($"CREATE SCHEMA {schema}");
        return $"postgres:{ConnectionString};Search Path={schema}";
    }

    /// <summary>Starts a replication client, which the server takes for a standby of this name that holds what it has confirmed.</summary>
    public Process StartStandby(string name)
    {
        string to = Path.Combine(directory, name);
        Directory.CreateDirectory(to);
        ProcessStartInfo start = new(Path.Combine(Binaries!, "pg_receivewal")) { RedirectStandardError = true,
            RedirectStandardOutput = true };
        foreach (string argument in (string[])["-h", "127.0.0.1", "-p", Port.ToString(CultureInfo.InvariantCulture), "-U", "slogger_admin",
            "-D", to, "--synchronous", "--no-loop"])
        {
            start.ArgumentList.Add(argument);
        }
        (start.Environment["PGPASSWORD"], start.Environment["PGAPPNAME"]) = (Password, name);
        return Process.Start(start)!;
    }

    public async Task ExecuteAsync(string sql)
    {
        await using NpgsqlConnection connection = new(ConnectionString);
        await connection.OpenAsync();
        await using NpgsqlCommand command = new(sql, connection);
        await command.ExecuteNonQueryAsync();
    }

    public async Task<long> CountAsync(string sql)
    {
        await using NpgsqlConnection connection = new(ConnectionString);
        await connection.OpenAsync();
        await using NpgsqlCommand command = new(sql, connection);
        return (long)(await command.ExecuteScalarAsync())!;
    }

    public async ValueTask DisposeAsync()
    {
        await KillAsync();
        if (Directory.Exists(directory))
        {
            Directory.Delete(directory, recursive: true);
        }
    }

    private string Data => Path.Combine(directory, "data");

    private async Task<bool> AnswersAsync()
    {
        Stopwatch waited = Stopwatch.StartNew();
        while (waited.Elapsed < TimeSpan.FromSeconds(60) && !server!.HasExited)
        {
            try
            {
                await ExecuteAsync("SELECT 1");
                return true;
            }
            catch (NpgsqlException)
            {
                await Task.Delay(50);
            }
        }

        return false;
    }

    private static List<int> Descendants(int root)
    {
        List<int> found = [root];
        for (int i = 0; i < found.Count; i++)
        {
            try
            {
                string children = File.ReadAllText($"/proc/{found[i]}/task/{found[i]}/children");
                found.AddRange(children.Split(' ', StringSplitOptions.RemoveEmptyEntries)
                    .Select(c => int.Parse(c, CultureInfo.InvariantCulture)));
            }
            catch (IOException)
            {
                // It has just ended.
            }
        }

        return found;
    }

    private static string? FindBinaries() => !Directory.Exists("/usr/lib/postgresql")
        ? null
        : Directory.GetDirectories("/usr/lib/postgresql")
            .Select(d => Path.Combine(d, "bin"))
            .Where(d => File.Exists(Path.Combine(d, "initdb")))
            .OrderByDescending(d => d, StringComparer.Ordinal)
            .FirstOrDefault();

    private static ProcessStartInfo AsPostgres(string program, params string[] arguments)
    {
        ProcessStartInfo start = new() { UseShellExecute = false, WorkingDirectory = "/" };
        if (Environment.IsPrivilegedProcess)
        {
            start.FileName = "runuser";
            start.ArgumentList.Add("-u");
            start.ArgumentList.Add("postgres");
            start.ArgumentList.Add("--");
            start.ArgumentList.Add(program);
        }
        else
        {
            start.FileName = program;
        }

        foreach (string argument in arguments)
        {
            start.ArgumentList.Add(argument);
        }

        return start;
    }

    private static Task RunAsPostgresAsync(string program, params string[] arguments) => RunAsync(AsPostgres(program, arguments), true);

    internal static Task RunAsync(string program, params string[] arguments) => RunAsync(program, true, arguments);

    private static Task RunAsync(string program, bool mustSucceed, params string[] arguments) =>
        RunAsync(new ProcessStartInfo(program, arguments), mustSucceed);

    private static async Task RunAsync(ProcessStartInfo start, bool mustSucceed)
    {
        start.RedirectStandardOutput = true;
        start.RedirectStandardError = true;
        using Process process = Process.Start(start)!;
        Task<string> output = process.StandardOutput.ReadToEndAsync();
        string error = await process.StandardError.ReadToEndAsync();
        await output;
        await process.WaitForExitAsync();
        if (mustSucceed && process.ExitCode != 0)
        {
            throw new InvalidOperationException($"{start.FileName} {string.Join(' ', start.ArgumentList)}: {error}");
        }
    }
}
