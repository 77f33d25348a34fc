// Options of the version log. Every buffer has a bound here.
using Slogger.Core.Identities;
using Slogger.Log.Files;
using Slogger.Log.Format;

namespace Slogger.Log;

/// <summary>Options of <see cref="VersionLog.Open"/>.</summary>
public sealed record VersionLogOptions
{
    /// <summary>The directory that holds the segment files; created if missing. One log per directory.</summary>
    public required string Directory { get; init; }

    /// <summary>Further directories, up to 7, best each on a disk of its own; created if missing. Each segment that is begun has a file in
    /// each of them, too, and several threads that call <see cref="VersionLog.Sync"/> sync them at the same time. One in which the log has
    /// segments cannot be left out. Default null: those that it was opened with last.</summary>
    public IReadOnlyList<string>? MoreDirectories { get; init; }

    /// <summary>The shard whose log this is. A log of another shard is refused.</summary>
    public required ShardId Shard { get; init; }

    /// <summary>Fencing epoch of the opener; names its segments. Default 1. A log that holds segments of a newer epoch
    /// is refused (<see cref="LogFencedException"/>). Null: something else fences, as a ballot does; then it is that of the newest
    /// segment, or 0.</summary>
    public long? Epoch { get; init; } = 1;

    /// <summary>Size of a segment, in bytes, in all directories together. Default 64 MiB. Space is taken and given back in this unit.
    /// </summary>
    public int SegmentBytes { get; init; } = 64 << 20;

    /// <summary>Most stream bytes in a block, the unit of a checksum. Default 1 MiB. At most a quarter of
    /// <see cref="SegmentBytes"/>, or of a directory's part of it.</summary>
    public int BlockBytes { get; init; } = 1 << 20;

    /// <summary>Memory for bytes appended but not yet written to a file. Default 32 MiB, at least two blocks. When it is
    /// full, <see cref="VersionLog.Append"/> waits for the disk.</summary>
    public int BufferBytes { get; init; } = 32 << 20;

    /// <summary>How much of what was appended last is kept in memory, for who ships it before it is durable, in bytes. Default 0:
    /// none.</summary>
    public int TailBytes { get; init; }

    /// <summary>Fill new segments with zeros before use. Default true: fdatasync then needs no journal commit (20 KB:
    /// 0.11 instead of 0.18 ms on ext4). Costs one extra write of each segment, in the background; given up when the
    /// segment is needed sooner.</summary>
    public bool ZeroFill { get; init; } = true;

    /// <summary>Prepare the next segment as soon as there is one to be followed, not when that is filling. Default false. For a log in
    /// which a world-line begins while somebody waits; it costs the space of a segment.</summary>
    public bool KeepsSpare { get; init; }

    /// <summary>Prepare the next segment on a pool thread. Default true; false prepares it in the call that notices the
    /// need, which makes tests deterministic.</summary>
    public bool PrepareInBackground { get; init; } = true;

    /// <summary>How many of the newest bytes are verified when the log is opened. Default 1 GiB: below a second. Older
    /// segments are verified when they are read, or by <see cref="VersionLog.Verify"/>.</summary>
    public long VerifyAtOpenBytes { get; init; } = 1L << 30;

    /// <summary>The file layer. Default the operating system's.</summary>
    public IFileLayer Files { get; init; } = SystemFileLayer.Instance;

    /// <summary>Whether no epoch was given.</summary>
    internal bool IsFencedElsewhere { get; init; }

    /// <summary>The epoch of a log that is open.</summary>
    internal long OwnEpoch => Epoch ?? 0;

    internal VersionLogOptions Checked()
    {
        ArgumentException.ThrowIfNullOrEmpty(Directory);
        ArgumentOutOfRangeException.ThrowIfNegative(OwnEpoch);
        ArgumentOutOfRangeException.ThrowIfLessThan(SegmentBytes, 16 << 10);
        ArgumentOutOfRangeException.ThrowIfLessThan(BlockBytes, 256);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(BlockBytes, Math.Min(SegmentBytes / 4, 8 << 20));
        ArgumentOutOfRangeException.ThrowIfLessThan(BufferBytes, 2 * BlockBytes);
        ArgumentOutOfRangeException.ThrowIfNegative(VerifyAtOpenBytes);
        ArgumentOutOfRangeException.ThrowIfNegative(TailBytes);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(MoreDirectories?.Count ?? 0, LogDirectories.MoreMax);
        return this;
    }

    /// <summary>The same, with the size of one file for that of a segment in so many.</summary>
    internal VersionLogOptions OfFile(int files)
    {
        int bytes = files == 1 ? SegmentBytes : SegmentBytes / files / (4 << 10) * (4 << 10);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(BlockBytes, bytes / 4);
        return this with { SegmentBytes = bytes };
    }
}
