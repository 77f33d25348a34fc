// What one writer's keys must look like: a small Redis over the commands that the workload issues, deterministic, with a
// fingerprint of the whole state that is kept up to date by every command. The keys belong to one writer alone, so the
// state after its k-th command depends on those k commands only, and comparing fingerprints finds k.
//
// Keys of the families "x" (short-lived) and "q" (handed between writers) are not part of the fingerprint: their state
// depends on the time or on another writer. Callers: Writer (as it issues), PrefixChecker (replaying), StateReader (tests).
using System.Globalization;

namespace Slogger.Integration.Tests.Model;

/// <summary>A key with its database.</summary>
internal readonly record struct DatabaseKey(int Database, string Name)
{
    public override string ToString() => $"{Database}/{Name}";
}

internal sealed partial class KeyspaceModel
{
    private readonly Dictionary<DatabaseKey, Entry> _entries = [];
    private readonly List<IReadOnlyList<string>> _queued = [];
    private bool _inTransaction;

    public IReadOnlyDictionary<DatabaseKey, Entry> Entries => _entries;

    /// <summary>The connection's selected database.</summary>
    public int Database { get; private set; }

    public bool InTransaction => _inTransaction;

    /// <summary>Combination of all fingerprinted keys with their values and expiries; 0 for an empty keyspace.</summary>
    public ulong Fingerprint { get; private set; }

    /// <summary>The family of a key: the letter after the writer's name, as in "w3:s1".</summary>
    public static char Family(string key) => key[key.IndexOf(':', StringComparison.Ordinal) + 1];

    /// <summary>Whether a key's value follows from its writer's commands alone.</summary>
    public static bool IsFingerprinted(string key) => Family(key) is not ('x' or 'q');

    public static ulong Hash(in DatabaseKey key, string canonical)
    {
        ulong hash = 14695981039346656037;
        hash = Mix(hash, key.Database.ToString(CultureInfo.InvariantCulture));
        hash = Mix(hash, key.Name);
        hash = Mix(hash, canonical);
        hash ^= hash >> 31;
        hash *= 0x9E3779B97F4A7C15;
        return hash ^ (hash >> 29);

        static ulong Mix(ulong hash, string text)
        {
            foreach (char c in text)
            {
                hash = (hash ^ c) * 1099511628211;
            }

            return (hash ^ 0xffff) * 1099511628211;
        }
    }

    public KeyspaceModel Clone()
    {
        var copy = new KeyspaceModel { Database = Database, Fingerprint = Fingerprint, _inTransaction = _inTransaction };
        foreach (var (key, entry) in _entries)
        {
            copy._entries[key] = entry.Clone();
        }

        copy._queued.AddRange(_queued);
        return copy;
    }

    /// <summary>The writer's connection is new, or was kept over a rollback: no transaction; database 0, or the one it has.</summary>
    public void ResetConnection(int database = 0)
    {
        Database = database;
        _inTransaction = false;
        _queued.Clear();
    }

    /// <summary>Puts a key to an observed value (short-lived keys after a recovery, or a test's preparation).</summary>
    public void Force(DatabaseKey key, Entry? entry)
    {
        Before(key);
        if (entry is null)
        {
            _entries.Remove(key);
        }
        else
        {
            _entries[key] = entry;
        }

        After(key);
    }

    /// <summary>Applies a command and returns the reply's compact form, or null where the model does not foretell it.</summary>
    /// <param name="arguments">The command as sent.</param>
    /// <param name="expired">A key's name: whatever expiry it has, that time has certainly passed before the command runs.</param>
    public string? Apply(IReadOnlyList<string> arguments, string? expired = null)
    {
        if (expired is not null && _entries.TryGetValue(Key(expired), out var gone) && gone.ExpiresAtMs != 0)
        {
            Force(Key(expired), null);
        }

        string name = arguments[0];
        if (_inTransaction && name is not ("EXEC" or "DISCARD" or "MULTI"))
        {
            _queued.Add(arguments);
            return "+QUEUED";
        }

        switch (name)
        {
            case "MULTI":
                _inTransaction = true;
                return "+OK";
            case "DISCARD":
                _inTransaction = false;
                _queued.Clear();
                return "+OK";
            case "EXEC":
                _inTransaction = false;
                var replies = _queued.Select(Run).ToArray();
                _queued.Clear();
                return replies.Contains(null) ? null : "[" + string.Join(',', replies) + "]";
            default:
                return Run(arguments);
        }
    }

