// Ships a shard's log to the processes of its backup, while the shard serves. A backup with another number of shards has several for
// one shard of the primary. Each is a backup by itself (BackupTarget), and the shard waits for the last of them.
//
// A shipper lives from when the shard's link follows its store until that is lost. What a recovery does to the log meanwhile is seen by
// none: a rollback in place that comes to nothing, for example, is begun again in the same world-line.
//
// What the backup needs of the log is not trimmed. Where a lease is wanted, commits are told only while replies of the backup are
// recent: whoever tells one asks at that moment (MayTell). So are clients answered, if the backup could take over (SiteGate).
using System.Globalization;
using System.Text;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Files;
using Slogger.Proxy.Configuration;
using Slogger.Replication.Links;
using Slogger.Replication.Sending;

namespace Slogger.Proxy.Shards;

/// <summary>What shipping asks of the shard. Any thread.</summary>
internal interface IShippingShard
{
    /// <summary>Whether the store serves.</summary>
    bool IsOpen { get; }

    /// <summary>The recorded cut.</summary>
    WorldPoint RecordedCut { get; }

    /// <summary>The grids by which the versions of its log went.</summary>
    VersionGrid? Grid { get; }

    /// <summary>What the shard's cohort has committed; null: it has none.</summary>
    LogIndex? CommittedByCohort { get; }

    /// <summary>There is something to do for <see cref="BackupShipping.KeepSeedingAsync"/>.</summary>
    void Wake();

    /// <summary>The open version is to end, even if nobody writes.</summary>
    void MarkChanged();

    /// <summary>Writes are no longer held for one of the targets.</summary>
    void OnHoldEnded();

    /// <summary>Clients that wait for a commit, or for a watermark, may be told more than before.</summary>
    void WakeWaiting();

    /// <summary>Replies that waited for the lease may leave.</summary>
    void WakeSilent();

    /// <summary>See <see cref="IShipperListener.OnShippingDeposed"/>.</summary>
    void OnShippingDeposed(Sender by, bool isSite);

    /// <summary>See <see cref="IShipperListener.OnShippingFailed"/>.</summary>
    void OnShippingFailed(Exception e);
}

/// <summary>The shipping of one shard's log. Any thread, if nothing else is said.</summary>
internal sealed class BackupShipping
{
    // Of the log, in memory: what is shipped before it is durable, and for as long as the backup keeps up.
    private const int TailBytesMin = 8 << 20, TailBytesMax = 64 << 20;
    private readonly SiteOptions _site;
    private readonly IShippingShard _shard;
    private readonly BackupTarget[] _targets;
    private readonly ShippingLag _lag = new();
    private readonly OperationRate _rate = new();
    private readonly CommitRight? _right;       // granted under the lock; null: no lease is wanted
    private readonly SiteGate? _gate;           // changed under the lock; null: no lease is wanted
    private readonly string _gateFile;
    private readonly Lock _lock = new();
    private WorldPoint _watermark;              // under the lock
    private long _openings;
    private readonly ILogger _report;
    private readonly ShardId _number;
    private bool _wasSilent;

    /// <summary>Nothing is shipped before <see cref="Begin"/>.</summary>
    /// <param name="options">The shard's.</param>
    /// <param name="connectors">How the backup's processes for this shard are reached; at least one.</param>
    /// <param name="log">What is shipped.</param>
    /// <param name="dumps">What a backup is seeded with.</param>
    /// <param name="shard">Is asked, and told.</param>
    /// <param name="report">For people.</param>
    public BackupShipping(ServeOptions options, IReadOnlyList<IShipConnector> connectors, VersionLog log, RedisDumps dumps,
        IShippingShard shard, ILogger report)
    {
        (_site, _shard, _number, _report) = (options.Site, shard, options.Shard, report);
        _gateFile = Path.Combine(options.DataDirectory, "backup-follows");
        if (options.Site.Lease is { } term)
        {
            _right = new(connectors.Count, (long)term.TotalMicroseconds);
            _gate = new(connectors.Count, options.Cohort is not null, ReadGate());
        }
        // One of several has a place of its own for the copy that it is seeded with.
        string copies = CopiesOf(options);
        if (connectors.Count > 1 && Directory.Exists(copies) && Directory.EnumerateFiles(copies).Any())
        {
            Directory.Delete(copies, recursive: true);
        }
        _targets = [.. connectors.Select((connector, i) => new BackupTarget(options, i, connector, log,
            new(options, log, dumps, connectors.Count == 1 ? copies : Path.Combine(copies, i.ToString(CultureInfo.InvariantCulture)),
                $"the backup at {connector.Target}", shard, report),
            this, shard, report))];
    }

