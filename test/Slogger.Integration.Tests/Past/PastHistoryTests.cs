// What DPR.HISTORY says was done to a key is what clients did, as Redis has told it: in order, once, and no more after a recovery than
// has survived it. DPR.CHANGED names the keys. DPR.LOST tells the rest. And who is told none of it.
using System.Globalization;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using static Slogger.Integration.Tests.Past.StoreView;

namespace Slogger.Integration.Tests.Past;

public sealed class PastHistoryTests(PastReadTests.OneProxy shared) : IClassFixture<PastReadTests.OneProxy>
{
    private const long CountMax = 10_000;
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(2);

    private sealed record Entry(long Version, long TimeUs, long WorldLine, long Place, string Command);

    private sealed record History(long From, long To, long LeftOut, IReadOnlyList<Entry> Entries)
    {
        public IEnumerable<string> Commands => Entries.Select(e => e.Command);
    }

    [Fact]
    public async Task Key_EveryKindOfEffect_IsToldInOrder()
    {
        using RespClient client = await shared.Deployment.ConnectAsync();
        long expires = DateTimeOffset.UtcNow.AddHours(1).ToUnixTimeMilliseconds();
        string[][] commands =
        [
            ["SET", "e:k", "1"], ["INCR", "e:k"], ["MSET", "e:other", "6", "e:k", "5"], ["GET", "e:k"], ["SET", "e:other", "7"],
            ["PEXPIREAT", "e:k", Text(expires)], ["RENAME", "e:k", "e:moved"], ["APPEND", "e:moved", "x"], ["RENAME", "e:moved", "e:k"],
            ["COPY", "e:k", "e:copy"], ["COPY", "e:copy", "e:k", "REPLACE"], ["LPUSH", "e:k", "wrong type"],
            ["EVAL", "redis.call('SET', KEYS[1], 'by a script') redis.call('DEL', KEYS[2])", "2", "e:k", "e:copy"],
            ["MULTI"], ["SETRANGE", "e:k", "0", "B"], ["SET", "e:other", "8"], ["PERSIST", "e:k"], ["EXEC"],
            ["DEL", "e:k", "e:moved"], ["RPUSH", "e:k", "a", "b"], ["LMOVE", "e:k", "e:list", "LEFT", "RIGHT"],
            ["LMOVE", "e:list", "e:k", "LEFT", "RIGHT"], ["SORT", "e:k", "ALPHA", "BY", "none*", "STORE", "e:k"], ["DEL", "e:k"],
            ["SELECT", "3"], ["SET", "e:k", "of another database"], ["FLUSHDB"], ["SELECT", "0"],
            ["SET", "e:k", "short", "PX", "30"],
        ];
        foreach (string[] command in commands) { await client.CallAsync(command); }
        await Eventually.AsyncTrue("the key expires", s_limit, async () => (await client.DoAsync("GET", "e:k")).IsNull);
        History history = await HistoryAsync(client, "e:k");
        string[] told =
        [
            "SET e:k 1", "INCR e:k", "MSET e:other 6 e:k 5", $"PEXPIREAT e:k {expires}", "RENAME e:k e:moved", "RENAME e:moved e:k",
            "COPY e:k e:copy", "COPY e:copy e:k REPLACE", "SET e:k by a script", "SETRANGE e:k 0 B", "DEL e:k e:moved",
            "RPUSH e:k a b", "LMOVE e:k e:list LEFT RIGHT", "LMOVE e:list e:k LEFT RIGHT",
            // What it may have read is not known: only its name is told.
            "SORT", "DEL e:k", "SET e:k short PXAT", "DEL e:k",
        ];
        Assert.Equal(told, history.Commands.Select(c => c.StartsWith("SET e:k short PXAT", StringComparison.Ordinal)
            ? "SET e:k short PXAT" : c));
        Assert.Equal(0, history.LeftOut);
        Assert.True(Rises(history.Entries.Select(e => e.Version), strictly: false) && Rises(history.Entries.Select(e => e.Place), true));
        Assert.All(history.Entries, e => Assert.InRange(e.Version, history.From + 1, history.To));
        foreach (Entry entry in history.Entries.DistinctBy(e => e.Version))
        {
            RespValue at = await client.DoAsync("DPR.ASOF", "VERSION", Text(entry.Version));
            Assert.Equal((entry.WorldLine, entry.Version, entry.TimeUs),
                (at.Items[0].AsInteger(), at.Items[1].AsInteger(), at.Items[2].AsInteger()));
        }
        Assert.Equal(["COPY e:k e:copy", "COPY e:copy e:k REPLACE", "DEL e:copy"], (await HistoryAsync(client, "e:copy")).Commands);

        await client.DoAsync("SELECT", "3");
        Assert.Equal(["SET e:k of another database", "FLUSHDB"], (await HistoryAsync(client, "e:k")).Commands);
    }

