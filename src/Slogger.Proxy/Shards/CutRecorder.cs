// Performs what ClaimRecorder (Core) decides: has what is durable here recorded, and learns the cluster's cut and world-line from it. While
// SQL is down operations go on, and nothing is reported as committed.
using Slogger.Core.Cuts;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Coordination;

namespace Slogger.Proxy.Shards;

/// <summary>Who is told what the metadata says. The recorder's task calls.</summary>
internal interface ICutListener
{
    /// <summary>Whether a client of this shard waits for a commit.</summary>
    bool IsCommitAwaited { get; }

    /// <summary>Up to which version clients of this shard have waited for commits.</summary>
    VersionNumber AwaitedVersion { get; }

    /// <summary>Whether an ordered end is under way: what is durable has to be in SQL then.</summary>
    bool IsStopping { get; }

    /// <summary>Whether this shard has yet to join its cluster: then each claim goes to SQL, and nobody hears of it otherwise.</summary>
    bool IsJoining { get; }

    /// <summary>Asks the metadata to admit this shard, with the newest claim that it has.</summary>
    /// <param name="recorded">The point that was just recorded.</param>
    /// <param name="cut">The recorded cut at that moment.</param>
    /// <param name="stop">Ends it.</param>
    /// <returns>The claim that the metadata holds, or may hold, by now; null: it holds no other than before.</returns>
    Task<DurableClaim?> AskToJoinAsync(WorldPoint recorded, WorldPoint cut, CancellationToken stop);

    /// <summary>What versions up to a point depend on; null if the finder does not ask.</summary>
    /// <param name="through">The point.</param>
    /// <param name="startsOver">Whether nobody knows what was given out before.</param>
    PrecedenceRow? RowFor(WorldPoint through, bool startsOver);

    /// <summary>How much of a claim goes into one row of the exact finder.</summary>
    DurableClaim StepOf(in DurableClaim claim);

    /// <summary>A claim was recorded, or not.</summary>
    /// <param name="point">Its point.</param>
    /// <param name="result">Null if SQL could not be reached.</param>
    void OnRecorded(WorldPoint point, DurableResult? result);

    /// <summary>A claim is on its way to the coordinator: the cut will tell that it has come.</summary>
    void OnSaid(WorldPoint point);

    /// <summary>The recorded cut, and the current world-line.</summary>
    void OnCut(ClusterCut cut);

    /// <summary>Nothing can be recorded any more.</summary>
    void OnMetadataFailed(ProxyExit exit);
}

