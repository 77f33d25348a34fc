// Records in SQL what is durable here, one claim at a time (of several that wait only the newest is recorded), and learns the
// cluster's cut and world-line from it. While SQL is down operations go on and nothing is reported as committed.
//
// A shard alone hears of a new cut when it records. One among others asks too: often while somebody here waits for a commit,
// now and then otherwise. Whoever waits has the others hurry, by a note that they find when they ask.
using Slogger.Core.Cuts;
using Slogger.Core.Shards;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Proxy.Shards;

/// <summary>Who is told what the metadata says. The recorder's task calls.</summary>
internal interface ICutListener
{
    /// <summary>Whether a client of this shard waits for a commit.</summary>
    bool IsCommitAwaited { get; }

    /// <summary>The version that is open here.</summary>
    Version OpenVersion { get; }

    /// <summary>A claim was recorded, or not.</summary>
    /// <param name="point">Its point.</param>
    /// <param name="result">Null if SQL could not be reached.</param>
    void OnRecorded(WorldPoint point, DurableResult? result);

    /// <summary>The recorded cut, and the current world-line.</summary>
    void OnCut(ClusterCut cut);

    /// <summary>Nothing can be recorded any more.</summary>
    void OnMetadataFailed(ProxyExit exit);
}

/// <summary>The recorder of a shard.</summary>
/// <param name="seat">The shard's place in the metadata.</param>
/// <param name="report">Is told when SQL goes and comes.</param>
/// <param name="listener">Is told what the metadata says.</param>
internal sealed class CutRecorder(ClusterSeat seat, ILogSink report, ICutListener listener) : IDisposable
{
    /// <summary>How often the shard's claim is recorded while nobody waits for a commit, in microseconds.</summary>
    public const long IntervalMicroseconds = 50_000;

    private static readonly TimeSpan AskPeriod = TimeSpan.FromMicroseconds(IntervalMicroseconds);
    private static readonly TimeSpan AwaitedAskPeriod = TimeSpan.FromMilliseconds(2);
    private const long HurryMicroseconds = 500_000;
    private readonly SemaphoreSlim _signal = new(0, 1);
    private readonly Lock _lock = new();
    private DurableClaim? _wanted;
    private Version _hurriedUntil;

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

    /// <summary>Records and asks until stopped.</summary>
    public async Task RunAsync(CancellationToken stop)
    {
        try
        {
            while (true)
            {
                TimeSpan pause = !seat.HasPeers ? Timeout.InfiniteTimeSpan : listener.IsCommitAwaited ? AwaitedAskPeriod : AskPeriod;
                await _signal.WaitAsync(pause, stop).ConfigureAwait(false);
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

    private async Task TurnAsync(CancellationToken stop)
    {
        DurableClaim? claim;
        lock (_lock) { (claim, _wanted) = (_wanted, null); }
        if (claim is { } durable)
        {
            DurableResult? result = await TryAsync(() => seat.Metadata.RecordDurableAsync(seat.Cluster, seat.Shard, durable, seat.Epoch, stop)).ConfigureAwait(false);
            listener.OnRecorded(durable.Point, result);
        }
        if (!seat.HasPeers) { return; }
        // Asked again when half of the time is over.
        Version open = listener.OpenVersion;
        if (listener.IsCommitAwaited && seat.VersionsLater(open, HurryMicroseconds / 2) > _hurriedUntil)
        {
            Version until = seat.VersionsLater(open, HurryMicroseconds);
            if (await TryAsync(() => HurryAsync(until, stop)).ConfigureAwait(false) is not null) { _hurriedUntil = until; }
        }
        if (await TryAsync(() => seat.Metadata.AdvanceCutAsync(seat.Cluster, stop)).ConfigureAwait(false) is { } cut) { listener.OnCut(cut); }
    }

    private async Task<bool> HurryAsync(Version until, CancellationToken stop)
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

    public void Dispose() => _signal.Dispose();
}
