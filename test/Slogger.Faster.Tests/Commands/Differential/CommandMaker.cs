// Commands at random: few keys, so that they meet; values of all kinds; now and then what is wrong. What they do may depend on their order
// only: expiries are far away, or past.
using System.Globalization;

namespace Slogger.Faster.Tests.Commands.Differential;

/// <summary>One or more commands that belong together, since what follows the first depends on nothing else.</summary>
internal sealed record Step(params string[][] Commands);

internal sealed class CommandMaker(int seed)
{
    /// <summary>Points in time that are set absolutely: years from now, hours apart.</summary>
    private static readonly long[] s_times = [.. Enumerable.Range(0, 8).Select(i => 4_000_000_000_123L + (i * 7_200_000L))];

    private readonly Random _random = new(seed);
    private int _relative;

    public static bool IsAbsolute(long ms) => s_times.Contains(ms) || s_times.Contains(ms * 1000 + 123)
        || s_times.Any(t => (t + 500) / 1000 == ms);

    public Step Next()
    {
        int kind = _random.Next(1000);
        if (kind < 10) return new([["SCAN", "0", "COUNT", "100000"], ["RANDOMKEY"]]);
        if (kind < 25) return new([Odd()]);
        string[] command = kind < 420 ? Value() : kind < 560 ? Number()
            : kind < 680 ? Bits() : kind < 860 ? Key() : kind < 930 ? Transaction() : Connection();
        return new([kind % 50 == 0 ? Spoil(command) : command]);
    }

    private string[] Value() => _random.Next(17) switch
    {
        0 or 1 => ["GET", Name()],
        2 => ["SET", Name(), Text()],
        3 or 4 => ["SET", Name(), Text(), .. Options("NX", "XX", "GET", "KEEPTTL", "EX", "PX", "EXAT", "PXAT")],
        5 => ["SETNX", Name(), Text()],
        6 => _random.Next(2) == 0 ? ["SETEX", Name(), Seconds(), Text()] : ["PSETEX", Name(), Milliseconds(), Text()],
        7 => ["GETSET", Name(), Text()],
        8 => ["GETDEL", Name()],
        9 => ["GETEX", Name(), .. Options("PERSIST", "EX", "PX", "EXAT", "PXAT")],
        10 => ["MGET", .. Names()],
        11 => ["MSET", .. Names().SelectMany(n => new[] { n, Text() })],
        12 => ["MSETNX", .. Names().SelectMany(n => new[] { n, Text() })],
        13 => ["APPEND", Name(), Text()],
        14 => ["STRLEN", Name()],
        15 => [_random.Next(2) == 0 ? "GETRANGE" : "SUBSTR", Name(), Index(), Index()],
        _ => ["SETRANGE", Name(), Index(), Text()],
    };

    private string[] Number() => _random.Next(6) switch
    {
        0 => ["INCR", Name()],
        1 => ["DECR", Name()],
        2 => ["INCRBY", Name(), Integer()],
        3 => ["DECRBY", Name(), Integer()],
        _ => ["INCRBYFLOAT", Name(), Float()],
    };

    private string[] Bits() => _random.Next(3) switch
    {
        0 => ["SETBIT", Name(), Index(), One("0", "1", "1", "2", "x")],
        1 => ["GETBIT", Name(), Index()],
        _ => _random.Next(4) switch
        {
            0 => ["BITCOUNT", Name()],
            1 => ["BITCOUNT", Name(), Index()],
            2 => ["BITCOUNT", Name(), Index(), Index()],
            _ => ["BITCOUNT", Name(), Index(), Index(), One("BIT", "BIT", "BYTE", "bit", "x")],
        },
    };

    private string[] Key() => _random.Next(20) switch
    {
        0 => [One("DEL", "UNLINK"), .. Names()],
        1 => [One("EXISTS", "TOUCH"), .. Names()],
        2 => ["TYPE", Name()],
        3 or 4 => ["EXPIRE", Name(), One(Seconds(), "-1", "0", "x", "9223372036854775807"), .. Conditions()],
        5 => ["PEXPIRE", Name(), One(Milliseconds(), "-1", "9223372036854775807"), .. Conditions()],
        6 => ["EXPIREAT", Name(), One(AtSecond(), AtSecond(), "1", "-5", "4611686018427387"), .. Conditions()],
        7 or 8 => ["PEXPIREAT", Name(), One(AtMillisecond(), AtMillisecond(), AtMillisecond(), "1"), .. Conditions()],
        9 => [One("TTL", "PTTL"), Name()],
        10 or 11 => [One("EXPIRETIME", "PEXPIRETIME"), Name()],
        12 => ["PERSIST", Name()],
        13 => ["RENAME", Name(), Name()],
        14 => ["RENAMENX", Name(), Name()],
        15 => ["COPY", Name(), Name(),
            .. One<string[]>([], ["REPLACE"], ["DB", "0"], ["DB", "0", "REPLACE"], ["DB", "1"], ["DB", "x"], ["DB", "99999999999"], ["y"])],
        16 => ["KEYS", Pattern()],
        17 => ["SCAN", "0", "COUNT", "100000",
            .. One<string[]>([], ["MATCH", Pattern()], ["TYPE", "string"], ["TYPE", "hash"], ["COUNT", "0"], ["x"])],
        18 => ["DBSIZE"],
        _ => _random.Next(10) == 0 ? [One("FLUSHDB", "FLUSHALL"), .. One<string[]>([], ["SYNC"], ["ASYNC"], ["x"])] : ["DBSIZE"],
    };

