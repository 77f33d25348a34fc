// A Redis of its own that has all that a store held at one instant, and goes forward from there: for questions that no list of keys
// answers. It is loaded with a checkpoint, and does the commands of the log, as far as it is brought.
//
// Nothing expires in it by itself: all expiries are moved away (EffectReplay). Where it is brought, the keys whose time was over are taken
// out, as clients would have missed them. Redis deletes such a key before any command touches it, and the log has that. But the clock by
// which instants are told is not Redis's: so a key that was taken out is kept, and put back before a command that names it.
using System.Buffers;
using System.Diagnostics;
using System.Diagnostics.CodeAnalysis;
using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using Slogger.Core.Retention;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Redis.Rdb;
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Past;

/// <summary>From what a rolling store is made.</summary>
/// <param name="BaseFile">An RDB file.</param>
/// <param name="BaseOffset">The offset at which that is.</param>
/// <param name="History">The commands on top of it.</param>
/// <param name="End">The offset up to which they are read.</param>
/// <param name="IsWanted">Whether a key is; null: all are.</param>
public sealed record RollingSources(string BaseFile, long BaseOffset, IHistorySource History, long End,
    Func<StoreKey, bool>? IsWanted = null);

/// <summary>A store that goes forward. One caller at a time; behind an exception it is not used again.</summary>
public sealed class RollingStore : IAsyncDisposable
{
    private const string OwnUser = "slogger-roll", RunId = "run_id:";
    private const int BatchCommands = 1000, BatchValues = 100, BatchBytes = 1 << 20, WindowBytes = 1 << 20;

    // Of the commands that are told.
    private const int ToldMax = 100, ToldBytesMax = 1 << 20;

    private static readonly TimeSpan AnswerMax = TimeSpan.FromSeconds(30);
    private static readonly string[] s_executed = ["FLUSHALL", "FLUSHDB", "SWAPDB", "SORT"];
    private static readonly byte[] s_select = "SELECT"u8.ToArray(), s_restore = "RESTORE"u8.ToArray(), s_absolute = "ABSTTL"u8.ToArray();

    private readonly RedisPipeline _connection;
    private readonly LensScripts _scripts;
    private RollingSources _sources;
    private RdbCursor _base;
    private int _format;
    private EffectReader _reader;
    private readonly RedisBatch _batch = new();
    private readonly ArrayBufferWriter<byte> _written = new();
    private readonly HashSet<StoreKey> _touched = [];
    private readonly Queue<IReadOnlyList<byte[]>> _told = [];

    // When a key is looked at: at its expiry, or before. What the queue has besides is out of date.
    private readonly Dictionary<StoreKey, long> _due = [];
    private readonly PriorityQueue<StoreKey, long> _dues = new();

    // What was taken out, and no command has named since.
    private readonly Dictionary<StoreKey, (byte[] Payload, long ExpiresAtMs)> _gone = [];

    private int _database;
    private long _offset, _toldBytes;
    private bool _isLoaded, _isAhead, _isOver, _hasStood, _isAsked;

    private RollingStore(RedisPipeline connection, LensScripts scripts, RollingSources sources, RdbCursor file)
    {
        (_connection, _scripts) = (connection, scripts);
        Use(sources, file);
    }

    /// <summary>Begins in an empty Redis that nobody else uses; nothing is loaded yet.</summary>
    /// <param name="endpoint">Where it is.</param>
    /// <param name="sources">From what it is made.</param>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="RedisException">It cannot be reached, or the file is none.</exception>
    /// <exception cref="IOException">The file cannot be read.</exception>
    public static async Task<RollingStore> OpenAsync(RedisEndpoint endpoint, RollingSources sources, CancellationToken stop)
    {
        ArgumentNullException.ThrowIfNull(sources);
        RedisPipeline connection = await RedisPipeline.ConnectAsync(endpoint, AnswerMax, stop).ConfigureAwait(false);
        RdbCursor? file = null;
        try
        {
            file = new RdbCursor(sources.BaseFile, WindowBytes);
            return new(connection, new(endpoint, AnswerMax), sources, file);
        }
        catch
        {
            file?.Dispose();
            await connection.DisposeAsync().ConfigureAwait(false);
            throw;
        }
    }

