// The cohorts of one shard, or of two: three nodes, each with a `slogger serve` for each shard and a Redis that it runs. They have to stand
// every fault, and two of them at once.
// Its clocks do not jump: libfaketime has waits with a time limit return at once, and a node's thread waits so for its next tick.
using System.Globalization;
using System.Net;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Linearizability.Rounds;

/// <param name="shards">How many.</param>
/// <param name="reads">As --strong-reads takes it.</param>
/// <param name="replies">As --replies takes it. With early ones an operation counts when it is committed.</param>
internal sealed class CohortSystem(int shards = 1, string reads = "lease", string replies = "committed") : NodeSystem
{
    private static readonly TimeSpan ChangeLimit = TimeSpan.FromSeconds(10);
    private const int Port = 7379, NodePort = 7479;

    // By their slots.
    private static readonly string[] s_keysOfTwo = ["{b}", "{a}"];

    public override int Nodes => 3;

    public override IReadOnlyList<FaultKind> Faults => [.. Enum.GetValues<FaultKind>().Where(f => f != FaultKind.ClockJump)];

    public override Confirmation? Confirmation => replies == "early" ? Confirmation.Commit : null;

    public override bool HasVersions => true;

    public override IReadOnlyList<string> Shards => shards == 1 ? base.Shards : s_keysOfTwo;

    public override IMasterFinder FinderOf(int client) =>
        new RoleFinder([.. Enumerable.Range(1, Nodes).Select(n => Network.Endpoint(n, Port + (client % shards)))]);

    // Before all of them follow one that is lost may be needed.
    public override async Task ReadyAsync()
    {
        for (int shard = 0; shard < shards; shard++)
        {
            await MasterFinder.WaitAsync(FinderOf(shard));
            await Eventually.AsyncTrue("two nodes follow", MasterFinder.StartLimit, async () =>
            {
                int follow = 0;
                for (int node = 1; node <= Nodes; node++) { follow += await FollowsAsync(Network.Endpoint(node, Port + shard)) ? 1 : 0; }
                return follow == Nodes - 1;
            });
        }
    }

    // Each reign begins a file of the log.
    protected override string DiskSize => "1g";

    protected override string DataOf(int node) => Path.Combine(Disk(node), "data");

    protected override void Furnish(int node)
    {
        File.WriteAllText(SecretOf(node), "a-secret-of-the-nodes\n");
        if (node != 1) { return; }
        foreach (string file in Directory.GetFiles(Path.GetDirectoryName(Metadata)!, Path.GetFileName(Metadata) + "*"))
        {
            File.Delete(file);
        }
    }

    protected override IEnumerable<NodeProcess> ProcessesOf(int node) => Enumerable.Range(0, shards).Select(shard =>
        new NodeProcess("slogger" + Text(shard), "dotnet", ProxyProcess.Executable, "serve", "--listen",
            Network.Endpoint(node, Port + shard).ToString(), "--data", Path.Combine(DataOf(node), Text(shard)), "--redis-server",
            RedisProcess.Executable, "--metadata", "sqlite:" + Metadata, "--version-interval", "1ms", "--log-budget", "256mb",
            "--checkpoint-every", "64mb", "--shards", Text(shards), "--shard",
            Text(shard), "--site-secret-file", SecretOf(node), "--node", NameOf(node), "--strong-reads", reads, "--replies",
            replies, "--cohort", MembersOf(shard)));

    public override async Task<string> ChangeMemberAsync(int node, bool comes)
    {
        List<string> said = [];
        for (int shard = 0; shard < shards; shard++)
        {
            string member = comes ? $"{NameOf(node)}={Network.Endpoint(node, NodePort + shard)}" : NameOf(node);
            try
            {
                (int code, string output) = await CommandAsync(shard, comes ? "add" : "remove", "--member", member);
                string? why = output.Split('\n').FirstOrDefault(l => l.StartsWith("slogger: ", StringComparison.Ordinal));
                said.Add(code == 0 ? "done" : why ?? "refused");
            }
            catch (TimeoutException)
            {
                // Nobody leads, or too few are there.
                said.Add("given up");
            }
        }
        return string.Join(", ", said);
    }

    /// <summary>Has the leader of the first shard hand over to the node that is nearest.</summary>
    /// <returns>Whether another one leads.</returns>
    public async Task<bool> HandOverAsync()
    {
        try
        {
            return (await CommandAsync(0, "lead")).ExitCode == 0;
        }
        catch (TimeoutException)
        {
            return false;
        }
    }

    private Task<(int ExitCode, string Output)> CommandAsync(int shard, string command, params string[] arguments) =>
        ChildProcess.RunAsync("dotnet", [ProxyProcess.Executable, "cohort", command, .. arguments, "--cohort", MembersOf(shard),
            "--site-secret-file", SecretOf(1)], ChangeLimit);

    // It can be brought to versions: its store has been loaded.
    private static async Task<bool> FollowsAsync(IPEndPoint node)
    {
        try
        {
            using var client = await MasterFinder.ConnectAsync(node);
            var reply = await client.DoAsync("DPR.INFO");
            return reply.Text.Contains("node_role:follows", StringComparison.Ordinal)
                && !reply.Text.Contains("applied:0:0", StringComparison.Ordinal);
        }
        catch (Exception e) when (MasterFinder.IsNoAnswer(e))
        {
            return false;
        }
    }

    private string MembersOf(int shard) =>
        string.Join(',', Enumerable.Range(1, Nodes).Select(n => $"{NameOf(n)}={Network.Endpoint(n, NodePort + shard)}"));

    private static string NameOf(int node) => "n" + Text(node);

    private static string Text(int number) => number.ToString(CultureInfo.InvariantCulture);

    private static string Metadata => Path.Combine(Isolation.Mounts, "metadata.db");

    private static string SecretOf(int node) => Path.Combine(Disk(node), "secret");
}
