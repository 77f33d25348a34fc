// A Redis of its own in which keys are put as they were at one instant, when somebody names them first. So every command of Redis that
// reads keys reads the past, and nothing here knows of types.
//
// Nothing expires in it: the plan has moved all expiries away (EffectReplay). What had expired by the instant is taken out, as clients
// would have missed it then. The commands that tell expiries are answered here, with what they would have told then.
//
// Memory is bounded by the Redis's own limit. Where that is reached it begins anew with the keys of the one request.
using System.Buffers.Text;
using System.Globalization;
using System.Text;
using Slogger.Core.Retention;
using Slogger.Redis.Connections;
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Past;

/// <summary>A key's value at an instant.</summary>
/// <param name="Key">The key.</param>
/// <param name="IsString">Whether it was a string: then the value is that. Else it is as RESTORE takes it.</param>
/// <param name="Value">Its value; null: there was no such key.</param>
/// <param name="ExpiresAtMs">When it expired, or was to expire, in milliseconds since the Unix epoch; 0: never.</param>
public sealed record DumpedKey(StoreKey Key, bool IsString, byte[]? Value, long ExpiresAtMs);

/// <summary>A lens on one instant at a time. One caller at a time.</summary>
public sealed class Lens : IAsyncDisposable
{
    private static readonly TimeSpan AnswerMax = TimeSpan.FromSeconds(30);

    // Of keys that are taken out together, which are in memory several times then.
    private const int DumpBytesMax = 8 << 20;

    private readonly RedisPipeline _connection;
    private readonly LensScripts _scripts;
    private readonly RollbackLimits _limits;
    private readonly Dictionary<StoreKey, long> _keys = [];    // that are there, with their expiries; 0: none
    private PastState? _state;
    private int _database, _protocol = 2;

    private Lens(RedisPipeline connection, LensScripts scripts, RollbackLimits limits) =>
        (_connection, _scripts, _limits) = (connection, scripts, limits);

    /// <summary>Opens a lens in an empty Redis that nobody else uses.</summary>
    /// <param name="endpoint">Where it is.</param>
    /// <param name="limits">How much the keys of one request may take.</param>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="RedisException">It cannot be reached.</exception>
    public static async Task<Lens> OpenAsync(RedisEndpoint endpoint, RollbackLimits limits, CancellationToken stop) =>
        new(await RedisPipeline.ConnectAsync(endpoint, AnswerMax, stop).ConfigureAwait(false), new(endpoint, AnswerMax), limits);

    /// <summary>Whether it can still be used: not behind a question that was not answered to its end.</summary>
    public bool IsUsable { get; private set; } = true;

    /// <summary>Has a command read some keys as they were.</summary>
    /// <param name="state">The instant.</param>
    /// <param name="database">The database that is selected.</param>
    /// <param name="protocol">Of the reply: 2 or 3.</param>
    /// <param name="words">The command. It changes nothing, and waits for nothing.</param>
    /// <param name="keys">The keys that it names.</param>
    /// <param name="scriptRules">Of a script: which commands it may run, as ACL SETUSER takes it; else null.</param>
    /// <param name="stop">Gives up. The lens cannot be used after that.</param>
    /// <returns>Redis's reply, as it stands on the wire.</returns>
    /// <exception cref="PastException">The keys cannot be put as they were; the text says why.</exception>
    /// <exception cref="RedisException">The lens or the checkpoint cannot be used.</exception>
    /// <exception cref="IOException">What the values are made of cannot be read.</exception>
    public async Task<byte[]> ReadAsync(PastState state, int database, int protocol, IReadOnlyList<byte[]> words,
        IReadOnlyList<byte[]> keys, IReadOnlyList<string>? scriptRules, CancellationToken stop)
    {
        ArgumentNullException.ThrowIfNull(words);
        ArgumentNullException.ThrowIfNull(keys);
        StoreKey[] named = [.. keys.Select(k => new StoreKey(database, k))];
        if (scriptRules is not null)
        {
            await PutAsync(state, named, static _ => [], _limits, stop).ConfigureAwait(false);
            return await RunScriptAsync(database, protocol, words, keys, scriptRules, stop).ConfigureAwait(false);
        }
        ExpiryCommand? expiry = ExpiryCommand.Find(words);
        IReadOnlyList<byte[]> asked = expiry is null ? words : ["PEXPIRETIME"u8.ToArray(), words[1]];
        byte[] reply = (await PutAsync(state, named, batch => [Add(batch, database, protocol, asked)], _limits, stop)
            .ConfigureAwait(false))[0];
        return expiry is null ? reply : expiry.Answer(reply, state.TimeMs);
    }

