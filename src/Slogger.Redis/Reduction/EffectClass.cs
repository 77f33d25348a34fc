// What a reduction may do with a command of the replication stream: which rule is its own. The rules are listed in EffectReducer. A
// command has a rule of its own only in the forms named here. In every other form it changes a value in a way of which nothing is known.
// Of a command that is not named here EffectScope says how far it reaches.
using System.Buffers.Text;
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Reduction;

/// <summary>Which rule a command follows.</summary>
internal enum EffectKind : byte
{
    /// <summary>It changes no data.</summary>
    Nothing,

    /// <summary>It opens a transaction.</summary>
    Multi,

    /// <summary>It ends a transaction.</summary>
    Exec,

    /// <summary>It may be a marker or a session's mark, and changes no data.</summary>
    Message,

    /// <summary>It selects a database.</summary>
    Select,

    /// <summary>It changes one key in a way of which nothing is known.</summary>
    Value,

    /// <summary>It says all of what its key is afterwards.</summary>
    Overwrite,

    /// <summary>It deletes each key that it names.</summary>
    Delete,

    /// <summary>It overwrites each key that it names, with the argument behind it.</summary>
    SetMany,

    /// <summary>It overwrites the value, and keeps the expiry.</summary>
    KeepTtl,

    /// <summary>It adds a number.</summary>
    Count,

    /// <summary>It sets fields of a hash.</summary>
    SetFields,

    /// <summary>It removes fields of a hash.</summary>
    RemoveFields,

    /// <summary>It adds members to a set.</summary>
    AddMembers,

    /// <summary>It removes members of a set.</summary>
    RemoveMembers,

    /// <summary>It gives members of a sorted set their scores, whatever these were.</summary>
    Score,

    /// <summary>It appends elements to a list.</summary>
    PushRight,

    /// <summary>It puts elements in front of a list.</summary>
    PushLeft,

    /// <summary>It keeps the first elements of a list: LTRIM 0 n.</summary>
    TrimLeft,

    /// <summary>It appends to a string.</summary>
    Append,

    /// <summary>It sets or removes the expiry, whatever that was.</summary>
    Expiry,

    /// <summary>It sets the expiry, depending on what that is.</summary>
    ConditionalExpiry,

    /// <summary>It reads and changes several keys.</summary>
    Joint,

    /// <summary>FLUSHALL.</summary>
    FlushAll,

    /// <summary>FLUSHDB.</summary>
    FlushDatabase,

    /// <summary>It changes functions, and no key.</summary>
    Library,

    /// <summary>It may read and change anything.</summary>
    Unconfined,
}

/// <summary>Finds the rule of a command. Source: Redis 7.0, what its commands propagate.</summary>
internal static class EffectClass
{
    private const int LongestName = 9;

    /// <summary>Finds the rule of a command.</summary>
    /// <param name="effect">The command.</param>
    /// <param name="database">The database selected where it stands.</param>
    /// <param name="keys">Is emptied, and filled with the keys of a command that is not named here. Of others the key is argument 1.
    /// </param>
    public static EffectKind Of(Effect effect, int database, List<EffectKey> keys)
    {
        keys.Clear();
        ReadOnlySpan<byte> name = effect[0];
        // By far the most frequent one.
        if (name.SequenceEqual("SET"u8)) { return OfSet(effect); }
        if (name.Length > LongestName) { return OfOther(effect, database, keys); }
        Span<char> upper = stackalloc char[LongestName];
        for (int i = 0; i < name.Length; i++) { upper[i] = (char)(name[i] is >= (byte)'a' and <= (byte)'z' ? name[i] - 32 : name[i]); }
        int count = effect.Count;
        return upper[..name.Length] switch
        {
            "SET" => OfSet(effect),
            "MULTI" => EffectKind.Multi,
            "EXEC" => EffectKind.Exec,
            "SPUBLISH" when count == 3 => EffectKind.Message,
            "SELECT" when EffectScope.DatabaseOf(effect) is not null => EffectKind.Select,
            "DEL" or "UNLINK" when count >= 2 => EffectKind.Delete,
            "MSET" when count >= 3 && count % 2 == 1 => EffectKind.SetMany,
            "RESTORE" => OfRestore(effect),
            "INCR" or "DECR" when count == 2 => EffectKind.Count,
            "INCRBY" or "DECRBY" when count == 3 => EffectKind.Count,
            "HSET" or "HMSET" when count >= 4 && count % 2 == 0 => EffectKind.SetFields,
            "HDEL" when count >= 3 => EffectKind.RemoveFields,
            "SADD" when count >= 3 => EffectKind.AddMembers,
            "SREM" when count >= 3 => EffectKind.RemoveMembers,
            "ZADD" when IsPlainScore(effect) => EffectKind.Score,
            "RPUSH" when count >= 3 => EffectKind.PushRight,
            "LPUSH" when count >= 3 => EffectKind.PushLeft,
            "LTRIM" when TrimOf(effect) is not null => EffectKind.TrimLeft,
            "APPEND" when count == 3 => EffectKind.Append,
            "PEXPIREAT" when count == 3 => EffectKind.Expiry,
            "PEXPIREAT" when count > 3 => EffectKind.ConditionalExpiry,
            "PERSIST" when count == 2 => EffectKind.Expiry,
            "FLUSHALL" => EffectKind.FlushAll,
            "FLUSHDB" => EffectKind.FlushDatabase,
            _ => OfOther(effect, database, keys),
        };
    }

