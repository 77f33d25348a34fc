// With --retention the segments of the log get indexes of their keys: what is told of the past is the same with them and without them,
// whenever the process is killed, and they go with their segments.
using System.Globalization;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Integration.Tests.Workload;
using static Slogger.Integration.Tests.Past.StoreView;

namespace Slogger.Integration.Tests.Past;

public sealed class KeyIndexTests(ITestOutputHelper output)
{
    private const int Killed = 137;
    private const string CountMax = "10000";
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(2);

    // Each start, and each recovery, begins a segment.
    [Fact]
    public async Task RandomCommands_HistoriesAndReads_AreTheSameWithoutIndexes()
    {
        int seed = TestSeed.Choose(output);
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup { Options = ["--retention", "1h"] });
        await deployment.StartAsync();
        var commands = new RandomCommands(seed);
        List<string> versions = [];
        HashSet<string> keys = [];
        for (int round = 0; round < 6; round++)
        {
            using (RespClient client = await deployment.ConnectAsync())
            {
                for (int n = 0; n < 150; n++)
                {
                    foreach (string[] command in commands.Next())
                    {
                        await client.CallAsync(command);
                        keys.UnionWith(command.Skip(1).Where(w => w.Length is > 1 and < 10 && !char.IsAsciiDigit(w[0])));
                    }
                }
                await client.CallAsync("DISCARD");
                await client.DoAsync("SELECT", "0");
                // Whatever came before, there is something to be told of this one.
                for (int n = 0; n < 15; n++) { await client.DoAsync("SET", "known", Text(round) + new string('x', 100)); }
                keys.Add("known");
                versions.Add(await VersionNowAsync(client));
            }
            if (round % 3 == 0) { await deployment.Proxy.TerminateAsync(); }
            else if (round % 3 == 1) { deployment.Proxy.KillHard(); }
            else
            {
                await deployment.KillRedisAsync();
                await deployment.RecoverAsync();
                continue;
            }
            await deployment.StartProxyAsync();
        }
        using RespClient reader = await deployment.ConnectAsync();
        await Eventually.AsyncTrue("the segments are indexed", s_limit, () => Task.FromResult(Indexes(deployment).Count >= 5));
        string last = await VersionNowAsync(reader);
        List<string> with = await TellAsync(reader, keys, versions, last);
        // Nothing can take the place of a folder.
        foreach (string index in Indexes(deployment))
        {
            File.Delete(index);
            Directory.CreateDirectory(index);
        }
        // What was read before is kept for whoever asks for the same.
        await deployment.Proxy.TerminateAsync();
        await deployment.StartProxyAsync();
        using RespClient again = await deployment.ConnectAsync();
        List<string> without = await TellAsync(again, keys, versions, last);
        Assert.Equal(without, with);
        Assert.Contains(with, told => told.Length > 1000);
    }

    [Theory]
    [InlineData("key-index-read")]
    [InlineData("key-index-written")]
    public async Task ProcessIsKilled_IndexesAreMadeAgain_AndNoneIsLeftOver(string point)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup { Options = ["--retention", "1h"] });
        await deployment.StartAsync();
        List<string> written = [];
        async Task WriteAsync()
        {
            using RespClient client = await deployment.ConnectAsync();
            for (int i = 0; i < 100; i++)
            {
                await client.DoAsync("SET", "k", Text(written.Count));
                written.Add($"SET k {written.Count}");
                await client.DoAsync("SET", $"other:{i}", "x");
            }
            await VersionNowAsync(client);
        }
        await WriteAsync();
        await deployment.Proxy.TerminateAsync();
        await deployment.StartProxyAsync(new Dictionary<string, string> { ["SLOGGER_TEST_FAILPOINT"] = point });
        try
        {
            await WriteAsync();
        }
        catch (Exception e) when (e is IOException or EndOfStreamException or System.Net.Sockets.SocketException)
        {
            // It is gone.
        }
        Assert.Equal(Killed, await deployment.Proxy.ExitAsync(s_limit));
        string folder = Path.Combine(deployment.DataDirectory, "log");
        string[] left = [Path.Combine(folder, "0000000001-000000000900.kix"), Path.Combine(folder, "0000000001-000000000001.kix.tmp")];
        foreach (string path in left) { await File.WriteAllTextAsync(path, "left over"); }
        await deployment.StartProxyAsync(new Dictionary<string, string>());
        Assert.DoesNotContain(left, File.Exists);
        await Eventually.AsyncTrue("the segments are indexed", s_limit, () => Task.FromResult(Indexes(deployment).Count >= 1));
        using RespClient reader = await deployment.ConnectAsync();
        // What was written as it was killed may have been taken, without an answer.
        string value = (await reader.DoAsync("GET", "k")).Text;
        IReadOnlyList<string> told = [.. (await HistoryAsync(reader, "k")).Items[3].Items.Select(e => string.Join(' ',
            e.Items[4].Items.Select(w => w.Text)))];
        Assert.Equal(Enumerable.Range(0, int.Parse(value, CultureInfo.InvariantCulture) + 1).Select(i => $"SET k {i}"), told);
        Assert.Equal(told, written.Append($"SET k {value}").Distinct().Take(told.Count));
    }

    [Fact]
    public async Task TrimmedLog_IndexesGoWithTheirSegments()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup
        {
            Options = ["--checkpoint-every", "1mb", "--log-budget", "80mb", "--retention", "1h"],
        });
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        string filler = new('x', 100_000);
        List<string> written = [];
        HashSet<string> seen = [];
        await Eventually.AsyncTrue("an index is deleted", s_limit, async () =>
        {
            for (int n = 0; n < 50; n++) { await client.DoAsync("SET", $"filler:{n}", filler); }
            written.Add($"SET k {written.Count}");
            await client.DoAsync("SET", "k", Text(written.Count - 1));
            seen.UnionWith(Indexes(deployment));
            return seen.Any(s => !File.Exists(s));
        });
        Assert.All(seen.Where(s => !File.Exists(s)), s => Assert.False(File.Exists(Path.ChangeExtension(s, ".slog"))));
        // The segment is deleted first.
        await Eventually.AsyncTrue("no index is left without its segment", s_limit,
            () => Task.FromResult(Indexes(deployment).All(s => File.Exists(Path.ChangeExtension(s, ".slog")))));
        IReadOnlyList<string> told = [.. (await HistoryAsync(client, "k")).Items[3].Items.Select(e => string.Join(' ',
            e.Items[4].Items.Select(w => w.Text)))];
        Assert.NotEmpty(told);
        Assert.Equal(written.TakeLast(told.Count), told);
    }

    // Nobody else pays for them.
    [Fact]
    public async Task WithoutRetention_ThereAreNone()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using (RespClient client = await deployment.ConnectAsync()) { await client.DoAsync("SET", "k", "v"); }
        await deployment.Proxy.TerminateAsync();
        await deployment.StartProxyAsync();
        using RespClient again = await deployment.ConnectAsync();
        await again.DoAsync("SET", "k", "w");
        // Longer than the pause after which one is looked for.
        await Task.Delay(1500);
        Assert.Empty(Indexes(deployment));
        Assert.Equal(2, (await HistoryAsync(again, "k")).Items[3].Items.Count);
    }

    private static async Task<List<string>> TellAsync(RespClient client, IEnumerable<string> keys, List<string> versions, string last)
    {
        List<string> told = [];
        foreach (string database in (string[])["0", "1"])
        {
            await client.DoAsync("SELECT", database);
            foreach (string key in keys.Order(StringComparer.Ordinal))
            {
                told.Add((await client.CallAsync("DPR.HISTORY", key, "COUNT", CountMax, "TO", last)).Compact);
                told.Add((await client.CallAsync("DPR.HISTORY", key, "COUNT", "3", "FROM", versions[1], "TO", versions[^1])).Compact);
                foreach (string version in versions)
                {
                    // It may be that it cannot be told, as behind SWAPDB; then neither with them nor without.
                    RespValue type = await client.CallAsync("DPR.ASOF", "VERSION", version, "TYPE", key);
                    told.Add(type.IsError || type.Text == "none" ? type.Compact
                        : Canonical(type.Text, await client.CallAsync(["DPR.ASOF", "VERSION", version, .. ReadOf(type.Text, key)])));
                    told.Add((await client.CallAsync("DPR.ASOF", "VERSION", version, "PEXPIRETIME", key)).Compact);
                }
            }
        }
        return told;
    }

    private static async Task<RespValue> HistoryAsync(RespClient client, string key) =>
        await client.DoAsync("DPR.HISTORY", key, "COUNT", CountMax, "TO", await VersionNowAsync(client));

    private static List<string> Indexes(ProxyDeployment deployment) =>
        [.. Directory.EnumerateFiles(Path.Combine(deployment.DataDirectory, "log"), "*.kix")];
}
