// A process of the backup that the log is shipped to: its shipper, whether writes wait for it, and how much of the log is kept for it.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Proxy.Configuration;
using Slogger.Replication.Links;
using Slogger.Replication.Seeding;
using Slogger.Replication.Sending;

namespace Slogger.Proxy.Shards;

/// <summary>One target of a shard's shipping. Any thread, if nothing else is said.</summary>
/// <param name="options">The shard's.</param>
/// <param name="number">Which target of the shard it is, from 0.</param>
/// <param name="connector">How it is reached.</param>
/// <param name="log">What is shipped.</param>
/// <param name="seeding">The copy that it is seeded with.</param>
/// <param name="shipping">The shard's shipping.</param>
/// <param name="shard">Is asked, and told.</param>
/// <param name="report">For people.</param>
internal sealed class BackupTarget(ServeOptions options, int number, IShipConnector connector, VersionLog log, BackupSeeding seeding,
    BackupShipping shipping, IShippingShard shard, ILogger report) : IShipperListener
{
    private volatile ShardShipper? _shipper;
    private long _keptFrom = long.MinValue;     // while there is no shipper
    private volatile bool _holdsWrites;

    /// <summary>Where it is, for people.</summary>
    public string Name => connector.Target;

    /// <summary>How far shipping is. Null: the log is not followed just now.</summary>
    public ShipperStatus? Status => _shipper?.Status;

    /// <summary>Clients' writes wait for it.</summary>
    public bool HoldsWrites => _holdsWrites;

    /// <summary>The log is kept for it from here on: what it does not have durable, and what a copy goes on with that it is seeded with.
    /// Before it has answered, all of it.</summary>
    public long NeededFrom =>
        Math.Min(_shipper is { } shipper ? shipper.KeepFrom ?? long.MaxValue : _keptFrom, seeding.NeededFrom);

    // ---- Shipping ----

    /// <summary>Ships. The control task.</summary>
    /// <param name="self">As whom.</param>
    /// <param name="shape">How keys are divided.</param>
    public void Begin(Sender self, Func<ShipShape?> shape)
    {
        ReleaseWrites();
        (connector.Shape, connector.Grid) = (shape, () => shard.Grid);
        _shipper = new(log, options.Shard, self, options.Site.ToShipper(), connector, this, report);
    }

    /// <summary>Ships no more, until it is begun again.</summary>
    public async Task EndAsync()
    {
        if (_shipper is not { } shipper) { return; }
        _keptFrom = shipper.KeepFrom ?? long.MaxValue;
        _shipper = null;
        await shipper.DisposeAsync().ConfigureAwait(false);
    }

    /// <summary>See <see cref="ShardShipper.Wake"/>.</summary>
    public void Wake() => _shipper?.Wake();

    /// <summary>See <see cref="ShardShipper.Appended"/>.</summary>
    public void Appended(long end) => _shipper?.Appended(end);

    /// <summary>See <see cref="ShardShipper.Synced"/>.</summary>
    public void Synced() => _shipper?.Synced();

    /// <summary>See <see cref="ShardShipper.Attach"/>.</summary>
    public bool Attach()
    {
        if (_shipper is not { } shipper || !shipper.Attach()) { return false; }
        report.Info($"shard {options.Shard}: the backup at {Name} is wanted");
        return true;
    }

    /// <summary>See <see cref="BackupSeeding.KeepAsync"/>.</summary>
    public Task KeepSeedingAsync(CancellationToken stop) =>
        _shipper is { } shipper ? seeding.KeepAsync(shipper.Status, stop) : Task.CompletedTask;

    // ---- What the shipper says ----

    WorldPoint IShipperListener.RecordedCut => shard.RecordedCut;

    LogIndex IShipperListener.Durable(VersionLog of) => shard.CommittedByCohort ?? of.DurableEnd;

    LogIndex IShipperListener.Ready(VersionLog of) => shard.CommittedByCohort ?? of.End;

    void IShipperListener.HoldWrites(bool isHeld)
    {
        if (!isHeld)
        {
            report.Info($"shard {options.Shard}: the backup has caught up: writes go on");
            ReleaseWrites();
            return;
        }
        _holdsWrites = true;
        report.Warn($"shard {options.Shard}: writes of clients wait, since {OptionText.FormatSize(options.Site.BackupBudgetBytes)} of "
            + $"the log are kept for the backup at {Name} (--backup-budget): bring it back, or have it given up by "
            + "--on-backup-lag detach");
    }

    private void ReleaseWrites()
    {
        if (!_holdsWrites) { return; }
        _holdsWrites = false;
        shard.OnHoldEnded();
    }

    void IShipperListener.OnWelcomed() => shipping.OnWelcomed(number);

    void IShipperListener.OnReplied(ShipReply reply)
    {
        if (reply.Ask is not null && _shipper?.Status.State == ShipperState.AwaitsSeed) { shipping.OnSeeded(number); }
        shipping.OnReplied(number, reply.EchoUs);
    }

    void IShipperListener.OnWatermark(WorldPoint watermark) => shipping.OnWatermark(watermark);

    void IShipperListener.OnShippingFailed(Exception e) => shard.OnShippingFailed(e);

    void IShipperListener.OnShippingDeposed(Sender by, bool isSite) => shard.OnShippingDeposed(by, isSite);

    SeedCopy? IShipperListener.CopyOf(long generation) => seeding.CopyOf(generation);

    void IShipperListener.OnSeedWanted(long generation, string why) => seeding.OnWanted(generation);
}
