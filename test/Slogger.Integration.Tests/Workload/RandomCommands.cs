// Write commands of every family, at random, over few keys: strings, lists, sets, hashes, sorted sets, streams, bits,
// HyperLogLogs, geo; several keys at once, several databases, expiry, scripts, functions, transactions, large values. Nothing is
// known of the outcome, so what a store holds afterwards is compared as a whole. Slogger.Redis.Tests has this file, too.
using System.Globalization;

namespace Slogger.Integration.Tests.Workload;

internal sealed class RandomCommands(int seed)
{
    public const string Library =
        "#!lua name=counters\nredis.register_function('bump', function(keys, args) redis.call('HINCRBY', keys[1], args[1], 1) return "
            + "redis.call('INCRBY', keys[2], 2) end)";

    private const int Keys = 12;
    private const int Databases = 4;
    private readonly Random _random = new(seed);

    /// <summary>The next command, or the commands of a transaction. Some are wrong by intent.</summary>
    public IReadOnlyList<string[]> Next()
    {
        if (_random.Next(12) > 0) { return [One()]; }
        return [["MULTI"], .. Enumerable.Range(0, _random.Next(1, 6)).Select(_ => One()), [_random.Next(6) == 0 ? "DISCARD" : "EXEC"]];
    }

    private string[] One() => _random.Next(11) switch
    {
        0 => Strings(), 1 => Lists(), 2 => Sets(), 3 => Hashes(), 4 => SortedSets(), 5 => Streams(), 6 => Bits(), 7 => Anything(), 8 =>
            Scripts(), 9 => Lives(),
        _ => Wholes(),
    };

    private string[] Strings() => Pick(
        ["SET", Key("s"), Value()], ["SET", Key("s"), Value(), "EX", "1000"], ["SET", Key("s"), Value(), "XX", "KEEPTTL"],
            ["SET", Key("s"), Value(), "KEEPTTL"], ["SETNX", Key("s"), Value()],
        ["APPEND", Key("s"), Value()], ["INCRBY", Key("n"), Number()], ["DECR", Key("n")], ["INCRBYFLOAT", Key("f"), "0.1"],
            ["SETRANGE", Key("s"), Number(), "xyz"],
        ["GETDEL", Key("s")], ["GETEX", Key("s"), "PERSIST"], ["GETSET", Key("s"), Value()],
            ["MSET", Key("s"), Value(), Key("s"), Value()], ["MSETNX", Key("s"), "1", Key("s"), "2"]);

    private string[] Lists() => Pick(
        ["RPUSH", Key("l"), Value(), Value()], ["LPUSH", Key("l"), Number()], ["LPOP", Key("l"), "2"], ["RPOP", Key("l")],
            ["LREM", Key("l"), "1", Number()],
        ["LTRIM", Key("l"), "0", "40"], ["LMOVE", Key("l"), Key("l"), "LEFT", "RIGHT"], ["LINSERT", Key("l"), "BEFORE", Number(), "here"],
            ["LSET", Key("l"), "0", Value()],
        ["LMPOP", "2", Key("l"), Key("l"), "LEFT", "COUNT", "3"], ["SORT", Key("l"), "ALPHA", "STORE", Key("l")],
            ["BLPOP", Key("l"), "0.001"]);

    private string[] Sets() => Pick(
        ["SADD", Key("t"), Number(), Number(), Value()], ["SREM", Key("t"), Number()], ["SPOP", Key("t")], ["SPOP", Key("t"), "3"],
            ["SMOVE", Key("t"), Key("t"), Number()],
        ["SINTERSTORE", Key("t"), Key("t"), Key("t")], ["SUNIONSTORE", Key("t"), Key("t"), Key("t")],
            ["SDIFFSTORE", Key("t"), Key("t"), Key("t")]);

    private string[] Hashes() => Pick(
        ["HSET", Key("h"), Number(), Value(), "f", Value()], ["HDEL", Key("h"), Number()], ["HINCRBY", Key("h"), "n", Number()],
            ["HINCRBYFLOAT", Key("h"), "x", "0.3"],
        ["HSETNX", Key("h"), Number(), Value()]);

    private string[] SortedSets() => Pick(
        ["ZADD", Key("z"), Number(), Number(), Number(), "m"], ["ZADD", Key("z"), "GT", "CH", Number(), Number()],
            ["ZINCRBY", Key("z"), "0.7", Number()], ["ZREM", Key("z"), Number()],
        ["ZPOPMIN", Key("z"), "2"], ["ZUNIONSTORE", Key("z"), "2", Key("z"), Key("z"), "WEIGHTS", "1", "0.5"],
            ["ZRANGESTORE", Key("z"), Key("z"), "0", "5"],
        ["ZREMRANGEBYRANK", Key("z"), "20", "-1"], ["GEOADD", Key("g"), "13.4", "52.5", Number()],
            ["GEOSEARCHSTORE", Key("g"), Key("g"), "FROMLONLAT", "13", "52", "BYRADIUS", "900", "km"]);

