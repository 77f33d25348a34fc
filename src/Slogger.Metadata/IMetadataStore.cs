// What a Slogger cluster must agree on and never forget: its clock grid, who owns each shard, what is committed, and which
// world-line is current. Kept in SQL, off the operation path: while it is lost commits are not reported, operations go on.
//
// Promises: every method is atomic and durable when it returns; every write that fences or commits compares before it sets,
// so a deposed owner's late write fails; every method may be called again after a failure whose outcome is unknown.
// Callers: the shard (cuts, epochs, origins), the recovery manager (world-lines), the command line (settings, status).
// Thread safety: all members may be called from any thread; calls of one store run one after the other.
using System.Collections.Immutable;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Leases;
using Slogger.Core.Membership;
using Slogger.Core.Ownership;
using Slogger.Core.Resets;
using Slogger.Core.Sites;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Metadata.Sql;

namespace Slogger.Metadata;

/// <summary>The metadata of Slogger clusters. Made by <see cref="MetadataStoreFactory"/>.</summary>
/// <remarks>Besides what is said at each method, all of them throw <see cref="MetadataUnavailableException"/> when the
/// database cannot be used now (call again later: the store reconnects by itself, in the background),
/// <see cref="MetadataException"/> when a person has to act, and <see cref="ArgumentException"/> for names that are empty,
/// too long, padded with white space or hold control characters.</remarks>
public interface IMetadataStore : IAsyncDisposable
{
    /// <summary>Which database this is, for people; never holds a password. Example: <c>postgres:db1:5432/slogger</c>.</summary>
    string Description { get; }

    /// <summary>Creates the tables, or upgrades those of an older program. Has to be called before all others, once per store.</summary>
    /// <exception cref="MetadataException">The tables were made by a newer program, or not by Slogger, or are damaged.</exception>
    Task InitializeAsync(CancellationToken cancellation = default);

    /// <summary>By which settings of its own the database may lose what it has confirmed: for people, each with what to do. Empty: none was
    /// seen, which proves nothing. Such a database may give out epochs and cuts twice.</summary>
    Task<IReadOnlyList<string>> DoubtsAsync(CancellationToken cancellation = default);

    /// <summary>The settings of a cluster; when it does not exist it is created with <paramref name="proposal"/>, in world-line
    /// 1 with every shard at version 0. Of several proposals made at once exactly one wins, and all callers get that one.</summary>
    Task<ClusterSettings> GetOrCreateClusterAsync(
        string cluster, ClusterSettings proposal, CancellationToken cancellation = default);

    /// <summary>The settings of a cluster, or null when there is none of that name.</summary>
    Task<ClusterSettings?> FindClusterAsync(string cluster, CancellationToken cancellation = default);

    /// <summary>Who owns which slot. A new cluster's slots are <see cref="Slogger.Core.Ownership.SlotMap.Even"/>.</summary>
    /// <exception cref="MetadataException">There is no such cluster, or its rows are no map.</exception>
    Task<SlotOwners> SlotsAsync(string cluster, CancellationToken cancellation = default);

    /// <summary>Who owns which hash slot, and the moves that are not finished, of one moment.</summary>
    /// <exception cref="MetadataException">There is no such cluster, or its rows are not right.</exception>
    Task<OwnershipTable> OwnershipAsync(string cluster, CancellationToken cancellation = default);

    /// <summary>Plans a move of slots, by <see cref="OwnershipTable.Plan"/>.</summary>
    /// <returns>Its name, or why there is none. After a lost answer read the table: the same plan again is refused.</returns>
    Task<MovePlan> PlanMoveAsync(string cluster, ImmutableArray<SlotRange> slots, ShardId to, CancellationToken cancellation = default);

    /// <summary>Calls off a move that has not landed.</summary>
    /// <returns>Whether it is called off, now or before.</returns>
    Task<bool> CancelMoveAsync(string cluster, MoveId move, CancellationToken cancellation = default);

    /// <summary>Makes a step of a move, by <see cref="OwnershipTable.Apply"/>.</summary>
    Task<ChangeOutcome> ChangeMoveAsync(string cluster, MoveChange change, CancellationToken cancellation = default);

