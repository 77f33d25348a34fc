// The past of a shard with an embedded store (--retention): its history (EmbeddedHistory), the checkpoints of that, and who reads it. A
// task of its own follows the recorded cut; nobody who writes waits for it. The store keeps its commits for it, as long as it has room.
using System.Globalization;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster;
using Slogger.FrontEnd;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Embedded;
using Slogger.Proxy.Past;
using Slogger.Redis.Connections;
using Slogger.Redis.Replication;

namespace Slogger.Proxy.Shards;

/// <summary>What the past needs of its shard. Any thread.</summary>
internal interface IFasterPastHost
{
    /// <summary>The store, if it is open. It does not end before the past does.</summary>
    FasterStore? Store { get; }

    /// <summary>What its commits stand for.</summary>
    CommitHistory States { get; }

    /// <summary>The last version of an older world-line that is still part of the current one.</summary>
    VersionNumber LastValid(WorldLine line);

    /// <summary>When a version ends.</summary>
    HybridTimestamp EndOf(VersionNumber version);

    /// <summary>By which its versions went, and those of the primary's that it has followed.</summary>
    VersionGrid Grid { get; }

    /// <summary>Sets the store back.</summary>
    IPastReset Reset { get; }
}

/// <summary>An open past. The control task, if nothing else is said.</summary>
internal sealed class FasterPast : ICheckpointSource
{
    /// <summary>Its directory, in the data directory.</summary>
    public const string Folder = "history";

    private static readonly TimeSpan s_period = TimeSpan.FromMilliseconds(100), s_pause = TimeSpan.FromSeconds(5);

    // So long, and so many, commits are kept for the history, or for a checkpoint of it: they keep memory from being given back. More than
    // the store itself has while the metadata is away: the history is to catch up with all of them then.
    private static readonly TimeSpan s_heldMax = TimeSpan.FromSeconds(30), s_heldPressedMax = TimeSpan.FromSeconds(4);
    private const int HeldMax = 2 * FasterShard.CommitsMax;

    private readonly VersionedShard _shard;
    private readonly IFasterPastHost _host;
    private readonly ILogger _report;
    private readonly string _name;
    private readonly VersionLog _log;
    private readonly CheckpointStore _checkpoints;
    private readonly EmbeddedHistory _history;
    private readonly EmbeddedPast _past;
    private readonly SemaphoreSlim _work = new(0, 1);
    private readonly CancellationTokenSource _ending = new();
    private Task _following = Task.CompletedTask;
    private Task? _ended;
    private readonly HistoryLag _lag = new();   // the keeper's
    private string? _told;
    private long _failedMs;
    private volatile bool _hasFailed;

    private FasterPast(VersionedShard shard, IFasterPastHost host, ServeOptions options, ILogger report, VersionLog log,
        CheckpointStore checkpoints)
    {
        (_shard, _host, _report, _log, _checkpoints) = (shard, host, report, log, checkpoints);
        _name = $"shard {options.Shard}";
        Lock keeping = new();
        _history = new(log, checkpoints, keeping, host.EndOf);
        _past = new(shard, options, report, log, checkpoints, this, keeping, follows: false, host.Reset)
        {
            Committed = () => Committed,
            Grid = () => host.Grid,
            MayDelete = () => _history.KnowsEnd,
            NeededFrom = () => long.MaxValue,
        };
    }

    /// <summary>Opens what is kept in a data directory, or begins it.</summary>
    /// <exception cref="LogException">It cannot be used.</exception>
    public static FasterPast Open(VersionedShard shard, IFasterPastHost host, ServeOptions options, ILogger report)
    {
        string directory = Path.Combine(options.DataDirectory, Folder);
        VersionLog log = VersionLog.Open(new VersionLogOptions
        {
            Directory = Path.Combine(directory, FollowedStream.LogName),
            Shard = options.Shard,
            Epoch = shard.Seat.Epoch,
            SegmentBytes = options.LogSegmentBytes,
        });
        try
        {
            CheckpointStore checkpoints = CheckpointStore.Open(Path.Combine(directory, FollowedStream.CheckpointsName));
            foreach (string damage in checkpoints.Damaged)
            {
                report.Warn($"shard {options.Shard}: a part of the past, and what lies before it, cannot be read: {damage}");
            }
            return new(shard, host, options, report, log, checkpoints);
        }
        catch
        {
            log.Dispose();
            throw;
        }
    }

    /// <summary>Reads it.</summary>
    public ShardPast Reads => _past.Reads;

    /// <summary>It cannot be written any more, and a while has passed: it is to be opened again.</summary>
    public bool IsToBeOpened => _hasFailed && Environment.TickCount64 - Volatile.Read(ref _failedMs) > s_pause.TotalMilliseconds;

    /// <summary>The oldest commit that the store has to keep. The keeper of commits alone.</summary>
    /// <param name="store">The store.</param>
    /// <param name="oldest">The oldest one that it needs itself.</param>
    /// <param name="older">How many older ones there are.</param>
    public WorldPoint OldestKept(FasterStore store, WorldPoint oldest, int older)
    {
        WorldPoint needed = _history.Needed;
        long behindMs = _lag.Ms(needed, oldest, Environment.TickCount64);
        if (needed >= oldest) { return oldest; }
        TimeSpan most = store.IsPressed ? s_heldPressedMax : s_heldMax;
        return _hasFailed || store.IsOutOfMemory || older > HeldMax || behindMs > most.TotalMilliseconds ? oldest : needed;
    }

    /// <summary>Begins to follow.</summary>
    public void Start() => _following = Task.Run(FollowAsync);

