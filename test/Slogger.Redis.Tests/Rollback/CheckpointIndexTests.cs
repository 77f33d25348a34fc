// The index of an RDB file finds every key of a real Redis, of every type and encoding, and the value that it reads there is one that
// RESTORE takes back.
using Slogger.Redis.Connections;
using Slogger.Redis.Rdb;
using Slogger.Redis.Replication;
using Slogger.Redis.Rollback;
using Slogger.Redis.Tests.Support;

namespace Slogger.Redis.Tests.Rollback;

public sealed class CheckpointIndexTests
{
    // Small and large of every type, keys that are numbers and keys that are packed, expiries, several databases.
    private const string Everything =
        """
        local long = string.rep('abcdefghij', 30)
        for d = 0, 2 do
          redis.call('SELECT', d)
          for i = 1, 40 do
            redis.call('SET', i * 1000003 - 20, 'number ' .. i)
            redis.call('SET', 's' .. i, i)
            redis.call('SET', long .. i, string.rep('v', i * 50), 'PX', 100000000 + i)
            redis.call('RPUSH', 'l' .. i, i, 'x', long)
            redis.call('SADD', 'ints' .. i, i, i + 1, 70000 * i)
            redis.call('SADD', 'set' .. i, 'a', long .. i)
            redis.call('HSET', 'h' .. i, 'f', i, 'g', 'text')
            redis.call('ZADD', 'z' .. i, i, 'm', 0.5, 'n')
            redis.call('PFADD', 'p' .. i, i, long)
            redis.call('XADD', 'x' .. i, '1-' .. i, 'f', long)
            redis.call('XGROUP', 'CREATE', 'x' .. i, 'g', '0')
            redis.call('XREADGROUP', 'GROUP', 'g', 'c' .. i, 'STREAMS', 'x' .. i, '>')
          end
          for i = 1, 700 do
            redis.call('RPUSH', 'L', long .. i)
            redis.call('SADD', 'S', 'member' .. i)
            redis.call('HSET', 'H', 'f' .. i, long)
            redis.call('ZADD', 'Z', i / 3, 'member' .. i)
            redis.call('XADD', 'X', i .. '-1', 'f', i)
          end
        end
        """;

    [Fact]
    public async Task Build_EveryTypeOfValue_EachIsFoundAndTakenBackByRestore()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        await client.ExpectAsync("FUNCTION", "LOAD", Workload.Library);
        await client.ExpectAsync("EVAL", Everything, "0");
        string rdb = Path.Combine(redis.Directory, "all.rdb"), path = Path.Combine(redis.Directory, "all.idx");
        Assert.IsType<CheckpointResult.Fetched>(await CheckpointFetcher.FetchAsync(redis.Endpoint, rdb));
        CheckpointIndex.Build(rdb, path, 5, default);
        using CheckpointIndex index = Assert.IsType<CheckpointIndex>(CheckpointIndex.Open(rdb, path, 5));
        int found = 0;
        for (int database = 0; database < 3; database++)
        {
            RedisReply keys = await client.ExpectAsync("EVAL", $"redis.call('SELECT', {database}) return redis.call('KEYS', '*')", "0");
            foreach (RedisReply name in keys.Items)
            {
                RdbEntry entry = Assert.NotNull(index.Find(new StoreKey(database, name.Bytes.ToArray())));
                RedisReply expires = await client.ExpectAsync("EVAL",
                    $"redis.call('SELECT', {database}) return redis.call('PEXPIRETIME', KEYS[1])", "1", name.Text);
                Assert.Equal(Math.Max(0, expires.Integer), entry.ExpiresAtMs);
                RedisReply dump = await client.ExpectAsync("EVAL", $"redis.call('SELECT', {database}) return redis.call('DUMP', KEYS[1])",
                    "1", name.Text);
                // A stream's consumers are dumped with the time of the dump.
                if (name.Text[0] is not ('x' or 'X')) { Assert.Equal(dump.Bytes.ToArray(), index.PayloadOf(entry)); }
                else { Assert.Equal(dump.Bytes.Length, index.PayloadOf(entry).Length); }
                found++;
            }
        }
        Assert.Equal(index.Count, found);
        Assert.Null(index.Find(new StoreKey(0, "no such key"u8.ToArray())));
        Assert.Null(index.Find(new StoreKey(7, "s1"u8.ToArray())));
    }

    [Fact]
    public async Task Open_IndexOfAnotherFileOrDamaged_IsNotTaken()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        for (int i = 0; i < 300; i++) { await client.ExpectAsync("SET", $"k{i}", "v"); }
        string rdb = Path.Combine(redis.Directory, "all.rdb"), path = Path.Combine(redis.Directory, "all.idx");
        Assert.IsType<CheckpointResult.Fetched>(await CheckpointFetcher.FetchAsync(redis.Endpoint, rdb));
        Assert.Null(CheckpointIndex.Open(rdb, path, 1));
        CheckpointIndex.Build(rdb, path, 1, default);
        Assert.Null(CheckpointIndex.Open(rdb, path, 2));
        byte[] whole = File.ReadAllBytes(path);
        foreach (int at in new[] { 0, 9, 20, 25, 33, 41, 48, 60, whole.Length - 1 })
        {
            byte[] damaged = [.. whole];
            damaged[at] ^= 1;
            File.WriteAllBytes(path, damaged);
            Assert.Null(CheckpointIndex.Open(rdb, path, 1));
        }
        File.WriteAllBytes(path, whole[..^16]);
        Assert.Null(CheckpointIndex.Open(rdb, path, 1));
        File.WriteAllBytes(path, whole);
        CheckpointIndex.Open(rdb, path, 1)!.Dispose();
    }

    [Fact]
    public async Task Build_FileCutShort_SaysSo()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        await client.ExpectAsync("EVAL", Everything, "0");
        string rdb = Path.Combine(redis.Directory, "all.rdb");
        Assert.IsType<CheckpointResult.Fetched>(await CheckpointFetcher.FetchAsync(redis.Endpoint, rdb));
        byte[] whole = File.ReadAllBytes(rdb);
        string cut = Path.Combine(redis.Directory, "cut.rdb");
        foreach (int length in new[] { 5, 100, whole.Length / 2, whole.Length - 9 })
        {
            File.WriteAllBytes(cut, whole[..length]);
            Assert.Throws<RedisException>(() => CheckpointIndex.Build(cut, cut + ".idx", 0, default));
        }
    }
}