/// <summary>The recorder of a shard.</summary>
/// <param name="seat">The shard's place in the metadata.</param>
/// <param name="report">Is told when SQL goes and comes.</param>
/// <param name="listener">Is told what the metadata says.</param>
/// <param name="link">To the coordinator; null for a shard alone.</param>
/// <param name="time">The machine's clocks.</param>
internal sealed class CutRecorder(
    ClusterSeat seat, ILogger report, ICutListener listener, CoordinatorLink? link, TimeProvider time) : IDisposable
{
    private readonly ClaimRecorder _decides = new(new() { Finder = seat.Finder, HasPeers = link is not null, Pace = new(seat.ShardCount) });
    private readonly SemaphoreSlim _signal = new(0, 1);
    private readonly Lock _lock = new();
    private DurableClaim? _wanted;                              // under _lock
    private int _askedAgain;
    private (DurableClaim Claim, PrecedenceRow? Row) _recorded; // last
    private volatile bool _isAvailable = true;

    /// <summary>Whether SQL answered at the last attempt.</summary>
    public bool IsMetadataAvailable => _isAvailable;

    /// <summary>Has a claim recorded. Any thread.</summary>
    public void Record(in DurableClaim claim)
    {
        lock (_lock) { _wanted = claim; }
        Wake();
    }

    /// <summary>Somebody begins to wait for a commit. Any thread.</summary>
    public void Wake()
    {
        try
        {
            _signal.Release();
        }
        catch (SemaphoreFullException)
        {
            // Already awake.
        }
    }

    /// <summary>The coordinator is another, or has forgotten all. Any thread.</summary>
    public void AskedAgain()
    {
        Volatile.Write(ref _askedAgain, 1);
        Wake();
    }

    /// <summary>Records and asks until stopped.</summary>
    public async Task RunAsync(CancellationToken stop)
    {
        try
        {
            while (true)
            {
                DurableClaim? wanted;
                lock (_lock) { (wanted, _wanted) = (_wanted, null); }
                if (wanted is { } claim) { _decides.Want(claim); }
                if (Interlocked.Exchange(ref _askedAgain, 0) != 0) { _decides.AskedAgain(); }
                await PerformAsync(_decides.Next(View, NowUs()), stop).ConfigureAwait(false);
            }
        }
        catch (OperationCanceledException)
        {
            // Stopped.
        }
        catch (MetadataException e)
        {
            listener.OnMetadataFailed(ProxyExit.Failed($"the metadata failed: {e.Message}", ""));
        }
    }

    private RecorderView View =>
        new(link is { IsConnected: true }, listener.IsStopping, listener.IsJoining, listener.IsCommitAwaited, listener.AwaitedVersion,
            seat.Grid);

    private long NowUs() => (long)time.GetElapsedTime(0).TotalMicroseconds;

    private async Task PerformAsync(RecorderStep step, CancellationToken stop)
    {
        switch (step.Kind)
        {
            case RecorderStepKind.Rest:
                await _signal.WaitAsync(Wait(step.WaitUs), stop).ConfigureAwait(false);
                break;
            case RecorderStepKind.Record:
                await RecordAsync(step, stop).ConfigureAwait(false);
                break;
            case RecorderStepKind.Say:
                Say(step);
                break;
            case RecorderStepKind.TellSaid:
                listener.OnSaid(step.Claim.Point);
                break;
            case RecorderStepKind.TellFailed:
                listener.OnRecorded(step.Claim.Point, null);
                break;
            case RecorderStepKind.Hurry:
                bool isHeard = step.ByCoordinator ? link!.SayWaits(step.Until)
                    : await TryAsync(() => NoteAsync(step.Until, stop)).ConfigureAwait(false) is not null;
                _decides.Hurried(step.Until, isHeard);
                break;
            default:
                if (await TryAsync(() => seat.Metadata.AdvanceCutAsync(seat.Cluster, stop)).ConfigureAwait(false) is { } cut)
                {
                    listener.OnCut(cut);
                }
                _decides.Looked(NowUs());
                break;
        }
    }

    // In whole milliseconds, since timers know no others.
    private static TimeSpan Wait(long us) => us < 0 ? Timeout.InfiniteTimeSpan : TimeSpan.FromMilliseconds(Math.Ceiling(us / 1000.0));

    private async Task RecordAsync(RecorderStep step, CancellationToken stop)
    {
        await seat.Taken.WaitAsync(stop).ConfigureAwait(false);
        DurableClaim claim = step.IsPart ? listener.StepOf(step.Claim) : step.Claim;
        PrecedenceRow? row = listener.RowFor(claim.Point, step.StartsOver);
        _recorded = (claim, row);
        if (step.WaitUs > 0) { await Task.Delay(TimeSpan.FromMicroseconds(step.WaitUs), time, stop).ConfigureAwait(false); }
        DurableResult? result = await TryAsync(() => seat.Finder.RecordsRows && row is not null
            ? seat.Metadata.RecordDurableRowAsync(seat.Cluster, claim, row.Value, seat.Epoch, stop)
            : seat.Metadata.RecordDurableAsync(seat.Cluster, seat.Shard, claim, seat.Epoch, stop)).ConfigureAwait(false);
        bool? isRecorded = result is { } answered ? answered.Outcome == DurableOutcome.Recorded : null;
        _decides.Recorded(claim.Point, isRecorded, NowUs());
        listener.OnRecorded(claim.Point, result);
        if (isRecorded != true || !listener.IsJoining) { return; }
        if (await listener.AskToJoinAsync(claim.Point, result!.Value.Cut, stop).ConfigureAwait(false) is { } asked)
        {
            _decides.AskedToJoin(asked);
        }
    }

    private void Say(RecorderStep step)
    {
        (DurableClaim claim, PrecedenceRow? row) = step.HasRow ? _recorded
            : (step.Claim, listener.RowFor(step.Claim.Point, step.StartsOver));
        bool isSaid = link!.Say(claim, row?.After ?? claim.Point.Version, row?.Dependencies ?? DependencySet.Empty);
        if (!step.IsOwed) { return; }
        if (isSaid) { listener.OnSaid(claim.Point); }
        else { listener.OnRecorded(claim.Point, null); }
    }

    private async Task<bool> NoteAsync(VersionNumber until, CancellationToken stop)
    {
        await seat.Metadata.AwaitCommitAsync(seat.Cluster, until, stop).ConfigureAwait(false);
        return true;
    }

    private async Task<T?> TryAsync<T>(Func<Task<T>> call)
        where T : struct
    {
        try
        {
            T result = await call().ConfigureAwait(false);
            if (!_isAvailable) { report.Info("the metadata is back: commits are reported again"); }
            _isAvailable = true;
            return result;
        }
        catch (MetadataUnavailableException e)
        {
            if (_isAvailable)
            {
                report.Warn($"the metadata cannot be reached: operations go on, commits are reported when it is back ({e.Message})");
            }
            _isAvailable = false;
            return null;
        }
    }

    public void Dispose() => _signal.Dispose();
}
