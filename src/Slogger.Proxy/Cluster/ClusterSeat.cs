// A shard's place in its cluster's metadata: taken at the start, with an epoch that deposes whoever had it before; and what a
// recovery does there.
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Membership;
using Slogger.Core.Ownership;
using Slogger.Core.Recovery;
using Slogger.Core.Resets;
using Slogger.Core.Sites;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Metadata.Sql;
using Slogger.Proxy.Configuration;

namespace Slogger.Proxy.Cluster;

internal sealed class ClusterSeat : IAsyncDisposable
{
    private static readonly TimeSpan RetryDelay = TimeSpan.FromMilliseconds(500);

    // A list of split keys may be long. Unit: characters.
    private const int PartitionsShownMax = 200;
    private readonly ILogger _report;
    private readonly TimeProvider _time;
    private volatile GridView _gridView = null!;
    private volatile MemberState[] _states = [];
    private readonly TaskCompletionSource _taken = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private ClusterView? _view;     // of a node of a cohort, of a shard alone: what it begins to lead with
    private string _storeKind = "";

    private ClusterSeat(IMetadataStore metadata, ServeOptions options, ILogger report)
    {
        Metadata = metadata;
        (Cluster, Shard, _time) = (options.Cluster, options.Shard, options.Time);
        _report = report;
    }

    public IMetadataStore Metadata { get; }

    public string Cluster { get; }

    public ShardId Shard { get; }

    /// <summary>The clock grid of the cluster, as far as it is known here.</summary>
    public GridView GridView => _gridView;

    /// <summary>The clock grid of the cluster.</summary>
    public VersionGrid Grid => _gridView.Grid;

    /// <summary>The epoch taken: every write to the metadata is compared with it.</summary>
    public long Epoch { get; private set; }

    /// <summary>Tells the cluster from another one of its name (<see cref="IMetadataStore.IdentityAsync"/>).</summary>
    public string Identity { get; private set; } = "";

    /// <summary>The world-line that was current when the seat was taken.</summary>
    public WorldLine WorldLineAtStart { get; private set; }

    /// <summary>Completes when the shard is this process's in the metadata: <see cref="Epoch"/> counts. A node of a cohort that begins to
    /// lead serves before that, since the metadata may be away.</summary>
    public Task Taken => _taken.Task;

    /// <summary>At a backup: what the site was when this process took the shard's stream, and the epoch with it. At a node of a cohort that
    /// follows: a site alone. Null: the shard is served here.</summary>
    public SiteState? FollowedSite { get; private set; }

    /// <summary>Whether the cluster was made for several shards.</summary>
    public bool HasPeers { get; private set; }

    /// <summary>How many numbers of shards it has given out, as last seen; it never has fewer.</summary>
    public int ShardCount => _states.Length;

    /// <summary>Where this shard stands, as last seen.</summary>
    public MemberState State => _states[Shard.Number];

    /// <summary>The shards that count, as last seen.</summary>
    public IEnumerable<ShardId> Members => _states.Select((state, i) => (state, i)).Where(s => Core.Membership.Members.Counts(s.state))
        .Select(s => new ShardId(s.i));

    /// <summary>Who finds the cut.</summary>
    public FinderKind Finder { get; private set; }

    /// <summary>How keys fall into partitions.</summary>
    public Partitioning Partitions { get; private set; } = Partitioning.Hash;

    /// <summary>By which the proxies of the cluster know each other; null for a shard alone.</summary>
    public PeerSecret? Secret { get; private set; }

    /// <summary>Where clients and other proxies reach this one.</summary>
    public string Address { get; private set; } = "";

    /// <summary>Opens the metadata, makes or joins the cluster, and takes the shard.</summary>
    /// <exception cref="MetadataException">It cannot.</exception>
    public static Task<ClusterSeat> TakeAsync(ServeOptions options, ILogger report, CancellationToken stop) =>
        TakeAsync(MetadataStoreFactory.Create(options.Metadata.Text), options, report, follows: false, stop);

