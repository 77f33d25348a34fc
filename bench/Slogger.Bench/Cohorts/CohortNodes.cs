// The nodes of one shard for the suite of cohorts, each over a Redis that it runs, on this machine: one node without a cohort is what the
// others are compared with.
using System.Globalization;
using System.Net.Sockets;
using Slogger.Bench.Cases;
using Slogger.Bench.Host;
using Slogger.Bench.Load;

namespace Slogger.Bench.Cohorts;

internal sealed class CohortNodes : IDisposable
{
    private const double CalmCores = 0.6;
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(2), s_ask = TimeSpan.FromSeconds(2);
    private readonly BenchOptions _options;
    private readonly CaseFleet _fleet;
    private readonly string _directory, _arguments;
    private readonly int[] _ports, _nodePorts;
    private readonly ManagedProcess?[] _processes;
    private readonly int[] _stores;                 // process ids of the nodes' Redis; 0: killed

    /// <summary>Starts them, and returns when one leads and the others follow.</summary>
    /// <param name="options">Of the bench.</param>
    /// <param name="fleet">Starts processes.</param>
    /// <param name="directory">For data.</param>
    /// <param name="count">How many; 1: a process without a cohort.</param>
    /// <param name="arguments">Further options of all.</param>
    public CohortNodes(BenchOptions options, CaseFleet fleet, string directory, int count, string arguments)
    {
        (_options, _fleet, _directory, _arguments) = (options, fleet, directory, arguments);
        Directory.CreateDirectory(directory);
        (_ports, _nodePorts) = ([.. Ports(count)], [.. Ports(count)]);
        (_processes, _stores) = (new ManagedProcess?[count], new int[count]);
        Settle();
    }

    public int Count => _ports.Length;

    public int Port(int node) => _ports[node];

    public ManagedProcess Process(int node) => _processes[node]!;

    /// <summary>CPU seconds of all nodes, their stores included.</summary>
    public double CpuSeconds => _processes.Sum(p => ProcFs.CpuSeconds(p!.Pid)) + _stores.Sum(ProcFs.CpuSeconds);

    /// <summary>The node that leads, when it serves.</summary>
    public int Leader()
    {
        int leader = -1;
        WaitUntil("a node leads", () => (leader = Array.FindIndex(_ports, p => Info(p) is { } info && Leads(info))) >= 0);
        return leader;
    }

    /// <summary>Starts what does not run, and returns when all nodes serve or follow.</summary>
    public void Settle()
    {
        bool isNew = false;
        for (int node = 0; node < Count; node++)
        {
            if (_processes[node] is { HasExited: false }) { continue; }
            Launch(node);
            isNew = true;
        }
        WaitUntil("the nodes are ready", () => _ports.All(p => Info(p) is { } info && (Count == 1 || Leads(info) || Follows(info))));
        for (int node = 0; node < Count; node++)
        {
            if (_stores[node] != 0) { continue; }
            _stores[node] = StoreOf(_ports[node]);
            ProcessRegistry.Adopt(_stores[node]);
        }
        if (isNew) { WaitUntil("they have compiled what they need", () => IsCalm(TimeSpan.FromSeconds(1))); }
    }

    /// <summary>Has them write for a while: the runtime compiles again, and better, what is used often.</summary>
    public void WarmUp(TimeSpan length)
    {
        for (DateTime end = DateTime.UtcNow + length; DateTime.UtcNow < end;)
        {
            try
            {
                using var client = new RespClient(Port(Count == 1 ? 0 : Leader()), s_ask);
                while (DateTime.UtcNow < end) { client.Expect("SET", "warm", "up"); }
            }
            catch (IOException)
            {
                // Another node has been elected: this is a busy machine.
            }
        }
    }

    // A node compiles after its start what it needs to lead.
    private bool IsCalm(TimeSpan window)
    {
        double before = CpuSeconds;
        Thread.Sleep(window);
        return CpuSeconds - before < CalmCores * window.TotalSeconds;
    }