    private string[] Transaction() => _random.Next(9) switch
    {
        0 or 1 => ["MULTI"],
        2 or 3 or 4 => ["EXEC"],
        5 => ["DISCARD"],
        6 or 7 => ["WATCH", .. Names()],
        _ => ["UNWATCH"],
    };

    private string[] Connection() => _random.Next(30) switch
    {
        23 => ["CLIENT", .. One<string[]>(["GETREDIR"], ["TRACKINGINFO"], ["CACHING", "YES"], ["UNBLOCK", "999999"],
            ["UNBLOCK", "999999", Text()], ["UNBLOCK", Integer(), "ERROR", "x"], ["UNPAUSE"], ["REPLY", "ON"], ["REPLY", "x"],
                [Text(), Text()])],
        24 => ["ACL", .. One<string[]>(["USERS"], ["LIST"], ["GETUSER", "default"], ["GETUSER", Text()], ["CAT"], ["CAT", "x"],
            ["CAT", "x", "y"], ["GENPASS", "0"], ["GENPASS", "x"], [Text(), Text()])],
        25 => [One("CONFIG", "MEMORY", "COMMAND", "CLUSTER", "PUBSUB"),
            One("REWRITE", "PURGE", "NUMPAT", "CHANNELS", "RESET", "BUMPEPOCH", "nonsense", Text()),
                .. One<string[]>([], [Text()], ["x", "y"])],
        26 => ["PUBLISH", Text(), Text()],
        27 => ["SPUBLISH", Name(), Text()],
        28 => ["PUBSUB", One("NUMSUB", "SHARDNUMSUB", "CHANNELS", "SHARDCHANNELS"), .. One<string[]>([], [Text()], [Name(), Text()])],
        29 => ["SCAN", "0\0" + Text(), "COUNT", "100000"],
        0 => ["PING"],
        1 => ["PING", Text()],
        2 => ["ECHO", Text()],
        3 or 4 or 5 => ["HELLO", One("2", "3", "3", "1", "x"),
            .. One<string[]>([], [], ["SETNAME", "me"], ["AUTH", "default", "x"], ["AUTH", "someone", "x"], ["nonsense"])],
        6 => ["HELLO"],
        7 => ["RESET"],
        8 => ["SELECT", One("0", "0", "1", "x", "99999999999")],
        9 => ["CLIENT", "SETNAME", One("name", "", "two words")],
        10 => ["CLIENT", "GETNAME"],
        11 => ["CLIENT", One("ID", "NO-EVICT", "nonsense"), .. One<string[]>([], ["on"], ["x"])],
        12 => ["COMMAND", "GETKEYS", .. Value()],
        13 => ["COMMAND", "GETKEYS", .. Transaction()],
        14 => ["CONFIG", "GET", One("databases", "maxmemory-policy", "nonsense")],
        15 => ["ACL", "WHOAMI"],
        16 => ["AUTH", .. One<string[]>(["x"], ["default", "x"], ["someone", "x"], ["a", "b", "c"])],
        17 => ["WAIT", "0", One("0", "-1", "x")],
        18 => [One("READONLY", "READWRITE")],
        19 => ["MEMORY", "USAGE", Name(), .. One<string[]>([], [], ["SAMPLES", "5"], ["SAMPLES"], ["x"])],
        20 => [One("TIME", "LASTSAVE")],
        21 => ["CLIENT", "KILL", .. One<string[]>(["1.2.3.4:5"], ["ID", "999999"], ["ID"], ["ADDR", "1.2.3.4:5"])],
        22 => ["CONFIG", "SET", "nonsense", Text()],
        _ => [One("CLIENT", "ACL", "PUBSUB", "SUBSCRIBE", "SSUBSCRIBE", "PSUBSCRIBE")],
    };

    // Of none that there is, and of such with an argument too many or too few.
    private string[] Odd() => _random.Next(4) switch
    {
        0 => ["NONSENSE", Text(), Text()],
        1 => [Text(), .. Names()],
        2 => ["WAITAOF", "1", "0", "0"],
        _ => Spoil(Value()),
    };

    // A place in a scan means to each store what it wants.
    private string[] Spoil(string[] command) => _random.Next(command[0] == "SCAN" ? 2 : 3) switch
    {
        0 => command[..^1] is { Length: > 0 } shorter ? shorter : command,
        1 => [.. command, Other()],
        _ => [.. command.Select((a, i) => i > 0 && _random.Next(3) == 0 ? Other() : a)],
    };

