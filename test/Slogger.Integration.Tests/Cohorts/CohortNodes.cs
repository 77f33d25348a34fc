// Three nodes of one shard, each a process with a Redis that it runs, and one metadata database. Killed by process id.
using System.Globalization;
using System.Net;
using System.Text.Json;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Cohorts;

internal sealed class CohortNodes(Workspace workspace, PostgresProcess? postgres = null) : IAsyncDisposable
{
    public const int Count = 3;

    /// <summary>As --cluster takes it.</summary>
    public const string Cluster = "replicated";

    /// <summary>Set: nodes compile nothing ahead of a takeover.</summary>
    public const string UnpreparedVariable = "SLOGGER_TEST_UNPREPARED";

    /// <summary>Ends a hung test; decides nothing.</summary>
    public static readonly TimeSpan Generous = TimeSpan.FromMinutes(3);

    private static readonly TimeSpan ReplyLimit = TimeSpan.FromSeconds(10);
    private readonly int[] _clientPorts = [.. Enumerable.Range(0, Count).Select(_ => Workspace.FreePort())];
    private readonly int[] _nodePorts = [.. Enumerable.Range(0, Count).Select(_ => Workspace.FreePort())];
    private readonly ProxyProcess?[] _processes = new ProxyProcess?[Count];
    private readonly List<string> _said = [];

    /// <summary>As --lease takes it.</summary>
    public string Lease { get; init; } = "1s";

    /// <summary>Further options of a node.</summary>
    public Func<int, string[]> OptionsOf { get; init; } = _ => [];

    /// <summary>Whether nodes compile ahead what a takeover needs.</summary>
    public bool ArePrepared { get; init; }

    /// <summary>Further environment of a node; null: none.</summary>
    public Func<int, IReadOnlyDictionary<string, string>?> EnvironmentOf { get; init; } = _ => null;

    /// <summary>How many of the nodes the cohort begins with; the others name themselves as well.</summary>
    public int Founders { get; init; } = Count;

    /// <summary>A node's name.</summary>
    public static string NameOf(int node) => "abc"[node].ToString();

    /// <summary>As --cohort takes it.</summary>
    public string Members => string.Join(',', Enumerable.Range(0, Founders).Select(Member));

    private string Member(int node) => string.Create(CultureInfo.InvariantCulture, $"{NameOf(node)}=127.0.0.1:{_nodePorts[node]}");

    /// <summary>As --metadata takes it.</summary>
    public string Metadata => postgres is null ? "sqlite:" + workspace.File("metadata.db") : "postgres:" + postgres.ConnectionString;

    /// <summary>Tells several cohorts of a cluster apart.</summary>
    public string Prefix { get; init; } = "";

    public string Data(int node) => workspace.File($"{Prefix}node-{NameOf(node)}");

    public int ProcessId(int node) => _processes[node]!.Id;

    /// <summary>Where clients reach the nodes.</summary>
    public IReadOnlyList<int> Ports => _clientPorts;

    public EndPoint Endpoint(int node) => new IPEndPoint(IPAddress.Loopback, _clientPorts[node]);

    public Task<RespClient> ConnectAsync(int node) => RespClient.ConnectAsync(Endpoint(node));

    public async Task StartAsync()
    {
        for (int i = 0; i < Count; i++) { Launch(i); }
        await Task.WhenAll(_processes.Select(p => p!.ReadyAsync()));
    }

    public async Task StartAsync(int node)
    {
        Launch(node);
        await _processes[node]!.ReadyAsync();
    }

    /// <summary>Starts a process that has the node's directory, and no cohort.</summary>
    public async Task StartAloneAsync(int node, params string[] options)
    {
        Launch(node, options);
        await _processes[node]!.ReadyAsync();
    }

    /// <summary>What such a process says, that does not start.</summary>
    public Task<string> AloneRefusedAsync(int node) => RefusedAsync(node, []);

    /// <summary>What the node says, that does not start.</summary>
    public Task<string> NodeRefusedAsync(int node) => RefusedAsync(node, NodeOptions(node));

    private async Task<string> RefusedAsync(int node, string[] options)
    {
        Launch(node, options);
        await EventuallyAsync($"node {NameOf(node)} ends", () => Task.FromResult(HasExited(node)));
        return _processes[node]!.Tail();
    }

    /// <summary>slogger restore, of the node's directory.</summary>
    public Task<(int ExitCode, string Output)> RestoreAsync(int node, params string[] options) => ProxyProcess.CommandAsync(
        ["restore", "--data", Data(node), "--metadata", Metadata, .. options]);

