// One stream of the primary in a backup process, through all of its lives there. While it has no log it is being seeded; when the copy is
// here its log begins, and it is received and applied; until SQL says, or its shipper, that it has to be seeded anew. None of that needs
// the process to be restarted, and each of it may be cut short: the disk and SQL say how far it came.
//
// What the store holds of a life that is over it goes on showing, until there is a version to which the next can be brought: the watermark
// stays there, too, so all stores show one version. A store that is lost meanwhile has nothing to show.
using System.Diagnostics;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Log.Format;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Slots;
using Slogger.Replication.Following;
using Slogger.Replication.Receiving;
using Slogger.Replication.Seeding;
using Slogger.Replication.Sending;
using Slogger.Sites.Shipping;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Streams;

/// <summary>One stream.</summary>
internal sealed class BackupStream : IAsyncDisposable
{
    private static readonly TimeSpan RetryDelay = TimeSpan.FromMilliseconds(200), LookPeriod = TimeSpan.FromMilliseconds(500);

    private readonly StreamDisk _disk;
    private readonly IFollowingStore _store;
    private readonly Action<string>? _onFailed;
    private readonly Func<WorldPoint, CancellationToken, V1.VerifyReply> _proof;
    private readonly Action<bool>? _onBusy;
    private readonly IMetadataStore _metadata;
    private readonly string _cluster;
    private readonly long _owned;
    private readonly StreamLife _decides;
    private readonly Action<WatermarkReport> _onHeld;
    private readonly ILogger _report;
    private readonly CancellationTokenSource _stop = new();
    private readonly Task _living;
    private volatile LivingStream? _life;
    private volatile Told? _told;
    private volatile string? _failure;
    private string? _badCopy;

    private sealed record Told(WorldPoint Watermark);

    /// <summary>Begins, or goes on.</summary>
    /// <param name="disk">What there is of it.</param>
    /// <param name="stream">The primary's shard.</param>
    /// <param name="store">What follows it.</param>
    /// <param name="site">What SQL says since this process has taken the stream.</param>
    /// <param name="metadata">The backup's SQL.</param>
    /// <param name="cluster">The cluster.</param>
    /// <param name="onHeld">Is told what the stream holds.</param>
    /// <param name="report">For people.</param>
    /// <param name="onFailed">Is told why it cannot go on.</param>
    /// <param name="onBusy">Is told that it is being seeded, or, true, taken over: what can wait beside that has to.</param>
    /// <param name="proof">Shows that its shard can be recovered to a version; null: by its own log.</param>
    public BackupStream(
        StreamDisk disk, ShardId stream, IFollowingStore store, SiteState site, IMetadataStore metadata, string cluster,
            Action<WatermarkReport> onHeld, ILogger report, Action<string>? onFailed = null,
        Action<bool>? onBusy = null, Func<WorldPoint, CancellationToken, V1.VerifyReply>? proof = null)
    {
        _proof = proof ?? ((to, stop) => LogProof.Of(disk.Log, disk.Checkpoints, store.BaseBelow, to, stop));
        (_disk, _store, _metadata, _cluster, _onHeld, _report, _onFailed, _onBusy, Stream, _owned) =
            (disk, store, metadata, cluster, onHeld, report, onFailed, onBusy, stream, site.Streams[stream.Number].Owner);
        _decides = new(stream, _owned);
        _living = Task.Run(() => LiveAsync(site));
    }

    /// <summary>The primary's shard.</summary>
    public ShardId Stream { get; }

    /// <summary>Who receives it now; null: one life has ended, and the next has yet to begin.</summary>
    public StreamReceiver? Receiver => _life?.Receiver;

    /// <summary>Why it cannot go on; null: it can.</summary>
    public string? Failure => _failure;

    /// <summary>How far the copy is that it is being seeded with; null: it is not, or nothing of it is here yet.</summary>
    public SeedProgress? Seeding => Receiver?.Seeding;

    /// <summary>The world-lines of its log, each with the version at which it branched off.</summary>
    public IReadOnlyList<WorldPoint> Lineage => HasLog ? [.. _disk.Log.Branches.Select(b => new WorldPoint(b.WorldLine, b.Version))] : [];

    /// <summary>When a version ended at the primary, by the log: a hybrid timestamp's bits; 0: the log does not say.</summary>
    public ulong TimeOf(WorldPoint point)
    {
        try
        {
            return HasLog ? _disk.Log.BoundaryAtOrBelow(point.Version)?.Time.Bits ?? 0 : 0;
        }
        catch (LogException)
        {
            // For people only: what is damaged in the log is found by who needs it.
            return 0;
        }
    }

    /// <summary>Shows that it can be recovered to a version. Takes as long as reading the log does.</summary>
    public V1.VerifyReply Verify(WorldPoint to, CancellationToken stop) => HasLog ? _proof(to, stop)
        : new() { Flaw = "it is being seeded" };

