// A shard as one of a primary's, beside another site: under which epoch its site rules, and what is done when another one does.
//
// A switch-over, at the primary: while the site's SQL says that it hands over, all operations of clients are held, here and at every
// process that starts; when none is under way any more, and what was done is in durable versions, the shard says up to which. It goes on,
// or ends, by what SQL says (SiteState).
using System.Diagnostics;
using Slogger.Core.Identities;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Ports;

namespace Slogger.Proxy.Shards;

/// <summary>What the shard's site is, and whether it hands over; and the shard as other processes of its site ask it. Any thread.</summary>
internal sealed class PrimarySite(VersionedShard shard, ILogger report) : IPrimaryShard
{
    private static readonly TimeSpan DeposedNoteLimit = TimeSpan.FromSeconds(5);
    private static readonly TimeSpan SitePeriod = TimeSpan.FromMilliseconds(50);

    // Whoever asks asks again.
    private static readonly TimeSpan HeldLimit = TimeSpan.FromSeconds(1);
    private readonly SemaphoreSlim _looking = new(1, 1);
    private readonly OperationHold _hold = new();       // under the machine's lock
    private Task _watching = Task.CompletedTask;
    private SiteState? _takenOver;
    private int _isDeposed;

    /// <summary>As it was read last, before another site deposed this one.</summary>
    public SiteState State { get; private set; } = SiteState.Alone;

    /// <summary>Whether another site rules.</summary>
    public bool IsDeposed => Volatile.Read(ref _isDeposed) != 0;

    /// <summary>Whether operations of clients are held, since the site hands over.</summary>
    public bool HoldsAll => _hold.IsHeld;

    // ---- The shard, as other processes ask it ----

    ShardId IPrimaryShard.Shard => shard.Seat.Shard;

    SiteEpoch IPrimaryShard.SiteEpoch => State.Epoch;

    WorldPoint IPrimaryShard.RecordedCut => shard.RecordedCut;

    WorldPoint IPrimaryShard.Watermark => shard.Watermark ?? default;

    Task IPrimaryShard.Serving => shard.Access.Serving;

    string IPrimaryShard.ShippingState => shard.ShippingState;

    bool IPrimaryShard.Attach() => shard.AttachBackup();

    // ---- What the site is ----

    /// <summary>Ends when nobody looks any more: the shard is ending.</summary>
    public Task EndAsync() => _watching;

    /// <summary>The site has taken over, and is this: the recovery that follows need not ask.</summary>
    public void TakenOver(SiteState site) => _takenOver = site;

    /// <summary>Learns what the site is, as of now: at each recovery, before anybody is let in. Who is told to take over is told that, too;
    /// should it have been handed over since, whoever does that asks this shard.</summary>
    public async Task LearnAsync(CancellationToken stop)
    {
        if (_takenOver is { } learned)
        {
            _takenOver = null;
            OnSite(learned);
            return;
        }
        await _looking.WaitAsync(stop).ConfigureAwait(false);
        try
        {
            OnSite(await shard.Seat.RetryAsync(() => shard.Metadata.SiteAsync(shard.Seat.Cluster, stop), stop).ConfigureAwait(false));
        }
        finally
        {
            _looking.Release();
        }
    }

    // One after the other: what was read later counts.
    private void OnSite(SiteState site)
    {
        // Under the epoch that deposed it this shard leads nothing: it keeps its own.
        if (site.Role == SiteRole.Deposed)
        {
            OnDeposed(site.Epoch);
            return;
        }
        State = site;
        lock (shard.Versions.Lock)
        {
            if (!_hold.SiteIs(site)) { return; }
        }
        if (HoldsAll)
        {
            report.Info($"shard {shard.Seat.Shard}: operations of clients are held: switch-over {site.HandOver.Number} hands cluster "
                + $"\"{shard.Seat.Cluster}\" over to the other site");
            Task before = _watching;
            _watching = Task.Run(() => WatchAsync(before, shard.Lifetime.End), CancellationToken.None);
        }
        else
        {
            report.Info($"shard {shard.Seat.Shard}: the switch-over was called off: operations go on");
            shard.Access.OnHoldEnded();
        }
    }

    private async Task WatchAsync(Task before, CancellationToken stop)
    {
        await before.ConfigureAwait(false);
        while (HoldsAll && !stop.IsCancellationRequested && !shard.HasFailed)
        {
            await Task.Delay(SitePeriod, stop).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            await LookAsync(stop).ConfigureAwait(false);
        }
    }

    // Nobody knows how it goes on while SQL is away: what is held stays so.
    private async Task LookAsync(CancellationToken stop)
    {
        try
        {
            await _looking.WaitAsync(stop).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            return;
        }
        try
        {
            OnSite(await shard.Metadata.SiteAsync(shard.Seat.Cluster, stop).ConfigureAwait(false));
        }
        catch (Exception e) when (e is MetadataUnavailableException or OperationCanceledException)
        {
            // Asked again.
        }
        catch (MetadataException e)
        {
            shard.Fail(ProxyExit.Failed($"the metadata failed: {e.Message}", ""));
        }
        finally
        {
            _looking.Release();
        }
    }

    /// <inheritdoc />
    public async Task<WorldPoint?> HoldAllAsync(long number, CancellationToken stop)
    {
        await LookAsync(stop).ConfigureAwait(false);
        if (!shard.IsOpen || shard.HasFailed) { return null; }
        long hold;
        lock (shard.Versions.Lock)
        {
            // Said again until the cut and the backup have come to it.
            if (_hold.HeldAt(number, new(shard.WorldLine)) is { } known) { return known; }
            if (_hold.Of(number) is not { } now) { return null; }
            hold = now;
        }
        long began = Stopwatch.GetTimestamp();
        if (await shard.Access.AwaitForwardedAsync(HeldLimit, stop).ConfigureAwait(false) is not { } open) { return null; }
        lock (shard.Versions.Lock) { _hold.Quiet(hold, open); }
        while (HoldsAll && shard.IsOpen && Stopwatch.GetElapsedTime(began) < HeldLimit)
        {
            lock (shard.Versions.Lock)
            {
                if (_hold.Look(hold, shard.Versions.Machine!.Durable) is { } held) { return held; }
            }
            await Task.Delay(1, stop).ConfigureAwait(false);
        }
        return null;
    }

    /// <summary>Another site rules: nothing is committed or answered any more. The site's SQL is told, so that no process starts here but
    /// as a backup's.</summary>
    public void OnDeposed(SiteEpoch by)
    {
        if (Interlocked.Exchange(ref _isDeposed, 1) != 0) { return; }
        shard.Versions.Deposed();
        shard.Access.ShutForGood();
        shard.Access.Post(() => shard.Access.Loop!.CloseStore("another site is the primary"));
        _ = Task.Run(async () =>
        {
            string note = "";
            try
            {
                using var limit = new CancellationTokenSource(DeposedNoteLimit);
                await shard.Metadata.ChangeSiteAsync(shard.Seat.Cluster, s => new(s.DeposedBy(by), null),
                    limit.Token).ConfigureAwait(false);
            }
            catch (Exception e) when (e is MetadataException or OperationCanceledException)
            {
                note = $" It could not be noted in the metadata ({e.Message}), so other processes of this site may go on until they hear "
                    + "of it from the backup.";
            }
            shard.Fail(ProxyExit.Failed(
                $"another site has taken over cluster \"{shard.Seat.Cluster}\", with site epoch {by}: shard {shard.Seat.Shard} is served "
                    + $"there, and no more here.{note}",
                "lead clients to the other site; slogger seed makes this one its backup"));
        });
    }
}