    /// <summary>The offset behind which the history is needed. Any thread.</summary>
    public long Offset => Volatile.Read(ref _offset);

    /// <summary>How many bytes of the base, and of the history on top of it, have been read.</summary>
    public long BytesDone => _base.Position + _reader.End - _sources.BaseOffset;

    /// <summary>How many there are up to an offset.</summary>
    public long BytesTo(long offset) => _base.Length + offset - _sources.BaseOffset;

    /// <summary>How many commands <see cref="Told"/> has not.</summary>
    public long LeftOut { get; private set; }

    /// <summary>What was done since it was asked last, or since it was brought to its first place: the newest commands. An expiry is a
    /// DEL.</summary>
    public IReadOnlyCollection<IReadOnlyList<byte[]>> Told => _told;

    /// <summary>When a key may expire next, in milliseconds since the Unix epoch: none does earlier. Null: none does at
    /// all.</summary>
    public long? NextExpiryMs => _dues.TryPeek(out _, out long at) ? at : null;

    /// <summary>Finds where the next command ends, behind what was done; null: there is none.</summary>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="PastException">The history cannot be read there.</exception>
    public long? FindNext(CancellationToken stop)
    {
        while (!_isOver && (!_isAhead || !IsWanted())) { _isOver = !(_isAhead = _reader.Next(stop)); }
        return _isAhead ? _reader.End : null;
    }

    /// <summary>Begins anew, with other sources: what was done before to keys that are wanted now is there, too, once it is brought
    /// somewhere. What has been told stays told.</summary>
    /// <exception cref="RedisException">Redis or the file cannot be used.</exception>
    /// <exception cref="IOException">The file cannot be read.</exception>
    public async Task BeginAnewAsync(RollingSources sources, CancellationToken stop)
    {
        ArgumentNullException.ThrowIfNull(sources);
        var file = new RdbCursor(sources.BaseFile, WindowBytes);
        _base.Dispose();
        Use(sources, file);
        _batch.Add("FLUSHALL"u8.ToArray(), "SYNC"u8.ToArray()).Add("FUNCTION"u8.ToArray(), "FLUSH"u8.ToArray(), "SYNC"u8.ToArray());
        if ((await SendForRepliesAsync(stop).ConfigureAwait(false)).FirstOrDefault(r => r.IsError) is { } error)
        {
            throw new RedisException(RedisProblem.Protocol, $"Redis cannot be emptied: it answered {error.Text}.");
        }
    }

    /// <summary>Leaves out the keys that are not wanted any more.</summary>
    /// <param name="isWanted">Whether one is: none that was not before.</param>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="RedisException">Redis cannot be used.</exception>
    public async Task LeaveOutAsync(Func<StoreKey, bool> isWanted, CancellationToken stop)
    {
        _sources = _sources with { IsWanted = isWanted };
        foreach (StoreKey key in _gone.Keys.Where(k => !isWanted(k)).ToList()) { _gone.Remove(key); }
        // Nothing moves but keys of this one.
        const int Database = 0;
        byte[] cursor = "0"u8.ToArray();
        do
        {
            Select(Database);
            int place = _batch.Count;
            _batch.Add("SCAN"u8.ToArray(), cursor, "COUNT"u8.ToArray(), EffectReplay.Number(BatchCommands));
            RedisReply found = (await SendForRepliesAsync(stop).ConfigureAwait(false))[place];
            cursor = found.Items[0].Bytes.ToArray();
            AddForEach("UNLINK"u8.ToArray(), [.. found.Items[1].Items.Select(k => new StoreKey(Database, k.Bytes.ToArray()))
                .Where(k => !isWanted(k))]);
            await SendAsync(stop).ConfigureAwait(false);
        }
        while (!cursor.AsSpan().SequenceEqual("0"u8));
    }