    /// <summary>How it is, for commands.</summary>
    /// <param name="site">What SQL says.</param>
    public V1.StreamStatus StatusIn(SiteState site)
    {
        StreamState state = site.Streams[Stream.Number];
        LivingStream? life = _life;
        WorldPoint held = life?.Receiver.Held ?? default, watermark = _told?.Watermark ?? default;
        (WorldPoint applied, TimeSpan applyTime) = life?.Applied ?? default;
        LogIndex durable = HasLog ? _disk.Log.DurableEnd : default;
        return new()
        {
            Shard = Stream.Number, Generation = state.Generation, Phase = (V1.StreamPhase)(state.Phase + 1),
                Durable = ShipWire.ToWire(durable), DurableTime = TimeOf(new(durable.WorldLine, durable.Closed)),
            Held = ShipWire.ToWire(held), HeldTime = TimeOf(held), Watermark = ShipWire.ToWire(watermark),
                WatermarkTime = watermark == default ? 0 : TimeOf(watermark), Applied = ShipWire.ToWire(applied),
            ApplyUs = (long)applyTime.TotalMicroseconds, SilentUs = life?.Receiver.Silence is { } silence ? (long)silence.TotalMicroseconds
                : -1, Failure = Failure ?? _store.Problem ?? "", Refusal = life?.Receiver.Refusal ?? "",
            SeedHasBytes = Seeding?.HasBytes ?? 0, SeedBytes = Seeding?.Bytes ?? 0,
        };
    }

    /// <summary>The watermark service says how far the backup may go.</summary>
    public void WatermarkTold(WorldPoint watermark)
    {
        if (!(watermark <= _told?.Watermark)) { _told = new(watermark); }
        _life?.WatermarkTold(watermark);
    }

    /// <summary>The failover has taken its epoch: accepts nothing any more, and says for good what it holds.</summary>
    /// <exception cref="OperationCanceledException">Nobody receives it just now: ask again.</exception>
    public Task<FinalReport> FreezeAsync(SiteEpoch number, CancellationToken stop)
    {
        _onBusy?.Invoke(true);
        return _life is { } life ? life.FreezeAsync(number, stop)
            : Task.FromException<FinalReport>(new OperationCanceledException("The stream is between two lives."));
    }

    /// <summary>The failover is decided, in SQL; or, a word alone, its manager says so.</summary>
    /// <exception cref="OperationCanceledException">Nobody receives it just now: tell it again.</exception>
    public ValueTask DecidedAsync(SiteEpoch number, WorldPoint final, bool isWord = false) =>
        _life is { Receiver.IsSeeded: true } life ? life.Receiver.DecidedAsync(number, final, isWord) : ValueTask.CompletedTask;

    /// <summary>Returns when its store and its log are at the final watermark that it was told: the shard can be opened.</summary>
    /// <exception cref="OperationCanceledException">It is not, by then; or nobody receives it just now.</exception>
    public async Task<ReadyStream> ReadyAsync(CancellationToken stop)
    {
        await (_life ?? throw new OperationCanceledException(
            "The stream is between two lives.")).Ready.WaitAsync(stop).ConfigureAwait(false);
        return new(Stream, _owned, ClusterSeat.Name);
    }

    /// <summary>Every shard is open, in SQL: the site is the primary.</summary>
    public void SiteServes(SiteState site) => _life?.SiteServes(site);

    /// <summary>Has something done to the log while nothing is appended.</summary>
    /// <exception cref="OperationCanceledException">It was not: the receiver has stopped, or failed.</exception>
    public Task WithLogAsync(Action change)
    {
        if (Receiver is { } receiver) { return receiver.WithLogAsync(change); }
        change();
        return Task.CompletedTask;
    }

    /// <summary>Stops. Disk and log are their owner's to close.</summary>
    public async ValueTask DisposeAsync()
    {
        await _stop.CancelAsync().ConfigureAwait(false);
        await _living.ConfigureAwait(false);
        _stop.Dispose();
    }

    private bool HasLog => Receiver is { IsSeeded: true };

    private async Task LiveAsync(SiteState site)
    {
        try
        {
            while (true)
            {
                site = await LiveOnceAsync(site).ConfigureAwait(false);
            }
        }
        catch (OperationCanceledException) when (_stop.IsCancellationRequested)
        {
            // Stopping.
        }
        catch (Exception e)
        {
            Fail(e is LogException or MetadataException or SlotEffectException or UnfollowableException ? e.Message : e.ToString());
        }
    }

    private async Task<SiteState> LiveOnceAsync(SiteState site)
    {
        switch (_decides.Next(site, _disk.Find(_badCopy), _store.Applied))
        {
            case StreamStep.Seeded seeded: return await ChangeAsync(
                s => new(s.Seeded(Stream, seeded.Generation), null)).ConfigureAwait(false);
            case StreamStep.Reseed reseed: return await ReseedAsync(reseed.Generation, reseed.Why).ConfigureAwait(false);
            case StreamStep.Receive receive: return await ReceiveAsync(receive.Start).ConfigureAwait(false);
            default: throw new UnreachableException();
        }
    }

