// What a rollback in place does in Redis: puts back, in a Redis that is alive, what was written after a boundary, only the keys that were
// written. The alternative to RedisRestore, which loads everything. The order of the steps, and what they have to do with the log, is
// Core's (RollbackInPlace).
//
// Nobody else writes any more (all clients' connections are killed); the stream up to there tells which keys were written; their values
// at the boundary are restored in one transaction, with all expiries moved far away; that transaction is found in the stream; then the
// expiries are put back.
//
// If a step fails Redis is in an undefined state, or as it was: restore it then.
using System.Buffers;
using System.Diagnostics;
using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using Slogger.Core.Recovery;
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
}

/// <summary>Does the steps of one rollback in place that are Redis's.</summary>
public sealed class RedisRollback : IAsyncDisposable
{
    private const string Channel = "__slogger:rollback";
    private static readonly TimeSpan AnswerMax = TimeSpan.FromSeconds(3);

    private readonly RollbackRequest _request;
    private readonly UndoneStream _stream;
    private readonly HashSet<StoreKey> _touched = [];
    private readonly HashSet<StoreKey> _putBack = [];
    private readonly StringBuilder _times = new();
    private long _stepBegan = Stopwatch.GetTimestamp();
    private RedisConnection? _control;
    private ReplicationLink? _link;
    private long _standsAt;
    private RollbackPlan? _plan;
    private byte[] _mark = [];

    /// <summary>A rollback that has yet to begin.</summary>
    public RedisRollback(RollbackRequest request)
    {
        ArgumentNullException.ThrowIfNull(request);
        _request = request;
        _stream = new UndoneStream(request.BranchOffset, request.BranchDatabase, request.Limits.UndoneBytesMax);
    }

    /// <summary>How many keys were put back.</summary>
    public int Keys => _putBack.Count;

    /// <summary>How many commands that took.</summary>
    public int Commands { get; private set; }

    /// <summary>How long its steps took; for a person.</summary>
    public string Times => _times.ToString();

    private RedisConnection Control => _control ?? throw new InvalidOperationException("a step before the first");

    /// <summary>Does a step, and reports it. Trouble with Redis is reported; so is everything that makes it impossible.</summary>
    public async Task PerformAsync(RollbackStep step, RollbackInPlace rollback, CancellationToken stop)
    {
        ArgumentNullException.ThrowIfNull(rollback);
        try
        {
            string? reason = step.Kind switch
            {
                RollbackStepKind.ShutOut => await BeginAsync(stop).ConfigureAwait(false),
                RollbackStepKind.ReadUndone => await ReadUndoneAsync(stop).ConfigureAwait(false),
                RollbackStepKind.Plan => Plan(),
                RollbackStepKind.PutBack => await PutBackAsync(stop).ConfigureAwait(false),
                RollbackStepKind.FindTransaction => await FindAsync(rollback, stop).ConfigureAwait(false),
                RollbackStepKind.GiveExpiriesBack => await GiveExpiriesBackAsync(stop).ConfigureAwait(false),
                _ => throw new ArgumentOutOfRangeException(nameof(step), step.Kind, "no step of Redis's"),
            };
            if (reason is not null) { rollback.Failed(reason); }
        }
        catch (Exception e) when (e is RedisException or IOException)
        {
            rollback.Failed(e.Message);
        }
    }

    /// <summary>Closes its connections.</summary>
    public async ValueTask DisposeAsync()
    {
        _link?.Dispose();
        if (_control is { } control) { await control.DisposeAsync().ConfigureAwait(false); }
        (_link, _control) = (null, null);
    }

    // ---- Steps: null, or why they cannot be done ----

    private async Task<string?> BeginAsync(CancellationToken stop)
    {
        _control = await RedisConnection.ConnectAsync(_request.Endpoint, AnswerMax, stop).ConfigureAwait(false);
        IReadOnlyList<RedisReply> alone = await ShutOutAsync(_control, stop).ConfigureAwait(false);
        if (Refused(alone) is { } refused) { return refused; }
        StepEnded("alone");
        if (alone[2].Items is not [{ Text: "master" }, { Kind: RedisReplyKind.Integer } offset, ..]) { return "Redis is no master"; }
        _standsAt = offset.Integer;
        return null;
    }

    private async Task<string?> ReadUndoneAsync(CancellationToken stop)
    {
        using (History history = new(_request.OpenHistory())) { _stream.Take(history.Source, _request.LogEnd); }
        if (_stream.Reason is { } reason) { return reason; }
        _link = new ReplicationLink(new ReplicationLinkOptions { Endpoint = _request.Endpoint });
        AttachResult result = await _link.AttachAsync(
            new AttachRequest { ReplicationId = _request.ReplicationId, Position = _stream.Position(), OnFull = OnFullSync.Refuse },
            stop).ConfigureAwait(false);
        if (result is AttachResult.Failed failed) { return failed.Message; }
        _link.Start(_stream);
        if (!await _stream.ArrivesAsync(_standsAt, AnswerMax, stop).ConfigureAwait(false))
        {
            return _stream.Reason ?? "Redis's stream does not come";
        }
        _stream.Read([], _touched);
        StepEnded("read");
        return null;
    }

