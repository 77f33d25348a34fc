// Ships the log to the backup's process, while this shard serves. A shipper lives from when the replication link follows the store until that is lost: what a recovery does to the log meanwhile
// (a rollback in place that comes to nothing is begun again, in the same world-line) is seen by none.
//
// What the backup has durable is not trimmed before; what only a copy that it is seeded with reaches back to neither (LogShard.Seeding). Where a lease is wanted, commits are told only while
// replies of the backup are recent: VersionedShard keeps what is recorded and what is told apart.
using System.Globalization;
using Slogger.Core.Cuts;
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.Shipping;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Shipping;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard : IShipperListener, IPrimaryShard
{
    // Of the log, in memory: what is shipped before it is durable, and for as long as the backup keeps up.
    private const int TailBytesMin = 8 << 20, TailBytesMax = 64 << 20;
    private static readonly TimeSpan DeposedNoteLimit = TimeSpan.FromSeconds(5);
    private readonly ShippingLag _lag = new();
    private readonly OperationRate _shippingRate = new();
    private volatile ShardShipper? _shipper;
    private SiteState _site = SiteState.Alone;
    private long _openings;
    private long _keptFrom = long.MinValue;
    private int _isDeposed;
    private volatile bool _holdsWrites;
    private readonly Lock _watermarkLock = new();
    private WorldPoint _watermark;
    private SiteLease? _lease;             // under the machine's lock

    /// <summary>The way to the backup's process for this shard; null: nothing is shipped.</summary>
    public IShipConnector? Way { get; init; }

    private bool Ships => Way is not null;

    private int ShippedTailBytes => (int)Math.Clamp(_options.Site.BackupWindowBytes, TailBytesMin, TailBytesMax);

    // Who owns which slots only this site's SQL says: after a failover each would be looked for where it was when the backup was made.
    public override string? KeepsSlots => Ships ? $"shard {_options.Shard} has a backup, which does not learn who owns which slots: call the move off, or do it without --backup at all shards, and make the backup anew" : null;

    // A backup is brought to one version of all shards, and a cut of other finders is none.
    private void RequireOneVersion()
    {
        if (!Ships || _seat is not { HasPeers: true, Finder: not FinderKind.Approximate }) { return; }
        throw new RecoveryRefusedException($"shard {_options.Shard}: a cluster with --finder {_seat.Finder.ToString().ToLowerInvariant()} has no backup yet, since its cuts are no one version of all shards: leave --backup out");
    }

    // The control task, whenever the log is followed.
    private void BeginShipping()
    {
        if (Way is not { } way) { return; }
        ReleaseWrites();
        _shipper = new(_log, _options.Shard, new(Rule, _seat.Epoch, ++_openings), _options.Site.ToShipper(), way, this, _report);
    }

    // Under which this site leads. A process of a backup that has just taken over knows it by the world-line, before it has looked.
    private SiteEpoch Rule => !_log.IsEmpty && SiteEpoch.Of(_log.WorldLine) is var began && began > _site.Epoch ? began : _site.Epoch;

    private async Task EndShippingAsync()
    {
        if (_shipper is not { } shipper) { return; }
        _keptFrom = shipper.KeepFrom ?? long.MaxValue;
        _shipper = null;
        await shipper.DisposeAsync().ConfigureAwait(false);
    }

    // From here on the log is kept: what nobody needs any more but the backup. Before the backup has answered, all of it.
    private long ShippedFrom => !Ships || IsFollowing ? long.MaxValue : Math.Min(_shipper is { } shipper ? shipper.KeepFrom ?? long.MaxValue : _keptFrom, SeededFrom);

    ShardId IPrimaryShard.Shard => _options.Shard;

    SiteEpoch IPrimaryShard.SiteEpoch => _site.Epoch;

    WorldPoint IPrimaryShard.Watermark => Watermark ?? default;

    /// <inheritdoc />
    public override WorldPoint? Watermark
    {
        get
        {
            if (!Ships) { return null; }
            lock (_watermarkLock) { return _watermark; }
        }
    }

    bool IPrimaryShard.Attach()
    {
        if (_shipper is not { } shipper || !shipper.Attach()) { return false; }
        _report.Info($"shard {_options.Shard}: the backup at {Way!.Target} is wanted");
        return true;
    }

    // ---- What the shipper asks ----

    WorldPoint IShipperListener.RecordedCut => RecordedCut;

    void IShipperListener.HoldWrites(bool isHeld)
    {
        if (!isHeld)
        {
            _report.Info($"shard {_options.Shard}: the backup has caught up: writes go on");
            ReleaseWrites();
            return;
        }
        _holdsWrites = true;
        _report.Warn($"shard {_options.Shard}: writes of clients wait, since {OptionText.FormatSize(_options.Site.BackupBudgetBytes)} of the log are kept for the backup at {Way!.Target} (--backup-budget): "
            + "bring it back, or have it given up by --on-backup-lag detach");
    }

    private void ReleaseWrites()
    {
        if (!_holdsWrites) { return; }
        _holdsWrites = false;
        OnHoldEnded();
    }

    void IShipperListener.OnReplied(ShipReply reply)
    {
        if (_options.Site.Lease is not { } term || reply.EchoUs == 0) { return; }
        lock (_machineLock)
        {
            (_lease ??= new((long)term.TotalMicroseconds)).Granted(reply.EchoUs, MonotonicMicroseconds());
            if (_machine is null || CommittedVersion == RecordedCut.Version.Number) { return; }
            TellCommitted();
        }
        WakeWaiting();
    }

    // Where the backup grants leases commits are told under one only.
    protected override bool MayTell => !Ships || _options.Site.Lease is null || _lease?.Holds(MonotonicMicroseconds()) == true;

    protected override void OnCommitted(WorldPoint point)
    {
        base.OnCommitted(point);
        if (!Ships) { return; }
        _lag.Committed(point, MonotonicMicroseconds());
        _shipper?.Wake();
    }

    private void WakeWaiting()
    {
        if (_loop is { AnybodyWaits: true } loop) { loop.Post(loop.OnCommitted); }
    }

    void IShipperListener.OnWatermark(WorldPoint watermark)
    {
        _lag.Reached(watermark, MonotonicMicroseconds());
        lock (_watermarkLock)
        {
            if (watermark > _watermark) { _watermark = watermark; }
        }
        WakeWaiting();
    }

    void IShipperListener.OnShippingFailed(Exception e)
    {
        switch (e)
        {
            case BrokenInvariantException:
                Fatal(e.Message);
                break;
            case LogException log:
                OnLogFailure(log);
                break;
            default:
                Fail(ProxyExit.Failed($"shard {_options.Shard}: shipping to the backup failed: {e}", "report this"));
                break;
        }
    }

    void IShipperListener.OnShippingDeposed(Sender by, bool isSite)
    {
        if (isSite) { OnSiteDeposed(by.Site); }
        else { OnDeposed(""); }
    }

    // ---- Another site rules ----

    // Nothing is committed or answered any more; the site's SQL is told, so that no process starts here but as a backup's.
    private void OnSiteDeposed(SiteEpoch by)
    {
        if (Interlocked.Exchange(ref _isDeposed, 1) != 0) { return; }
        lock (_machineLock) { _machine?.Deposed(); }
        ShutForGood();
        PostToLoop(() => _loop!.CloseStore("another site is the primary"));
        _ = Task.Run(async () =>
        {
            string note = "";
            try
            {
                using var limit = new CancellationTokenSource(DeposedNoteLimit);
                await _seat.Metadata.ChangeSiteAsync(_seat.Cluster, s => new(s.DeposedBy(by), null), limit.Token).ConfigureAwait(false);
            }
            catch (Exception e) when (e is MetadataException or OperationCanceledException)
            {
                note = $" It could not be noted in the metadata ({e.Message}), so other processes of this site may go on until they hear of it from the backup.";
            }
            Fail(ProxyExit.Failed(
                $"another site has taken over cluster \"{_seat.Cluster}\", with site epoch {by}: shard {_options.Shard} is served there, and no more here.{note}",
                "lead clients to the other site; slogger seed makes this one its backup"));
        });
    }

    // ---- Status ----

    /// <inheritdoc />
    public string ShippingState => !Ships ? "off" : _shipper?.Status.State switch
    {
        null => "recovering",
        ShipperState.Away => "away",
        ShipperState.Greeting => "greeting",
        ShipperState.Shipping => "shipping",
        ShipperState.AwaitsSeed => "seeding",
        ShipperState.Detached => "detached",
        _ => "deposed",
    };

    protected override void AppendSite(Action<string, object> line)
    {
        base.AppendSite(line);
        if (!Ships) { return; }
        line("site_epoch", Rule);
        line("backup", Way!.Target);
        line("backup_state", ShippingState);
        if (_shipper is not { } shipper) { return; }
        ShipperStatus status = shipper.Status;
        line("backup_problem", status.Problem ?? "none");
        if (status.Seeding is { } seeding)
        {
            line("backup_seed_has_bytes", seeding.HasBytes);
            line("backup_seed_bytes", seeding.Bytes);
        }
        line("backup_generation", status.Generation);
        line("backup_watermark_worldline", status.Watermark.WorldLine);
        line("backup_watermark", status.Watermark.Version);
        line("backup_lag_ms", (_lag.At(MonotonicMicroseconds()) / 1000.0).ToString("0.###", CultureInfo.InvariantCulture));
        line("backup_log_bytes", status.End.Offset);
        line("backup_received_bytes", status.Received.Offset);
        line("backup_durable_bytes", status.BackedUp.Offset);
        line("backup_sent_bytes", status.BytesSent);
        line("backup_bytes_per_sec", _shippingRate.PerSecond(status.BytesSent));
        line("backup_window_used_bytes", status.WindowUsed);
        line("backup_kept_bytes", status.Kept);
        line("backup_budget_bytes", _options.Site.BackupBudgetBytes);
        line("writes_held", _holdsWrites ? 1 : 0);
        if (_options.Site.Lease is null) { return; }
        lock (_machineLock) { line("site_lease", MayTell ? "held" : "expired"); }
    }
}
