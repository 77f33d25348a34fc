// A switch-over, at the primary: while the site's SQL says that it hands over, all operations of clients are held, here and at every process that starts; when none is under way any more, and what was done is
// in durable versions, the shard says up to which. It goes on, or ends, by what SQL says (SiteState).
using System.Diagnostics;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard
{
    private static readonly TimeSpan SitePeriod = TimeSpan.FromMilliseconds(50);
    // Whoever asks asks again.
    private static readonly TimeSpan HeldLimit = TimeSpan.FromSeconds(1);
    private readonly SemaphoreSlim _looking = new(1, 1);
    protected Task _watchingSite = Task.CompletedTask;
    private volatile bool _holdsAll;
    private volatile HeldAt? _heldAt;
    private SiteState? _justLearned;

    private sealed record HeldAt(WorldPoint Point);

    // What the site is, as of now: at each recovery, before anybody is let in. Who is told to take over is told that, too; should it have been handed over since, whoever does that asks this shard.
    protected async Task LearnSiteAsync(CancellationToken stop)
    {
        if (_justLearned is { } learned)
        {
            _justLearned = null;
            OnSite(learned);
            return;
        }
        await _looking.WaitAsync(stop).ConfigureAwait(false);
        try
        {
            OnSite(await _seat.RetryAsync(() => _seat.Metadata.SiteAsync(_seat.Cluster, stop), stop).ConfigureAwait(false));
        }
        finally
        {
            _looking.Release();
        }
    }

    // One after the other: what was read later counts.
    private void OnSite(SiteState site)
    {
        _site = site;
        if (site.Role == SiteRole.Deposed)
        {
            OnSiteDeposed(site.Epoch);
            return;
        }
        bool isHeld = site.Role == SiteRole.HandingOver;
        if (isHeld == _holdsAll) { return; }
        _heldAt = null;
        _holdsAll = isHeld;
        if (isHeld)
        {
            _report.Info($"shard {_options.Shard}: operations of clients are held: switch-over {site.HandOver.Number} hands cluster \"{_seat.Cluster}\" over to the other site");
            Task before = _watchingSite;
            _watchingSite = Task.Run(() => WatchSiteAsync(before, _ending.Token), CancellationToken.None);
        }
        else
        {
            _report.Info($"shard {_options.Shard}: the switch-over was called off: operations go on");
            OnHoldEnded();
        }
    }

    private async Task WatchSiteAsync(Task before, CancellationToken stop)
    {
        await before.ConfigureAwait(false);
        while (_holdsAll && !stop.IsCancellationRequested && !HasFailed)
        {
            await Task.Delay(SitePeriod, stop).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            await LookAtSiteAsync(stop).ConfigureAwait(false);
        }
    }

    // Nobody knows how it goes on while SQL is away: what is held stays so.
    private async Task LookAtSiteAsync(CancellationToken stop)
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
            OnSite(await _seat.Metadata.SiteAsync(_seat.Cluster, stop).ConfigureAwait(false));
        }
        catch (Exception e) when (e is MetadataUnavailableException or OperationCanceledException)
        {
            // Asked again.
        }
        catch (MetadataException e)
        {
            Fail(ProxyExit.Failed($"the metadata failed: {e.Message}", ""));
        }
        finally
        {
            _looking.Release();
        }
    }

    public Hold Hold => _holdsAll ? Hold.All : HoldsWrites ? Hold.Writes : Hold.None;

    /// <summary>Whether writes of clients wait, since the backup does not keep up.</summary>
    protected virtual bool HoldsWrites => false;

    /// <summary>Ends commands that wait in the store, of these connections.</summary>
    protected virtual void EndBlocked(IReadOnlyList<(long Id, string Address)> connections, CancellationToken stop)
    {
    }

    /// <inheritdoc />
    public async Task<WorldPoint?> HoldAllAsync(long number, CancellationToken stop)
    {
        await LookAtSiteAsync(stop).ConfigureAwait(false);
        if (!_holdsAll || _site.HandOver.Number != number || _loop is not { } loop || !IsOpen || HasFailed) { return null; }
        // Said again until the cut and the backup have come to it: nothing was done since. What a recovery has gone back behind is of another world-line.
        if (_heldAt is { } known && known.Point.WorldLine.Number == WorldLine) { return known.Point; }
        long began = Stopwatch.GetTimestamp();
        var withholding = new Withholding(FrontEndLoop.Microseconds() + (long)HeldLimit.TotalMicroseconds, connections => EndBlocked(connections, stop));
        loop.Post(() => loop.AwaitForwarded(withholding));
        try
        {
            if (!await withholding.Answered.Task.WaitAsync(HeldLimit, stop).ConfigureAwait(false)) { return null; }
        }
        catch (TimeoutException)
        {
            return null;
        }
        finally
        {
            withholding.IsGivenUp = true;
        }
        WorldPoint open;
        lock (_machineLock) { open = new(_machine!.WorldLine, _machine.OpenVersion); }
        while (_holdsAll && IsOpen && Stopwatch.GetElapsedTime(began) < HeldLimit)
        {
            lock (_machineLock)
            {
                if (_machine!.Durable is var durable && durable.WorldLine == open.WorldLine && durable >= open && _holdsAll)
                {
                    _heldAt = new(durable);
                    return durable;
                }
            }
            await Task.Delay(1, stop).ConfigureAwait(false);
        }
        return null;
    }

    // A commit is waited for by others than clients.
    private bool IsCommitHurried => _holdsAll;
}
