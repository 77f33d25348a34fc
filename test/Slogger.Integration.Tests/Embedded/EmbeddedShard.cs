// A shard with an embedded store, as a person would run it who has nothing else: killed by process id, started again.
using System.Globalization;
using System.Net;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Embedded;

internal sealed class EmbeddedShard(Workspace workspace) : IDisposable
{
    private readonly int _port = Workspace.FreePort();
    private ProxyProcess? _proxy;

    public ProxyProcess Proxy => _proxy ?? throw new InvalidOperationException("not started");

    public EndPoint Endpoint => new IPEndPoint(IPAddress.Loopback, _port);

    public string Data { get; } = workspace.File("data");

    /// <summary>Further options of serve.</summary>
    public IReadOnlyList<string> Options { get; init; } = ["--faster-memory", "256mb"];

    public async Task StartAsync()
    {
        _proxy?.Dispose();
        _proxy = await ProxyProcess.StartAsync(_port, ["--data", Data, .. Options]);
    }

    public async Task KillAndStartAsync()
    {
        Proxy.KillHard();
        await StartAsync();
    }

    public Task<RespClient> ConnectAsync() => RespClient.ConnectAsync(Endpoint);

    /// <summary>A line of DPR.INFO.</summary>
    public async Task<string> InfoAsync(string name)
    {
        using RespClient client = await ConnectAsync();
        string info = (await client.DoAsync("DPR.INFO")).Text;
        return info.Split("\r\n").First(l => l.StartsWith(name + ":", StringComparison.Ordinal))[(name.Length + 1)..];
    }

    public async Task<long> NumberAsync(string name) => long.Parse(await InfoAsync(name), CultureInfo.InvariantCulture);

    public void Dispose() => _proxy?.Dispose();
}
