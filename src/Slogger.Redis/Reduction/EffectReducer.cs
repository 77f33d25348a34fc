// Reduces a stretch of the replication stream: fewer commands, after which a store is as it would be after all of them. The idea is that
// of beelog (last write per key), widened to what Redis propagates.
//
// A window is a stretch of whole versions, so it begins and ends outside of transactions. Behind a window a store has the same data, the
// same expiries, the same functions and the same selected database, whatever it held before. In between it has not: nobody may read it
// there. LRU, LFU, encodings, and the order within hash tables are no part of the data.
//
// The rules. Of each key there is a chain of the commands that are alive since the last barrier.
//  1. An overwrite (SET, DEL, UNLINK, MSET, RESTORE REPLACE) kills the chain of its key. It stays itself, DEL too: the store may have had
//     the key before. SET with NX, XX or GET, and GETSET, depend on what the key was, and are no overwrites. A command of several keys dies
//     key by key; as long as all of it is alive it is written as it stood.
//  2. SET KEEPTTL takes the place of one before it, unless something else has changed the value in between. At that place the key must
//     exist: an expiry behind it would be lost.
//  3. Runs are merged at the place of the first, unless something else has changed the value in between. INCR, DECR: the sum, while it
//     fits 64 bits. HSET, ZADD without options: the last by field, in the order in which fields appeared. SADD, SREM, HDEL: each member
//     once. RPUSH, LPUSH, APPEND: one after the other. LPUSH with LTRIM 0 n, with one n: the last n + 1 pushed, one LTRIM, and what was
//     pushed behind the last. Merged commands have a bound; behind it the next run begins.
//  4. PEXPIREAT and PERSIST kill the one before, whatever has changed the value in between, and stay at their own place. With a condition
//     they kill nothing, and are not killed by what follows.
//  5. What removes ends runs: it may empty the key, and then its expiry is gone. An addition behind it begins anew. So HDEL k f; HSET k f v
//     stays as it is.
//  6. A joint command is a barrier for the keys that it names: what is alive of these stays.
//  7. FLUSHALL kills all before it but functions, back to the last command of which nothing is known. FLUSHDB kills what is alive of its
//     database. FUNCTION, SWAPDB, and all commands of which nothing is known are barriers for all keys.
//  8. MULTI, EXEC, PING, REPLCONF, messages and markers are left out. SELECT is put where the database changes. Of sessions' marks the
//     last of each session is kept.
//  9. All else is kept as it is, and ends the run of its key. A command that nothing was merged with keeps its own bytes.
//
// Why a merged command may stand at the place of the first: between the two the key is touched by nothing but expiries, which do not look
// at the value, and by no command on several keys. Why it must not stand at the place of the last: the expiries in between need the key.
using System.Buffers;
using Slogger.Redis.Connections;
using Slogger.Redis.Replication;
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Reduction;

/// <summary>Reduces windows, one after the other. Once its arrays have grown it allocates next to nothing. Not thread-safe.</summary>
public sealed class EffectReducer
{
    private readonly ReductionLimits _limits;
    private readonly ReductionMutation _mutation;
    private readonly Effect _effect = new();
    private readonly List<EffectKey> _keys = [];
    private readonly NameTable<KeyChain> _chains = new();
    private readonly ReducedEntries _entries = new();
    private readonly MergedRuns _runs;
    private readonly KeptMarks _marks;
    private readonly ReducedWriter _writer;
    private byte[] _bytes = [];
    private int _start, _end, _firstDatabase, _database;
    private long _commands;

    // Chains of an earlier epoch lie behind a barrier for all keys.
    private int _epoch;

    // Up to where FLUSHDB and FLUSHALL kill, from behind.
    private int _databaseFloor, _allFloor;

    private struct KeyChain
    {
        public int Last, Value, Expiry, Epoch;

        public static KeyChain Empty(int epoch) => new() { Last = -1, Value = -1, Expiry = -1, Epoch = epoch };
    }

    /// <summary>A reducer with no window.</summary>
    /// <param name="limits">How large things may become; null: the defaults.</param>
    /// <param name="markers">Tells sessions' marks from messages; null: there are none.</param>
    public EffectReducer(ReductionLimits? limits = null, MarkerCodec? markers = null) : this(limits, markers, ReductionMutation.None)
    {
    }

    internal EffectReducer(ReductionLimits? limits, MarkerCodec? markers, ReductionMutation mutation)
    {
        _limits = limits ?? new();
        _mutation = mutation;
        _marks = new(markers);
        _runs = new(_limits, mutation);
        _writer = new(_entries, _runs, mutation);
    }

    /// <summary>Begins a window.</summary>
    /// <param name="bytes">Holds the window. The caller leaves it as it is until the window is written.</param>
    /// <param name="start">A version boundary: outside of a transaction.</param>
    /// <param name="database">The database selected there.</param>
    public void Begin(byte[] bytes, int start, int database)
    {
        ArgumentNullException.ThrowIfNull(bytes);
        ArgumentOutOfRangeException.ThrowIfGreaterThan((uint)start, (uint)bytes.Length, nameof(start));
        (_bytes, _start, _end, _firstDatabase, _database) = (bytes, start, start, database, database);
        (_commands, _epoch, _databaseFloor, _allFloor) = (0, 0, 0, 0);
        _chains.Clear();
        _entries.Clear();
        _runs.Clear();
        _marks.Clear();
    }

