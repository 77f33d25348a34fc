// What a site is, and what its backup's streams are: SiteState has the rules. A site that is not the primary has no owners of shards: what
// a proxy of before still says is refused by the same comparisons as that of any deposed owner, and no shard is taken there (I6).
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Sites;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Metadata.Sql;

internal sealed partial class SqlMetadataStore
{
    /// <inheritdoc />
    public Task<SiteState> SiteAsync(string cluster, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        return connection.RunAsync(session => SiteAsync(session, cluster, cancellation), cancellation);
    }

    /// <inheritdoc />
    public Task<SiteAnswer> ChangeSiteAsync(string cluster, Func<SiteState, SiteChange> change, CancellationToken cancellation = default)
    {
        ArgumentNullException.ThrowIfNull(change);
        return ChangeSiteAsync(cluster, change, (_, _, _) => Task.CompletedTask, cancellation);
    }

    /// <inheritdoc />
    public Task<TakenStreams> TakeStreamsAsync(string cluster, ShardId shard, int sources = 0, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(shard);
        ArgumentOutOfRangeException.ThrowIfNegative(sources);
        return connection.RunAsync(
            async session =>
            {
                TakenStreams taken = default;
                await session.InTransactionAsync(
                    async () =>
                    {
                        await LockClusterAsync(session, cluster, cancellation);
                        SiteState before = await SiteAsync(session, cluster, cancellation), site = before;
                        if (before == SiteState.Alone)
                        {
                            List<ShardRecord> shards = await ShardRowsAsync(session, cluster, cancellation);
                            if (shards.Any(s => s.Epoch > 0)) { throw NeverABackup(cluster); }
                            site = SiteState.BackupOf(sources > 0 ? sources : shards.Count, shards.Count, SiteEpoch.First);
                            if (!site.Layout.IsPlain
                                && (await SettingsAsync(session, cluster, cancellation))!.Partitions.Kind != PartitionKind.Hash)
                            {
                                throw OtherNumberOfRanges(cluster, site);
                            }
                        }

                        switch (site.Role)
                        {
                            case SiteRole.Deposed:
                                throw Deposed(cluster, site);
                            case SiteRole.Primary or SiteRole.HandingOver:
                                taken = new(site, 0);
                                return site.Final is null ? throw NeverABackup(cluster) : false;
                        }

                        if (sources > 0 && sources != site.Sources) { throw OtherPrimary(cluster, site, sources); }
                        if (shard.Number >= site.Shards) { throw UnknownShard(cluster, shard); }
                        long owner = await NextEpochAsync(session, cluster, cancellation);
                        site = site.TakeShard(shard, owner);
                        await WriteSiteAsync(session, cluster, before, site, cancellation);
                        taken = new(site, owner);
                        return true;
                    },
                    cancellation);
                return taken;
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<SiteAnswer> OpenStreamsAsync(string cluster, SiteEpoch number, IReadOnlyList<ReadyStream> streams,
        CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        ArgumentNullException.ThrowIfNull(streams);
        foreach (ReadyStream ready in streams)
        {
            CheckShard(ready.Stream);
            Checked(ready.Name, SqlSchema.OwnerLength, nameof(streams));
            ArgumentOutOfRangeException.ThrowIfLessThan(ready.Owner, 1, nameof(streams));
        }

        return connection.RunAsync(
            async session =>
            {
                SiteAnswer answer = default;
                await session.InTransactionAsync(
                    async () =>
                    {
                        await LockClusterAsync(session, cluster, cancellation);
                        SiteState before = await SiteAsync(session, cluster, cancellation), site = before;
                        string? refused = null;
                        List<ReadyStream> opened = [];
                        foreach (ReadyStream ready in streams)
                        {
                            (SiteState? after, string? error) = before.Open(number, ready);
                            refused ??= error;
                            if (after is not null) { opened.Add(ready); }
                        }

                        // With the last of its streams a shard's row is its process's from here on, unless somebody has taken the shard as
                        // that of a primary.
                        SiteState then = opened.Aggregate(before, (s, r) => s.Open(number, r).After ?? s);
                        ReadyStream[] whole = [.. opened.Where(r => then.IsShardOpen(r.Stream))
                            .DistinctBy(r => then.ShardOf(r.Stream.Number))];
                        IReadOnlyList<int> rows = await session.ExecuteAllAsync(
                            [.. whole.Select(r => new SqlStatement(
                                "UPDATE slogger_shards SET epoch = @epoch, owner = @owner, agreed_us = 0, entered = @entered WHERE "
                                    + "cluster = @cluster AND shard = @shard AND epoch <= @epoch",
                                ("@epoch", r.Owner),
                                ("@owner", r.Name),
                                ("@entered", number.FirstWorldLine.Number),
                                ("@cluster", cluster),
                                ("@shard", (long)then.ShardOf(r.Stream.Number))))],
                            cancellation);
                        HashSet<int> taken = [.. whole.Zip(rows).Where(w => w.Second == 0)
                            .Select(w => then.ShardOf(w.First.Stream.Number))];
                        foreach (ReadyStream ready in opened)
                        {
                            int shard = then.ShardOf(ready.Stream.Number);
                            if (taken.Contains(shard)) { refused ??= $"shard {shard} has been taken by another process"; }
                            // The last one makes the site the primary: each on top of those before.
                            else { site = site.Open(number, ready).After ?? site; }
                        }

                        answer = new(site, refused is null ? null : $"Cluster \"{cluster}\": {refused}.");
                        if (opened.All(r => taken.Contains(then.ShardOf(r.Stream.Number)))) { return false; }
                        // Who looks for changes of the owners sees one.
                        await WriteSiteAsync(session, cluster, before, site, cancellation, NextEpoch(cluster));
                        return true;
                    },
                    cancellation);
                return answer;
            },
            cancellation);
    }

    private static async Task<long> NextEpochAsync(SqlSession session, string cluster, CancellationToken cancellation)
    {
        await session.ExecuteAllAsync([NextEpoch(cluster)], cancellation);
        return (await session.QueryAsync("SELECT epoch_last FROM slogger_clusters WHERE cluster = @cluster", r => r.GetInt64(0),
            cancellation, ("@cluster", cluster)))[0];
    }

    private static SqlStatement NextEpoch(string cluster) =>
        new("UPDATE slogger_clusters SET epoch_last = epoch_last + 1 WHERE cluster = @cluster", ("@cluster", cluster));

    /// <inheritdoc />
    public Task<SiteAnswer> DecideFailoverAsync(
        string cluster, SiteEpoch number, WorldPoint final, IReadOnlyList<WorldPoint> lineage, CancellationToken cancellation = default)
    {
        ArgumentNullException.ThrowIfNull(lineage);
        CheckPoint(final);
        return ChangeSiteAsync(
            cluster,
            site => site.Decide(number, final),
            async (session, before, _) =>
            {
                if (before.Final is null)
                {
                    await BeginAtFinalAsync(session, cluster, before.Shards, number, final, lineage, cancellation);
                }
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task NoteSiteAddressAsync(string cluster, ShardId shard, string address, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(shard);
        Checked(address, SqlSchema.AddressLength, nameof(address));
        return connection.RunAsync(
            async session =>
            {
                await session.InTransactionAsync(
                    async () =>
                    {
                        await LockClusterAsync(session, cluster, cancellation);
                        (string, object)[] row = [("@address", address), ("@cluster", cluster), ("@shard", (long)shard.Number)];
                        int rows = await session.ExecuteAsync("UPDATE slogger_site_addresses SET address = @address WHERE cluster = "
                            + "@cluster AND shard = @shard", cancellation, row);
                        if (rows == 0)
                        {
                            await session.ExecuteAsync("INSERT INTO slogger_site_addresses (address, cluster, shard) VALUES (@address, "
                                + "@cluster, @shard)", cancellation, row);
                        }
                        return true;
                    },
                    cancellation);
                return true;
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<TakeoverTimes> TakeoverTimesAsync(string cluster, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        return connection.RunAsync(
            async session => (await session.QueryAsync(
                "SELECT drill_us, failover_us, failover_drill_us FROM slogger_sites WHERE cluster = @cluster",
                r => new TakeoverTimes(TimeSpan.FromMicroseconds(r.GetInt64(0)), TimeSpan.FromMicroseconds(r.GetInt64(1)),
                    TimeSpan.FromMicroseconds(r.GetInt64(2))),
                cancellation,
                ("@cluster", cluster))).FirstOrDefault(),
            cancellation);
    }

    /// <inheritdoc />
    public Task NoteDrillAsync(string cluster, TimeSpan estimate, CancellationToken cancellation = default) =>
        NoteTimesAsync("UPDATE slogger_sites SET drill_us = @us WHERE cluster = @cluster", cluster, estimate, cancellation);

    /// <inheritdoc />
    public Task NoteFailoverAsync(string cluster, TimeSpan took, CancellationToken cancellation = default) =>
        NoteTimesAsync("UPDATE slogger_sites SET failover_us = @us, failover_drill_us = drill_us WHERE cluster = @cluster", cluster, took,
            cancellation);

    private Task NoteTimesAsync(string statement, string cluster, TimeSpan time, CancellationToken cancellation)
    {
        CheckedCluster(cluster);
        ArgumentOutOfRangeException.ThrowIfLessThan(time, TimeSpan.Zero);
        return connection.RunAsync(
            session => session.ExecuteAsync(statement, cancellation, ("@us", (long)time.TotalMicroseconds), ("@cluster", cluster)),
                cancellation);
    }

    /// <inheritdoc />
    public Task<IReadOnlyDictionary<ShardId, string>> SiteAddressesAsync(string cluster, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        return connection.RunAsync<IReadOnlyDictionary<ShardId, string>>(
            async session => (await session.QueryAsync(
                "SELECT shard, address FROM slogger_site_addresses WHERE cluster = @cluster",
                r => (Shard: new ShardId((int)r.GetInt64(0)), Address: r.GetString(1)),
                cancellation,
                ("@cluster", cluster))).ToDictionary(a => a.Shard, a => a.Address),
            cancellation);
    }

    private Task<SiteAnswer> ChangeSiteAsync(
        string cluster, Func<SiteState, SiteChange> change, Func<SqlSession, SiteState, SiteState, Task> also,
            CancellationToken cancellation)
    {
        CheckedCluster(cluster);
        return connection.RunAsync(
            async session =>
            {
                SiteAnswer answer = default;
                await session.InTransactionAsync(
                    async () =>
                    {
                        await LockClusterAsync(session, cluster, cancellation);
                        SiteState before = await SiteAsync(session, cluster, cancellation);
                        (SiteState? after, string? error) = change(before);
                        answer = new(after ?? before, error is null ? null : $"Cluster \"{cluster}\": {error}.");
                        if (after is null || (after with { Streams = before.Streams } == before
                            && after.Streams.SequenceEqual(before.Streams)))
                        {
                            return false;
                        }
                        await WriteSiteAsync(session, cluster, before, after, cancellation);
                        if (Serves(before.Role) && !Serves(after.Role)) { await TakeAllAsync(session, cluster, after, cancellation); }
                        await also(session, before, after);
                        return true;
                    },
                    cancellation);
                return answer;
            },
            cancellation);
    }

    private static async Task<SiteState> SiteAsync(SqlSession session, string cluster, CancellationToken cancellation)
    {
        List<(SiteState Site, StreamState? Stream)> rows = await session.QueryAsync(
            "SELECT s.epoch, s.role, s.final_world_line, s.final_version, s.hand_over, s.hand_over_world_line, s.hand_over_version, "
            + "s.called_off, s.sources, s.shards, t.generation, t.phase, t.sender_site, t.sender_epoch, t.sender_incarnation, "
            + "t.owner_epoch, t.is_lost, t.is_open FROM slogger_sites s LEFT JOIN slogger_streams t ON t.cluster = s.cluster WHERE "
            + "s.cluster = @cluster ORDER BY t.stream",
            r => (new SiteState(new(r.GetInt64(0)), (SiteRole)r.GetInt64(1), [], r.GetInt64(2) == 0 ? null : PointOf(r, 2))
            {
                HandOver = new(r.GetInt64(4), r.GetInt64(5) == 0 ? null : PointOf(r, 5)),
                CalledOff = r.GetInt64(7),
                Layout = new((int)r.GetInt64(8), (int)r.GetInt64(9)),
            }, r.IsDBNull(10) ? null as StreamState? : new StreamState(
                r.GetInt64(10), (StreamPhase)r.GetInt64(11), new(new(r.GetInt64(12)), r.GetInt64(13), r.GetInt64(14)), r.GetInt64(15),
                    r.GetInt64(16) != 0, r.GetInt64(17) != 0)),
            cancellation,
            ("@cluster", cluster));
        return rows.Count == 0 ? SiteState.Alone : rows[0].Site with { Streams = [.. rows.Select(r => r.Stream).OfType<StreamState>()] };
    }

    // Only what has changed: a failover waits for each statement.
    private static async Task WriteSiteAsync(SqlSession session, string cluster, SiteState before, SiteState after,
        CancellationToken cancellation, params IEnumerable<SqlStatement> also)
    {
        List<SqlStatement> statements = [.. also];
        if (before == SiteState.Alone || after with { Streams = before.Streams } != before)
        {
            var update = new SqlStatement(
                "UPDATE slogger_sites SET epoch = @epoch, role = @role, final_world_line = @world_line, final_version = @version, "
                + "hand_over = @hand_over, hand_over_world_line = @offered_world_line, hand_over_version = @offered_version, called_off = "
                + "@called_off, sources = @sources, shards = @shards WHERE cluster = @cluster",
                Row());
            if (before != SiteState.Alone) { statements.Add(update); }
            else if (await session.ExecuteAsync(update.Sql, cancellation, update.Parameters) == 0)
            {
                await session.ExecuteAsync(
                    "INSERT INTO slogger_sites (cluster, epoch, role, final_world_line, final_version, hand_over, hand_over_world_line, "
                    + "hand_over_version, called_off, sources, shards) VALUES (@cluster, @epoch, @role, @world_line, @version, "
                    + "@hand_over, @offered_world_line, @offered_version, @called_off, @sources, @shards)",
                    cancellation,
                    Row());
            }
        }

        if (after.Streams.Length < before.Streams.Length)
        {
            statements.Add(new("DELETE FROM slogger_streams WHERE cluster = @cluster AND stream >= @count", ("@cluster", cluster),
                ("@count", (long)after.Streams.Length)));
        }

        for (int s = 0; s < after.Streams.Length; s++)
        {
            StreamState stream = after.Streams[s];
            bool isKnown = s < before.Streams.Length;
            if (isKnown && stream == before.Streams[s]) { continue; }
            statements.Add(new(
                isKnown
                    ? "UPDATE slogger_streams SET generation = @generation, phase = @phase, sender_site = @site, sender_epoch = @epoch, "
                        + "sender_incarnation = @incarnation, owner_epoch = @owner, is_lost = @is_lost, is_open = @is_open WHERE cluster "
                        + "= @cluster AND stream = @stream"
                    : "INSERT INTO slogger_streams (cluster, stream, generation, phase, sender_site, sender_epoch, sender_incarnation, "
                        + "owner_epoch, is_lost, is_open) VALUES (@cluster, @stream, @generation, @phase, @site, @epoch, @incarnation, "
                        + "@owner, @is_lost, @is_open)",
                ("@cluster", cluster),
                ("@stream", (long)s),
                ("@generation", stream.Generation),
                ("@phase", (long)stream.Phase),
                ("@site", stream.Newest.Site.Number),
                ("@epoch", stream.Newest.Epoch),
                ("@incarnation", stream.Newest.Incarnation),
                ("@owner", stream.Owner),
                ("@is_lost", stream.IsLost ? 1L : 0L),
                ("@is_open", stream.IsOpen ? 1L : 0L)));
        }

        await session.ExecuteAllAsync(statements, cancellation);

        (string, object)[] Row() =>
        [
            ("@cluster", cluster),
            ("@epoch", after.Epoch.Number),
            ("@role", (long)after.Role),
            ("@world_line", after.Final?.WorldLine.Number ?? 0),
            ("@version", after.Final?.Version.Number ?? 0),
            ("@hand_over", after.HandOver.Number),
            ("@offered_world_line", after.HandOver.Cut?.WorldLine.Number ?? 0),
            ("@offered_version", after.HandOver.Cut?.Version.Number ?? 0),
            ("@called_off", after.CalledOff),
            ("@sources", (long)after.Layout.Sources),
            ("@shards", (long)after.Layout.Shards),
        ];
    }

    // Whoever serves for this site is deposed: each shard gets an epoch that is nobody's, and so does the role of finding cuts.
    private static async Task TakeAllAsync(SqlSession session, string cluster, SiteState site, CancellationToken cancellation)
    {
        await session.ExecuteAsync("UPDATE slogger_clusters SET epoch_last = epoch_last + 1 WHERE cluster = @cluster", cancellation,
            ("@cluster", cluster));
        const string last = "(SELECT epoch_last FROM slogger_clusters WHERE slogger_clusters.cluster = @cluster)";
        await session.ExecuteAsync(
            $"UPDATE slogger_shards SET epoch = {last}, owner = @owner, agreed_us = 0 WHERE cluster = @cluster AND epoch > 0",
            cancellation,
            ("@owner", $"the site that rules since epoch {site.Epoch}"),
            ("@cluster", cluster));
        await session.ExecuteAsync("UPDATE slogger_clusters SET coordinator_epoch = epoch_last WHERE cluster = @cluster", cancellation,
            ("@cluster", cluster));
    }

    // The cluster as its other site has left it, in the first world-line of this one's rule: it branches at the final watermark.
    private async Task BeginAtFinalAsync(
        SqlSession session, string cluster, int shards, SiteEpoch number, WorldPoint final, IReadOnlyList<WorldPoint> lineage,
            CancellationToken cancellation)
    {
        HashSet<WorldLine> known = [.. (await WorldLinesAsync(session, cluster, cancellation)).Select(l => l.WorldLine)];
        // The other site's versions went by its own grid, and where that stood against this one's nobody knows.
        GridStretch before = (await GridAsync(session, cluster, cancellation))[^1];
        Cut branch = Cut.Uniform(number.FirstWorldLine, shards, final.Version);
        await session.ExecuteAllAsync(
            [
                .. lineage.Where(l => l <= final && known.Add(l.WorldLine))
                    .Select(l => InsertWorldLine(cluster, Cut.Uniform(l.WorldLine, shards, l.Version), 0)),
                .. WriteBranch(cluster, branch),
                InsertWorldLine(cluster, branch, 0),
                new("DELETE FROM slogger_grid WHERE cluster = @cluster", ("@cluster", cluster)),
                InsertGrid(cluster, new(final.Version.Next, NowMicroseconds, before.IntervalUs)),
            ],
            cancellation);
    }

    // One that hands over still has to commit what it has answered.
    private static bool Serves(SiteRole role) => role is SiteRole.Primary or SiteRole.HandingOver;

    // A shard of a site that serves nobody is nobody's.
    private static async Task RequirePrimaryAsync(SqlSession session, string cluster, CancellationToken cancellation)
    {
        SiteState site = await SiteAsync(session, cluster, cancellation);
        if (Serves(site.Role)) { return; }
        throw site.Role == SiteRole.Deposed
            ? Deposed(cluster, site)
            : new MetadataException($"Cluster \"{cluster}\": this site is a backup (epoch {site.Epoch}): start its processes with slogger "
            + "backup; slogger failover makes it the primary.");
    }

    private static MetadataException Deposed(string cluster, SiteState site) =>
        new($"Cluster \"{cluster}\": another site has taken over (epoch {site.Epoch}), and nothing is served here any more. Make this "
            + "site its backup: slogger seed.");

    private static MetadataException OtherPrimary(string cluster, SiteState site, int sources) =>
        new($"Cluster \"{cluster}\": this backup of {site.Shards} shards was made for a primary of {site.Sources}, not of {sources}: "
            + "leave --primary-shards out, or make the backup anew with metadata and data directories of its own.");

    private static MetadataException OtherNumberOfRanges(string cluster, SiteState site) =>
        new($"Cluster \"{cluster}\": its keys fall into ranges (--partitions), and only hash slots can be divided among another number of "
            + $"shards than the primary has: give the backup --shards {site.Sources}, as the primary, and leave --primary-shards out.");

    private static MetadataException NeverABackup(string cluster) =>
        new($"Cluster \"{cluster}\" serves, and was never a backup: start its processes with slogger serve, or give the backup metadata "
            + "of its own (--metadata), or the cluster another name.");
}