    // No time that is further away than the engine's last.
    private string Other() => Text() is var text && text.StartsWith("92233", StringComparison.Ordinal) ? "x" : text;

    private string[] Options(params string[] options)
    {
        var chosen = new List<string>();
        for (int n = _random.Next(1, 4); n > 0; n--)
        {
            string option = options[_random.Next(options.Length)];
            chosen.Add(_random.Next(6) == 0 ? option.ToLowerInvariant() : option);
            switch (option)
            {
                case "EX": chosen.Add(One(Seconds(), Seconds(), "0", "x", "9223372036854775807")); break;
                case "PX": chosen.Add(One(Milliseconds(), Milliseconds(), "-1", "9223372036854775807")); break;
                case "EXAT": chosen.Add(One(AtSecond(), AtSecond(), "1", "0")); break;
                case "PXAT": chosen.Add(One(AtMillisecond(), AtMillisecond(), AtMillisecond(), "1", "-1")); break;
            }
        }

        return [.. chosen];
    }

    private string[] Conditions() =>
        One<string[]>([], [], ["NX"], ["XX"], ["GT"], ["LT"], ["gt"], ["XX", "GT"], ["NX", "GT"], ["GT", "LT"], ["x"]);

    private string Name() => _random.Next(60) == 0 ? One("", "absent", "k\r\n1", "\0") : $"k{_random.Next(8)}";

    private string[] Names() => [.. Enumerable.Range(0, _random.Next(1, 4)).Select(_ => Name())];

    private string Text() => _random.Next(12) switch
    {
        0 => "",
        1 or 2 or 3 => Integer(),
        4 or 5 => Float(),
        6 => new string((char)_random.Next(256), _random.Next(1, 200)),
        7 => "a\r\nb\0c",
        8 => "é\u00ff[*?]\\",
        _ => string.Concat(Enumerable.Range(0, _random.Next(1, 20)).Select(_ => (char)('a' + _random.Next(26)))),
    };

    private string Integer() => _random.Next(8) switch
    {
        0 => "9223372036854775807",
        1 => "-9223372036854775808",
        2 => "9223372036854775806",
        3 => One("+1", " 1", "1 ", "01", "-0", "1.0", "9223372036854775808", "-", "1e1", "12345678901234567890123"),
        _ => _random.Next(-1000, 1000).ToString(CultureInfo.InvariantCulture),
    };

    private string Float() => _random.Next(10) switch
    {
        0 => One("inf", "-inf", "nan", "+Infinity", "1e4932", "1e5000", "-1e4000", "1e-4940", "1e-5000", "0x1p3", "0x.8p-2", "0x", "1e",
            ".", "1.", ".5", "e5", " 1", "1 ", "+-1", "1_0", "0x1.8", "-0", "-0.0", "+0"),
        1 => Integer(),
        2 => (_random.NextDouble() * Math.Pow(10, _random.Next(-30, 40))).ToString("R", CultureInfo.InvariantCulture),
        3 => $"{_random.Next(1000)}.{_random.NextInt64(long.MaxValue)}{_random.Next()}",
        4 => "-" + (_random.NextDouble() * 1e6).ToString("F15", CultureInfo.InvariantCulture),
        _ => (_random.Next(-10000, 10000) / 100m).ToString(CultureInfo.InvariantCulture),
    };

    private string Index() => _random.Next(12) switch
    {
        0 => One("x", "", "4294967296", "-9223372036854775808", "9223372036854775807", "20000"),
        1 or 2 or 3 => _random.Next(-20, 0).ToString(CultureInfo.InvariantCulture),
        _ => _random.Next(0, 60).ToString(CultureInfo.InvariantCulture),
    };

    private string Pattern() => _random.Next(8) switch
    {
        0 => "*",
        1 => "k[0-3]",
        2 => "k[^0-3]*",
        3 => "?[\\4-7",
        4 => "*\r*",
        5 => string.Concat(Enumerable.Range(0, _random.Next(1, 7)).Select(_ => "k*?[]^-\\0123"[_random.Next(12)])),
        6 => "k\\" + _random.Next(8),
        _ => Name(),
    };

    // Never the same, and minutes apart: so the moment at which it runs matters to none of the comparisons.
    private string Seconds() => Relative().ToString(CultureInfo.InvariantCulture);

    private string Milliseconds() => (Relative() * 1000).ToString(CultureInfo.InvariantCulture);

    private long Relative() => (_random.Next(1, 9) * 1_000_000L) + (_relative++ % 9000 * 100);

    private string AtSecond() => (AtTime() / 1000).ToString(CultureInfo.InvariantCulture);

    private string AtMillisecond() => AtTime().ToString(CultureInfo.InvariantCulture);

    private long AtTime() => s_times[_random.Next(s_times.Length)];

    private T One<T>(params T[] choices) => choices[_random.Next(choices.Length)];
}
