// Reads a replication stream and notes which keys its effects write. The place of an effect is one more than where it begins. A
// transaction is one effect, with the SELECT that goes before it. So whoever asks ROLE within MULTI knows the place of what that
// transaction writes: one more than the offset that ROLE gives, which is the one before the transaction.
//
// Of a hash whole writes (DEL, PEXPIREAT) count for all fields, writes of fields for those only; for the key both do. Keys that a command
// only reads (the sources of SUNIONSTORE) count as written: a conditional write of them may be refused needlessly.
using System.Numerics;
using Slogger.Core.Keys;

namespace Slogger.Redis.Rollback;

/// <summary>Notes the keys that a stream's effects write. Not thread-safe.</summary>
public sealed class WrittenKeys
{
    private const ulong OfFields = 0xA0761D6478BD642F;
    private readonly EffectCutter _cutter = new();
    private readonly List<EffectKey> _keys = [];
    private readonly KeyVersions _into;
    private int _database;
    private bool _isInTransaction;
    private long _begin;

    /// <summary>Begins between two effects.</summary>
    /// <param name="into">Where to note them.</param>
    /// <param name="offset">Bytes of history before.</param>
    /// <param name="database">The database selected there.</param>
    public WrittenKeys(KeyVersions into, long offset, int database)
    {
        _into = into;
        _database = database;
        _begin = Position = offset;
    }

    /// <summary>Up to there all whole commands have been read.</summary>
    public long Position { get; private set; }

    /// <summary>Up to there bytes have been given.</summary>
    public long End => Position + _cutter.Rest;

    /// <summary>Reads on.</summary>
    /// <param name="bytes">What follows, cut anywhere.</param>
    /// <exception cref="Connections.RedisException">The bytes are no replication stream (Protocol).</exception>
    public void Read(ReadOnlySpan<byte> bytes)
    {
        _cutter.Give(bytes);
        while (true)
        {
            long end = End;
            bool isWhole = _cutter.Next();
            Position = end - _cutter.Rest;
            if (!isWhole) { return; }
            Note(_cutter.Effect);
        }
    }

    /// <summary>A place above which a key was not written.</summary>
    public static long Find(KeyVersions table, int database, ReadOnlySpan<byte> key)
    {
        ulong hash = StoreKey.HashOf(database, key);
        return Math.Max(table.Find(hash), table.Find(hash ^ OfFields));
    }

    /// <summary>A place above which a field of a hash was not written.</summary>
    public static long Find(KeyVersions table, int database, ReadOnlySpan<byte> key, ReadOnlySpan<byte> field)
    {
        ulong hash = StoreKey.HashOf(database, key);
        return Math.Max(table.Find(hash), table.Find(HashOf(hash, field)));
    }

    private static ulong HashOf(ulong key, ReadOnlySpan<byte> field) =>
        BitOperations.RotateLeft(key, 17) ^ StoreKey.HashOf((int)key, field);

    private void Note(Effect effect)
    {
        long place = _begin + 1;
        switch (EffectScope.Find(effect, _database, _keys))
        {
            case EffectReach.Select:
                _database = EffectScope.DatabaseOf(effect) ?? _database;
                return;
            case EffectReach.Nothing when effect.Count == 1 && effect.Is(0, "MULTI"u8):
                _isInTransaction = true;
                return;
            case EffectReach.Nothing when effect.Count == 1 && effect.Is(0, "EXEC"u8):
                _isInTransaction = false;
                break;
            case EffectReach.Keys when StepOfFields(effect) is > 0 and int step:
                ulong hash = StoreKey.HashOf(_database, effect[1]);
                _into.Note(hash ^ OfFields, place);
                for (int i = 2; i < effect.Count; i += step) { _into.Note(HashOf(hash, effect[i]), place); }
                break;
            case EffectReach.Keys:
                foreach (EffectKey key in _keys) { _into.Note(StoreKey.HashOf(key.Database, effect[key.Argument]), place); }
                break;
            case EffectReach.Anything:
                _into.NoteAll(place);
                break;
        }
        if (!_isInTransaction) { _begin = Position; }
    }

    // From one field to the next, behind the key; 0: the command writes keys as a whole.
    private static int StepOfFields(Effect effect)
    {
        ReadOnlySpan<byte> name = effect[0];
        if (name[0] is not ((byte)'H' or (byte)'h')) { return 0; }
        return effect.Is(0, "HSET"u8) || effect.Is(0, "HMSET"u8) || effect.Is(0, "HSETNX"u8) || effect.Is(0, "HINCRBY"u8) ? 2
            : effect.Is(0, "HDEL"u8) ? 1 : 0;
    }
}
