// A redis-server of a test's own: a port of this project's range, a temporary directory, ended by its process id.
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using Slogger.Redis.Connections;
using Slogger.TestSupport;

namespace Slogger.Redis.Tests.Support;

internal sealed class TestRedis : IAsyncDisposable
{
    private Process? _process;

    private TestRedis(int port, string directory, string[] extra)
    {
        Port = port;
        Directory = directory;
        _extra = extra;
    }

    private readonly string[] _extra;

    public int Port { get; }
    public string Directory { get; }
    public string? Password { get; init; }
    public RedisEndpoint Endpoint => RedisEndpoint.Tcp("127.0.0.1", Port, Password);
    public int ProcessId => _process!.Id;

    public static int FreePort() => TestPorts.Next();

    public static string NewDirectory()
    {
        string path = Path.Combine(Path.GetTempPath(), "slogger-redis-test-" + Guid.NewGuid().ToString("N")[..12]);
        System.IO.Directory.CreateDirectory(path);
        return path;
    }

    public static async Task<TestRedis> StartAsync(string? password = null, params string[] extra)
    {
        if (password is not null)
            extra = [.. extra, "--requirepass", password];
        var redis = new TestRedis(FreePort(), NewDirectory(), extra) { Password = password };
        await redis.LaunchAsync();
        return redis;
    }

    public async Task LaunchAsync()
    {
        string[] arguments = ["--port", $"{Port}", "--bind", "127.0.0.1", "--dir", Directory, "--save", "", "--appendonly", "no",
            "--logfile", Path.Combine(Directory, "log"), "--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0", .. _extra];
        var start = new ProcessStartInfo("redis-server") { UseShellExecute = false };
        foreach (string argument in arguments)
            start.ArgumentList.Add(argument);
        _process = Process.Start(start)!;
        for (int i = 0; ; i++)
        {
            try
            {
                await using RedisConnection connection = await RedisConnection.ConnectAsync(Endpoint);
                RedisReply reply = await connection.CommandAsync("PING");
                if (!reply.IsError || reply.Text.StartsWith("MASTERDOWN", StringComparison.Ordinal))
                    return;
            }
            catch (RedisException) when (i < 1000 && !_process.HasExited)
            {
            }
            await Task.Delay(10);
        }
    }

    public Task<RedisConnection> ConnectAsync() => RedisConnection.ConnectAsync(Endpoint, TimeSpan.FromSeconds(30));

    /// <summary>SIGKILL.</summary>
    public async Task KillAsync()
    {
        _process!.Kill();
        await _process.WaitForExitAsync();
    }

    public async ValueTask DisposeAsync()
    {
        if (_process is { HasExited: false })
            await KillAsync();
        _process?.Dispose();
        for (int attempt = 0; System.IO.Directory.Exists(Directory); attempt++)
        {
            try
            {
                System.IO.Directory.Delete(Directory, recursive: true);
            }
            catch (IOException) when (attempt < 50)
            {
                // A child of the killed server, busy with a snapshot, writes for a moment longer.
                await Task.Delay(20);
            }
        }
    }
}
