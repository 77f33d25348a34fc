// Files of parts of others, loaded by a real redis-server: each key is in the file of its slots and in no other, as it was.
using System.Globalization;
using Slogger.Core.Ownership;
using Slogger.Core.Sites;
using Slogger.Redis.Connections;
using Slogger.Redis.Rdb;
using Slogger.Redis.Replication;
using Slogger.Redis.Slots;
using Slogger.Redis.Tests.Support;

namespace Slogger.Redis.Tests.Slots;

public sealed class RdbMergeTests(ITestOutputHelper output)
{
    private const string Library = "#!lua name=lib\nredis.register_function('f', function(keys, args) return 1 end)";

    [Theory]
    [InlineData(1, 2, "noeviction")]
    [InlineData(2, 1, "allkeys-lfu")]
    [InlineData(2, 3, "allkeys-lru")]
    public async Task Write_ShardsCutOtherwise_EachKeyIsWhereItsSlotIs_AsItWas(int sources, int shards, string eviction)
    {
        var layout = new StreamLayout(sources, shards);
        List<TestRedis> servers = [];
        string directory = TestRedis.NewDirectory();
        try
        {
            var held = new Dictionary<string, (string Digest, string Ttl)>[sources];
            for (int i = 0; i < sources; i++)
            {
                servers.Add(await TestRedis.StartAsync(null, "--maxmemory-policy", eviction));
                await using RedisConnection client = await servers[i].ConnectAsync();
                await FillAsync(client, SlotMap.EvenSlots(sources, i));
                await client.ExpectAsync("FUNCTION", "LOAD", Library);
                // A string that is read from a file may be encoded otherwise than one that was set.
                await client.ExpectAsync("DEBUG", "RELOAD");
                held[i] = await HeldAsync(client);
                using var link = new ReplicationLink(new() { Endpoint = servers[i].Endpoint });
                Assert.IsType<AttachResult.Full>(
                    await link.AttachAsync(new() { OnFull = OnFullSync.WithData, RdbFile = Path.Combine(directory, $"{i}.rdb") }));
                Assert.Null(RdbMerge.Flaw(Path.Combine(directory, $"{i}.rdb")));
            }
            for (int j = 0; j < shards; j++)
            {
                string merged = Path.Combine(directory, "merged.rdb");
                int[] streams = [.. layout.StreamsOf(j)];
                RdbMerge.Write(merged, [.. streams.Select(
                    s => new RdbPart(Path.Combine(directory, $"{layout[s].Source}.rdb"),
                        new(layout.SlotsOf(s), streams.Length == 1, s == streams[0])))]);
                Assert.Equal(RdbIntegrity.Good, RdbFile.Verify(merged));
                TestRedis loaded = await TestRedis.StartAsync(null, "--maxmemory-policy", eviction);
                servers.Add(loaded);
                await using RedisConnection client = await loaded.ConnectAsync();
                File.Copy(merged, Path.Combine(loaded.Directory, "dump.rdb"), overwrite: true);
                await client.ExpectAsync("DEBUG", "RELOAD", "NOSAVE");
                SlotRange own = SlotMap.EvenSlots(shards, j);
                Dictionary<string, (string, string)> expected = held.SelectMany(h => h)
                    .Where(k => own.Contains(HashSlot.Of(System.Text.Encoding.ASCII.GetBytes(k.Key))))
                        .ToDictionary(k => k.Key, k => k.Value);
                Assert.NotEmpty(expected);
                Assert.Equal(expected.OrderBy(k => k.Key, StringComparer.Ordinal),
                    (await HeldAsync(client)).OrderBy(k => k.Key, StringComparer.Ordinal));
                Assert.Single((await client.ExpectAsync("FUNCTION", "LIST")).Items);
                output.WriteLine($"shard {j}: {expected.Count} keys of {streams.Length} sources");
            }
        }
        finally
        {
            foreach (TestRedis server in servers) { await server.DisposeAsync(); }
            Directory.Delete(directory, recursive: true);
        }
    }

