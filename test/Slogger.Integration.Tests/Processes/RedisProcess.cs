// A raw redis-server of the test's own, on a private port, with DEBUG allowed so that digests can be compared.
using System.Globalization;
using System.Net;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Processes;

internal sealed class RedisProcess : IDisposable
{
    private readonly string _directory;
    private readonly string[] _options;
    private ChildProcess _child;

    private RedisProcess(string directory, int port, string[] options)
    {
        _directory = directory;
        Port = port;
        _options = options;
        _child = Spawn();
    }

    public int Port { get; }

    public EndPoint Endpoint => new IPEndPoint(IPAddress.Loopback, Port);

    public static string Executable =>
        new[] { "/usr/bin/redis-server", "/usr/local/bin/redis-server" }.FirstOrDefault(File.Exists)
        ?? throw new InvalidOperationException("redis-server is not installed: apt-get install redis-server");

    /// <summary>Starts a server in the directory and waits until it answers.</summary>
    public static async Task<RedisProcess> StartAsync(string directory, params string[] options)
    {
        var redis = new RedisProcess(directory, Workspace.FreePort(), options);
        await redis.WaitReadyAsync();
        return redis;
    }

    public Task<RespClient> ConnectAsync() => RespClient.ConnectAsync(Endpoint);

    public void KillHard() => _child.KillHard();

    /// <summary>Starts it again in the same place, with whatever files are there.</summary>
    public async Task RestartAsync()
    {
        _child.Dispose();
        _child = Spawn();
        await WaitReadyAsync();
    }

    public string Tail() => _child.Tail();

    public void Dispose() => _child.Dispose();

    private ChildProcess Spawn() => ChildProcess.Start("redis-server", Executable,
    [
        "--port", Port.ToString(CultureInfo.InvariantCulture), "--bind", "127.0.0.1", "--dir", _directory,
        "--save", "", "--enable-debug-command", "yes", "--enable-protected-configs", "yes", .. _options,
    ]);

    private Task WaitReadyAsync() => Eventually.AsyncTrue("redis-server answers PING", TimeSpan.FromSeconds(30), async () =>
    {
        if (_child.HasExited)
        {
            throw new InvalidOperationException("redis-server ended at once\n" + Tail());
        }

        try
        {
            using var client = await ConnectAsync();
            var reply = await client.CallAsync("PING");
            return !reply.IsError || reply.Text.StartsWith("NOAUTH", StringComparison.Ordinal);
        }
        catch (ConnectionLostException)
        {
            return false;
        }
    });
}