    /// <summary>The same, in a metadata store that the seat owns from now on; of a site that is a backup, or is to be one, the shard's
    /// stream is taken.</summary>
    /// <exception cref="MetadataException">It cannot.</exception>
    public static async Task<ClusterSeat> TakeAsync(
        IMetadataStore metadata, ServeOptions options, ILogger report, bool follows, CancellationToken stop)
    {
        try
        {
            await metadata.InitializeAsync(stop).ConfigureAwait(false);
            await WarnAsync(metadata, report, stop).ConfigureAwait(false);
            var seat = new ClusterSeat(metadata, options, report);
            await seat.JoinAsync(options, follows, stop).ConfigureAwait(false);
            return seat;
        }
        catch
        {
            await metadata.DisposeAsync().ConfigureAwait(false);
            throw;
        }
    }

    private static async Task WarnAsync(IMetadataStore metadata, ILogger report, CancellationToken stop)
    {
        try
        {
            foreach (string doubt in await metadata.DoubtsAsync(stop).ConfigureAwait(false))
            {
                report.Warn($"the metadata, {metadata.Description}: {doubt} (see \"Which set-ups are safe\" in "
                    + "docs/operate/metadata-database.md)");
            }
        }
        catch (MetadataException e) when (e is not MetadataUnavailableException)
        {
            report.Warn($"the metadata, {metadata.Description}: it cannot be found out whether confirmed commits are safe: {e.Message}");
        }
    }

