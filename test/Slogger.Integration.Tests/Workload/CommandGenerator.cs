// Chooses a writer's next command from a seeded generator and the model's present state, so that nearly every command
// has an effect and every value names its origin. Bounded: collections are trimmed, the number of keys is fixed.
using System.Globalization;
using Slogger.Integration.Tests.Model;

namespace Slogger.Integration.Tests.Workload;

internal sealed partial class CommandGenerator(int writer, int seed, WriterProfile profile, int? pushesTo)
{
    private const int KeysPerFamily = 3;
    private const int TrimAbove = 24;
    private const int ExpiryMarginMs = 300;

    private readonly Random _random = new(seed);
    private readonly string _prefix = string.Create(CultureInfo.InvariantCulture, $"w{writer}:");
    private readonly int[] _databases = [0, 0, 0, 1, PrivateDatabase(writer)];
    private readonly Dictionary<string, long> _latestExpiry = new(StringComparer.Ordinal);
    private long _serial;
    private bool _watching;

    /// <summary>Short-lived keys and expiries near the present; off where the server's clock is not the test's.</summary>
    public bool ShortLived { get; init; } = true;

    /// <summary>The latest acknowledged value of another writer, for references between writers.</summary>
    public Func<string?>? SeenElsewhere { get; init; }

    /// <summary>The database that one writer alone uses (and may flush).</summary>
    public static int PrivateDatabase(int writer) => 4 + writer;

    public static string HandOffKey(int popper) => string.Create(CultureInfo.InvariantCulture, $"w{popper}:q");

    /// <summary>The next command for a connection whose state is the model's. A transaction comes one command at a time.</summary>
    public Issued Next(KeyspaceModel model)
    {
        _serial++;
        if (model.InTransaction)
        {
            return Chance(30) ? Plain("EXEC") : Value(model);
        }

        int dice = _random.Next(1000);
        if (_watching || (profile.Transactions && dice < 60))
        {
            // MULTI follows WATCH at once: the writer's own commands in between would spoil the transaction.
            _watching = !_watching && dice < 20;
            return _watching ? Plain("WATCH", KeyName('s')) : Plain("MULTI");
        }

        if (profile.PopsFrom && dice < 150 && model.Database == 0)
        {
            return Plain("BLPOP", HandOffKey(writer), "0.1");
        }

        if (pushesTo is { } popper && dice < 100 && model.Database == 0)
        {
            return Plain("RPUSH", HandOffKey(popper), Fresh());
        }

        return dice switch
        {
            < 170 => Read(model),
            < 190 => Plain("SELECT", Text(_databases[_random.Next(_databases.Length)])),
            < 220 when ShortLived => ShortLivedCommand(model),
            < 222 when model.Database == PrivateDatabase(writer) => Plain("FLUSHDB"),
            < 250 when SeenElsewhere?.Invoke() is { } seen => Plain("SET", _prefix + "r", seen),
            _ => Value(model),
        };
    }

    private Issued Value(KeyspaceModel model) => _random.Next(8) switch
    {
        0 => StringCommand(),
        1 => KeyCommand(),
        2 => ListCommand(model),
        3 => SetCommand(model),
        4 => HashCommand(),
        5 => SortedSetCommand(model),
        6 => StreamCommand(model),
        _ => ScriptCommand(),
    };

    private Issued Read(KeyspaceModel model) => _random.Next(7) switch
    {
        0 => Plain("GET", KeyName('s')),
        1 => Plain("LRANGE", KeyName('l'), "0", "-1"),
        2 => Plain("HGET", KeyName('h'), Member()),
        3 => Plain("ZCARD", KeyName('z')),
        4 => Plain("XLEN", KeyName('t')),
        5 => Plain("EXISTS", KeyName('s')),
        _ => model.Database == 0 ? Plain("PING") : Plain("SELECT", "0"),
    };

    private Issued StringCommand() => _random.Next(10) switch
    {
        0 => Plain("SET", KeyName('s'), Fresh(), "PXAT", FarFuture()),
        1 => Plain("MSET", KeyName('s'), Fresh(), KeyName('s'), Fresh() + "b"),
        2 => Plain("SETRANGE", KeyName('s'), Text(_random.Next(30)), "<" + Text(_serial) + ">"),
        3 => Plain("GETSET", KeyName('s'), Fresh()),
        4 => Plain("INCRBY", KeyName('n'), Text(_random.Next(-50, 100))),
        5 => Plain("INCRBYFLOAT", KeyName('f'), (_random.Next(-40, 80) * 0.25m).ToString(CultureInfo.InvariantCulture)),
        6 => Plain("GETDEL", KeyName('s')),
        7 => Plain("SET", KeyName('s'), Fresh() + new string('v', _random.Next(600))),
        _ => Plain("SET", KeyName('s'), Fresh()),
    };

    private Issued KeyCommand()
    {
        char family = "slhz"[_random.Next(4)];
        string key = KeyName(family);
        string other = OtherKey(family, key);
        return _random.Next(7) switch
        {
            0 => Plain("DEL", key, other),
            1 or 2 => Plain("RENAME", key, other),
            3 => Plain("COPY", key, other, "REPLACE"),
            4 => Plain("MOVE", key, Text(Chance(50) ? 2 : 3)),
            5 => Plain("PEXPIREAT", key, FarFuture()),
            _ => Plain("PERSIST", key),
        };
    }

    private Issued ShortLivedCommand(KeyspaceModel model)
    {
        string key = KeyName('x');
        long now = DateTimeOffset.UtcNow.ToUnixTimeMilliseconds();
        long latest = _latestExpiry.GetValueOrDefault(key);
        model.Entries.TryGetValue(new(model.Database, key), out var entry);
        if (entry is { ExpiresAtMs: > 0 } && latest + ExpiryMarginMs < now)
        {
            // Right only if the expiry itself is replayed: else the old value would be added to.
            return new Issued(["INCRBY", key, "7"]) { Expired = key };
        }

        // Each expiry of a key is later than those before it, so that after a rollback, too, none is alive when the latest is over.
        latest = Math.Max(latest + 1, now + _random.Next(50, 1200));
        _latestExpiry[key] = latest;
        return Plain("SET", key, Text(_random.Next(1000, 9000)), "PXAT", Text(latest));
    }

    private Issued Plain(params string[] arguments) => new(arguments);

    private bool Chance(int percent) => _random.Next(100) < percent;

    private string KeyName(char family) => _prefix + family + Text(_random.Next(KeysPerFamily));

    private string OtherKey(char family, string than)
    {
        string key;
        do
        {
            key = KeyName(family);
        }
        while (key == than);

        return key;
    }

    private string Member() => "m" + Text(_random.Next(12));

    private string Fresh() => string.Create(CultureInfo.InvariantCulture, $"{writer}.{_serial}");

    private string FarFuture() => Text(4_000_000_000_000 + _random.Next(1_000_000));

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
}
