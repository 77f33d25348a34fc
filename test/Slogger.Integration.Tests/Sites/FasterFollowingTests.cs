// What an embedded store as a backup's has besides: what it does not know, keys that expire, drills.
using System.Globalization;
using Slogger.Core.Sites;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sites;

/// <summary>Embedded stores follow Redis.</summary>
public sealed class FasterFollowingTests : FollowingTestsBase
{
    protected override bool IsEmbedded(int stream) => true;

    // Of that version nothing is taken in, whoever else has it: what came before stays, is read, and can be taken over; and who asks learns
    // why.
    [Fact]
    public async Task UnknownCommand_IsRefusedWithItsVersion_AndTheSiteCanTakeOverBefore()
    {
        var random = new Random(6);
        await WriteAsync(random, 20);
        await AppliedAsync();
        long before = _primaries[0].Written;
        _primaries[0].Further = [["INCR", WrittenPrimary.KeyOf(0, "half")], ["LPUSH", "a list", "1"]];
        await WriteAsync(random, 1);
        _primaries[0].Further = [];
        await WriteAsync(random, 20);
        string failure = await FailureAsync();
        Assert.Contains("\"LPUSH\"", failure);
        Assert.Contains("\"a list\"", failure);
        Assert.Contains("--redis-server", failure);
        await AssertStandsAsync();
        // Also after it was started again.
        await RestartAsync(0);
        Assert.Contains("\"LPUSH\"", await FailureAsync());
        await AssertStandsAsync();
        // The other shard has more, and has durable what nobody will ever see.
        using (RespClient other = await ConnectAsync(1))
        {
            await Eventually.AsyncTrue("the other shard holds the newest version", Limit,
                async () => (await other.CallAsync("DPR.INFO")).Text.Contains($"held:1:{_primaries[1].Written}\r\n"));
            Assert.Contains($"applied:1:{before}\r\n", (await other.CallAsync("DPR.INFO")).Text);
        }
        SiteState site = await FailOverAsync();
        Assert.Equal(before, site.Final!.Value.Version.Number);
        await AssertServesAsync(site);

        async Task AssertStandsAsync()
        {
            using RespClient client = await ConnectAsync(0);
            string info = (await client.CallAsync("DPR.INFO")).Text;
            Assert.Contains($"applied:1:{before}\r\n", info);
            Assert.Contains($"held:1:{before}\r\n", info);
            Assert.Equal(before.ToString(CultureInfo.InvariantCulture), (await client.CallAsync("GET", WrittenPrimary.KeyOf(0, "b"))).Text);
            Assert.True((await client.CallAsync("GET", WrittenPrimary.KeyOf(0, "half"))).IsNull);
        }
    }

    private async Task<string> FailureAsync()
    {
        using RespClient client = await ConnectAsync(0);
        string? failure = null;
        await Eventually.AsyncTrue("the process says why it does not follow", Limit, async () =>
            (failure = (await client.CallAsync("DPR.INFO")).Text.Split("\r\n")
                .FirstOrDefault(l => l.StartsWith("failure:", StringComparison.Ordinal))) is not null);
        return failure!;
    }

    // As at a replica: who reads does not see it any more, and it is there until the primary says DEL.
    [Fact]
    public async Task ExpiredKey_IsMissingToReaders_AndStaysUntilThePrimaryDeletesIt()
    {
        var random = new Random(7);
        _primaries[0].Further = [["SET", WrittenPrimary.KeyOf(0, "brief"), "here", "PXAT", "1000"],
            ["SET", WrittenPrimary.KeyOf(0, "lasting"), "1", "PXAT", "4102444800000"]];
        await WriteAsync(random, 1);
        _primaries[0].Further = [];
        await WriteAsync(random, 5);
        await AppliedAsync();
        using RespClient client = await ConnectAsync(0);
        Assert.True((await client.CallAsync("GET", WrittenPrimary.KeyOf(0, "brief"))).IsNull);
        Assert.Equal(0, (await client.CallAsync("EXISTS", WrittenPrimary.KeyOf(0, "brief"))).Number);
        Assert.DoesNotContain((await client.CallAsync("KEYS", "*")).Items, k => k.Text == WrittenPrimary.KeyOf(0, "brief"));
        Assert.Equal(4102444800000, (await client.CallAsync("PEXPIRETIME", WrittenPrimary.KeyOf(0, "lasting"))).Number);
        long keys = (await client.CallAsync("DBSIZE")).Number;
        _primaries[0].Further = [["PERSIST", WrittenPrimary.KeyOf(0, "brief")]];
        await WriteAsync(random, 1);
        _primaries[0].Further = [];
        await AppliedAsync();
        Assert.Equal("here", (await client.CallAsync("GET", WrittenPrimary.KeyOf(0, "brief"))).Text);
        _primaries[0].Further = [["DEL", WrittenPrimary.KeyOf(0, "brief")]];
        await WriteAsync(random, 1);
        _primaries[0].Further = [];
        await AppliedAsync();
        Assert.True((await client.CallAsync("GET", WrittenPrimary.KeyOf(0, "brief"))).IsNull);
        Assert.True((await client.CallAsync("DBSIZE")).Number <= keys + 10);
    }

    // What was overwritten is given back as it goes, also on the way to a version that is far ahead.
    [Fact]
    public async Task SeveralTimesItsMemory_PassesThrough()
    {
        var random = new Random(8);
        await WriteAsync(random, 5);
        await AppliedAsync();
        string large = new('x', 200_000);
        for (int part = 0; part < 2; part++)
        {
            _primaries[0].Further = [.. Enumerable.Range(0, 6)
                .Select(i => (string[])["SET", WrittenPrimary.KeyOf(0, $"large{i}"), large + i])];
            await WriteAsync(random, 100);
            await AppliedAsync();
            await RestartAsync(0);
            await WriteAsync(random, 20);
            await AppliedAsync();
        }
        using RespClient client = await ConnectAsync(0);
        Assert.DoesNotContain("store_problem", (await client.CallAsync("DPR.INFO")).Text);
        Assert.Equal(200_001, (await client.CallAsync("STRLEN", WrittenPrimary.KeyOf(0, "large5"))).Number);
    }
}