    private async Task JoinAsync(ServeOptions options, bool follows, CancellationToken stop)
    {
        long interval = (long)options.VersionInterval.TotalMicroseconds;
        long now = (DateTime.UtcNow - DateTime.UnixEpoch).Ticks / TimeSpan.TicksPerMicrosecond;
        var proposal = new ClusterSettings { ShardCount = options.Shards ?? 1, Finder = options.Finder
            ?? FinderKind.Approximate, Partitions = options.Partitions
            ?? Partitioning.Hash, Grid = [new GridStretch(new(1), now, interval)] };
        ClusterSettings settings = options.Joins
            ? await FindAsync(stop).ConfigureAwait(false)
            : await Metadata.GetOrCreateClusterAsync(Cluster, proposal, stop).ConfigureAwait(false);
        // Before an epoch is taken: each of them would bring another metadata nearer to what is kept.
        Identity = await Metadata.IdentityAsync(Cluster, stop).ConfigureAwait(false);
        if (StoreRecord.Read(options.DataDirectory)?.Contradiction(options.DataDirectory, Metadata.Description, Identity) is { } other)
        {
            throw new OtherMetadataException(other);
        }
        if (options.Joins) { settings = await AddAsync(stop).ConfigureAwait(false); }
        if (options.Shards is { } shards && shards != settings.MadeWith && shards != settings.ShardCount)
        {
            throw new MetadataException($"cluster \"{Cluster}\" was made with {settings.MadeWith} shards, not {shards}: leave --shards "
                + "out, or name another cluster");
        }
        if (Shard.Number >= settings.ShardCount)
        {
            throw new MetadataException(
                $"cluster \"{Cluster}\" has {settings.ShardCount} shards, 0 to {settings.ShardCount - 1}: there is no shard {Shard}. Give "
                    + "--shards where the cluster is made, --join to have the next shard join it, or name another cluster");
        }
        (HasPeers, Finder, Partitions) = (settings.ShardCount > 1, settings.Finder, settings.Partitions);
        if (options.Finder is { } finder && finder != Finder)
        {
            throw new MetadataException($"cluster \"{Cluster}\" was made with --finder {Finder.Name}, not {finder.Name}, and keeps it: "
                + "leave --finder out. To change it, stop all its proxies and make another cluster from the data of its stores: another "
                + "--cluster, with --seed from-redis and an empty --data for each shard");
        }
        if (options.Partitions is { } partitions && !partitions.Equals(Partitions))
        {
            throw new MetadataException(
                $"cluster \"{Cluster}\" was made with --partitions {Shown(Partitions)}, not {Shown(partitions)}, and keeps it: leave "
                    + "--partitions out. To change it, make another cluster and copy the data with a client");
        }
        if (HasPeers && (options.Announce is null || options.Announce.IsEveryInterface))
        {
            throw new MetadataException($"cluster \"{Cluster}\" has {settings.ShardCount} shards, and clients of the others could not be "
                + "told where this one is: "
                + $"{(options.Announce is null ? "it listens on no TCP address" : $"{options.Announce} is every interface")}. Give "
                + "--announce HOST:PORT");
        }
        if (options.Cohort is { } cohort && (options.Announce is null || options.Announce.IsEveryInterface))
        {
            throw new MetadataException($"clients of the other nodes of the cohort could not be told where node {cohort.Node} is: "
                + $"{(options.Announce is null ? "it listens on no TCP address" : $"{options.Announce} is every interface")}. Give "
                + "--announce HOST:PORT");
        }
        if (settings.Grid[^1].IntervalUs != interval && !HasPeers)
        {
            await Metadata.ChangeIntervalAsync(Cluster, interval, now, stop).ConfigureAwait(false);
            settings = (await Metadata.FindClusterAsync(Cluster, stop).ConfigureAwait(false))!;
        }
        _gridView = new GridView(new VersionGrid(settings.Grid), 0);
        if (HasPeers) { Secret = new PeerSecret(await Metadata.PeerSecretAsync(Cluster, stop).ConfigureAwait(false)); }
        Address = (options.Announce ?? options.Listen.AddRange(options.ClientTls?.Listen ?? [])[0]).ToString();
        _storeKind = options.Store == StoreKind.Faster ? ShardRecord.FasterStore : ShardRecord.RedisStore;
        // Clients are led to the node that leads.
        ShardRecord? known = options.Cohort is null ? null
            : (await Metadata.ShardsAsync(Cluster, stop).ConfigureAwait(false)).FirstOrDefault(s => s.Shard == Shard && s.Epoch > 0);
        ShardRecord record = known ?? await Metadata.RegisterShardAsync(Cluster, Shard, Address, _storeKind, stop).ConfigureAwait(false);
        if (record.State == MemberState.Left)
        {
            throw new MetadataException($"shard {Shard} has left cluster \"{Cluster}\", and numbers are not given out again. To have this "
                + $"proxy join anew give --join --shard {settings.ShardCount}, an empty Redis and an empty --data");
        }
        if (options.Cohort is not null)
        {
            FollowedSite = SiteState.Alone;
            if (!HasPeers) { _view = await LookAsync(stop).ConfigureAwait(false); }
        }
        else if (follows && await Metadata.TakeStreamsAsync(Cluster, Shard, options.Site.PrimaryShards,
            stop).ConfigureAwait(false) is { Owner: > 0 } taken)
        {
            (FollowedSite, Epoch) = (taken.Site, taken.Owner);
        }
        else
        {
            Epoch = await Metadata.TakeShardEpochAsync(Cluster, Shard, Name, stop).ConfigureAwait(false);
            _taken.SetResult();
        }
        WorldLineAtStart = record.WorldLine;
        See(await Metadata.ShardsAsync(Cluster, stop).ConfigureAwait(false));
        // That of a backup is of no use: a failover begins another.
        if (!HasPeers || FollowedSite is not null) { return; }
        await LearnGridAsync(0, stop).ConfigureAwait(false);
        if (settings.Grid[^1].IntervalUs != interval)
        {
            _report.Info($"shard {Shard}: versions are of {settings.Grid[^1].IntervalUs / 1000.0} ms, as the cluster has them; "
                + "--version-interval counts where a cluster is made, slogger interval changes it");
        }
    }