    /// <summary>The first and the last version that can be restored.</summary>
    public async Task<(long First, long Last)> VersionsAsync(int node)
    {
        (int code, string said) = await RestoreAsync(node, "--list", "--json");
        Assert.True(code == 0, said);
        string json = said[said.IndexOf('{', StringComparison.Ordinal)..(said.LastIndexOf('}') + 1)];
        JsonElement[] versions = [.. JsonDocument.Parse(json).RootElement.GetProperty("versions").EnumerateArray()];
        return (versions[0].GetProperty("first").GetInt64(), versions[^1].GetProperty("last").GetInt64());
    }

    // A lease that a busy machine keeps: takeovers come from what the test does.
    private string[] NodeOptions(int node) =>
        ["--node", NameOf(node), "--cohort", node < Founders ? Members : $"{Members},{Member(node)}", "--lease", Lease, .. OptionsOf(node)];

    private void Launch(int node) => Launch(node, NodeOptions(node));

    private void Launch(int node, string[] options)
    {
        End(node);
        _processes[node] = ProxyProcess.Launch(_clientPorts[node],
        [
            "--redis-server", RedisProcess.Executable, "--data", Data(node), "--metadata", Metadata, "--cluster", Cluster, .. options,
        ],
        new Dictionary<string, string>(EnvironmentOf(node) ?? new Dictionary<string, string>())
        {
            [UnpreparedVariable] = ArePrepared ? "" : "1",
        });
    }

    // What it has said is kept for who fails.
    private void End(int node)
    {
        if (_processes[node] is not { } process) { return; }
        process.KillHard();
        _said.Add(process.Tail());
        process.Dispose();
        _processes[node] = null;
    }

    public void KillProxy(int node) => _processes[node]!.KillHard();

    public Task<bool> KillRedisAsync(int node) => SupervisedRedis.KillAsync(Data(node));

    /// <summary>As if its machine were lost.</summary>
    public async Task KillAsync(int node)
    {
        KillProxy(node);
        await KillRedisAsync(node);
    }

    public Task<int> TerminateAsync(int node) => _processes[node]!.TerminateAsync();

    public bool HasExited(int node) => _processes[node] is not { HasExited: false };

    /// <summary>A field of DPR.INFO; null: the node does not say it, or does not answer.</summary>
    public async Task<string?> InfoAsync(int node, string field)
    {
        try
        {
            using RespClient client = await ConnectAsync(node);
            await client.SendAsync("DPR.INFO");
            RespValue reply = await client.ReadAsync(ReplyLimit);
            return reply.Text.Split("\r\n").FirstOrDefault(l => l.StartsWith(field + ":", StringComparison.Ordinal))?[(field.Length + 1)..];
        }
        catch (Exception e) when (e is ConnectionLostException or TimeoutException)
        {
            return null;
        }
    }

    public async Task<long> NumberAsync(int node, string field) =>
        long.Parse(await InfoAsync(node, field) ?? throw new InvalidDataException($"{field} is not told\n{Tail()}"),
            CultureInfo.InvariantCulture);

    /// <summary>Waits until a node serves as the leader.</summary>
    /// <param name="but">Not this one.</param>
    public async Task<int> LeaderAsync(int? but = null)
    {
        int found = -1;
        await EventuallyAsync("a node leads and serves", async () =>
        {
            for (int i = 0; i < Count && found < 0; i++)
            {
                if (i != but && await InfoAsync(i, "node_role") == "leads" && await InfoAsync(i, "lease") == "held"
                    && await InfoAsync(i, "store_state") == "serving") { found = i; }
            }
            return found >= 0;
        });
        return found;
    }

    /// <summary>Waits until a node follows, and its store has what is committed now.</summary>
    public async Task FollowsAsync(int node)
    {
        await EventuallyAsync($"node {NameOf(node)} follows", async () => await InfoAsync(node, "node_role") == "follows"
            && await InfoAsync(node, "store_state") == "serving reads");
    }

    /// <summary>The same, or it leads.</summary>
    public async Task FollowsOrLeadsAsync(int node)
    {
        await EventuallyAsync($"node {NameOf(node)} serves", async () => (await InfoAsync(node, "store_state"))?.StartsWith("serving",
            StringComparison.Ordinal) == true && await InfoAsync(node, "node_role") is "follows" or "leads");
    }

    /// <summary>Writes at whoever leads, until it is answered.</summary>
    public Task SetAsync(string key, string value) => EventuallyAsync($"SET {key} is answered", async () =>
    {
        for (int i = 0; i < Count; i++)
        {
            if (await InfoAsync(i, "node_role") == "leads" && await TrySetAsync(i, key, value)) { return true; }
        }
        return false;
    });