    [Fact]
    public async Task Count_TheNewestAreTold_AndThoseBeforeThemPageByPage()
    {
        using RespClient client = await shared.Deployment.ConnectAsync();
        const int Writes = 300;
        List<string> written = [];
        string middle = "";
        for (int i = 0; i < Writes; i++)
        {
            await client.DoAsync("SET", "p:k", Text(i));
            await client.DoAsync("SET", $"p:{i}", "other");
            written.Add($"SET p:k {i}");
            if (i == Writes / 3) { middle = await VersionNowAsync(client); }
        }
        string last = await VersionNowAsync(client);
        History all = await HistoryAsync(client, "p:k", "COUNT", Text(CountMax));
        Assert.Equal(written, all.Commands);
        History newest = await HistoryAsync(client, "p:k", "COUNT", "7");
        Assert.Equal((Writes - 7, all.From), (newest.LeftOut, newest.From));
        List<string> paged = [];
        History page = newest;
        while (true)
        {
            paged.InsertRange(0, page.Commands);
            Assert.Equal(Writes - paged.Count, page.LeftOut);
            if (page.LeftOut == 0) { break; }
            page = await HistoryAsync(client, "p:k", "COUNT", "7", "BEFORE", Text(page.Entries[0].Place));
        }
        Assert.Equal(written, paged);
        Assert.Equal(100, (await HistoryAsync(client, "p:k")).Entries.Count);

        History until = await HistoryAsync(client, "p:k", "COUNT", Text(CountMax), "TO", middle);
        History since = await HistoryAsync(client, "p:k", "COUNT", Text(CountMax), "FROM", middle, "TO", last);
        Assert.Equal(written.Take((Writes / 3) + 1), until.Commands);
        Assert.Equal(written.Skip((Writes / 3) + 1), since.Commands);
        Assert.Equal((middle, last), (Text(since.From), Text(since.To)));
        Assert.Empty((await HistoryAsync(client, "p:k", "FROM", last, "TO", last)).Entries);
    }

    // In one version there may be more than fits.
    [Fact]
    public async Task LargeArguments_AReplyIsBounded_AndThePagesHaveAll()
    {
        using RespClient client = await shared.Deployment.ConnectAsync();
        await client.DoAsync("EVAL", "for i = 1, 20 do redis.call('SET', KEYS[1], string.rep(string.char(64 + i), 1000000)) end", "1",
            "b:k");
        List<string> paged = [];
        History page = await HistoryAsync(client, "b:k");
        Assert.InRange(page.Entries.Count, 1, 4);
        while (true)
        {
            paged.InsertRange(0, page.Commands);
            if (page.LeftOut == 0) { break; }
            page = await HistoryAsync(client, "b:k", "BEFORE", Text(page.Entries[0].Place));
        }
        Assert.Equal(Enumerable.Range(1, 20).Select(i => "SET b:k " + new string((char)(64 + i), 1_000_000)), paged);
    }