    /// <summary>Takes a version into the window.</summary>
    /// <param name="end">Where it ends in the bytes: outside of a transaction. It begins where the one before ends.</param>
    /// <returns>False: the window is full without it, and is to be written first. An empty window takes any version.</returns>
    /// <exception cref="RedisException">The bytes up to there are not whole commands and transactions. The window is of no use then.
    /// </exception>
    public bool TryTake(int end)
    {
        ArgumentOutOfRangeException.ThrowIfGreaterThan(end, _bytes.Length);
        ArgumentOutOfRangeException.ThrowIfLessThan(end, _end);
        if (_end > _start && (_commands >= _limits.WindowCommandsMax || end - _start > _limits.WindowBytesMax)) { return false; }
        bool isInTransaction = false;
        while (_end < end)
        {
            // Empty lines at the end are no command.
            if (_bytes[_end] == '\n')
            {
                _end++;
                continue;
            }
            if (!_effect.TryRead(_bytes, _end, end)) { throw NotWhole("a command"); }
            EffectKind kind = Mutated(EffectClass.Of(_effect, _database, _keys));
            if (kind is EffectKind.Multi or EffectKind.Exec) { isInTransaction = kind == EffectKind.Multi; }
            else { Take(kind, isInTransaction); }
            _end = _effect.End;
        }
        return isInTransaction ? throw NotWhole("a transaction") : true;
    }

    /// <summary>Writes what is left of the window.</summary>
    /// <param name="output">Is appended to. Where it begins the database of the window's beginning has to be selected.</param>
    /// <returns>What was, and what is left.</returns>
    public ReducedWindow Write(IBufferWriter<byte> output)
    {
        ArgumentNullException.ThrowIfNull(output);
        _writer.Begin(_bytes, output, _firstDatabase);
        _writer.WriteAll();
        _writer.Select(_database, isLast: true);
        long marks = _marks.Write(output);
        return new(_commands, _writer.Commands, _end - _start, _writer.Bytes + marks, _database);
    }

    private void Take(EffectKind kind, bool isInTransaction)
    {
        switch (kind)
        {
            case EffectKind.Nothing:
                return;
            case EffectKind.Message:
                if (!isInTransaction) { _marks.Note(_effect[1], _effect[2]); }
                return;
            case EffectKind.Select:
                _database = EffectScope.DatabaseOf(_effect)!.Value;
                return;
        }
        _commands++;
        switch (kind)
        {
            case EffectKind.Overwrite:
                Overwrite(1, kind);
                break;
            case EffectKind.Delete:
                for (int i = 1; i < _effect.Count; i++) { Overwrite(i, kind); }
                break;
            case EffectKind.SetMany:
                for (int i = 1; i < _effect.Count; i += 2) { Overwrite(i, kind); }
                break;
            case EffectKind.Joint:
                Join();
                break;
            case EffectKind.FlushAll or EffectKind.FlushDatabase:
                Flush(kind);
                break;
            case EffectKind.Library or EffectKind.Unconfined:
                Bar(kind);
                break;
            default:
                Change(kind, ref Chain(_database, _keys.Count == 1 ? _keys[0].Argument : 1));
                break;
        }
    }

    // A command on one key that leaves something of what it was.
    private void Change(EffectKind kind, ref KeyChain chain)
    {
        switch (kind)
        {
            case EffectKind.Expiry or EffectKind.ConditionalExpiry:
                Expire(ref chain, kind == EffectKind.ConditionalExpiry && _mutation != ReductionMutation.ConditionalExpiryCounts);
                return;
            case EffectKind.KeepTtl when HasValue(chain, EffectKind.KeepTtl):
                if (_mutation == ReductionMutation.KeepTtlAtLastPlace)
                {
                    _entries[chain.Value].IsAlive = false;
                    break;
                }
                (_entries[chain.Value].Start, _entries[chain.Value].End) = (_effect.Start, _effect.End);
                return;
            case EffectKind.TrimLeft:
                if (HasValue(chain, EffectKind.PushLeft) && _runs.TryTrim(_entries[chain.Value].Run, _effect)) { return; }
                break;
            case not (EffectKind.Value or EffectKind.KeepTtl):
                if (HasValue(chain, kind) && _runs.TryJoin(_entries[chain.Value].Run, _bytes, _effect, kind)) { return; }
                break;
        }
        int run = kind is EffectKind.Value or EffectKind.KeepTtl or EffectKind.TrimLeft ? -1 : _runs.Begin(_bytes, _effect, kind);
        int added = Add(ref chain, kind, 1);
        _entries[added].Run = run;
        if (!EndsRun(kind)) { return; }
        chain.Value = run >= 0 || kind == EffectKind.KeepTtl ? added : -1;
    }

