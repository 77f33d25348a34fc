// The past of a shard with an embedded store, as it lies in a log and the checkpoints of that: a primary's in the history beside the store
// (FasterPast), that of a store that follows in the stream (FollowedPast).
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Past;
using Slogger.Proxy.Stores;

namespace Slogger.Proxy.Shards;

/// <summary>What is in a log, and who reads it. The control task, if nothing else is said.</summary>
internal sealed class EmbeddedPast
{
    private readonly VersionLog _log;
    private readonly ILogger _report;
    private readonly string _name;
    private readonly PastInstants _instants;
    private readonly KeyIndexes _keyIndexes;
    private readonly PastReducer? _reducer;
    private readonly CancellationTokenSource _ending = new();
    private Task _taking = Task.CompletedTask;
    private Task? _ended;

    /// <summary>Of an open log.</summary>
    /// <param name="shard">The shard.</param>
    /// <param name="options">Its options.</param>
    /// <param name="report">For people.</param>
    /// <param name="log">The log.</param>
    /// <param name="checkpoints">Its checkpoints.</param>
    /// <param name="copies">What more of them are taken from.</param>
    /// <param name="keeping">Held by whoever deletes of the log and of them.</param>
    /// <param name="follows">Whether the store follows: what its log is reduced to is another's business.</param>
    /// <param name="reset">Sets the store back.</param>
    public EmbeddedPast(VersionedShard shard, ServeOptions options, ILogger report, VersionLog log, CheckpointStore checkpoints,
        ICheckpointSource copies, Lock keeping, bool follows, IPastReset reset)
    {
        (_log, _report, _name) = (log, report, $"shard {options.Shard}");
        _instants = new(log, checkpoints, options)
        {
            Committed = () => Committed!(),
            Grid = () => Grid!(),
            Follows = () => follows && shard.IsFollowing,
            NowUs = () => shard.Now().Microseconds,
            Await = shard.AwaitCommitOf,
            Owners = new(options.Shard, () => shard.Moves.Watch, () => shard.Seat.Partitions),
            Keeping = keeping,
        };
        _keyIndexes = new(log, report, _name);
        // The store has no users: whoever reaches it may read it.
        Reads = new(options, log, checkpoints, _instants, _keyIndexes)
        {
            Live = () => null, Reset = reset, LineOf = shard.Recovery.LineOf, HasLost = follows,
        };
        Checkpointer = new(options, report, log, new Lock(), checkpoints, copies)
        {
            RecordedCut = () => MayDelete!() ? Committed!() : default,
            Keeping = keeping,
            Served = () => follows ? null : log.WorldLine,
            NeededFrom = () => NeededFrom!(),
            Promised = () => _instants.Promised,
            PromisedDetail = () => _instants.PromisedDetail,
            HeldFrom = () => Math.Min(_instants.HeldFrom, Reads.HeldFrom),
        };
        if (options.RetentionDetail > TimeSpan.Zero && !follows)
        {
            _reducer = new(log, checkpoints, () => _instants.VersionsOfStep, report, _name);
        }
    }

    /// <summary>The recorded cut, as far as the log has it.</summary>
    public required Func<WorldPoint> Committed { get; init; }

    /// <summary>By which its versions went; null: that is not known yet.</summary>
    public required Func<VersionGrid?> Grid { get; init; }

    /// <summary>Whether anything may be deleted now.</summary>
    public required Func<bool> MayDelete { get; init; }

    /// <summary>The offset from which the store itself needs the log.</summary>
    public required Func<long> NeededFrom { get; init; }

    /// <summary>Reads it. Any thread.</summary>
    public ShardPast Reads { get; }

    /// <summary>Its checkpoints.</summary>
    public Checkpointer Checkpointer { get; }

    /// <summary>What is to be done now and then.</summary>
    public void Keep()
    {
        Reads.Keep();
        _keyIndexes.Keep();
        // One that is being kept is synced under the checkpoints' lock, and this task has more to do than to wait.
        if (!_taking.IsCompleted) { return; }
        Checkpointer.CarryForward();
        _instants.Keep();
        try
        {
            _reducer?.Keep(Checkpointer.KeepDetail);
        }
        catch (LogException e)
        {
            // The store goes on without it.
            _report.Warn($"{_name}: the past cannot be reduced: {e.Message}");
        }
    }

    /// <summary>Takes a checkpoint beside all else, if one is due. One caller at a time.</summary>
    public void TakeIfDue()
    {
        if (_log.IsEmpty || !_taking.IsCompleted || !Checkpointer.IsDue) { return; }
        lock (_ending)
        {
            if (_ended is null) { _taking = Task.Run(() => TakeAsync(_ending.Token), CancellationToken.None); }
        }
    }

    private async Task TakeAsync(CancellationToken stop)
    {
        try
        {
            if (await Checkpointer.TakeAsync(stop).ConfigureAwait(false)) { FailPoint.Pass(FailPoint.CheckpointKept); }
        }
        catch (Exception e) when (e is OperationCanceledException or LogHistoryChangedException)
        {
            // The end; or another is taken.
        }
        catch (Exception e)
        {
            _report.Warn($"{_name}: no checkpoint of the past could be taken: {e.Message}");
        }
    }

    /// <summary>What DPR.INFO tells. Any thread.</summary>
    public IEnumerable<(string Name, long Value)> Status()
    {
        Checkpoint? newest = Checkpointer.Newest;
        yield return ("log_bytes", _log.SizeBytes);
        yield return ("log_tail_bytes", Checkpointer.TailBytes);
        yield return ("checkpoint_last_unix", newest?.CreatedAt.ToUnixTimeSeconds() ?? 0);
        yield return ("checkpoint_last_bytes", newest?.Bytes ?? 0);
        foreach ((string, long) line in _instants.Status()) { yield return line; }
    }

    /// <summary>Nobody reads it any more, and no checkpoint is taken. The log stays open. Any thread.</summary>
    public Task EndAsync()
    {
        lock (_ending) { return _ended ??= Task.Run(EndOnceAsync); }
    }

    private async Task EndOnceAsync()
    {
        await _ending.CancelAsync().ConfigureAwait(false);
        await Reads.EndAsync().ConfigureAwait(false);
        await _taking.ConfigureAwait(false);
        _keyIndexes.Dispose();
        _reducer?.Dispose();
    }
}