    /// <summary>Where the copies lie that the backup is seeded with.</summary>
    public static string CopiesOf(ServeOptions options) => Path.Combine(options.DataDirectory, "copies");

    /// <summary>How much of the log is wanted in memory.</summary>
    public static int TailBytes(SiteOptions site) => (int)Math.Clamp(site.BackupWindowBytes, TailBytesMin, TailBytesMax);

    /// <summary>From here on the log is kept: what nobody needs any more but the backup.</summary>
    public long NeededFrom => _targets.Min(t => t.NeededFrom);

    /// <summary>Whether writes of clients wait, since the backup does not keep up.</summary>
    public bool HoldsWrites => _targets.Any(t => t.HoldsWrites);

    /// <summary>Whether commits may be told at this moment.</summary>
    public bool MayTell => _right is not { } right || right.Holds(LeaseClock.NowUs);

    /// <summary>Whether clients may be answered at this moment.</summary>
    public bool MaySpeak => _gate is not { NeedsLease: true } || MayTell;

    /// <summary>What the backup as a whole has durable.</summary>
    public WorldPoint Watermark
    {
        get
        {
            lock (_lock) { return _watermark; }
        }
    }

    /// <summary>What it does, for people. Of several targets: what the one does that is furthest from shipping.</summary>
    public string State => _targets.MinBy(t => t.Status?.State switch
    {
        null => -1,
        ShipperState.Shipping => 2,
        ShipperState.AwaitsSeed => 1,
        _ => 0,
    })!.Status?.State switch
    {
        null => "recovering",
        ShipperState.Away => "away",
        ShipperState.Greeting => "greeting",
        ShipperState.Shipping => "shipping",
        ShipperState.AwaitsSeed => "seeding",
        ShipperState.Detached => "detached",
        _ => "deposed",
    };

    /// <summary>Ships, now that the store is followed. The control task.</summary>
    /// <param name="site">The epoch of the site under which this shard leads.</param>
    /// <param name="epoch">This process's.</param>
    /// <param name="shape">How keys are divided: <see cref="IShipConnector.Shape"/>.</param>
    public void Begin(SiteEpoch site, long epoch, Func<ShipShape?> shape)
    {
        var self = new Sender(site, epoch, ++_openings);
        lock (_lock) { _gate?.Begin(site); }
        foreach (BackupTarget target in _targets) { target.Begin(self, shape); }
        _shard.WakeSilent();
    }

    /// <summary>Ships no more, until it is begun again. The control task, and the end.</summary>
    public async Task EndAsync()
    {
        foreach (BackupTarget target in _targets) { await target.EndAsync().ConfigureAwait(false); }
    }

    /// <summary>There are more bytes in the log, up to an offset. Never waits.</summary>
    public void Appended(long end)
    {
        foreach (BackupTarget target in _targets) { target.Appended(end); }
    }

    /// <summary>More of the log is durable. Never waits.</summary>
    public void Synced()
    {
        foreach (BackupTarget target in _targets) { target.Synced(); }
    }

    /// <summary>The log is to be looked at. Never waits.</summary>
    public void Wake()
    {
        foreach (BackupTarget target in _targets) { target.Wake(); }
    }

    /// <summary>The recorded cut has moved on.</summary>
    public void OnCommitted(WorldPoint point)
    {
        _lag.Committed(point, ShardClock.MonotonicUs());
        Wake();
    }

    /// <summary>Makes copies for targets that are to be seeded, and deletes those that are not needed any more. The control task.</summary>
    public async Task KeepSeedingAsync(CancellationToken stop)
    {
        foreach (BackupTarget target in _targets) { await target.KeepSeedingAsync(stop).ConfigureAwait(false); }
    }