    /// <summary>Takes keys out as they were.</summary>
    /// <param name="state">The instant.</param>
    /// <param name="keys">The keys.</param>
    /// <param name="stop">Gives up. The lens cannot be used after that.</param>
    /// <returns>Each of the keys once, in the order of databases.</returns>
    /// <exception cref="PastException">The keys cannot be put as they were, or not so many at once; the text says why.</exception>
    /// <exception cref="RedisException">The lens or the checkpoint cannot be used.</exception>
    /// <exception cref="IOException">What the values are made of cannot be read.</exception>
    public async Task<IReadOnlyList<DumpedKey>> DumpAsync(PastState state, IReadOnlyCollection<StoreKey> keys, CancellationToken stop)
    {
        ArgumentNullException.ThrowIfNull(keys);
        StoreKey[] ordered = [.. keys.Order()];
        RollbackLimits limits = keys.Count > 1 ? _limits with { SentBytesMax = DumpBytesMax, HeldBytesMax = 4 * DumpBytesMax }
            : _limits;
        IReadOnlyList<byte[]> values = await PutAsync(state, ordered, batch => AddForEach(batch, "GET"u8, ordered), limits, stop)
            .ConfigureAwait(false);
        var dumped = new DumpedKey[ordered.Length];
        List<int> others = [];
        for (int i = 0; i < ordered.Length; i++)
        {
            bool isString = !values[i].AsSpan().StartsWith("-WRONGTYPE"u8);
            dumped[i] = new(ordered[i], isString, isString ? BulkIn(values[i]) : null, _keys[ordered[i]]);
            if (!isString) { others.Add(i); }
        }
        if (others.Count == 0) { return dumped; }
        var dumps = new RedisBatch();
        List<int> places = AddForEach(dumps, "DUMP"u8, [.. others.Select(i => ordered[i])]);
        IReadOnlyList<byte[]> replies = await ExchangeAsync(dumps, stop).ConfigureAwait(false);
        foreach ((int i, int place) in others.Zip(places)) { dumped[i] = dumped[i] with { Value = BulkIn(replies[place]) }; }
        return dumped;
    }

    /// <inheritdoc />
    public async ValueTask DisposeAsync()
    {
        await _scripts.DisposeAsync().ConfigureAwait(false);
        await _connection.DisposeAsync().ConfigureAwait(false);
    }

    private async Task<byte[]> RunScriptAsync(int database, int protocol, IReadOnlyList<byte[]> words, IReadOnlyList<byte[]> keys,
        IReadOnlyList<string> rules, CancellationToken stop)
    {
        IsUsable = false;
        try
        {
            byte[] reply = await _scripts.RunAsync(async command =>
            {
                RedisBatch told = new RedisBatch().Add(command);
                return (await _connection.RunOnWireAsync(told, stop).ConfigureAwait(false))[0];
            }, database, protocol, rules, keys, words, stop).ConfigureAwait(false);
            IsUsable = true;
            return reply;
        }
        catch (PastException)
        {
            // All was answered.
            IsUsable = true;
            throw;
        }
    }

    // Where the reply will be.
    private int Add(RedisBatch batch, int database, int protocol, IReadOnlyList<byte[]> words)
    {
        if (protocol != _protocol) { batch.Add("HELLO"u8.ToArray(), EffectReplay.Number(protocol)); }
        if (database != _database) { batch.Add("SELECT"u8.ToArray(), EffectReplay.Number(database)); }
        (_protocol, _database) = (protocol, database);
        batch.Add([.. words]);
        return batch.Count - 1;
    }

    private async Task<IReadOnlyList<byte[]>> ExchangeAsync(RedisBatch batch, CancellationToken stop)
    {
        IsUsable = false;
        IReadOnlyList<byte[]> replies = await _connection.RunOnWireAsync(batch, stop).ConfigureAwait(false);
        IsUsable = true;
        return replies;
    }

    // Whatever comes of the rest, nothing that is there is taken for another instant's: it is emptied before anything is put.
    private void Forget()
    {
        _state = null;
        _keys.Clear();
    }

    // Puts keys as they were, and asks: the question is added to a batch, and says where its replies will be.
    private async Task<IReadOnlyList<byte[]>> PutAsync(PastState state, StoreKey[] keys, Func<RedisBatch, List<int>> ask,
        RollbackLimits limits, CancellationToken stop)
    {
        if (state != _state) { Forget(); }
        else if (keys.All(_keys.ContainsKey)) { return await AskAsync(new RedisBatch(), ask, stop).ConfigureAwait(false); }
        if (await TryPutAsync(state, keys, ask, limits, stop).ConfigureAwait(false) is { } replies) { return replies; }
        // Full: of what others have looked at.
        Forget();
        if (await TryPutAsync(state, keys, ask, limits, stop).ConfigureAwait(false) is { } again) { return again; }
        Forget();
        throw new PastException("these keys, and those that they were made from, take more memory than there is for the past");
    }

