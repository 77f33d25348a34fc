// The entry point of `slogger restore`: puts a Redis into the state of one version while no proxy runs, and lists the versions that can be
// had. Neither what is kept nor the recorded cut is changed. A store that was brought to an older version is noted (RestoredNote): no start
// brings it to the newest one unasked. To go on from the older version is the next start's work, and a write like any other: its content
// becomes the next version, in a new world-line. Nothing committed is taken back below the recorded cut (I2, I3), and a backup never has to
// undo what it holds (I4).
using System.Globalization;
using Slogger.Core.Leases;
using Slogger.Core.Membership;
using Slogger.Core.Recovery;
using Slogger.Core.Shards;
using Slogger.Core.Sites;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Metadata;
using Slogger.Metadata.Sql;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Coordination;
using Slogger.Proxy.Restoring;
using Slogger.Proxy.Shards;
using Slogger.Redis.Connections;

namespace Slogger.Proxy;

/// <summary>Versions that can be restored, and have one state: mostly one, more if nothing was done in the later ones.</summary>
/// <param name="First">The first.</param>
/// <param name="Last">The last.</param>
/// <param name="Closed">When the last was closed; null: not known.</param>
/// <param name="IsCommitted">Whether they are in the recorded cut.</param>
public sealed record RestorableVersions(long First, long Last, DateTimeOffset? Closed, bool IsCommitted);

