// Which keys a command of the replication stream can read or change. The table holds what Redis 7.0 puts into its stream, and no
// more: a command that is not in it, of a module or of a later Redis, may change anything, so a rollback in place is not tried.
using System.Buffers.Text;

namespace Slogger.Redis.Rollback;

/// <summary>How far a command's effect reaches.</summary>
public enum EffectReach
{
    /// <summary>It changes no data.</summary>
    Nothing,

    /// <summary>It selects the database of what follows.</summary>
    Select,

    /// <summary>It changes functions, and no key.</summary>
    Library,

    /// <summary>It reads and changes the keys that it names.</summary>
    Keys,

    /// <summary>Its effect is not confined to keys that it names, or nothing is known of it.</summary>
    Anything,
}

/// <summary>A key that a command names.</summary>
/// <param name="Database">The database it is in.</param>
/// <param name="Argument">Which argument it is.</param>
public readonly record struct EffectKey(int Database, int Argument);

/// <summary>Finds the keys of effects. Source: Redis 7.0, the commands' key specifications, and what they propagate.</summary>
public static class EffectScope
{
    private const int LongestName = 24;

    // First and last key (from the end if negative) and the step between keys.
    private readonly record struct Places(EffectReach Reach, int First = 0, int Last = 0, int Step = 1);

    private static readonly Dictionary<string, Places> s_table = Table();
    private static readonly Dictionary<string, Places>.AlternateLookup<ReadOnlySpan<char>> s_lookup =
        s_table.GetAlternateLookup<ReadOnlySpan<char>>();

    /// <summary>Finds how far a command reaches.</summary>
    /// <param name="effect">The command.</param>
    /// <param name="database">The database selected where it stands.</param>
    /// <param name="keys">Is emptied, and filled with the keys that it names.</param>
    public static EffectReach Find(Effect effect, int database, List<EffectKey> keys)
    {
        ArgumentNullException.ThrowIfNull(effect);
        ArgumentNullException.ThrowIfNull(keys);
        keys.Clear();
        ReadOnlySpan<byte> name = effect[0];
        if (name.Length > LongestName) { return EffectReach.Anything; }
        Span<char> upper = stackalloc char[LongestName];
        for (int i = 0; i < name.Length; i++) { upper[i] = (char)(name[i] is >= (byte)'a' and <= (byte)'z' ? name[i] - 32 : name[i]); }
        ReadOnlySpan<char> word = upper[..name.Length];
        if (!s_lookup.TryGetValue(word, out Places places)) { return OfOther(word, effect, database, keys); }
        if (places.Reach != EffectReach.Keys) { return places.Reach; }
        int last = places.Last < 0 ? effect.Count + places.Last : places.Last;
        if (last >= effect.Count) { return EffectReach.Anything; }
        for (int i = places.First; i <= last; i += places.Step) { keys.Add(new(database, i)); }
        return keys.Count > 0 ? EffectReach.Keys : EffectReach.Anything;
    }

    /// <summary>The database that a SELECT names; null if it names none.</summary>
    public static int? DatabaseOf(Effect select)
    {
        ArgumentNullException.ThrowIfNull(select);
        return select.Count == 2 && Number(select[1]) is { } number ? number : null;
    }

    private static EffectReach OfOther(ReadOnlySpan<char> name, Effect effect, int database, List<EffectKey> keys)
    {
        switch (name)
        {
            case "MOVE" when effect.Count == 3 && Number(effect[2]) is { } target:
                keys.Add(new(database, 1));
                keys.Add(new(target, 1));
                return EffectReach.Keys;
            case "COPY" when effect.Count >= 3:
                int into = database;
                for (int i = 3; i < effect.Count; i++)
                {
                    if (!effect.Is(i, "DB"u8)) { continue; }
                    if (i + 1 == effect.Count || Number(effect[i + 1]) is not { } named) { return EffectReach.Anything; }
                    into = named;
                }
                keys.Add(new(database, 1));
                keys.Add(new(into, 2));
                return EffectReach.Keys;
            case "ZUNIONSTORE" or "ZINTERSTORE" or "ZDIFFSTORE" when effect.Count >= 4 && Number(effect[2]) is { } count && count > 0
                && count <= effect.Count - 3:
                keys.Add(new(database, 1));
                for (int i = 0; i < count; i++) { keys.Add(new(database, 3 + i)); }
                return EffectReach.Keys;
            case "SORT" when effect.Count >= 2:
                return OfSort(effect, database, keys);
            default:
                return EffectReach.Anything;
        }
    }

    // With BY or GET it may look at any key.
    private static EffectReach OfSort(Effect effect, int database, List<EffectKey> keys)
    {
        keys.Add(new(database, 1));
        for (int i = 2; i < effect.Count; i++)
        {
            if (effect.Is(i, "BY"u8) || effect.Is(i, "GET"u8)) { return EffectReach.Anything; }
            if (effect.Is(i, "LIMIT"u8)) { i += 2; }
            else if (effect.Is(i, "STORE"u8) && i + 1 < effect.Count) { keys.Add(new(database, ++i)); }
        }
        return EffectReach.Keys;
    }

    private static int? Number(ReadOnlySpan<byte> text) =>
        Utf8Parser.TryParse(text, out int number, out int used) && used == text.Length && number >= 0 ? number : null;

    private static Dictionary<string, Places> Table()
    {
        var table = new Dictionary<string, Places>(StringComparer.Ordinal);
        void Add(string names, Places places)
        {
            foreach (string name in names.Split(' ')) { table.Add(name, places); }
        }
        Add("PING REPLCONF MULTI EXEC PUBLISH SPUBLISH", new(EffectReach.Nothing));
        Add("SELECT", new(EffectReach.Select));
        Add("FUNCTION", new(EffectReach.Library));
        Add("SET SETNX GETSET SETRANGE APPEND INCR DECR INCRBY DECRBY SETBIT BITFIELD PFADD "
            + "LPUSH RPUSH LPUSHX RPUSHX LINSERT LPOP RPOP LREM LSET LTRIM SADD SREM "
            + "HSET HMSET HSETNX HINCRBY HDEL ZADD ZINCRBY ZREM ZREMRANGEBYSCORE ZREMRANGEBYRANK ZREMRANGEBYLEX ZPOPMIN ZPOPMAX GEOADD "
            + "XADD XTRIM XDEL XSETID XACK XCLAIM PEXPIREAT PERSIST RESTORE", new(EffectReach.Keys, 1, 1));
        Add("XGROUP", new(EffectReach.Keys, 2, 2));
        Add("RENAME RENAMENX RPOPLPUSH LMOVE SMOVE ZRANGESTORE GEOSEARCHSTORE", new(EffectReach.Keys, 1, 2));
        Add("DEL UNLINK PFCOUNT PFMERGE SINTERSTORE SUNIONSTORE SDIFFSTORE", new(EffectReach.Keys, 1, -1));
        Add("MSET MSETNX", new(EffectReach.Keys, 1, -2, 2));
        Add("BITOP", new(EffectReach.Keys, 2, -1));
        return table;
    }
}
