// Commands at random that meet the rules of the reduction, over so few keys that runs come about and are ended in every way: by what
// empties a key that has an expiry, by joint commands, in a transaction, by flushes. Beside it RandomCommands has the whole vocabulary.
using System.Globalization;

namespace Slogger.Redis.Tests.Reduction;

internal sealed class RuleCommands(int seed)
{
    private readonly Random _random = new(seed);

    /// <summary>Some commands, mostly on one key. Some are wrong by intent.</summary>
    public IReadOnlyList<string[]> Next()
    {
        if (_random.Next(40) == 0) { return [["COPY", Any(), Any(), "DB", Database(), "REPLACE"], ["FLUSHDB"]]; }
        Func<string[]> family = Pick(
            Strings, Kept, Counters, Lists, Trimmed, Hashes, Emptied, Sets, SortedSets, Streams, Several, Wholes);
        _key = _random.Next(3).ToString(CultureInfo.InvariantCulture);
        string[][] commands = [.. Enumerable.Range(0, _random.Next(1, 7)).Select(_ => _random.Next(5) == 0 ? Lives(family) : family())];
        return _random.Next(10) == 0 ? [["MULTI"], .. commands, ["EXEC"]] : commands;
    }

    private string _key = "0";

    private string[] Strings() => Pick<string[]>(
        ["SET", Key("s"), Value()], ["SET", Key("s"), Value(), "KEEPTTL"], ["SET", Key("s"), Value(), "KEEPTTL"],
            ["SET", Key("s"), Value(), "PX", Life()], ["SET", Key("s"), Value(), "NX"], ["SET", Key("s"), Value(), "XX"],
        ["APPEND", Key("s"), Value()], ["APPEND", Key("s"), Value()], ["SETRANGE", Key("s"), "2", "xyz"], ["GETSET", Key("s"), Value()],
            ["SET", Key("s"), Value(), "XX", "GET"], ["SETBIT", Key("s"), Small(), "1"], ["GETDEL", Key("s")], ["DEL", Key("s")],
        ["SETNX", Key("s"), Value()]);

    // What keeps an expiry, and what comes after nothing.
    private string[] Kept() => Pick<string[]>(
        ["SET", Key("s"), Value(), "KEEPTTL"], ["SET", Key("s"), Value(), "KEEPTTL"], ["PEXPIRE", Key("s"), Life()], ["DEL", Key("s")],
        ["RESTORE", Key("s"), "0", Dumped], ["RESTORE", Key("s"), Life(), Dumped, "REPLACE"]);

    // A hash that is often empty, and then without the expiry that it had.
    private string[] Emptied() => Pick<string[]>(
        ["HSET", Key("h"), "a", Value()], ["HSET", Key("h"), "a", Value()], ["HDEL", Key("h"), "a", "b", "c", "d", "n"],
            ["HDEL", Key("h"), "a"], ["PEXPIRE", Key("h"), Life()], ["PEXPIRE", Key("h"), Life()]);

    // A list of the latest.
    private string[] Trimmed() => Pick<string[]>(
        ["LPUSH", Key("l"), Value()], ["LPUSH", Key("l"), Value(), Value()], ["LTRIM", Key("l"), "0", "2"], ["LTRIM", Key("l"), "0", "2"]);

    private string[] Counters() => Pick<string[]>(
        ["INCR", Key("n")], ["DECR", Key("n")], ["INCRBY", Key("n"), Small()], ["DECRBY", Key("n"), Small()], ["INCRBY", Key("n"), Huge],
            ["DECRBY", Key("n"), Huge], ["INCRBY", Key("n"), Huge], ["DECRBY", Key("n"), Huge], ["INCRBYFLOAT", Key("n"), "1"],
        ["SET", Key("n"), "-" + Huge], ["SET", Key("n"), "5", "KEEPTTL"]);

    private string[] Lists() => Pick<string[]>(
        ["RPUSH", Key("l"), Value()], ["RPUSH", Key("l"), Value(), Value()], ["LPUSH", Key("l"), Value()],
            ["LPUSH", Key("l"), Value(), Value()], ["LPUSH", Key("l"), Value()], ["LTRIM", Key("l"), "0", Trim()],
            ["LTRIM", Key("l"), "0", Trim()], ["LTRIM", Key("l"), "1", "-1"], ["LPOP", Key("l")], ["RPOP", Key("l"), "3"],
        ["LSET", Key("l"), "0", Value()], ["LPUSHX", Key("l"), Value()], ["LREM", Key("l"), "0", Value()],
            ["LINSERT", Key("l"), "BEFORE", Value(), "here"]);

    private string[] Hashes() => Pick<string[]>(
        ["HSET", Key("h"), Field(), Value()], ["HSET", Key("h"), Field(), Value(), Field(), Value()], ["HSET", Key("h"), Field(), Value()],
            ["HDEL", Key("h"), Field()], ["HDEL", Key("h"), Field(), Field(), Field()], ["HSETNX", Key("h"), Field(), Value()],
        ["HINCRBY", Key("h"), "n", "1"], ["HINCRBYFLOAT", Key("h"), "n", "0.5"], ["HMSET", Key("h"), Field(), Value()]);

