// Puts back, in a Redis that is alive, what was written after a boundary: only the keys that were written. The alternative to
// RedisRestore, which loads everything.
//
// The order: nobody else writes any more (all clients' connections are killed); the stream up to there tells which keys were written;
// their values at the boundary are restored in one transaction, with all expiries moved far away; that transaction is
// found in the stream, and nothing else before it; then the expiries are put back. Where that transaction ends Redis stands at the
// boundary: the caller's history goes on there, and what lies between must be in no history.
//
// The expiries come behind that place, so that they are history: a key that has expired meanwhile is deleted by its expiry then, and
// whoever replays the history deletes it at the same place.
//
// If it does not work Redis is in an undefined state, or as it was: restore it then.
using System.Buffers;
using System.Diagnostics;
using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Redis.Replication;

namespace Slogger.Redis.Rollback;

/// <summary>What is to be rolled back, and by what.</summary>
public sealed record RollbackRequest
{
    /// <summary>The Redis: a master.</summary>
    public required RedisEndpoint Endpoint { get; init; }

    /// <summary>The identity of its stream.</summary>
    public required string ReplicationId { get; init; }

    /// <summary>Where the log's bytes are read. Called anew for each pass.</summary>
    public required Func<IHistorySource> OpenHistory { get; init; }

    /// <summary>The end of the log: the stream is read from Redis behind it.</summary>
    public required long LogEnd { get; init; }

    /// <summary>The boundary's offset.</summary>
    public required long BranchOffset { get; init; }

    /// <summary>The database selected there.</summary>
    public required int BranchDatabase { get; init; }

    /// <summary>The index of a checkpoint at or below the boundary.</summary>
    public required CheckpointIndex Index { get; init; }

    /// <summary>The checkpoint's offset.</summary>
    public required long BaseOffset { get; init; }

    /// <summary>The log's tail, read from the checkpoint to the boundary.</summary>
    public required TailIndex Tail { get; init; }

    /// <summary>How much it may take.</summary>
    public RollbackLimits Limits { get; init; } = new();

    /// <summary>Called when the first plan is made, and before Redis is changed; the log's undone part is not read any more. Runs
    /// beside what is done in Redis, and is awaited before the end.</summary>
    public Func<Task>? Planned { get; init; }

    /// <summary>Called when the values are back, and the expiries are not.</summary>
    public Action? Applied { get; init; }
}

/// <summary>The outcome of a rollback in place: one of the nested records.</summary>
public abstract record RollbackOutcome
{
    private RollbackOutcome()
    {
    }

    /// <summary>Redis holds what it held at the boundary.</summary>
    /// <param name="Offset">Where it does so in its stream: history goes on behind it.</param>
    /// <param name="Database">The database selected there.</param>
    /// <param name="Keys">How many keys were put back.</param>
    /// <param name="Commands">How many commands that took.</param>
    /// <param name="Times">How long its steps took; for a person.</param>
    public sealed record Done(long Offset, int Database, int Keys, int Commands, string Times) : RollbackOutcome;

    /// <summary>It does not.</summary>
    /// <param name="Reason">Why; for a person.</param>
    public sealed record NotPossible(string Reason) : RollbackOutcome;
}

/// <summary>Runs a rollback in place. For one use.</summary>
public sealed class InPlaceRollback
{
    private const int PassesMax = 5;
    private const string Channel = "__slogger:rollback";
    private static readonly TimeSpan AnswerMax = TimeSpan.FromSeconds(3);

    private readonly RollbackRequest _request;
    private readonly UndoneStream _stream;
    private readonly HashSet<StoreKey> _putBack = [];
    private Task _planned = Task.CompletedTask;
    private readonly StringBuilder _times = new();
    private long _stepBegan = Stopwatch.GetTimestamp();
    private bool _isPlanned;
    private int _commands;

    private InPlaceRollback(RollbackRequest request)
    {
        _request = request;
        _stream = new UndoneStream(request.BranchOffset, request.BranchDatabase, request.Limits.UndoneBytesMax);
    }

    /// <summary>Rolls back. Trouble with Redis is an outcome; so is everything that makes it impossible.</summary>
    public static async Task<RollbackOutcome> RunAsync(RollbackRequest request, CancellationToken stop)
    {
        ArgumentNullException.ThrowIfNull(request);
        var rollback = new InPlaceRollback(request);
        try
        {
            return await rollback.RunAsync(stop).ConfigureAwait(false);
        }
        catch (Exception e) when (e is RedisException or IOException)
        {
            return new RollbackOutcome.NotPossible(e.Message);
        }
        finally
        {
            await rollback._planned.ConfigureAwait(false);
        }
    }