    /// <summary>A cut was recorded. Any thread.</summary>
    public void Wake()
    {
        try
        {
            _work.Release();
        }
        catch (SemaphoreFullException)
        {
            // Already awake.
        }
    }

    /// <inheritdoc cref="EmbeddedHistory.BreakOff"/>
    /// <remarks>Not while it follows.</remarks>
    public void BreakOff() => _history.BreakOff();

    /// <summary>What is to be done now and then.</summary>
    public void Keep()
    {
        if (!_hasFailed) { _past.Keep(); }
    }

    /// <inheritdoc cref="EmbeddedPast.Status"/>
    public IEnumerable<(string Name, long Value)> Status() => _past.Status();

    /// <summary>Ends it: nobody looks at the store any more. Any thread.</summary>
    public Task EndAsync()
    {
        lock (_ending) { return _ended ??= Task.Run(EndOnceAsync); }
    }

    private async Task EndOnceAsync()
    {
        await _ending.CancelAsync().ConfigureAwait(false);
        await _following.ConfigureAwait(false);
        try
        {
            await _past.EndAsync().ConfigureAwait(false);
        }
        finally
        {
            // Whatever becomes of readers: it is to be opened again.
            _log.Dispose();
        }
    }

    // What the history does not have yet is no instant.
    private WorldPoint Committed
    {
        get
        {
            WorldPoint cut = _shard.RecordedCut;
            return new(cut.WorldLine, _log.IsEmpty ? VersionNumber.Zero : VersionNumber.Min(cut.Version, _log.DurableClosed.Closed));
        }
    }

    // ---- Following: a task of its own ----

    private async Task FollowAsync()
    {
        CancellationToken stop = _ending.Token;
        while (!stop.IsCancellationRequested)
        {
            try
            {
                await _work.WaitAsync(s_period, stop).ConfigureAwait(false);
                Follow(stop);
                _told = null;
            }
            catch (OperationCanceledException)
            {
                return;
            }
            catch (Exception e) when (e is not LogException and (InvalidOperationException or IOException or UnauthorizedAccessException)
                || e is LogIOException { IsFatal: false })
            {
                Tell($"the past is not kept on at the moment, and that is tried again: {e.Message}");
                await Task.Delay(s_pause, stop).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            }
            catch (Exception e)
            {
                Tell($"the past is not kept on until its log is opened again: {e.Message}");
                Volatile.Write(ref _failedMs, Environment.TickCount64);
                _hasFailed = true;
                return;
            }
        }
    }

    private void Follow(CancellationToken stop)
    {
        WorldPoint cut = _shard.RecordedCut;
        if (_host.Store is not { } store || cut.Version == VersionNumber.Zero) { return; }
        IReadOnlyList<KeptState> states = _host.States.InHistory(cut.WorldLine, _host.LastValid, cut.Version);
        if (_history.Follow(store, states, cut, stop) is { } begun) { Tell(begun); }
        _past.TakeIfDue();
    }

    private void Tell(in BegunStretch begun)
    {
        string what = string.Create(CultureInfo.InvariantCulture, $"version {begun.First}: {begun.Keys} keys, {begun.Bytes} bytes");
        if (begun.Before is { } before)
        {
            _report.Warn($"{_name}: the past has a gap: what was done behind version {before} was not kept, and it goes on at {what}");
        }
        else { _report.Info($"{_name}: the past begins at {what}"); }
    }

    private void Tell(string text)
    {
        if (text != _told) { _report.Warn($"{_name}: {text}"); }
        _told = text;
    }

    // ---- Checkpoints ----

    Task ICheckpointSource.TurnAsync(CancellationToken stop) => Task.CompletedTask;

    void ICheckpointSource.EndTurn()
    {
    }

    string ICheckpointSource.NewFile() => _checkpoints.NewTemporaryPath();

    Task<CheckpointResult> ICheckpointSource.FetchAsync(string file, CancellationToken stop, Action? taken)
    {
        CheckpointResult result;
        try
        {
            result = _host.Store is { } store && _history.Copy(store, file, taken, stop) is var (offset, bytes)
                ? new CheckpointResult.Fetched(_log.ReplicationId, offset, bytes)
                : new CheckpointResult.Failed(RedisProblem.HistoryGone, "a new stretch of the past is about to begin");
        }
        catch (InvalidOperationException e)
        {
            result = new CheckpointResult.Failed(RedisProblem.HistoryGone, $"the store needs the memory: {e.Message}");
        }
        return Task.FromResult(result);
    }
}

/// <summary>For how long the history has been behind. One caller at a time.</summary>
internal sealed class HistoryLag
{
    private const int NotesMax = 4096;
    private readonly Queue<(WorldPoint Oldest, long Ms)> _notes = new();
    private WorldPoint _noted;

    /// <summary>Since when the history has lacked the oldest of what it lacks now: not since its last step, as one that is slower than the
    /// store never stands still.</summary>
    /// <param name="needed">The oldest commit that the history needs.</param>
    /// <param name="oldest">The oldest one that the store needs itself: what it needs no more the history is to have.</param>
    /// <param name="nowMs">The time.</param>
    /// <returns>In milliseconds; 0: it lacks nothing.</returns>
    public long Ms(WorldPoint needed, WorldPoint oldest, long nowMs)
    {
        // One that stands still for hours is behind for long enough anyway.
        if (oldest != _noted && _notes.Count < NotesMax) { _notes.Enqueue((_noted = oldest, nowMs)); }
        while (_notes.TryPeek(out var had) && had.Oldest <= needed) { _notes.Dequeue(); }
        return _notes.TryPeek(out var lacks) ? nowMs - lacks.Ms : 0;
    }
}
