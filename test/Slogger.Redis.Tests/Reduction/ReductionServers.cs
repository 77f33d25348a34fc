// Three servers: one has commands at random and tells what it propagates, as a master does. Of the other two one is given that, and one
// what the reducer leaves of it. Expiries are moved into a far future first (EffectReplay): no clock has a part in what is compared.
using System.Buffers;
using Slogger.Integration.Tests.Workload;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Redis.Reduction;
using Slogger.Redis.Replication;
using Slogger.Redis.Rollback;
using Slogger.Redis.Tests.Support;

namespace Slogger.Redis.Tests.Reduction;

public sealed class ReductionServers : IAsyncLifetime
{
    private static readonly TimeSpan s_timeout = TimeSpan.FromSeconds(60);
    private readonly Dictionary<int, RecordedEffects> _recorded = [];
    private readonly List<EffectKey> _keys = [];
    private readonly Effect _effect = new();
    private TestRedis _live = null!, _raw = null!, _reduced = null!;
    private RedisPipeline _writer = null!, _toRaw = null!, _toReduced = null!;
    private ReplicationLink _link = null!;
    private StreamTail? _tail;

    /// <summary>Commands before and after, of all windows.</summary>
    public (long Before, long After, int Windows) Totals { get; private set; }

    public async ValueTask InitializeAsync()
    {
        _live = await TestRedis.StartAsync();
        _raw = await TestRedis.StartAsync();
        _reduced = await TestRedis.StartAsync();
        _writer = await RedisPipeline.ConnectAsync(_live.Endpoint, s_timeout, default);
        _toRaw = await RedisPipeline.ConnectAsync(_raw.Endpoint, s_timeout, default);
        _toReduced = await RedisPipeline.ConnectAsync(_reduced.Endpoint, s_timeout, default);
        _link = new ReplicationLink(new() { Endpoint = _live.Endpoint });
        var full = Assert.IsType<AttachResult.Full>(await _link.AttachAsync(
            new() { OnFull = OnFullSync.WithData, RdbFile = Path.Combine(_live.Directory, "base.rdb") }));
        _tail = new StreamTail(full.Offset);
        _link.Start(_tail);
    }

    public async ValueTask DisposeAsync()
    {
        _link.Dispose();
        if (_tail is not null) { await _link.Completion; }
        foreach (RedisPipeline pipeline in (RedisPipeline[])[_writer, _toRaw, _toReduced]) { await pipeline.DisposeAsync(); }
        foreach (TestRedis redis in (TestRedis[])[_live, _raw, _reduced]) { await redis.DisposeAsync(); }
    }

    /// <summary>What a seed's commands propagate; of even seeds the whole vocabulary, of odd ones what meets the rules.</summary>
    internal async Task<RecordedEffects> RecordAsync(int seed, bool isKept = false)
    {
        if (_recorded.TryGetValue(seed, out RecordedEffects? known)) { return known; }
        var random = new Random(seed);
        Func<IReadOnlyList<string[]>> next = seed % 2 == 0 ? new RandomCommands(seed).Next : new RuleCommands(seed).Next;
        var batch = new RedisBatch().Add(StoreView.Words("FLUSHALL")).Add(StoreView.Words("FUNCTION", "FLUSH"));
        await _writer.RunAsync(batch, default);
        (_, int database) = await TakeAsync();
        int commands = random.Next(200, 700);
        for (int sent = 0; sent < commands;)
        {
            batch.Clear();
            for (int i = 0; i < 50; i++)
            {
                foreach (string[] command in next()) { batch.Add(StoreView.Words(command)); }
            }
            batch.Add(StoreView.Words("DISCARD"));
            sent += batch.Count;
            await _writer.RunAsync(batch, default);
            // Short lives end.
            if (random.Next(3) == 0) { await Task.Delay(20); }
        }
        (byte[] bytes, _) = await TakeAsync();
        RecordedEffects effects = Cut(bytes, database, random);
        if (isKept) { _recorded[seed] = effects; }
        return effects;
    }

    /// <summary>Feeds both forms to the two servers. Returns what is different at a window's end; null: nothing is.</summary>
    internal async Task<string?> DifferenceAsync(RecordedEffects effects, EffectReducer reducer)
    {
        if (effects.Views.Count == 0) { await FeedRawAsync(effects); }
        await ResetAsync(_toReduced, effects.Database);
        int from = 0, database = effects.Database, window = 0;
        var output = new ArrayBufferWriter<byte>();
        for (int i = 0; i < effects.Ends.Length; i++)
        {
            int end = effects.Ends[i];
            if (i == 0) { output.Write(effects.Bytes.AsSpan(0, end)); }
            else
            {
                if (from == effects.Ends[i - 1]) { reducer.Begin(effects.Bytes, from, database); }
                Assert.True(reducer.TryTake(end));
                if (!effects.Windows.Contains(end)) { continue; }
                ReducedWindow reduced = reducer.Write(output);
                Assert.Equal(output.WrittenCount, reduced.BytesAfter);
                (long before, long after, int windows) = Totals;
                Totals = (before + reduced.CommandsBefore, after + reduced.CommandsAfter, windows + 1);
            }
            byte[] left = output.WrittenSpan.ToArray();
            string? difference = await FeedAsync(_toReduced, left)
                ?? effects.Views[window].DifferenceTo(await StoreView.ReadAsync(_toReduced));
            if (difference is not null)
            {
                return $"window {window}, bytes {from} to {end}: {difference}\n--- raw\n{ReductionText.Of(effects.Bytes[from..end])}\n"
                    + $"--- reduced\n{ReductionText.Of(left)}";
            }
            database = DatabaseBehind(effects.Bytes, from, end, database);
            from = end;
            window++;
            output.ResetWrittenCount();
        }
        return null;
    }