    /// <summary>Writes at a node. False: it has not answered that it is done.</summary>
    public async Task<bool> TrySetAsync(int node, string key, string value)
    {
        try
        {
            using RespClient client = await ConnectAsync(node);
            await client.SendAsync("SET", key, value);
            return !(await client.ReadAsync(ReplyLimit)).IsError;
        }
        catch (Exception e) when (e is ConnectionLostException or TimeoutException)
        {
            return false;
        }
    }

    /// <summary>Asks a node, also one that follows. Null: it does not answer.</summary>
    public async Task<RespValue?> AskAsync(int node, params string[] request)
    {
        try
        {
            using RespClient client = await ConnectAsync(node);
            // One that follows would send us to its leader.
            await client.CallAsync("READONLY");
            return await client.CallAsync(request);
        }
        catch (Exception e) when (e is ConnectionLostException or TimeoutException)
        {
            return null;
        }
    }

    /// <summary>Writes many, all of which are answered.</summary>
    public async Task FillAsync(int leader, string prefix, int count)
    {
        using RespClient client = await ConnectAsync(leader);
        for (int i = 0; i < count; i++) { await client.SendAsync("SET", Key(prefix, i), Text(i)); }
        for (int i = 0; i < count; i++) { Assert.Equal("+OK", (await client.ReadAsync(Generous)).Compact); }
    }

    /// <summary>What of it a node lacks. Asks again while a follower's store is older than it may be for reads: on a busy machine it can
    /// be, for a while.</summary>
    public async Task<IReadOnlyList<string>> MissingAsync(int node, string prefix, int count)
    {
        using RespClient client = await ConnectAsync(node);
        // One that follows would send us to its leader; a process alone has no such word.
        await client.CallAsync("READONLY");
        List<string> missing = [];
        for (int i = 0; i < count; i++)
        {
            RespValue reply = await client.CallAsync("GET", Key(prefix, i));
            if (reply.Compact.StartsWith("-MOVED", StringComparison.Ordinal) || reply.Compact.Contains("STALE", StringComparison.Ordinal))
            {
                await EventuallyAsync($"node {NameOf(node)} answers reads", async () =>
                {
                    reply = await client.CallAsync("GET", Key(prefix, i));
                    return !reply.IsError;
                });
            }
            if (reply.Compact != "$" + Text(i)) { missing.Add($"{Key(prefix, i)}: {reply.Compact}"); }
        }
        return missing;
    }

    /// <summary>Runs a command of cohorts.</summary>
    public Task<(int ExitCode, string Output)> CommandAsync(string command, params string[] arguments) =>
        ProxyProcess.CommandAsync(["cohort", command, "--cohort", Members, .. arguments]);

    /// <summary>Has a node lead, and gives what the command has said. Again when another one was elected, as a busy machine may
    /// have it.</summary>
    public async Task<string> LeadAsync(int node, params string[] options)
    {
        string said = "";
        try
        {
            await EventuallyAsync($"node {NameOf(node)} leads as asked", async () =>
            {
                (int code, said) = await CommandAsync("lead", ["--to", NameOf(node), .. options]);
                return code == 0;
            });
        }
        catch (TimeoutException e)
        {
            throw new TimeoutException($"{said}\n{e.Message}", e);
        }
        return said;
    }

    /// <summary>Adds a member, or removes one, and gives what the command has said.</summary>
    public async Task<string> ChangeAsync(string command, int node)
    {
        (int code, string said) = await CommandAsync(command, ["--member", command == "add" ? Member(node) : NameOf(node)]);
        Assert.True(code == 0, $"{said}\n{Tail()}");
        return said;
    }

    /// <summary>Waits, and shows what the nodes have said if it was for nothing.</summary>
    public async Task EventuallyAsync(string what, Func<Task<bool>> ask)
    {
        try
        {
            await Eventually.AsyncTrue(what, Generous, ask);
        }
        catch (TimeoutException e)
        {
            throw new TimeoutException($"{e.Message}\n{Tail()}", e);
        }
    }

    public bool HasSaid(int node, string text) => CountOf(node, text) > 0;

    /// <summary>How often its process has said so.</summary>
    public int CountOf(int node, string text) => (_processes[node]?.Tail() ?? "").Split(text).Length - 1;

    public string Tail() => string.Join('\n', _said.Concat(_processes.Select(p => p?.Tail())));

    public async ValueTask DisposeAsync()
    {
        for (int i = 0; i < Count; i++)
        {
            if (!HasExited(i)) { ChildProcess.Resume(ProcessId(i)); }
            End(i);
            await KillRedisAsync(i);
        }
    }

    private static string Key(string prefix, int i) => string.Create(CultureInfo.InvariantCulture, $"{prefix}:{i}");

    private static string Text(int i) => i.ToString(CultureInfo.InvariantCulture);
}
