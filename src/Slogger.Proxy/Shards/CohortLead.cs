// A shard's reign at its leader: the log is shipped to all other nodes, and what a majority of them has is committed. One reign has one of
// these; the log may begin world-lines meanwhile.
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Ports;
using Slogger.Replication.Links;
using Slogger.Replication.Seeding;
using Slogger.Replication.Sending;

namespace Slogger.Proxy.Shards;

/// <summary>The leading of one reign. Any thread, if nothing else is said.</summary>
internal sealed class CohortLead : ICohortLead
{
    // Of the log, in memory: what is shipped before it is durable.
    public const int TailBytes = 16 << 20;
    private static readonly TimeSpan SeedingPeriod = TimeSpan.FromMilliseconds(50);
    private readonly ICohort _cohort;
    private readonly IShippingShard _shard;
    private readonly VersionLog _log;
    private readonly Action<WorldPoint> _committed;
    private readonly Action _heard;
    private readonly Func<NodeName, IShipConnector, Target> _make;
    private readonly Leader _leader;                // under the lock
    private volatile Target[] _targets;             // changed under the lock
    private readonly Lock _lock = new();
    private readonly TaskCompletionSource _begun = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly CancellationTokenSource _ending = new();
    private Task _seeding = Task.CompletedTask;
    private bool _ships;
    private bool _isSilent;                         // under the lock
    private long _untilUs;                          // of the lease

    /// <summary>A reign begins. Nothing is shipped before <see cref="Begin"/>.</summary>
    /// <param name="options">The shard's.</param>
    /// <param name="reign">Which.</param>
    /// <param name="cohort">The node.</param>
    /// <param name="log">What is shipped.</param>
    /// <param name="dumps">What a follower is given that lacks what the log rests on.</param>
    /// <param name="shard">Is asked, and told.</param>
    /// <param name="committed">Is told what is committed.</param>
    /// <param name="heard">Is told that there is a lease again.</param>
    /// <param name="checkpoints">What the log rests on.</param>
    /// <param name="report">For people.</param>
    public CohortLead(ServeOptions options, Reign reign, ICohort cohort, VersionLog log, RedisDumps dumps, IShippingShard shard,
        Action<WorldPoint> committed, Action heard, CheckpointStore checkpoints, ILogger report)
    {
        (Reign, _cohort, _shard, _log, _committed, _heard) = (reign, cohort, shard, log, committed, heard);
        CohortOptions own = cohort.Options;
        _leader = new(own.Node, reign, cohort.Members, (long)own.Lease.TotalMicroseconds, LeaseClock.NowUs);
        _untilUs = _leader.Lease.UntilUs;
        _make = (node, way) =>
        {
            string copies = Path.Combine(CopiesOf(options), node.Text);
            BackupSeeding seeding = new(options, log, dumps, copies, $"node {node}", shard, report, checkpoints);
            return new Target(options, node, way, log, seeding, this, shard, report);
        };
        _targets = [.. cohort.Others.Select(o => _make(o.Node, o.Way))];
    }

    /// <summary>Where the copies lie that other nodes are given.</summary>
    public static string CopiesOf(ServeOptions options) => Path.Combine(options.DataDirectory, "node-copies");

    /// <summary>The reign.</summary>
    public Reign Reign { get; }

    public Task HasBegun => _begun.Task;

    public LogIndex? Commit
    {
        get
        {
            lock (_lock) { return _leader.Commit; }
        }
    }

    /// <summary>Whether a reply that was read from the store may be sent.</summary>
    public bool MaySpeak => LeaseClock.NowUs < Volatile.Read(ref _untilUs);

    /// <summary>From here on the log is kept: what nobody needs any more but a follower.</summary>
    public long NeededFrom => _targets.Select(t => t.NeededFrom).DefaultIfEmpty(long.MaxValue).Min();

    public IReadOnlyList<CohortFollowerStatus> Followers => [.. _targets.Select(t => t.Status)];

    public void ShipTo(NodeName node, IShipConnector way)
    {
        lock (_lock)
        {
            if (!_ships || _isSilent || _targets.Any(t => t.Node == node)) { return; }
            Target target = _make(node, way);
            target.Begin(Self);
            _targets = [.. _targets, target];
        }
    }