    /// <summary>All windows, reduced one by one, behind what there was before.</summary>
    internal byte[] Reduced(RecordedEffects effects, EffectReducer reducer)
    {
        var output = new ArrayBufferWriter<byte>();
        output.Write(effects.Bytes.AsSpan(0, effects.Ends[0]));
        int from = effects.Ends[0], database = DatabaseBehind(effects.Bytes, 0, from, effects.Database);
        foreach (int end in effects.Ends.Skip(1).Where(effects.Windows.Contains))
        {
            reducer.Begin(effects.Bytes, from, database);
            Assert.True(reducer.TryTake(end));
            (from, database) = (end, reducer.Write(output).Database);
        }
        return output.WrittenSpan.ToArray();
    }

    /// <summary>Has a server load a stream as a replica does, ending at an offset of the caller's. Returns what it holds then.</summary>
    internal async Task<StoreView> RestoreAsync(byte[] stream, int database, long target)
    {
        var history = new RecordingSink(target - stream.Length);
        history.OnBytes(stream, history.StartOffset);
        var plan = new FeedPlan
        {
            BaseOffset = history.StartOffset, BaseDatabase = database, TargetOffset = target, History = history,
        };
        StoreView? view = null;
        await using RedisConnection control = await _reduced.ConnectAsync();
        RestoreResult result = await RedisRestore.RunAsync(control, plan, new()
        {
            BeforePromotion = async (_, _) => view = await StoreView.ReadAsync(_toReduced),
        });
        Assert.Equal(target, Assert.IsType<RestoreResult.Restored>(result).Offset);
        return view!;
    }

    private async Task FeedRawAsync(RecordedEffects effects)
    {
        await ResetAsync(_toRaw, effects.Database);
        int from = 0;
        foreach (int end in effects.Ends.Where(effects.Windows.Contains))
        {
            Assert.Null(await FeedAsync(_toRaw, effects.Bytes[from..end]));
            effects.Views.Add(await StoreView.ReadAsync(_toRaw));
            from = end;
        }
    }

    private RecordedEffects Cut(byte[] stream, int database, Random random)
    {
        var moved = new ArrayBufferWriter<byte>(stream.Length);
        var boundaries = new List<int>();
        bool isIn = false;
        for (int at = 0; at < stream.Length && _effect.TryRead(stream, at, stream.Length); at = _effect.End)
        {
            Assert.Null(EffectReplay.Append(_effect, moved));
            isIn = _effect.Is(0, "MULTI"u8) || (isIn && !_effect.Is(0, "EXEC"u8));
            if (!isIn) { boundaries.Add(moved.WrittenCount); }
        }
        int atEnd = boundaries.Count - 1, window = random.Next(1, random.Next(2) == 0 ? 20 : 300);
        List<int> ends = [boundaries[random.Next(Math.Max(1, boundaries.Count / 2))]];
        HashSet<int> windows = [ends[0], boundaries[atEnd]];
        for (int i = boundaries.IndexOf(ends[0]) + 1; i < atEnd; i += random.Next(1, window))
        {
            ends.Add(boundaries[i]);
            if (random.Next(4) == 0) { windows.Add(boundaries[i]); }
        }
        if (ends[^1] < boundaries[atEnd]) { ends.Add(boundaries[atEnd]); }
        return new(moved.WrittenSpan.ToArray(), database, [.. ends], windows);
    }

    private async Task<(byte[] Bytes, int Database)> TakeAsync()
    {
        await using RedisConnection control = await _live.ConnectAsync();
        return await _tail!.TakeAsync((await control.RoleAsync()).Offset);
    }

    private static async Task ResetAsync(RedisPipeline redis, int database) => await redis.RunAsync(
        new RedisBatch().Add(StoreView.Words("FLUSHALL")).Add(StoreView.Words("FUNCTION", "FLUSH"))
            .Add(StoreView.Words("SELECT", $"{database}")), default);

    // Returns what Redis refuses.
    private async Task<string?> FeedAsync(RedisPipeline redis, byte[] stream)
    {
        var batch = new RedisBatch();
        for (int at = 0; at < stream.Length && _effect.TryRead(stream, at, stream.Length); at = _effect.End)
        {
            // REPLCONF has no answer.
            bool isNothing = EffectScope.Find(_effect, 0, _keys) == EffectReach.Nothing;
            if (!isNothing || _effect.Is(0, "MULTI"u8) || _effect.Is(0, "EXEC"u8)) { batch.Add(_effect.Bytes, 1); }
        }
        return (await redis.RunAsync(batch, default)).SelectMany(r => r.Items.Prepend(r)).FirstOrDefault(r => r.IsError)?.Text;
    }

    private int DatabaseBehind(byte[] stream, int from, int end, int database)
    {
        for (int at = from; at < end && _effect.TryRead(stream, at, end); at = _effect.End)
        {
            if (_effect.Is(0, "SELECT"u8)) { database = EffectScope.DatabaseOf(_effect)!.Value; }
        }
        return database;
    }
}