    // Null: there is not enough memory.
    private async Task<IReadOnlyList<byte[]>?> TryPutAsync(PastState state, StoreKey[] keys, Func<RedisBatch, List<int>> ask,
        RollbackLimits limits, CancellationToken stop)
    {
        RollbackPlan plan = new RollbackPlanner(state.Sources, limits).Make(keys, out string reason)
            ?? throw new PastException(reason);
        // Until all of it is there nothing counts as there: a part of the commands may have been refused.
        foreach (StoreKey key in plan.Keys) { _keys.Remove(key); }
        _database = -1;
        var batch = new RedisBatch();
        if (_state is null) { batch.Add("FLUSHALL"u8.ToArray(), "SYNC"u8.ToArray()); }
        int before = batch.Count;
        batch.Add(plan.Commands.Span, plan.Count);
        StoreKey[] ordered = [.. plan.Keys.Order()];
        List<int> places = AddForEach(batch, "PEXPIRETIME"u8, ordered);
        // In the same turn: what is asked changes nothing, and its replies count if all else went well.
        List<int> asked = ask(batch);
        IReadOnlyList<byte[]> replies = await ExchangeAsync(batch, stop).ConfigureAwait(false);
        _state = state;
        foreach (byte[] reply in replies.Skip(before).Take(plan.Count).Where(r => r[0] == (byte)'-'))
        {
            if (reply.AsSpan().StartsWith("-OOM"u8)) { return null; }
            throw new PastException($"the keys cannot be put as they were: Redis answered {Encoding.UTF8.GetString(reply).TrimEnd()}");
        }
        long[] expiries = [.. places.Select(p => ExpiryIn(replies[p]) ?? 0)];
        StoreKey[] expired = [.. ordered.Where((_, i) => expiries[i] != 0 && PastInstant.HasExpired(expiries[i], state.TimeMs))];
        IReadOnlyList<byte[]> answers = [.. asked.Select(p => replies[p])];
        if (expired.Length > 0)
        {
            batch.Clear();
            AddForEach(batch, "UNLINK"u8, expired);
            answers = await AskAsync(batch, ask, stop).ConfigureAwait(false);
        }
        for (int i = 0; i < ordered.Length; i++) { _keys[ordered[i]] = expiries[i]; }
        foreach (StoreKey key in expired) { _keys[key] = 0; }
        return answers;
    }

    private async Task<IReadOnlyList<byte[]>> AskAsync(RedisBatch batch, Func<RedisBatch, List<int>> ask, CancellationToken stop)
    {
        List<int> places = ask(batch);
        if (batch.Count == 0) { return []; }
        IReadOnlyList<byte[]> replies = await ExchangeAsync(batch, stop).ConfigureAwait(false);
        return [.. places.Select(p => replies[p])];
    }

    // Where the replies will be.
    private List<int> AddForEach(RedisBatch batch, ReadOnlySpan<byte> command, StoreKey[] keys)
    {
        byte[] name = command.ToArray();
        var places = new List<int>();
        foreach (StoreKey key in keys)
        {
            if (key.Database != _database) { batch.Add("SELECT"u8.ToArray(), EffectReplay.Number(_database = key.Database)); }
            places.Add(batch.Count);
            batch.Add(name, key.Name);
        }
        return places;
    }

    // The bytes of a bulk string; null: there is none.
    private static byte[]? BulkIn(byte[] reply)
    {
        if (reply[0] == (byte)'-')
        {
            throw new PastException($"a key cannot be read: Redis answered {Encoding.UTF8.GetString(reply).TrimEnd()}");
        }
        int head = Array.IndexOf(reply, (byte)'\n') + 1;
        return reply[0] == (byte)'$' && reply[1] != (byte)'-' ? reply[head..^2] : null;
    }

    // When the key expired, or was to expire, as clients knew it; null: never, or there is no such key.
    internal static long? ExpiryIn(ReadOnlySpan<byte> reply) =>
        Utf8Parser.TryParse(reply[1..], out long time, out _) && time >= EffectReplay.ExpiryShiftMs
            ? time - EffectReplay.ExpiryShiftMs : null;

    /// <summary>TTL and its like: the lens's own answer would be of the moved expiry.</summary>
    /// <param name="Name">The command.</param>
    /// <param name="IsRest">Whether it tells what is left, and not when it is over.</param>
    /// <param name="IsInSeconds">Or else milliseconds.</param>
    private sealed record ExpiryCommand(string Name, bool IsRest, bool IsInSeconds)
    {
        private static readonly ExpiryCommand[] s_all =
            [new("TTL", true, true), new("PTTL", true, false), new("EXPIRETIME", false, true), new("PEXPIRETIME", false, false)];

        public static ExpiryCommand? Find(IReadOnlyList<byte[]> words) =>
            words.Count == 2 ? Array.Find(s_all, c => Ascii.EqualsIgnoreCase(words[0], c.Name)) : null;

        public byte[] Answer(byte[] reply, long nowMs)
        {
            if (ExpiryIn(reply) is not { } time) { return reply; }
            long told = IsRest ? Math.Max(0, time - nowMs) : time;
            // Rounded as Redis does.
            if (IsInSeconds) { told = (told + 500) / 1000; }
            return Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $":{told}\r\n"));
        }
    }
}
