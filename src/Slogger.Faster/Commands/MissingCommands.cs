// What Redis 7.0 can do and this store cannot: its error says so, and what to do about it. What Redis does not know either gets
// Redis's error.
using System.Collections.Frozen;
using System.Text;

namespace Slogger.Faster.Commands;

/// <summary>Redis's commands that the store has not.</summary>
public static class MissingCommands
{
    private static readonly FrozenDictionary<string, string> s_what = new (string What, string Names)[]
    {
        ("lists need", "lpush rpush lpushx rpushx lpop rpop llen lindex linsert lset lrange lrem lpos ltrim lmove lmpop rpoplpush blpop "
            + "brpop brpoplpush blmove blmpop"),
        ("sets need", "sadd srem smembers sismember smismember scard spop srandmember smove sdiff sdiffstore sinter sinterstore sintercard "
            + "sunion sunionstore sscan"),
        ("sorted sets need", "zadd zrem zscore zmscore zincrby zcard zcount zlexcount zrange zrangebyscore zrangebylex zrangestore "
            + "zrevrange zrevrangebyscore zrevrangebylex "
            + "zrank zrevrank zrandmember zscan zdiff zdiffstore zinter zinterstore zintercard zunion zunionstore zpopmin zpopmax zmpop "
                + "bzpopmin bzpopmax bzmpop "
            + "zremrangebyscore zremrangebylex zremrangebyrank"),
        ("hashes need", "hset hsetnx hmset hget hmget hgetall hdel hexists hlen hkeys hvals hincrby hincrbyfloat hstrlen hrandfield hscan"),
        ("streams need", "xadd xlen xrange xrevrange xread xreadgroup xack xclaim xautoclaim xdel xgroup xinfo xpending xsetid xtrim"),
        ("HyperLogLogs need", "pfadd pfcount pfmerge pfdebug pfselftest"),
        ("places on earth need", "geoadd geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch "
            + "geosearchstore"),
        ("scripts and functions need", "eval eval_ro evalsha evalsha_ro script fcall fcall_ro function"),
        ("BITOP and its like need", "bitop bitpos bitfield bitfield_ro lcs"),
        ("these commands on keys need", "dump restore restore-asking migrate object sort sort_ro move swapdb"),
        ("replicas need", "replicaof slaveof psync sync replconf failover"),
        ("these commands on the server need", "monitor slowlog latency debug module save bgsave bgrewriteaof shutdown lolwut memory|doctor "
            + "memory|stats memory|malloc-stats command|getkeysandflags"),
        ("users and their rights need", "acl|setuser acl|deluser acl|dryrun acl|load acl|save"),
        ("client-side caching needs", "client|tracking"),
        ("pauses need", "client|pause"),
    }.SelectMany(g => g.Names.Split(' '), (g, name) => KeyValuePair.Create(name, g.What)).ToFrozenDictionary();

    /// <summary>The error for a command that Redis has and the store has not, without '-' and line end; null: Redis has none of that name
    /// either.</summary>
    public static string? ErrorFor(ReadOnlySpan<byte> name) =>
        Remedy(name) is { } remedy ? $"ERR unknown command '{Encoding.Latin1.GetString(name)}': {remedy}" : null;

    /// <summary>The same for a subcommand.</summary>
    internal static string? ErrorFor(string container, ReadOnlySpan<byte> name) =>
        Remedy([.. Encoding.ASCII.GetBytes(container), (byte)'|', .. name]) is { } remedy
        ? $"ERR unknown subcommand '{Encoding.Latin1.GetString(name)}': {remedy}" : null;

    private static string? Remedy(ReadOnlySpan<byte> name) =>
        name.Length <= 32 && s_what.TryGetValue(Encoding.Latin1.GetString(name).ToLowerInvariant(), out string? what)
        ? $"it is not among the commands of the embedded store: {what} a Redis; start with --redis-server redis-server" : null;
}