    private async Task<SiteState> ReceiveAsync(ReceiverStart start)
    {
        LifeEnd end;
        var life = new LivingStream(_disk, _store, start, _metadata, _cluster, _onHeld, _report);
        await using (life.ConfigureAwait(false))
        {
            _life = life;
            if (!life.Receiver.IsSeeded) { _onBusy?.Invoke(false); }
            if (_told is { Watermark: var watermark }) { life.WatermarkTold(watermark); }
            end = await EndOfAsync(life, start.Generation).ConfigureAwait(false);
            _life = null;
        }
        switch (end.Kind)
        {
            case LifeEndKind.Failed:
                Fail(end.Why);
                await Task.Delay(Timeout.Infinite, _stop.Token).ConfigureAwait(false);
                throw new UnreachableException();
            case LifeEndKind.Copied:
                await BeginLogAsync().ConfigureAwait(false);
                return await SiteAsync().ConfigureAwait(false);
            case LifeEndKind.Reseed:
                return await ReseedAsync(start.Generation, end.Why).ConfigureAwait(false);
            default:
                return await SiteAsync().ConfigureAwait(false);
        }
    }

    // Until it says so itself, or SQL does.
    private async Task<LifeEnd> EndOfAsync(LivingStream life, long generation)
    {
        List<StreamStep> steps = [];
        while (true)
        {
            Task first = await Task.WhenAny(life.Ended, Task.Delay(LookPeriod, _stop.Token)).ConfigureAwait(false);
            _stop.Token.ThrowIfCancellationRequested();
            if (first == life.Ended) { return await life.Ended.ConfigureAwait(false); }
            SiteState site = await SiteAsync().ConfigureAwait(false);
            steps.Clear();
            _decides.Look(site, generation, life.IsFrozen, steps);
            try
            {
                foreach (StreamStep step in steps)
                {
                    switch (step)
                    {
                        case StreamStep.Deposed deposed: return new(LifeEndKind.Failed, deposed.Why);
                        case StreamStep.Over: return new(LifeEndKind.Other, "");
                        case StreamStep.Freeze freeze:
                            _onBusy?.Invoke(true);
                            await life.Receiver.FreezeAsync(freeze.Number).ConfigureAwait(false);
                            break;
                        case StreamStep.Decided decided: await DecidedAsync(decided.Number, decided.Final).ConfigureAwait(false); break;
                    }
                }
            }
            catch (OperationCanceledException)
            {
                // It is ending.
            }
        }
    }

    private async Task BeginLogAsync()
    {
        Seed seed = _disk.Seed!;
        while (true)
        {
            try
            {
                bool isGood = await _store.RenewAsync(_disk.Begin, _stop.Token).ConfigureAwait(false);
                _badCopy = isGood ? null : seed.Id;
                if (isGood)
                {
                    _report.Info($"stream {Stream}: is seeded with {seed.Bytes >> 20} MiB, at {seed.Base}; it can be brought to "
                        + $"{seed.Floor} first");
                }
                else
                {
                    _report.Error($"stream {Stream}: the copy that it was seeded with is damaged (its checksum is another one): it is "
                        + "deleted, and another one is asked for");
                }
                return;
            }
            catch (Exception e) when (e is IOException or UnauthorizedAccessException or LogIOException { IsFatal: false })
            {
                _report.Error($"stream {Stream}: its log cannot begin, and it is tried again: {e.Message}");
            }
            await Task.Delay(RetryDelay, _stop.Token).ConfigureAwait(false);
        }
    }

    private async Task<SiteState> ReseedAsync(long generation, string why)
    {
        SiteState after = await ChangeAsync(s => s.Reseed(Stream, generation)).ConfigureAwait(false);
        _report.Warn($"stream {Stream}: has to be seeded anew: {why}. Until it has been this site cannot take over");
        return after;
    }

    private Task<SiteState> SiteAsync() => TryAsync(() => _metadata.SiteAsync(_cluster, _stop.Token));

    // Refused: the site is no backup any more; what it is then is seen.
    private async Task<SiteState> ChangeAsync(Func<SiteState, SiteChange> change)
    {
        bool isOurs = true;
        SiteAnswer answer = await TryAsync(() => _metadata.ChangeSiteAsync(
            _cluster,
            site =>
            {
                isOurs = Stream.Number < site.Streams.Length && site.Streams[Stream.Number].Owner == _owned;
                return isOurs ? change(site) : new(null, "another process has taken the stream");
            },
            _stop.Token)).ConfigureAwait(false);
        return isOurs ? answer.Site : throw new MetadataException($"stream {Stream} is received by another process");
    }

    private async Task<T> TryAsync<T>(Func<Task<T>> ask)
    {
        while (true)
        {
            try
            {
                return await ask().ConfigureAwait(false);
            }
            catch (MetadataUnavailableException)
            {
                await Task.Delay(RetryDelay, _stop.Token).ConfigureAwait(false);
            }
        }
    }

    private void Fail(string why)
    {
        _failure = why;
        _report.Error($"stream {Stream}: cannot be received any more: {why}");
        _onFailed?.Invoke(why);
    }
}
