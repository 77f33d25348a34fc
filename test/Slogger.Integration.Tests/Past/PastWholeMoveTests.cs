// The whole past of a cluster in which slots move, and into which a shard comes: at each instant each key is at one shard, none is missing,
// and what was done is told once, whoever has the slots now.
using System.Globalization;
using System.Text.Json;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Moves;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using static Slogger.Integration.Tests.Past.StoreView;

namespace Slogger.Integration.Tests.Past;

public sealed class PastWholeMoveTests
{
    private const int Shards = 4;
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(1);

    // Values are so large that checkpoints are taken meanwhile.
    private static readonly string s_padding = new('x', 6000);

    private readonly Dictionary<string, string> _now = new(StringComparer.Ordinal);
    private readonly Dictionary<string, List<string>> _done = new(StringComparer.Ordinal);
    private readonly List<Noted> _noted = [];
    private readonly RespClient[] _clients = new RespClient[Shards];
    private readonly Dictionary<string, int> _owners = [];
    private string[] _fleeting = [];
    private DateTimeOffset _expires;

    private sealed record Noted(string Version, DateTimeOffset Time, Dictionary<string, string> Keys);

    [Fact]
    public async Task SlotsThatHaveMoved_AndAJoin_TheWholePastIsWhatItWas()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, Shards - 1, usesPostgres: false, joiners: 1)
        {
            Options = ["--checkpoint-every", "1mb"],
        };
        await cluster.StartAsync();
        for (int i = 0; i < Shards - 1; i++) { _clients[i] = await cluster.ConnectAsync(i); }
        string[] moving = MovingKeys.In(0, 900, 12, "moving"), back = MovingKeys.In(901, 2000, 12, "back");
        string[] first = MovingKeys.In(2001, 5460, 12, "first"), second = MovingKeys.In(5461, 10922, 12, "second");
        string[] joins = MovingKeys.In(6000, 7000, 12, "joins"), last = MovingKeys.In(10923, 16383, 12, "last");
        string[] all = [.. moving, .. back, .. first, .. second, .. joins, .. last], fleeting = MovingKeys.In(0, 900, 3, "fleeting");

        foreach (string key in all[..60]) { await SetAsync(cluster, key, "begin"); }
        _expires = DateTimeOffset.UtcNow.AddSeconds(8);
        _fleeting = fleeting;
        foreach (string key in fleeting)
        {
            await DoAsync(cluster, key, "SET", key, "soon", "PXAT", Text(_expires.ToUnixTimeMilliseconds()));
        }
        await NoteAsync(cluster);
        await SetAsync(cluster, moving[0], "second");
        await DeleteAsync(cluster, back[0]);
        await NoteAsync(cluster);

        await MoveAsync(cluster, "0-2000", "2");
        await SetAsync(cluster, moving[0], "third");
        await SetAsync(cluster, moving[1], "found");
        await DeleteAsync(cluster, moving[2]);
        await SetAsync(cluster, back[0], "again");
        foreach (string key in all[60..]) { await SetAsync(cluster, key, "later"); }
        await NoteAsync(cluster);

        await cluster.JoinAsync();
        _clients[3] = await cluster.ConnectAsync(3);
        await MoveAsync(cluster, "6000-7000", "3");
        await SetAsync(cluster, joins[0], "joined");
        await DeleteAsync(cluster, joins[1]);
        await NoteAsync(cluster);

        // It has none then, and is still there.
        await MoveAsync(cluster, "2001-5460", "1");
        await SetAsync(cluster, first[0], "at another");
        await NoteAsync(cluster);

        await MoveAsync(cluster, "901-2000", "0");
        await DeleteAsync(cluster, moving[0]);
        await SetAsync(cluster, back[1], "back");
        await NoteAsync(cluster);
        // What has expired since was there.
        while (DateTimeOffset.UtcNow < _expires) { await Task.Delay(50); }

        // The copies for what comes next stay for a minute.
        await RollsAsync(cluster);
        await WholeIsReadAsync();
        await SnapshotsAreSoAsync(workspace, cluster);
        await DifferencesAreSoAsync(cluster);
        await HistoriesAreSoAsync(cluster, [moving[0], moving[2], back[0], joins[1], first[0], last[0]]);
        await FoundAsync(cluster, moving[1], back[1], joins[0]);
        string begin = _noted[0].Version;
        Assert.Contains("had no slots", (await _clients[3].CallAsync("DPR.ASOF", "VERSION", begin, "DBSIZE")).Text);
        Assert.StartsWith("MOVED", (await _clients[3].CallAsync("DPR.HISTORY", moving[0], "TO", begin)).Text);
        await SetBackAsync(cluster);
        foreach (RespClient client in _clients) { client.Dispose(); }
    }

    // The same at any instant, also of a time when slots were just moving, by what writers have noted.
    [Fact]
    public async Task WhileSlotsMove_EachInstantHasEachKeyOnce_WithAllThatWasAcknowledged()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 2, usesPostgres: false, joiners: 1);
        await cluster.StartAsync();
        // Enough keys that a move takes a while.
        string[] others = MovingKeys.In(0, 200, 3000, "other"), keys = MovingKeys.In(0, 200, 6, "list");
        using (RespClient one = await cluster.ConnectAsync(0))
        {
            foreach (string key in others) { await one.DoAsync("SET", key, s_padding[..100]); }
        }
        using var writers = new MovingKeys(cluster, keys);
        using var stop = new CancellationTokenSource();
        Task writing = Task.Run(() => writers.RunAsync(1, stop.Token));
        List<(string Version, long[] Least, long[] Most)> instants = [];
        Task NoteUntilAsync(Task moved) => writers.NoteUntilAsync(cluster, moved, TimeSpan.FromMilliseconds(5), instants);
        await NoteUntilAsync(Task.Delay(100));
        Task moves = MoveAsync(cluster, "0-120", "1");
        await NoteUntilAsync(Task.Delay(50));
        await IsWholeAsync(instants[^1], 2);
        await NoteUntilAsync(moves);
        await NoteUntilAsync(cluster.JoinAsync());
        await NoteUntilAsync(MoveAsync(cluster, "121-200", "2"));
        await NoteUntilAsync(MoveAsync(cluster, "60-120", "0"));
        await stop.CancelAsync();
        await writing;
        Assert.True(writers.Redirections > 0);
        foreach ((string, long[], long[]) instant in instants.Where((_, i) => i % Math.Max(1, instants.Count / 15) == 0))
        {
            await IsWholeAsync(instant, 3);
        }
        // Each push is told once.
        foreach ((string key, long pushed) in keys.Zip(writers.Counts))
        {
            JsonElement history = await JsonAsync(cluster, 2, "history", "--limit", "1000000", key);
            Assert.Equal(Enumerable.Range(1, (int)pushed).Select(n => $"RPUSH {key} {Text(n)}"), CommandsOf(history));
        }

        async Task IsWholeAsync((string Version, long[] Least, long[] Most) instant, int shards)
        {
            const string Lengths = """
                local all = {}
                for _, key in ipairs(redis.call('KEYS', '*')) do
                    all[#all + 1] = {key, redis.call('TYPE', key).ok == 'list' and redis.call('LLEN', key) or 0}
                end
                return all
                """;
            Dictionary<string, long> found = new(StringComparer.Ordinal);
            for (int i = 0; i < shards; i++)
            {
                using RespClient shard = await cluster.ConnectAsync(i);
                RespValue reply = await OfAllAsync(shard, instant.Version, "EVAL_RO", Lengths, "0");
                if (reply.IsError && reply.Text.Contains("had no slots", StringComparison.Ordinal)) { continue; }
                Assert.False(reply.IsError, reply.Text);
                foreach (RespValue key in reply.Items)
                {
                    Assert.True(found.TryAdd(key.Items[0].Text, key.Items[1].AsInteger()), $"{instant.Version}: {key.Items[0].Text} twice");
                }
            }
            for (int i = 0; i < keys.Length; i++)
            {
                Assert.InRange(found.GetValueOrDefault(keys[i]), instant.Least[i], instant.Most[i]);
            }
            Assert.Equal(others.Order(StringComparer.Ordinal), found.Keys.Except(keys).Order(StringComparer.Ordinal));
        }
    }

    // ---- What is checked ----

    private async Task WholeIsReadAsync()
    {
        foreach ((string version, _, Dictionary<string, string> keys) in _noted)
        {
            List<string> found = [];
            long size = 0;
            int asked = 0;
            foreach (RespClient client in _clients)
            {
                RespValue names = await OfAllAsync(client, version, "KEYS", "*");
                if (names.IsError && names.Text.Contains("had no slots", StringComparison.Ordinal)) { continue; }
                Assert.False(names.IsError, names.Text);
                asked++;
                found.AddRange(names.Items.Select(k => k.Text));
                size += (await OfAllAsync(client, version, "DBSIZE")).AsInteger();
            }
            Assert.Equal(size, found.Count);
            Assert.Equal(asked, (await _clients[1].DoAsync("DPR.OWNERS", "FROM", version, "TO", version)).Items.Count);
            Assert.Equal(keys.Keys.Order(StringComparer.Ordinal), found.Order(StringComparer.Ordinal));
        }
    }

    private async Task SnapshotsAreSoAsync(Workspace workspace, ClusterDeployment cluster)
    {
        List<string> taken = [];
        using var others = new Workspace();
        await using var other = new ProxyDeployment(others, new ProxySetup());
        await other.StartAsync();
        using RespClient loaded = await other.ConnectAsync();
        async Task HasAsync(string directory, Dictionary<string, string> keys)
        {
            await loaded.DoAsync("FLUSHALL");
            (int code, string told) = await ProxyProcess.CommandAsync("load", "--address",
                string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{other.Port}"), "--from", directory, "--expiries", "none");
            Assert.True(code == 0, told);
            Dictionary<string, string> found = new(StringComparer.Ordinal);
            foreach (RespValue key in (await loaded.DoAsync("KEYS", "*")).Items)
            {
                found.Add(key.Text, Short((await loaded.DoAsync("GET", key.Text)).Text));
            }
            Assert.Equal(keys.OrderBy(k => k.Key, StringComparer.Ordinal), found.OrderBy(k => k.Key, StringComparer.Ordinal));
        }
        foreach ((string version, _, Dictionary<string, string> keys) in _noted)
        {
            taken.Add(await SnapshotTests.TakeAsync(workspace, cluster.Port(2), "--version", version));
            await HasAsync(taken[^1], keys);
        }
        // Whoever had a slot at the instant asks those that had it before, or have it since.
        foreach ((int from, int to) in ((int, int)[])[(0, 1), (1, 2), (0, 5), (2, 4), (3, 5), (5, 0), (4, 2), (5, 3)])
        {
            using var apart = new Workspace();
            string delta = await SnapshotTests.TakeAsync(apart, cluster.Port(1), "--version", _noted[to].Version, "--from", taken[from]);
            await HasAsync(delta, _noted[to].Keys);
            using var above = new Workspace();
            if (to is not (0 or 5)) { continue; }
            string second = await SnapshotTests.TakeAsync(above, cluster.Port(0), "--version", _noted[5 - to].Version, "--from", delta);
            await HasAsync(second, _noted[5 - to].Keys);
        }
    }

    private async Task DifferencesAreSoAsync(ClusterDeployment cluster)
    {
        foreach ((int from, int to) in ((int, int)[])[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (1, 5), (2, 4)])
        {
            (Dictionary<string, string> before, Dictionary<string, string> after) = (_noted[from].Keys, _noted[to].Keys);
            JsonElement diff = await JsonAsync(cluster, 3, "diff", "--from", _noted[from].Version, "--to", _noted[to].Version);
            // An expiry counts if Redis has noticed it by then.
            string[] found = [.. diff.GetProperty("keys").EnumerateArray().Where(k => !_fleeting.Contains(k.GetProperty("key").GetString()))
                .Select(k => $"{k.GetProperty("key").GetString()} {k.GetProperty("change").GetString()}")];
            string[] expected = [.. before.Keys.Union(after.Keys).Except(_fleeting)
                .Where(k => before.GetValueOrDefault(k) != after.GetValueOrDefault(k))
                .Select(k => $"{k} {(!before.ContainsKey(k) ? "new" : !after.ContainsKey(k) ? "gone" : "changed")}")
                .Order(StringComparer.Ordinal)];
            Assert.Equal(expected, found.Order(StringComparer.Ordinal));
        }
    }

    private async Task HistoriesAreSoAsync(ClusterDeployment cluster, string[] keys)
    {
        foreach (string key in keys)
        {
            JsonElement history = await JsonAsync(cluster, 3, "history", key);
            Assert.Equal(_done[key], CommandsOf(history).Select(Short));
            // The newest, and how many there are before, whoever did them.
            history = await JsonAsync(cluster, 0, "history", "--limit", "1", key);
            Assert.Equal(_done[key][^1], Short(CommandsOf(history).Single()));
            Assert.Equal(_done[key].Count - 1, history.GetProperty("left_out").GetInt32());
            history = await JsonAsync(cluster, 0, "history", "--from", _noted[1].Version, "--to", _noted[4].Version, "--values", key);
            foreach (JsonElement command in history.GetProperty("commands").EnumerateArray())
            {
                Assert.InRange(command.GetProperty("version").GetInt64(), Number(_noted[1].Version) + 1, Number(_noted[4].Version));
            }
        }
    }

    private async Task FoundAsync(ClusterDeployment cluster, string moved, string back, string joined)
    {
        foreach ((string key, string value, int phase) in ((string, string, int)[])[(moved, "found", 2), (back, "back", 5),
            (joined, "joined", 3)])
        {
            JsonElement found = await JsonAsync(cluster, 1, "find", "--from", _noted[0].Version, "--when",
                $"string.sub(redis.call('GET', KEYS[1]) or '', 1, {value.Length + 1}) == '{value}:'", key);
            IsBetween(found, phase);
            Assert.Equal($"SET {key} {value}", Short(CommandsOf(found).Single()));
        }
        // Keys of several slots, that were at one shard for a time, in all that is kept: at a version that all their shards have closed.
        JsonElement all = await JsonAsync(cluster, 1, "find", "--when",
            "string.sub(redis.call('GET', KEYS[1]) or '', 1, 6) == 'found:' and 1 or 0", "--sum", "== 1", moved, back, joined);
        Assert.True(all.GetProperty("at").GetProperty("version").GetInt64() > Number(_noted[1].Version));
    }

    private async Task RollsAsync(ClusterDeployment cluster)
    {
        string[] range = ["--from", _noted[1].Version, "--to", _noted[^1].Version];
        // More than there were, first in the third phase: not by what a move brings.
        int before = _noted[1].Keys.Keys.Except(_fleeting).Count();
        const string when = "local n = 0 for _, k in ipairs(redis.call('KEYS', '*')) do if string.sub(k, 1, 8) ~= 'fleeting' then "
            + "n = n + 1 end end return n";
        foreach (string how in (string[])["--first", "--bisect"])
        {
            JsonElement found = await JsonAsync(cluster, 0, ["find", "--when", when, "--sum", $"> {before}", how, .. range]);
            IsBetween(found, 2);
            Assert.NotEmpty(CommandsOf(found));
            Assert.All(CommandsOf(found), c => Assert.Contains(c.Split(' ')[0], (string[])["SET", "DEL"]));
        }
        // What a shard without slots has is nothing: it is not asked. By then the others have some.
        (int code, string said) = await ProxyProcess.CommandAsync(["find", "--address", At(cluster, 0), "--when",
            "redis.call('DBSIZE') == 0", "--first", "--from", _noted[2].Version, "--to", _noted[^1].Version]);
        Assert.True(code == 1 && said.Contains("was true at no version", StringComparison.Ordinal), said);

        const string Count = """
            n=0; for s in "$SLOGGER_SOCKET_0" "$SLOGGER_SOCKET_1" "$SLOGGER_SOCKET_2" "$SLOGGER_SOCKET_3"; do
              n=$((n + $(redis-cli -s "$s" --raw eval_ro "local n = 0 for _, k in ipairs(redis.call('KEYS', '*')) do
                if string.sub(k, 1, 8) ~= 'fleeting' then n = n + 1 end end return n" 0)))
            done; echo "at $SLOGGER_VERSION: $n"
            """;
        string step = Text((long)((_noted[^1].Time - _noted[1].Time).TotalMilliseconds / 20)) + "ms";
        (code, said) = await ProxyProcess.CommandAsync(["roll", "--address", At(cluster, 0), "--step", step, "--exec", Count, .. range]);
        Assert.True(code == 0, said);
        (long Version, int Keys)[] counted = [.. said.Split('\n').Where(l => l.StartsWith("at ", StringComparison.Ordinal))
            .Select(l => l[3..].Split(": ")).Select(l => (Number(l[0]), (int)Number(l[1])))];
        Assert.NotEmpty(counted);
        foreach ((long version, int keys) in counted)
        {
            int at = _noted.FindLastIndex(n => Number(n.Version) <= version);
            int[] around = [.. _noted.Skip(at).Take(2).Select(n => n.Keys.Keys.Except(_fleeting).Count())];
            // One is deleted, in some of the phases, before others come.
            Assert.InRange(keys, around.Min() - 1, around.Max());
        }
    }

    // Each shard writes what another had, too.
    private async Task SetBackAsync(ClusterDeployment cluster)
    {
        foreach (int to in (int[])[0, 3, 5])
        {
            (int code, string said) = await ProxyProcess.CommandAsync("reset", "--address", At(cluster, 1), "--to", _noted[to].Version);
            Assert.True(code == 0, said);
            Dictionary<string, string> found = new(StringComparer.Ordinal);
            for (int i = 0; i < Shards; i++)
            {
                _clients[i].Dispose();
                _clients[i] = await cluster.ConnectAsync(i);
                foreach (RespValue key in (await _clients[i].DoAsync("KEYS", "*")).Items)
                {
                    found.Add(key.Text, Short((await _clients[i].DoAsync("GET", key.Text)).Text));
                }
            }
            Assert.Equal(_noted[to].Keys.Where(k => !_fleeting.Contains(k.Key)).OrderBy(k => k.Key, StringComparer.Ordinal),
                found.OrderBy(k => k.Key, StringComparer.Ordinal));
        }
    }

    private void IsBetween(JsonElement found, int phase) => Assert.InRange(found.GetProperty("at").GetProperty("version").GetInt64(),
        Number(_noted[phase - 1].Version) + 1, Number(_noted[phase].Version));

    // ---- What is done ----

    private async Task SetAsync(ClusterDeployment cluster, string key, string value)
    {
        await DoAsync(cluster, key, "SET", key, $"{value}:{s_padding}");
        _now[key] = value;
        Note(key, $"SET {key} {value}");
    }

    private async Task DeleteAsync(ClusterDeployment cluster, string key)
    {
        await DoAsync(cluster, key, "DEL", key);
        _now.Remove(key);
        Note(key, $"DEL {key}");
    }

    private void Note(string key, string command)
    {
        if (!_done.TryGetValue(key, out List<string>? done)) { _done[key] = done = []; }
        done.Add(command);
    }

    private async Task NoteAsync(ClusterDeployment cluster)
    {
        JsonElement got = await JsonAsync(cluster, 0, "get", "--ago", "0s", "any");
        Dictionary<string, string> keys = new(_now, StringComparer.Ordinal);
        DateTimeOffset time = got.GetProperty("time").GetDateTimeOffset();
        foreach (string key in time < _expires ? _fleeting : []) { keys.Add(key, "soon"); }
        _noted.Add(new(Text(got.GetProperty("version").GetInt64()), time, keys));
    }

    // To a shard that may be about to join.
    private static Task MoveAsync(ClusterDeployment cluster, string slots, string to) =>
        Eventually.AsyncTrue($"slots {slots} are at shard {to}", s_limit, async () =>
        {
            (int code, string said) = await cluster.MoveAsync("--slots", slots, "--to", to);
            Assert.True(code == 0 || said.Contains("has not joined", StringComparison.Ordinal), said);
            return code == 0;
        });

    private Task DoAsync(ClusterDeployment cluster, string key, params string[] command) =>
        Eventually.AsyncTrue($"{key} is written", s_limit, async () =>
        {
            RespValue reply = await _clients[_owners.GetValueOrDefault(key)].CallAsync(command);
            if (!reply.IsError) { return true; }
            Assert.StartsWith("MOVED ", reply.Text);
            _owners[key] = cluster.ShardAt((int)Number(reply.Text.Split(':')[^1]));
            return false;
        });

    private static async Task<JsonElement> JsonAsync(ClusterDeployment cluster, int shard, params string[] command)
    {
        (int code, string said) = await ProxyProcess.CommandAsync([command[0], "--address", At(cluster, shard), "--json", .. command[1..]]);
        Assert.True(code == 0, $"{string.Join(' ', command)}: {said}");
        return JsonDocument.Parse(said[said.IndexOf('{', StringComparison.Ordinal)..]).RootElement;
    }

    private static string[] CommandsOf(JsonElement report) => [.. report.GetProperty("commands").EnumerateArray().Select(c =>
        string.Join(' ', c.GetProperty("command").EnumerateArray().Select(w => w.GetString())))];

    private static string Short(string padded) => padded.Replace($":{s_padding}", "", StringComparison.Ordinal);

    private static string At(ClusterDeployment cluster, int shard) => $"127.0.0.1:{Text(cluster.Port(shard))}";

    private static long Number(string text) => long.Parse(text, CultureInfo.InvariantCulture);
}
