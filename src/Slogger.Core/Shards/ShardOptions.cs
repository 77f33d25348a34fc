// What a shard's commit protocol is configured with, and what it starts from.
using System.Text.Json.Serialization;
using Slogger.Core.Identities;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Shards;

/// <summary>What makes a version durable.</summary>
public enum CommitMode
{
    /// <summary>Its part of the replication stream, cut at markers, is synced to the version log: commits within milliseconds.</summary>
    [JsonStringEnumMemberName("log")]
    Log,

    /// <summary>The snapshot of a BGSAVE that holds it is kept: commits within seconds, as in the DPR paper's D-Redis.</summary>
    [JsonStringEnumMemberName("bgsave")]
    Bgsave,

    /// <summary>A checkpoint of the embedded FASTER store that ends with it is on disk: commits within tens of milliseconds. To the
    /// <see cref="ShardMachine"/> it is a save as in mode Bgsave.</summary>
    [JsonStringEnumMemberName("faster")]
    Faster,

    /// <summary>Nothing: a pass-through without recovery. There is no <see cref="ShardMachine"/> in this mode.</summary>
    [JsonStringEnumMemberName("none")]
    None,
}

/// <summary>Settings of a <see cref="ShardMachine"/>.</summary>
public sealed record ShardOptions
{
    /// <summary>Which shard; named in texts for people.</summary>
    public ShardId Shard { get; init; }

    /// <summary>Anything but None.</summary>
    public CommitMode Mode { get; init; } = CommitMode.Log;

    /// <summary>How long an idle shard waits before it records a run of empty versions, in microseconds. Shorter: the
    /// cut of an idle shard lags less behind the clock, at a sync and an SQL write each.</summary>
    public long EmptyRunIntervalUs { get; init; } = 1_000_000;

    /// <summary>While nobody waits for a commit, a sync is asked for at most this often, in microseconds: what a failing
    /// machine may cost beside the open version. Versions without any write wait for <see cref="RecordIntervalUs"/>.
    /// 0: for each version.</summary>
    public long SyncIntervalUs { get; init; }

    /// <summary>While nobody waits for a commit, the metadata is written at most this often, in microseconds: the cut that
    /// it holds may lag so much more behind what is durable, which is what a recovery goes back to. 0: as fast as it answers.</summary>
    public long RecordIntervalUs { get; init; }

    /// <summary>The first pause after the metadata could not be reached, in microseconds; doubles each time.</summary>
    public long RecordBackoffMinUs { get; init; } = 5_000;

    /// <summary>The longest pause between attempts to record, in microseconds.</summary>
    public long RecordBackoffMaxUs { get; init; } = 1_000_000;

    /// <summary>The shortest stride where versions end with a save, in versions: a power of two. Longer: fewer saves, and commits come
    /// later.</summary>
    public long StrideMin { get; init; } = 1;

    /// <summary>The longest stride where versions end with a save, in versions: a power of two. A save that takes longer is still
    /// waited for, but strides grow no further.</summary>
    public long StrideMax { get; init; } = 1L << 20;

    /// <summary>Whether the cluster has other shards: then versions that were closed together, since a marker came late, can be
    /// in no cut, and a shard that is late often closes every 2nd, 4th... only, so that its versions meet those of others.</summary>
    public bool HasPeers { get; init; }

    /// <summary>Whether another node may come to lead this shard, in the same world-line: then a cut that is beyond what is durable here is
    /// that one's. Else it is a broken invariant.</summary>
    public bool IsReplicated { get; init; }
}

/// <summary>What a shard starts from.</summary>
/// <param name="Grid">The cluster's clock grid.</param>
/// <param name="Last">The last boundary that the log proves, durable, of the current world-line (version 0 and the base's
/// offset if there is none).</param>
/// <param name="Recorded">What this shard has recorded as durable: the same world-line, at most <paramref name="Last"/>.</param>
/// <param name="Cut">The recorded cut: at most <paramref name="Recorded"/>.</param>
/// <param name="Now">The clock.</param>
public readonly record struct ShardStart(VersionGrid Grid, Boundary Last, WorldPoint Recorded, WorldPoint Cut, HybridTimestamp Now)
{
    /// <summary>The store is at the last boundary, and nobody has been let in since: no marker is needed to end the versions after it.
    /// Default: false, what lies behind it is not known.</summary>
    public bool IsClean { get; init; }

    /// <summary>As for <see cref="ShardMachine.GridChanged"/>; null: for ever.</summary>
    public long? GridValidUntilUs { get; init; }
}

/// <summary>What a shard is doing.</summary>
public enum ShardMode
{
    /// <summary>Not attached to a store yet, or between a restore and its attachment. Nothing may be forwarded.</summary>
    Detached,

    /// <summary>Attached for the first time; reading what the store did before. Markers of a previous incarnation count
    /// by being read. Nothing may be forwarded.</summary>
    CatchingUp,

    /// <summary>Operations are forwarded, versions are closed.</summary>
    Running,

    /// <summary>The store is gone: commits are halted until it is attached again or a new world-line has started.</summary>
    StoreLost,

    /// <summary>Ordered end: nothing more may be forwarded; the last version is closed and committed.</summary>
    Stopping,

    /// <summary>All that was forwarded is committed (or cannot be any more, without a store).</summary>
    Stopped,

    /// <summary>An invariant is broken or the shard was deposed: nothing is ever committed again by this machine.</summary>
    Halted,
}
