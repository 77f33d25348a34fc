// One stream of the primary in a backup process: its log and receiver, and the store that follows it. What the receiver asks for is done here, one after the other, on a task
// of its own.
using System.Diagnostics;
using System.Threading.Channels;
using Slogger.Core.Shards;
using Slogger.Core.Shipping;
using Slogger.Core.Sites;
using Slogger.Core.Watermarks;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Following;
using Slogger.Proxy.Shards;
using Slogger.Sites.Shipping;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Backup;

/// <summary>One stream.</summary>
internal sealed class BackupStream : IStreamOwner, IAsyncDisposable
{
    private const int QuickLooks = 200;
    private static readonly TimeSpan RetryDelay = TimeSpan.FromMilliseconds(100), LookPause = TimeSpan.FromMilliseconds(1), SlowLookPause = TimeSpan.FromMilliseconds(50);

    private readonly VersionLog _log;
    private readonly IFollowingStore _store;
    private readonly long _owned;
    private readonly Action<string>? _onFailed;
    private readonly IMetadataStore _metadata;
    private readonly string _cluster;
    private readonly ILogSink _report;
    private readonly Action<WatermarkReport> _onHeld;
    private readonly Channel<WorldPoint> _targets = Channel.CreateBounded<WorldPoint>(new BoundedChannelOptions(1) { FullMode = BoundedChannelFullMode.DropOldest });
    private readonly CancellationTokenSource _stop = new();
    private readonly Lock _lock = new();
    private readonly Task _applying;
    private TaskCompletionSource<FinalReport> _final = NewFinal();
    private Task _opening = Task.CompletedTask;
    private WorldPoint _applied;
    private TimeSpan _applyTime;
    private string? _told;

    /// <summary>Begins, or goes on.</summary>
    /// <param name="log">The stream's log.</param>
    /// <param name="stream">The primary's shard.</param>
    /// <param name="store">What follows it.</param>
    /// <param name="floor">Of a seeded log the first version that it can be brought to.</param>
    /// <param name="applied">Where the store is.</param>
    /// <param name="site">What SQL says since this process has taken the stream.</param>
    /// <param name="metadata">The backup's SQL.</param>
    /// <param name="cluster">The cluster.</param>
    /// <param name="onHeld">Is told what the stream holds.</param>
    /// <param name="report">For people.</param>
    /// <param name="onFailed">Is told why it cannot go on.</param>
    public BackupStream(
        VersionLog log, ShardId stream, IFollowingStore store, WorldPoint floor, WorldPoint applied, SiteState site, IMetadataStore metadata, string cluster, Action<WatermarkReport> onHeld, ILogSink report,
        Action<string>? onFailed = null)
    {
        (_owned, _onFailed) = (site.Streams[stream.Number].Owner, onFailed);
        (_log, _store, _metadata, _cluster, _onHeld, _report, Stream) = (log, store, metadata, cluster, onHeld, report, stream);
        _applied = applied;
        Receiver = new(log, stream, floor, applied, site, metadata, cluster, this, report);
        _applying = Task.Run(ApplyAsync);
    }

    /// <summary>The primary's shard.</summary>
    public ShardId Stream { get; }

    /// <summary>Its receiver.</summary>
    public StreamReceiver Receiver { get; }

    /// <summary>Why it cannot go on; null: it can.</summary>
    public string? Failure { get; private set; }

    /// <summary>The world-lines of its log, each with the version at which it branched off.</summary>
    public IReadOnlyList<WorldPoint> Lineage => _log.IsEmpty ? [] : [.. _log.Branches.Select(b => new WorldPoint(b.WorldLine, b.Version))];

    /// <summary>When a version ended at the primary, by the log: a hybrid timestamp's bits; 0: the log does not say.</summary>
    public ulong TimeOf(WorldPoint point) => _log.IsEmpty ? 0 : _log.BoundaryAtOrBelow(point.Version)?.Time.Bits ?? 0;

    /// <summary>How it is, for commands.</summary>
    /// <param name="site">What SQL says.</param>
    public V1.StreamStatus StatusIn(SiteState site)
    {
        StreamState state = site.Streams[Stream.Number];
        WorldPoint held = Receiver.Held, watermark = Receiver.Watermark;
        WorldPoint applied;
        TimeSpan applyTime;
        lock (_lock) { (applied, applyTime) = (_applied, _applyTime); }
        LogIndex durable = _log.IsEmpty ? default : _log.DurableEnd;
        return new()
        {
            Shard = Stream.Number, Generation = state.Generation, Phase = (V1.StreamPhase)(state.Phase + 1), Durable = ShipWire.ToWire(durable), DurableTime = TimeOf(new(durable.WorldLine, durable.Closed)),
            Held = ShipWire.ToWire(held), HeldTime = TimeOf(held), Watermark = ShipWire.ToWire(watermark), WatermarkTime = watermark == default ? 0 : TimeOf(watermark), Applied = ShipWire.ToWire(applied),
            ApplyUs = (long)applyTime.TotalMicroseconds, SilentUs = Receiver.Silence is { } silence ? (long)silence.TotalMicroseconds : -1, Failure = Failure ?? "",
        };
    }

    /// <summary>The failover has taken its epoch: accepts nothing any more, and says for good what it holds.</summary>
    public async Task<FinalReport> FreezeAsync(SiteEpoch number, CancellationToken stop)
    {
        Task<FinalReport> final;
        lock (_lock)
        {
            if (_final.Task is { IsCompletedSuccessfully: true, Result.Number: var said } && said != number) { _final = NewFinal(); }
            final = _final.Task;
        }
        await Receiver.FreezeAsync(number).ConfigureAwait(false);
        return await final.WaitAsync(stop).ConfigureAwait(false);
    }