    private async Task<RollbackOutcome> RunAsync(CancellationToken stop)
    {
        await using RedisConnection control = await RedisConnection.ConnectAsync(_request.Endpoint, AnswerMax, stop).ConfigureAwait(false);
        IReadOnlyList<RedisReply> alone = await ShutOutAsync(control, stop).ConfigureAwait(false);
        if (Refused(alone) is { } refused) { return refused; }
        StepEnded("alone");
        if (alone[2].Items is not [{ Text: "master" }, { Kind: RedisReplyKind.Integer } offset, ..]) { return No("Redis is no master"); }
        using History history = new(_request.OpenHistory());
        _stream.Take(history.Source, _request.LogEnd);
        using ReplicationLink link = new(new ReplicationLinkOptions { Endpoint = _request.Endpoint });
        if (await AttachAsync(link, stop).ConfigureAwait(false) is { } detached) { return detached; }
        if (!await _stream.ArrivesAsync(offset.Integer, AnswerMax, stop).ConfigureAwait(false))
        {
            return No(_stream.Reason ?? "Redis's stream does not come");
        }
        var touched = new HashSet<StoreKey>();
        _stream.Read([], touched);
        StepEnded("read");
        for (int pass = 0; pass < PassesMax; pass++)
        {
            if (_stream.Reason is { } reason) { return No(reason); }
            // The history is read again, and changes only once.
            await _planned.ConfigureAwait(false);
            if (await PutBackAsync(control, touched, stop).ConfigureAwait(false) is { } failed) { return failed; }
            if (touched.Count > 0) { continue; }
            (long at, int database) = (_stream.ReadTo, _stream.Database);
            _request.Applied?.Invoke();
            if (await PutExpiriesBackAsync(control, stop).ConfigureAwait(false) is { } undone) { return undone; }
            StepEnded("expiries");
            return new RollbackOutcome.Done(at, database, _putBack.Count, _commands, _times.ToString());
        }
        return No("others keep writing to Redis");
    }