    private string? Run(IReadOnlyList<string> arguments)
    {
        string name = arguments[0];
        switch (name)
        {
            case "PING":
                return "+PONG";
            case "WATCH" or "UNWATCH":
                return "+OK";
            case "SELECT":
                Database = int.Parse(arguments[1], CultureInfo.InvariantCulture);
                return "+OK";
            case "FLUSHDB":
                foreach (var key in _entries.Keys.Where(k => k.Database == Database).ToArray())
                {
                    Force(key, null);
                }
                return "+OK";
            case "WAITAOF" or "BLPOP" or "HELLO":
                return null;
            case "RPUSH" when Family(arguments[1]) == 'q':
                // Two writers share the list: HandOffCheck follows it instead.
                return null;
            case "EVAL":
                return RunScript(arguments);
        }

        return RunOnKeys(name, arguments);
    }

    private string? RunOnKeys(string name, IReadOnlyList<string> a)
    {
        var touched = KeysOf(name, a);
        foreach (var key in touched)
        {
            Before(key);
        }

        string? reply = Strings(name, a) ?? Keys(name, a) ?? Lists(name, a) ?? Sets(name, a) ?? Hashes(name, a)
            ?? SortedSets(name, a) ?? Streams(name, a)
            ?? throw new NotSupportedException($"the model has no {name}");
        foreach (var key in touched)
        {
            if (_entries.TryGetValue(key, out var entry) && entry.IsEmpty)
            {
                _entries.Remove(key);
            }

            After(key);
        }

        return reply.Length == 0 ? null : reply;
    }

    private DatabaseKey[] KeysOf(string name, IReadOnlyList<string> a) => name switch
    {
        "MSET" => [.. a.Skip(1).Where((_, i) => i % 2 == 0).Select(Key).Distinct()],
        "DEL" or "SUNIONSTORE" => [.. a.Skip(1).Select(Key).Distinct()],
        "RENAME" or "COPY" or "LMOVE" or "SMOVE" => a[1] == a[2] ? [Key(a[1])] : [Key(a[1]), Key(a[2])],
        "MOVE" => [Key(a[1]), new(int.Parse(a[2], CultureInfo.InvariantCulture), a[1])],
        _ => [Key(a[1])],
    };

    private DatabaseKey Key(string name) => new(Database, name);

    private void Before(in DatabaseKey key) => Toggle(key);

    private void After(in DatabaseKey key) => Toggle(key);

    private void Toggle(in DatabaseKey key)
    {
        if (IsFingerprinted(key.Name) && _entries.TryGetValue(key, out var entry))
        {
            Fingerprint ^= Hash(key, entry.Canonical);
        }
    }

    private T Get<T>(string name)
        where T : Entry, new()
    {
        if (_entries.TryGetValue(Key(name), out var entry))
        {
            return (T)entry;
        }

        var made = new T();
        _entries[Key(name)] = made;
        return made;
    }

    private T? Find<T>(string name)
        where T : Entry => _entries.TryGetValue(Key(name), out var entry) ? (T)entry : null;

    private static string Integer(long number) => ":" + number.ToString(CultureInfo.InvariantCulture);

    private static string Bulk(string? text) => text is null ? "_" : "$" + text;

    private static string Array(IEnumerable<string> items) => "[" + string.Join(',', items.Select(i => "$" + i)) + "]";

    private static long Parse(string digits) => long.Parse(digits, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture);
}
