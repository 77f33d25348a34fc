// Nodes 1 to N, each in a network namespace of its own with one interface, joined by a bridge. Clients are outside of all of them, at the
// bridge. A message that is cut leaves its sender and arrives nowhere, as with a broken network: the sender is not told.
using System.Globalization;
using System.Net;

namespace Slogger.Linearizability.Rounds;

internal sealed class Network : IAsyncDisposable
{
    private const string Bridge = "bridge0", NoOne = "02:00:00:00:00:fe";

    private readonly Dictionary<(int From, int To), int> _cuts = [];

    private Network(int nodes) => Nodes = nodes;

    public int Nodes { get; }

    /// <summary>Once, before the first network: the places that <c>ip netns</c> needs.</summary>
    public static async Task PrepareAsync()
    {
        await RunAsync("mount", "-t", "tmpfs", "none", "/run");
        await RunAsync("mount", "-t", "tmpfs", "none", Isolation.Mounts);
        await RunAsync("ip", "link", "set", "lo", "up");
    }

    public static async Task<Network> CreateAsync(int nodes)
    {
        var network = new Network(nodes);
        await RunAsync("ip", "link", "add", Bridge, "type", "bridge");
        await RunAsync("ip", "addr", "add", "10.77.0.254/24", "dev", Bridge);
        await RunAsync("ip", "link", "set", Bridge, "up");
        for (int node = 1; node <= nodes; node++)
        {
            await RunAsync("ip", "netns", "add", Name(node));
            await RunAsync("ip", "link", "add", Link(node), "type", "veth", "peer", "name", "eth0", "netns", Name(node));
            await RunAsync("ip", "link", "set", Link(node), "master", Bridge, "up");
            await RunAsync("ip", "-n", Name(node), "addr", "add", $"{Address(node)}/24", "dev", "eth0");
            await RunAsync("ip", "-n", Name(node), "link", "set", "eth0", "up");
            await RunAsync("ip", "-n", Name(node), "link", "set", "lo", "up");
        }

        return network;
    }

    public static string Name(int node) => $"n{node}";

    public static string Address(int node) => string.Create(CultureInfo.InvariantCulture, $"10.77.0.{node}");

    public static IPEndPoint Endpoint(int node, int port) => new(IPAddress.Parse(Address(node)), port);

    /// <summary>The node whose address it is.</summary>
    public static int NodeOf(EndPoint endpoint) => ((IPEndPoint)endpoint).Address.GetAddressBytes()[^1];

    /// <summary>From now on nothing arrives that one node sends to another, until it is mended as often as it was cut.</summary>
    public async Task CutAsync(int from, int to)
    {
        int cuts = _cuts[(from, to)] = _cuts.GetValueOrDefault((from, to)) + 1;
        if (cuts > 1) { return; }
        await RunAsync("ip", "-n", Name(from), "neigh", "replace", Address(to), "lladdr", NoOne, "nud", "permanent", "dev", "eth0");
    }

    /// <summary>Ends <see cref="CutAsync"/>.</summary>
    public async Task MendAsync(int from, int to)
    {
        if (--_cuts[(from, to)] > 0) { return; }
        await RunAsync("ip", "-n", Name(from), "neigh", "del", Address(to), "dev", "eth0");
    }

    /// <summary>Takes a node's plug out, or puts it in again.</summary>
    public static Task PlugAsync(int node, bool isIn) => RunAsync("ip", "link", "set", Link(node), isIn ? "up" : "down");

    /// <summary>The ids of a node's processes.</summary>
    public static async Task<int[]> ProcessesAsync(int node) =>
        [.. (await RunAsync("ip", "netns", "pids", Name(node))).Split('\n', StringSplitOptions.RemoveEmptyEntries)
            .Select(id => int.Parse(id, CultureInfo.InvariantCulture))];

    public async ValueTask DisposeAsync()
    {
        for (int node = 1; node <= Nodes; node++)
        {
            // The link first: a namespace lives on for a while behind its name.
            await RunAsync("ip", "link", "del", Link(node));
            await RunAsync("ip", "netns", "del", Name(node));
        }

        await RunAsync("ip", "link", "del", Bridge);
    }

    /// <summary>Runs a tool that must succeed, and returns what it wrote.</summary>
    public static async Task<string> RunAsync(string file, params string[] arguments)
    {
        using var process = System.Diagnostics.Process.Start(new System.Diagnostics.ProcessStartInfo(file, arguments)
        {
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        })!;
        var error = process.StandardError.ReadToEndAsync();
        string output = await process.StandardOutput.ReadToEndAsync();
        await process.WaitForExitAsync();
        return process.ExitCode == 0 ? output
            : throw new InvalidOperationException($"{file} {string.Join(' ', arguments)}: {await error}");
    }

    private static string Link(int node) => $"v{node}";
}
