// An oracle of the metadata in SQL: the compare-and-set semantics of the product's store, each method one transaction. With
// the approximate finder it works out the cut itself, as the product does; with the others a coordinator records it.
using Slogger.Core.Cuts;
using Slogger.Core.Leases;
using Slogger.Core.Membership;
using Slogger.Core.Ownership;
using Slogger.Core.Recovery;
using Slogger.Core.Sites;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Processes;

internal enum RecordOutcome { Recorded, StaleWorldLine, Deposed, NotMonotone }

internal sealed record RecordResult(RecordOutcome Outcome, SqlView View);

internal enum BeginOutcome { Started, StaleWorldLine, Deposed, BelowRecorded }

internal sealed record BeginResult(BeginOutcome Outcome, SqlView View);

/// <summary>A world-line, and where each shard branched off.</summary>
internal sealed record SqlLine(WorldLine WorldLine, Cut Branch, long Epoch)
{
    /// <summary>Where one shard did. One that had no number then begins no lower: all branch at the same version in a cluster that
    /// grows.</summary>
    public VersionNumber BranchOf(int shard) => Branch.Versions[shard < Branch.ShardCount ? shard : 0];
}

/// <summary>What a reader sees: all of one moment.</summary>
internal sealed record SqlView(
    Cut Cut, SqlLine[] Lines, DurableClaim[] Claims, long[] Epochs, long Owners, LeaseState Role, Members Members, bool AllEntered,
        SiteState Site)
{
    public WorldLine Line => Cut.WorldLine;

    /// <summary>The branches of one shard.</summary>
    public WorldLineBranch[] BranchesOf(int shard) => [.. Lines.Select(l => new WorldLineBranch(l.WorldLine, l.BranchOf(shard)))];

    /// <summary>What every shard kept of a world-line.</summary>
    public VersionNumber[] KeptSince(WorldLine line)
    {
        VersionNumber[] kept = new VersionNumber[Cut.ShardCount];
        Array.Fill(kept, new(long.MaxValue));
        foreach (SqlLine l in Lines)
            if (l.WorldLine > line)
                for (int s = 0; s < kept.Length; s++) kept[s] = VersionNumber.Min(kept[s], l.Branch.Versions[s]);
        return kept;
    }
}

internal sealed class SqlShard
{
    public DurableClaim Claim { get; set; } = DurableClaim.Of(new(WorldLine.First, VersionNumber.Zero));
    public long Epoch { get; set; }
    public WorldLine Entered { get; set; } = WorldLine.First;

    /// <summary>In a switch-over: its owner, who holds all operations, and what everything that was ever done is in.</summary>
    public (long Epoch, WorldPoint Point)? Held { get; set; }

    /// <summary>The change of the interval that its owner has agreed to last.</summary>
    public long AgreedUs { get; set; }
    public List<PrecedenceRow> Rows { get; } = [];
}

internal sealed partial class Sql
{
    private readonly Cluster _cluster;
    private readonly SimSettings _settings;
    private SqlLine[] _lines;
    private SqlView? _view;
    private long _epochLast;
    private long _coordinator;
    private long _renewedAt;
    private long _renewedAtUp;
    private bool _isDown;
    private long _downSince;
    private long _downUs;

    public Sql(Cluster cluster, SimSettings settings, int shards, VersionGrid grid)
    {
        (_cluster, _settings, Proposal, Members) = (cluster, settings, new(grid, 0, 0), Members.New(shards));
        Shards = [.. Enumerable.Range(0, shards).Select(_ => new SqlShard())];
        Cut = Cut.Uniform(WorldLine.First, shards, VersionNumber.Zero);
        _lines = [new(WorldLine.First, Cut, 0)];
        Owners = new(MapRevision.First, WorldLine.First, EvenMap(shards), []);
    }

    public bool IsDown
    {
        get => _isDown;
        set
        {
            if (value && !_isDown) _downSince = _cluster.NowUs;
            if (!value && _isDown) _downUs += _cluster.NowUs - _downSince;
            _isDown = value;
        }
    }

    // Time in which it could be reached, in microseconds; looked at while it can.
    private long UpUs => _cluster.NowUs - _downUs;

    public List<SqlShard> Shards { get; }

    public Cut Cut { get; private set; }

    /// <summary>The metadata of a site that has taken over: all is at the final watermark, in the world-line of its epoch. The epochs of
    /// its processes go on: a log refuses a process of the backup that was replaced, as before.</summary>
    public void BeginAt(SiteState site, long epochLast)
    {
        _epochLast = epochLast;
        WorldPoint at = new(site.Epoch.FirstWorldLine, site.Final!.Value.Version);
        Site = site;
        Cut = Cut.Uniform(at.WorldLine, Shards.Count, at.Version);
        _lines = [new(at.WorldLine, Cut, 0)];
        foreach (SqlShard s in Shards) (s.Claim, s.Entered) = (new(at, 1, at.Version), at.WorldLine);
        Changed();
    }

