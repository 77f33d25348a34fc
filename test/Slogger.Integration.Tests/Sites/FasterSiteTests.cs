// A primary of Redis servers whose backup has embedded stores, with real processes and kill -9: whatever clients do with strings is there
// in the same way; the backup is killed while it follows and while it takes over, and what was said to be held is there; then it is a
// primary whose commits survive.
using System.Globalization;
using Slogger.Core.Sites;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Metadata;
using Slogger.Metadata.Sql;

namespace Slogger.Integration.Tests.Sites;

public sealed class FasterSiteTests(ITestOutputHelper output)
{
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(90);

    private static int Seed =>
        int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_TEST_SEED"), NumberStyles.None, CultureInfo.InvariantCulture,
            out int seed) ? seed : Environment.TickCount & 0xFFFFFF;

    private static int Rounds =>
        int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_TEST_ROUNDS"), NumberStyles.None, CultureInfo.InvariantCulture,
            out int rounds) ? rounds : 3;

    [Fact]
    public async Task Backup_KilledWhileItFollows_HoldsWhatThePrimaryDoes()
    {
        int seed = Seed;
        output.WriteLine($"seed {seed}");
        var random = new Random(seed);
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, 1, 1, usesPostgres: false, embedded: true, TimeSpan.FromMilliseconds(2));
        await sites.StartAsync();
        using (RespClient primary = await sites.Primary.ConnectAsync(0))
        {
            for (int round = 0; round < Rounds; round++)
            {
                for (int i = random.Next(200, 2000); i > 0; i--)
                {
                    await primary.CallAsync(Command(random));
                    if (random.Next(600) == 0) { await Task.Delay(random.Next(300)); }
                    if (random.Next(900) == 0) { await RestartBackupAsync(sites); }
                }
                await RestartBackupAsync(sites);
                await sites.FollowingAsync();
                await CompareAsync(primary, sites);
            }
        }
        (int code, string text) = await sites.Backup.CommandAsync("drill", "--restore");
        Assert.True(code == 0, $"slogger drill --restore ended with {code}\n{text}\n{sites.Tail()}");
        output.WriteLine(text);
        Dictionary<string, string> last = await ContentAsync(await sites.Primary.ConnectAsync(0));
        await sites.Primary.KillAsync();
        await sites.FailOverAsync();
        await ServesAndKeepsAsync(sites, last);
    }

    // Each attempt is cut short by the death of its process.
    [Fact]
    public async Task TakingOver_KilledOnTheWay_IsGoneOnWith()
    {
        int seed = Seed;
        output.WriteLine($"seed {seed}");
        var random = new Random(seed);
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, 2, 2, usesPostgres: false, embedded: true, TimeSpan.FromMilliseconds(2));
        await sites.StartAsync();
        for (int s = 0; s < 2; s++)
        {
            using RespClient primary = await sites.Primary.ConnectAsync(s);
            for (int i = 0; i < 200; i++)
            {
                await primary.CallAsync("SET", sites.Primary.Key(s, "k" + i), i.ToString(CultureInfo.InvariantCulture));
            }
        }
        await sites.FollowingAsync();
        await sites.Primary.KillAsync();
        IMetadataStore sql = MetadataStoreFactory.Create(sites.Backup.Metadata);
        await using (sql)
        {
            await sql.InitializeAsync();
            const string cluster = "default";
            Task<(int, string)> failover = sites.Backup.CommandAsync("failover", "--i-attest-the-primary-is-down");
            await Eventually.AsyncTrue("the failover is under way", Limit, async () => failover.IsCompleted
                || (await sql.SiteAsync(cluster)).Role != SiteRole.Backup);
            // Once while it is decided, and then whenever.
            for (int i = 0; i < 1 + Rounds && !failover.IsCompleted; i++)
            {
                await Task.Delay(random.Next(i == 0 ? 60 : 600));
                int shard = random.Next(2);
                output.WriteLine($"shard {shard} is killed while the site is {(await sql.SiteAsync(cluster)).Role}");
                sites.Backup.KillProxy(shard);
                await sites.Backup.StartAsync(shard);
            }
            output.WriteLine((await failover).ToString());
        }
        (int last, string said) = await sites.Backup.CommandAsync("failover", "--i-attest-the-primary-is-down");
        Assert.True(last == 0 || said.Contains("primary", StringComparison.Ordinal),
            $"slogger failover ended with {last}\n{said}\n{sites.Tail()}");
        await sites.Backup.ServingAsync(Limit);
        for (int s = 0; s < 2; s++)
        {
            using RespClient client = await sites.Backup.ConnectAsync(s);
            for (int i = 0; i < 200; i++)
            {
                Assert.Equal(i.ToString(CultureInfo.InvariantCulture), (await client.CallAsync("GET", sites.Backup.Key(s, "k" + i))).Text);
            }
        }
    }

    private static async Task RestartBackupAsync(TwoSites sites)
    {
        sites.Backup.KillProxy(0);
        await sites.Backup.StartAsync(0);
    }

    // A primary by then: it has what the other had, takes writes, and what it has said to be committed survives kill -9.
    private static async Task ServesAndKeepsAsync(TwoSites sites, Dictionary<string, string> held)
    {
        using (RespClient client = await sites.Primary.ConnectAsync(0))
        {
            Dictionary<string, string> now = await ContentAsync(client);
            // What ServingAsync has written since.
            now.Remove(sites.Primary.Key(0, "serving"));
            held.Remove(sites.Primary.Key(0, "serving"));
            Assert.Equal(held.OrderBy(p => p.Key, StringComparer.Ordinal), now.OrderBy(p => p.Key, StringComparer.Ordinal));
        }
        for (int i = 0; i < 3; i++)
        {
            string value = i.ToString(CultureInfo.InvariantCulture);
            using (RespClient client = await sites.Primary.ConnectAsync(0))
            {
                Assert.Equal("+OK", (await client.CallAsync("SET", "kept", value)).Compact);
                RespValue wait = await client.CallAsync("DPR.WAIT", "*", "20000");
                Assert.True(wait is { IsError: false } && wait.Items[2].Number == 1, wait.Text);
            }
            sites.Primary.KillProxy(0);
            await sites.Primary.StartAsync(0);
            await sites.Primary.ServingAsync(Limit);
            using RespClient again = await sites.Primary.ConnectAsync(0);
            Assert.Equal(value, (await again.CallAsync("GET", "kept")).Text);
        }
    }

    private static async Task CompareAsync(RespClient primary, TwoSites sites)
    {
        using RespClient backup = await sites.Backup.ConnectAsync(0);
        Dictionary<string, string> there = await ContentAsync(primary), here = await ContentAsync(backup);
        Assert.Equal(there.OrderBy(p => p.Key, StringComparer.Ordinal), here.OrderBy(p => p.Key, StringComparer.Ordinal));
    }

    // Each key with its value and when it expires; not those that are about to.
    private static async Task<Dictionary<string, string>> ContentAsync(RespClient client)
    {
        var content = new Dictionary<string, string>();
        foreach (RespValue key in (await client.DoAsync("KEYS", "*")).Items)
        {
            RespValue value = await client.DoAsync("GET", key.Text);
            RespValue expiry = await client.DoAsync("PEXPIRETIME", key.Text);
            if (!value.IsNull && (expiry.Number < 0 || expiry.Number > DateTimeOffset.UtcNow.AddSeconds(60).ToUnixTimeMilliseconds()))
            {
                content[key.Text] = $"{value.Text} {expiry.Number}";
            }
        }
        return content;
    }

    // What an embedded store knows, as clients say it.
    private static string[] Command(Random random)
    {
        string key = $"key{random.Next(60)}", other = $"key{random.Next(60)}", count = $"count{random.Next(8)}", number = random.Next(100)
            .ToString(CultureInfo.InvariantCulture);
        return random.Next(26) switch
        {
            0 => ["SET", key, number, "EX", "1000"],
            1 => ["SET", key, number, "PX", "30"],
            2 => ["SETEX", key, "2000", number],
            3 => ["APPEND", key, number],
            4 => ["SETRANGE", key, number, "within"],
            5 => ["DEL", key, other],
            6 => ["UNLINK", key],
            7 => ["EXPIRE", key, "3000"],
            8 => ["PEXPIRE", key, "20"],
            9 => ["PERSIST", key],
            10 => ["RENAME", key, other],
            11 => ["RENAMENX", key, other],
            12 => ["COPY", key, other, "REPLACE"],
            13 => ["INCRBYFLOAT", count, "0.5"],
            14 => ["SET", count, number],
            15 => ["DECRBY", count, number],
            16 => ["MSET", key, number, other, number],
            17 => ["MSETNX", key, number, other, number],
            18 => ["GETDEL", key],
            19 => ["GETEX", key, "EX", "4000"],
            20 => ["GETSET", key, number],
            21 => ["SETBIT", $"bits{random.Next(3)}", number, "1"],
            22 => ["SET", key, number, "KEEPTTL"],
            23 => ["EVAL", "redis.call('set', KEYS[1], ARGV[1]); redis.call('incr', KEYS[2])", "2", key, $"scripts{random.Next(3)}",
                number],
            24 => random.Next(40) == 0 ? ["FLUSHALL"] : ["SET", $"large{random.Next(4)}", new string('x', random.Next(100_000))],
            _ => ["GET", key],
        };
    }
}