    /// <summary>Stops all processes for a while, or has them go on.</summary>
    public void Freeze(bool isFrozen)
    {
        foreach (int process in _stores.Concat(_processes.Select(p => p!.Pid)).Where(p => p != 0))
        {
            _ = Native.Kill(process, isFrozen ? Native.SigStop : Native.SigCont);
        }
    }

    /// <summary>Kills a node's Redis.</summary>
    public void KillStore(int node)
    {
        if (_stores[node] == 0) { return; }
        _ = Native.Kill(_stores[node], Native.SigKill);
        ProcessRegistry.Disown(_stores[node]);
        _stores[node] = 0;
    }

    /// <summary>Kills a node's proxy and Redis.</summary>
    public void Kill(int node)
    {
        KillStore(node);
        _processes[node]!.Kill();
    }

    /// <summary>Asks another node to lead, as people do. The command's start is not to be in the way, as from another machine.</summary>
    public void HandOver()
    {
        (string output, string errors, int exit) = ManagedProcess.Run(
            ["nice", "-n", "19", .. _options.ProxyProgram, "cohort", "lead", "--cohort", Members], null, s_limit);
        if (exit != 0) { throw new BenchException($"slogger cohort lead ended with {exit}:\n{output}{errors}"); }
    }

    public void Dispose()
    {
        foreach (ManagedProcess? process in _processes) { process?.Kill(); }
        for (int node = 0; node < Count; node++) { KillStore(node); }
    }

    private static bool Leads(string info) => Has(info, "node_role:leads") && Has(info, "lease:held") && Has(info, "store_state:serving");

    private static bool Follows(string info) => Has(info, "node_role:follows") && Has(info, "store_state:serving reads");

    private static bool Has(string info, string line) => info.Contains(line + "\r\n", StringComparison.Ordinal);

    private static string? Info(int port)
    {
        try
        {
            using var client = new RespClient(port, s_ask);
            return client.Text("DPR.INFO");
        }
        catch (Exception e) when (e is IOException or SocketException or BenchException)
        {
            return null;
        }
    }

    private static int StoreOf(int port)
    {
        using var client = new RespClient(port, s_ask);
        return client.ServerProcess();
    }

    private void WaitUntil(string what, Func<bool> isSo)
    {
        DateTime end = DateTime.UtcNow + s_limit;
        while (!isSo())
        {
            if (DateTime.UtcNow > end)
            {
                IEnumerable<string> nodes = _processes.Select((p, i) =>
                    $"{Info(_ports[i]) ?? "It does not answer."}\n{p?.LogTail()}");
                throw new BenchException($"it did not come to it that {what}:\n{string.Join('\n', nodes)}");
            }
            Thread.Sleep(20);
        }
    }

    private IEnumerable<int> Ports(int count) => Enumerable.Range(0, count).Select(_ => _fleet.NextPort());

    private string Members => string.Join(',', _nodePorts.Select((p, i) => $"{NameOf(i)}=127.0.0.1:{Text(p)}"));

    private void Launch(int node) => _processes[node] = _fleet.LaunchProcess($"{Path.GetFileName(_directory)}-{NameOf(node)}",
        [.. _options.ProxyProgram, "serve", "--listen", $"127.0.0.1:{Text(_ports[node])}", "--redis-server", "redis-server", "--data",
            Path.Combine(_directory, NameOf(node)), "--metadata", "sqlite:" + Path.Combine(_directory, "metadata.db"),
            .. Count == 1 ? (string[])[] : ["--node", NameOf(node), "--cohort", Members],
            .. _arguments.Split(' ', StringSplitOptions.RemoveEmptyEntries),
            .. _options.ProxyArguments.Split(' ', StringSplitOptions.RemoveEmptyEntries)]);

    private static string NameOf(int node) => "abcdefg"[node].ToString();

    private static string Text(int number) => number.ToString(CultureInfo.InvariantCulture);
}
