// Shards to try a sample with: two proxies that run a Redis each, started from the build of this repository and stopped at the end;
// or those that the command line names.
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;

namespace Slogger.Samples;

/// <summary>The shards of a sample.</summary>
internal sealed class LocalCluster : IAsyncDisposable
{
    private readonly string _directory;
    private readonly Process[] _proxies;

    private LocalCluster(string directory, string[] endpoints, Process[] proxies) =>
        (_directory, Endpoints, _proxies) = (directory, endpoints, proxies);

    public IReadOnlyList<string> Endpoints { get; }

    /// <summary>Whether stores can be killed.</summary>
    public bool IsOwn => _proxies.Length > 0;

    /// <summary>`--proxies HOST:PORT,...`: these. Otherwise two of our own, with `--slogger PATH` of slogger.dll (default: the one built
    /// here) and `--redis-server PATH` (default: that of the PATH).</summary>
    public static async Task<LocalCluster> StartAsync(string[] args)
    {
        if (Option(args, "--proxies") is { } given) { return new("", given.Split(','), []); }
        string slogger = Option(args, "--slogger") ?? FindBuilt(), redis = Option(args, "--redis-server") ?? "redis-server";
        string directory = Directory.CreateTempSubdirectory("slogger-sample-").FullName;
        int[] ports = FreePorts(2);
        Process[] proxies = new Process[ports.Length];
        var cluster = new LocalCluster(directory, [.. ports.Select(p => string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{p}"))],
            proxies);
        try
        {
            for (int i = 0; i < proxies.Length; i++)
            {
                proxies[i] = await StartProxyAsync(slogger, cluster.Endpoints[i], redis, directory, i, proxies.Length);
            }
            foreach (string endpoint in cluster.Endpoints) { await ServesAsync(endpoint); }
            return cluster;
        }
        catch
        {
            await cluster.DisposeAsync();
            throw;
        }
    }

    /// <summary>kill -9 of a shard's Redis. Its proxy starts another, and the cluster goes back to what is committed.</summary>
    public void KillStore(int shard)
    {
        if (Store(shard) is { } id)
        {
            using Process store = Process.GetProcessById(id);
            store.Kill();
            store.WaitForExit();
        }
    }

    public async ValueTask DisposeAsync()
    {
        for (int i = 0; i < _proxies.Length; i++)
        {
            if (_proxies[i] is not { } proxy) { continue; }
            if (!proxy.HasExited) { proxy.Kill(); }
            await proxy.WaitForExitAsync();
            proxy.Dispose();
            KillStore(i);
        }

        if (_directory.Length > 0) { Directory.Delete(_directory, recursive: true); }
    }

    private static async Task<Process> StartProxyAsync(string slogger, string endpoint, string redis, string directory, int shard,
        int shards)
    {
        string[] options =
        [
            slogger, "serve", "--listen", endpoint, "--redis-server", redis, "--data", Path.Combine(directory, $"shard{shard}"),
            "--metadata", "sqlite:" + Path.Combine(directory, "metadata.db"), "--shard", $"{shard}", "--shards", $"{shards}",
                "--log-level", "error",
        ];
        var process = Process.Start(new ProcessStartInfo("dotnet", options))
            ?? throw new InvalidOperationException("dotnet could not be started");
        for (int i = 0; i < 600; i++)
        {
            if (process.HasExited) { throw new InvalidOperationException($"slogger serve ended with exit code {process.ExitCode}"); }
            try
            {
                using var probe = new TcpClient();
                await probe.ConnectAsync(IPEndPoint.Parse(endpoint));
                return process;
            }
            catch (SocketException)
            {
                await Task.Delay(100);
            }
        }

        throw new TimeoutException($"{endpoint} does not listen");
    }

    // A proxy listens before its shard serves. Until then it holds what it is sent.
    private static async Task ServesAsync(string endpoint)
    {
        using var limit = new CancellationTokenSource(TimeSpan.FromMinutes(1));
        using var probe = new TcpClient();
        await probe.ConnectAsync(IPEndPoint.Parse(endpoint), limit.Token);
        await probe.GetStream().WriteAsync("PING\r\n"u8.ToArray(), limit.Token);
        await probe.GetStream().ReadExactlyAsync(new byte["+PONG\r\n".Length], limit.Token);
    }

    private int? Store(int shard)
    {
        string file = Path.Combine(_directory, $"shard{shard}", "redis", "redis.pid");
        return File.Exists(file) && int.TryParse(File.ReadAllText(file).Trim(), CultureInfo.InvariantCulture, out int id)
            && Directory.Exists($"/proc/{id}")
            && File.ReadAllText($"/proc/{id}/cmdline").Contains("redis-server", StringComparison.Ordinal) ? id : null;
    }

    private static int[] FreePorts(int count)
    {
        TcpListener[] listeners = [.. Enumerable.Range(0, count).Select(_ => new TcpListener(IPAddress.Loopback, 0))];
        foreach (TcpListener listener in listeners) { listener.Start(); }
        int[] ports = [.. listeners.Select(l => ((IPEndPoint)l.LocalEndpoint).Port)];
        foreach (TcpListener listener in listeners) { listener.Stop(); }
        return ports;
    }

    private static string? Option(string[] args, string name) =>
        Array.IndexOf(args, name) is >= 0 and var i && i + 1 < args.Length ? args[i + 1] : null;

    private static string FindBuilt()
    {
        for (var folder = new DirectoryInfo(AppContext.BaseDirectory); folder is not null; folder = folder.Parent)
        {
            string path = Path.Combine(folder.FullName, "src", "Slogger.Cli", "bin", "Release", "net10.0", "slogger.dll");
            if (File.Exists(path)) { return path; }
        }

        throw new InvalidOperationException("src/Slogger.Cli is not built: dotnet build -c Release, or give --slogger PATH");
    }
}
