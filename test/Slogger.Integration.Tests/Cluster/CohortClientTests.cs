// Clients that know nothing of Slogger, through the loss of a cohort's leader: they find the next one as they find it among Sentinels, in
// a Redis Cluster, or by ROLE.
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using Slogger.Integration.Tests.Cohorts;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Cluster;

public sealed class CohortClientTests(ITestOutputHelper output)
{
    private static readonly string[] Names = ["a", "b", "c"];
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(120);

    [Fact]
    public async Task Clients_WhoseLeaderIsLost_FindTheNextBySentinelWords_ByRedirections_AndByRole()
    {
        using var workspace = new Workspace();
        int[] ports = [.. Names.Select(_ => Workspace.FreePort())], ways = [.. Names.Select(_ => Workspace.FreePort())];
        var nodes = new ProxyProcess?[Names.Length];
        try
        {
            for (int i = 0; i < nodes.Length; i++) { nodes[i] = Launch(workspace, i, ports[i], ways); }
            int first = -1;
            await UntilAsync("a node leads, and the others know it", async () =>
            {
                first = await LeaderAsync(ports);
                return first >= 0 && (await Task.WhenAll(ports.Select(p => BySentinelAsync(p)))).All(p => p == ports[first]);
            });
            output.WriteLine($"{Names[first]} leads");
            using (RespClient client = await ToAsync(ports[first]))
            {
                await UntilAsync("it is written", async () => (await client.CallAsync("SET", "k", "1")).Text == "OK");
            }
            int follower = (first + 1) % ports.Length;
            await ReadAtFollowerAsync(ports[follower], ports[first]);
            await UntilAsync("both replicas are told of", async () => (await CallAsync(ports[first], "ROLE")).Items[2].Items.Count == 2);
            // A follower hears of the other one by the leader's next beat.
            RespValue slots = RespValue.Null;
            await UntilAsync("the follower tells of all three", async () =>
                (slots = await CallAsync(ports[follower], "CLUSTER", "SLOTS")).Items[0].Items.Count == 5);
            Assert.Equal(ports[first], slots.Items[0].Items[2].Items[1].AsInteger());

            // One of them stays a follower.
            var subscribed = new Dictionary<int, RespClient>();
            foreach (int port in ports.Where(p => p != ports[first]))
            {
                subscribed[port] = await ToAsync(port);
                await subscribed[port].SendAsync("SUBSCRIBE", "+switch-master");
                await subscribed[port].ReadAsync(wantPush: true);
            }

            nodes[first]!.KillHard();
            await SupervisedRedis.KillAsync(workspace.Folder(Names[first]));
            int[] left = [.. ports.Where(p => p != ports[first])];
            int next = 0;
            await UntilAsync("Sentinels name the next", async () => (next = await BySentinelAsync(left[0])) > 0 && next != ports[first]
                && await BySentinelAsync(left[1]) == next);
            await UntilAsync("it serves", async () => (await CallAsync(next, "SET", "k2", "2")).Text == "OK");
            Assert.Equal("1", (await CallAsync(next, "GET", "k")).Text);
            // A client of Redis Cluster, whichever node it asks.
            int other = left.Single(p => p != next);
            Assert.Equal($"MOVED 449 127.0.0.1:{Text(next)}", (await CallAsync(other, "GET", "k2")).Text);
            Assert.Equal("master", (await CallAsync(next, "ROLE")).Items[0].Text);
            Assert.Equal("slave", (await CallAsync(other, "ROLE")).Items[0].Text);
            string info = (await CallAsync(other, "INFO", "replication")).Text;
            Assert.Contains($"master_port:{Text(next)}\r\n", info, StringComparison.Ordinal);
            Assert.Contains("role:master\r\n", (await CallAsync(next, "INFO", "replication")).Text, StringComparison.Ordinal);
            await ReadAtFollowerAsync(other, next);
            RespValue news = await subscribed[other].ReadAsync(Generous, wantPush: true);
            Assert.Equal($"shop 127.0.0.1 {Text(ports[first])} 127.0.0.1 {Text(next)}", news.Items[2].Text);
            foreach (RespClient client in subscribed.Values) { client.Dispose(); }
        }
        catch (Exception)
        {
            foreach (ProxyProcess? node in nodes) { output.WriteLine(node?.Tail() ?? ""); }
            throw;
        }
        finally
        {
            for (int i = 0; i < nodes.Length; i++)
            {
                nodes[i]?.KillHard();
                await SupervisedRedis.KillAsync(workspace.Folder(Names[i]));
                nodes[i]?.Dispose();
            }
        }
    }

    // Of what was written at the leader; and its age is within its bound.
    private static async Task ReadAtFollowerAsync(int port, int leader)
    {
        using RespClient client = await ToAsync(port);
        Assert.Equal($"MOVED 7629 127.0.0.1:{Text(leader)}", (await client.CallAsync("GET", "k")).Text);
        Assert.Equal("OK", (await client.CallAsync("READONLY")).Text);
        await UntilAsync("it is read", async () => (await client.CallAsync("GET", "k")).Text == "1");
        Assert.Equal($"MOVED 7629 127.0.0.1:{Text(leader)}", (await client.CallAsync("SET", "k", "3")).Text);
        string age = (await client.CallAsync("DPR.INFO")).Text.Split("\r\n").Single(l => l.StartsWith("age_ms:", StringComparison.Ordinal));
        Assert.True(double.Parse(age.AsSpan("age_ms:".Length), CultureInfo.InvariantCulture) >= 0);
    }

    private static ProxyProcess Launch(Workspace workspace, int node, int port, int[] ways) => ProxyProcess.Launch(port,
    [
        "--redis-server", RedisProcess.Executable, "--data", workspace.Folder(Names[node]), "--metadata",
        $"sqlite:{workspace.File("meta.db")}", "--cluster", "shop", "--node", Names[node], "--cohort",
        string.Join(',', Names.Zip(ways, (n, w) => $"{n}=127.0.0.1:{Text(w)}")), "--lease", "1s", "--reads-stale-max", "10s",
    ], new Dictionary<string, string> { [CohortNodes.UnpreparedVariable] = "1" });

    private static async Task<int> LeaderAsync(int[] ports)
    {
        for (int i = 0; i < ports.Length; i++)
        {
            if ((await CallAsync(ports[i], "ROLE")) is { Items: [var role, ..] } && role.Text == "master") { return i; }
        }
        return -1;
    }

    private static async Task<int> BySentinelAsync(int port) =>
        await CallAsync(port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "shop") is { Items: [_, var at] }
            ? int.Parse(at.Text, CultureInfo.InvariantCulture) : 0;

    private static async Task<RespValue> CallAsync(int port, params string[] request)
    {
        try
        {
            using RespClient client = await ToAsync(port);
            return await client.CallAsync(request);
        }
        catch (Exception e) when (e is SocketException or ConnectionLostException or TimeoutException)
        {
            return RespValue.Null;
        }
    }

    private static Task<RespClient> ToAsync(int port) => RespClient.ConnectAsync(new IPEndPoint(IPAddress.Loopback, port));

    private static Task UntilAsync(string what, Func<Task<bool>> ask) => Eventually.AsyncTrue(what, Generous, ask);

    private static string Text(int number) => number.ToString(CultureInfo.InvariantCulture);
}
