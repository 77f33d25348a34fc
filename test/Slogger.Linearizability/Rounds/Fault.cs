// What is done to a system: when, to which node, for how long. A seed chooses; half of the time it is the node that leads.
using System.Globalization;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Linearizability.Rounds;

internal enum FaultKind
{
    /// <summary>Processes of a node are killed with -9, and started again.</summary>
    Kill,

    /// <summary>All processes of a node are killed, and its data are gone when they start again.</summary>
    EmptyDisk,

    /// <summary>Processes of a node stand still (SIGSTOP).</summary>
    Pause,

    /// <summary>What one node sends to another does not arrive.</summary>
    CutOneWay,

    /// <summary>Nothing arrives between two nodes.</summary>
    CutLink,

    /// <summary>Nothing arrives between a node and the other nodes. Clients reach all.</summary>
    CutFromNodes,

    /// <summary>Nothing arrives between a node and anybody.</summary>
    CutFromAll,

    /// <summary>A node's disk is full.</summary>
    FullDisk,

    /// <summary>A node's clock is wrong.</summary>
    ClockJump,

    /// <summary>A node is removed from its cohort, and added again. It runs on.</summary>
    RemoveMember,
}

/// <summary>One fault.</summary>
/// <param name="kind">What happens.</param>
/// <param name="begins">After the clients have begun.</param>
/// <param name="lasts">Until it is mended.</param>
/// <param name="random">Chooses what is left open.</param>
internal sealed class Fault(FaultKind kind, TimeSpan begins, TimeSpan lasts, Random random)
{
    public TimeSpan Begins => begins;

    public TimeSpan Lasts => lasts;

    /// <summary>Chooses faults for a round: one, or two that may overlap.</summary>
    /// <param name="within">When the last one is mended.</param>
    public static IReadOnlyList<Fault> Choose(NodeSystem system, Random random, TimeSpan within)
    {
        int count = random.Next(2) + 1, emptied = 0;
        return [.. Enumerable.Range(0, count).Select(_ =>
        {
            var kind = system.Faults[random.Next(system.Faults.Count)];
            // No system of three stands the loss of two disks, and none of two that of one.
            if (kind is FaultKind.EmptyDisk or FaultKind.RemoveMember && emptied++ > 0) { kind = FaultKind.Kill; }
            var begins = within * (0.1 + (0.4 * random.NextDouble()));
            double longest = Math.Min(5, (within - begins).TotalSeconds), shortest = kind is FaultKind.Pause ? 0.05 : 0;
            // Short ones as often as long ones.
            var lasts = TimeSpan.FromSeconds(shortest + ((longest - shortest) * Math.Pow(random.NextDouble(), 2)));
            return new Fault(kind, begins, lasts, new Random(random.Next()));
        })];
    }

    /// <summary>Begins, and returns what mends it, with what happened in words.</summary>
    public async Task<(string Text, Func<Task> Mend)> BeginAsync(NodeSystem system, Network network)
    {
        int node = random.Next(1, system.Nodes + 1);
        int? leader = random.Next(2) == 0 ? await LeaderAsync(system) : null;
        return await BeginAsync(system, network, leader ?? node, leader is not null);
    }

