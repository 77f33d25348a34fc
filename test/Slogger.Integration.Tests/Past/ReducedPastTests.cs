// The past behind what is kept in detail: reduced, it gives what was there, at about one version in each step. What the log has of it is
// deleted when the reduced files are whole, whenever the process is killed.
using System.Globalization;
using System.Text.Json;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Integration.Tests.Workload;

namespace Slogger.Integration.Tests.Past;

public sealed class ReducedPastTests(ITestOutputHelper output)
{
    private const int Killed = 137;

    private static readonly int s_rounds = int.TryParse(
        Environment.GetEnvironmentVariable("SLOGGER_TEST_ROUNDS"), CultureInfo.InvariantCulture, out int n) ? n : 4;

    private static readonly string[] s_steps = ["reduced-written", "reduced-durable", "reduced-trimmed"];
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(2);
    private static readonly string s_filler = new('x', 100_000);
    private static readonly string[] s_options =
    [
        "--checkpoint-every", "1mb", "--log-budget", "16gb", "--retention", "1h", "--retention-detail", "1s", "--retention-step", "20ms",
    ];

    // Whatever Redis has, as clients read it then.
    [Fact]
    public async Task RandomCommands_BehindTheDetail_SnapshotsHoldWhatWasThere()
    {
        int seed = TestSeed.Choose(output);
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup { Options = s_options });
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        var commands = new RandomCommands(seed);
        List<(long Version, List<Seen> Keys)> moments = [];
        for (int i = 0; i < 6; i++)
        {
            for (int n = 0; n < 200; n++)
            {
                foreach (string[] command in commands.Next()) { await client.CallAsync(command); }
                if (n % 4 == 0) { await client.CallAsync("DISCARD"); }
                if (n % 4 == 0) { await client.CallAsync("SET", "filler", s_filler); }
            }
            await client.CallAsync("DISCARD");
            await client.DoAsync("SELECT", "0");
            // A step lies between the last write and the version, and between that and the next write.
            await Task.Delay(100);
            await client.DoAsync("WAITAOF", "1", "0", "0");
            // Nobody is said to look at the past.
            moments.Add(((await FieldsAsync(client))["committed_version"], await StoreContents.ReadAllAsync(client)));
            await Task.Delay(100);
        }
        await UntilReducedAsync(client, moments[^1].Version);
        foreach ((long version, List<Seen> keys) in moments)
        {
            string directory = await SnapshotTests.TakeAsync(workspace, deployment.Port, "--version", Text(version));
            using RedisProcess redis = await RedisProcess.StartAsync(workspace.Folder($"plain-{version}"),
                "--dir", directory, "--dbfilename", "shard-0.rdb");
            using RespClient plain = await redis.ConnectAsync();
            SnapshotTests.AssertSame(keys, await StoreContents.ReadAllAsync(plain));
        }
        // What needs each command says from when on there is each.
        foreach (string[] command in (string[][])[
            ["history", "filler", "--from", Text(moments[0].Version)], ["diff", "--from", Text(moments[0].Version)]])
        {
            (int code, string told) = await CommandAsync(deployment, command);
            Assert.NotEqual(0, code);
            Assert.Contains("is kept as a state only, and not each command since: these are kept from version", told);
        }
        (int done, string history) = await CommandAsync(deployment, "history", "filler");
        Assert.True(done == 0, history);
        (done, string reach) = await CommandAsync(deployment, "retention");
        Assert.True(done == 0, reach);
        Assert.Contains("in detail", reach);
        (done, reach) = await CommandAsync(deployment, "retention", "--json");
        JsonElement shard = JsonDocument.Parse(reach).RootElement.GetProperty("shards")[0];
        Assert.Equal((1000, 20), (shard.GetProperty("detail_promised_ms").GetInt64(), shard.GetProperty("step_ms").GetInt64()));
        Assert.True(shard.GetProperty("from_version").GetInt64() <= moments[0].Version);
        Assert.True(shard.GetProperty("detail_from_version").GetInt64() > moments[^1].Version);
    }

    [Theory]
    [InlineData("reduced-written")]
    [InlineData("reduced-durable")]
    [InlineData("reduced-trimmed")]
    public async Task ProcessIsKilled_EveryMomentStaysReadable(string point)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup { Options = s_options });
        await deployment.StartAsync();
        List<(long Version, int Value)> moments = [];
        int value = 0;
        using (RespClient client = await deployment.ConnectAsync())
        {
            for (int i = 0; i < 10; i++) { moments.Add((await WriteAsync(client, ++value), value)); }
        }
        await deployment.Proxy.TerminateAsync();
        await deployment.StartProxyAsync(new Dictionary<string, string> { ["SLOGGER_TEST_FAILPOINT"] = point });
        using (RespClient client = await deployment.ConnectAsync())
        {
            try
            {
                for (long until = Environment.TickCount64 + 60_000; Environment.TickCount64 < until;)
                {
                    moments.Add((await WriteAsync(client, ++value), value));
                }
            }
            catch (Exception e) when (e is IOException or EndOfStreamException or System.Net.Sockets.SocketException)
            {
                // It is gone.
            }
        }
        Assert.Equal(Killed, await deployment.Proxy.ExitAsync(s_limit));
        await deployment.StartProxyAsync(new Dictionary<string, string>());
        using (RespClient client = await deployment.ConnectAsync())
        {
            for (int i = 0; i < 3; i++) { moments.Add((await WriteAsync(client, ++value), value)); }
            await UntilReducedAsync(client, moments[10].Version);
            await CheckAsync(client, Some(moments), moments);
        }
    }

    // Anywhere, and again and again behind a step of the reducer. SLOGGER_TEST_ROUNDS=n for a longer run.
    [Fact]
    public async Task ProcessIsKilled_AgainAndAgain_EveryMomentStaysReadable()
    {
        int seed = TestSeed.Choose(output), value = 0, atStep = 0;
        var random = new Random(seed);
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup { Options = s_options });
        await deployment.StartAsync();
        List<(long Version, int Value)> moments = [];
        for (int round = 0; round < s_rounds; round++)
        {
            await deployment.Proxy.TerminateAsync();
            // The last round is not over before it is killed behind a step.
            bool isLast = round == s_rounds - 1;
            string? point = isLast || random.Next(4) > 0 ? s_steps[random.Next(s_steps.Length)] : null;
            await deployment.StartProxyAsync(point is null ? new Dictionary<string, string>()
                : new Dictionary<string, string> { ["SLOGGER_TEST_FAILPOINT"] = point });
            try
            {
                using RespClient client = await deployment.ConnectAsync();
                for (long until = Environment.TickCount64 + (isLast ? 60_000 : random.Next(500, 4000)); Environment.TickCount64 < until;)
                {
                    moments.Add((await WriteAsync(client, ++value), value));
                }
            }
            catch (Exception e) when (e is IOException or EndOfStreamException or System.Net.Sockets.SocketException)
            {
                atStep++;
            }
            deployment.Proxy.KillHard();
            await deployment.StartProxyAsync(new Dictionary<string, string>());
            using RespClient after = await deployment.ConnectAsync();
            // It has something behind the detail from the first rounds on.
            if (round > 1) { await CheckAsync(after, [.. moments.OrderBy(_ => random.Next()).Take(5), moments[^1]], moments); }
        }
        output.WriteLine($"{s_rounds} rounds, {atStep} killed behind a step, {moments.Count} moments");
        Assert.True(atStep > 0);
    }

    [Fact]
    public async Task StoppedShard_IsRestoredFromReducedFiles_AndGoesOnFromOne()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup { Options = s_options });
        await deployment.StartAsync();
        List<(long Version, int Value)> moments = [];
        using (RespClient client = await deployment.ConnectAsync())
        {
            for (int value = 1; value <= 40; value++) { moments.Add((await WriteAsync(client, value), value)); }
            await UntilReducedAsync(client, moments[^1].Version);
        }
        await deployment.Proxy.TerminateAsync();
        long[] first = [], last = [];
        foreach (string line in (await RestoreAsync(deployment, "--list")).Split('\n'))
        {
            if (!line.Contains(", closed ", StringComparison.Ordinal)) { continue; }
            long[] range = [.. line.Split(',')[0].Split(" to ").Select(v => long.Parse(v, CultureInfo.InvariantCulture))];
            (first, last) = ([.. first, range[0]], [.. last, range[^1]]);
        }
        Assert.Equal(first.Zip(last).OrderBy(r => r.First), first.Zip(last));
        using RedisProcess fresh = await RedisProcess.StartAsync(workspace.Folder("fresh"));
        string address = $"127.0.0.1:{Text(fresh.Port)}";
        (long Version, string Value) kept = default;
        foreach ((long version, int value) in Some(moments))
        {
            int at = Array.FindLastIndex(first, v => v <= version);
            if (at < 0) { continue; }
            long shown = Math.Min(last[at], version);
            await RestoreAsync(deployment, "--version", Text(shown), "--redis", address);
            using RespClient client = await fresh.ConnectAsync();
            string text = (await client.DoAsync("GET", "k")).Text;
            Assert.Equal((text, text), ((await client.DoAsync("HGET", "h", "n")).Text, (await client.DoAsync("LINDEX", "l", "-1")).Text));
            Assert.InRange(text.Length == 0 ? 0 : int.Parse(text, CultureInfo.InvariantCulture),
                moments.Where(m => m.Version <= shown).Select(m => m.Value).DefaultIfEmpty(0).Max(), value);
            kept = (shown, text);
        }
        Assert.NotEqual("", kept.Value);
        // What was reduced away is not taken for what is left.
        int gap = Enumerable.Range(1, first.Length - 1).First(i => first[i] > last[i - 1] + 1);
        (int code, string told) = await ProxyProcess.CommandAsync(
            "restore", "--data", deployment.DataDirectory, "--version", Text(last[gap - 1] + 1), "--redis", address);
        Assert.NotEqual(0, code);
        Assert.Contains($"the nearest before it is {last[gap - 1]}, the next one is {first[gap]}", told);
        await RestoreAsync(deployment, "--version", Text(kept.Version), "--keep");
        await deployment.StartProxyAsync(new Dictionary<string, string>());
        using (RespClient client = await deployment.ConnectAsync())
        {
            Assert.Equal(kept.Value, (await client.DoAsync("GET", "k")).Text);
            await WriteAsync(client, 1000);
        }
    }

    private static async Task<string> RestoreAsync(ProxyDeployment deployment, params string[] arguments)
    {
        (int code, string told) = await ProxyProcess.CommandAsync(["restore", "--data", deployment.DataDirectory, .. arguments]);
        Assert.True(code == 0, told);
        return told;
    }

    private static IEnumerable<(long Version, int Value)> Some(List<(long Version, int Value)> moments) =>
        moments.Where((_, i) => i % Math.Max(1, moments.Count / 5) == 0);

    // The state is whole, and that of the version that the reply names.
    private static async Task CheckAsync(
        RespClient client, IEnumerable<(long Version, int Value)> asked, List<(long Version, int Value)> moments)
    {
        int seen = 0;
        foreach ((long version, int value) in asked)
        {
            RespValue found = await client.CallAsync("DPR.ASOF", "VERSION", Text(version));
            Assert.True(found.Items.Count == 3, $"{version} of {value}: {found.Text}");
            long shown = found.Items[1].AsInteger();
            Assert.True(shown <= version, $"{shown} for {version}");
            string text = (await client.DoAsync("DPR.ASOF", "VERSION", Text(shown), "GET", "k")).Text;
            Assert.Equal(text, (await client.DoAsync("DPR.ASOF", "VERSION", Text(shown), "HGET", "h", "n")).Text);
            Assert.Equal(text, (await client.DoAsync("DPR.ASOF", "VERSION", Text(shown), "LINDEX", "l", "-1")).Text);
            // What is left of another version is not taken for it.
            RespValue exact = await client.CallAsync("DPR.ASOF", "VERSION", Text(version), "GET", "k");
            Assert.True(exact.IsError ? exact.Text.StartsWith("SLOGGER NOTKEPT", StringComparison.Ordinal) && shown < version
                : exact.Text == text, $"{version}, shown {shown}: {exact.Text}");
            // The first one was not there yet.
            int at = text.Length == 0 ? 0 : int.Parse(text, CultureInfo.InvariantCulture);
            Assert.InRange(at, moments.Where(m => m.Version <= shown).Select(m => m.Value).DefaultIfEmpty(0).Max(),
                moments.Where(m => m.Version > shown).Select(m => m.Value).DefaultIfEmpty(value).Min());
            // As long as nothing could be read at all behind the detail this would be one.
            seen = Math.Max(seen, at);
        }
        Assert.True(seen > 1);
    }

    private static async Task UntilReducedAsync(RespClient client, long version)
    {
        int value = 1_000_000;
        await Eventually.AsyncTrue("the log is deleted that was reduced", s_limit, async () =>
        {
            for (int i = 0; i < 20; i++) { await client.DoAsync("SET", "filler", s_filler); }
            await client.DoAsync("SET", "later", Text(value++));
            // A disk is not as fast as this would be.
            await Task.Delay(50);
            return (await FieldsAsync(client))["past_detail_from_version"] > version;
        });
    }

    // The version that has it; nobody is said to look at the past.
    private static async Task<long> WriteAsync(RespClient client, int value)
    {
        for (int n = 0; n < 4; n++) { await client.DoAsync("SET", $"filler:{n}", s_filler); }
        string text = Text(value);
        await client.DoAsync("MULTI");
        await client.DoAsync("SET", "k", text);
        await client.DoAsync("HSET", "h", "n", text);
        await client.DoAsync("RPUSH", "l", text);
        await client.DoAsync("LTRIM", "l", "-3", "-1");
        await client.DoAsync("EXEC");
        await client.DoAsync("WAITAOF", "1", "0", "0");
        return (await FieldsAsync(client))["committed_version"];
    }

    private static Task<(int Code, string Output)> CommandAsync(ProxyDeployment deployment, string command, params string[] options) =>
        CommandAsync(deployment, [command, .. options]);

    private static Task<(int Code, string Output)> CommandAsync(ProxyDeployment deployment, string[] command) =>
        ProxyProcess.CommandAsync([command[0], "--address", $"127.0.0.1:{Text(deployment.Port)}", .. command[1..]]);

    private static async Task<Dictionary<string, long>> FieldsAsync(RespClient client) =>
        (await client.DoAsync("DPR.INFO")).Text.Split('\n', StringSplitOptions.TrimEntries).Select(l => l.Split(':', 2))
            .Where(f => f.Length == 2 && long.TryParse(f[1], CultureInfo.InvariantCulture, out _))
            .ToDictionary(f => f[0], f => long.Parse(f[1], CultureInfo.InvariantCulture));

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
}