    /// <summary>The n of LTRIM key 0 n; null if the command has another form.</summary>
    public static int? TrimOf(Effect effect) => effect.Count == 4 && effect[2] is [(byte)'0']
        && Utf8Parser.TryParse(effect[3], out int last, out int used) && used == effect[3].Length && last is >= 0 and < int.MaxValue
        ? last : null;

    /// <summary>What a command adds to a number; null if that cannot be said.</summary>
    public static long? SumOf(Effect effect)
    {
        long by = 1;
        if (effect.Count == 3 && (!Utf8Parser.TryParse(effect[2], out by, out int used) || used != effect[2].Length)) { return null; }
        if ((effect[0][0] | 32) != 'd') { return by; }
        return by == long.MinValue ? null : -by;
    }

    // With NX, XX or GET it depends on what the key was: it would not do the same without what stands before it.
    private static EffectKind OfSet(Effect effect) => effect.Count switch
    {
        3 => EffectKind.Overwrite,
        4 when effect.Is(3, "KEEPTTL"u8) => EffectKind.KeepTtl,
        5 when effect.Is(3, "PXAT"u8) => EffectKind.Overwrite,
        < 3 => EffectKind.Unconfined,
        _ => EffectKind.Value,
    };

    // It overwrites if it has REPLACE, and says when the key ends, if it ends. Options: Redis, restoreCommand.
    private static EffectKind OfRestore(Effect effect)
    {
        if (effect.Count < 4) { return EffectKind.Unconfined; }
        bool isReplacing = false, isAbsolute = effect[2] is [(byte)'0'];
        for (int i = 4; i < effect.Count; i++)
        {
            if (effect.Is(i, "REPLACE"u8)) { isReplacing = true; }
            else if (effect.Is(i, "ABSTTL"u8)) { isAbsolute = true; }
            else if (effect.Is(i, "IDLETIME"u8) || effect.Is(i, "FREQ"u8)) { i++; }
            else { return EffectKind.Value; }
        }
        return isReplacing && isAbsolute ? EffectKind.Overwrite : EffectKind.Value;
    }

    // Options stand before the first score, and begin with a letter. No score of a number does.
    private static bool IsPlainScore(Effect effect)
    {
        if (effect.Count < 4 || effect.Count % 2 != 0) { return false; }
        for (int i = 2; i < effect.Count; i += 2)
        {
            if (effect[i] is not [(>= (byte)'0' and <= (byte)'9') or (byte)'-' or (byte)'+' or (byte)'.', ..]) { return false; }
        }
        return true;
    }

    private static EffectKind OfOther(Effect effect, int database, List<EffectKey> keys) =>
        EffectScope.Find(effect, database, keys) switch
        {
            EffectReach.Nothing => EffectKind.Nothing,
            EffectReach.Library => EffectKind.Library,
            EffectReach.Keys => keys.Count == 1 ? EffectKind.Value : EffectKind.Joint,
            _ => EffectKind.Unconfined,
        };
}