    public WorldLine Line => Cut.WorldLine;

    public IReadOnlyList<SqlLine> Lines => _lines;

    public SqlView Look() => _view ??= new(
        Cut, _lines, [.. Shards.Select((s, i) => Raised(i, s.Claim))], [.. Shards.Select(s => s.Epoch)], _epochLast, Role, Members,
            !Shards.Where((s, i) => Counts(i) && s.Epoch > 0 && s.Entered != Line).Any(), Site);

    /// <summary>Takes a shard; 0 if it has left, or another site is the primary.</summary>
    public object TakeEpoch(int shard)
    {
        if (Members.States[shard] == MemberState.Left || Site.Role == SiteRole.Deposed) return 0L;
        Changed();
        return Shards[shard].Epoch = ++_epochLast;
    }

    public RecordResult RecordDurable(int shard, DurableClaim claim, long epoch, PrecedenceRow? row)
    {
        SqlShard s = Shards[shard];
        bool isOwner = s.Epoch == epoch || Is(SimMutation.EpochNotCompared);
        bool isCurrent = claim.Point.WorldLine == Line || Is(SimMutation.WorldLineNotCompared);
        if (!isOwner) return new(RecordOutcome.Deposed, Look());
        if (!isCurrent) return new(RecordOutcome.StaleWorldLine, Look());
        if (s.Claim.Point.Version > claim.Point.Version) return new(RecordOutcome.NotMonotone, Look());
        _cluster.Checks.OnClaim(shard, claim, epoch);
        s.Claim = claim with { Point = claim.Point with { WorldLine = Line } };
        if (row is { } added) AddRow(s, added);
        Changed();
        AdvanceCut();
        return new(RecordOutcome.Recorded, Look());
    }

    /// <summary>Moves the cut as far as the claims allow, if that is SQL's business.</summary>
    public SqlView AdvanceCut()
    {
        if (_settings.Finder == FinderKind.Approximate)
        {
            WorldPoint now = new(Line, Cut.Versions[0]);
            WorldPoint next = GridCut.Advance(now, Claims());
            if (next > now && Is(SimMutation.CutOneTooFar)) next = next with { Version = next.Version.Next };
            if (next > now) Record(Cut.Uniform(Line, Shards.Count, next.Version));
        }
        else if (_settings.Finder == FinderKind.Hybrid && GridOverCut() is { } grid)
        {
            Record(grid);
        }

        return Look();
    }

    /// <summary>The coordinator's lease.</summary>
    public LeaseState Role { get; private set; }

    /// <summary>Takes the role of the coordinator, if its lease is as it was seen.</summary>
    public object TakeCoordinator(LeaseState seen)
    {
        if (Role != seen) return 0L;
        if (Role.Epoch > 0) _cluster.Checks.OnRoleTaken(_renewedAt, UpUs - _renewedAtUp);
        Role = new(_coordinator = ++_epochLast, 0);
        (_renewedAt, _renewedAtUp) = (_cluster.NowUs, UpUs);
        Changed();
        return _coordinator;
    }

    public object RenewCoordinator(long epoch)
    {
        if (_coordinator != epoch) return false;
        Role = Role with { Renewals = Role.Renewals + 1 };
        (_renewedAt, _renewedAtUp) = (_cluster.NowUs, UpUs);
        Changed();
        return true;
    }

    /// <summary>A coordinator's cut.</summary>
    /// <param name="cut">The cut.</param>
    /// <param name="coordinator">Its epoch.</param>
    /// <param name="owners">The last epoch given out when it looked who owns the shards.</param>
    /// <param name="saidBy">The epochs of those from whom it has heard of each shard.</param>
    public RecordResult RecordCut(Cut cut, long coordinator, long owners, long[] saidBy)
    {
        if (!Is(SimMutation.CutNotCompared))
        {
            if (coordinator != _coordinator) return new(RecordOutcome.Deposed, Look());
            if (owners != _epochLast && !Is(SimMutation.OwnersNotCompared)) return new(RecordOutcome.StaleWorldLine, Look());
            if (cut.WorldLine != Line) return new(RecordOutcome.StaleWorldLine, Look());
            if (!cut.IsAtLeast(Cut)) return new(RecordOutcome.NotMonotone, Look());
        }

        // By whoever has not heard of the last to join.
        if (cut.ShardCount < Cut.ShardCount) cut = Cut.Uniform(cut.WorldLine, Cut.ShardCount, cut.Versions[0]);
        if (!cut.Equals(Cut))
        {
            _cluster.Checks.OnCoordinatedCut(cut, saidBy);
            Record(cut);
        }

        return new(RecordOutcome.Recorded, Look());
    }