    /// <summary>Stops. The log is its owner's to close.</summary>
    public async ValueTask DisposeAsync()
    {
        await _stop.CancelAsync().ConfigureAwait(false);
        await Receiver.DisposeAsync().ConfigureAwait(false);
        await _applying.ConfigureAwait(false);
        await _opening.ConfigureAwait(false);
        _stop.Dispose();
    }

    void IStreamOwner.Report(WatermarkReport report) => _onHeld(report);

    void IStreamOwner.Apply(WorldPoint to) => _targets.Writer.TryWrite(to);

    void IStreamOwner.Final(FinalReport report)
    {
        lock (_lock)
        {
            if (!_final.TrySetResult(report) && _final.Task.Result.Number < report.Number) { (_final = NewFinal()).SetResult(report); }
        }
    }

    void IStreamOwner.Open(SiteEpoch number) => _opening = OpenAsync(number);

    void IStreamOwner.OnFailed(string why)
    {
        Failure = why;
        _report.Error($"stream {Stream}: cannot be received any more: {why}");
        _onFailed?.Invoke(why);
    }

    private async Task ApplyAsync()
    {
        try
        {
            await foreach (WorldPoint told in _targets.Reader.ReadAllAsync(_stop.Token).ConfigureAwait(false))
            {
                WorldPoint to = told;
                while (!await BroughtAsync(to).ConfigureAwait(false))
                {
                    await Task.Delay(RetryDelay, _stop.Token).ConfigureAwait(false);
                    // Whatever hindered it may not concern a later one.
                    if (_targets.Reader.TryRead(out WorldPoint later)) { to = later; }
                }
                await Receiver.AppliedAsync(to).ConfigureAwait(false);
            }
        }
        catch (OperationCanceledException)
        {
            // Stopping.
        }
    }

    private async Task<bool> BroughtAsync(WorldPoint to)
    {
        try
        {
            // Before the first version has ended the log's own beginning is a place to go to.
            Boundary end = _log.BoundaryAtOrBelow(to.Version)
                ?? (to.Version == _log.FirstVersion.Previous ? new Boundary(_log.FirstWorldLine, to.Version, _log.Origin.Offset, _log.Origin.Database, default) : null as Boundary?) ?? throw new LogHistoryChangedException($"The log does not hold the end of version {to.Version}, which is to be applied.");
            long began = Stopwatch.GetTimestamp();
            await _store.BringToAsync(end with { WorldLine = to.WorldLine, Version = to.Version }, _stop.Token).ConfigureAwait(false);
            lock (_lock) { (_applied, _applyTime) = (to, Stopwatch.GetElapsedTime(began)); }
            _told = null;
            return true;
        }
        catch (Exception e) when (e is not OperationCanceledException)
        {
            if (e.Message != _told) { _report.Warn($"stream {Stream}: its store could not be brought to version {to.Version}, and it is tried again: {e.Message}"); }
            _told = e.Message;
            return false;
        }
    }

    // The store stands at the final watermark, and the log's new world-line has begun there. Promoted or not: what opens the shard looks at the store.
    private async Task OpenAsync(SiteEpoch number)
    {
        Task promoting = PromoteAsync();
        SiteState? site = await OpenedAsync(number).ConfigureAwait(false);
        await promoting.ConfigureAwait(false);
        for (int looks = 0; site is not null && !_stop.IsCancellationRequested; looks++)
        {
            if (site.Role is SiteRole.Primary or SiteRole.HandingOver)
            {
                _store.TakeOver(site);
                return;
            }
            await Task.Delay(looks < QuickLooks ? LookPause : SlowLookPause, _stop.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            site = await SiteAsync(site).ConfigureAwait(false);
        }
    }

    private async Task PromoteAsync()
    {
        try
        {
            await _store.PromoteAsync(_stop.Token).ConfigureAwait(false);
        }
        catch (Exception e)
        {
            if (!_stop.IsCancellationRequested) { _report.Warn($"stream {Stream}: its store could not be made a primary's, and is restored from the log: {e.Message}"); }
        }
    }

    private async Task<SiteState?> OpenedAsync(SiteEpoch number)
    {
        while (!_stop.IsCancellationRequested)
        {
            try
            {
                SiteAnswer answer = await _metadata.OpenStreamAsync(_cluster, number, Stream, _owned, ClusterSeat.Name, _stop.Token).ConfigureAwait(false);
                if (answer.Error is not { } error) { return answer.Site; }
                ((IStreamOwner)this).OnFailed(error);
                return null;
            }
            catch (OperationCanceledException)
            {
                return null;
            }
            catch (MetadataUnavailableException)
            {
                await Task.Delay(RetryDelay, _stop.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            }
            catch (MetadataException e)
            {
                ((IStreamOwner)this).OnFailed(e.Message);
                return null;
            }
        }
        return null;
    }

    private async Task<SiteState> SiteAsync(SiteState known)
    {
        try
        {
            return await _metadata.SiteAsync(_cluster, _stop.Token).ConfigureAwait(false);
        }
        catch (Exception e) when (e is MetadataException or OperationCanceledException)
        {
            return known;
        }
    }

    private static TaskCompletionSource<FinalReport> NewFinal() => new(TaskCreationOptions.RunContinuationsAsynchronously);
}
