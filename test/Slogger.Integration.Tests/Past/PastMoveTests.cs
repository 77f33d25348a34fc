// The past of a cluster in which slots move: what was there since they have moved can be read, at each key's shard and nowhere else.
using System.Globalization;
using System.Text.Json;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Moves;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using static Slogger.Integration.Tests.Past.StoreView;

namespace Slogger.Integration.Tests.Past;

public sealed class PastMoveTests
{
    private const int Moving = 20, Staying = 10, Elsewhere = 15;
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(1);

    [Fact]
    public async Task SlotsThatHaveMoved_AndBack_ThePastSinceIsReadAtTheirShard()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 2, usesPostgres: false);
        await cluster.StartAsync();
        using RespClient one = await cluster.ConnectAsync(0), two = await cluster.ConnectAsync(1);
        string[] moving = MovingKeys.In(0, 100, Moving, "moving"), staying = MovingKeys.In(101, 8191, Staying, "staying");
        string[] elsewhere = MovingKeys.In(8192, 16383, Elsewhere, "elsewhere");
        await WriteAsync(one, [.. moving, .. staying], "begin");
        await WriteAsync(two, elsewhere, "begin");
        string begin = await VersionNowAsync(one);
        foreach (string to in (string[])["1", "0"])
        {
            (RespClient owner, RespClient other) = to == "1" ? (two, one) : (one, two);
            (int code, string said) = await cluster.MoveAsync("--slots", "0-100", "--to", to);
            Assert.True(code == 0, said);
            await Eventually.AsyncTrue("the move is over, and both have heard of it", s_limit, async () =>
                !(await one.CallAsync("DPR.ASOF", "AGO", "0")).IsError && !(await two.CallAsync("DPR.ASOF", "AGO", "0")).IsError);
            await WriteAsync(owner, moving, $"at {to}");
            // Each key once.
            JsonElement snapshot = await SnapshotAsync(workspace, cluster);
            string at = Text(snapshot.GetProperty("version").GetInt64());
            long[] keys = [.. snapshot.GetProperty("shards").EnumerateArray().OrderBy(s => s.GetProperty("shard").GetInt64())
                .Select(s => s.GetProperty("keys").GetInt64())];
            Assert.Equal(to == "1" ? [Staying, Moving + Elsewhere] : [Moving + Staying, Elsewhere], keys);
            await owner.DoAsync("DEL", moving[0]);
            await WriteAsync(owner, moving[1..], "later");
            foreach (string key in moving)
            {
                Assert.Equal($"at {to}", (await owner.DoAsync("DPR.ASOF", "VERSION", at, "GET", key)).Text);
                Assert.StartsWith("MOVED", (await other.CallAsync("DPR.ASOF", "VERSION", at, "GET", key)).Text);
            }
            Assert.Equal("begin", (await one.DoAsync("DPR.ASOF", "VERSION", at, "GET", staying[0])).Text);
            // What brought it there was before.
            RespValue history = await owner.DoAsync("DPR.HISTORY", moving[0]);
            Assert.Equal(["SET", "DEL"], history.Items[3].Items.Select(c => c.Items[4].Items[0].Text.ToUpperInvariant()));
            // Of the time before at neither, as it is not known which had what.
            foreach (RespClient shard in (RespClient[])[one, two])
            {
                foreach (string[] question in (string[][])
                [
                    ["DPR.ASOF", "VERSION", begin], ["DPR.CHANGED", "FROM", begin, "TO", at], ["DPR.SNAPSHOT", "BEGIN", "VERSION", begin],
                ])
                {
                    Assert.Matches("^SLOGGER NOTKEPT .* slots have moved since", (await shard.CallAsync(question)).Text);
                }
            }
            begin = at;
        }
    }

    private static async Task WriteAsync(RespClient client, string[] keys, string value)
    {
        foreach (string key in keys) { await client.DoAsync("SET", key, value); }
    }

    private static async Task<JsonElement> SnapshotAsync(Workspace workspace, ClusterDeployment cluster)
    {
        (int code, string said) = await ProxyProcess.CommandAsync("snapshot", "--address",
            string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{cluster.Port(0)}"), "--ago", "0s", "--to", workspace.Folder("snapshots"),
            "--json");
        Assert.True(code == 0, said);
        // Behind what it tells people meanwhile.
        return JsonDocument.Parse(said[said.IndexOf('{', StringComparison.Ordinal)..]).RootElement;
    }
}
