// Takes checkpoints of a store, so that a restore does not have much of the log to replay, and deletes what lies behind them.
//
// The log is trimmed under its lock, which nobody holds while a checkpoint is fetched.
using Slogger.Core.Identities;
using Slogger.Core.Retention;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;
using Slogger.Redis.Replication;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Shards;

/// <summary>What checkpoints are taken from. Whoever takes one has the turn.</summary>
internal interface ICheckpointSource
{
    /// <summary>Waits for the turn; <see cref="EndTurn"/> gives it back.</summary>
    Task TurnAsync(CancellationToken stop);

    /// <summary>Lets others take one.</summary>
    void EndTurn();

    /// <summary>Where one may be written.</summary>
    string NewFile();

    /// <summary>Takes one.</summary>
    /// <param name="file">Where to.</param>
    /// <param name="stop">Gives up.</param>
    /// <param name="taken">Called when it is decided what it holds.</param>
    Task<CheckpointResult> FetchAsync(string file, CancellationToken stop, Action? taken = null);
}

/// <summary>The checkpoints of one shard's log. The control task, if nothing else is said.</summary>
internal sealed class Checkpointer
{
    private const int KeptAtCut = 2;
    // A tail that a restore replays in a fifth of a second or so needs no checkpoint.
    private const long SmallTailBytes = 8L << 20;
    private const int SmallTailShare = 8;
    // Of the time, at most one part in so many goes into checkpoints that no setting asks for.
    private const int EarlyShare = 30;
    private const long EarlyPauseUs = 30_000_000;
    private static readonly TimeSpan EndLimit = TimeSpan.FromSeconds(10);
    private readonly ServeOptions _options;
    private readonly ILogger _report;
    private readonly VersionLog _log;
    private readonly Lock _logLock;
    private readonly CheckpointStore _store;
    private readonly ICheckpointSource _dumps;
    private long _nextUs;
    private long _nextEarlyUs;
    private bool _isShort;

    public Checkpointer(ServeOptions options, ILogger report, VersionLog log, Lock logLock, CheckpointStore store,
        ICheckpointSource dumps)
    {
        _options = options;
        _report = report;
        _log = log;
        _logLock = logLock;
        _store = store;
        _dumps = dumps;
    }

    /// <summary>The cut that is recorded: no recovery goes below it.</summary>
    public required Func<WorldPoint> RecordedCut { get; init; }

    /// <summary>The world-line that the shard serves; null while Redis follows another site's stream.</summary>
    public required Func<WorldLine?> Served { get; init; }

    /// <summary>The offset from which others still need the log.</summary>
    public required Func<long> NeededFrom { get; init; }

    /// <summary>The oldest version of the past that is promised; null: none is.</summary>
    public required Func<VersionNumber?> Promised { get; init; }

    /// <summary>The oldest version of the past from which on each is promised; null: no less than all of the past.</summary>
    public required Func<VersionNumber?> PromisedDetail { get; init; }

    /// <summary>The offset from which those who read the past need the log and a checkpoint below.</summary>
    public required Func<long> HeldFrom { get; init; }

    /// <summary>Held while something is deleted, from the look at <see cref="HeldFrom"/> on: a checkpoint may be taken beside the control
    /// task, and a reader may find what he is about to hold.</summary>
    public required Lock Keeping { get; init; }

    /// <summary>What a restore would have to replay on top of the newest checkpoint. Any thread.</summary>
    public long TailBytes => _log.EndOffset - (Newest?.Offset ?? _log.StartOffset);

    /// <summary>The newest checkpoint; null: there is none. Any thread.</summary>
    public Checkpoint? Newest => _store.All is [.., var newest] ? newest : null;

    /// <summary>Where in the log the recorded cut is; null: below what the log holds. Any thread.</summary>
    public long? CutOffset => _log.BoundaryAtOrBelow(RecordedCut().Version)?.Offset;

    /// <summary>Whether a checkpoint is due. Replaying the log takes longer than loading what it left, so a checkpoint also comes early
    /// when the tail is no longer small beside the newest one, unless that would be too often.</summary>
    public bool IsDue
    {
        get
        {
            long tail = TailBytes;
            long now = ShardClock.MonotonicUs();
            if (now < _nextUs) { return false; }
            if (tail >= _options.CheckpointEveryBytes) { return true; }
            // None that a store could begin from, whatever has become of them.
            if (_store.Latest(_log, _log.EndOffset) is null) { return true; }
            return tail >= Math.Max(SmallTailBytes, (Newest?.Bytes ?? 0) / SmallTailShare) && now >= _nextEarlyUs;
        }
    }

    /// <summary>Checkpoints stay usable however many lines the log passes through: now and then, and when a life begins. What the disk
    /// refuses is tried again.</summary>
    public void CarryForward()
    {
        try
        {
            _store.CarryForward(_log);
        }
        catch (Exception e) when (e is LogIOException { IsFatal: false } or IOException)
        {
            _report.Warn($"shard {_options.Shard}: it cannot be noted which checkpoints are usable, and it is tried again: {e.Message}");
        }
    }

