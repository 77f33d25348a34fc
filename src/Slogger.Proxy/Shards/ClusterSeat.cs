// A shard's place in its cluster's metadata: taken at the start, with an epoch that deposes whoever had it before; and what a
// recovery does there.
using Slogger.Core.Recovery;
using Slogger.Core.Shards;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Proxy.Shards;

internal sealed class ClusterSeat : IAsyncDisposable
{
    private static readonly TimeSpan RetryDelay = TimeSpan.FromMilliseconds(500);
    private readonly ILogSink _report;

    private ClusterSeat(IMetadataStore metadata, string cluster, ShardId shard, ILogSink report)
    {
        Metadata = metadata;
        Cluster = cluster;
        Shard = shard;
        _report = report;
    }

    public IMetadataStore Metadata { get; }

    public string Cluster { get; }

    public ShardId Shard { get; }

    /// <summary>The clock grid of the cluster.</summary>
    public VersionGrid Grid { get; private set; } = null!;

    /// <summary>The epoch taken: every write to the metadata is compared with it.</summary>
    public long Epoch { get; private set; }

    /// <summary>The cut as it was recorded when the seat was taken.</summary>
    public WorldPoint RecordedAtStart { get; private set; }

    /// <summary>Opens the metadata, makes or joins the cluster, and takes the shard.</summary>
    /// <exception cref="MetadataException">It cannot.</exception>
    public static async Task<ClusterSeat> TakeAsync(ServeOptions options, ILogSink report, CancellationToken stop)
    {
        IMetadataStore metadata = MetadataStoreFactory.Create(options.Metadata.Text);
        try
        {
            await metadata.InitializeAsync(stop).ConfigureAwait(false);
            var seat = new ClusterSeat(metadata, options.Cluster, options.Shard, report);
            await seat.JoinAsync(options, stop).ConfigureAwait(false);
            return seat;
        }
        catch
        {
            await metadata.DisposeAsync().ConfigureAwait(false);
            throw;
        }
    }

    private async Task JoinAsync(ServeOptions options, CancellationToken stop)
    {
        long interval = (long)options.VersionInterval.TotalMicroseconds;
        long now = (DateTime.UtcNow - DateTime.UnixEpoch).Ticks / TimeSpan.TicksPerMicrosecond;
        var proposal = new ClusterSettings { Grid = [new GridStretch(new(1), now, interval)] };
        ClusterSettings settings = await Metadata.GetOrCreateClusterAsync(Cluster, proposal, stop).ConfigureAwait(false);
        if (settings.Grid[^1].IntervalUs != interval)
        {
            await Metadata.ChangeIntervalAsync(Cluster, interval, now, stop).ConfigureAwait(false);
            settings = (await Metadata.FindClusterAsync(Cluster, stop).ConfigureAwait(false))!;
        }
        Grid = new VersionGrid(settings.Grid);
        ShardRecord record = await Metadata.RegisterShardAsync(
            Cluster, Shard, options.Listen.FirstOrDefault()?.ToString() ?? "", "redis", stop).ConfigureAwait(false);
        Epoch = await Metadata.TakeShardEpochAsync(
            Cluster, Shard, $"{Environment.MachineName}:{Environment.ProcessId}", stop).ConfigureAwait(false);
        RecordedAtStart = record.RecordedCut;
    }

    /// <summary>The shard's row, and all world-lines. Waits for the metadata.</summary>
    public async Task<(ShardRecord Record, IReadOnlyList<WorldLineRecord> Lines)> LookAsync(CancellationToken stop)
    {
        ShardRecord record = (await RetryAsync(() => Metadata.ShardsAsync(Cluster, stop), stop).ConfigureAwait(false)).First(s => s.Shard == Shard);
        return (record, await RetryAsync(() => Metadata.WorldLinesAsync(Cluster, stop), stop).ConfigureAwait(false));
    }

    /// <summary>The last version of an older world-line that is still part of the current one.</summary>
    public static Version LastValid(WorldLine line, IReadOnlyList<WorldLineRecord> lines) =>
        WorldLineBranches.LastValid(line, lines.Select(l => new WorldLineBranch(l.WorldLine, l.BranchCut)));

    /// <summary>Starts a world-line. False if another recovery came first: look again.</summary>
    /// <exception cref="RecoveryRefusedException">The metadata refused it for good.</exception>
    public async Task<bool> BeginWorldLineAsync(WorldLine next, Version branch, CancellationToken stop)
    {
        WorldLineResult result = await RetryAsync(() => Metadata.BeginWorldLineAsync(Cluster, next, branch, Epoch, stop), stop).ConfigureAwait(false);
        return result.Outcome switch
        {
            WorldLineOutcome.Started => true,
            WorldLineOutcome.StaleWorldLine => false,
            _ => throw new RecoveryRefusedException($"shard {Shard}: the metadata refused world-line {next} at version {branch}: {result.Outcome} (it stands at {result.Current}). Another proxy may own this shard now."),
        };
    }

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
                await Task.Delay(RetryDelay, stop).ConfigureAwait(false);
            }
        }
    }

    public ValueTask DisposeAsync() => Metadata.DisposeAsync();
}
