// What of a shard's replication stream concerns some hash slots: for a backup whose shards are cut otherwise than the primary's. Commands
// are kept as they stand; of those that may be taken apart (DEL, MSET) the part that concerns the slots, of a transaction the commands that
// do. Messages, marks and Redis's heartbeats are dropped: nobody publishes, and nobody counts, a second time.
//
// What a command reads it must find: so one that names keys in and outside the slots, or may look at any key, is refused, since another
// shard holds what it needs. So are other databases, which a cluster has not.
using Slogger.Core.Ownership;
using Slogger.Redis.Connections;
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Slots;

/// <summary>A command that cannot be followed slot by slot.</summary>
/// <param name="message">Which, and why.</param>
/// <param name="isOver">A fresh copy of the store makes up for it: it has emptied its shard.</param>
public sealed class SlotEffectException(string message, bool isOver) : Exception(message)
{
    /// <summary>Whether a fresh copy of the store makes up for it, since such commands are rare; else there will be more.</summary>
    public bool IsOver { get; } = isOver;
}

/// <summary>What a filter keeps.</summary>
/// <param name="Slots">Effects on keys in these.</param>
/// <param name="IsAll">Whether the store that they go to holds no keys of another source: then that is emptied when the source is.</param>
/// <param name="HasFunctions">Whether functions are taken from this source. Each shard of a cluster has them: of a store's sources one
/// gives them.</param>
public readonly record struct SlotShare(SlotRange Slots, bool IsAll, bool HasFunctions);

/// <summary>Filters a replication stream. Not thread-safe.</summary>
public sealed class SlotFilter
{
    private const int NameShownMax = 32;
    private readonly SlotShare _share;
    private readonly EffectCutter _cutter = new();
    private readonly List<EffectKey> _keys = [];
    private int _database;
    private bool _isInTransaction, _isOpen;

    /// <summary>Begins at a command boundary outside a transaction.</summary>
    /// <param name="share">What it keeps.</param>
    /// <param name="database">The database selected there.</param>
    public SlotFilter(SlotShare share, int database) => (_share, _database) = (share, database);

    /// <summary>Whether what it was given ends with a whole command, outside a transaction.</summary>
    public bool IsAtBoundary => _cutter.Rest == 0 && !_isInTransaction;

    /// <summary>Takes the next bytes of the stream, cut anywhere.</summary>
    /// <param name="bytes">The bytes.</param>
    /// <param name="keep">Is given what is kept, command by command; null: it is only looked at.</param>
    /// <exception cref="SlotEffectException">A command cannot be followed.</exception>
    /// <exception cref="RedisException">The bytes are no replication stream (Protocol).</exception>
    public void Take(ReadOnlySpan<byte> bytes, Keep? keep)
    {
        _cutter.Give(bytes);
        while (_cutter.Next()) { Judge(keep); }
    }

    /// <summary>Is given kept bytes.</summary>
    public delegate void Keep(ReadOnlySpan<byte> bytes);

    private void Judge(Keep? keep)
    {
        switch (EffectScope.Find(_cutter.Effect, _database, _keys))
        {
            case EffectReach.Nothing when _cutter.Effect.Is(0, "MULTI"u8):
                (_isInTransaction, _isOpen) = (true, false);
                break;
            case EffectReach.Nothing when _cutter.Effect.Is(0, "EXEC"u8):
                if (_isOpen) { keep?.Invoke(_cutter.Effect.Bytes); }
                (_isInTransaction, _isOpen) = (false, false);
                break;
            case EffectReach.Nothing:
                break;
            case EffectReach.Select:
                _database = EffectScope.DatabaseOf(_cutter.Effect)
                    ?? throw new RedisException(RedisProblem.Protocol, "The replication stream has a SELECT without a database number.");
                break;
            case EffectReach.Library:
                if (_share.HasFunctions) { Give(_cutter.Effect.Bytes, keep); }
                break;
            case EffectReach.Keys:
                JudgeKeys(keep);
                break;
            default:
                JudgeAnything(keep);
                break;
        }
    }

    private void JudgeKeys(Keep? keep)
    {
        int kept = 0;
        foreach (EffectKey key in _keys)
        {
            if (key.Database != 0)
            {
                throw new SlotEffectException($"{Name} concerns database {key.Database}, and a cluster has database 0 only", isOver: false);
            }
            if (IsKept(key)) { kept++; }
        }
        if (kept == _keys.Count) { Give(_cutter.Effect.Bytes, keep); }
        else if (kept > 0) { GivePart(kept, keep); }
    }

    private void JudgeAnything(Keep? keep)
    {
        bool isFlush = _cutter.Effect.Is(0, "FLUSHALL"u8) || _cutter.Effect.Is(0, "FLUSHDB"u8);
        if (!isFlush) { throw new SlotEffectException($"{Name} may concern keys of any slot", isOver: false); }
        // There is nothing in other databases.
        if (_database != 0 && _cutter.Effect.Is(0, "FLUSHDB"u8)) { return; }
        if (!_share.IsAll)
        {
            throw new SlotEffectException($"{Name} has emptied one of the shards whose keys come together here", isOver: true);
        }
        Give(_cutter.Effect.Bytes, keep);
    }

    // What does to each of its keys what it would do to that key alone.
    private void GivePart(int kept, Keep? keep)
    {
        int step = _cutter.Effect.Is(0, "DEL"u8) || _cutter.Effect.Is(0, "UNLINK"u8) ? 1
            : _cutter.Effect.Is(0, "MSET"u8) || _cutter.Effect.Is(0, "MSETNX"u8) ? 2 : 0;
        if (step == 0) { throw new SlotEffectException($"{Name} names keys of several of this site's shards", isOver: false); }
        var part = new List<byte>();
        AddHead('*', 1 + (kept * step));
        Add(_cutter.Effect[0]);
        foreach (EffectKey key in _keys)
        {
            if (!IsKept(key)) { continue; }
            for (int i = 0; i < step; i++) { Add(_cutter.Effect[key.Argument + i]); }
        }
        Give([.. part], keep);

        void AddHead(char kind, int number) =>
            part.AddRange(System.Text.Encoding.ASCII.GetBytes(
                string.Create(System.Globalization.CultureInfo.InvariantCulture, $"{kind}{number}\r\n")));
        void Add(ReadOnlySpan<byte> argument)
        {
            AddHead('$', argument.Length);
            part.AddRange(argument);
            part.AddRange("\r\n"u8);
        }
    }

    private bool IsKept(EffectKey key) => _share.Slots.Contains(HashSlot.Of(_cutter.Effect[key.Argument]));

    private void Give(ReadOnlySpan<byte> bytes, Keep? keep)
    {
        if (_isInTransaction && !_isOpen) { keep?.Invoke("*1\r\n$5\r\nMULTI\r\n"u8); }
        _isOpen = _isInTransaction;
        keep?.Invoke(bytes);
    }

    // Whatever its name is, for a person.
    private string Name => string.Concat(_cutter.Effect[0][..Math.Min(_cutter.Effect[0].Length, NameShownMax)].ToArray()
        .Select(b => b is > (byte)' ' and <= (byte)'~' ? (char)b : '?'));
}