    private string[] Streams() => Pick(
        ["XADD", Key("x"), "*", "f", Value()], ["XADD", Key("x"), "MAXLEN", "~", "20", "*", "f", Value()],
            ["XGROUP", "CREATE", Key("x"), "g", "0", "MKSTREAM"],
        ["XREADGROUP", "GROUP", "g", "c", "COUNT", "2", "STREAMS", Key("x"), ">"],
            ["XAUTOCLAIM", Key("x"), "g", "d", "0", "0", "COUNT", "3"], ["XTRIM", Key("x"), "MAXLEN", "10"],
        ["XGROUP", "DELCONSUMER", Key("x"), "g", "c"], ["XSETID", Key("x"), "99999999999999-0"]);

    private string[] Bits() => Pick(
        ["SETBIT", Key("s"), Number(), "1"], ["BITFIELD", Key("s"), "INCRBY", "u8", Number(), "3"],
            ["BITOP", "XOR", Key("s"), Key("s"), Key("s")], ["PFADD", Key("p"), Value(), Number()],
        ["PFMERGE", Key("p"), Key("p"), Key("p")], ["PFCOUNT", Key("p")]);

    // On keys of any type, or of none.
    private string[] Anything() => Pick(
        ["DEL", Any(), Any()], ["UNLINK", Any()], ["RENAME", Any(), Any()], ["RENAMENX", Any(), Any()], ["COPY", Any(), Any(), "REPLACE"],
            ["COPY", Any(), Any(), "DB", Database()],
        ["MOVE", Any(), Database()], ["INCR", Any()], ["LPUSH", Any(), "x"], ["TOUCH", Any()], ["SORT", Any(), "STORE", Any()]);

    private string[] Scripts() => Pick(
        ["EVAL", "for i = 1, 5 do redis.call('RPUSH', KEYS[1], i) end redis.call('INCR', KEYS[2]) return redis.call('LLEN', KEYS[1])", "2",
            Key("l"), Key("n")],
        ["EVAL", "redis.call('SET', KEYS[1], math.random() .. redis.call('TIME')[2]) redis.call('PEXPIRE', KEYS[1], 30) return "
            + "redis.error_reply('half way')", "1", Key("s")],
        ["EVAL", "redis.call('SELECT', ARGV[1]) redis.call('SADD', KEYS[1], redis.call('RANDOMKEY') or 'none')", "1", Key("t"), Database()],
        ["FCALL", "bump", "2", Key("h"), Key("n"), Number()],
            ["EVAL", "redis.call('SET', KEYS[1], 'x') redis.call('LPUSH', KEYS[1], 'y')", "1", Key("s")]);

    private string[] Lives() => Pick(
        ["PEXPIRE", Any(), Number()], ["PEXPIRE", Any(), "50", "NX"], ["EXPIRE", Any(), "1000"], ["EXPIREAT", Any(), "1"],
            ["PERSIST", Any()], ["SET", Key("s"), Value(), "PX", "40"],
        ["SETEX", Key("s"), "900", Value()], ["PSETEX", Key("s"), "20", Value()], ["GETEX", Key("s"), "PX", "60"],
            ["RESTORE", Any(), "30", "\0\xC0\x07\n\0\xFA\x7E\x0B\x14\x83\xFE\x1D\xC9", "REPLACE"]);

    private string[] Wholes() => _random.Next(60) switch
    {
        0 => ["FLUSHDB"],
        1 => ["FLUSHALL", "ASYNC"],
        < 6 => ["SWAPDB", Database(), Database()],
        < 8 => ["FUNCTION", "LOAD", "REPLACE", Library],
        < 10 => ["SET", Key("s"), new string((char)('a' + _random.Next(26)), _random.Next(200_000, 1_500_000))],
        < 12 => ["SCRIPT", "FLUSH"],
        _ => ["SELECT", Database()],
    };

    private string[] Pick(params string[][] commands) => commands[_random.Next(commands.Length)];

    private string Key(string family) => family + _random.Next(Keys).ToString(CultureInfo.InvariantCulture);

    private string Any() => Key(_random.GetItems("slthzxnpgf".ToCharArray(), 1)[0].ToString());

    private string Number() => _random.Next(1, 60).ToString(CultureInfo.InvariantCulture);

    private string Database() => _random.Next(Databases).ToString(CultureInfo.InvariantCulture);

    private string Value() => new('v', _random.Next(1, 90));
}
