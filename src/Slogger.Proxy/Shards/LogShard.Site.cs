// A shard with --commit log beside another site: at a backup its Redis follows, and is compared with the log in a drill; at a primary its
// log is shipped (BackupShipping).
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Drills;
using Slogger.Redis.Connections;
using Slogger.Redis.Replication;
using Slogger.Replication.Following;
using Slogger.Replication.Links;
using LogIndex = Slogger.Core.Replication.LogIndex;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard : IShippingShard
{
    private BackupShipping? _shipping;      // null: nothing is shipped
    private bool _isShippingDue;            // it waits for the cohort's first commit; the control task

    /// <summary>How the backup's processes for this shard are reached; none: nothing is shipped.</summary>
    public IReadOnlyList<IShipConnector> Backups { get; init; } = [];

    // ---- A Redis that follows: the start ----

    internal override VersionLog StreamLog => _log;

    internal override CheckpointStore StreamCheckpoints => _checkpoints;

    internal override async Task FollowAsync(CancellationToken stop)
    {
        // A node of a site that rules no more is to end, and not to be elected first.
        if (Cohort is not null && Ships) { await Site.LearnAsync(stop).ConfigureAwait(false); }
        await _store.EnsureRunningAsync(stop).ConfigureAwait(false);
        await _fence.ShutOutAsync(stop).ConfigureAwait(false);
        ProbeResult probe = await ProbeAsync(stop).ConfigureAwait(false);
        if (probe.Facts is not { } facts || (!probe.IsUsable && probe.Problem != RedisProblem.NotMaster))
        {
            throw new RecoveryRefusedException($"{probe.Message} {probe.Problem.Remedy()}");
        }
        RefuseForeign(facts);
        await TrialRedis.ClearAsync(_options, stop).ConfigureAwait(false);
        // A life may be too short for anything else.
        _checkpointer.CarryForward();
        var followed = new FollowedRedis(_log, _checkpoints, () => _fence.Endpoint, _restoreUndoFile, Intake!.WithLogAsync);
        await FollowAsync(followed, facts.IsMaster, stop).ConfigureAwait(false);
    }

    // What others have put there is not overwritten unasked.
    private void RefuseForeign(RedisFacts facts)
    {
        bool isOwn = !_log.IsEmpty && (facts.ReplicationId == _log.ReplicationId || facts.SecondReplicationId == _log.ReplicationId);
        bool mayOverwrite = facts.KeyCount == 0 || _store.IsSupervised || _options.Seed == SeedSource.FromLog;
        if (mayOverwrite || isOwn || File.Exists(_restoreUndoFile)) { return; }
        throw new RecoveryRefusedException($"shard {_options.Shard}: {_store.Name} holds {facts.KeyCount} keys of unknown origin, and a "
            + "backup's Redis is overwritten by what the primary has. Nothing was changed. Give it another Redis, empty this one "
            + "(FLUSHALL), or give --seed from-log");
    }

    internal override Task LookAtFollowedAsync(CancellationToken stop) => _fence.KeepAsync(stop);

    internal override Task OnLoadedAsync(CancellationToken stop) => ProbeAsync(stop);

    internal override void OnFollowedGrid(VersionGrid grid) => _followedGrid.NoteOrWarn(grid, _report, _options.Shard);

    // By which the versions of the log went: those that were followed by the grids of where they were opened, those of this site's own
    // rule by its own.
    private VersionGrid? PastGrid
    {
        get
        {
            if (IsFollowing) { return _followedGrid.Grid ?? (Cohort is null ? null : Seat.Grid); }
            return Cohort is null ? _followedGrid.JoinedWith(Seat.Grid) : Seat.Grid;
        }
    }

    VersionGrid? IShippingShard.Grid => PastGrid;

    internal override async Task KeepFollowedAsync(CancellationToken stop)
    {
        _checkpointer.CarryForward();
        KeepPast();
        if (IsOpen && _checkpointer.IsDue) { await _checkpointer.TakeAsync(stop).ConfigureAwait(false); }
    }

    // ---- Drills ----

    internal override async Task<RestoreTrial> CompareAsync(CancellationToken stop) => _options.RedisServerPath is null
        ? RestoreTrial.Impossible("this process knows no redis-server program to restore into, since its Redis is run by others (--redis): "
            + "restore from a copy of the data directory (slogger restore --redis-server), or have the process run its Redis "
            + "(--redis-server)")
        : await TrialRedis.CompareAsync(_options, _log, _checkpoints, TakeCopyAsync, stop).ConfigureAwait(false);

    // What the store holds at the version at which it stands: nothing is applied until Redis has forked.
    private async Task<(Boundary? At, string Flaw)> TakeCopyAsync(string file, CancellationToken stop)
    {
        await using RedisConnection control = await RedisConnection.ConnectAsync(
            _fence.Endpoint, cancellation: stop).ConfigureAwait(false);
        if (await Follower.HoldStandingAsync(stop).ConfigureAwait(false) is not var (end, letGo))
        {
            return (null, $"{_store.Name} stands at no version: it is loaded, or seeded");
        }
        try
        {
            CheckpointResult result = await QuickAttach.FetchAsync(
                control, file, _attachUndoFile, cancellation: stop, onTaken: letGo).ConfigureAwait(false);
            stop.ThrowIfCancellationRequested();
            return result switch
            {
                CheckpointResult.Failed failed => (null, $"what {_store.Name} holds could not be read: {failed.Message}"),
                CheckpointResult.Fetched fetched when fetched.Offset != end.Offset => (null, $"{_store.Name} should stand at offset "
                    + $"{end.Offset}, the end of version {end.Version}, and stands at {fetched.Offset}"),
                _ => (end, ""),
            };
        }
        finally
        {
            letGo();
        }
    }

    // ---- The log is shipped ----

    private bool Ships => Backups.Count > 0;

    // Who owns which slots only this site's SQL says: after a failover each would be looked for where it was when the backup was made.
    public override string? KeepsSlots => !Ships ? null : $"shard {_options.Shard} has a backup, which does not learn who owns which "
        + "slots: call the move off, or do it without --backup at all shards, and make the backup anew";

    // A backup is brought to one version of all shards, and a cut of other finders is none.
    private void RequireOneVersion()
    {
        if (!Ships || !Seat.HasPeers || Seat.Finder.HasGridCuts) { return; }
        throw new RecoveryRefusedException($"shard {_options.Shard}: a cluster with --finder {Seat.Finder.Name} has no backup yet, since "
            + "its cuts are no one version of all shards: leave --backup out");
    }

    private void OpenShipping(RedisDumps dumps)
    {
        // Who follows sends none; where nothing is shipped they would lie there for ever.
        if (!Ships || IsFollowing) { BackupSeeding.DeleteCopies(BackupShipping.CopiesOf(_options)); }
        if (Cohort is not null) { BackupSeeding.DeleteCopies(CohortLead.CopiesOf(_options)); }
        if (Ships) { _shipping = new(_options, Backups, _log, dumps, this, _report); }
    }

    // What a cohort has not committed is not shipped: a founder's has nothing yet.
    private void BeginShipping()
    {
        _isShippingDue = _lead is { Commit: null };
        if (!_isShippingDue) { _shipping?.Begin(SiteEpochOfLog, Seat.Epoch, () => Shape); }
    }

    private Task EndShippingAsync()
    {
        _isShippingDue = false;
        return _shipping?.EndAsync() ?? Task.CompletedTask;
    }

    // Under which this site leads. A process of a backup that has just taken over knows it by the world-line, before it has looked.
    private SiteEpoch SiteEpochOfLog =>
        !_log.IsEmpty && SiteEpoch.Of(_log.WorldLine) is var began && began > Site.State.Epoch ? began : Site.State.Epoch;

    // Null: who owns which slots has yet to be read, at the start.
    private ShipShape? Shape => Seat.Partitions.Kind != PartitionKind.Hash ? new(Seat.ShardCount, "")
        : !Seat.HasPeers ? new(1, $"{new SlotRange(new(0), HashSlot.Last)}")
        : Moves.Watch is { } slots ? new(Seat.ShardCount, string.Join(',', SlotsOwned(slots)))
        : null;

    private IEnumerable<SlotRange> SlotsOwned(SlotWatch slots) =>
        slots.Table.Map.Rows.Where(r => r.Shard == _options.Shard).Select(r => r.Slots);

    internal override bool HoldsWrites => _shipping is { HoldsWrites: true };

    /// <inheritdoc />
    public override WorldPoint? Watermark => _shipping?.Watermark;

    internal override bool AttachBackup() => _shipping is { } shipping && shipping.Attach();

    /// <inheritdoc />
    public override string ShippingState => _shipping?.State ?? "off";

    // A backup tells what its site as a whole will never lose.
    /// <inheritdoc />
    public override bool MayTell => base.MayTell && (IsFollowing || (_shipping is { } shipping ? shipping.MayTell : !Ships));

    /// <inheritdoc />
    public override bool MaySpeak => (_lead is not { } lead || lead.MaySpeak) && (IsFollowing || _shipping is not { MaySpeak: false });

    internal override void OnCommitted(WorldPoint point)
    {
        base.OnCommitted(point);
        _shipping?.OnCommitted(point);
        _lead?.Wake();
    }

    internal override void AppendSite(Action<string, object> line)
    {
        base.AppendSite(line);
        if (_shipping is not { } shipping) { return; }
        line("site_epoch", SiteEpochOfLog);
        shipping.AppendStatus(line);
    }

    // ---- What shipping asks ----

    LogIndex? IShippingShard.CommittedByCohort => _lead is { } lead ? lead.Commit ?? default : null;

    // A store that follows stands where it is brought: that of a node that is about to lead at the log's end, which need not be recorded.
    WorldPoint IShippingShard.RecordedCut => Versions.IsAttached ? RecordedCut : default;

    void IShippingShard.Wake() => Lifetime.Wake();

    void IShippingShard.MarkChanged() => Versions.MarkChanged();

    void IShippingShard.OnHoldEnded() => Access.OnHoldEnded();

    void IShippingShard.WakeWaiting() => Access.WakeWaiting();

    void IShippingShard.WakeSilent() => Access.WakeSilent();

    void IShippingShard.OnShippingDeposed(Sender by, bool isSite)
    {
        if (isSite) { Site.OnDeposed(by.Site); }
        else { Membership.OnDeposed(""); }
    }

    void IShippingShard.OnShippingFailed(Exception e)
    {
        switch (e)
        {
            case BrokenInvariantException:
                Lifetime.Fatal(e.Message);
                break;
            case LogException log:
                OnLogFailure(log);
                break;
            default:
                Fail(ProxyExit.Failed($"shard {_options.Shard}: shipping to the backup failed: {e}", "report this"));
                break;
        }
    }
}