    /// <summary>Says for people how far a move is. Nothing depends on it.</summary>
    Task NoteMoveAsync(string cluster, MoveId move, string note, CancellationToken cancellation = default);

    /// <summary>What was said last of each unfinished move.</summary>
    Task<IReadOnlyDictionary<MoveId, string>> MoveNotesAsync(string cluster, CancellationToken cancellation = default);

    /// <summary>Which of all the clusters that were ever made under this name it is: 32 hexadecimal digits, drawn when it is first asked
    /// for. Whoever keeps data of a cluster keeps this beside it, to notice a database that was made anew.</summary>
    /// <exception cref="MetadataException">There is no such cluster.</exception>
    Task<string> IdentityAsync(string cluster, CancellationToken cancellation = default);

    /// <summary>The secret by which proxies of a cluster know each other; drawn when it is first asked for.</summary>
    Task<string> PeerSecretAsync(string cluster, CancellationToken cancellation = default);

    /// <summary>What this site of a cluster is; <see cref="SiteState.Alone"/> if it has never heard of another one.</summary>
    Task<SiteState> SiteAsync(string cluster, CancellationToken cancellation = default);

    /// <summary>Changes what the site is, by one of <see cref="SiteState"/>'s rules, in one transaction. A primary that is one no more
    /// loses all owners of its shards at the same moment: nothing that they say is recorded from then on.</summary>
    /// <param name="cluster">The cluster, which this database knows.</param>
    /// <param name="change">The rule; pure, it may be applied again.</param>
    /// <param name="cancellation">Gives up waiting.</param>
    Task<SiteAnswer> ChangeSiteAsync(string cluster, Func<SiteState, SiteChange> change, CancellationToken cancellation = default);

    /// <summary>A process is to receive the streams of a backup's shard, instead of whoever did: it has an epoch out of the counter from
    /// which shards' owners get theirs, so that what it writes is above all that was ever written for the shard. Of a cluster that no other
    /// site is concerned with, and none of whose shards anybody has ever owned, it makes a backup. At a site that serves nothing is taken:
    /// its shards have owners.</summary>
    /// <param name="cluster">The cluster, which this database knows.</param>
    /// <param name="shard">The backup's shard.</param>
    /// <param name="sources">How many shards the primary has; 0: as many as this site, or as it is known since the backup was made.</param>
    /// <param name="cancellation">Gives up waiting.</param>
    /// <exception cref="MetadataException">The cluster has served, and never was a backup; or another site has taken over from this one; or
    /// the backup was made for a primary of another number of shards.</exception>
    Task<TakenStreams> TakeStreamsAsync(string cluster, ShardId shard, int sources = 0, CancellationToken cancellation = default);

    /// <summary>Streams' shards are ready (<see cref="SiteState.Open"/>), and belong to the processes that have received them, with the
    /// epochs as which they did; they have entered the world-line with which this site rules. One transaction. Again: nothing changes. One
    /// that is refused keeps none of the others from it.</summary>
    /// <param name="cluster">The cluster.</param>
    /// <param name="number">The failover.</param>
    /// <param name="streams">Which.</param>
    /// <param name="cancellation">Gives up waiting.</param>
    /// <returns>The site afterwards, and why the first that was refused was: not decided, or over; or another process has taken the stream,
    /// or the shard.</returns>
    Task<SiteAnswer> OpenStreamsAsync(string cluster, SiteEpoch number, IReadOnlyList<ReadyStream> streams,
        CancellationToken cancellation = default);

    /// <summary>Decides a failover (<see cref="SiteState.Decide"/>), and in the same transaction begins the world-line with which this site
    /// rules, and the clock grid behind the final watermark: the first version after it opens now. Again: nothing changes.</summary>
    /// <param name="cluster">The cluster.</param>
    /// <param name="number">The failover.</param>
    /// <param name="final">The final watermark.</param>
    /// <param name="lineage">The other site's world-lines, each with the version at which it branched off, as the streams' logs have
    /// them.</param>
    /// <param name="cancellation">Gives up waiting.</param>
    Task<SiteAnswer> DecideFailoverAsync(string cluster, SiteEpoch number, WorldPoint final, IReadOnlyList<WorldPoint> lineage,
        CancellationToken cancellation = default);

