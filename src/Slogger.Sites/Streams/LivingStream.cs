// One life of a stream in a backup process: its receiver, and the store that follows what that says. What the receiver asks for is done
// here, one after the other, on a task of its own.
using System.Diagnostics;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Replication.Following;
using Slogger.Replication.Receiving;
using Slogger.Replication.Seeding;

namespace Slogger.Sites.Streams;

/// <summary>How a life has ended.</summary>
internal enum LifeEndKind
{
    /// <summary>The copy is here: its log can begin.</summary>
    Copied,

    /// <summary>It has to be seeded anew.</summary>
    Reseed,

    /// <summary>It cannot go on in this process.</summary>
    Failed,

    /// <summary>SQL has another by now.</summary>
    Other,
}

/// <summary>How a life has ended.</summary>
/// <param name="Kind">What comes next.</param>
/// <param name="Why">For people.</param>
internal readonly record struct LifeEnd(LifeEndKind Kind, string Why);

/// <summary>One life.</summary>
internal sealed class LivingStream : IStreamOwner, IAsyncDisposable
{
    private static readonly TimeSpan RetryDelay = TimeSpan.FromMilliseconds(100);

    private readonly VersionLog _log;
    private readonly ShardId _stream;
    private readonly long _owned;
    private readonly IFollowingStore _store;
    private readonly IMetadataStore _metadata;
    private readonly string _cluster;
    private readonly ILogger _report;
    private readonly Action<WatermarkReport> _onHeld;
    private readonly TaskCompletionSource<LifeEnd> _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly CancellationTokenSource _stop = new();
    private readonly Lock _lock = new();
    private readonly StoreMover _mover;
    private TaskCompletionSource<FinalReport> _final = NewFinal();
    private readonly TaskCompletionSource _ready = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly SemaphoreSlim _news = new(0);       // for the take-over: it looks at all that is new
    private SiteState? _servesAs;
    private volatile bool _isPromoted;
    private Task _opening = Task.CompletedTask;
    private WorldPoint _applied;
    private TimeSpan _applyTime;
    private volatile bool _isFrozen;
    private string? _told;              // why a world-line could not begin

    /// <summary>Begins; with the parameters of <see cref="StreamReceiver"/>.</summary>
    public LivingStream(
        StreamDisk disk, IFollowingStore store, ReceiverStart start, IMetadataStore metadata, string cluster,
            Action<WatermarkReport> onHeld, ILogger report)
    {
        (_log, _stream, _store, _metadata, _cluster, _onHeld, _report, _applied, _isFrozen) =
            (disk.Log, start.Stream, store, metadata, cluster, onHeld, report, start.Applied, start.IsFrozen);
        _owned = start.Owner;
        _mover = new(_log, store, $"stream {_stream}", report, ArrivedAsync);
        Receiver = new(disk, start, metadata, cluster, this, report);
        _mover.Begin();
    }

    /// <summary>Its receiver.</summary>
    public StreamReceiver Receiver { get; }

    /// <summary>Completes when it cannot go on.</summary>
    public Task<LifeEnd> Ended => _ended.Task;

    /// <summary>Whether it knows of a failover.</summary>
    public bool IsFrozen => _isFrozen;

    /// <summary>Where the store is, and how long it took to come there.</summary>
    public (WorldPoint At, TimeSpan Took) Applied
    {
        get
        {
            lock (_lock) { return (_applied, _applyTime); }
        }
    }

    /// <summary>The watermark service says how far the backup may go.</summary>
    public void WatermarkTold(WorldPoint watermark) => _ = TellAsync(() => Receiver.WatermarkToldAsync(watermark));

    /// <summary>The failover has taken its epoch: accepts nothing any more, and says for good what it holds.</summary>
    public async Task<FinalReport> FreezeAsync(SiteEpoch number, CancellationToken stop)
    {
        Task<FinalReport> final;
        lock (_lock)
        {
            if (_final.Task is { IsCompletedSuccessfully: true, Result.Number: var said } && said != number) { _final = NewFinal(); }
            final = _final.Task;
        }
        _isFrozen = true;
        await Receiver.FreezeAsync(number).ConfigureAwait(false);
        return await final.WaitAsync(stop).ConfigureAwait(false);
    }

    /// <summary>Completes when store and log are at the final watermark: the shard can be opened.</summary>
    public Task Ready => _ready.Task;

    /// <summary>Every shard is open, in SQL: the site is the primary.</summary>
    public void SiteServes(SiteState site)
    {
        Interlocked.Exchange(ref _servesAs, site);
        _news.Release();
    }

    /// <summary>Stops.</summary>
    public async ValueTask DisposeAsync()
    {
        await _stop.CancelAsync().ConfigureAwait(false);
        await Receiver.DisposeAsync().ConfigureAwait(false);
        await _mover.DisposeAsync().ConfigureAwait(false);
        await _opening.ConfigureAwait(false);
        _stop.Dispose();
    }

    void IStreamOwner.Report(WatermarkReport report) => _onHeld(report);

    void IStreamOwner.Apply(WorldPoint to) => _mover.Go(to);

    void IStreamOwner.Final(FinalReport report)
    {
        lock (_lock)
        {
            if (!_final.TrySetResult(report) && _final.Task.Result.Number < report.Number) { (_final = NewFinal()).SetResult(report); }
        }
    }