    private string? Plan()
    {
        if (_stream.Reason is { } ended) { return ended; }
        using History history = new(_request.OpenHistory());
        var sources = new RollbackSources(_request.Index, _request.BaseOffset, _request.Tail, history.Source, _request.BranchOffset);
        _plan = new RollbackPlanner(sources, _request.Limits).Make(_touched, out string reason);
        if (_plan is null) { return reason; }
        StepEnded("plan");
        return null;
    }

    // One transaction.
    private async Task<string?> PutBackAsync(CancellationToken stop)
    {
        RollbackPlan plan = _plan!;
        _touched.Clear();
        _putBack.UnionWith(plan.Keys);
        Commands += plan.Count;
        string mark = Convert.ToHexStringLower(RandomNumberGenerator.GetBytes(16));
        _mark = Encoding.ASCII.GetBytes(mark);
        // The mark first and last: a transaction of one write would lose its wrapper in the stream.
        byte[] publish = RedisTransport.Encode("SPUBLISH", Channel, mark);
        byte[] sent = [.. RedisTransport.Encode("MULTI"), .. publish, .. plan.Commands.Span, .. publish, .. RedisTransport.Encode("EXEC")];
        try
        {
            if (Refused(await Control.PipelineAsync(sent, plan.Count + 4, stop).ConfigureAwait(false)) is { } refused) { return refused; }
        }
        catch (RedisException e)
        {
            // It may be executed yet, and then undo what is restored after this.
            await using RedisConnection killer = await RedisConnection.ConnectAsync(
                _request.Endpoint with { Admission = null }, AnswerMax, stop).ConfigureAwait(false);
            await ShutOutAsync(killer, stop).ConfigureAwait(false);
            return e.Message;
        }
        StepEnded("execute");
        return null;
    }

    // Leaves the keys that others have written meanwhile.
    private async Task<string?> FindAsync(RollbackInPlace rollback, CancellationToken stop)
    {
        // What comes between the read and the wait is not waited for: it may be the last that comes.
        long seen = _stream.Arrived;
        while (!_stream.Read(_mark, _touched))
        {
            if (_stream.Reason is { } ended) { return ended; }
            await _stream.ArrivesAsync(seen + 1, AnswerMax, stop).ConfigureAwait(false);
            seen = _stream.Arrived;
        }
        // Something came before it that is not confined to keys.
        if (_stream.Reason is { } reason) { return reason; }
        rollback.Found(new(_stream.ReadTo, _stream.Database), haveOthersWritten: _touched.Count > 0);
        return null;
    }

    // The last step: its connections are closed with it.
    private async Task<string?> GiveExpiriesBackAsync(CancellationToken stop)
    {
        string? failed = await PutExpiriesBackAsync(stop).ConfigureAwait(false);
        StepEnded("expiries");
        await DisposeAsync().ConfigureAwait(false);
        return failed;
    }

    // What clients sent before is executed by now, or never.
    private static Task<IReadOnlyList<RedisReply>> ShutOutAsync(RedisConnection control, CancellationToken stop) => control.PipelineAsync(
        Join(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"], ["CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes"], ["ROLE"]), 3,
            stop);

    private async Task<string?> PutExpiriesBackAsync(CancellationToken stop)
    {
        StoreKey[] keys = [.. _putBack.Order()];
        var asked = new ArrayBufferWriter<byte>();
        int selects = WriteForEach(asked, keys, (output, key) => EffectReplay.Write(output, "PEXPIRETIME"u8.ToArray(), key.Name));
        if (keys.Length == 0) { return null; }
        IReadOnlyList<RedisReply> times = await Control.PipelineAsync(
            asked.WrittenMemory, keys.Length + selects, stop).ConfigureAwait(false);
        if (Refused(times) is { } refused) { return refused; }
        RedisReply[] integers = [.. times.Where(t => t.Kind == RedisReplyKind.Integer)];
        if (integers.Length != keys.Length) { return "Redis's answers are not understood"; }
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
        return Refused(await Control.PipelineAsync(set.WrittenMemory, moved.Count + selects, stop).ConfigureAwait(false));
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

    private static string? Refused(IReadOnlyList<RedisReply> replies)
    {
        foreach (RedisReply reply in replies)
        {
            if (reply.IsError) { return $"Redis answered {reply.Text}"; }
            // An EXEC's.
            if (reply.Items.FirstOrDefault(i => i.IsError) is { } inner) { return $"Redis answered {inner.Text}"; }
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

    private static byte[] Join(params string[][] commands) => [.. commands.SelectMany(c => RedisTransport.Encode(c))];

    // A source that may hold a file open.
    private readonly struct History(IHistorySource source) : IDisposable
    {
        public IHistorySource Source { get; } = source;

        public void Dispose() => (Source as IDisposable)?.Dispose();
    }
}