    [Fact]
    public async Task Changed_AllKeysThatWereNamed_OverAllPages()
    {
        using RespClient client = await shared.Deployment.ConnectAsync();
        await client.DoAsync("SET", "c:before", "x");
        string from = await VersionNowAsync(client);
        HashSet<string> named = [];
        for (int i = 0; i < 200; i++)
        {
            string[] command = (i % 4) switch
            {
                0 => ["MSET", $"c:{i}", "1", $"c:{i}:b", "2"],
                1 => ["RENAME", $"c:{i - 1}", $"c:{i}:to"],
                2 => ["DEL", $"c:{i}", $"c:{i - 2}:b"],
                _ => ["SUNIONSTORE", $"c:{i}:u", $"c:{i}:s"],
            };
            await client.DoAsync(command);
            // A union of nothing has no effect: it is not in the log.
            if (i % 4 < 3) { named.UnionWith(command.Where(w => w.StartsWith("c:", StringComparison.Ordinal))); }
            if (i % 10 == 0) { await VersionNowAsync(client); }
        }
        string to = await VersionNowAsync(client);
        await client.DoAsync("SET", "c:behind", "x");
        List<string> told = [];
        int pages = 0;
        for (string at = from; at != to; pages++)
        {
            RespValue page = await client.DoAsync("DPR.CHANGED", "FROM", at, "TO", to, "COUNT", "20");
            Assert.Equal(page.Items[1].Items.Select(k => k.Text).Distinct().Count(), page.Items[1].Items.Count);
            told.AddRange(page.Items[1].Items.Select(k => k.Text));
            at = page.Items[0].Text;
        }
        Assert.InRange(pages, 3, 20);
        Assert.Equal(named.Order(StringComparer.Ordinal), told.Distinct().Order(StringComparer.Ordinal));
        Assert.Empty((await client.DoAsync("DPR.CHANGED", "FROM", to, "TO", to)).Items[1].Items);
        // Whether or not a version was closed by itself: asked for up to it, one is told up to it.
        (long first, long last) = (long.Parse(from, CultureInfo.InvariantCulture), long.Parse(to, CultureInfo.InvariantCulture));
        for (long version = first; version < last; version += Math.Max(1, (last - first) / 50))
        {
            RespValue early = await client.DoAsync("DPR.CHANGED", "FROM", from, "TO", Text(version), "COUNT", Text(CountMax));
            Assert.Equal(version, early.Items[0].AsInteger());
        }

        await client.DoAsync("SELECT", "2");
        Assert.Empty((await client.DoAsync("DPR.CHANGED", "FROM", from, "TO", to)).Items[1].Items);
    }

