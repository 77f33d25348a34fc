// What has to be executed so that some keys have again the values that they had at a boundary: their entries in a checkpoint below it,
// and on top of these the log's commands up to it that name them. Commands that name other keys besides (RENAME, LMOVE, unions)
// draw those in as well, until nothing new is named. A key whose whole value a later command sets needs nothing from before it.
//
// Nothing is guessed: whatever is not confined to keys that are named, or cannot be repeated exactly, is a reason against it.
using System.Buffers;
using System.Globalization;
using Slogger.Redis.Feeding;
using Slogger.Redis.Rdb;

namespace Slogger.Redis.Rollback;

/// <summary>From what the values at a boundary are made.</summary>
/// <param name="Index">The index of a checkpoint at or below the boundary; null: there was no key.</param>
/// <param name="BaseOffset">The offset of that.</param>
/// <param name="Tail">The log's commands from there on, read as far as the boundary at least.</param>
/// <param name="History">The log's bytes.</param>
/// <param name="BranchOffset">The boundary's offset.</param>
public sealed record RollbackSources(CheckpointIndex? Index, long BaseOffset, IEffectIndex Tail, IHistorySource History, long BranchOffset);

/// <summary>How much a rollback in place may take.</summary>
public sealed record RollbackLimits
{
    /// <summary>Bytes of history that are undone: between the boundary and the end of the stream. Default: 64 MB.</summary>
    public int UndoneBytesMax { get; init; } = 64 << 20;

    /// <summary>Keys that are put back. Default: 100,000.</summary>
    public int KeysMax { get; init; } = 100_000;

    /// <summary>Commands of the log that are executed again. Default: 200,000.</summary>
    public int CommandsMax { get; init; } = 200_000;

    /// <summary>Bytes that are sent to Redis, which holds them until all have come. Default: 64 MB.</summary>
    public int SentBytesMax { get; init; } = 64 << 20;

    /// <summary>Bytes of commands that are in memory until it is known which of them are sent. Default: no limit.</summary>
    public long HeldBytesMax { get; init; } = long.MaxValue;
}

/// <summary>The way back for some keys.</summary>
/// <param name="Commands">What is to be executed, in one transaction.</param>
/// <param name="Count">How many commands that are.</param>
/// <param name="Keys">The keys that have their values at the boundary then, with their expiries moved.</param>
public sealed record RollbackPlan(ReadOnlyMemory<byte> Commands, int Count, IReadOnlyCollection<StoreKey> Keys);

/// <summary>Makes a plan. For one use.</summary>
public sealed class RollbackPlanner
{
    private const int WindowBytes = 4 << 10;

    private readonly record struct Replayed(byte[] Bytes, int Database, StoreKey? OnlyKey);

    private readonly RollbackSources _sources;
    private readonly RollbackLimits _limits;
    private readonly HashSet<StoreKey> _keys = [];
    private readonly HashSet<StoreKey> _joint = []; // named together with others
    private readonly Dictionary<StoreKey, long> _overwritten = []; // the last command that sets the whole value
    private readonly SortedList<long, Replayed> _commands = [];
    private readonly Effect _effect = new();
    private readonly List<EffectKey> _places = [];
    private readonly ArrayBufferWriter<byte> _output = new(1 << 16);
    private byte[] _window = new byte[WindowBytes];
    private long _windowStart;
    private int _windowFilled;
    private int _count;
    private int _selected = -1;
    private long _heldBytes;

    /// <summary>Makes a planner.</summary>
    public RollbackPlanner(RollbackSources sources, RollbackLimits limits)
    {
        _sources = sources;
        _limits = limits;
    }