    /// <summary>Takes a checkpoint and trims the log. False: none could be taken, and the reason was reported.</summary>
    public async Task<bool> TakeAsync(CancellationToken stop)
    {
        // One at a time: that of the control task, and the one at the end.
        await _dumps.TurnAsync(stop).ConfigureAwait(false);
        long began = ShardClock.MonotonicUs();
        bool taken = false;
        try
        {
            try
            {
                taken = await FetchAsync(stop).ConfigureAwait(false);
            }
            catch (Exception e) when (e is LogIOException { IsFatal: false } or IOException)
            {
                _report.Warn($"shard {_options.Shard}: no checkpoint could be kept, so the log grows until one can: {e.Message}");
            }
            // Behind the older ones, too.
            Trim();
            return taken;
        }
        catch (Exception e) when (e is LogIOException { IsFatal: false } or IOException)
        {
            _report.Warn($"shard {_options.Shard}: log that is not needed cannot be deleted, and it is tried again: {e.Message}");
            return taken;
        }
        finally
        {
            long now = ShardClock.MonotonicUs();
            if (!taken) { _nextUs = now + EarlyPauseUs; }
            _nextEarlyUs = now + Math.Max(EarlyPauseUs, (now - began) * EarlyShare);
            _dumps.EndTurn();
        }
    }

    /// <summary>Takes one at the end if there is much to replay: the next start is worth some seconds now.</summary>
    public async Task TakeAtEndAsync()
    {
        if (TailBytes < SmallTailBytes) { return; }
        using var limit = new CancellationTokenSource(EndLimit);
        try
        {
            await TakeAsync(limit.Token).ConfigureAwait(false);
        }
        catch (Exception e) when (e is RedisException or LogException or IOException or OperationCanceledException)
        {
            _report.Warn($"shard {_options.Shard}: no checkpoint could be taken at the end: {e.Message}");
        }
    }

    /// <summary>Keeps a file as a checkpoint.</summary>
    /// <param name="file">The dump; it is moved.</param>
    /// <param name="origin">Where the stretch of the log began that goes on from it.</param>
    /// <param name="replicationId">The identity of the stream that it was taken in.</param>
    /// <param name="offset">Where the stream goes on.</param>
    /// <param name="reign">The reign in which it was begun.</param>
    /// <param name="line">The world-line of the state.</param>
    /// <param name="database">The database that is selected in the stream there.</param>
    public void Add(string file, StreamOrigin origin, string replicationId, long offset, Reign reign, WorldLine line,
        int database = 0) =>
        _store.Add(file, new Checkpoint
        {
            Origin = origin,
            ReplicationId = replicationId,
            Offset = offset,
            Database = database,
            WorldLine = line.Number,
            Reign = reign.Number,
            CreatedAt = DateTimeOffset.UtcNow,
        });

    private async Task<bool> FetchAsync(CancellationToken stop)
    {
        string file = _dumps.NewFile();
        try
        {
            return await FetchAsync(file, stop).ConfigureAwait(false);
        }
        finally
        {
            // It was moved, if it is kept.
            DataDirectory.TryDelete(file);
        }
    }

    private async Task<bool> FetchAsync(string file, CancellationToken stop)
    {
        // Another one may begin meanwhile, and void what this is of.
        Reign reign = _log.Reign;
        CheckpointResult result = await _dumps.FetchAsync(
            file, stop, () => FailPoint.Pass(FailPoint.CheckpointTaken)).ConfigureAwait(false);
        switch (result)
        {
            case CheckpointResult.Fetched fetched when fetched.ReplicationId == _log.ReplicationId:
                WorldLine? served = Served();
                int database = served is null ? DatabaseAt(fetched.Offset) : 0;
                Add(file, _log.Origin, fetched.ReplicationId, fetched.Offset, reign, served ?? _log.WorldLine, database);
                _report.Info($"shard {_options.Shard}: checkpoint of {fetched.Bytes} bytes at offset {fetched.Offset}");
                return true;
            case CheckpointResult.Failed failed:
                _report.Warn($"shard {_options.Shard}: no checkpoint could be taken: {failed.Message}");
                return false;
            default:
                // Of another history: the store was lost meanwhile.
                return false;
        }
    }

    // Which database the log has selected at an offset: the checkpoint of a Redis that follows may lie inside a version.
    private int DatabaseAt(long offset)
    {
        if (LogPlaces.EndAtOrBelow(_log, offset) is not var (end, _)) { return 0; }
        var scanner = new StreamScanner(end.Offset, end.Database);
        using LogReader reader = _log.OpenReader(end.Offset, offset);
        var buffer = new byte[1 << 20];
        while (scanner.Offset < offset)
        {
            int count = reader.Read(buffer.AsSpan(0, (int)Math.Min(buffer.Length, offset - scanner.Offset)));
            if (count == 0) { break; }
            int position = 0;
            while (position < count) { scanner.Next(buffer.AsSpan(0, count), ref position); }
        }
        return scanner.Database;
    }