    [Fact]
    public async Task Flaw_KeysInAnotherDatabase_AreNamed()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        await client.ExpectAsync("SELECT", "3");
        await client.ExpectAsync("SET", "k", "v");
        string file = Path.Combine(redis.Directory, "copy.rdb");
        using var link = new ReplicationLink(new() { Endpoint = redis.Endpoint });
        Assert.IsType<AttachResult.Full>(await link.AttachAsync(new() { OnFull = OnFullSync.WithData, RdbFile = file }));
        Assert.Contains("database 3", RdbMerge.Flaw(file), StringComparison.Ordinal);
        Assert.Throws<SlotEffectException>(() => RdbMerge.Write(file + "2", [new(file, new(SlotMap.EvenSlots(1, 0), true, true))]));
    }

    private static async Task FillAsync(RedisConnection client, SlotRange slots)
    {
        for (int i = 0; i < 120; i++)
        {
            string key = KeyIn(slots, i);
            int many = i % 2 == 0 ? 3 : 700;
            string[] items = [.. Enumerable.Range(0, many).Select(n => $"item-{n}")];
            string[] numbers = [.. Enumerable.Range(0, many).Select(n => n.ToString(CultureInfo.InvariantCulture))];
            string[] command = (i % 11) switch
            {
                0 => ["SET", key, new string('x', many * 10)],
                1 => ["SET", key, $"{i}"],
                2 => ["RPUSH", key, .. items],
                3 => ["SADD", key, .. items],
                4 => ["SADD", key, .. numbers],
                5 => ["HSET", key, .. items.SelectMany(n => new[] { n, "value" })],
                6 => ["ZADD", key, .. numbers.SelectMany(n => new[] { n + ".5", "m" + n })],
                7 => ["SET", key, string.Concat(Enumerable.Range(0, many).Select(n => $"random {n * 7919} "))],
                8 => ["PFADD", key, .. items],
                9 => ["GEOADD", key, "13.361389", "38.115556", "a", "15.087269", "37.502669", "b"],
                _ => ["XADD", key, "1-1", "field", "value"],
            };
            await client.ExpectAsync(command);
            if (i % 11 == 10)
            {
                for (int n = 2; n < many; n++) { await client.ExpectAsync("XADD", key, $"{n}-1", "field", "value"); }
                await client.ExpectAsync("XGROUP", "CREATE", key, "g", "0");
                await client.ExpectAsync("XREADGROUP", "GROUP", "g", "c", "COUNT", "2", "STREAMS", key, ">");
            }
            if (i % 3 == 0) { await client.ExpectAsync("PEXPIREAT", key, (4102444800000 + i).ToString(CultureInfo.InvariantCulture)); }
        }
    }

    private static string KeyIn(SlotRange slots, int number)
    {
        for (int i = 0; ; i++)
        {
            // Numbers alone are kept in another form, and so are long keys.
            string key = number % 5 == 0 ? $"{(number * 100_000) + i}"
                : number % 5 == 1 ? $"{number}-{i}-{new string('k', 100)}" : $"key:{number}:{i}";
            if (slots.Contains(HashSlot.Of(System.Text.Encoding.ASCII.GetBytes(key)))) { return key; }
        }
    }

    private static async Task<Dictionary<string, (string Digest, string Ttl)>> HeldAsync(RedisConnection client)
    {
        Dictionary<string, (string, string)> held = [];
        foreach (RedisReply key in (await client.ExpectAsync("KEYS", "*")).Items)
        {
            string digest = (await client.ExpectAsync("DEBUG", "DIGEST-VALUE", key.Text)).Items[0].Text;
            string when = (await client.ExpectAsync("PEXPIRETIME", key.Text)).Integer.ToString(CultureInfo.InvariantCulture);
            held[key.Text] = (digest, when + (await client.ExpectAsync("TYPE", key.Text)).Text
                + (await client.ExpectAsync("OBJECT", "ENCODING", key.Text)).Text);
        }
        return held;
    }
}
