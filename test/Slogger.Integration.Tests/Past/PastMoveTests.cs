// The past of a cluster in which slots move, or into which a shard comes: the value of a key at any instant can be read at the shard that
// had it then, also while it moves. Of the rest see PastWholeMoveTests.
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
        string begin = await VersionNowAsync(one), before = "begin";
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
            // What brought it there is not told, and what was done before the other one tells.
            RespValue history = await owner.DoAsync("DPR.HISTORY", moving[0]);
            Assert.Equal(["SET", "DEL"], history.Items[3].Items.Select(c => c.Items[4].Items[0].Text.ToUpperInvariant()));
            string landed = history.Items[4].Text;
            Assert.InRange(history.Items[4].AsInteger(), long.Parse(begin, CultureInfo.InvariantCulture) + 1, history.Items[0].AsInteger());
            RespValue earlier = await other.DoAsync("DPR.HISTORY", moving[0], "FROM", begin, "TO", landed);
            Assert.Equal(to == "1" ? [] : ["DEL"], earlier.Items[3].Items.Select(c => c.Items[4].Items[0].Text.ToUpperInvariant()));
            Assert.StartsWith("MOVED", (await owner.CallAsync("DPR.HISTORY", moving[0], "TO", landed)).Text);
            // Of the time before at the other.
            foreach (string key in moving)
            {
                Assert.Equal(before, (await other.DoAsync("DPR.ASOF", "VERSION", begin, "GET", key)).Text);
                Assert.StartsWith("MOVED", (await owner.CallAsync("DPR.ASOF", "VERSION", begin, "GET", key)).Text);
            }
            // What was copied is not what was changed.
            Assert.Equal(moving.Order(), await ChangedAsync(owner, begin, at));
            Assert.Equal(to == "1" ? [] : moving.Order(), await ChangedAsync(other, begin, at));
            Assert.Equal(Moving + Staying + Elsewhere, (await OfAllAsync(one, begin, "DBSIZE")).AsInteger()
                + (await OfAllAsync(two, begin, "DBSIZE")).AsInteger());
            (begin, before) = (at, $"at {to}");
        }
    }

    // Nobody has touched a key at the shard that had it, and the one that has it now has lost it with all else.
    [Fact]
    public async Task NewOwnerWasEmptied_AResetPutsBackWhatHadMovedThere()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 2, usesPostgres: false);
        await cluster.StartAsync();
        using RespClient one = await cluster.ConnectAsync(0), two = await cluster.ConnectAsync(1);
        string[] moving = MovingKeys.In(0, 100, Moving, "moving"), elsewhere = MovingKeys.In(8192, 16383, Elsewhere, "elsewhere");
        await WriteAsync(one, moving, "begin");
        await WriteAsync(two, elsewhere, "begin");
        string begin = await VersionNowAsync(one);
        (int code, string said) = await cluster.MoveAsync("--slots", "0-100", "--to", "1");
        Assert.True(code == 0, said);
        await two.DoAsync("FLUSHALL");
        // No slots move any more, as far as both know.
        await Eventually.AsyncTrue("it is set back", s_limit, async () =>
        {
            (code, said) = await ProxyProcess.CommandAsync(
                ["reset", "--address", $"127.0.0.1:{Text(cluster.Port(0))}", "--to", begin]);
            return code == 0 ? true : said.Contains("slots", StringComparison.Ordinal) ? false : throw new InvalidOperationException(said);
        });
        using RespClient after = await cluster.ConnectAsync(1);
        foreach (string key in moving.Concat(elsewhere)) { Assert.Equal("begin", (await after.DoAsync("GET", key)).Text); }
    }

    // Each key is a list to which its numbers are pushed, one after the other.
    [Fact]
    public async Task WhileSlotsMove_AndAShardJoins_EachInstantIsAPrefixWithAllThatWasAcknowledged()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 2, usesPostgres: false, joiners: 1);
        await cluster.StartAsync();
        string[] keys = MovingKeys.In(0, 200, 6, "list");
        using var writers = new MovingKeys(cluster, keys);
        using var stop = new CancellationTokenSource();
        Task writing = Task.Run(() => writers.RunAsync(1, stop.Token));
        List<(string Version, long[] Least, long[] Most)> instants = [];
        Task NoteUntilAsync(Task moved) => writers.NoteUntilAsync(cluster, moved, TimeSpan.FromMilliseconds(10), instants);
        async Task MoveAsync(string slots, string to)
        {
            (int code, string said) = await cluster.MoveAsync("--slots", slots, "--to", to);
            Assert.True(code == 0, said);
        }
        async Task JoinAsync()
        {
            await cluster.JoinAsync();
            await cluster.ServingAsync();
        }
        await NoteUntilAsync(Task.Delay(200));
        await NoteUntilAsync(MoveAsync("0-120", "1"));
        await NoteUntilAsync(JoinAsync());
        await NoteUntilAsync(MoveAsync("121-200", "2"));
        await NoteUntilAsync(MoveAsync("0-120", "2"));
        await NoteUntilAsync(MoveAsync("60-120", "0"));
        await stop.CancelAsync();
        await writing;
        Assert.True(writers.Redirections > 0);
        using RespClient one = await cluster.ConnectAsync(0), two = await cluster.ConnectAsync(1), three = await cluster.ConnectAsync(2);
        Dictionary<string, RespClient> shards = new()
        {
            [Text(cluster.Port(0))] = one, [Text(cluster.Port(1))] = two, [Text(cluster.Port(2))] = three,
        };
        HashSet<RespClient> answered = [];
        foreach ((string version, long[] least, long[] most) in instants.Where((_, i) => i % Math.Max(1, instants.Count / 40) == 0))
        {
            for (int key = 0; key < keys.Length; key++)
            {
                RespClient asked = three;
                RespValue list;
                for (int redirections = 0; ; redirections++)
                {
                    list = await asked.CallAsync("DPR.ASOF", "VERSION", version, "LRANGE", keys[key], "0", "-1");
                    if (!list.IsError || redirections == 3) { break; }
                    Assert.StartsWith("MOVED ", list.Text);
                    asked = shards[list.Text.Split(':')[^1]];
                }
                Assert.False(list.IsError, list.Text);
                answered.Add(asked);
                Assert.Equal(Enumerable.Range(1, list.Items.Count).Select(n => Text(n)), list.Items.Select(i => i.Text));
                Assert.InRange(list.Items.Count, least[key], most[key]);
            }
        }
        // The same for people: at the version of the very beginning, when the third was not there.
        (int code, string output) = await ProxyProcess.CommandAsync(["get", "--address",
            string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{cluster.Port(2)}"), "--version", instants[0].Version, .. keys]);
        Assert.True(code == 0, output);
        Assert.Equal(3, answered.Count);
    }

    private static async Task<IEnumerable<string>> ChangedAsync(RespClient shard, string from, string to) =>
        (await shard.DoAsync("DPR.CHANGED", "FROM", from, "TO", to)).Items[1].Items.Select(k => k.Text).Order();

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
