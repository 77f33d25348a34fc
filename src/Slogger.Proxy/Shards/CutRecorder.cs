// Has what is durable here recorded, one claim at a time (of several that wait only the newest is), and learns the
// cluster's cut and world-line from it. While SQL is down operations go on and nothing is reported as committed.
//
// A shard alone records in SQL. One among others says it to the coordinator of cuts, which answers when a cut is recorded, and
// records it in SQL besides, now and then: for a coordinator that starts, and for a world-line's branch. While there is no
// coordinator to be spoken with it records and asks in SQL: often while somebody here waits for a commit, now and then otherwise.
// Whoever waits has the others hurry, by a note that they find when they ask. With the exact finder each claim goes to SQL first, with what its
// versions depend on.
using System.Diagnostics;
using Slogger.Core.Cuts;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Coordination;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Proxy.Shards;

/// <summary>Who is told what the metadata says. The recorder's task calls.</summary>
internal interface ICutListener
{
    /// <summary>Whether a client of this shard waits for a commit.</summary>
    bool IsCommitAwaited { get; }

    /// <summary>Up to which version clients of this shard have waited for commits.</summary>
    Version AwaitedVersion { get; }

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

    /// <summary>The version that is open here.</summary>
    Version OpenVersion { get; }

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
internal sealed class CutRecorder(ClusterSeat seat, ILogger report, ICutListener listener, CoordinatorLink? link) : IDisposable
{
    /// <summary>How often the shard's claim is recorded while nobody waits for a commit, in microseconds.</summary>
    public const long IntervalMicroseconds = 50_000;

    private CutPace Pace => new(seat.ShardCount);

    // What was said to a coordinator is in SQL at the latest after this time.
    private static readonly TimeSpan SaidPeriod = TimeSpan.FromSeconds(1);

    private long _hurryUs;
    private readonly SemaphoreSlim _signal = new(0, 1);
    private readonly Lock _lock = new();
    private DurableClaim? _wanted;
    private DurableClaim? _latest;
    private WorldPoint _askedWith;
    private Version _hurriedUntil;
    private long _recordedAt, _lookedAt;
    private bool _owesSql;
    private bool _owesSteps;
    private bool _owesRow;
    private int _askedAgain;

    private volatile bool _isAvailable = true;

    /// <summary>Whether SQL answered at the last attempt.</summary>
    public bool IsMetadataAvailable => _isAvailable;

    private bool IsLinked => link is { IsConnected: true } && !listener.IsStopping && !listener.IsJoining;

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
                await _signal.WaitAsync(_owesSteps ? TimeSpan.FromMilliseconds(1) : Pause, stop).ConfigureAwait(false);
                await TurnAsync(stop).ConfigureAwait(false);
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

    // In whole milliseconds, since timers know no others.
    private TimeSpan Pause => link is null ? Timeout.InfiniteTimeSpan
        : TimeSpan.FromMilliseconds(Math.Ceiling((IsLinked ? Math.Max(IntervalMicroseconds, Pace.LookUs) : Pace.UntilLookUs(SinceLookUs, listener.IsCommitAwaited ? 0 : IntervalMicroseconds)) / 1000.0));

    private long SinceLookUs => (long)Stopwatch.GetElapsedTime(_lookedAt).TotalMicroseconds;

    private async Task TurnAsync(CancellationToken stop)
    {
        DurableClaim? claim;
        lock (_lock) { (claim, _wanted) = (_wanted, null); }
        // The shard has asked to be admitted with a newer claim. The metadata may hold that one, and then refuses an older one.
        if (claim is { } older && older.Point < _askedWith)
        {
            listener.OnSaid(older.Point);
            claim = null;
        }
        bool isLinked = IsLinked;
        bool startsOver = isLinked && Interlocked.Exchange(ref _askedAgain, 0) != 0;
        bool isNews = claim is not null;
        _latest = claim ?? _latest;
        bool isLate = isLinked ? _owesSql && Stopwatch.GetElapsedTime(_recordedAt) >= SaidPeriod : _owesSql;
        bool isExact = seat.Finder == FinderKind.Exact && link is not null;
        if (isExact && _latest is { } all && (isNews || _owesSteps || isLate))
        {
            await StepAsync(all, isNews, isLinked, stop).ConfigureAwait(false);
        }
        else if (_latest is { } durable && (isNews || startsOver || isLate))
        {
            PrecedenceRow? row = listener.RowFor(durable.Point, startsOver && seat.Finder == FinderKind.Hybrid);
            bool isRecorded = true;
            bool needsSql = !isLinked || isLate;
            if (needsSql) { isRecorded = await RecordAsync(durable, row, stop).ConfigureAwait(false); }
            else { _owesSql |= isNews; }
            if (isLinked && isRecorded) { Say(durable, row, isNews && !needsSql); }
        }
        if (link is null) { return; }
        await HurryAsync(isLinked, stop).ConfigureAwait(false);
        if (isLinked || (Pace.IsCrowded && Pace.UntilLookUs(SinceLookUs) > 0)) { return; }
        if (await TryAsync(() => seat.Metadata.AdvanceCutAsync(seat.Cluster, stop)).ConfigureAwait(false) is { } cut) { listener.OnCut(cut); }
        _lookedAt = Stopwatch.GetTimestamp();
    }