    // What clients sent before is executed by now, or never.
    private static Task<IReadOnlyList<RedisReply>> ShutOutAsync(RedisConnection control, CancellationToken stop) => control.PipelineAsync(
        Join(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"], ["CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes"], ["ROLE"]), 3,
            stop);

    private async Task<RollbackOutcome?> AttachAsync(ReplicationLink link, CancellationToken stop)
    {
        if (_stream.Reason is { } reason) { return No(reason); }
        AttachResult result = await link.AttachAsync(
            new AttachRequest { ReplicationId = _request.ReplicationId, Position = _stream.Position(), OnFull = OnFullSync.Refuse },
                stop).ConfigureAwait(false);
        if (result is AttachResult.Failed failed) { return No(failed.Message); }
        link.Start(_stream);
        return null;
    }

    // One transaction. Leaves the keys that others have written meanwhile.
    private async Task<RollbackOutcome?> PutBackAsync(RedisConnection control, HashSet<StoreKey> touched, CancellationToken stop)
    {
        RollbackPlan? plan;
        string reason;
        using (History history = new(_request.OpenHistory()))
        {
            var sources = new RollbackSources(_request.Index, _request.BaseOffset, _request.Tail, history.Source, _request.BranchOffset);
            plan = new RollbackPlanner(sources, _request.Limits).Make(touched, out reason);
        }
        if (plan is null) { return No(reason); }
        StepEnded("plan");
        if (!_isPlanned && _request.Planned is { } planned) { _planned = planned(); }
        _isPlanned = true;
        touched.Clear();
        _putBack.UnionWith(plan.Keys);
        _commands += plan.Count;
        string mark = Convert.ToHexStringLower(RandomNumberGenerator.GetBytes(16));
        // The mark first and last: a transaction of one write would lose its wrapper in the stream.
        byte[] publish = RedisTransport.Encode("SPUBLISH", Channel, mark);
        byte[] sent = [.. RedisTransport.Encode("MULTI"), .. publish, .. plan.Commands.Span, .. publish, .. RedisTransport.Encode("EXEC")];
        RollbackOutcome? failed = null;
        try
        {
            failed = Refused(await control.PipelineAsync(sent, plan.Count + 4, stop).ConfigureAwait(false));
        }
        catch (RedisException e)
        {
            // It may be executed yet, and then undo what is restored after this.
            await using RedisConnection killer = await RedisConnection.ConnectAsync(
                _request.Endpoint with { Admission = null }, AnswerMax, stop).ConfigureAwait(false);
            await ShutOutAsync(killer, stop).ConfigureAwait(false);
            return No(e.Message);
        }
        if (failed is not null) { return failed; }
        StepEnded("execute");
        byte[] message = Encoding.ASCII.GetBytes(mark);
        while (!_stream.Read(message, touched))
        {
            if (_stream.Reason is { } ended) { return No(ended); }
            await _stream.ArrivesAsync(_stream.Arrived + 1, AnswerMax, stop).ConfigureAwait(false);
        }
        return null;
    }

    private async Task<RollbackOutcome?> PutExpiriesBackAsync(RedisConnection control, CancellationToken stop)
    {
        StoreKey[] keys = [.. _putBack.Order()];
        var asked = new ArrayBufferWriter<byte>();
        int selects = WriteForEach(asked, keys, (output, key) => EffectReplay.Write(output, "PEXPIRETIME"u8.ToArray(), key.Name));
        if (keys.Length == 0) { return null; }
        IReadOnlyList<RedisReply> times = await control.PipelineAsync(
            asked.WrittenMemory, keys.Length + selects, stop).ConfigureAwait(false);
        if (Refused(times) is { } refused) { return refused; }
        RedisReply[] integers = [.. times.Where(t => t.Kind == RedisReplyKind.Integer)];
        if (integers.Length != keys.Length) { return No("Redis's answers are not understood"); }
        var moved = new List<(StoreKey Key, long Time)>();
        for (int i = 0; i < keys.Length; i++)
        {
            if (integers[i].Integer >= EffectReplay.ExpiryShiftMs)
            {
                moved.Add((keys[i], integers[i].Integer - EffectReplay.ExpiryShiftMs));
            }
        }
        if (moved.Count == 0) { return null; }
        var set = new ArrayBufferWriter<byte>();
        int at = 0;
        selects = WriteForEach(set, [.. moved.Select(m => m.Key)],
            (output, key) => EffectReplay.Write(output, "PEXPIREAT"u8.ToArray(), key.Name, EffectReplay.Number(moved[at++].Time)));
        return Refused(await control.PipelineAsync(set.WrittenMemory, moved.Count + selects, stop).ConfigureAwait(false));
    }

    // With a SELECT first, and where the database changes. Returns how many of those; the connection ends in database 0.
    private static int WriteForEach(ArrayBufferWriter<byte> output, StoreKey[] keys, Action<ArrayBufferWriter<byte>, StoreKey> write)
    {
        int selects = 0;
        int selected = -1;
        foreach (StoreKey key in keys)
        {
            if (key.Database != selected)
            {
                EffectReplay.Write(output, "SELECT"u8.ToArray(), EffectReplay.Number(key.Database));
                selected = key.Database;
                selects++;
            }
            write(output, key);
        }
        EffectReplay.Write(output, "SELECT"u8.ToArray(), "0"u8.ToArray());
        return selects + 1;
    }

    private static RollbackOutcome.NotPossible? Refused(IReadOnlyList<RedisReply> replies)
    {
        foreach (RedisReply reply in replies)
        {
            if (reply.IsError) { return No($"Redis answered {reply.Text}"); }
            // An EXEC's.
            if (reply.Items.FirstOrDefault(i => i.IsError) is { } inner) { return No($"Redis answered {inner.Text}"); }
        }
        return null;
    }

    private void StepEnded(string step)
    {
        long now = Stopwatch.GetTimestamp();
        _times.Append(CultureInfo.InvariantCulture,
            $"{(_times.Length > 0 ? ", " : "")}{step} {Stopwatch.GetElapsedTime(_stepBegan, now).TotalMilliseconds:0.0}");
        _stepBegan = now;
    }

    private static RollbackOutcome.NotPossible No(string reason) => new(reason);

    private static byte[] Join(params string[][] commands) => [.. commands.SelectMany(c => RedisTransport.Encode(c))];

    // A source that may hold a file open.
    private readonly struct History(IHistorySource source) : IDisposable
    {
        public IHistorySource Source { get; } = source;

        public void Dispose() => (Source as IDisposable)?.Dispose();
    }
}