    /// <summary>Notes where the process of a shard, or of a stream while this site is a backup, listens for the other site and for
    /// commands. Noting it again, or another address, replaces it: the last process that has started is the one to speak to.</summary>
    /// <param name="cluster">The cluster, which this database knows.</param>
    /// <param name="shard">The shard; of a stream the primary's.</param>
    /// <param name="address">HOST:PORT, as others reach it.</param>
    /// <param name="cancellation">Gives up waiting.</param>
    Task NoteSiteAddressAsync(string cluster, ShardId shard, string address, CancellationToken cancellation = default);

    /// <summary>Where the site's processes listen (<see cref="NoteSiteAddressAsync"/>); of a shard none of whose processes has ever said
    /// so, nothing.</summary>
    Task<IReadOnlyDictionary<ShardId, string>> SiteAddressesAsync(string cluster, CancellationToken cancellation = default);

    /// <summary>What drills of this site and its last failover took; zeros where there was none.</summary>
    Task<TakeoverTimes> TakeoverTimesAsync(string cluster, CancellationToken cancellation = default);

    /// <summary>Notes what a drill of this site has estimated: the next failover is compared with it.</summary>
    Task NoteDrillAsync(string cluster, TimeSpan estimate, CancellationToken cancellation = default);

    /// <summary>Notes how long a failover of this site took, together with what the last drill had estimated.</summary>
    Task NoteFailoverAsync(string cluster, TimeSpan took, CancellationToken cancellation = default);

    /// <summary>Gives a shard that is to join a number, by <see cref="Members.Add"/>. It does not count yet. Again: nothing
    /// changes.</summary>
    Task<MemberAnswer> AddShardAsync(string cluster, ShardId shard, CancellationToken cancellation = default);

    /// <summary>Has a joining shard count from now on, if it can be restored to whatever the cluster may go back to
    /// (<see cref="Members.Admits"/>), and the caller owns it.</summary>
    /// <param name="cluster">The cluster.</param>
    /// <param name="shard">The shard, which has served nobody yet.</param>
    /// <param name="durable">What it has durable.</param>
    /// <param name="expectedEpoch">The caller's epoch.</param>
    /// <param name="cancellation">Gives up waiting.</param>
    /// <returns>Whether it counts, now or before. If not, again with a newer claim.</returns>
    Task<bool> AdmitShardAsync(string cluster, ShardId shard, DurableClaim durable, long expectedEpoch,
        CancellationToken cancellation = default);

    /// <summary>Has a shard leave, by <see cref="Members.Leave"/>. Again: nothing changes.</summary>
    Task<MemberAnswer> LeaveAsync(string cluster, ShardId shard, CancellationToken cancellation = default);

    /// <summary>Ends the membership of a leaving shard: all that its owner has ever answered is durable, and recorded here.</summary>
    /// <param name="cluster">The cluster.</param>
    /// <param name="shard">The shard.</param>
    /// <param name="expectedEpoch">The caller's epoch.</param>
    /// <param name="cancellation">Gives up waiting.</param>
    /// <returns>Whether it has left, now or before.</returns>
    Task<bool> EndMembershipAsync(string cluster, ShardId shard, long expectedEpoch, CancellationToken cancellation = default);

    /// <summary>The clock grid as a shard goes by it, and the change of the interval that is proposed; with that, the shard's
    /// agreement to it.</summary>
    /// <param name="cluster">The cluster.</param>
    /// <param name="shard">The shard.</param>
    /// <param name="agreedUs">The <see cref="GridState.ChangeUs"/> that it agrees to: it ends no version beyond that time before it has
    /// read here that nothing is proposed any more. 0: it only looks.</param>
    /// <param name="expectedEpoch">The caller's epoch.</param>
    /// <param name="cancellation">Gives up waiting.</param>
    /// <returns>Null if another process owns the shard.</returns>
    Task<GridState?> GridAsync(string cluster, ShardId shard, long agreedUs, long expectedEpoch, CancellationToken cancellation = default);

