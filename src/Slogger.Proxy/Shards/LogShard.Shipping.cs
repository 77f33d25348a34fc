// Ships the log to the backup's process, or processes (LogShard.Ways), while this shard serves. A shipper lives from when the replication link follows the store until that is lost: what a recovery does to the log meanwhile
// (a rollback in place that comes to nothing is begun again, in the same world-line) is seen by none.
//
// What the backup has durable is not trimmed before; what only a copy that it is seeded with reaches back to neither. Where a lease is wanted, commits are told only while
// replies of the backup are recent: whoever tells one asks at that moment (MayTell).
using System.Globalization;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Log.Format;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Replication.Links;
using Slogger.Replication.Sending;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard
{
    // Of the log, in memory: what is shipped before it is durable, and for as long as the backup keeps up.
    private const int TailBytesMin = 8 << 20, TailBytesMax = 64 << 20;
    private readonly ShippingLag _lag = new();
    private readonly OperationRate _shippingRate = new();
    private BackupWay[] _ways = [];
    private CommitRight? _right;         // granted under the machine's lock; null: no lease is wanted
    private long _openings;
    private readonly Lock _watermarkLock = new();
    private WorldPoint _watermark;

    /// <summary>The ways to the backup's processes for this shard; none: nothing is shipped.</summary>
    public IReadOnlyList<IShipConnector> Ways { get; init; } = [];

    private bool Ships => Ways.Count > 0;

    private int ShippedTailBytes => (int)Math.Clamp(_options.Site.BackupWindowBytes, TailBytesMin, TailBytesMax);

    // Who owns which slots only this site's SQL says: after a failover each would be looked for where it was when the backup was made.
    public override string? KeepsSlots => Ships ? $"shard {_options.Shard} has a backup, which does not learn who owns which slots: call the move off, or do it without --backup at all shards, and make the backup anew" : null;

    // A backup is brought to one version of all shards, and a cut of other finders is none.
    private void RequireOneVersion()
    {
        if (!Ships || !_seat.HasPeers || _seat.Finder.HasGridCuts) { return; }
        throw new RecoveryRefusedException($"shard {_options.Shard}: a cluster with --finder {_seat.Finder.Name} has no backup yet, since its cuts are no one version of all shards: leave --backup out");
    }

    // One of several has a place of its own for the copy that it is seeded with. Where nothing is shipped one that was being sent would lie there for ever.
    private void OpenWays()
    {
        string copies = Path.Combine(_options.DataDirectory, "copies");
        bool isOfNoUse = !Ships || IsFollowing || (Ways.Count > 1 && Directory.Exists(copies) && Directory.EnumerateFiles(copies).Any());
        if (isOfNoUse && Directory.Exists(copies)) { Directory.Delete(copies, recursive: true); }
        _ways = [.. Ways.Select((way, i) => new BackupWay(this, i, way, Ways.Count == 1 ? copies : Path.Combine(copies, i.ToString(CultureInfo.InvariantCulture))))];
        foreach (BackupWay way in _ways) { way.FindCopy(); }
        if (Ships && _options.Site.Lease is { } term) { _right = new(_ways.Length, (long)term.TotalMicroseconds); }
    }

    // The control task, whenever the log is followed.
    private void BeginShipping()
    {
        if (!Ships) { return; }
        var self = new Sender(Rule, _seat.Epoch, ++_openings);
        foreach (BackupWay way in _ways) { way.Begin(self, () => Shape); }
    }

    private void WakeShippers()
    {
        foreach (BackupWay way in _ways) { way.Shipper?.Wake(); }
    }

    private async Task MaintainSeedAsync(CancellationToken stop)
    {
        foreach (BackupWay way in _ways) { await way.MaintainSeedAsync(stop).ConfigureAwait(false); }
    }

    // Null: who owns which slots has yet to be read, at the start.
    private ShipShape? Shape => _seat.Partitions.Kind != PartitionKind.Hash ? new(_seat.ShardCount, "")
        : !_seat.HasPeers ? new(1, $"{new SlotRange(new(0), HashSlot.Last)}")
        : _slots is { } slots ? new(_seat.ShardCount, string.Join(',', slots.Table.Map.Rows.Where(r => r.Shard == _options.Shard).Select(r => r.Slots))) : null;

    // Under which this site leads. A process of a backup that has just taken over knows it by the world-line, before it has looked.
    private SiteEpoch Rule => !_log.IsEmpty && SiteEpoch.Of(_log.WorldLine) is var began && began > _site.State.Epoch ? began : _site.State.Epoch;

    private async Task EndShippingAsync()
    {
        foreach (BackupWay way in _ways) { await way.EndAsync().ConfigureAwait(false); }
    }

    // From here on the log is kept: what nobody needs any more but the backup.
    private long ShippedFrom => !Ships || IsFollowing ? long.MaxValue : _ways.Min(w => w.KeptFrom);

    protected override bool HoldsWrites => _ways.Any(w => w.HoldsWrites);

    private string Targets => string.Join(", ", _ways.Select(w => w.Target));

    /// <inheritdoc />
    public override WorldPoint? Watermark
    {
        get
        {
            if (!Ships) { return null; }
            lock (_watermarkLock) { return _watermark; }
        }
    }

    protected override bool AttachBackup() => _ways.Length > 0 && _ways.Count(w => w.Attach()) == _ways.Length;

    // ---- What shippers ask ----

    // Where the backup grants leases commits are told under one only. A backup tells what its site as a whole will never lose.
    private bool NeedsRight => Ships && _options.Site.Lease is not null && !IsFollowing;

    /// <inheritdoc />
    public override bool MayTell => base.MayTell && (!NeedsRight || _right?.Holds(LeaseClock.NowUs) == true);

    protected override void OnCommitted(WorldPoint point)
    {
        base.OnCommitted(point);
        if (!Ships) { return; }
        _lag.Committed(point, MonotonicMicroseconds());
        WakeShippers();
    }

    private void WakeWaiting()
    {
        if (_loop is { AnybodyWaits: true } loop) { loop.Post(loop.OnCommitted); }
    }

    private void OnWatermark(WorldPoint watermark)
    {
        _lag.Reached(watermark, MonotonicMicroseconds());
        lock (_watermarkLock)
        {
            if (watermark > _watermark) { _watermark = watermark; }
        }
        WakeWaiting();
    }

    private void OnShippingFailed(Exception e)
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

    private void OnShippingDeposed(Sender by, bool isSite)
    {
        if (isSite) { _site.OnDeposed(by.Site); }
        else { OnDeposed(""); }
    }

    // ---- Status ----

    // Of several: the one that is furthest from shipping.
    private BackupWay? Behind => _ways.MinBy(w => w.Shipper?.Status.State is not { } state ? -1 : state switch { ShipperState.Shipping => 2, ShipperState.AwaitsSeed => 1, _ => 0 });

    /// <inheritdoc />
    public override string ShippingState => Behind is not { } way ? "off" : way.Shipper?.Status.State switch
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
        line("backup", Targets);
        line("backup_state", ShippingState);
        ShipperStatus[] all = [.. _ways.Select(w => w.Shipper?.Status).OfType<ShipperStatus>()];
        if (all.Length < _ways.Length) { return; }
        // Of several: what the one has that is furthest behind, and what goes to all of them together.
        line("backup_problem", all.Select(s => s.Problem).FirstOrDefault(p => p is not null) ?? "none");
        if (all.Any(s => s.Seeding is not null))
        {
            line("backup_seed_has_bytes", all.Sum(s => s.Seeding?.HasBytes ?? 0));
            line("backup_seed_bytes", all.Sum(s => s.Seeding?.Bytes ?? 0));
        }
        WorldPoint watermark = all.Max(s => s.Watermark);
        long sent = all.Sum(s => s.BytesSent);
        line("backup_generation", all.Min(s => s.Generation));
        line("backup_watermark_worldline", watermark.WorldLine);
        line("backup_watermark", watermark.Version);
        line("backup_lag_ms", (_lag.At(MonotonicMicroseconds()) / 1000.0).ToString("0.###", CultureInfo.InvariantCulture));
        line("backup_log_bytes", all[0].End.Offset);
        line("backup_received_bytes", all.Min(s => s.Received.Offset));
        line("backup_durable_bytes", all.Min(s => s.BackedUp.Offset));
        line("backup_sent_bytes", sent);
        line("backup_bytes_per_sec", _shippingRate.PerSecond(sent));
        line("backup_window_used_bytes", all.Sum(s => s.WindowUsed));
        line("backup_kept_bytes", all.Max(s => s.Kept));
        line("backup_budget_bytes", _options.Site.BackupBudgetBytes);
        line("writes_held", HoldsWrites ? 1 : 0);
        if (_options.Site.Lease is null) { return; }
        line("site_lease", MayTell ? "held" : "expired");
    }
}