    /// <summary>The shard is this process's, which has followed until now: its site has become the primary, or its node leads and has
    /// taken the shard (<see cref="TakeAsLeaderAsync"/>). Waits for the metadata.</summary>
    /// <returns>As <see cref="LookAsync"/>. Null: another process has taken the shard since.</returns>
    public async Task<ClusterView?> TakeOverAsync(CancellationToken stop)
    {
        while (true)
        {
            ClusterSnapshot found = await RetryAsync(() => Metadata.SnapshotAsync(Cluster, stop), stop).ConfigureAwait(false);
            ShardRecord record = found.Shards.First(s => s.Shard == Shard);
            if (record.Epoch != Epoch) { return null; }
            See(found.Shards);
            Learned(found.Grid);
            if (new ClusterView(record, found.Cut, found.Lines) is not { IsOfOneWorldLine: true } view) { continue; }
            FollowedSite = null;
            _taken.TrySetResult();
            return view;
        }
    }

    /// <summary>The node of a shard alone begins to lead: nobody is asked.</summary>
    /// <param name="line">The world-line that the log is in.</param>
    /// <param name="stop">Gives up waiting for the metadata, if that is in a later world-line than was seen.</param>
    /// <returns>What the metadata said when it was looked at last. What is committed by now the log has.</returns>
    public async Task<ClusterView> LeadAsync(WorldLine line, CancellationToken stop)
    {
        if (_view is not { } view || view.Record.WorldLine < line) { view = await LookAsync(stop).ConfigureAwait(false); }
        FollowedSite = null;
        return view with { Record = view.Record with { Epoch = Epoch } };
    }

    /// <summary>Takes the shard, for the node that leads it: clients are led to it, and what it has committed is recorded. Waits for the
    /// metadata.</summary>
    /// <param name="reign">The reign that it leads.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>The later reign whose leader has taken the shard already; null: this one has.</returns>
    public async Task<Reign?> TakeAsLeaderAsync(Reign reign, CancellationToken stop)
    {
        (long epoch, Reign newest) = await RetryAsync(
            () => Metadata.LeadShardAsync(Cluster, Shard, Address, _storeKind, Name, reign, stop), stop).ConfigureAwait(false);
        if (epoch == 0) { return newest; }
        Epoch = epoch;
        _taken.TrySetResult();
        return null;
    }

    /// <summary>Who has the shard, or at a backup its stream, and the epoch of that. Waits for the metadata.</summary>
    public async Task<(long Epoch, string Name)> OwnerAsync(CancellationToken stop)
    {
        // A node that is about to lead has taken the shard.
        if (FollowedSite is not null && !Taken.IsCompleted)
        {
            SiteState site = await RetryAsync(() => Metadata.SiteAsync(Cluster, stop), stop).ConfigureAwait(false);
            return (site.OwnerOf(Shard), "");
        }
        ShardRecord record = await RecordAsync(stop).ConfigureAwait(false);
        return (record.Epoch, record.Owner);
    }

    /// <summary>This process, for people.</summary>
    public static string Name => $"{Environment.MachineName}:{Environment.ProcessId}";

    private async Task<ClusterSettings> FindAsync(CancellationToken stop) =>
        await Metadata.FindClusterAsync(Cluster, stop).ConfigureAwait(false)
        ?? throw new MetadataException($"there is no cluster \"{Cluster}\" that shard {Shard} could join: check --cluster and --metadata, "
        + "or leave --join out to make one");

    // A number for this shard, if it has none yet.
    private async Task<ClusterSettings> AddAsync(CancellationToken stop)
    {
        if ((await Metadata.AddShardAsync(Cluster, Shard, stop).ConfigureAwait(false)).Error is { } error)
        {
            throw new MetadataException(error);
        }
        return await FindAsync(stop).ConfigureAwait(false);
    }

    /// <summary>Notes which cluster the data directory belongs to, if that is not known yet: what is in it fits the metadata. Throws
    /// IOException.</summary>
    public void NoteIdentity(string dataDirectory)
    {
        if (StoreRecord.Read(dataDirectory) is { ClusterIdentity: "" } record)
        {
            (record with { ClusterIdentity = Identity }).Write(dataDirectory);
        }
    }