    /// <summary>Proposes that the interval changes at a time. Shards number versions differently from then on, so it happens only if all
    /// that have ever run agree (<see cref="GridAsync"/>, <see cref="SettleIntervalAsync"/>); until that is settled nothing else is
    /// proposed.</summary>
    /// <param name="cluster">The cluster.</param>
    /// <param name="intervalMicroseconds">The new version interval.</param>
    /// <param name="fromMicroseconds">When: microseconds since 1970-01-01 UTC. Far enough ahead for all shards to look before.</param>
    /// <param name="cancellation">Gives up waiting.</param>
    /// <returns>The proposal that is open now: this one or, if there was one, that; none if the interval is as asked for already.</returns>
    Task<GridState> ProposeIntervalAsync(string cluster, long intervalMicroseconds, long fromMicroseconds,
        CancellationToken cancellation = default);

    /// <summary>Ends a proposal: if all have agreed the grid has another stretch, from the first grid point at or after the proposed time
    /// on.</summary>
    /// <param name="cluster">The cluster.</param>
    /// <param name="changeUs">Which: its <see cref="GridState.ChangeUs"/>.</param>
    /// <param name="giveUp">If not all have agreed, nothing changes and it is over: its time has passed.</param>
    /// <param name="cancellation">Gives up waiting.</param>
    /// <returns>The shards that have not agreed; empty if it was settled now or before.</returns>
    Task<IReadOnlyList<ShardId>> SettleIntervalAsync(string cluster, long changeUs, bool giveUp, CancellationToken cancellation = default);

    /// <summary>Appends a stretch of the grid with another interval, for a cluster none of whose shards runs. It starts at the first grid
    /// point of the newest stretch that is at or after <paramref name="notBeforeMicroseconds"/> and after that stretch's start, so versions
    /// never go back.</summary>
    /// <param name="cluster">The cluster.</param>
    /// <param name="intervalMicroseconds">The new version interval.</param>
    /// <param name="notBeforeMicroseconds">Microseconds since 1970-01-01 UTC.</param>
    /// <param name="cancellation">Gives up waiting.</param>
    /// <returns>The new stretch, or the newest one if it already has this interval.</returns>
    Task<GridStretch> ChangeIntervalAsync(
        string cluster, long intervalMicroseconds, long notBeforeMicroseconds, CancellationToken cancellation = default);

    /// <summary>Notes where a shard can be reached and what kind of store it has.</summary>
    /// <returns>The shard with its current world-line, recorded cut and epoch.</returns>
    Task<ShardRecord> RegisterShardAsync(
        string cluster, ShardId shard, string address, string storeKind, CancellationToken cancellation = default);

    /// <summary>All shards of a cluster, by number.</summary>
    Task<IReadOnlyList<ShardRecord>> ShardsAsync(string cluster, CancellationToken cancellation = default);

    /// <summary>Takes over a shard: from now on cuts with an older epoch are refused (invariant I6).</summary>
    /// <param name="cluster">The cluster.</param>
    /// <param name="shard">The shard.</param>
    /// <param name="owner">Who takes it, for people: host, process.</param>
    /// <param name="cancellation">Gives up waiting.</param>
    /// <returns>The new epoch: larger than every epoch given out in this cluster before, for any shard.</returns>
    Task<long> TakeShardEpochAsync(string cluster, ShardId shard, string owner, CancellationToken cancellation = default);

