// One of those who work through a multiplexer while servers die: bursts of commands of all kinds whose every reply is compared with what
// was asked.
using System.Globalization;
using Slogger.Client;
using StackExchange.Redis;

namespace Slogger.Integration.Tests.Multiplexer;

/// <param name="number">Which one.</param>
/// <param name="redis">Shared with other workers.</param>
/// <param name="blocking">For commands that block.</param>
/// <param name="hasAllTypes">Whether the store has more than strings.</param>
/// <param name="hasOneShard">Whether all keys are at one shard.</param>
/// <param name="client">Tells of commits.</param>
/// <param name="seed">Chooses the commands.</param>
/// <param name="tally">Of the whole run.</param>
internal sealed class MultiplexerWorker(int number, ConnectionMultiplexer redis, ConnectionMultiplexer blocking, bool hasAllTypes,
    bool hasOneShard, SloggerClient client, int seed, MultiplexerTally tally)
{
    /// <summary>As the multiplexers have it.</summary>
    public const int TimeoutMs = 3000;
    private const string Script = "redis.call('INCR', KEYS[1]) return {KEYS[2], ARGV[1], redis.call('GET', KEYS[2])}";
    private const int Places = 6;

    // A call ends within its timeout; the rest is for a busy machine.
    private static readonly TimeSpan s_limit = TimeSpan.FromMilliseconds(TimeoutMs) + TimeSpan.FromSeconds(15);
    private static readonly TimeSpan s_settleLimit = TimeSpan.FromSeconds(60);

    private readonly Random _random = new(seed);
    private readonly IDatabase _database = redis.GetDatabase();
    private readonly MultiplexerPlace[] _places = [.. Enumerable.Range(0, Places).Select(p => new MultiplexerPlace($"{number}.{p}.0"))];
    private readonly List<MultiplexerPlace> _left = [];
    private int _generation, _nonce;

    /// <summary>Works until it is told to stop.</summary>
    /// <exception cref="InvalidDataException">A reply was wrong, or did not come.</exception>
    public async Task RunAsync(CancellationToken stop)
    {
        while (!stop.IsCancellationRequested)
        {
            if (_random.Next(12) == 0) { await CommitAsync(); }
            else if (hasOneShard && _random.Next(12) == 0) { await WaitAofAsync(); }
            else { await BurstAsync(_random.Next(1, _random.Next(2) == 0 ? 8 : 60)); }
            for (int i = 0; i < Places; i++)
            {
                if (!_places[i].IsUncertain) { continue; }
                _left.Add(_places[i]);
                _places[i] = new MultiplexerPlace(string.Create(CultureInfo.InvariantCulture, $"{number}.{i}.{++_generation}"));
            }
        }
    }

    /// <summary>When all serve again: the multiplexer works without anybody's help, and what is there is what may be there.</summary>
    public async Task SettleAsync()
    {
        foreach (MultiplexerPlace place in (MultiplexerPlace[])[.. _places, .. _left])
        {
            place.Known = MultiplexerPlace.NumberOf(place.Text, await AgainAsync(place, place.Text, place.MayHold));
            long counted = 0;
            await AgainAsync(place, place.Counter,
                v => place.MayCount(counted = v is null ? 0 : long.Parse(v, CultureInfo.InvariantCulture)));
            place.IncrementsAnswered = counted;
            if (!hasAllTypes) { continue; }
            await AskUntilAsync(() => _database.ListRangeAsync(place.List),
                r => r.All(v => MultiplexerPlace.NumberOf(place.List, v) is var n && n > 0 && n <= place.PushesSent), place.List, place);
            await AskUntilAsync(() => _database.HashGetAllAsync(place.Hash), r => r.All(e => e.Value == place.Hash + "#" + e.Name),
                place.Hash, place);
        }

        _left.Clear();
    }

    // Whoever is told of a commit finds what it did before. In a cluster an application asks Slogger.Client for it.
    private async Task CommitAsync()
    {
        try
        {
            using var limit = new CancellationTokenSource(TimeSpan.FromSeconds(20));
            await using CommitScope scope = await client.BeginScopeAsync(limit.Token);
            MultiplexerPlace place = await BurstAsync(_random.Next(2, 10));
            long known = place.IsUncertain ? 0 : place.Known ?? 0, counted = place.IncrementsAnswered;
            // What is known of before may have been lost before the scope began.
            if (!tally.IsCalm) { (known, counted) = (0, 0); }
            long written = await WriteAsync(place);
            await scope.WaitForCommitAsync(limit.Token);
            Note(place, Math.Max(known, written), counted);
        }
        catch (Exception e) when (e is SloggerException or OperationCanceledException or ScopeRolledBackException)
        {
            // Nothing was told.
        }
    }

    // Of one shard Redis's own word for it, which is about the connection: it must have been the same one.
    private async Task WaitAofAsync()
    {
        IServer server = redis.GetServer(redis.GetEndPoints()[0]);
        long sockets = server.GetCounters().Interactive.SocketCount;
        MultiplexerPlace place = _places[_random.Next(Places)];
        long written = await WriteAsync(place);
        if (written == 0) { return; }
        long local = 0;
        bool isAnswered = await AskAsync("WAITAOF", place, () => _database.ExecuteAsync("WAITAOF", 1, 0, 2000), r => r.Length == 2
            && (local = (long)r[0]) is 0 or 1);
        if (isAnswered && local == 1 && server.GetCounters().Interactive.SocketCount == sockets) { Note(place, written, 0); }
    }

    private void Note(MultiplexerPlace place, long written, long counted)
    {
        if (written > place.Committed) { place.Committed = written; }
        if (counted > place.IncrementsCommitted) { place.IncrementsCommitted = counted; }
        if (written > 0) { tally.CountCommits(1); }
    }

    // The number of the write; 0: it is not known whether it was done.
    private async Task<long> WriteAsync(MultiplexerPlace place)
    {
        if (place.IsUncertain) { return 0; }
        long next = ++place.Sent;
        place.Known = null;
        if (!await AskAsync("SET", place, () => _database.StringSetAsync(place.Text, MultiplexerPlace.Value(place.Text, next)), r => r))
        {
            return 0;
        }
        place.Known = next;
        return next;
    }

    // Commands of one place without waiting, among them at most one that sets the text: two may change places on the way, where a slot
    // moves.
    private async Task<MultiplexerPlace> BurstAsync(int count)
    {
        MultiplexerPlace place = _places[_random.Next(Places)];
        bool mayWrite = true;
        var calls = new List<Task>();
        for (int i = 0; i < count; i++)
        {
            switch (_random.Next(hasAllTypes ? 18 : 11))
            {
                case 0 when mayWrite:
                    mayWrite = false;
                    calls.Add(WriteAsync(place));
                    break;
                case 1:
                    string nonce = Nonce();
                    calls.Add(AskAsync("ECHO", null, () => _database.ExecuteAsync("ECHO", nonce), r => (string?)r == nonce));
                    break;
                case 2:
                    calls.Add(CountAsync(place));
                    break;
                case 3:
                    calls.Add(AskAsync("MGET", null, () => _database.StringGetAsync([place.Text, place.Counter]), r => r.Length == 2
                        && place.MayHold(r[0]) && place.MayCount(r[1].IsNull ? 0 : (long)r[1])));
                    break;
                case 4 when mayWrite:
                    mayWrite = false;
                    calls.Add(TransactionAsync(place));
                    break;
                case 5:
                    calls.Add(BatchAsync());
                    break;
                case 6:
                    calls.Add(LockAsync(place));
                    break;
                case 7 when _random.Next(8) == 0:
                    calls.Add(LargeAsync(place));
                    break;
                case 8 when _random.Next(4) == 0:
                    calls.Add(Task.Run(() => AskAsync("GET, waited for", null,
                        () => Task.FromResult((string?)_database.StringGet(place.Text)), place.MayHold)));
                    break;
                case 9 when _random.Next(10) == 0:
                    calls.Add(ServerAsync());
                    break;
                case 10:
                    calls.Add(AskAsync("PING", null, () => _database.PingAsync(), _ => true));
                    break;
                case 11:
                    string word = Nonce();
                    place.IncrementsSent++;
                    calls.Add(AskAsync("EVAL", place, () => _database.ScriptEvaluateAsync(Script, [place.Counter, place.Text], [word]),
                        r => r.Length == 3 && (string?)r[0] == place.Text && (string?)r[1] == word && place.MayHold((string?)r[2]),
                            () => Interlocked.Increment(ref place.IncrementsAnswered)));
                    break;
                case 12:
                    long pushed = ++place.PushesSent;
                    calls.Add(AskAsync("RPUSH", place,
                        () => _database.ListRightPushAsync(place.List, MultiplexerPlace.Value(place.List, pushed)), r => r > 0
                            && r <= place.PushesSent));
                    break;
                case 13:
                    calls.Add(AskAsync("LRANGE", null, () => _database.ListRangeAsync(place.List, -10),
                        r => r.All(v => MultiplexerPlace.NumberOf(place.List, v) is var n && n > 0 && n <= place.PushesSent)));
                    break;
                case 14:
                    int field = _random.Next(50);
                    calls.Add(AskAsync("HSET", place, () => _database.HashSetAsync(place.Hash, field, place.Hash + "#" + field),
                        _ => true));
                    break;
                case 15:
                    calls.Add(AskAsync("HGETALL", null, () => _database.HashGetAllAsync(place.Hash),
                        r => r.All(e => e.Value == place.Hash + "#" + e.Name)));
                    break;
                case 16 when _random.Next(4) == 0:
                    calls.Add(StreamAsync(place));
                    break;
                default:
                    calls.Add(AskAsync("GET", null, () => _database.StringGetAsync(place.Text), r => place.MayHold(r)));
                    break;
            }
        }

        await Task.WhenAll(calls);
        // Nothing has been harmed: then what was answered is there, to the last one.
        if (!place.IsUncertain && place.Known is { } known && tally.IsCalm)
        {
            await AskAsync("GET of the only writer", null, () => _database.StringGetAsync(place.Text), r => !tally.IsCalm
                || MultiplexerPlace.NumberOf(place.Text, r) == known);
            await AskAsync("GET of the only one who counts", null, () => _database.StringGetAsync(place.Counter), r => !tally.IsCalm
                || (r.IsNull ? 0 : (long)r) == place.IncrementsAnswered);
        }

        return place;
    }

    private Task<bool> CountAsync(MultiplexerPlace place)
    {
        place.IncrementsSent++;
        return AskAsync("INCR", place, () => _database.StringIncrementAsync(place.Counter), r => r > 0 && place.MayCount(r),
            () => Interlocked.Increment(ref place.IncrementsAnswered));
    }

    private async Task TransactionAsync(MultiplexerPlace place)
    {
        if (place.IsUncertain) { return; }
        long? known = place.Known;
        bool holds = _random.Next(4) > 0;
        long next = ++place.Sent;
        place.Known = null;
        place.IncrementsSent++;
        ITransaction transaction = _database.CreateTransaction();
        if (known is { } before)
        {
            ConditionResult? condition = transaction.AddCondition(
                before == 0 ? Condition.KeyNotExists(place.Text) : Condition.StringEqual(
                    place.Text, MultiplexerPlace.Value(place.Text, before)));
            Assert.NotNull(condition);
        }

        if (!holds) { transaction.AddCondition(Condition.KeyExists(place.Text + "none")); }
        Task<bool> set = transaction.StringSetAsync(place.Text, MultiplexerPlace.Value(place.Text, next));
        Task<long> count = transaction.StringIncrementAsync(place.Counter);
        Task<RedisValue> get = transaction.StringGetAsync(place.Text);
        // Where the library's map of a cluster is old, its WATCH is answered by MOVED, and it does not run the transaction: at nodes of
        // Redis Cluster too.
        bool isDone = false, isCalm = tally.IsCalm, mayNotRun = !hasOneShard;
        bool isAnswered = await AskAsync("EXEC", place, () => transaction.ExecuteAsync(), r => (isDone = r) ? holds
            : !holds || mayNotRun || !tally.IsCalm || !isCalm || known is null);
        if (!isAnswered)
        {
            Forget(set, count, get);
            return;
        }

        if (!isDone)
        {
            Forget(set, count, get);
            place.Known = known;
            // Somebody else's transaction cannot have been in between: it is gone back, or a write is late.
            if (holds) { place.IsUncertain = true; }
            return;
        }

        await AskAsync("SET in EXEC", place, () => set, r => r);
        await AskAsync("INCR in EXEC", place, () => count, place.MayCount, () => Interlocked.Increment(ref place.IncrementsAnswered));
        await AskAsync("GET in EXEC", place, () => get, r => r == MultiplexerPlace.Value(place.Text, next));
        place.Known = place.IsUncertain ? null : next;
    }

    private static void Forget(params Task[] tasks)
    {
        foreach (Task task in tasks) { _ = task.ContinueWith(t => t.Exception, TaskScheduler.Default); }
    }

    // Of all places at once: of several shards a batch is divided.
    private Task BatchAsync()
    {
        MultiplexerPlace[] places = [.. _places];
        IBatch batch = _database.CreateBatch();
        Task<RedisValue>[] gets = [.. places.Select(p => batch.StringGetAsync(p.Text))];
        try
        {
            batch.Execute();
        }
        catch (RedisConnectionException e)
        {
            // Without a backlog it says so at once. None of them ends then, as none was sent.
            tally.CountFailure(e);
            return Task.CompletedTask;
        }

        return Task.WhenAll(places.Select((p, i) => AskAsync("GET in a batch", null, () => gets[i], r => p.MayHold(r))));
    }

    private async Task LockAsync(MultiplexerPlace place)
    {
        string token = Nonce();
        bool isTaken = false;
        if (!await AskAsync("a lock", null, () => _database.LockTakeAsync(place.Lock, token, TimeSpan.FromSeconds(30)),
            r => { isTaken = r; return true; }) || !isTaken)
        {
            return;
        }
        await AskAsync("a lock's owner", null, () => _database.LockQueryAsync(place.Lock), r => !tally.IsCalm || r == token);
        await AskAsync("a lock's release", null, () => _database.LockReleaseAsync(place.Lock, token), r => r || !hasOneShard
            || !tally.IsCalm);
    }

    // More than the proxy sends over what clients share.
    private async Task LargeAsync(MultiplexerPlace place)
    {
        string value = new((char)('a' + _random.Next(26)), _random.Next(100_000, 600_000));
        Task<bool> set = AskAsync("SET of much", null, () => _database.StringSetAsync(place.Large, value), r => r);
        await AskAsync("GET of much", null, () => _database.StringGetAsync(place.Large), r => r.IsNull
            || ((string)r! is var text && text.Length >= 100_000 && text.All(c => c == text[0])));
        await set;
    }

    private async Task StreamAsync(MultiplexerPlace place)
    {
        long next = ++place.EntriesSent;
        await AskAsync("XADD", place,
            () => _database.StreamAddAsync(place.Stream, place.Stream, MultiplexerPlace.Value(place.Stream, next)), r => !r.IsNull);
        await AskAsync("XREAD BLOCK", null, () => blocking.GetDatabase()
            .ExecuteAsync("XREAD", ["COUNT", 5, "BLOCK", 100, "STREAMS", (RedisKey)place.Stream, "0"]), r =>
        {
            if (r.IsNull) { return true; }
            // RESP2: [[stream, entries]]; RESP3: a map.
            RedisResult name = r.Resp3Type == ResultType.Map ? r[0] : r[0][0], entries = r.Resp3Type == ResultType.Map ? r[1] : r[0][1];
            return (string?)name == place.Stream
                && ((RedisResult[])entries!).All(e => (string?)e[1][0] == place.Stream
                && MultiplexerPlace.NumberOf(place.Stream, (string?)e[1][1]) is var n && n > 0 && n <= place.EntriesSent);
        });
    }

    private async Task ServerAsync()
    {
        System.Net.EndPoint[] endpoints = redis.GetEndPoints();
        IServer server = redis.GetServer(endpoints[_random.Next(endpoints.Length)]);
        switch (_random.Next(5))
        {
            case 0:
                await AskAsync("TIME", null, () => server.TimeAsync(), r => (r - DateTime.UtcNow).Duration() < TimeSpan.FromMinutes(2));
                break;
            case 1:
                await AskAsync("INFO", null, () => server.InfoAsync("server"), r => r.Any(g => g.Any(p => p.Key == "redis_version")));
                break;
            case 2:
                await AskAsync("CLIENT LIST", null, () => server.ClientListAsync(), r => r.Any(c => c.Name == redis.ClientName));
                break;
            case 3:
                await AskAsync("CONFIG GET", null, () => server.ConfigGetAsync("maxmemory"), r => !hasAllTypes
                    || (r.Length == 1 && r[0].Key == "maxmemory"));
                break;
            default:
                await AskAsync("SCAN", null, () => KeysAsync(server),
                    r => r.All(k => k.ToString().StartsWith("{" + number + ".", StringComparison.Ordinal)
                        && k.ToString().EndsWith("}text", StringComparison.Ordinal)));
                break;
        }
    }

    private async Task<List<RedisKey>> KeysAsync(IServer server)
    {
        var keys = new List<RedisKey>();
        await foreach (RedisKey key in server.KeysAsync(pattern: "{" + number + ".*}text", pageSize: 500)) { keys.Add(key); }
        return keys;
    }

    private Task<string?> AgainAsync(MultiplexerPlace place, string key, Func<string?, bool> isRight) =>
        AskUntilAsync<string?>(async () => await _database.StringGetAsync(key), isRight, key, place);

    private async Task<T> AskUntilAsync<T>(Func<Task<T>> call, Func<T, bool> isRight, string key, MultiplexerPlace place)
    {
        long began = System.Diagnostics.Stopwatch.GetTimestamp();
        while (true)
        {
            T? found = default;
            if (await AskAsync(string.Create(CultureInfo.InvariantCulture,
                $"{key} after the round (set {place.Sent}, committed {place.Committed}; counted {place.IncrementsSent}, committed "
                    + $"{place.IncrementsCommitted})"), null, call, r =>
            {
                found = r;
                return isRight(r);
            })) { return found!; }
            if (System.Diagnostics.Stopwatch.GetElapsedTime(began) > s_settleLimit)
            {
                throw new InvalidDataException($"{redis.ClientName} does not work again, {s_settleLimit.TotalSeconds:0} s after all "
                    + $"shards served: {redis.GetStatus()}");
            }
            await Task.Delay(50);
        }
    }

    // Whether it was answered. A call of a place that may have been done, or may be done late, ends its use.
    private async Task<bool> AskAsync<T>(string what, MultiplexerPlace? place, Func<Task<T>> call, Func<T, bool> isRight,
        Action? isDone = null)
    {
        T reply;
        try
        {
            reply = await call().WaitAsync(s_limit);
        }
        catch (Exception e) when (e is RedisConnectionException or RedisTimeoutException || (e is RedisServerException && !tally.IsCalm))
        {
            tally.CountFailure(e);
            place?.IsUncertain = true;
            return false;
        }
        catch (TimeoutException)
        {
            throw new InvalidDataException(
                $"{redis.ClientName}: {what} ended neither with a reply nor with an exception within {s_limit.TotalSeconds:0} s: "
                    + $"{redis.GetStatus()}");
        }

        isDone?.Invoke();
        if (!isRight(reply)) { throw new InvalidDataException($"{redis.ClientName}: {what} was answered {ApiCalls.Text(reply)}"); }
        tally.CountAnswer();
        return true;
    }

    private string Nonce() => string.Create(CultureInfo.InvariantCulture, $"{number}-{++_nonce}");
}