    /// <summary>Brings it forward.</summary>
    /// <param name="offset">The end of a version, not before the last one.</param>
    /// <param name="timeMs">When that was, in milliseconds since the Unix epoch.</param>
    /// <param name="most">For how long.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>False: it is not there yet, and can be brought on.</returns>
    /// <exception cref="PastException">It cannot be brought there; the text says why.</exception>
    /// <exception cref="RedisException">Redis or the file cannot be used.</exception>
    /// <exception cref="IOException">What it is made of cannot be read.</exception>
    public async Task<bool> BringAsync(long offset, long timeMs, TimeSpan most, CancellationToken stop)
    {
        if (_isAsked)
        {
            _told.Clear();
            (_isAsked, LeftOut, _toldBytes) = (false, 0, 0);
        }
        for (long began = Stopwatch.GetTimestamp(); Fill(offset, stop);)
        {
            await RunAsync(stop).ConfigureAwait(false);
            if (Stopwatch.GetElapsedTime(began) > most) { return false; }
        }
        await ExpireAsync(timeMs, stop).ConfigureAwait(false);
        _hasStood = true;
        Volatile.Write(ref _offset, offset);
        return true;
    }

    /// <summary>Runs a script, or another command, that reads.</summary>
    /// <param name="database">The database that is selected.</param>
    /// <param name="protocol">Of the reply: 2 or 3.</param>
    /// <param name="rules">Which commands it may run, as ACL SETUSER takes it.</param>
    /// <param name="words">The command.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>Redis's reply, as it stands on the wire.</returns>
    /// <exception cref="PastException">Redis cannot be told of such rights.</exception>
    /// <exception cref="RedisException">It has not answered.</exception>
    public async Task<byte[]> RunAsync(int database, int protocol, IReadOnlyList<string> rules, IReadOnlyList<byte[]> words,
        CancellationToken stop)
    {
        _isAsked = true;
        return await _scripts.RunAsync(async command =>
            (await _connection.RunOnWireAsync(new RedisBatch().Add(command), stop).ConfigureAwait(false))[0],
            database, protocol, rules, keys: null, words, stop).ConfigureAwait(false);
    }

    /// <summary>Lets whoever connects read, without a password, and do nothing else: who reaches the Redis is for its endpoint to
    /// decide.</summary>
    /// <param name="stop">Gives up.</param>
    /// <returns>Which server it is (run_id).</returns>
    /// <exception cref="RedisException">It cannot.</exception>
    public async Task<string> OpenToReadersAsync(CancellationToken stop)
    {
        string password = Convert.ToHexStringLower(RandomNumberGenerator.GetBytes(16));
        string[][] commands =
        [
            ["ACL", "SETUSER", OwnUser, "reset", "on", $">{password}", "allkeys", "allchannels", "+@all"], ["AUTH", OwnUser, password],
            // Those who connect are this user.
            ["ACL", "SETUSER", "default", "reset", "on", "nopass", "allkeys", "+@read", "+eval_ro", "+info", "+ping", "+select", "+command",
                .. LensScripts.Never],
            ["INFO", "server"],
        ];
        var batch = new RedisBatch();
        foreach (string[] words in commands) { batch.Add([.. words.Select(Encoding.ASCII.GetBytes)]); }
        IReadOnlyList<RedisReply> replies = await _connection.RunAsync(batch, stop).ConfigureAwait(false);
        if (replies.FirstOrDefault(r => r.IsError) is { } error)
        {
            throw new RedisException(RedisProblem.NoPermission, $"Readers cannot be let in: Redis answered {error.Text}.");
        }
        return replies[^1].Text.Split('\n').First(l => l.StartsWith(RunId, StringComparison.Ordinal))[RunId.Length..].TrimEnd();
    }

    /// <inheritdoc />
    public async ValueTask DisposeAsync()
    {
        _base.Dispose();
        await _scripts.DisposeAsync().ConfigureAwait(false);
        await _connection.DisposeAsync().ConfigureAwait(false);
    }

    [MemberNotNull(nameof(_sources), nameof(_base), nameof(_reader))]
    private void Use(RollingSources sources, RdbCursor file)
    {
        (_sources, _base, _format) = (sources, file, file.ReadHead());
        Volatile.Write(ref _offset, sources.BaseOffset);
        _reader = new(sources.History, sources.BaseOffset, sources.End, RdbFile.Inspect(sources.BaseFile).StreamDatabase ?? 0);
        (_isLoaded, _isAhead, _isOver, _hasStood) = (false, false, false, false);
        _batch.Clear();
        _touched.Clear();
        _due.Clear();
        _dues.Clear();
        _gone.Clear();
    }

    // Whether the command ahead concerns a key that is wanted, or may.
    private bool IsWanted() => _sources.IsWanted is null || _reader.Reach != EffectReach.Keys || _reader.Keys.Count == 0
        || _reader.Keys.Any(k => Wants(KeyOf(k)));