    public PrecedenceRow[] Rows() => [.. Shards.SelectMany(s => s.Rows)];

    /// <summary>Starts the next world-line; the branch is worked out here, from the claims of this moment.</summary>
    public BeginResult BeginWorldLine(int shard, DurableClaim durable, long epoch, PrecedenceRow? row, Cut readBefore)
    {
        WorldLine next = durable.Point.WorldLine.Next;
        if (Line >= next && !Is(SimMutation.BeginNotCompared))
        {
            bool same = Line == next && _lines[^1].Epoch == epoch;
            return new(same ? BeginOutcome.Started : BeginOutcome.StaleWorldLine, Look());
        }

        if (Shards[shard].Epoch != epoch || !Members.Counts(Members.States[shard])) return new(BeginOutcome.Deposed, Look());
        if (durable.Point.Version < Raised(shard, Shards[shard].Claim).Point.Version) return new(BeginOutcome.BelowRecorded, Look());
        Shards[shard].Claim = durable;
        if (row is { } added) AddRow(Shards[shard], added);
        Cut branch = Is(SimMutation.BranchBeforeTransaction) ? readBefore : Provable();
        Cut begun = new(next, branch.Versions);
        _cluster.Checks.OnWorldLine(begun, Cut);
        Cut = begun;
        _lines = [.. _lines, new(next, begun, epoch)];
        if (_cluster.Keys.Move)
        {
            RecoverOwners();
            _cluster.Histories.OnWorldLine();
        }

        for (int s = 0; s < Shards.Count; s++)
        {
            VersionNumber at = begun.Versions[s];
            Shards[s].Claim = new(new(next, at), Shards[s].Claim.Stride, at);
            Shards[s].Rows.Clear();
        }

        Changed();
        return new(BeginOutcome.Started, Look());
    }

    public object Enter(int shard, WorldLine entered, long epoch)
    {
        if (Shards[shard].Epoch == epoch && Line == entered) Shards[shard].Entered = entered;
        Changed();
        return this;
    }

    private Cut Provable()
    {
        switch (_settings.Finder)
        {
            case FinderKind.Approximate:
                return Cut.Uniform(Line, Shards.Count, GridCut.Advance(new(Line, Cut.Versions[0]), Claims()).Version);
            case FinderKind.Exact:
                ExactFinder exact = new(Cut, Rows(), _settings.FinderFault, PrecedenceGraph.RangesMax);
                exact.Advance();
                return exact.Current;
            default:
                // What the versions depend on was in the coordinator's memory: the grid is what is left.
                return GridOverCut() ?? Cut;
        }
    }

    // By the grid alone; null if it moves nothing.
    private Cut? GridOverCut()
    {
        ApproximateFinder finder = new(Cut, _settings.FinderFault);
        DurableClaim[] claims = Claims();
        for (int s = 0; s < claims.Length; s++)
            finder.Report(VersionReport.Of(new(s), claims[s], claims[s].Point.Version, DependencySet.Empty));
        return finder.Advance() ? finder.Current : null;
    }

    private DurableClaim[] Claims() =>
        [.. Shards.Where((_, i) => Counts(i))
            .Select(s => Is(SimMutation.StrideIgnored) ? s.Claim with { Stride = 1, Floor = VersionNumber.Zero } : s.Claim)];

    // A coordinator is told of versions sooner than the rows of the shards: whatever is in the cut is durable there.
    private DurableClaim Raised(int shard, DurableClaim claim) =>
        claim.Point.Version < Cut.Versions[shard] ? new(new(Line, Cut.Versions[shard]), 1, Cut.Versions[shard]) : claim;

    private static void AddRow(SqlShard shard, in PrecedenceRow row) => shard.Rows.Add(row);

    private void Record(Cut cut)
    {
        _cluster.Checks.OnCut(Cut, cut);
        Cut = cut;
        if (_cluster.Keys.Move) _cluster.Histories.OnCut();
        foreach (SqlShard s in Shards)
            if (s.Rows.Count > 0) s.Rows.RemoveAll(r => r.Through.Version <= cut.Of(r.Shard));
        Changed();
    }

    private void Changed() => _view = null;

    private bool Is(SimMutation mutation) => _settings.Mutation == mutation;
}