    private void Expire(ref KeyChain chain, bool isConditional)
    {
        if (!isConditional && chain.Expiry >= 0)
        {
            if (_mutation == ReductionMutation.ExpiryMovedUp)
            {
                (_entries[chain.Expiry].Start, _entries[chain.Expiry].End) = (_effect.Start, _effect.End);
                return;
            }
            _entries[chain.Expiry].IsAlive = false;
        }
        int added = Add(ref chain, EffectKind.Expiry, 1);
        chain.Expiry = isConditional ? -1 : added;
    }

    private void Overwrite(int argument, EffectKind kind)
    {
        ref KeyChain chain = ref Chain(_database, argument);
        bool isDropped = chain.Last < 0 && kind == EffectKind.Delete && _mutation == ReductionMutation.DeleteOfNothingDropped;
        for (int at = chain.Last; at >= 0; at = _entries[at].Previous) { _entries[at].IsAlive = false; }
        chain = KeyChain.Empty(_epoch);
        if (!isDropped) { Add(ref chain, kind, argument); }
    }

    private void Join()
    {
        int keys = _mutation == ReductionMutation.JointSecondKeyForgotten ? 1 : _keys.Count;
        for (int i = 0; i < keys && _mutation != ReductionMutation.JointIsNoBarrier; i++)
        {
            ref KeyChain chain = ref Chain(_keys[i].Database, _keys[i].Argument);
            for (int at = chain.Last; at >= 0; at = _entries[at].Previous)
            {
                _entries[at].IsPinned = _mutation != ReductionMutation.FlushKillsPinned;
            }
            chain = KeyChain.Empty(_epoch);
        }
        AddAlone(EffectKind.Joint);
    }

    private void Flush(EffectKind kind)
    {
        bool isAll = kind == EffectKind.FlushAll, ignoresDatabase = _mutation == ReductionMutation.FlushIgnoresDatabase;
        for (int i = isAll ? _allFloor : _databaseFloor; i < _entries.Count; i++)
        {
            ref ReducedEntry entry = ref _entries[i];
            bool dies = isAll ? entry.Kind != EffectKind.Library || _mutation == ReductionMutation.FlushKillsFunctions
                : !entry.IsPinned && (entry.Database == _database || ignoresDatabase);
            if (dies) { entry.IsAlive = false; }
        }
        _epoch++;
        int added = AddAlone(kind);
        _databaseFloor = _entries.Count;
        if (isAll) { _allFloor = added; }
    }

    private void Bar(EffectKind kind)
    {
        AddAlone(kind);
        if (_mutation == ReductionMutation.UnconfinedIsNoBarrier) { return; }
        _epoch++;
        if (_mutation != ReductionMutation.FlushPassesSwap) { _databaseFloor = _entries.Count; }
        if (kind == EffectKind.Unconfined) { _allFloor = _entries.Count; }
    }

    private ref KeyChain Chain(int database, int argument)
    {
        int scope = _mutation == ReductionMutation.DatabaseIgnored ? 0 : database;
        int place = _chains.FindOrAdd(_bytes, scope, _effect.PlaceOf(argument), out bool isNew);
        ref KeyChain chain = ref _chains[place];
        if (isNew || chain.Epoch != _epoch) { chain = KeyChain.Empty(_epoch); }
        return ref chain;
    }

    private int Add(ref KeyChain chain, EffectKind kind, int argument) => chain.Last = _entries.Add(new()
    {
        Start = _effect.Start, End = _effect.End, Database = _database, Previous = chain.Last, Argument = argument, Run = -1, Kind = kind,
        IsAlive = true,
    });

    // It dies by no chain.
    private int AddAlone(EffectKind kind) => _entries.Add(new()
    {
        Start = _effect.Start, End = _effect.End, Database = _database, Previous = -1, Run = -1, Kind = kind, IsAlive = true,
        IsPinned = true,
    });

    private bool HasValue(in KeyChain chain, EffectKind kind) => chain.Value >= 0 && _entries[chain.Value].Kind == kind;

    private EffectKind Mutated(EffectKind kind) => _mutation switch
    {
        ReductionMutation.KeepTtlOverwrites when kind == EffectKind.KeepTtl => EffectKind.Overwrite,
        ReductionMutation.ConditionalSetOverwrites when kind == EffectKind.Value && _effect.Is(0, "SET"u8) => EffectKind.Overwrite,
        ReductionMutation.RestoreAlwaysOverwrites when kind == EffectKind.Value && _effect.Is(0, "RESTORE"u8) => EffectKind.Overwrite,
        _ => kind,
    };

    private bool EndsRun(EffectKind kind) => _mutation switch
    {
        ReductionMutation.OthersDoNotEndRuns => kind is not (EffectKind.Value or EffectKind.TrimLeft),
        ReductionMutation.RemovalDoesNotEndRuns => kind is not (EffectKind.RemoveFields or EffectKind.RemoveMembers),
        _ => true,
    };

    private RedisException NotWhole(string what) => new(RedisProblem.Protocol, string.Create(
        System.Globalization.CultureInfo.InvariantCulture, $"A version ends inside of {what}, at byte {_end} of a piece of the stream."));
}