    private bool Wants(StoreKey key) => _sources.IsWanted?.Invoke(key) ?? true;

    private StoreKey KeyOf(EffectKey named) => new(named.Database, _reader.Effect[named.Argument].ToArray());

    // The next commands up to an offset. False: there are none.
    private bool Fill(long offset, CancellationToken stop)
    {
        while (!_isLoaded && HasRoom) { AddEntry(); }
        if (!_isLoaded) { return true; }
        while (HasRoom && FindNext(stop) <= offset)
        {
            if (_reader.Reach == EffectReach.Anything)
            {
                // It stands alone: of what was touched before, the expiries are asked for before it.
                if (_batch.Count > 0) { break; }
                foreach (StoreKey key in _gone.Keys.ToList()) { PutBack(key); }
                if (_batch.Count > 0) { break; }
                AddEffect();
                break;
            }
            List<StoreKey> unwanted = [];
            foreach (EffectKey named in _reader.Keys)
            {
                StoreKey key = KeyOf(named);
                if (!Wants(key))
                {
                    unwanted.Add(key);
                    continue;
                }
                PutBack(key);
                _touched.Add(key);
            }
            AddEffect();
            AddForEach("UNLINK"u8.ToArray(), [.. unwanted]);
        }
        return _batch.Count > 0;
    }

    private bool HasRoom => _batch.Count < BatchCommands && _batch.Bytes < BatchBytes;

    private void AddEntry()
    {
        if (_base.ReadEntry() is not { } entry)
        {
            if (_base.HasFunctions)
            {
                _batch.Add("FUNCTION"u8.ToArray(), "RESTORE"u8.ToArray(), RdbPayload.OfLibraries(_base, _format), "REPLACE"u8.ToArray());
                _base.Seek(_base.Length);
            }
            _isLoaded = true;
            return;
        }
        var key = new StoreKey(entry.Database, entry.Key);
        if (Wants(key))
        {
            AddRestore(key, RdbPayload.Of(_base, entry, _format), entry.ExpiresAtMs);
            if (entry.ExpiresAtMs != 0) { Note(key, entry.ExpiresAtMs); }
        }
        _base.Seek(entry.End);
    }

    private void AddRestore(in StoreKey key, byte[] payload, long expiresAtMs)
    {
        if (expiresAtMs != 0 && !EffectReplay.IsMovable(expiresAtMs))
        {
            throw new PastException($"{Encoding.UTF8.GetString(key.Name)} has an expiry out of the ordinary");
        }
        Select(key.Database);
        _batch.Add(s_restore, key.Name, EffectReplay.Number(expiresAtMs == 0 ? 0 : expiresAtMs + EffectReplay.ExpiryShiftMs), payload,
            s_absolute);
    }

    private void PutBack(in StoreKey key)
    {
        if (!_gone.Remove(key, out (byte[] Payload, long ExpiresAtMs) was)) { return; }
        AddRestore(key, was.Payload, was.ExpiresAtMs);
        _touched.Add(key);
    }

    private void AddEffect()
    {
        Effect effect = _reader.Effect;
        string name = Encoding.Latin1.GetString(effect[0]).ToUpperInvariant();
        if (_reader.Reach == EffectReach.Anything && !s_executed.Contains(name))
        {
            throw new PastException($"the log has {name}, of which is not known here when keys expire by it: the whole store is not shown "
                + "behind it");
        }
        _written.ResetWrittenCount();
        if (EffectReplay.Append(effect, _written) is { } why) { throw new PastException($"the log has {why}, which cannot be repeated"); }
        Select(_reader.Database);
        _batch.Add(_written.WrittenSpan, 1);
        if (_reader.Reach == EffectReach.Anything && name == "SWAPDB") { NoteSwapped(effect); }
        var words = new byte[effect.Count][];
        for (int i = 0; i < words.Length; i++) { words[i] = effect[i].ToArray(); }
        Tell(words);
        _isAhead = false;
    }

    private void Select(int database)
    {
        if (database != _database) { _batch.Add(s_select, EffectReplay.Number(_database = database)); }
    }