    void IStreamOwner.Open(SiteEpoch number) => _opening = OpenAsync(number);

    void IStreamOwner.OnReseed(string why) => _ended.TrySetResult(new(LifeEndKind.Reseed, why));

    void IStreamOwner.OnCopied() => _ended.TrySetResult(new(LifeEndKind.Copied, ""));

    void IStreamOwner.OnFailed(string why) => _ended.TrySetResult(new(LifeEndKind.Failed, why));

    private static async Task TellAsync(Func<ValueTask> tell)
    {
        try
        {
            await tell().ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            // It has ended.
        }
    }

    private async ValueTask ArrivedAsync(WorldPoint at, TimeSpan took)
    {
        lock (_lock) { (_applied, _applyTime) = (at, took); }
        await Receiver.AppliedAsync(at).ConfigureAwait(false);
    }

    // The store stands at the final watermark, and the log's new world-line has begun there.
    private async Task OpenAsync(SiteEpoch number)
    {
        var takeover = new StreamTakeover(_stream, _owned, number);
        Task promoting = Task.CompletedTask;
        try
        {
            while (!_stop.IsCancellationRequested)
            {
                if (_isPromoted) { takeover.Promoted(); }
                if (Interlocked.Exchange(ref _servesAs, null) is { } told) { takeover.SiteIs(told, NowUs); }
                switch (takeover.Next(NowUs))
                {
                    case TakeoverStep.Enter enter:
                        if (!await EnteredAsync(enter.Line).ConfigureAwait(false)) { return; }
                        takeover.Entered();
                        break;
                    case TakeoverStep.Ready:
                        _ready.TrySetResult();
                        break;
                    case TakeoverStep.Promote:
                        promoting = PromoteAsync();
                        break;
                    case TakeoverStep.Await { UntilUs: long.MaxValue }:
                        await _news.WaitAsync(_stop.Token).ConfigureAwait(false);
                        break;
                    case TakeoverStep.Await wait:
                        await _news.WaitAsync(TimeSpan.FromMicroseconds(Math.Max(wait.UntilUs - NowUs, 0) + 999),
                            _stop.Token).ConfigureAwait(false);
                        break;
                    case TakeoverStep.Open open:
                        await OpenAsync(takeover, open.Number).ConfigureAwait(false);
                        break;
                    case TakeoverStep.Look:
                        await LookAsync(takeover).ConfigureAwait(false);
                        break;
                    case TakeoverStep.HandOver over:
                        _store.TakeOver(over.Site);
                        return;
                    case TakeoverStep.Over over:
                        ((IStreamOwner)this).OnFailed(over.Why);
                        return;
                    default:
                        throw new UnreachableException();
                }
            }
        }
        catch (OperationCanceledException)
        {
            // Stopping.
        }
        finally
        {
            await promoting.ConfigureAwait(false);
        }
    }

    // False: stopping, or it cannot go on.
    private async Task<bool> EnteredAsync(WorldLine line)
    {
        while (true)
        {
            try
            {
                await _store.EnterAsync(line, _stop.Token).ConfigureAwait(false);
                return true;
            }
            catch (OperationCanceledException) when (_stop.IsCancellationRequested)
            {
                return false;
            }
            catch (LogIOException e) when (e.IsFatal)
            {
                ((IStreamOwner)this).OnFailed(e.Message);
                return false;
            }
            catch (Exception e)
            {
                if (e.Message != _told)
                {
                    _report.Warn($"stream {_stream}: world-line {line} cannot begin in the shard's store, and it is tried again: "
                        + $"{e.Message}");
                }
                _told = e.Message;
            }
            await Task.Delay(RetryDelay, _stop.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
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
            if (!_stop.IsCancellationRequested)
            {
                _report.Warn($"stream {_stream}: its store could not be made a primary's, and is restored from the log: {e.Message}");
            }
        }
        _isPromoted = true;
        _news.Release();
    }

    private async Task OpenAsync(StreamTakeover takeover, SiteEpoch number)
    {
        try
        {
            SiteAnswer answer = await _metadata.OpenStreamsAsync(
                _cluster, number, [new(_stream, _owned, ClusterSeat.Name)], _stop.Token).ConfigureAwait(false);
            if (answer.Error is { } error) { takeover.Refused(error); }
            else { takeover.SiteIs(answer.Site, NowUs); }
        }
        catch (MetadataUnavailableException)
        {
            await Task.Delay(RetryDelay, _stop.Token).ConfigureAwait(false);
        }
        catch (MetadataException e)
        {
            takeover.Refused(e.Message);
        }
    }

    private async Task LookAsync(StreamTakeover takeover)
    {
        try
        {
            takeover.SiteIs(await _metadata.SiteAsync(_cluster, _stop.Token).ConfigureAwait(false), NowUs);
        }
        catch (MetadataException)
        {
            await Task.Delay(RetryDelay, _stop.Token).ConfigureAwait(false);
        }
    }

    private static long NowUs => (long)Stopwatch.GetElapsedTime(0).TotalMicroseconds;

    private static TaskCompletionSource<FinalReport> NewFinal() => new(TaskCreationOptions.RunContinuationsAsynchronously);
}