    /// <summary>Takes note of who is in the cluster.</summary>
    public void See(IReadOnlyList<ShardRecord> shards)
    {
        // A look that is late knows fewer.
        if (shards.Count >= _states.Length) { _states = [.. shards.Select(s => s.State)]; }
    }

    /// <summary>Learns the grid, and what is proposed.</summary>
    /// <param name="agreedUs">The proposed change that the shard agrees to; 0: none.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>The grid; null if another process has the shard.</returns>
    public async Task<GridView?> LearnGridAsync(long agreedUs, CancellationToken stop)
    {
        if (await Metadata.GridAsync(Cluster, Shard, agreedUs, Epoch, stop).ConfigureAwait(false) is not { } state) { return null; }
        return Learned(state);
    }

    private GridView Learned(GridState state)
    {
        VersionGrid known = Grid;
        return _gridView = new GridView(known.Stretches.SequenceEqual(state.Stretches) ? known : new VersionGrid(state.Stretches),
            state.ChangeUs);
    }

    private static string Shown(Partitioning partitions) => partitions.ToString() is { Length: <= PartitionsShownMax } text
        ? text
        : $"range: with {partitions.Count - 1} split keys ({partitions.ToString()[..PartitionsShownMax]}...)";

    /// <summary>The version that opens so many microseconds after another.</summary>
    public VersionNumber VersionsLater(VersionNumber version, long microseconds) => Grid.VersionAt(Grid.StartOf(version) + microseconds);

    /// <summary>The shard's row. Waits for the metadata.</summary>
    public async Task<ShardRecord> RecordAsync(CancellationToken stop) =>
        (await RetryAsync(() => Metadata.ShardsAsync(Cluster, stop), stop).ConfigureAwait(false)).First(s => s.Shard == Shard);

    /// <summary>The shard's row, the recorded cut and all world-lines, of one world-line. Waits for the metadata.</summary>
    /// <returns>The cut is not above what the row says is durable, also while another node of the cohort records more.</returns>
    public async Task<ClusterView> LookAsync(CancellationToken stop)
    {
        while (true)
        {
            ClusterCut cut = await RetryAsync(() => Metadata.AdvanceCutAsync(Cluster, stop), stop).ConfigureAwait(false);
            // After the cut, which it is never below.
            ShardRecord record = await RecordAsync(stop).ConfigureAwait(false);
            IReadOnlyList<WorldLineRecord> lines = await RetryAsync(
                () => Metadata.WorldLinesAsync(Cluster, stop), stop).ConfigureAwait(false);
            if (new ClusterView(record, cut, lines) is { IsOfOneWorldLine: true } view) { return view; }
        }
    }

    /// <summary>The world-lines up to one, and where each shard branched off. Waits for the metadata.</summary>
    public async Task<IReadOnlyList<WorldLineRecord>> LinesUpToAsync(WorldLine last, CancellationToken stop) =>
        [.. (await RetryAsync(() => Metadata.WorldLinesAsync(Cluster, stop), stop).ConfigureAwait(false)).Where(l => l.WorldLine <= last)];

    /// <summary>Notes that this shard has left all older world-lines: nobody is served before its store is at the branch, or beyond
    /// it.</summary>
    public async Task EnterAsync(WorldLine line, CancellationToken stop) =>
        await RetryAsync(
            async () =>
            {
                await Metadata.EnterWorldLineAsync(Cluster, Shard, line, Epoch, stop).ConfigureAwait(false);
                return true;
            }, stop).ConfigureAwait(false);

    /// <summary>The shards that have run and have not entered a world-line yet, and which one is current.</summary>
    public async Task<(WorldLine Current, IReadOnlyList<ShardId> Outside)> OutsideAsync(WorldLine line, CancellationToken stop)
    {
        IReadOnlyList<ShardRecord> shards = await RetryAsync(() => Metadata.ShardsAsync(Cluster, stop), stop).ConfigureAwait(false);
        See(shards);
        return (shards[0].WorldLine,
            [.. shards.Where(s => Core.Membership.Members.Counts(s.State) && s.Epoch > 0 && s.Entered < line).Select(s => s.Shard)]);
    }