    // The exact finder's rows: as far at a time as StepOf says, the rest in the next turns; at an ordered end all at once.
    private async Task StepAsync(DurableClaim all, bool isNews, bool isLinked, CancellationToken stop)
    {
        DurableClaim step = listener.IsStopping ? all : listener.StepOf(all);
        // A row that SQL may not have is given out again, with what has come since: rows must follow each other without a hole.
        PrecedenceRow? row = listener.RowFor(step.Point, startsOver: _owesRow);
        bool isRecorded = await RecordAsync(step, row, stop).ConfigureAwait(false);
        _owesRow = !isRecorded;
        _owesSteps = isRecorded && step.Point != all.Point;
        // What is left of it follows, or is in the next claim.
        if (isRecorded && _owesSteps && isNews) { listener.OnSaid(all.Point); }
        if (!isRecorded && step.Point != all.Point && isNews) { listener.OnRecorded(all.Point, null); }
        if (isLinked && isRecorded) { Say(step, row, isOwed: false); }
    }

    private async Task<bool> RecordAsync(DurableClaim durable, PrecedenceRow? row, CancellationToken stop)
    {
        bool isExact = seat.Finder == FinderKind.Exact && row is not null;
        TimeSpan rest = listener.IsStopping || listener.IsJoining ? TimeSpan.Zero : Micro(isExact ? Pace.RowUs : Pace.ClaimUs) - Stopwatch.GetElapsedTime(_recordedAt);
        if (rest > TimeSpan.Zero) { await Task.Delay(rest, stop).ConfigureAwait(false); }
        DurableResult? result = await TryAsync(() => isExact
            ? seat.Metadata.RecordDurableRowAsync(seat.Cluster, durable, row!.Value, seat.Epoch, stop)
            : seat.Metadata.RecordDurableAsync(seat.Cluster, seat.Shard, durable, seat.Epoch, stop)).ConfigureAwait(false);
        _recordedAt = Stopwatch.GetTimestamp();
        _owesSql = result is null;
        // Of a world-line that is over, it is owed to nobody.
        if (result is { Outcome: not DurableOutcome.Recorded }) { _latest = null; }
        listener.OnRecorded(durable.Point, result);
        if (listener.IsJoining && result is { Outcome: DurableOutcome.Recorded } recorded
            && await listener.AskToJoinAsync(durable.Point, recorded.Cut, stop).ConfigureAwait(false) is { } asked)
        {
            _latest = asked;
            _askedWith = asked.Point;
        }
        return result is { Outcome: DurableOutcome.Recorded };
    }

    private void Say(in DurableClaim durable, PrecedenceRow? row, bool isOwed)
    {
        bool isSaid = link!.Say(durable, row?.After ?? durable.Point.Version, row?.Dependencies ?? DependencySet.Empty);
        if (!isOwed) { return; }
        if (isSaid) { listener.OnSaid(durable.Point); }
        else { listener.OnRecorded(durable.Point, null); }
    }

    // The others hurry as far as somebody waits, and no further: versions that nobody waits for cost as much. Who waits for one version after the other has them hurry
    // for longer and longer, and says it again when half of that is over. With the other finders a version may depend on later ones.
    private async Task HurryAsync(bool isLinked, CancellationToken stop)
    {
        Version awaited = listener.AwaitedVersion;
        if (!listener.IsCommitAwaited || seat.VersionsLater(awaited, _hurryUs / 2) <= _hurriedUntil) { return; }
        long versionUs = seat.Grid.Stretches[^1].IntervalUs;
        bool isLasting = seat.Finder != FinderKind.Approximate || awaited <= seat.VersionsLater(_hurriedUntil, Math.Max(_hurryUs, versionUs));
        _hurryUs = seat.Finder != FinderKind.Approximate ? CutPace.HurryUsMax : isLasting ? CutPace.HurryUs(_hurryUs, versionUs) : 0;
        Version until = seat.VersionsLater(awaited, _hurryUs);
        bool isHeard = isLinked ? link!.SayWaits(until) : await TryAsync(() => NoteAsync(until, stop)).ConfigureAwait(false) is not null;
        if (isHeard) { _hurriedUntil = until; }
    }

    private async Task<bool> NoteAsync(Version until, CancellationToken stop)
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
            if (_isAvailable) { report.Warn($"the metadata cannot be reached: operations go on, commits are reported when it is back ({e.Message})"); }
            _isAvailable = false;
            return null;
        }
    }

    private static TimeSpan Micro(long us) => TimeSpan.FromMicroseconds(us);

    public void Dispose() => _signal.Dispose();
}
