// StackExchange.Redis with both sites, as docs/operate/clients-of-two-sites.md has it. The project Slogger.Redis28.Tests runs this with
// the older version, too.
using System.Globalization;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using StackExchange.Redis;

namespace Slogger.Integration.Tests.Sites;

public sealed class StackExchangeRedisTests(ITestOutputHelper output)
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(90);

    [Fact]
    public async Task StackExchangeRedis_NamesBothSites_WritesFollowAFailover()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 1, usesPostgres: false, TimeSpan.Zero);
        await sites.StartAsync();
        using ConnectionMultiplexer redis = await ConnectionMultiplexer.ConnectAsync(string.Create(
            CultureInfo.InvariantCulture,
            $"127.0.0.1:{sites.Primary.Port(0)},127.0.0.1:{sites.Backup.Port(0)},abortConnect=false,connectRetry=5,configCheckSeconds=5"));
        IDatabase database = redis.GetDatabase();
        Assert.True(await database.StringSetAsync("through", "1"));
        await sites.FollowingAsync();
        Assert.Equal("1", (string?)await database.StringGetAsync("through", CommandFlags.PreferReplica));

        await sites.Primary.KillAsync();
        await sites.FailOverAsync();
        await Eventually.AsyncTrue("a write comes to the new primary", Generous, async () =>
        {
            try
            {
                return await database.StringSetAsync("through", "2");
            }
            catch (Exception e) when (e is RedisException or TimeoutException)
            {
                output.WriteLine(e.Message);
                return false;
            }
        });
        using RespClient primary = await sites.Primary.ConnectAsync(0);
        Assert.Equal("2", (await primary.DoAsync("GET", "through")).Text);
    }
}