    private async Task RunAsync(CancellationToken stop)
    {
        int commands = _batch.Count;
        StoreKey[] touched = [.. _touched];
        int[] places = AddForEach("PEXPIRETIME"u8.ToArray(), touched);
        IReadOnlyList<byte[]> replies = await SendAsync(stop).ConfigureAwait(false);
        if (replies.Take(commands).FirstOrDefault(r => r[0] == (byte)'-') is { } error)
        {
            throw new PastException($"the log cannot be repeated: Redis answered {Encoding.UTF8.GetString(error).TrimEnd()}");
        }
        _touched.Clear();
        for (int i = 0; i < touched.Length; i++)
        {
            if (Lens.ExpiryIn(replies[places[i]]) is { } at) { Note(touched[i], at); }
        }
    }

    private async Task ExpireAsync(long timeMs, CancellationToken stop)
    {
        List<StoreKey> due = [];
        while (_dues.TryPeek(out StoreKey key, out long at) && PastInstant.HasExpired(at, timeMs))
        {
            _dues.Dequeue();
            if (_due.GetValueOrDefault(key) == at && _due.Remove(key)) { due.Add(key); }
        }
        foreach (StoreKey[] some in due.Chunk(BatchValues))
        {
            int[] places = AddForEach("PEXPIRETIME"u8.ToArray(), some), dumps = AddForEach("DUMP"u8.ToArray(), some);
            IReadOnlyList<byte[]> replies = await SendAsync(stop).ConfigureAwait(false);
            List<StoreKey> over = [];
            for (int i = 0; i < some.Length; i++)
            {
                if (Lens.ExpiryIn(replies[places[i]]) is not { } at) { continue; }
                if (!PastInstant.HasExpired(at, timeMs))
                {
                    Note(some[i], at);
                    continue;
                }
                over.Add(some[i]);
                // A bulk string.
                byte[] dump = replies[dumps[i]];
                _gone[some[i]] = (dump[(dump.AsSpan().IndexOf((byte)'\n') + 1)..^2], at);
                Tell(["DEL"u8.ToArray(), some[i].Name]);
            }
            AddForEach("UNLINK"u8.ToArray(), [.. over]);
            await SendAsync(stop).ConfigureAwait(false);
        }
    }

    private async Task<IReadOnlyList<byte[]>> SendAsync(CancellationToken stop)
    {
        if (_batch.Count == 0) { return []; }
        IReadOnlyList<byte[]> replies = await _connection.RunOnWireAsync(_batch, stop).ConfigureAwait(false);
        _batch.Clear();
        return replies;
    }

    private async Task<IReadOnlyList<RedisReply>> SendForRepliesAsync(CancellationToken stop)
    {
        IReadOnlyList<RedisReply> replies = await _connection.RunAsync(_batch, stop).ConfigureAwait(false);
        _batch.Clear();
        return replies;
    }

    // Where the replies will be.
    private int[] AddForEach(byte[] command, StoreKey[] keys)
    {
        var places = new int[keys.Length];
        for (int i = 0; i < keys.Length; i++)
        {
            Select(keys[i].Database);
            places[i] = _batch.Count;
            _batch.Add(command, keys[i].Name);
        }
        return places;
    }

    private void Note(in StoreKey key, long at)
    {
        if (_due.TryGetValue(key, out long known) && known <= at) { return; }
        _due[key] = at;
        _dues.Enqueue(key, at);
    }

    // Which of the two has it now is found out when it is due.
    private void NoteSwapped(Effect swap)
    {
        int[] swapped = [.. new[] { 1, 2 }.Select(i => int.Parse(swap[i], CultureInfo.InvariantCulture))];
        foreach ((StoreKey key, long at) in _due.Where(d => swapped.Contains(d.Key.Database)).ToList())
        {
            Note(new(key.Database == swapped[0] ? swapped[1] : swapped[0], key.Name), at);
        }
    }

    private void Tell(IReadOnlyList<byte[]> command)
    {
        if (!_hasStood) { return; }
        _told.Enqueue(command);
        _toldBytes += SizeOf(command);
        while (_told.Count > ToldMax || (_toldBytes > ToldBytesMax && _told.Count > 1))
        {
            _toldBytes -= SizeOf(_told.Dequeue());
            LeftOut++;
        }
    }

    private static long SizeOf(IReadOnlyList<byte[]> command) => command.Sum(a => a.Length + 32L);
}