    private string[] Sets() => Pick<string[]>(
        ["SADD", Key("t"), Field()], ["SADD", Key("t"), Field(), Field()], ["SREM", Key("t"), Field()],
            ["SREM", Key("t"), Field(), Field()], ["SPOP", Key("t")], ["SPOP", Key("t"), "2"]);

    private string[] SortedSets() => Pick<string[]>(
        ["ZADD", Key("z"), Small(), Field()], ["ZADD", Key("z"), Small(), Field(), Small(), Field()], ["ZADD", Key("z"), "-inf", Field()],
            ["ZADD", Key("z"), "GT", Small(), Field()], ["ZADD", Key("z"), "NX", Small(), Field()],
            ["ZADD", Key("z"), "XX", Small(), Field()], ["ZADD", Key("z"), "INCR", Small(), Field()],
        ["ZINCRBY", Key("z"), "0.7", Field()], ["ZREM", Key("z"), Field()], ["ZPOPMIN", Key("z")],
            ["GEOADD", Key("z"), "13", "52", Field()], ["ZREMRANGEBYRANK", Key("z"), "1", "-1"]);

    private string[] Streams() => Pick<string[]>(
        ["XADD", Key("x"), "*", "f", Value()], ["XADD", Key("x"), "MAXLEN", "2", "*", "f", Value()], ["XTRIM", Key("x"), "MAXLEN", "1"],
            ["XGROUP", "CREATE", Key("x"), "g", "0", "MKSTREAM"], ["XREADGROUP", "GROUP", "g", "c", "STREAMS", Key("x"), ">"]);

    // Of several keys, of any kind.
    private string[] Several() => Pick<string[]>(
        ["MSET", Any(), Value(), Any(), Value()], ["MSET", Key("s"), Value(), Key("s"), Value(), Any(), Value()], ["DEL", Any(), Any()],
            ["UNLINK", Any(), Any(), Any()], ["MSETNX", Any(), Value(), Any(), Value()],
        ["RENAME", Any(), Any()], ["RENAMENX", Any(), Any()], ["COPY", Any(), Any()], ["COPY", Any(), Any(), "REPLACE"],
            ["COPY", Any(), Any(), "DB", Database(), "REPLACE"], ["MOVE", Any(), Database()],
        ["LMOVE", Key("l"), Other("l"), "LEFT", "RIGHT"], ["SMOVE", Key("t"), Other("t"), Field()],
            ["SUNIONSTORE", Key("t"), Other("t"), Other("t")], ["ZUNIONSTORE", Key("z"), "2", Other("z"), Other("t")],
            ["BITOP", "NOT", Key("s"), Other("s")], ["SORT", Key("t"), "ALPHA", "STORE", Other("l")],
            ["SORT", Key("t"), "BY", "n*", "GET", "s*", "STORE", Other("l")]);

    private string[] Lives(Func<string[]> family)
    {
        string key = Array.Find(family(), w => w.Length == 2 && w[1] == _key[0]) ?? Any();
        return Pick<string[]>(
            ["PEXPIRE", key, Life()], ["PEXPIRE", key, Life()], ["PERSIST", key], ["PEXPIRE", key, Life(), "NX"],
                ["PEXPIRE", key, Life(), "XX"], ["PEXPIRE", key, Life(), "GT"], ["PEXPIRE", key, Life(), "LT"], ["DEL", key],
                ["PEXPIRE", key, "15"]);
    }

    private string[] Wholes() => _random.Next(12) switch
    {
        0 => ["FLUSHDB"],
        1 => _random.Next(3) == 0 ? ["FLUSHALL"] : ["FLUSHDB", "ASYNC"],
        2 => ["SWAPDB", "0", "1"],
        3 => ["FUNCTION", "LOAD", "REPLACE", $"#!lua name=lib{Small()}\nredis.register_function('f{Small()}', function() return 1 end)"],
        4 => ["FUNCTION", "FLUSH"],
        5 => ["EVAL", "redis.call('HDEL', KEYS[1], 'a', 'b', 'c') redis.call('HSET', KEYS[1], 'a', '1') redis.call('INCR', KEYS[2])", "2",
            Key("h"), Key("n")],
        6 => ["PUBLISH", "news", Value()],
        _ => ["SELECT", Database()],
    };

    // A counter that is 7.
    private const string Dumped = "\0\u00C0\u0007\n\0\u0074\u00CD\u0048\u00A2\u0083\u00AB\u00CE\u0092";

    // Two of these pass 64 bits.
    private const string Huge = "9000000000000000000";

    private T Pick<T>(params T[] of) => of[_random.Next(of.Length)];

    private string Key(string family) => family + _key;

    private string Other(string family) => family + _random.Next(3).ToString(CultureInfo.InvariantCulture);

    private string Any() => Other(Pick("s", "n", "l", "t", "h", "z", "x"));

    private string Field() => Pick("a", "b", "c", "d");

    private string Value() => Pick("1", "2", "v" + _random.Next(1000).ToString(CultureInfo.InvariantCulture));

    private string Small() => _random.Next(9).ToString(CultureInfo.InvariantCulture);

    private string Trim() => Pick("0", "1", "2", "2", "4");

    private string Life() => (1_000_000 + _random.Next(1_000_000)).ToString(CultureInfo.InvariantCulture);

    private string Database() => _random.Next(2).ToString(CultureInfo.InvariantCulture);
}