    public async Task ForgetAsync(NodeName node)
    {
        Target? target;
        lock (_lock)
        {
            target = _targets.FirstOrDefault(t => t.Node == node);
            _targets = [.. _targets.Where(t => t != target)];
        }
        if (target is not null) { await target.EndAsync().ConfigureAwait(false); }
    }

    public void Freeze(bool isFrozen)
    {
        lock (_lock) { _leader.IsFrozen = isFrozen || _isSilent; }
        if (!isFrozen) { Synced(); }
    }

    public bool Has(NodeName node)
    {
        lock (_lock) { return _leader.Has(node); }
    }

    public bool MayChange(Cohort next)
    {
        lock (_lock) { return _leader.MayChange(next); }
    }

    public void Look(Action<LeaderLease> look)
    {
        lock (_lock) { look(_leader.Lease); }
    }

    public void Echoed(NodeName node, long sentUs)
    {
        bool isHeard;
        lock (_lock)
        {
            long nowUs = LeaseClock.NowUs;
            _leader.Lease.Echoed(node, sentUs, nowUs);
            isHeard = Renew(nowUs);
        }
        if (isHeard) { _heard(); }
    }

    // Under the lock. Whether there was none before.
    private bool Renew(long nowUs)
    {
        if (_isSilent) { return false; }
        bool isNew = nowUs >= _untilUs && nowUs < _leader.Lease.UntilUs;
        Volatile.Write(ref _untilUs, _leader.Lease.UntilUs);
        return isNew;
    }

    // A reign has one shipper for each node: it opens once.
    private Sender Self => new(default, Reign.Number, 1);

    /// <summary>Ships, now that the log has the reign's record; again: looks at the log only. The control task.</summary>
    public void Begin()
    {
        if (!_ships)
        {
            lock (_lock)
            {
                _ships = true;
                if (_isSilent) { return; }
                foreach (Target target in _targets) { target.Begin(Self); }
            }
            _seeding = Task.Run(SeedAsync);
        }
        Synced();
    }

    /// <summary>The reign is over: nothing more is said in it, nothing is committed, and no reply is let out. Whoever hears of it votes for
    /// nobody else. Never waits.</summary>
    public void FallSilent()
    {
        lock (_lock)
        {
            (_isSilent, _leader.IsFrozen) = (true, true);
            Volatile.Write(ref _untilUs, long.MinValue);
            foreach (Target target in _targets) { target.FallSilent(); }
        }
    }

    /// <summary>Ships no more. The end.</summary>
    public async Task EndAsync()
    {
        FallSilent();
        await _ending.CancelAsync().ConfigureAwait(false);
        await _seeding.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        foreach (Target target in _targets) { await target.EndAsync().ConfigureAwait(false); }
    }

    /// <summary>There is more in the log. Never waits.</summary>
    public void Wake()
    {
        foreach (Target target in _targets) { target.Wake(); }
    }

    /// <summary>More of the log is durable here.</summary>
    public void Synced()
    {
        LogIndex durable = _log.DurableClosed;
        bool hasGrown;
        lock (_lock) { hasGrown = durable.Reign == Reign && _leader.Synced(durable); }
        if (hasGrown) { Tell(); }
    }

    // Copies for followers that lack what the log rests on. The shard cannot serve before a majority has its log, so nobody else does it.
    private async Task SeedAsync()
    {
        try
        {
            while (true)
            {
                foreach (Target target in _targets) { await target.KeepSeedingAsync(_ending.Token).ConfigureAwait(false); }
                await Task.Delay(SeedingPeriod, _ending.Token).ConfigureAwait(false);
            }
        }
        catch (Exception e) when (!_ending.IsCancellationRequested)
        {
            _shard.OnShippingFailed(e);
        }
        catch (OperationCanceledException)
        {
            // The end.
        }
    }

    private void Tell()
    {
        if (Commit is not { } commit) { return; }
        _begun.TrySetResult();
        _committed(commit.Point);
        Wake();
    }

    private void Replied(NodeName node, ShipReply reply)
    {
        bool hasGrown, isHeard;
        lock (_lock)
        {
            long nowUs = LeaseClock.NowUs;
            hasGrown = _leader.Replied(node, reply, nowUs);
            isHeard = Renew(nowUs);
        }
        if (hasGrown) { Tell(); }
        if (isHeard) { _heard(); }
    }

