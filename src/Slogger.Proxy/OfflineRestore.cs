// The entry point of `slogger restore`: puts a Redis into the state of one version while no proxy runs. Neither the log nor
// the recorded cut is changed, so a later `slogger serve` stands where it stood. The Redis that was restored is on the log's own
// history: serve recognises it, continues it if it holds all of the log, and else brings it to the newest version again.
using System.Globalization;
using Slogger.Core.Recovery;
using Slogger.Core.Shards;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Restoring;
using Slogger.Redis.Connections;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Proxy;

/// <summary>Puts a Redis into the state of one version while no proxy runs.</summary>
public static class OfflineRestore
{
    /// <summary>Restores and returns. The caller holds the <see cref="DataDirectory"/>. Expected failures are returned, not thrown.</summary>
    public static async Task<ProxyExit> RunAsync(RestoreOptions options, ILogger log, CancellationToken stop)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(log);
        try
        {
            if (options.Metadata.Kind == MetadataKind.Sqlite && !File.Exists(options.Metadata.Target))
            {
                return ProxyExit.Failed($"the metadata {options.Metadata.Target} does not exist", "give the --metadata that the proxy was started with");
            }
            await using IMetadataStore metadata = MetadataStoreFactory.Create(options.Metadata.Text);
            await metadata.InitializeAsync(stop).ConfigureAwait(false);
            IReadOnlyList<ShardRecord> shards = await metadata.FindClusterAsync(options.Cluster, stop).ConfigureAwait(false) is null
                ? [] : await metadata.ShardsAsync(options.Cluster, stop).ConfigureAwait(false);
            if (shards.FirstOrDefault(s => s.Shard == options.Shard) is not { } record)
            {
                return ProxyExit.Failed($"the metadata knows nothing of shard {options.Shard} of cluster {options.Cluster}", "give the --metadata that the proxy was started with");
            }
            WorldPoint cut = (await metadata.AdvanceCutAsync(options.Cluster, stop).ConfigureAwait(false)).Of(options.Shard);
            IReadOnlyList<WorldLineRecord> lines = await metadata.WorldLinesAsync(options.Cluster, stop).ConfigureAwait(false);
            IReadOnlyList<StreamOriginRecord> origins = await metadata.OriginsAsync(options.Cluster, options.Shard, stop).ConfigureAwait(false);
            var known = origins.Select(o => o.ReplicationId).ToHashSet();
            Version LastValid(WorldLine line) => WorldLineBranches.LastValid(line, lines.Select(l => new Core.Recovery.WorldLineBranch(l.WorldLine, l.BranchOf(options.Shard))));
            return StoreRecord.Read(options.DataDirectory)?.Commit == CommitMode.Bgsave
                ? await FromSnapshotsAsync(options, log, record, cut, known, LastValid, stop).ConfigureAwait(false)
                : await FromLogAsync(options, log, record, cut, known, LastValid, stop).ConfigureAwait(false);
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

    private static async Task<ProxyExit> FromLogAsync(
        RestoreOptions options, ILogger report, ShardRecord record, WorldPoint cut, HashSet<string> known, Func<WorldLine, Version> lastValid, CancellationToken stop)
    {
        string directory = Path.Combine(options.DataDirectory, "log");
        if (!Directory.Exists(directory))
        {
            return ProxyExit.Failed($"the data directory {options.DataDirectory} holds no version log: there is nothing to restore", "give the right one with --data");
        }
        // The epoch that was last taken: nobody is deposed by reading.
        using VersionLog log = VersionLog.Open(new VersionLogOptions { Directory = directory, Shard = options.Shard, Epoch = Math.Max(1, record.Epoch) });
        if (log.IsEmpty)
        {
            return ProxyExit.Failed($"the version log in {directory} is empty: there is nothing to restore", "give the right directory with --data");
        }
        if (log.WorldLine > record.WorldLine)
        {
            return ProxyExit.Failed($"the version log is in world-line {log.WorldLine}, the metadata only in {record.WorldLine}: they do not belong together", "give the --metadata that the proxy was started with");
        }
        CheckpointStore checkpoints = CheckpointStore.Open(Path.Combine(options.DataDirectory, "checkpoints"));
        var points = new LogPoints(log, checkpoints);
        FoundPoint found = options.Version is { } version ? points.At(version, cut, lastValid) : points.Latest(cut, lastValid);
        known.Add(log.ReplicationId);
        return await RestoreAsync(options, report, found, known, log.EndOffset, stop).ConfigureAwait(false);
    }

    private static async Task<ProxyExit> FromSnapshotsAsync(
        RestoreOptions options, ILogger report, ShardRecord record, WorldPoint cut, HashSet<string> known, Func<WorldLine, Version> lastValid, CancellationToken stop)
    {
        string directory = Path.Combine(options.DataDirectory, "bgsave");
        if (!Directory.Exists(directory))
        {
            return ProxyExit.Failed($"the data directory {options.DataDirectory} holds no snapshots: there is nothing to restore", "give the right one with --data");
        }
        SnapshotStore snapshots = SnapshotStore.Open(directory);
        var points = new SnapshotPoints(snapshots);
        FoundPoint found = options.Version is { } version ? points.At(version, cut, lastValid) : points.Latest(cut, lastValid);
        known.UnionWith(snapshots.All.Select(s => s.ReplicationId ?? ""));
        return await RestoreAsync(options, report, found, known, long.MaxValue, stop).ConfigureAwait(false);
    }

    private static async Task<ProxyExit> RestoreAsync(
        RestoreOptions options, ILogger log, FoundPoint found, HashSet<string> known, long logEnd, CancellationToken stop)
    {
        if (found.Point is not { } point) { return ProxyExit.Failed($"shard {options.Shard}: {found.Problem}", found.Remedy); }
        string closed = point.Time.Bits == 0 ? "" : string.Create(CultureInfo.InvariantCulture,
            $", closed {DateTime.UnixEpoch.AddMicroseconds(point.Time.Microseconds):yyyy-MM-dd HH:mm:ss.fff} UTC");
        log.Info(string.Create(CultureInfo.InvariantCulture,
            $"restoring version {point.Point.Version} of world-line {point.Point.WorldLine}{closed}: {new FileInfo(point.BaseFile).Length} bytes of {Path.GetFileName(point.BaseFile)} and {point.TargetOffset - point.BaseOffset} bytes of log"));
        await using var target = new RestoreTarget(options, log);
        if (await target.OpenAsync(known, logEnd, stop).ConfigureAwait(false) is { } refused) { return refused; }
        return await target.RestoreAsync(point, stop).ConfigureAwait(false);
    }
}