    /// <summary>Deletes raw log that was reduced, and is needed no more.</summary>
    /// <returns>The checkpoints between which the log is to be reduced next, in order; none: there is nothing to be reduced now.</returns>
    /// <exception cref="LogIOException">The disk refused.</exception>
    public IReadOnlyList<Checkpoint> KeepDetail()
    {
        lock (Keeping) { return KeepDetailLocked(); }
    }

    private IReadOnlyList<Checkpoint> KeepDetailLocked()
    {
        if (CutOffset is not { } cut || PromisedDetail() is not { } promised) { return []; }
        IReadOnlyList<Tile> tiles = _store.Tiles(_log);
        if (tiles.Count == 0) { return []; }
        var bounds = new RawBounds
        {
            Cut = cut, Held = HeldOffset(), Needed = NeededFrom(),
            Detail = PrunePlan.DetailFrom(_log.EndOffset, _options.LogBudgetBytes, _options.CheckpointEveryBytes, OffsetOf(promised)),
        };
        TilePlan plan = TilePlan.Of([.. tiles.Select(t => new TileBase(t.Base.Offset, t.Reduced is not null))], bounds, KeptAtCut);
        if (TrimLog(plan.RawFrom)) { FailPoint.Pass(FailPoint.ReducedTrimmed); }
        (IReadOnlyList<int> between, IReadOnlyList<int> idle) =
            plan.Next(i => i + 1 < tiles.Count && IsIdle(tiles[i].Base, tiles[i + 1].Base));
        foreach (int at in idle) { _store.Drop(tiles[at].Base); }
        return between.Count > 1 ? [.. between.Select(i => tiles[i].Base)] : [];
    }

    // Whether no version ends at the first or behind it, before the second.
    private bool IsIdle(Checkpoint first, Checkpoint second)
    {
        try
        {
            return LogPlaces.EndAtOrBelow(_log, second.Offset - 1) is { } last && last.End.Offset < first.Offset;
        }
        catch (LogCorruptException)
        {
            // Whoever reduces it says so.
            return false;
        }
    }

    // Behind the recorded cut two checkpoints are kept, and of the log what is promised, as long as the budget allows.
    private void Trim()
    {
        lock (Keeping) { TrimLocked(); }
    }

    private void TrimLocked()
    {
        if (CutOffset is not { } cut) { return; }
        long every = _options.CheckpointEveryBytes, budget = _options.LogBudgetBytes;
        long byBudget = BudgetOffset(budget - every);
        long byAge = Promised() is { } promised ? OffsetOf(promised) : 0;
        long below = PrunePlan.Below(cut, HeldOffset(), byBudget, byAge);
        bool isShort = _options.Retention > TimeSpan.Zero && byBudget > byAge;
        if (isShort && !_isShort)
        {
            _report.Warn($"shard {_options.Shard}: of the past less is kept than --retention "
                + $"{OptionText.FormatDuration(_options.Retention)} promises, since the log reaches --log-budget "
                + $"{OptionText.FormatSize(budget)} before: raise that");
        }
        _isShort = isShort;
        if (_store.Prune(_log, KeptAtCut, below, every) is { } oldest) { TrimLog(Math.Min(oldest, NeededFrom())); }
    }

    // Whether something was deleted.
    private bool TrimLog(long needed)
    {
        lock (_logLock)
        {
            long before = _log.StartOffset;
            if (needed > before) { _log.TrimBefore(needed); }
            return _log.StartOffset > before;
        }
    }

    private long HeldOffset() => PrunePlan.HeldFrom(HeldFrom(), _log.EndOffset - _log.StartOffset, _options.LogBudgetBytes);

    private long BudgetOffset(long room)
    {
        long start = _log.StartOffset, end = _log.EndOffset;
        IReadOnlyList<TileSize> tiles = end - room > start ? []
            : [.. _store.Tiles(_log).Select(t => new TileSize(t.Base.Offset, t.ReducedBytes + t.Base.Bytes))];
        return PrunePlan.BudgetFrom(start, end, room, tiles);
    }

    private string? _unreadable;    // what was said of that last

    // Where a version ends, or the checkpoint below it where the log is reduced; 0: that cannot be told.
    private long OffsetOf(VersionNumber version)
    {
        try
        {
            if (_log.BoundaryAtOrBelow(version) is { } end) { return end.Offset; }
            Tile below = _store.Tiles(_log).LastOrDefault(t => t.Reduced?.First <= version);
            return below.Base?.Offset ?? 0;
        }
        catch (LogCorruptException e)
        {
            if (e.Message != _unreadable)
            {
                _report.Warn($"shard {_options.Shard}: nothing is deleted for its age, since the log cannot be read there: {e.Message}");
            }
            _unreadable = e.Message;
            return 0;
        }
    }
}