    /// <summary>Plans the way back of these keys.</summary>
    /// <param name="touched">The keys to be put back.</param>
    /// <param name="reason">Why there is no way, if there is none.</param>
    /// <returns>Null if there is none.</returns>
    /// <exception cref="Connections.RedisException">The checkpoint, its index or the log is not what it was.</exception>
    /// <exception cref="IOException">One of them cannot be read.</exception>
    public RollbackPlan? Make(IReadOnlyCollection<StoreKey> touched, out string reason)
    {
        ArgumentNullException.ThrowIfNull(touched);
        if (touched.Count == 0)
        {
            reason = "";
            return new RollbackPlan(default, 0, []);
        }
        reason = _sources.Tail.Flaw
            ?? (_sources.Tail.Start > _sources.BaseOffset || _sources.Tail.Position < _sources.BranchOffset
            ? "the log's tail has not been read" : null)
            ?? (_sources.Tail.NotConfined(_sources.BaseOffset, _sources.BranchOffset) is { } name ? $"{name} since the checkpoint" : null)
            ?? Close(touched) ?? Write() ?? "";
        return reason.Length > 0 ? null : new RollbackPlan(_output.WrittenMemory, _count, _keys);
    }

    /// <summary>Plans for the first keys of the tail, to no end but that the code is compiled and the files are in memory when it
    /// matters: the first rollback takes twice as long otherwise.</summary>
    public static void Rehearse(RollbackSources sources, int database)
    {
        ArgumentNullException.ThrowIfNull(sources);
        const int RehearsedBytes = 64 << 10;
        var bytes = new byte[RehearsedBytes];
        var effect = new Effect();
        var places = new List<EffectKey>();
        var touched = new HashSet<StoreKey>();
        int have = sources.History.Read(sources.BaseOffset, bytes);
        for (int at = 0; effect.TryRead(bytes, at, have); at = effect.End)
        {
            EffectReach reach = EffectScope.Find(effect, database, places);
            if (reach == EffectReach.Select) { database = EffectScope.DatabaseOf(effect) ?? database; }
            foreach (EffectKey place in places) { touched.Add(new StoreKey(place.Database, effect[place.Argument].ToArray())); }
        }
        new RollbackPlanner(sources, new RollbackLimits()).Make(touched, out _);
    }

    // All keys that depend on each other by commands of the tail, and those commands.
    private string? Close(IReadOnlyCollection<StoreKey> touched)
    {
        var fresh = new List<StoreKey>(touched.Where(_keys.Add));
        var hashes = new HashSet<uint>();
        var found = new List<(long Offset, int Database)>();
        while (fresh.Count > 0)
        {
            if (_keys.Count > _limits.KeysMax) { return string.Create(CultureInfo.InvariantCulture, $"more than {_limits.KeysMax} keys"); }
            hashes.Clear();
            foreach (StoreKey key in fresh) { hashes.Add((uint)(key.Hash >> 32)); }
            fresh.Clear();
            found.Clear();
            if (!_sources.Tail.Find(hashes, _sources.BaseOffset, _sources.BranchOffset, _limits.CommandsMax, found)
                || _commands.Count > _limits.CommandsMax)
            {
                return string.Create(CultureInfo.InvariantCulture,
                    $"more than {_limits.CommandsMax} commands on these keys since the checkpoint");
            }
            foreach ((long offset, int database) in found)
            {
                if (!_commands.ContainsKey(offset) && Take(offset, database, fresh) is { } reason) { return reason; }
            }
        }
        return null;
    }

    private string? Take(long offset, int database, List<StoreKey> fresh)
    {
        if (!Read(offset)) { return "the log's tail cannot be read"; }
        if (EffectScope.Find(_effect, database, _places) != EffectReach.Keys) { return "the log's tail is not what its index says"; }
        var keys = new StoreKey[_places.Count];
        bool isOne = false;
        for (int i = 0; i < keys.Length; i++)
        {
            keys[i] = new StoreKey(_places[i].Database, _effect[_places[i].Argument].ToArray());
            isOne |= _keys.Contains(keys[i]);
        }
        if (!isOne) { return null; } // Another key of the same hash.
        foreach (StoreKey key in keys)
        {
            if (_keys.Add(key)) { fresh.Add(key); }
            if (keys.Length > 1) { _joint.Add(key); }
        }
        StoreKey? only = keys.Length == 1 ? keys[0] : null;
        if (only is { } single && SetsAll(_effect)) { _overwritten[single] = Math.Max(offset, _overwritten.GetValueOrDefault(single)); }
        _commands.Add(offset, new Replayed(_effect.Bytes.ToArray(), database, only));
        _heldBytes += _effect.Bytes.Length;
        return _heldBytes > _limits.HeldBytesMax ? TooMuch : null;
    }