    /// <summary>The same at a certain node.</summary>
    public async Task<(string Text, Func<Task> Mend)> BeginAsync(NodeSystem system, Network network, int node, bool isLeader)
    {
        string name = Network.Name(node) + (isLeader ? " (master)" : "");
        string length = lasts.TotalSeconds.ToString("0.00 s", CultureInfo.InvariantCulture);
        int[] others = [.. Enumerable.Range(1, system.Nodes).Where(n => n != node)];
        int other = others.Length == 0 ? node : others[random.Next(others.Length)];
        switch (kind)
        {
            case FaultKind.Kill or FaultKind.EmptyDisk:
                var (killed, what) = kind == FaultKind.Kill ? await SomeAsync(node) : (await Network.ProcessesAsync(node), "all");
                await system.KillAsync(node, killed);
                if (kind == FaultKind.EmptyDisk) { system.Empty(node); }
                string emptied = kind == FaultKind.EmptyDisk ? " and took its data away" : "";
                return ($"killed {what} of {name}{emptied}, started after {length}", () =>
                {
                    system.StartNode(node);
                    return Task.CompletedTask;
                });
            case FaultKind.Pause:
                var (paused, which) = await SomeAsync(node);
                foreach (int id in paused) { Suspend(id); }
                return ($"stopped {which} of {name} for {length}", () =>
                {
                    foreach (int id in paused) { ChildProcess.Resume(id); }
                    return Task.CompletedTask;
                });
            case FaultKind.CutOneWay:
                return await CutAsync(network, $"cut {name} -> {Network.Name(other)} for {length}", (node, other));
            case FaultKind.CutLink:
                return await CutAsync(network, $"cut {name} <-> {Network.Name(other)} for {length}", (node, other), (other, node));
            case FaultKind.CutFromNodes:
                return await CutAsync(network, $"cut {name} from the other nodes for {length}",
                    [.. others.Select(o => (node, o)), .. others.Select(o => (o, node))]);
            case FaultKind.CutFromAll:
                await Network.PlugAsync(node, isIn: false);
                return ($"cut {name} from all for {length}", () => Network.PlugAsync(node, isIn: true));
            case FaultKind.FullDisk:
                string file = Path.Combine(NodeSystem.Disk(node), "full");
                await FillAsync(file);
                return ($"filled the disk of {name} for {length}", () =>
                {
                    File.Delete(file);
                    // It may have ended of it.
                    system.StartNode(node);
                    return Task.CompletedTask;
                });
            case FaultKind.RemoveMember:
                string removed = await system.ChangeMemberAsync(node, comes: false);
                return ($"removed {name} from its cohort for {length} ({removed})", () => system.ChangeMemberAsync(node, comes: true));
            default:
                var off = TimeSpan.FromSeconds(random.Next(-3600, 3600));
                NodeSystem.SetClock(node, off);
                return ($"clock of {name} off by {off.TotalSeconds} s for {length}", () =>
                {
                    NodeSystem.SetClock(node, TimeSpan.Zero);
                    return Task.CompletedTask;
                });
        }
    }

    /// <summary>The node that leads; null: none says so.</summary>
    public static async Task<int?> LeaderAsync(NodeSystem system)
    {
        try
        {
            using var client = await system.FinderOf(0).ConnectAsync();
            return Network.NodeOf(client.RemoteEndPoint!);
        }
        catch (Exception e) when (MasterFinder.IsNoAnswer(e))
        {
            return null;
        }
    }

    private static async Task<(string Text, Func<Task> Mend)> CutAsync(Network network, string text, params (int From, int To)[] links)
    {
        foreach (var (from, to) in links) { await network.CutAsync(from, to); }
        return (text, async () =>
        {
            foreach (var (from, to) in links) { await network.MendAsync(from, to); }
        });
    }

    private static void Suspend(int id)
    {
        try
        {
            ChildProcess.Suspend(id);
        }
        catch (InvalidOperationException)
        {
            // Another fault has just ended it.
        }
    }

    private static async Task FillAsync(string path)
    {
        var zeros = new byte[64 * 1024];
        try
        {
            await using var file = File.Create(path, bufferSize: 1);
            while (true) { await file.WriteAsync(zeros); }
        }
        catch (IOException)
        {
            // Full.
        }
    }

    // All processes of a node, or one of them.
    private async Task<(int[] Ids, string Text)> SomeAsync(int node)
    {
        int[] all = await Network.ProcessesAsync(node);
        if (all.Length < 2 || random.Next(2) == 0) { return (all, "all"); }
        int one = all[random.Next(all.Length)];
        var words = (await File.ReadAllTextAsync($"/proc/{one}/cmdline")).Split(['\0', ' '], StringSplitOptions.RemoveEmptyEntries);
        return ([one], string.Join(' ', words.Take(3).Select(Path.GetFileName)));
    }
}
