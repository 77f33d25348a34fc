// The paper's figure 3: two shards whose backups are replicated each by itself. With Redis's own replication the backup comes to a state
// that never was; here it cannot.
using System.Net;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sites;

public sealed class ReplicationAnomalyTests
{
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(60);
    private static readonly string[] s_atOnce = ["--repl-diskless-sync-delay", "0"];

    public static TheoryData<bool> Scenarios => [false, true];

    // (a) Order implied by causally related writes that do not overlap. (b) Order implied by visibility of concurrent writes.
    [Theory]
    [MemberData(nameof(Scenarios))]
    public async Task RedisReplication_TheFirstShardsLinkIsSlow_TheBackupHasWhatNeverWas(bool isByVisibility)
    {
        using var workspace = new Workspace();
        using RedisProcess first = await RedisProcess.StartAsync(workspace.Folder("p0"), s_atOnce), second =
            await RedisProcess.StartAsync(workspace.Folder("p1"), s_atOnce);
        using RedisProcess firstBackup = await RedisProcess.StartAsync(workspace.Folder("b0")), secondBackup =
            await RedisProcess.StartAsync(workspace.Folder("b1"));
        using WideLink firstLink = new(first.Endpoint, TwoSites.OneWay), secondLink = new(second.Endpoint, TwoSites.OneWay);
        await FollowAsync(firstBackup, firstLink);
        await FollowAsync(secondBackup, secondLink);
        firstLink.Cut();
        await WriteAsync(first.Endpoint, "x", second.Endpoint, "y", isByVisibility);
        using RespClient backupOne = await firstBackup.ConnectAsync(), backupTwo = await secondBackup.ConnectAsync();
        await Eventually.AsyncTrue("the second write is at the backup", Limit,
            async () => (await backupTwo.DoAsync("EXISTS", "y")).Number == 1);
        first.KillHard();
        second.KillHard();
        await backupOne.DoAsync("REPLICAOF", "NO", "ONE");
        await backupTwo.DoAsync("REPLICAOF", "NO", "ONE");
        Assert.Equal(0, (await backupOne.DoAsync("EXISTS", "x")).Number);
        Assert.Equal(1, (await backupTwo.DoAsync("EXISTS", "y")).Number);
    }

    [Theory]
    [MemberData(nameof(Scenarios))]
    public async Task Slogger_TheFirstShardsLinkIsSlow_TheBackupHasBothOrTheFirst(bool isByVisibility)
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: false);
        await sites.StartAsync();
        string x = sites.Primary.Key(0, "x"), y = sites.Primary.Key(1, "y");
        sites.Primary.Links[0].Cut();
        await WriteAsync(sites.Primary.Endpoint(0), x, sites.Primary.Endpoint(1), y, isByVisibility);
        using (RespClient two = await sites.Primary.ConnectAsync(1))
        {
            await two.DoAsync("DPR.WAIT", "*", "20000");
            long committed = (await two.DoAsync("DPR.CUT")).Items[1].Number;
            // It is there, durably, and must not count.
            await Eventually.AsyncTrue("the second write is at the backup", Limit,
                async () => VersionOf(await sites.Backup.InfoAsync(1, "held")) >= committed);
        }
        await sites.Primary.KillAsync();
        await sites.FailOverAsync();
        using RespClient backupOne = await sites.Primary.ConnectAsync(0), backupTwo = await sites.Primary.ConnectAsync(1);
        Assert.Equal(0, (await backupOne.DoAsync("EXISTS", x)).Number);
        Assert.Equal(0, (await backupTwo.DoAsync("EXISTS", y)).Number);
    }

    private static async Task WriteAsync(EndPoint first, string x, EndPoint second, string y, bool isByVisibility)
    {
        using RespClient one = await RespClient.ConnectAsync(first), two = await RespClient.ConnectAsync(second);
        using RespClient reader = await RespClient.ConnectAsync(first), otherReader = await RespClient.ConnectAsync(second);
        await one.SendAsync("SET", x, "1");
        if (isByVisibility)
        {
            // A third client reads x, and then y, while neither writer has heard of its end: by what it sees x comes first.
            await Eventually.AsyncTrue("x is seen", Limit, async () => (await reader.DoAsync("EXISTS", x)).Number == 1);
            Assert.Equal(0, (await otherReader.DoAsync("EXISTS", y)).Number);
            await two.SendAsync("SET", y, "1");
            await one.ReadAsync();
        }
        else
        {
            await one.ReadAsync();
            await two.SendAsync("SET", y, "1");
        }
        await two.ReadAsync();
    }

    private static long VersionOf(string? point) => point?.Split(':') is [_, { } version]
        ? long.Parse(version, System.Globalization.CultureInfo.InvariantCulture) : 0;

    private static async Task FollowAsync(RedisProcess backup, WideLink link)
    {
        using RespClient client = await backup.ConnectAsync();
        await client.DoAsync("REPLICAOF", "127.0.0.1", link.Port.ToString(System.Globalization.CultureInfo.InvariantCulture));
        await Eventually.AsyncTrue("the replica is linked", Limit, async () => (await client.DoAsync("ROLE")).Items[3].Text == "connected");
    }
}