    [Fact]
    public async Task Changed_AcrossWhatIsNotConfinedToKeys_IsRefusedByName()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        foreach (string command in (string[])["FLUSHALL", "FLUSHDB", "SWAPDB 0 1"])
        {
            await client.DoAsync("SET", "k", "1");
            string from = await VersionNowAsync(client);
            await client.DoAsync(command.Split(' '));
            await client.DoAsync("SET", "k", "2");
            string to = await VersionNowAsync(client);
            Assert.Contains($"{command.Split(' ')[0]} in version", (await client.CallAsync("DPR.CHANGED", "FROM", from, "TO", to)).Text);
            await client.DoAsync("SET", "k", "3");
            string behind = await VersionNowAsync(client);
            Assert.Equal("k", Assert.Single((await client.DoAsync("DPR.CHANGED", "FROM", to, "TO", behind)).Items[1].Items).Text);
        }
        Assert.Equal(["FLUSHALL", "FLUSHDB", "SWAPDB"], (await HistoryAsync(client, "never there")).Commands);
    }

    [Theory]
    [InlineData("it is DPR.HISTORY key", "DPR.HISTORY")]
    [InlineData("it is DPR.HISTORY key", "DPR.HISTORY", "k", "FROM")]
    [InlineData("it is DPR.HISTORY key", "DPR.HISTORY", "k", "FROM", "1", "FROM", "2")]
    [InlineData("it is DPR.HISTORY key", "DPR.HISTORY", "k", "SINCE", "1")]
    [InlineData("it is DPR.HISTORY key", "DPR.HISTORY", "k", "COUNT", "0")]
    [InlineData("it is DPR.HISTORY key", "DPR.HISTORY", "k", "COUNT", "10001")]
    [InlineData("it is DPR.HISTORY key", "DPR.HISTORY", "k", "BEFORE", "-1")]
    [InlineData("is not kept: the log of this shard goes back to version", "DPR.HISTORY", "k", "FROM", "0")]
    [InlineData("is not kept: the log of this shard goes back to version", "DPR.HISTORY", "k", "TO", "0")]
    [InlineData("is not committed", "DPR.HISTORY", "k", "TO", "99999999999999")]
    [InlineData("it is DPR.CHANGED FROM", "DPR.CHANGED")]
    [InlineData("it is DPR.CHANGED FROM", "DPR.CHANGED", "FROM", "1")]
    [InlineData("it is DPR.CHANGED FROM", "DPR.CHANGED", "FROM", "1", "TO", "x")]
    [InlineData("it is DPR.CHANGED FROM", "DPR.CHANGED", "FROM", "1", "TO", "2", "COUNT", "0")]
    [InlineData("is not kept: the log of this shard goes back to version", "DPR.CHANGED", "FROM", "0", "TO", "1")]
    public async Task BadQuestion_IsRefusedByName_AndTheConnectionGoesOn(string why, params string[] question)
    {
        using RespClient client = await shared.Deployment.ConnectAsync();
        await VersionNowAsync(client);
        RespValue refusal = await client.CallAsync(question);
        Assert.True(refusal.IsError, refusal.Compact);
        Assert.Contains(why, refusal.Text);
        Assert.Equal("PONG", (await client.DoAsync("PING")).Text);
    }

    [Theory]
    [InlineData("DPR.HISTORY", "k")]
    [InlineData("DPR.CHANGED", "FROM", "1", "TO", "2")]
    public async Task Connection_SubscribedOrInATransaction_IsRefused(params string[] question)
    {
        using RespClient subscribed = await shared.Deployment.ConnectAsync(), queueing = await shared.Deployment.ConnectAsync();
        await subscribed.CallAsync("SUBSCRIBE", "news");
        Assert.Contains($"Can't execute '{question[0].ToLowerInvariant()}'", (await subscribed.CallAsync(question)).Text);
        await queueing.DoAsync("MULTI");
        Assert.Contains($"{question[0]} cannot be queued", (await queueing.CallAsync(question)).Text);
        using RespClient client = await shared.Deployment.ConnectAsync();
        string now = await VersionNowAsync(client);
        Assert.Contains("is behind version",
            (await client.CallAsync("DPR.CHANGED", "FROM", now, "TO", Text(long.Parse(now, CultureInfo.InvariantCulture) - 1))).Text);
    }

    [Fact]
    public async Task WithoutALog_IsRefusedByName()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup { Commit = "none" });
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        Assert.Contains("DPR.HISTORY needs --commit log", (await client.CallAsync("DPR.HISTORY", "k")).Text);
        Assert.Contains("DPR.CHANGED needs --commit log", (await client.CallAsync("DPR.CHANGED", "FROM", "1", "TO", "2")).Text);
    }

    [Fact]
    public async Task User_IsToldOfKeysThatItMayRead_AndOfOthersNothing()
    {
        using RespClient admin = await shared.Deployment.ConnectAsync(), user = await shared.Deployment.ConnectAsync();
        string from = await VersionNowAsync(admin);
        await admin.DoAsync("SET", "mine:1", "a");
        await admin.DoAsync("MSET", "mine:1", "b", "yours:1", "secret value");
        await admin.DoAsync("RENAME", "mine:1", "mine:2");
        await admin.DoAsync("COPY", "yours:1", "mine:1");
        string to = await VersionNowAsync(admin);
        await admin.DoAsync("ACL", "SETUSER", "narrow", "on", ">secret", "~mine:*", "+@read", "-scan", "+ping");
        await user.DoAsync("AUTH", "narrow", "secret");
        Assert.Equal(["SET mine:1 a", "MSET", "RENAME mine:1 mine:2", "COPY"], (await HistoryAsync(user, "mine:1")).Commands);
        Assert.Equal(["SET mine:1 a", "MSET mine:1 b yours:1 secret value", "RENAME mine:1 mine:2", "COPY yours:1 mine:1"],
            (await HistoryAsync(admin, "mine:1")).Commands);
        RespValue refused = await user.CallAsync("DPR.HISTORY", "yours:1");
        Assert.True(refused.IsError);
        Assert.StartsWith("NOPERM", refused.Text);
        Assert.StartsWith("NOPERM", (await user.CallAsync("DPR.CHANGED", "FROM", from, "TO", to)).Text);
        await admin.DoAsync("ACL", "SETUSER", "narrow", "+scan");
        Assert.Equal(["mine:1", "mine:2", "yours:1"], (await user.DoAsync("DPR.CHANGED", "FROM", from, "TO", to)).Items[1].Items
            .Select(k => k.Text).Where(k => k.Contains(':', StringComparison.Ordinal)).Order(StringComparer.Ordinal));
    }

    // It needs no second redis-server.
    [Fact]
    public async Task RedisRunByOthers_IsAnswered()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true));
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        string from = await VersionNowAsync(client);
        await client.DoAsync("SET", "k", "1");
        string to = await VersionNowAsync(client);
        Assert.Equal(["SET k 1"], (await HistoryAsync(client, "k")).Commands);
        Assert.Equal("k", Assert.Single((await client.DoAsync("DPR.CHANGED", "FROM", from, "TO", to)).Items[1].Items).Text);
    }

    [Fact]
    public async Task Recovery_WhatItTookBack_IsInNoHistory()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup { VersionInterval = "100ms" });
        await deployment.StartAsync();
        List<string> survived = [];
        int lost = 0, told = 0;
        for (int round = 0; round < 3 || (lost == 0 && round < 20); round++)
        {
            using (RespClient client = await deployment.ConnectAsync())
            {
                for (int i = 0; i < 200; i++)
                {
                    await client.DoAsync("SET", "k", $"{round}.{i}");
                    survived.Add($"SET k {round}.{i}");
                    if (i == 50) { await VersionNowAsync(client); }
                }
            }
            await deployment.KillRedisAsync();
            await deployment.RecoverAsync();
            using RespClient again = await deployment.ConnectAsync();
            int last = survived.IndexOf($"SET k {(await again.DoAsync("GET", "k")).Text}");
            lost += survived.Count - 1 - last;
            string line = Text((await again.DoAsync("DPR.CUT")).Items[0].AsInteger());
            string[] taken = [.. await LostAsync(again, line)];
            // Of the last ones Redis may not have told.
            Assert.Equal(survived.Skip(last + 1).Take(taken.Length), taken);
            Assert.Equal(taken, await LostAsync(again, line, pages: 7));
            told += taken.Length;
            survived.RemoveRange(last + 1, survived.Count - 1 - last);
            (int code, string shown) = await ProxyProcess.CommandAsync(
                "diff", "--address", $"127.0.0.1:{Text(deployment.Port)}", "--lost", line);
            Assert.True(code == 0, shown);
            Assert.Equal(taken, shown.Split('\n').Where(s => s.Contains("SET k ", StringComparison.Ordinal))
                .Select(s => s[s.IndexOf("SET k ", StringComparison.Ordinal)..].TrimEnd()));
            Assert.Contains($"# {taken.Length} commands were taken back", shown);
            Assert.Equal(survived, (await HistoryAsync(again, "k", "COUNT", Text(CountMax))).Commands);
        }
        Assert.True(lost > 0, "no recovery has taken anything back");
        Assert.True(told > 0, $"of {lost} writes that were taken back none is told");
        using RespClient behind = await deployment.ConnectAsync();
        foreach ((string why, string[] question) in ((string, string[])[])[("it is DPR.LOST", []), ("it is DPR.LOST", ["0"]),
            ("it is DPR.LOST", ["2", "FROM"]), ("NOTKEPT what world-line 1 took back is not kept", ["1"]), ("has not begun", ["999"])])
        {
            Assert.Contains(why, (await behind.CallAsync(["DPR.LOST", .. question])).Text);
        }
        await behind.DoAsync("ACL", "SETUSER", "narrow", "on", ">secret", "~*", "+@all", "-sync");
        using (RespClient narrow = await deployment.ConnectAsync())
        {
            await narrow.DoAsync("AUTH", "narrow", "secret");
            Assert.StartsWith("NOPERM", (await narrow.CallAsync("DPR.LOST", "2")).Text);
        }
        await behind.DoAsync("SET", "k", "afterwards");
        await VersionNowAsync(behind);
        History history = await HistoryAsync(behind, "k", "COUNT", Text(CountMax));
        Assert.Equal([.. survived, "SET k afterwards"], history.Commands);
        Assert.True(Rises(history.Entries.Select(e => e.WorldLine), strictly: false));
        Assert.True(history.Entries[^1].WorldLine > history.Entries[0].WorldLine);
    }

    private static async Task<IEnumerable<string>> LostAsync(RespClient client, string line, int pages = 10_000)
    {
        List<string> commands = [];
        for (long from = 0; ;)
        {
            RespValue reply = await client.DoAsync("DPR.LOST", line, "FROM", Text(from), "COUNT", Text(pages));
            Assert.InRange(reply.Items[3].Items.Count, 0, pages);
            commands.AddRange(reply.Items[3].Items.Select(c => string.Join(' ', c.Items[3].Items.Select(w => w.Text))));
            from = reply.Items[2].AsInteger();
            if (from == 0) { return commands; }
        }
    }

    [Fact]
    public async Task TrimmedLog_HistoryBeginsWithTheOldestVersionThatIsKept()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup
        {
            Options = ["--checkpoint-every", "1mb", "--log-budget", "4mb"],
        });
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        List<string> written = [];
        string first = await VersionNowAsync(client);
        RespValue refusal = RespValue.Null;
        // Until the first version is gone.
        await Eventually.AsyncTrue("the log is trimmed", s_limit, async () =>
        {
            for (int i = 0; i < 50; i++)
            {
                written.Add($"SET k {written.Count}");
                await client.DoAsync("SET", "k", Text(written.Count - 1));
                await client.DoAsync("SET", "other", new string('x', 10_000));
            }
            refusal = await client.CallAsync("DPR.HISTORY", "k", "FROM", first);
            return refusal.IsError;
        });
        Assert.Contains($"version {first} is not kept: the log of this shard goes back to version ", refusal.Text);
        History history = await HistoryAsync(client, "k", "COUNT", Text(CountMax), "TO", await VersionNowAsync(client));
        Assert.InRange(history.Entries.Count, 1, written.Count - 1);
        Assert.Equal(written.TakeLast(history.Entries.Count), history.Commands);
        // The version with which it begins can be shown, too.
        long before = long.Parse(history.Entries[0].Command.Split(' ')[2], CultureInfo.InvariantCulture) - 1;
        Assert.Equal(Text(before), (await client.DoAsync("DPR.ASOF", "VERSION", Text(history.From), "GET", "k")).Text);
    }

    private static async Task<History> HistoryAsync(RespClient client, string key, params string[] options)
    {
        string[] to = options.Contains("TO") ? [] : ["TO", await VersionNowAsync(client)];
        RespValue reply = await client.DoAsync(["DPR.HISTORY", key, .. options, .. to]);
        return new(reply.Items[0].AsInteger(), reply.Items[1].AsInteger(), reply.Items[2].AsInteger(), [.. reply.Items[3].Items.Select(e =>
            new Entry(e.Items[0].AsInteger(), e.Items[1].AsInteger(), e.Items[2].AsInteger(), e.Items[3].AsInteger(),
                CommandOf(e.Items[4].Items)))]);
    }

    // Scripts write names as they like.
    private static string CommandOf(IEnumerable<RespValue> words) =>
        string.Join(' ', words.Select((w, i) => i == 0 ? w.Text.ToUpperInvariant() : w.Text));

    private static bool Rises(IEnumerable<long> numbers, bool strictly) =>
        numbers.Zip(numbers.Skip(1)).All(p => strictly ? p.First < p.Second : p.First <= p.Second);
}
