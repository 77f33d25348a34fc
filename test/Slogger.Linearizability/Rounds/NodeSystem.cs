// A system under test: nodes, each with a few processes in its network namespace and a small disk of its own. A new system says how its
// processes are started, where its clients find who leads, and what may be done to it; everything else is here.
using System.Globalization;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Linearizability.Rounds;

/// <summary>A process of a node.</summary>
/// <param name="Name">Unique in its node.</param>
/// <param name="File">The program.</param>
/// <param name="Arguments">Of the program.</param>
internal sealed record NodeProcess(string Name, string File, params string[] Arguments)
{
    /// <summary>Whether it sees the clock that <see cref="NodeSystem.SetClock"/> sets. A redis-server cannot: its allocator asks for the
    /// time before libfaketime is ready, and it ends. So a process that starts one has to take LD_PRELOAD out of its environment.</summary>
    public bool HasOwnClock { get; init; }
}

internal abstract class NodeSystem : IAsyncDisposable
{
    private static readonly string? s_clockLibrary = Directory.GetDirectories("/usr/lib")
        .Select(d => Path.Combine(d, "faketime", "libfaketime.so.1")).FirstOrDefault(File.Exists);

    private readonly Dictionary<(int Node, string Name), ChildProcess> _running = [];
    private readonly List<string> _ended = [];

    /// <summary>How many nodes it has.</summary>
    public abstract int Nodes { get; }

    /// <summary>What it has to stand.</summary>
    public abstract IReadOnlyList<FaultKind> Faults { get; }

    /// <summary>What an operation needs besides its reply before it counts as done; null: nothing.</summary>
    public virtual Confirmation? Confirmation => null;

    /// <summary>Whether keys have versions (<c>DPR.CPUT</c>).</summary>
    public virtual bool HasVersions => false;

    /// <summary>What the keys of each shard begin with. The clients take the shards in turn, and keep to theirs.</summary>
    public virtual IReadOnlyList<string> Shards => [""];

    /// <summary>How a client finds who leads its shard.</summary>
    /// <param name="client">0 for the first client.</param>
    public abstract IMasterFinder FinderOf(int client);

    /// <summary>What is started at a node, in this order. Called for each start.</summary>
    /// <param name="node">1 for the first node.</param>
    protected abstract IEnumerable<NodeProcess> ProcessesOf(int node);

    /// <summary>Waits until it stands every fault, as a system in service does.</summary>
    public abstract Task ReadyAsync();

    /// <summary>Removes a node from all its cohorts, or adds it again.</summary>
    /// <returns>How that went, in words.</returns>
    public virtual Task<string> ChangeMemberAsync(int node, bool comes) => throw new NotSupportedException();

    /// <summary>Where a node's data are, on its disk; a fault may take them away.</summary>
    protected virtual string DataOf(int node) => Disk(node);

    /// <summary>How large a node's disk is, as mount wants it.</summary>
    protected virtual string DiskSize => "128m";

    /// <summary>Puts onto a node's disk what it needs before its first start.</summary>
    protected virtual void Furnish(int node)
    {
    }

    /// <summary>A node's disk: a small file system.</summary>
    public static string Disk(int node) => Path.Combine(Isolation.Mounts, Network.Name(node));

    public async Task StartAsync()
    {
        for (int node = 1; node <= Nodes; node++)
        {
            Directory.CreateDirectory(Disk(node));
            await Network.RunAsync("mount", "-t", "tmpfs", "-o", $"size={DiskSize}", "none", Disk(node));
            Furnish(node);
            SetClock(node, TimeSpan.Zero);
            StartNode(node);
        }

        try
        {
            await ReadyAsync();
        }
        catch (TimeoutException e)
        {
            throw new InvalidOperationException($"the system did not start: {e.Message}\n{Logs()}", e);
        }
    }

    /// <summary>Starts what does not run of a node.</summary>
    public void StartNode(int node)
    {
        foreach (var process in ProcessesOf(node))
        {
            if (_running.TryGetValue((node, process.Name), out var running))
            {
                if (!running.HasExited) { continue; }
                _ended.Add(running.Tail());
                running.Dispose();
            }

            var environment = process.HasOwnClock && s_clockLibrary is { } library ? new Dictionary<string, string>
            {
                ["LD_PRELOAD"] = library,
                ["FAKETIME_TIMESTAMP_FILE"] = ClockFile(node),
                ["FAKETIME_NO_CACHE"] = "1",
                ["FAKETIME_DONT_FAKE_MONOTONIC"] = "1",
            } : null;
            _running[(node, process.Name)] = ChildProcess.Start($"{process.Name} of {Network.Name(node)}", "ip",
                ["netns", "exec", Network.Name(node), process.File, .. process.Arguments], environment);
        }
    }

    /// <summary>Kills a node's processes with -9 and waits until they are gone.</summary>
    public async Task KillAsync(int node, IReadOnlyCollection<int> processes)
    {
        foreach (int id in processes) { ChildProcess.Signal(id, 9); }
        await Eventually.AsyncTrue($"processes of node {node} are gone", TimeSpan.FromSeconds(10),
            async () => !(await Network.ProcessesAsync(node)).Intersect(processes).Any()
                // This process hears of it a little later, and would else take it for running.
                && !_running.Values.Any(r => processes.Contains(r.Id) && !r.HasExited));
    }

    /// <summary>Takes away the data of a node that does not run.</summary>
    public void Empty(int node)
    {
        foreach (string entry in Directory.GetFileSystemEntries(DataOf(node)))
        {
            if (Directory.Exists(entry)) { Directory.Delete(entry, recursive: true); }
            else { File.Delete(entry); }
        }
    }

    /// <summary>Sets the clock of a node off the real one, for processes with <see cref="NodeProcess.HasOwnClock"/>.</summary>
    public static void SetClock(int node, TimeSpan off) =>
        File.WriteAllText(ClockFile(node), off.TotalSeconds.ToString("+0.###;-0.###;+0", CultureInfo.InvariantCulture) + "\n");

    /// <summary>What all processes have said.</summary>
    public string Logs() => string.Join('\n', _ended.Concat(_running.Values.Select(r => r.Tail())));

    public async ValueTask DisposeAsync()
    {
        for (int node = 1; node <= Nodes; node++) { await KillAsync(node, await Network.ProcessesAsync(node)); }
        foreach (var process in _running.Values) { process.Dispose(); }
        for (int node = 1; node <= Nodes; node++) { await Network.RunAsync("umount", "-l", Disk(node)); }
    }

    private static string ClockFile(int node) => Disk(node) + ".clock";
}