    /// <summary>A follower: its shipper, and how much of the log is kept for it.</summary>
    private sealed class Target(ServeOptions options, NodeName node, IShipConnector connector, VersionLog log, BackupSeeding seeding,
        CohortLead lead, IShippingShard shard, ILogger report) : IShipperListener
    {
        private static readonly ShipperOptions Bounds =
            new() { HeartbeatUs = 20_000, DurableUs = 2_000, FewBytes = 1, AtBudget = BudgetChoice.Detach };
        private volatile ShardShipper? _shipper;
        private long _repliedUs = -1;
        private long _heardUs;                      // by the follower's clock
        private volatile bool _learns;

        public NodeName Node => node;

        // All of it while nobody knows what the follower has.
        public long NeededFrom =>
            Math.Min(_shipper is { } shipper ? shipper.KeepFrom ?? long.MaxValue : long.MinValue, seeding.NeededFrom);

        public CohortFollowerStatus Status
        {
            get
            {
                long silentUs = Volatile.Read(ref _repliedUs) is >= 0 and var at ? LeaseClock.NowUs - at : -1;
                return _shipper?.Status is { } status
                    ? new(node, status.BackedUp, Math.Max(0, status.End.Offset - status.Received.Offset), _learns, silentUs, status.Problem)
                        { Seeding = status.Seeding }
                    : new(node, default, 0, _learns, silentUs, "the log is not shipped at this moment");
            }
        }

        public void Begin(Sender self)
        {
            connector.Grid = () => shard.Grid;
            _shipper = new(log, options.Shard, self, Bounds, connector, this, report);
        }

        public void FallSilent() => _shipper?.FallSilent();

        public async Task EndAsync()
        {
            if (_shipper is not { } shipper) { return; }
            _shipper = null;
            await shipper.DisposeAsync().ConfigureAwait(false);
        }

        public void Wake() => _shipper?.Wake();

        public async Task KeepSeedingAsync(CancellationToken stop)
        {
            if (_shipper is not { } shipper) { return; }
            // One that was given up is copied anew when it is back.
            if (shipper.Status.State == ShipperState.Detached) { shipper.Attach(); }
            await seeding.KeepAsync(shipper.Status, stop).ConfigureAwait(false);
        }

        bool IShipperListener.IsFollower => true;

        WorldPoint IShipperListener.RecordedCut => shard.RecordedCut;

        // Only versions that have ended count: a message for each is enough.
        LogIndex IShipperListener.Ready(VersionLog of) => of.ClosedEnd;

        LogIndex IShipperListener.Durable(VersionLog of) => lead.Commit ?? default;

        bool IShipperListener.Admits
        {
            get
            {
                lock (lead._lock) { return lead._leader.Admits(node); }
            }
        }

        long IShipperListener.HeardUs => Volatile.Read(ref _heardUs);

        bool IShipperListener.IsCurrent => lead.Commit is not null && lead.MaySpeak;

        void IShipperListener.OnLinked()
        {
            // It may be another process, after which the clock began anew.
            Volatile.Write(ref _heardUs, 0);
            lock (lead._lock) { lead._leader.Linked(node); }
        }

        void IShipperListener.OnReplied(ShipReply reply)
        {
            Volatile.Write(ref _repliedUs, LeaseClock.NowUs);
            _learns = reply.Learns;
            if (reply.Newest.Epoch != lead.Reign.Number) { return; }
            Volatile.Write(ref _heardUs, Math.Max(_heardUs, reply.SentUs));
            lead.Replied(node, reply);
        }

        void IShipperListener.HoldWrites(bool isHeld)
        {
        }

        void IShipperListener.OnWatermark(WorldPoint watermark)
        {
        }

        void IShipperListener.OnShippingFailed(Exception e) => shard.OnShippingFailed(e);

        void IShipperListener.OnShippingDeposed(Sender by, bool isSite) => lead._cohort.Refused(new Reign(by.Epoch));

        SeedCopy? IShipperListener.CopyOf(long generation) => seeding.CopyOf(generation);

        void IShipperListener.OnSeedWanted(long generation, string why) => seeding.OnWanted(generation);
    }
}