/// <summary>Puts a Redis into the state of one version while no proxy runs.</summary>
public static class OfflineRestore
{
    /// <summary>Restores and returns. The caller holds the <see cref="DataDirectory"/>. Expected failures are returned, not
    /// thrown.</summary>
    public static Task<ProxyExit> RunAsync(RestoreOptions options, ILogger log, CancellationToken stop)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(log);
        return UseAsync(options, (past, points) => RestoreAsync(options, log, past, points, stop), stop);
    }

    /// <summary>Finds the versions that can be restored, oldest first. Else as <see cref="RunAsync"/>.</summary>
    public static Task<ProxyExit> ListAsync(RestoreOptions options, Action<RestorableVersions> found, CancellationToken stop)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(found);
        return UseAsync(options, (past, points) =>
        {
            foreach (ListedVersions listed in points.All())
            {
                stop.ThrowIfCancellationRequested();
                found(new(listed.First.Number, listed.Last.Number,
                    listed.Time.Bits == 0 ? null : DateTimeOffset.UnixEpoch.AddMicroseconds(listed.Time.Microseconds),
                    listed.First <= past.Cut.Version));
            }
            return Task.FromResult(ProxyExit.Done);
        }, stop);
    }

    private const string OtherMetadata = "give the --metadata that the proxy was started with";

    // What the metadata knows.
    private sealed record Past(IMetadataStore Metadata, IReadOnlyList<ShardRecord> Shards, WorldPoint Cut, HashSet<string> Known,
        bool IsPrimary);

    private static async Task<ProxyExit> UseAsync(RestoreOptions options, Func<Past, IVersionPoints, Task<ProxyExit>> use,
        CancellationToken stop)
    {
        try
        {
            if (options.Metadata.Kind == MetadataKind.Sqlite && !File.Exists(options.Metadata.Target))
            {
                return ProxyExit.Failed($"the metadata {options.Metadata.Target} does not exist", OtherMetadata);
            }
            await using IMetadataStore metadata = MetadataStoreFactory.Create(options.Metadata.Text);
            await metadata.InitializeAsync(stop).ConfigureAwait(false);
            if (await metadata.FindClusterAsync(options.Cluster, stop).ConfigureAwait(false) is not { } settings)
            {
                return Unknown(options);
            }
            StoreRecord? store = StoreRecord.Read(options.DataDirectory);
            string identity = await metadata.IdentityAsync(options.Cluster, stop).ConfigureAwait(false);
            if (store?.Contradiction(options.DataDirectory, metadata.Description, identity) is { } other)
            {
                return ProxyExit.Failed(other, OtherMetadata);
            }
            IReadOnlyList<ShardRecord> shards = await metadata.ShardsAsync(options.Cluster, stop).ConfigureAwait(false);
            if (shards.FirstOrDefault(s => s.Shard == options.Shard) is not { } record) { return Unknown(options); }
            WorldPoint cut = (await metadata.AdvanceCutAsync(options.Cluster, stop).ConfigureAwait(false)).Of(options.Shard);
            IReadOnlyList<WorldLineRecord> lines = await metadata.WorldLinesAsync(options.Cluster, stop).ConfigureAwait(false);
            IReadOnlyList<StreamOriginRecord> origins = await metadata.OriginsAsync(
                options.Cluster, options.Shard, stop).ConfigureAwait(false);
            SiteState site = await metadata.SiteAsync(options.Cluster, stop).ConfigureAwait(false);
            var past = new Past(metadata, shards, cut, [.. origins.Select(o => o.ReplicationId)], site.Role == SiteRole.Primary);
            VersionNumber LastValid(WorldLine line) =>
                WorldLineBranches.LastValid(
                    line, lines.Select(l => new Core.Recovery.WorldLineBranch(l.WorldLine, l.BranchOf(options.Shard))));
            string kept = store is { Store: StoreKind.Faster } ? DataDirectory.FasterDirectory
                : store is { Commit: CommitMode.Bgsave } ? "bgsave" : "log";
            string directory = Path.Combine(options.DataDirectory, kept);
            if (!Directory.Exists(directory))
            {
                return ProxyExit.Failed($"the data directory {options.DataDirectory} holds no {kept}/: there is nothing to restore",
                    "give the right one with --data");
            }
            if (store is { Store: StoreKind.Faster })
            {
                VersionGrid grid = new(settings.Grid);
                return await use(past, new CommitPoints(directory, cut, LastValid,
                    version => HybridTimestamp.Of(grid.StartOf(version.Next), 0))).ConfigureAwait(false);
            }
            if (kept == "bgsave")
            {
                return await use(past, new SnapshotPoints(SnapshotStore.Open(directory), cut, LastValid)).ConfigureAwait(false);
            }
            // The epoch that was last taken: nobody is deposed by reading.
            using VersionLog log = VersionLog.Open(new VersionLogOptions
            {
                Directory = directory,
                MoreDirectories = options.LogDirectories.IsEmpty ? null : options.LogDirectories,
                Shard = options.Shard,
                Epoch = Math.Max(1, record.Epoch),
            });
            if (log.IsEmpty)
            {
                return ProxyExit.Failed($"the version log in {directory} is empty: there is nothing to restore",
                    "give the right directory with --data");
            }
            if (log.WorldLine > record.WorldLine)
            {
                return ProxyExit.Failed($"the version log is in world-line {log.WorldLine}, the metadata only in {record.WorldLine}: they "
                    + "do not belong together", OtherMetadata);
            }
            return await use(past, new LogPoints(log, CheckpointStore.Open(Path.Combine(options.DataDirectory, "checkpoints")), cut,
                LastValid)).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (stop.IsCancellationRequested)
        {
            return ProxyExit.Failed("the restore was given up", "run it again");
        }
        catch (MetadataException e)
        {
            return ProxyExit.Failed($"the metadata cannot be used: {e.Message}", "check --metadata");
        }
        catch (LogException e)
        {
            return ProxyExit.Failed(e.Message);
        }
        catch (RedisException e)
        {
            return ProxyExit.Failed(e.Message, e.Problem.Remedy());
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException or InvalidDataException)
        {
            return ProxyExit.Failed($"the restore failed: {e.Message}");
        }
    }

    private static ProxyExit Unknown(RestoreOptions options) =>
        ProxyExit.Failed($"the metadata knows nothing of shard {options.Shard} of cluster {options.Cluster}", OtherMetadata);

    private static async Task<ProxyExit> RestoreAsync(RestoreOptions options, ILogger log, Past past, IVersionPoints points,
        CancellationToken stop)
    {
        FoundPoint found = options.Version is { } version ? points.At(version) : Newest(options, past.Cut, points);
        if (found.Point is not { } point) { return ProxyExit.Failed($"shard {options.Shard}: {found.Problem}", found.Remedy); }
        if (RestoredNote.Read(options.DataDirectory).GoesOn is { AcceptsLoss: true } accepted && !options.AcceptsLoss)
        {
            return ProxyExit.Failed($"shard {options.Shard}: it is to go on from version {accepted.Version}, and a loss was accepted for "
                + "that; nothing was changed", "start slogger serve; or choose another version with --keep --i-accept-loss");
        }
        // Who accepts a loss goes on in another world-line, with the newest version as well.
        bool isNewest = point.Point.Version == points.Newest && !options.AcceptsLoss;
        if (options.Keep && await WhyNotKeepAsync(options, past, point, stop).ConfigureAwait(false) is { } notKept) { return notKept; }
        // Said before anything is changed, while there is still time for it.
        if (options.AcceptsLoss)
        {
            log.Warn(past.Cut.Version > point.Point.Version
                ? $"the next slogger serve goes on without versions {point.Point.Version.Next} to {past.Cut.Version}, which were committed"
                : $"nothing that the metadata knows to be committed is after version {point.Point.Version}");
        }
        else if (options.Keep && !isNewest)
        {
            log.Warn($"the next slogger serve deletes the history after version {point.Point.Version}. If it may be needed, copy "
                + $"{options.DataDirectory} and {options.Metadata} together before that start, while no proxy runs");
        }
        if (point.BaseFile.Length == 0)
        {
            if (!isNewest && !options.Keep)
            {
                return ProxyExit.Failed($"shard {options.Shard} has an embedded store, which slogger restore cannot put into a Redis",
                    $"slogger restore --version {point.Point.Version} --keep has the next slogger serve go on from that version");
            }
            Note(options, "", "", isOwn: true, point.Point.Version, isNewest);
            Tell(options, log, point.Point.Version, isNewest);
            return ProxyExit.Done;
        }
        log.Info(string.Create(CultureInfo.InvariantCulture,
            $"restoring version {point.Point.Version} of world-line {point.Point.WorldLine}{Closed(point.Time)}: "
                + $"{new FileInfo(point.BaseFile).Length} bytes of {Path.GetFileName(point.BaseFile)} and "
                + $"{point.TargetOffset - point.BaseOffset} bytes of log"));
        await using var target = new RestoreTarget(options, log);
        past.Known.UnionWith(points.Identities);
        StoreNote? store = points is SnapshotPoints ? StoreNote.Read(options.DataDirectory) ?? StoreNote.Unknown : null;
        past.Known.UnionWith(store?.ReplicationIds ?? []);
        if (await target.OpenAsync(past.Known, points.End, stop).ConfigureAwait(false) is { } refused) { return refused; }
        // The run that was known to have lost nothing has lost what it held; and by the feed's identity the shard's Redis is known again.
        store?.Replaced(target.IsOwn ? null : target.RunId, point.ReplicationId!).Write(options.DataDirectory);
        // Before the store is touched: a start that finds it half restored asks, too. What returns to the newest version is forgotten when
        // it is there.
        if (past.IsPrimary && !isNewest) { Note(options, target.Address, target.RunId, target.IsOwn, point.Point.Version, isNewest); }
        // Behind the note: a cohort of one that did not begin a world-line would take what is lost for what never was.
        if (options.AcceptsLoss && CohortDirectory.Of(options.DataDirectory) is { HasOthers: true } node) { node.BecomeOnlyMember(); }
        ProxyExit exit = await target.RestoreAsync(point, stop).ConfigureAwait(false);
        if (!exit.IsDone) { return exit; }
        if (isNewest) { Note(options, target.Address, target.RunId, target.IsOwn, point.Point.Version, isNewest); }
        Tell(options, log, point.Point.Version, isNewest || !past.IsPrimary || (target.Address is null && !options.Keep));
        return exit;
    }

    // Below the cut nothing is given out as the newest, unless the loss is accepted.
    private static FoundPoint Newest(RestoreOptions options, WorldPoint cut, IVersionPoints points) =>
        points.Newest is not { } newest ? FoundPoint.None("nothing of the current world-line is kept",
            "give the data directory and the metadata that belong together")
        : newest >= cut.Version || options.AcceptsLoss ? points.At(newest)
        : FoundPoint.None($"version {cut.Version} was committed, and what is kept ends at version {newest}: files are missing",
            $"bring the complete data directory; or restore what there is with --version {newest}; or go on with it, without what is lost: "
            + "--latest --keep --i-accept-loss");

    // Null: the shard can go on from it.
    private static async Task<ProxyExit?> WhyNotKeepAsync(RestoreOptions options, Past past, RestorePoint point, CancellationToken stop)
    {
        if (CohortDirectory.Of(options.DataDirectory) is { HasOthers: true } node)
        {
            if (!options.AcceptsLoss)
            {
                return ProxyExit.Failed($"the data directory is that of {node}, whose other nodes have what was done later; nothing was "
                    + "changed", "stop all nodes for good, and give --i-accept-loss as well: this one becomes the only member. Add the others "
                    + "again with empty directories");
            }
            if (!node.IsMember)
            {
                return ProxyExit.Failed($"the data directory is that of {node}, and it is no member: its log lacks what the members have "
                    + "done since; nothing was changed", "to look at what it has restore it into another Redis: slogger restore --latest "
                    + "--redis HOST:PORT");
            }
        }
        if (!past.IsPrimary)
        {
            return ProxyExit.Failed($"cluster \"{options.Cluster}\" is no primary here, and follows or has handed over to another site: "
                + "it cannot go on from a version of its own; nothing was changed",
                "go back at the primary, or restore without --keep to look at the version");
        }
        // What the only node left has beyond the cut may have been acknowledged, and was not recorded yet.
        if (point.Point.Version > past.Cut.Version && !options.AcceptsLoss)
        {
            return ProxyExit.Failed($"shard {options.Shard}: version {point.Point.Version} was not committed (the last that was is "
                + $"{past.Cut.Version}); nothing was changed", "give a committed version; or start slogger serve, which commits "
                + "the newest");
        }
        // What is lost is lost for the others, too: they need not wait.
        if (options.AcceptsLoss) { return null; }
        int[] shards = [.. past.Shards.Where(s => s.Shard != options.Shard && Members.Counts(s.State)).Select(s => s.Shard.Number)];
        if (shards.Length == 0) { return null; }
        IReadOnlyList<LeaseState> before = (await past.Metadata.WatchAsync(options.Cluster, stop).ConfigureAwait(false)).Leases;
        await Task.Delay(ClusterPulse.Term, stop).ConfigureAwait(false);
        IReadOnlyList<LeaseState> after = (await past.Metadata.WatchAsync(options.Cluster, stop).ConfigureAwait(false)).Leases;
        int[] alive = [.. shards.Where(o => before[o] != after[o])];
        return alive.Length == 0 ? null : ProxyExit.Failed(
            $"shard {string.Join(", ", alive)} of cluster \"{options.Cluster}\" runs: its clients may have used data that is to be "
                + "undone here. Nothing was changed",
            "stop the proxies of all shards, give this command with the same --version for each, and start them again");
    }

    private static void Note(RestoreOptions options, string? address, string runId, bool isOwn, VersionNumber version, bool isNewest)
    {
        RestoredNote note = RestoredNote.Read(options.DataDirectory);
        if (address is not null) { note = note.Without(address, runId); }
        if (isNewest)
        {
            if (isOwn) { note = note with { GoesOn = null }; }
        }
        else
        {
            if (address is not null) { note = note with { Stores = [.. note.Stores, new RestoredStore(address, runId, version.Number)] }; }
            // What was decided before is void when the shard's own store is brought to another version; what a start has begun goes on.
            if (options.Keep)
            {
                note = note with
                {
                    GoesOn = new() { Version = version.Number, AcceptsLoss = options.AcceptsLoss, Feeds = note.GoesOn?.Feeds ?? [] },
                };
            }
            else if (isOwn) { note = note with { GoesOn = null }; }
        }
        note.Write(options.DataDirectory);
    }

    private static void Tell(RestoreOptions options, ILogger log, VersionNumber version, bool goesOnFromNewest)
    {
        log.Info(goesOnFromNewest ? "no stored version was changed: slogger serve goes on from the newest"
            : options.Keep ? $"slogger serve goes on from version {version}, in a new world-line: later operations are undone then. "
            + "slogger restore --latest returns to the newest version before that"
            : "no stored version was changed. slogger serve does not start with this Redis before you have chosen: slogger restore "
                + $"--version {version} --keep goes on from version {version}, slogger restore --latest returns to the newest");
    }

    private static string Closed(HybridTimestamp time) => time.Bits == 0 ? "" : string.Create(CultureInfo.InvariantCulture,
        $", closed {DateTime.UnixEpoch.AddMicroseconds(time.Microseconds):yyyy-MM-dd HH:mm:ss.fff} UTC");
}
