// What a command of the stream reaches, next to what a real Redis says of where its keys are.
using System.Text;
using Slogger.Redis.Connections;
using Slogger.Redis.Rollback;
using Slogger.Redis.Tests.Support;

namespace Slogger.Redis.Tests.Rollback;

public sealed class EffectScopeTests
{
    private static readonly string[] s_effects =
    [
        "SET k v", "SET k v PXAT 5", "SET k v KEEPTTL", "SETNX k v", "GETSET k v", "SETRANGE k 1 v", "APPEND k v", "INCR k", "DECR k",
            "INCRBY k 2", "DECRBY k 2",
        "SETBIT k 1 1", "BITFIELD k SET u8 0 1", "PFADD k a", "PFCOUNT k l", "PFMERGE k l m", "LPUSH k a b", "RPUSH k a", "LPUSHX k a",
            "RPUSHX k a", "LINSERT k BEFORE a b",
        "LPOP k 2", "RPOP k", "LREM k 1 a", "LSET k 0 a", "LTRIM k 0 1", "SADD k a b", "SREM k a", "HSET k f v", "HMSET k f v",
            "HSETNX k f v", "HINCRBY k f 1", "HDEL k f g",
        "ZADD k 1 a", "ZINCRBY k 1 a", "ZREM k a", "ZREMRANGEBYSCORE k 0 1", "ZREMRANGEBYRANK k 0 1", "ZREMRANGEBYLEX k [a [b",
            "ZPOPMIN k", "ZPOPMAX k 2", "GEOADD k 1 1 a",
        "XADD k 1-1 f v", "XTRIM k MAXLEN 1", "XDEL k 1-1", "XSETID k 1-1", "XACK k g 1-1", "XCLAIM k g c 0 1-1", "XGROUP CREATE k g 0",
            "XGROUP SETID k g 0", "XGROUP DESTROY k g",
        "PEXPIREAT k 5", "PERSIST k", "RESTORE k 0 v", "RENAME k l", "RENAMENX k l", "RPOPLPUSH k l", "LMOVE k l LEFT RIGHT",
            "SMOVE k l a", "ZRANGESTORE k l 0 1",
        "GEOSEARCHSTORE k l FROMLONLAT 1 1 BYRADIUS 1 km", "DEL k l m", "UNLINK k", "SINTERSTORE k l m", "SUNIONSTORE k l",
            "SDIFFSTORE k l m", "MSET k 1 l 2 m 3", "MSETNX k 1 l 2",
        "BITOP AND k l m", "ZUNIONSTORE k 2 l m WEIGHTS 1 2", "ZINTERSTORE k 1 l", "ZDIFFSTORE k 3 l m n",
            "SORT k ALPHA LIMIT 0 5 STORE l", "SORT k", "COPY k l REPLACE",
    ];

    [Fact]
    public async Task Keys_OfEveryEffect_AreThoseThatRedisNames()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        var found = new List<EffectKey>();
        foreach (string text in s_effects)
        {
            Effect effect = Of(text);
            Assert.True(EffectScope.Find(effect, 3, found) == EffectReach.Keys, text);
            Assert.All(found, k => Assert.Equal(3, k.Database));
            RedisReply keys = await client.ExpectAsync(["COMMAND", "GETKEYS", .. text.Split(' ')]);
            Assert.Equal(keys.Items.Select(k => k.Text).Order(), found.Select(k => Encoding.ASCII.GetString(effect[k.Argument])).Order());
        }
    }

    [Theory]
    [InlineData("MOVE k 7", "3:k 7:k")]
    [InlineData("COPY k l DB 5 REPLACE", "3:k 5:l")]
    [InlineData("copy k l", "3:k 3:l")]
    public void Keys_InAnotherDatabase_AreFoundThere(string text, string expected)
    {
        var found = new List<EffectKey>();
        Effect effect = Of(text);
        Assert.Equal(EffectReach.Keys, EffectScope.Find(effect, 3, found));
        Assert.Equal(expected, string.Join(' ', found.Select(k => $"{k.Database}:{Encoding.ASCII.GetString(effect[k.Argument])}")));
    }

    [Theory]
    [InlineData("FLUSHALL")]
    [InlineData("FLUSHDB ASYNC")]
    [InlineData("SWAPDB 0 1")]
    [InlineData("SORT k BY w_* STORE l")]
    [InlineData("SORT k GET # STORE l")]
    [InlineData("SPOP k")]
    [InlineData("EVAL x 1 k")]
    [InlineData("JSON.SET k . 1")]
    [InlineData("SET")]
    [InlineData("MSET")]
    [InlineData("ZUNIONSTORE k 5 l m")]
    [InlineData("A_NAME_THAT_IS_LONGER_THAN_ANY_OTHER k")]
    public void Reach_OfWhatIsNotConfinedToNamedKeys_IsAnything(string text) =>
        Assert.Equal(EffectReach.Anything, EffectScope.Find(Of(text), 0, []));

    [Fact]
    public void Reach_OfWhatChangesNoKey_IsSaid()
    {
        foreach (string text in new[] { "PING", "ping x", "REPLCONF GETACK *", "MULTI", "EXEC", "PUBLISH a b", "SPUBLISH a b" })
        {
            Assert.Equal(EffectReach.Nothing, EffectScope.Find(Of(text), 0, []));
        }
        Assert.Equal(EffectReach.Select, EffectScope.Find(Of("SELECT 4"), 0, []));
        Assert.Equal(4, EffectScope.DatabaseOf(Of("SELECT 4")));
        Assert.Equal(EffectReach.Library, EffectScope.Find(Of("FUNCTION FLUSH"), 0, []));
    }

    private static Effect Of(string text)
    {
        string[] words = text.Split(' ');
        byte[] bytes = Encoding.ASCII.GetBytes($"*{words.Length}\r\n" + string.Concat(words.Select(w => $"${w.Length}\r\n{w}\r\n")));
        var effect = new Effect();
        Assert.True(effect.TryRead(bytes, 0, bytes.Length));
        Assert.False(new Effect().TryRead(bytes, 0, bytes.Length - 1));
        return effect;
    }
}