    /// <summary>Takes over a shard for the node that leads it, as <see cref="TakeShardEpochAsync"/> does, and notes where clients reach it;
    /// unless a later reign has been noted: its leader may be slow, and not know yet that it is deposed (invariant I6).</summary>
    /// <param name="cluster">The cluster.</param>
    /// <param name="shard">The shard.</param>
    /// <param name="address">Where clients reach the node.</param>
    /// <param name="storeKind">What the store is.</param>
    /// <param name="owner">Who takes it, for people: host, process.</param>
    /// <param name="reign">The reign that it leads.</param>
    /// <param name="cancellation">Gives up waiting.</param>
    /// <returns>The new epoch, and the reign. Of a later reign: epoch 0, and that reign; nothing has changed.</returns>
    Task<(long Epoch, Reign Reign)> LeadShardAsync(string cluster, ShardId shard, string address, string storeKind, string owner,
        Reign reign, CancellationToken cancellation = default);

    /// <summary>Records what a shard has durable, if the world-line is current, the epoch is the shard's newest, and the version is
    /// not below the recorded one (invariants I3, I5, I6); then the cut, if that lets it advance. Recording the same again
    /// succeeds.</summary>
    Task<DurableResult> RecordDurableAsync(
        string cluster, ShardId shard, DurableClaim durable, long expectedShardEpoch, CancellationToken cancellation = default);

    /// <summary>The same with what the versions of the claim depend on, for the exact finder: both, or nothing. The row takes the
    /// place of those of this shard that begin at or after its own beginning; committed ones are forgotten.</summary>
    Task<DurableResult> RecordDurableRowAsync(
        string cluster, DurableClaim durable, PrecedenceRow row, long expectedShardEpoch, CancellationToken cancellation = default);

    /// <summary>The recorded cut. With the approximate finder, the newest that the shards' claims allow is recorded first: whoever waits
    /// for others to become durable calls this. With the others a coordinator records it.</summary>
    Task<ClusterCut> AdvanceCutAsync(string cluster, CancellationToken cancellation = default);

    /// <summary>Records a cut that a coordinator has found: only if it holds the role, no shard has changed hands since it looked, the
    /// world-line is current, and no shard goes back (invariants I3, I5, I6). Recording the same again succeeds.</summary>
    /// <param name="cluster">The cluster.</param>
    /// <param name="cut">One version for each shard; with the approximate finder the same for all.</param>
    /// <param name="expectedEpoch">The coordinator's epoch.</param>
    /// <param name="expectedOwners"><see cref="CoordinatorView.Owners"/>, as the coordinator knows it.</param>
    /// <param name="cancellation">Gives up waiting.</param>
    Task<CutOutcome> RecordCutAsync(
        string cluster, Cut cut, long expectedEpoch, long expectedOwners, CancellationToken cancellation = default);

    /// <summary>What a coordinator goes by.</summary>
    Task<CoordinatorView> CoordinatorViewAsync(string cluster, CancellationToken cancellation = default);

    /// <summary>Takes the role of the coordinator from whoever holds it, if its lease is as it was seen.</summary>
    /// <param name="cluster">The cluster.</param>
    /// <param name="seen">The lease that has run out (<see cref="LeaseWatch"/>).</param>
    /// <param name="address">Where the taker can be reached by the shards: HOST:PORT.</param>
    /// <param name="cancellation">Gives up waiting.</param>
    /// <returns>The new epoch; null if another was faster, or the holder has renewed it.</returns>
    Task<long?> TakeCoordinatorAsync(string cluster, LeaseState seen, string address, CancellationToken cancellation = default);

    /// <summary>Renews the coordinator's lease.</summary>
    /// <returns>False if another holds it now.</returns>
    Task<bool> RenewCoordinatorAsync(string cluster, long expectedEpoch, CancellationToken cancellation = default);

    /// <summary>Renews the lease of a shard: its proxy lives, and has its store.</summary>
    /// <returns>False if another process owns the shard now.</returns>
    Task<bool> RenewShardAsync(string cluster, ShardId shard, long expectedEpoch, CancellationToken cancellation = default);

    /// <summary>Who is alive, and where the coordinator is.</summary>
    Task<ClusterWatch> WatchAsync(string cluster, CancellationToken cancellation = default);

    /// <summary>Where the coordinator is, and one shard.</summary>
    Task<ClusterBeat> BeatAsync(string cluster, ShardId shard, CancellationToken cancellation = default);

