// What docs/operate/clients-of-two-sites.md tells clients of two sites, done: its configuration of HAProxy as it stands there.
using System.Net;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sites;

public sealed class RecipeTests(ITestOutputHelper output)
{
    private const string Program = "/usr/sbin/haproxy";
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(90);

    [Fact]
    public async Task HAProxy_TheSiteIsLost_ClientsComeToTheOther()
    {
        Assert.SkipUnless(File.Exists(Program), "haproxy is not installed");
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 1, usesPostgres: false, TimeSpan.Zero);
        await sites.StartAsync();
        int port = Workspace.FreePort();
        string file = WriteRecipe(workspace, sites, port);
        output.WriteLine(File.ReadAllText(file));
        using ChildProcess proxy = ChildProcess.Start("haproxy", Program, ["-db", "-f", file]);
        var through = new IPEndPoint(IPAddress.Loopback, port);
        await LeadsToPrimaryAsync(through, "2", proxy);
        await sites.FollowingAsync();
        using RespClient before = await RespClient.ConnectAsync(through);
        Assert.Equal("2", (await before.DoAsync("GET", "through")).Text);

        await sites.Primary.KillAsync();
        await sites.FailOverAsync();
        await LeadsToPrimaryAsync(through, "3", proxy);
        using RespClient primary = await sites.Primary.ConnectAsync(0);
        Assert.Equal("3", (await primary.DoAsync("GET", "through")).Text);
        await Assert.ThrowsAsync<ConnectionLostException>(async () => await before.DoAsync("GET", "through"));
    }

    [Fact]
    public async Task HAProxy_SwitchOver_ClientsComeToTheOther_ThoughTheFirstSiteGoesOnAsABackup()
    {
        Assert.SkipUnless(File.Exists(Program), "haproxy is not installed");
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 1, usesPostgres: false, TimeSpan.Zero);
        await sites.StartAsync();
        int port = Workspace.FreePort();
        string file = WriteRecipe(workspace, sites, port);
        using ChildProcess proxy = ChildProcess.Start("haproxy", Program, ["-db", "-f", file]);
        var through = new IPEndPoint(IPAddress.Loopback, port);
        await LeadsToPrimaryAsync(through, "1", proxy);
        await sites.SwitchOverAsync();
        Assert.NotNull(await sites.Backup.ExitAsync(0, Generous));
        await sites.SeedBackAsync();
        await LeadsToPrimaryAsync(through, "3", proxy);
        using RespClient primary = await sites.Primary.ConnectAsync(0);
        Assert.Equal("3", (await primary.DoAsync("GET", "through")).Text);
    }

    // Servers take turns: ten writes in a row that are taken show that the check has taken the backup out.
    private static Task LeadsToPrimaryAsync(IPEndPoint through, string value, ChildProcess proxy) =>
        Eventually.AsyncTrue("every connection comes to the primary", Generous, async () =>
    {
        for (int i = 0; i < 10; i++)
        {
            if (!await IsWrittenAsync(through, value, proxy)) { return false; }
        }
        return true;
    });

    private static async Task<bool> IsWrittenAsync(IPEndPoint through, string value, ChildProcess proxy)
    {
        if (proxy.HasExited) { throw new InvalidOperationException("haproxy has ended by itself\n" + proxy.Tail()); }
        try
        {
            using RespClient client = await RespClient.ConnectAsync(through);
            return (await client.CallAsync("SET", "through", value)).Compact == "+OK";
        }
        catch (ConnectionLostException)
        {
            return false;
        }
    }

    // Leads to both sites, as the document has it.
    private static string WriteRecipe(Workspace workspace, TwoSites sites, int port)
    {
        string file = workspace.File("haproxy.cfg");
        File.WriteAllText(file, "defaults\n    timeout connect 5s\n    timeout client 1m\n    timeout server 1m\n\n"
            + Recipe("listen slogger")
            .Replace("*:6380", $"127.0.0.1:{port}", StringComparison.Ordinal)
                .Replace("a0:6380", $"127.0.0.1:{sites.Primary.Port(0)}", StringComparison.Ordinal)
            .Replace("b0:6380", $"127.0.0.1:{sites.Backup.Port(0)}", StringComparison.Ordinal));
        return file;
    }

    // The block of the document that begins with a line.
    private static string Recipe(string first)
    {
        DirectoryInfo? folder = new(AppContext.BaseDirectory);
        const string page = "docs/operate/clients-of-two-sites.md";
        while (folder is not null && !File.Exists(Path.Combine(folder.FullName, page))) { folder = folder.Parent; }
        IEnumerable<string> block = File.ReadLines(Path.Combine(folder!.FullName, page))
            .SkipWhile(l => l.Trim() != first).TakeWhile(l => l.Trim() != "```");
        string text = string.Join('\n', block) + "\n";
        Assert.StartsWith(first, text.TrimStart(), StringComparison.Ordinal);
        return text;
    }
}