    /// <summary>The last version of an older world-line that is still part of the current one.</summary>
    public VersionNumber LastValid(WorldLine line, IReadOnlyList<WorldLineRecord> lines) => LastValid(Shard, line, lines);

    /// <summary>The same of another shard.</summary>
    public static VersionNumber LastValid(ShardId shard, WorldLine line, IReadOnlyList<WorldLineRecord> lines) =>
        WorldLineBranches.LastValid(line, lines.Select(l => new WorldLineBranch(l.WorldLine, l.BranchOf(shard))));

    /// <summary>Starts the world-line after that of what this shard has durable.</summary>
    /// <returns>Where it branches; null if another recovery came first: look again.</returns>
    /// <exception cref="RecoveryRefusedException">The metadata refused it for good.</exception>
    public async Task<VersionNumber?> BeginWorldLineAsync(DurableClaim durable, PrecedenceRow? row, CancellationToken stop)
    {
        WorldLine next = durable.Point.WorldLine.Next;
        WorldLineResult result = await RetryAsync(() => Metadata.BeginWorldLineAsync(Cluster, Shard, next, durable, Epoch, row, stop),
            stop).ConfigureAwait(false);
        return result.Outcome switch
        {
            WorldLineOutcome.Started => result.Current.Version,
            WorldLineOutcome.StaleWorldLine => null,
            _ => throw new RecoveryRefusedException(
                $"shard {Shard}: the metadata refused world-line {next} after {durable.Point}: {result.Outcome} (it stands at "
                    + $"{result.Current}). Another proxy may own this shard now."),
        };
    }

    /// <summary>Notes that the shard is about to write a reset. Waits for the metadata.</summary>
    /// <returns>False: nothing may be written. Another process has the shard by now, or another world-line has begun.</returns>
    public Task<bool> MarkResetAsync(ResetMark mark, CancellationToken stop) =>
        RetryAsync(() => Metadata.MarkResetAsync(Cluster, Shard, mark, Epoch, stop), stop);

    /// <summary>Notes what a place in a stream stands for. Waits for the metadata.</summary>
    public async Task RecordOriginAsync(string replicationId, long offset, WorldPoint point, CancellationToken stop) =>
        await RetryAsync(
            async () =>
            {
                await Metadata.RecordOriginAsync(Cluster, Shard, replicationId, offset, point, stop).ConfigureAwait(false);
                return true;
            }, stop).ConfigureAwait(false);

    /// <summary>Calls until the metadata answers.</summary>
    public async Task<T> RetryAsync<T>(Func<Task<T>> call, CancellationToken stop)
    {
        while (true)
        {
            try
            {
                return await call().ConfigureAwait(false);
            }
            catch (MetadataUnavailableException e)
            {
                _report.Warn($"shard {Shard}: recovery waits for the metadata: {e.Message}");
                await Task.Delay(RetryDelay, _time, stop).ConfigureAwait(false);
            }
        }
    }

    public ValueTask DisposeAsync() => Metadata.DisposeAsync();
}

/// <summary>The metadata is not the one that the data directory was used with.</summary>
internal sealed class OtherMetadataException(string message) : Exception(message);

/// <summary>What the metadata says of a shard and its cluster, as of one world-line.</summary>
/// <param name="Record">The shard's row.</param>
/// <param name="Cut">The recorded cut.</param>
/// <param name="Lines">All world-lines, the current one last.</param>
internal sealed record ClusterView(ShardRecord Record, ClusterCut Cut, IReadOnlyList<WorldLineRecord> Lines)
{
    /// <summary>None has begun between one of them and another.</summary>
    public bool IsOfOneWorldLine => Record.WorldLine == Cut.Cut.WorldLine && Lines[^1].WorldLine == Record.WorldLine;
}