    /// <summary>Notes that the shard's owner is about to write a reset, if the world-line is current, and the epoch the shard's newest.
    /// Noting the same again succeeds.</summary>
    /// <param name="cluster">The cluster.</param>
    /// <param name="shard">The caller's shard.</param>
    /// <param name="mark">In which world-line.</param>
    /// <param name="expectedEpoch">The caller's epoch.</param>
    /// <param name="cancellation">Gives up waiting.</param>
    /// <returns>Whether it is noted. If not nothing may be written.</returns>
    Task<bool> MarkResetAsync(string cluster, ShardId shard, ResetMark mark, long expectedEpoch, CancellationToken cancellation = default);

    /// <summary>Asks all shards to hurry: somebody waits for a commit. Never takes back a later request.</summary>
    /// <param name="cluster">The cluster.</param>
    /// <param name="until">Until this version is open.</param>
    /// <param name="cancellation">Gives up waiting.</param>
    Task AwaitCommitAsync(string cluster, VersionNumber until, CancellationToken cancellation = default);

    /// <summary>Starts the next world-line of the cluster, in one transaction: only if it follows the current one and the caller
    /// still owns its shard. It branches at the newest cut that the shards' claims allow (with the exact finder, their rows), the
    /// caller's new one among them, never below the recorded cut.</summary>
    /// <param name="cluster">The cluster.</param>
    /// <param name="shard">The caller's shard.</param>
    /// <param name="next">The world-line to start: the current one's successor.</param>
    /// <param name="durable">What the caller's shard has durable in the current world-line; not less than it recorded.</param>
    /// <param name="expectedEpoch">The caller's epoch: the newest of its shard.</param>
    /// <param name="row">With the exact finder, what those versions depend on, if that is to count.</param>
    /// <param name="cancellation">Gives up waiting.</param>
    /// <returns>The outcome, and where the cluster is now: if it was started, the branch. Starting what the same epoch started
    /// before is <see cref="WorldLineOutcome.Started"/> again, so a caller may repeat after a lost answer.</returns>
    Task<WorldLineResult> BeginWorldLineAsync(
        string cluster, ShardId shard, WorldLine next, DurableClaim durable, long expectedEpoch, PrecedenceRow? row = null,
        CancellationToken cancellation = default);

    /// <summary>Notes that a shard has left all older world-lines: nothing of them is read or written there any more. Nothing
    /// happens if the world-line is not current any more, or the epoch is not the shard's newest.</summary>
    Task EnterWorldLineAsync(
        string cluster, ShardId shard, WorldLine entered, long expectedShardEpoch, CancellationToken cancellation = default);

    /// <summary>All world-lines of a cluster, oldest first; the last one is current.</summary>
    Task<IReadOnlyList<WorldLineRecord>> WorldLinesAsync(string cluster, CancellationToken cancellation = default);

    /// <summary>All shards, the recorded cut, all world-lines and the clock grid, in one exchange where the database has that. Not of one
    /// moment: the cut is the oldest of them.</summary>
    /// <exception cref="MetadataException">There is no such cluster.</exception>
    Task<ClusterSnapshot> SnapshotAsync(string cluster, CancellationToken cancellation = default);

    /// <summary>Notes which point of history a place in a replication stream stands for. Noting the same again succeeds.</summary>
    /// <param name="cluster">The cluster.</param>
    /// <param name="shard">The shard.</param>
    /// <param name="replid">The stream's replication id: 40 lower-case hexadecimal digits.</param>
    /// <param name="offset">Bytes of history before the place.</param>
    /// <param name="point">What the place stands for.</param>
    /// <param name="cancellation">Gives up waiting.</param>
    /// <exception cref="MetadataException">The place was noted before as another point.</exception>
    Task RecordOriginAsync(
        string cluster, ShardId shard, string replid, long offset, WorldPoint point, CancellationToken cancellation = default);

    /// <summary>All places noted for a shard, in the order of their points of history.</summary>
    Task<IReadOnlyList<StreamOriginRecord>> OriginsAsync(
        string cluster, ShardId shard, CancellationToken cancellation = default);
}