    private static bool SetsAll(Effect effect) =>
        (effect.Is(0, "SET"u8) && (effect.Count == 3 || (effect.Count == 5 && effect.Is(3, "PXAT"u8))))
        || ((effect.Is(0, "DEL"u8) || effect.Is(0, "UNLINK"u8)) && effect.Count == 2);

    private bool Read(long offset)
    {
        // What was read for the command before may hold this one, too: the history is read forwards only.
        long skipped = offset - _windowStart;
        int have = skipped >= 0 && skipped < _windowFilled ? (int)(_windowFilled - skipped) : 0;
        if (have > 0) { _window.AsSpan((int)skipped, have).CopyTo(_window); }
        (_windowStart, _windowFilled) = (offset, have);
        if (have > 0 && _effect.TryRead(_window, 0, have)) { return true; }
        while (true)
        {
            int read;
            while (have < _window.Length && (read = _sources.History.Read(offset + have, _window.AsSpan(have))) > 0)
            {
                _windowFilled = have += read;
                if (_effect.TryRead(_window, 0, have)) { return true; }
            }
            if (have < _window.Length || _window.Length >= _limits.SentBytesMax) { return false; }
            Array.Resize(ref _window, 2 * _window.Length);
        }
    }

    private string? Write()
    {
        foreach (StoreKey key in _keys.Where(k => _joint.Contains(k) || !_overwritten.ContainsKey(k)).Order())
        {
            if (WriteBase(key) is { } reason) { return reason; }
        }
        foreach ((long offset, Replayed command) in _commands)
        {
            bool isOverwritten = command.OnlyKey is { } key && !_joint.Contains(key) && _overwritten.GetValueOrDefault(key) > offset;
            if (isOverwritten) { continue; }
            Select(command.Database);
            if (!_effect.TryRead(command.Bytes, 0, command.Bytes.Length)) { return "the log's tail cannot be read"; }
            if (EffectReplay.Append(_effect, _output) is { } reason) { return reason; }
            _count++;
            if (_output.WrittenCount > _limits.SentBytesMax) { return TooMuch; }
        }
        return null;
    }

    private string TooMuch => string.Create(CultureInfo.InvariantCulture,
        $"more than {Math.Min(_limits.SentBytesMax, _limits.HeldBytesMax) >> 20} MB of values and commands");

    private string? WriteBase(in StoreKey key)
    {
        Select(key.Database);
        _count++;
        if (_sources.Index is not { } index || index.Find(key) is not { } entry)
        {
            EffectReplay.Write(_output, "UNLINK"u8.ToArray(), key.Name);
            return null;
        }
        if (!EffectReplay.IsMovable(entry.ExpiresAtMs)) { return "a key with an expiry out of the ordinary"; }
        if (_output.WrittenCount + entry.End - entry.ValueStart > _limits.SentBytesMax) { return TooMuch; }
        byte[] expiry = EffectReplay.Number(entry.ExpiresAtMs == 0 ? 0 : entry.ExpiresAtMs + EffectReplay.ExpiryShiftMs);
        EffectReplay.Write(_output, "RESTORE"u8.ToArray(), key.Name, expiry, index.PayloadOf(entry), "REPLACE"u8.ToArray(),
            "ABSTTL"u8.ToArray());
        return null;
    }

    private void Select(int database)
    {
        if (database == _selected) { return; }
        EffectReplay.Write(_output, "SELECT"u8.ToArray(), EffectReplay.Number(database));
        _selected = database;
        _count++;
    }
}
