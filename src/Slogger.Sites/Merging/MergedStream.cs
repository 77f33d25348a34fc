// One of the streams that a shard is put together from: its log, the copy that it began with, and what of it goes to the shard. To its
// receiver it is a store like any other.
using Slogger.Core.Identities;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Redis.Slots;
using Slogger.Replication.Following;
using Slogger.Replication.Seeding;

namespace Slogger.Sites.Merging;

/// <summary>A stream of a merged shard.</summary>
internal sealed class MergedStream : IFollowingStore, IDisposable
{
    /// <summary>How its log is kept. Where versions end is asked for again and again: of that a tail in memory knows the last.</summary>
    public static readonly VersionLogOptions Logs = new() { Directory = "", Shard = default, TailBytes = 64 << 10 };

    private readonly MergedStore _store;

    private MergedStream(MergedStore store, ShardId number, int source, SlotShare share, VersionLog log, CheckpointStore checkpoints,
        string directory)
    {
        (_store, Number, Source, Share, Log, Checkpoints) = (store, number, source, share, log, checkpoints);
        Disk = StreamDisk.Open(directory, log, checkpoints, new SlotGuard(share), StreamDisk.DatabaseOf);
    }

    /// <summary>By which SQL and commands know it.</summary>
    public ShardId Number { get; }

    /// <summary>The primary's shard.</summary>
    public int Source { get; }

    /// <summary>What of it goes to the shard.</summary>
    public SlotShare Share { get; }

    /// <summary>Its log.</summary>
    public VersionLog Log { get; }

    /// <summary>The copy that it began with, until the shard's log has it.</summary>
    public CheckpointStore Checkpoints { get; }

    /// <summary>What there is of it.</summary>
    public StreamDisk Disk { get; }

    /// <summary>To where it may go in its present life; null: nowhere yet. The store's, under its lock.</summary>
    public WorldPoint? Target { get; set; }

    /// <summary>The copy.</summary>
    public string CopyFile => Checkpoints.PathOf(Checkpoints.All[0]);

    /// <summary>Opens what there is.</summary>
    public static MergedStream Open(MergedStore store, ShardId number, int source, SlotShare share, string directory,
        VersionLogOptions options)
    {
        directory = Path.Combine(directory, source.ToString(System.Globalization.CultureInfo.InvariantCulture));
        VersionLog log = VersionLog.Open(options with { Directory = Path.Combine(directory, "log") });
        try
        {
            return new(store, number, source, share, log, CheckpointStore.Open(Path.Combine(directory, "checkpoints"), log.Files),
                directory);
        }
        catch
        {
            log.Dispose();
            throw;
        }
    }

    WorldPoint IFollowingStore.Applied => _store.Applied;

    Task<bool> IFollowingStore.RenewAsync(Func<bool> begin, CancellationToken stop) => _store.RenewAsync(this, begin, stop);

    Task IFollowingStore.BringToAsync(Boundary end, CancellationToken stop) => _store.BringToAsync(this, end.Point, stop);

    Task IFollowingStore.EnterAsync(WorldLine line, CancellationToken stop) => _store.EnterAsync(line, stop);

    Task IFollowingStore.PromoteAsync(CancellationToken stop) => _store.PromoteAsync(stop);

    void IFollowingStore.TakeOver(SiteState site) => _store.TakeOver(site);

    public void Dispose()
    {
        Disk.Dispose();
        Log.Dispose();
    }
}
