// Moves of slots: the table of ownership is read here, changed by OwnershipTable (Core), and written back in the same
// transaction, under the cluster's lock. Whatever changes raises the revision, which stands in every row of the map.
using System.Collections.Immutable;
using System.Data.Common;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Membership;
using Slogger.Core.Ownership;
using Slogger.Core.WorldLines;

namespace Slogger.Metadata.Sql;

internal sealed partial class SqlMetadataStore
{
    /// <inheritdoc />
    public Task<OwnershipTable> OwnershipAsync(string cluster, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        return connection.RunAsync(
            async session =>
            {
                while (true)
                {
                    (OwnershipTable table, bool isOfOneRevision) = await TableAsync(session, cluster, cancellation);
                    if (isOfOneRevision)
                    {
                        return table;
                    }
                }
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<MovePlan> PlanMoveAsync(string cluster, ImmutableArray<SlotRange> slots, ShardId to,
        CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(to);
        return ChangeAsync<MovePlan>(
            cluster,
            async (session, table) =>
            {
                long shards = (await session.QueryAsync(
                    "SELECT shard_count FROM slogger_clusters WHERE cluster = @cluster", r => r.GetInt64(0), cancellation,
                        ("@cluster", cluster)))[0];
                if (to.Number >= shards)
                {
                    return (new(null, $"Cluster \"{cluster}\" has no shard {to}: its shards are 0 to {shards - 1}."), null);
                }

                ShardRecord taker = await ShardAsync(session, cluster, to, cancellation);
                MemberState state = taker.State;
                if (state != MemberState.Member)
                {
                    return (new(null, state == MemberState.Joining
                        ? $"Shard {to} has not joined cluster \"{cluster}\" yet: start its proxy, or wait until it serves."
                        : $"Shard {to} leaves cluster \"{cluster}\", or has left it: it takes no slots."), null);
                }

                FinderKind finder = (await HeadAsync(session, cluster, cancellation)).Finder;
                if (!finder.HasGridCuts)
                {
                    // What is deleted here and what has landed there must be in one cut, and no session's header says so.
                    return (new(null, $"Slots do not move in cluster \"{cluster}\": its finder is {finder.Name}, and only cuts of the "
                        + "approximate finder hold a move on both sides."), null);
                }

                if (await FasterAmongAsync(session, cluster, taker, table, slots, cancellation) is { } faster)
                {
                    return (new(null, $"Slots do not move to or from shard {faster}: its store is FASTER, whose keys cannot be copied to "
                        + "another shard yet."), null);
                }

                string text = TextOf(slots);
                OwnershipTable? planned = text.Length > SqlSchema.MoveSlotsLength ? null : table.Plan(slots, to, out _);
                string? error = null;
                if (planned is null && text.Length <= SqlSchema.MoveSlotsLength)
                {
                    table.Plan(slots, to, out error);
                }

                return planned is null
                    ? (new(null, error ?? $"{slots.Length} ranges of slots are too many for one move: name fewer at a time."), null)
                    : (new(planned.Moves[^1].Id, null), planned);
            },
            cancellation);
    }

    // Which of the two shards of a move has an embedded store. What else may be wrong with the move is not looked at.
    private static async Task<ShardId?> FasterAmongAsync(SqlSession session, string cluster, ShardRecord to, OwnershipTable table,
        ImmutableArray<SlotRange> slots, CancellationToken cancellation)
    {
        if (to.StoreKind == ShardRecord.FasterStore) return to.Shard;
        if (slots.IsDefaultOrEmpty || !slots[0].IsValid || slots[0].First.Number >= table.Map.Count) return null;
        ShardRecord from = await ShardAsync(session, cluster, table.Map.Owner(slots[0].First), cancellation);
        return from.StoreKind == ShardRecord.FasterStore ? from.Shard : null;
    }

    /// <inheritdoc />
    public Task<bool> CancelMoveAsync(string cluster, MoveId move, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        return ChangeAsync<bool>(
            cluster,
            (_, table) =>
            {
                bool done = table.Moves.Any(m => m.Id == move && m.State == MoveState.Cancelled);
                OwnershipTable? cancelled = table.Cancel(move);
                return Task.FromResult((done || cancelled is not null, cancelled));
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<ChangeOutcome> ChangeMoveAsync(string cluster, MoveChange change, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(change.By);
        return ChangeAsync<ChangeOutcome>(
            cluster,
            async (session, table) =>
            {
                long newest = (await ShardAsync(session, cluster, change.By, cancellation)).Epoch;
                (ChangeOutcome outcome, OwnershipTable after) = table.Apply(change, new(newest));
                return (outcome, outcome == ChangeOutcome.Applied ? after : null);
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task NoteMoveAsync(string cluster, MoveId move, string note, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        ArgumentNullException.ThrowIfNull(note);
        string kept = note.Length > SqlSchema.MoveNoteLength ? note[..SqlSchema.MoveNoteLength] : note;
        return connection.RunAsync(
            session => session.ExecuteAsync(
                "UPDATE slogger_moves SET note = @note WHERE cluster = @cluster AND move_id = @id",
                cancellation,
                ("@note", kept),
                ("@cluster", cluster),
                ("@id", move.Number)),
            cancellation);
    }

    /// <inheritdoc />
    public Task<IReadOnlyDictionary<MoveId, string>> MoveNotesAsync(string cluster, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        return connection.RunAsync<IReadOnlyDictionary<MoveId, string>>(
            async session => (await session.QueryAsync(
                "SELECT move_id, note FROM slogger_moves WHERE cluster = @cluster",
                r => (Id: new MoveId(r.GetInt64(0)), Note: r.GetString(1)),
                cancellation,
                ("@cluster", cluster))).ToDictionary(m => m.Id, m => m.Note),
            cancellation);
    }

    /// <inheritdoc />
    public Task<string> PeerSecretAsync(string cluster, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        return connection.RunAsync(
            async session => (await HeadWithSecretAsync(session, cluster, cancellation)).Coordinator.Secret,
            cancellation);
    }

    // Part of the transaction that starts a world-line.
    private static async Task RecoverOwnershipAsync(SqlSession session, string cluster, Cut branch, CancellationToken cancellation)
    {
        (OwnershipTable before, _) = await TableAsync(session, cluster, cancellation);
        if (before.Moves.Length > 0)
        {
            await WriteAsync(session, cluster, before, before.Recover(branch.WorldLine, TextOf(branch).Lowest), cancellation);
        }
    }

    private Task<T> ChangeAsync<T>(string cluster, Func<SqlSession, OwnershipTable, Task<(T Result, OwnershipTable? After)>> change,
        CancellationToken cancellation) =>
        connection.RunAsync(
            async session =>
            {
                T result = default!;
                await session.InTransactionAsync(
                    async () =>
                    {
                        await LockClusterAsync(session, cluster, cancellation);
                        (OwnershipTable before, _) = await TableAsync(session, cluster, cancellation);
                        (result, OwnershipTable? after) = await change(session, before);
                        if (after is not null)
                        {
                            await WriteAsync(session, cluster, before, after, cancellation);
                        }

                        return after is not null;
                    },
                    cancellation);
                return result;
            },
            cancellation);

    private const string MovesSql =
        "SELECT move_id, slots, from_shard, to_shard, state, boundary_version, landed_version, revision FROM slogger_moves "
        + "WHERE cluster = @cluster ORDER BY move_id";

    private const string PastMovesSql =
        "SELECT move_id, slots, from_shard, to_shard, landed_version FROM slogger_past_moves WHERE cluster = @cluster ORDER BY number";

    // Several statements: of one revision if nothing has changed between the first and the last, as under the cluster's lock.
    private static async Task<(OwnershipTable Table, bool IsOfOneRevision)> TableAsync(SqlSession session, string cluster,
        CancellationToken cancellation)
    {
        List<(SlotRow Row, long Revision, long Count, long Settled, long KnownFrom)> slots = [];
        List<SlotMove> moves = [];
        List<PastMove> past = [];
        List<ClusterHead> heads = [];
        long last = 0;
        await session.QueryAllAsync(
            [
                new(SlotsSql, r => slots.Add(SlotOf(r))),
                new(MovesSql, r => moves.Add(MoveOf(cluster, r))),
                new(PastMovesSql, r => past.Add(PastMoveOf(cluster, r))),
                new(HeadSql, r => heads.Add(HeadOf(r))),
                new(SlotsSql, r => last = Math.Max(last, SlotOf(r).Revision)),
            ],
            cancellation,
            ("@cluster", cluster));
        SlotOwners owners = OwnersOf(cluster, slots);
        return heads is [ClusterHead head]
            ? (new(owners.Revision, head.Cut.Cut.WorldLine, owners.Map, [.. moves])
                {
                    Settled = new(slots[0].Settled), KnownFrom = new(slots[0].KnownFrom), Past = [.. past],
                }, owners.Revision == new MapRevision(last))
            : throw UnknownCluster(cluster);
    }

    // The rows of the map are few, and change rarely: all anew.
    private static async Task WriteAsync(SqlSession session, string cluster, OwnershipTable before, OwnershipTable after,
        CancellationToken cancellation)
    {
        if (before.Map.Rows.SequenceEqual(after.Map.Rows))
        {
            await session.ExecuteAsync(
                "UPDATE slogger_slots SET revision = @revision WHERE cluster = @cluster", cancellation,
                    ("@revision", after.Revision.Number), ("@cluster", cluster));
        }
        else
        {
            await session.ExecuteAsync("DELETE FROM slogger_slots WHERE cluster = @cluster", cancellation, ("@cluster", cluster));
            await InsertSlotsAsync(session, cluster, after.Map, after.Revision, cancellation);
        }

        if (before.Settled != after.Settled || before.KnownFrom != after.KnownFrom)
        {
            await session.ExecuteAsync(
                "UPDATE slogger_clusters SET settled_version = @settled, owners_known_from = @known WHERE cluster = @cluster", cancellation,
                    ("@settled", after.Settled.Number), ("@known", after.KnownFrom.Number), ("@cluster", cluster));
        }

        foreach (PastMove move in before.Past.Where(m => !after.Past.Any(a => a.Id == m.Id)))
        {
            await session.ExecuteAsync(
                "DELETE FROM slogger_past_moves WHERE cluster = @cluster AND move_id = @id", cancellation, ("@cluster", cluster),
                    ("@id", move.Id.Number));
        }

        foreach (PastMove move in after.Past.Where(m => !before.Past.Any(b => b.Id == m.Id)))
        {
            // By the revision they are in the order in which they were finished.
            await session.ExecuteAsync(
                "INSERT INTO slogger_past_moves (cluster, move_id, slots, from_shard, to_shard, landed_version, number) "
                + "VALUES (@cluster, @id, @slots, @from, @to, @landed, @number)",
                cancellation,
                ("@cluster", cluster),
                ("@id", move.Id.Number),
                ("@slots", TextOf(move.Slots)),
                ("@from", (long)move.From.Number),
                ("@to", (long)move.To.Number),
                ("@landed", move.Landed.Number),
                ("@number", after.Revision.Number));
        }

        foreach (SlotMove move in before.Moves.Where(m => !after.Moves.Any(a => a.Id == m.Id)))
        {
            await session.ExecuteAsync(
                "DELETE FROM slogger_moves WHERE cluster = @cluster AND move_id = @id", cancellation, ("@cluster", cluster),
                    ("@id", move.Id.Number));
        }

        foreach (SlotMove move in after.Moves.Where(m => !before.Moves.Contains(m)))
        {
            int rows = await session.ExecuteAsync(
                "UPDATE slogger_moves SET state = @state, boundary_version = @boundary, landed_version = @landed, revision = @revision "
                + "WHERE cluster = @cluster AND move_id = @id",
                cancellation,
                ("@state", (long)move.State),
                ("@boundary", move.Boundary.Number),
                ("@landed", move.Landed.Number),
                ("@revision", move.Changed.Number),
                ("@cluster", cluster),
                ("@id", move.Id.Number));
            if (rows == 0)
            {
                await InsertMoveAsync(session, cluster, move, cancellation);
            }
        }
    }

    private static Task InsertMoveAsync(SqlSession session, string cluster, SlotMove move, CancellationToken cancellation) =>
        session.ExecuteAsync(
            "INSERT INTO slogger_moves (cluster, move_id, slots, from_shard, to_shard, state, boundary_version, landed_version, "
            + "revision, note) VALUES (@cluster, @id, @slots, @from, @to, @state, @boundary, @landed, @revision, '')",
            cancellation,
            ("@cluster", cluster),
            ("@id", move.Id.Number),
            ("@slots", TextOf(move.Slots)),
            ("@from", (long)move.From.Number),
            ("@to", (long)move.To.Number),
            ("@state", (long)move.State),
            ("@boundary", move.Boundary.Number),
            ("@landed", move.Landed.Number),
            ("@revision", move.Changed.Number));

    private static async Task InsertSlotsAsync(SqlSession session, string cluster, SlotMap map, MapRevision revision,
        CancellationToken cancellation)
    {
        foreach (SlotRow row in map.Rows)
        {
            await session.ExecuteAsync(
                "INSERT INTO slogger_slots (cluster, first_slot, last_slot, shard, revision) VALUES (@cluster, @first, @last, "
                    + "@shard, @revision)",
                cancellation,
                ("@cluster", cluster),
                ("@first", (long)row.Slots.First.Number),
                ("@last", (long)row.Slots.Last.Number),
                ("@shard", (long)row.Shard.Number),
                ("@revision", revision.Number));
        }
    }

    private static string TextOf(ImmutableArray<SlotRange> slots) => slots.IsDefault ? "" : string.Join(',', slots);

    private static PastMove PastMoveOf(string cluster, DbDataReader row) =>
        SlotRange.TryParseList(row.GetString(1), out ImmutableArray<SlotRange> slots, out _)
            ? new(new(row.GetInt64(0)), slots, new((int)row.GetInt64(2)), new((int)row.GetInt64(3)), new(row.GetInt64(4)))
            : throw new MetadataException($"Move {row.GetInt64(0)} of cluster \"{cluster}\" in the metadata is not right: slots "
                + $"\"{row.GetString(1)}\". Restore the table slogger_past_moves from a backup.");

    private static SlotMove MoveOf(string cluster, DbDataReader row)
    {
        string text = row.GetString(1);
        long state = row.GetInt64(4);
        if (!SlotRange.TryParseList(text, out ImmutableArray<SlotRange> slots, out _)
            || state is < (long)MoveState.Planned or >= (long)MoveState.Finished)
        {
            throw new MetadataException(
                $"Move {row.GetInt64(0)} of cluster \"{cluster}\" in the metadata is not right: slots \"{text}\", state {state}. Restore "
                    + "the table slogger_moves from a backup.");
        }

        return new(
            new(row.GetInt64(0)), slots, new((int)row.GetInt64(2)), new((int)row.GetInt64(3)), (MoveState)state, new(row.GetInt64(5)),
                new(row.GetInt64(6)), new(row.GetInt64(7)));
    }
}
