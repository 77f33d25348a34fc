// How far back the past goes: as far as is promised, unless the budget of the log is reached before; and what somebody reads stays.
using System.Globalization;
using System.Text.Json;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Past;

public sealed class RetentionTests
{
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(2);
    private static readonly string s_filler = new('x', 100_000);

    [Fact]
    public async Task Retention_KeepsWhatItPromises_AndOlderLogIsDeleted()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup
        {
            Options = ["--checkpoint-every", "1mb", "--log-budget", "512mb", "--retention", "4s"],
        });
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        List<(long Version, long TimeMs, int Value)> moments = [];
        await Eventually.AsyncTrue("older log is deleted", s_limit, async () =>
        {
            int i = moments.Count;
            moments.Add((await WriteAsync(client, Text(i)), DateTimeOffset.UtcNow.ToUnixTimeMilliseconds(), i));
            return (await FieldsAsync(client))["past_from_version"] > moments[0].Version;
        });
        // Nothing is deleted any more, as nothing is written.
        Dictionary<string, long> fields = await FieldsAsync(client);
        Assert.Equal((4, 0), (fields["retention_s"], fields["retention_short"]));
        Assert.InRange(fields["past_from_unix_ms"], moments[0].TimeMs, moments[^1].TimeMs);
        RespValue gone = await client.CallAsync("DPR.ASOF", "VERSION", Text(moments[0].Version), "GET", "k");
        Assert.Contains("is not kept: the log of this shard goes back to version", gone.Text);
        foreach ((long version, _, int value) in moments.Where(m => m.TimeMs > moments[^1].TimeMs - 1000))
        {
            Assert.Equal(Text(value), (await client.DoAsync("DPR.ASOF", "VERSION", Text(version), "GET", "k")).Text);
        }
        // Far below the budget.
        Assert.True(fields["log_bytes"] < 512 << 20);
    }

    [Fact]
    public async Task Budget_ReachedBefore_Wins_AndIsTold()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup
        {
            Options = ["--checkpoint-every", "1mb", "--log-budget", "4mb", "--retention", "24h"],
        });
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        (int code, string told) = await RetentionAsync(deployment);
        Assert.Equal(0, code);
        Assert.Contains("1 d promised;", told);
        await Eventually.AsyncTrue("the budget is reached", s_limit, async () =>
        {
            for (int n = 0; n < 10; n++) { await client.DoAsync("SET", $"filler:{n}", s_filler); }
            return (await FieldsAsync(client))["retention_short"] == 1;
        });
        (code, told) = await RetentionAsync(deployment);
        Assert.Equal(1, code);
        Assert.Contains("and not kept: raise --log-budget", told);
        (code, told) = await RetentionAsync(deployment, "--json");
        Assert.Equal(1, code);
        JsonElement shard = JsonDocument.Parse(told[..(told.LastIndexOf('}') + 1)]).RootElement.GetProperty("shards")[0];
        Assert.Equal((86_400_000, true), (shard.GetProperty("promised_ms").GetInt64(), shard.GetProperty("is_short").GetBoolean()));
        Assert.Contains("less is kept than --retention 24h promises", deployment.Tail());
    }

    [Fact]
    public async Task Hold_OfWhoReads_KeepsWhatIsOlder()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup
        {
            Options = ["--checkpoint-every", "1mb", "--log-budget", "1gb", "--retention", "3s"],
        });
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        async Task UntilOlderIsDeletedAsync(long version) => await Eventually.AsyncTrue("older log is deleted", s_limit, async () =>
        {
            await WriteAsync(client, "later");
            return (await FieldsAsync(client))["past_from_version"] > version;
        });
        await UntilOlderIsDeletedAsync(await WriteAsync(client, "nobody asks for it"));
        long held = await WriteAsync(client, "held"), from = (await FieldsAsync(client))["past_from_version"];
        // Its number alone is asked for.
        await client.DoAsync("DPR.ASOF", "VERSION", Text(held));
        long until = Environment.TickCount64 + 8000;
        while (Environment.TickCount64 < until) { await WriteAsync(client, "later"); }
        Assert.Equal("held", (await client.DoAsync("DPR.ASOF", "VERSION", Text(held), "GET", "k")).Text);
        Assert.InRange((await FieldsAsync(client))["past_from_version"], from, held);
    }

    // The version that has it; nobody is said to look at the past.
    private static async Task<long> WriteAsync(RespClient client, string value)
    {
        for (int n = 0; n < 4; n++) { await client.DoAsync("SET", $"filler:{n}", s_filler); }
        await client.DoAsync("SET", "k", value);
        await client.DoAsync("WAITAOF", "1", "0", "0");
        return (await FieldsAsync(client))["committed_version"];
    }

    private static Task<(int Code, string Output)> RetentionAsync(ProxyDeployment deployment, params string[] options) =>
        ProxyProcess.CommandAsync(["retention", "--address", $"127.0.0.1:{Text(deployment.Port)}", .. options]);

    private static async Task<Dictionary<string, long>> FieldsAsync(RespClient client) =>
        (await client.DoAsync("DPR.INFO")).Text.Split('\n', StringSplitOptions.TrimEntries).Select(l => l.Split(':', 2))
            .Where(f => f.Length == 2 && long.TryParse(f[1], CultureInfo.InvariantCulture, out _))
            .ToDictionary(f => f[0], f => long.Parse(f[1], CultureInfo.InvariantCulture));

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
}