    /// <summary>Says that clients get no replies, or get them again. The control task.</summary>
    public void ReportSilence()
    {
        if (MaySpeak != _wasSilent) { return; }
        _wasSilent = !_wasSilent;
        if (!_wasSilent) { _report.Info($"shard {_number}: clients get replies again"); }
        else
        {
            _report.Warn($"shard {_number}: clients get no replies: the site lease has run out, and the backup may have taken over. They get "
                + "them when it answers; or take --backup and --site-lease away, if it never will again");
        }
    }

    /// <summary>Ships again to a backup that was given up. Whether it ships now, to all its processes.</summary>
    public bool Attach() => _targets.Count(t => t.Attach()) == _targets.Length;

    // ---- What targets say ----

    /// <summary>One has answered.</summary>
    /// <param name="target">Its number.</param>
    /// <param name="echoUs">See <see cref="CommitRight.Granted"/>.</param>
    public void OnReplied(int target, long echoUs)
    {
        if (_right is not { } right) { return; }
        bool hasBegun;
        lock (_lock) { hasBegun = right.Granted(target, echoUs, LeaseClock.NowUs); }
        if (!hasBegun) { return; }
        _shard.WakeWaiting();
        _shard.WakeSilent();
    }

    /// <summary>See <see cref="SiteGate.Welcomed"/>.</summary>
    /// <exception cref="IOException">That could not be kept.</exception>
    public void OnWelcomed(int target)
    {
        if (_gate is not { } gate) { return; }
        lock (_lock)
        {
            if (gate.Welcomed(target) is not { } epoch) { return; }
            DurableFile.Write(SystemFileLayer.Instance, _gateFile, Encoding.ASCII.GetBytes(epoch.ToString()));
        }
    }

    /// <summary>See <see cref="SiteGate.IsSeeded"/>.</summary>
    public void OnSeeded(int target)
    {
        if (_gate is not { NeedsLease: true } gate) { return; }
        lock (_lock) { gate.IsSeeded(target); }
        _shard.WakeSilent();
    }

    private SiteEpoch? ReadGate()
    {
        if (DurableFile.Read(SystemFileLayer.Instance, _gateFile) is not { } kept) { return null; }
        return long.TryParse(Encoding.ASCII.GetString(kept), NumberStyles.None, CultureInfo.InvariantCulture, out long epoch) ? new(epoch)
            : throw new InvalidDataException($"{_gateFile} is damaged: put it back from a copy of the data directory.");
    }

    /// <summary>The backup as a whole has more durable.</summary>
    public void OnWatermark(WorldPoint watermark)
    {
        _lag.Reached(watermark, ShardClock.MonotonicUs());
        lock (_lock)
        {
            if (watermark > _watermark) { _watermark = watermark; }
        }
        _shard.WakeWaiting();
    }

    // ---- Status ----

    /// <summary>Lines for people.</summary>
    public void AppendStatus(Action<string, object> line)
    {
        line("backup", string.Join(", ", _targets.Select(t => t.Name)));
        line("backup_state", State);
        ShipperStatus[] all = [.. _targets.Select(t => t.Status).OfType<ShipperStatus>()];
        if (all.Length < _targets.Length) { return; }
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
        line("backup_lag_ms", (_lag.At(ShardClock.MonotonicUs()) / 1000.0).ToString("0.###", CultureInfo.InvariantCulture));
        line("backup_log_bytes", all[0].End.Offset);
        line("backup_received_bytes", all.Min(s => s.Received.Offset));
        line("backup_durable_bytes", all.Min(s => s.BackedUp.Offset));
        line("backup_sent_bytes", sent);
        line("backup_bytes_per_sec", _rate.PerSecond(sent));
        line("backup_sends_windows", all.Any(s => s.SendsWindows) ? 1 : 0);
        line("backup_spared_bytes", all.Sum(s => s.BytesSpared));
        line("backup_window_used_bytes", all.Sum(s => s.WindowUsed));
        line("backup_kept_bytes", all.Max(s => s.Kept));
        line("backup_budget_bytes", _site.BackupBudgetBytes);
        line("writes_held", HoldsWrites ? 1 : 0);
        if (_right is null) { return; }
        line("site_lease", MayTell ? "held" : "expired");
        line("replies_held", MaySpeak ? 0 : 1);
    }
}
