// What slogger diff says has changed between two instants is what clients saw to be different: random commands on keys of all types at two
// shards, read whole at quiet moments. And slogger history at the shard of the key.
// SLOGGER_TEST_SEED repeats a run.
using System.Globalization;
using System.Text.Json;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Integration.Tests.Workload;
using static Slogger.Integration.Tests.Past.StoreView;

namespace Slogger.Integration.Tests.Past;

public sealed class PastDiffTests(ITestOutputHelper output)
{
    private const int Shards = 2, Moments = 6, Commands = 700, Tags = 3, KeysOfATag = 4;
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(2);

    // All but its expiry is one text.
    private sealed record Seen(string Type, string Value, long ExpiresAtMs);

    private sealed record Moment(long Version, IReadOnlyDictionary<string, Seen> Keys);

    [Fact]
    public async Task RandomCommands_AnyTwoInstants_DifferAsClientsSaw()
    {
        int seed = TestSeed.Choose(output);
        var random = new Random(seed);
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, Shards, usesPostgres: false);
        await cluster.StartAsync();
        RespClient[] clients = [await cluster.ConnectAsync(0), await cluster.ConnectAsync(1)];
        List<Moment> moments = [];
        for (int i = 0; i < Moments; i++)
        {
            for (int n = 0; n < Commands; n++)
            {
                int shard = random.Next(Shards);
                // Keys with a tag are in one slot: commands of several keys may name them.
                string tag = cluster.Key(shard, $"t{random.Next(Tags)}");
                await clients[shard].CallAsync(Next(random, family => $"{family}:{{{tag}}}:{random.Next(KeysOfATag)}"));
            }
            moments.Add(await LookAsync(clients));
        }
        int total = 0;
        foreach ((Moment from, Moment to) in moments.SelectMany((f, i) => moments.Skip(i).Select(t => (f, t))).OrderBy(_ => random.Next()))
        {
            string[] expected = [.. from.Keys.Keys.Union(to.Keys.Keys).Where(k => Of(from, k) != Of(to, k))
                .Select(k => $"{SignOf(Of(from, k), Of(to, k))} {k}").Order(StringComparer.Ordinal)];
            (int code, string said) = await ProxyProcess.CommandAsync("diff", "--address", At(cluster, random.Next(Shards)),
                "--from", Text(from.Version), "--to", Text(to.Version));
            Assert.True(code == 0, said);
            string[] lines = said.TrimEnd().Split('\n');
            Assert.Equal((from.Version, to.Version), (VersionIn(lines[0]), VersionIn(lines[1])));
            Assert.Equal(expected, lines[2..^1].Order(StringComparer.Ordinal));
            Assert.Contains($"{expected.Length} differ: {Count(expected, '+')} new, {Count(expected, '-')} gone, "
                + $"{Count(expected, '~')} changed, {Count(expected, 'E')} with another expiry only", lines[^1]);
            total += expected.Length;
        }
        output.WriteLine($"{moments[^1].Keys.Count} keys at last, {total} differences");
        Assert.True(moments[^1].Keys.Count >= 100, "too few keys");
        foreach (RespClient client in clients) { client.Dispose(); }
    }

    // Redis keeps it in another way, and in another order; the value is the same.
    [Fact]
    public async Task SameValue_HoweverItIsKept_DoesNotDiffer()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, Shards, usesPostgres: false);
        await cluster.StartAsync();
        using RespClient client = await cluster.ConnectAsync(0);
        string hash = cluster.Key(0, "h"), set = cluster.Key(0, "s"), sorted = cluster.Key(0, "z"), text = cluster.Key(0, "x"),
            binary = $"{{{cluster.Key(0, "b")}}}\xff";
        string large = new('x', 100);
        await client.DoAsync("HSET", hash, "a", "1", "b", "2");
        await client.DoAsync("SADD", set, "1", "2", "3");
        await client.DoAsync("ZADD", sorted, "1", "a", "1.5", "b");
        await client.DoAsync("SET", text, "12");
        await client.DoAsync("SET", binary, "\xfe");
        using RespClient beside = await cluster.ConnectAsync(1);
        string from = Text((await LookAsync([client, beside])).Version);
        await client.DoAsync("HSET", hash, "c", large);
        await client.DoAsync("HDEL", hash, "c", "a");
        await client.DoAsync("HSET", hash, "a", "1");
        await client.DoAsync("SADD", set, large);
        await client.DoAsync("SREM", set, large, "2");
        await client.DoAsync("SADD", set, "2");
        await client.DoAsync("ZADD", sorted, "7", large);
        await client.DoAsync("ZREM", sorted, large);
        await client.DoAsync("APPEND", text, "3");
        await client.DoAsync("SETRANGE", text, "0", "99");
        await client.DoAsync("SET", text, "1");
        await client.DoAsync("APPEND", text, "2");
        // Another byte that is no letter either.
        await client.DoAsync("SET", binary, "\xfd");
        foreach ((string key, string encoding) in ((string, string)[])
            [(hash, "hashtable"), (set, "hashtable"), (sorted, "skiplist"), (text, "raw")])
        {
            Assert.Equal(encoding, (await client.DoAsync("OBJECT", "ENCODING", key)).Text);
        }
        JsonElement report = await DiffAsync(cluster, "--from", from);
        Assert.Equal("changed", Assert.Single(report.GetProperty("keys").EnumerateArray()).GetProperty("change").GetString());
        Assert.Equal(5, report.GetProperty("named").GetInt32());
    }

    [Fact]
    public async Task Cluster_HistoryFollowsTheKey_AndDiffNamesWhatItCannotTell()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, Shards, usesPostgres: false);
        await cluster.StartAsync();
        using RespClient first = await cluster.ConnectAsync(0), second = await cluster.ConnectAsync(1);
        string list = cluster.Key(1, "list"), other = cluster.Key(0, "other");
        await second.DoAsync("RPUSH", list, "a", "b");
        await first.DoAsync("SET", other, "1");
        string begin = Text((await LookAsync([first, second])).Version);
        await second.DoAsync("LPOP", list);
        string middle = Text((await LookAsync([first, second])).Version);
        await second.DoAsync("RPUSH", list, "two words", new string('y', 100));
        // Of whichever proxy is asked.
        for (int shard = 0; shard < Shards; shard++)
        {
            (int code, string said) = await HistoryAsync(cluster, shard, list);
            Assert.True(code == 0, said);
            Assert.Matches($@"^# versions \d+ to \d+\n# time, version, world-line, command\n.* UTC  \d+  1  RPUSH {list} a b\n"
                + $@".* UTC  \d+  1  LPOP {list}\n.* UTC  \d+  1  RPUSH {list} ""two words"" y{{50}}\.\.\.\(100 letters\)\n$", said);
        }
        (_, string newest) = await HistoryAsync(cluster, 0, "--limit", "1", list);
        Assert.Contains("# 2 older commands are left out (--limit, --to)\n", newest);
        Assert.Equal(4, newest.TrimEnd().Split('\n').Length);

        (_, string between) = await HistoryAsync(cluster, 0, "--from", begin, "--to", middle, "--values", list);
        Assert.Matches($@"^# versions \d+ to {middle}\n#.*\n.*  LPOP {list}\n  {list} \(list\):\n    b\n$", between);

        (_, string json) = await HistoryAsync(cluster, 0, "--values", "--json", list);
        JsonElement report = JsonDocument.Parse(json).RootElement;
        Assert.Equal(list, report.GetProperty("key").GetString());
        JsonElement[] commands = [.. report.GetProperty("commands").EnumerateArray()];
        Assert.Equal($"RPUSH {list} two words {new string('y', 100)}",
            string.Join(' ', commands[2].GetProperty("command").EnumerateArray().Select(a => a.GetString())));
        Assert.Equal(["a b", "b", $"b two words {new string('y', 100)}"], commands.Select(c => string.Join(' ',
            c.GetProperty("after").GetProperty("value").EnumerateArray().Select(v => v.GetString()))));

        JsonElement diff = await DiffAsync(cluster, "--from", begin, "--values", "--prefix", list[..4]);
        JsonElement changed = Assert.Single(diff.GetProperty("keys").EnumerateArray());
        Assert.Equal((list, "changed", 2, 3), (changed.GetProperty("key").GetString(), changed.GetProperty("change").GetString(),
            changed.GetProperty("before").GetProperty("value").GetArrayLength(),
            changed.GetProperty("after").GetProperty("value").GetArrayLength()));
        Assert.Empty((await DiffAsync(cluster, "--from", begin, "--prefix", "none")).GetProperty("keys").EnumerateArray());

        await first.DoAsync("FLUSHALL");
        foreach ((int wanted, string why, string[] command) in ((int, string, string[])[])
        [
            (1, "FLUSHALL in version", ["diff", "--from", begin]), (1, "is before the cluster began", ["diff", "--from", "1000m"]),
            (1, "is not kept", ["diff", "--from", "0"]), (2, "named by --from", ["diff"]),
            (2, "--to \"soon\" is no time", ["diff", "--from", begin, "--to", "soon"]),
            (1, "is not kept", ["history", "--from", "0", list]),
            (2, "one key is needed", ["history"]), (2, "one key is needed", ["history", list, other]),
            (2, "--limit \"0\"", ["history", "--limit", "0", list]),
        ])
        {
            (int code, string said) = await ProxyProcess.CommandAsync([.. command, "--address", At(cluster, 1)]);
            Assert.True(code == wanted, said);
            Assert.Contains(why, said);
        }

        (int moved, string moving) = await cluster.MoveAsync("--slots", Text(cluster.SlotOf(other).Number), "--to", "1");
        Assert.True(moved == 0, moving);
        foreach (string[] command in (string[][])[["history", list], ["diff", "--from", "0s"]])
        {
            await Eventually.AsyncTrue("the move is over, and it is shown again", s_limit, async () =>
                (await ProxyProcess.CommandAsync([.. command, "--address", At(cluster, 1)])).ExitCode == 0);
        }
        // And as of before.
        foreach ((int wanted, string why, string[] command) in ((int, string, string[])[])
            [(0, $"  LPOP {list}\n", ["history", "--from", begin, list]), (1, "FLUSHALL in version", ["diff", "--from", begin])])
        {
            (int code, string said) = await ProxyProcess.CommandAsync([.. command, "--address", At(cluster, 1)]);
            Assert.True(code == wanted, said);
            Assert.Contains(why, said);
        }
    }

    // Few members, so that values come back; and now and then one that has Redis keep the key in another way.
    private static string[] Next(Random random, Func<string, string> key)
    {
        string Member() => random.Next(20) == 0 ? new string('m', 80) : Text(random.Next(6));
        string Any() => key(((string[])["s", "l", "t", "h", "z", "x", "n", "p"])[random.Next(8)]);
        string[][] commands =
        [
            ["SET", key("s"), Member()], ["APPEND", key("s"), Member()], ["SETRANGE", key("s"), "0", Member()],
            ["SET", key("s"), Member(), "EX", "5000"], ["INCR", key("n")], ["DECR", key("n")], ["INCRBYFLOAT", key("n"), "0.5"],
            ["RPUSH", key("l"), Member(), Member()], ["LPOP", key("l")], ["LPUSH", key("l"), Member()],
            ["LMOVE", key("l"), key("l"), "LEFT", "RIGHT"], ["LTRIM", key("l"), "0", "5"],
            ["SADD", key("t"), Member(), Member()], ["SREM", key("t"), Member()], ["SMOVE", key("t"), key("t"), Member()],
            ["SUNIONSTORE", key("t"), key("t"), key("t")], ["SPOP", key("t")],
            ["HSET", key("h"), Member(), Member(), Member(), Member()], ["HDEL", key("h"), Member()], ["HINCRBY", key("h"), "n", "1"],
            ["ZADD", key("z"), Text(random.Next(4)), Member()], ["ZREM", key("z"), Member()], ["ZINCRBY", key("z"), "0.5", Member()],
            ["ZUNIONSTORE", key("z"), "2", key("z"), key("z")],
            ["XADD", key("x"), "*", "f", Member()], ["XTRIM", key("x"), "MAXLEN", "5"],
            ["XGROUP", "CREATE", key("x"), "g", "0", "MKSTREAM"], ["XREADGROUP", "GROUP", "g", Member(), "STREAMS", key("x"), ">"],
            ["XACK", key("x"), "g", "0-1"], ["PFADD", key("p"), Member()], ["PFMERGE", key("p"), key("p")],
            ["MSET", key("s"), Member(), key("s"), Member()], ["BITOP", "XOR", key("s"), key("s"), key("s")],
            ["DEL", Any()], ["UNLINK", Any(), Any()], ["RENAME", Any(), Any()], ["COPY", Any(), Any(), "REPLACE"],
            ["EXPIRE", Any(), Text(random.Next(1000, 1003))], ["EXPIRE", Any(), "4000"], ["PERSIST", Any()], ["PEXPIRE", Any(), "20"],
            ["SORT", key("l"), "ALPHA", "STORE", key("l")],
            ["EVAL", "redis.call('SADD', KEYS[1], 'by a script') redis.call('SET', KEYS[2], 'x') redis.call('DEL', KEYS[2])", "2",
                key("t"), key("s")],
        ];
        return commands[random.Next(commands.Length)];
    }

    // At one version of all shards, while nobody writes.
    private static async Task<Moment> LookAsync(RespClient[] clients)
    {
        var keys = new Dictionary<string, Seen>();
        foreach (RespClient client in clients)
        {
            foreach (string key in (await client.DoAsync("KEYS", "*")).Items.Select(k => k.Text))
            {
                // One that is about to expire has first to do so.
                await Eventually.AsyncTrue("the key expires", s_limit, async () =>
                    (await client.DoAsync("PTTL", key)).AsInteger() is < 0 or > 60_000);
            }
        }
        foreach (RespClient client in clients)
        {
            foreach (string key in (await client.DoAsync("KEYS", "*")).Items.Select(k => k.Text))
            {
                string type = (await client.DoAsync("TYPE", key)).Text;
                string value = Canonical(type, await client.DoAsync(ReadOf(type, key)));
                if (type == "stream") { value += await GroupsAsync(client, key); }
                keys.Add(key, new(type, value, (await client.DoAsync("PEXPIRETIME", key)).AsInteger()));
            }
        }
        // One that both have closed by themselves.
        for (long last = 0; ;)
        {
            foreach (RespClient client in clients)
            {
                last = Math.Max(last, (await client.DoAsync("DPR.ASOF", "AGO", "0")).Items[1].AsInteger());
            }
            bool isCommon = true;
            foreach (RespClient client in clients)
            {
                isCommon &= (await client.DoAsync("DPR.ASOF", "VERSION", Text(last))).Items[1].AsInteger() == last;
            }
            if (isCommon) { return new(last, keys); }
        }
    }

    private static async Task<string> GroupsAsync(RespClient client, string stream)
    {
        string groups = (await client.DoAsync("XINFO", "GROUPS", stream)).Compact;
        RespValue facts = await client.DoAsync("XINFO", "STREAM", stream);
        string last = facts.Items.SkipWhile(i => i.Text != "last-generated-id").ElementAt(1).Text;
        if (groups == "[]") { return last; }
        RespValue consumers = await client.DoAsync("XINFO", "CONSUMERS", stream, "g");
        // Without how long ago.
        RespValue pending = await client.DoAsync("XPENDING", stream, "g", "-", "+", "1000");
        return $"{last} {groups} {string.Join(' ', consumers.Items.Select(c => c.Items[1].Compact))} "
            + string.Join(' ', pending.Items.Select(p => $"{p.Items[0].Text} {p.Items[1].Text} {p.Items[3].Compact}"));
    }

    private static Seen? Of(Moment moment, string key) => moment.Keys.GetValueOrDefault(key);

    private static char SignOf(Seen? before, Seen? after) => (before, after) switch
    {
        (null, _) => '+',
        (_, null) => '-',
        _ => before with { ExpiresAtMs = 0 } == after with { ExpiresAtMs = 0 } ? 'E' : '~',
    };

    private static int Count(string[] lines, char sign) => lines.Count(l => l[0] == sign);

    private static long VersionIn(string head) =>
        long.Parse(head.Split("version ")[1].Split(',')[0], CultureInfo.InvariantCulture);

    private static Task<(int ExitCode, string Output)> HistoryAsync(ClusterDeployment cluster, int shard, params string[] words) =>
        ProxyProcess.CommandAsync(["history", "--address", At(cluster, shard), .. words]);

    private static async Task<JsonElement> DiffAsync(ClusterDeployment cluster, params string[] options)
    {
        (int code, string said) = await ProxyProcess.CommandAsync(["diff", "--address", At(cluster, 1), "--json", .. options]);
        Assert.True(code == 0, said);
        return JsonDocument.Parse(said).RootElement;
    }

    private static string At(ClusterDeployment cluster, int shard) => $"127.0.0.1:{Text(cluster.Port(shard))}";
}
