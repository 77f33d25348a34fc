// The checkpoints of mode log: which of them the log can restore from, and which are needed no longer.
using System.Globalization;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.WorldLines;
using Slogger.Log.Files;
using Slogger.Log.Format;

namespace Slogger.Log.Checkpoints;

/// <summary>The checkpoints of one shard, by rising offset, in a directory of their own. Thread-safe.</summary>
public sealed class CheckpointStore : KeptFiles<Checkpoint>
{
    // A fraction of what the log remembers, so that a refusal of the disk now and then does no harm. What is carried is carried half the
    // way: the log may go back to an older line, and a checkpoint of one that it does not know is not usable.
    private const int LinesBehindMax = SegmentHeader.BranchesMax / 4;

    private CheckpointStore(string directory, IFileLayer? files)
        : base(directory, files, KeptFileJson.Default.Checkpoint, (a, b) => a.Offset.CompareTo(b.Offset))
    {
    }

    /// <summary>Opens the registry of a directory; creates it if missing.</summary>
    /// <param name="directory">The directory; nothing else may use it.</param>
    /// <param name="files">The file layer; default the operating system's.</param>
    /// <exception cref="LogCorruptException">A manifest cannot be read, or its file is missing.</exception>
    /// <exception cref="LogIOException">The disk refused.</exception>
    public static CheckpointStore Open(string directory, IFileLayer? files = null) => new(directory, files);

    /// <summary>The newest checkpoint from which the log can restore a point at <paramref name="maxOffset"/>: of its current
    /// history, not above that offset, and not below the log's start. Null if there is none.</summary>
    public Checkpoint? Latest(VersionLog log, long maxOffset)
    {
        lock (Gate)
        {
            return Kept.LastOrDefault(c => c.Offset <= maxOffset && IsUsable(log, c) && !log.HasGap(c.Offset, maxOffset));
        }
    }

    /// <summary>The oldest checkpoint from which the log can restore anything; null if there is none.</summary>
    public Checkpoint? Oldest(VersionLog log)
    {
        lock (Gate) { return Kept.FirstOrDefault(c => IsUsable(log, c)); }
    }

    /// <summary>Notes of every usable checkpoint that fell behind that it belongs to a later line of the log too. The log
    /// remembers a limited number of branches, and a checkpoint from before them could not be told from a void one: to be
    /// called after each new world-line or reign. Durable when it returns.</summary>
    /// <exception cref="LogIOException">The disk refused; every checkpoint is as it was, or noted.</exception>
    public void CarryForward(VersionLog log)
    {
        lock (Gate)
        {
            if (log.IsEmpty) { return; }
            IReadOnlyList<LogBranch> branches = log.Branches;
            if (branches.Count < LinesBehindMax) { return; }
            LogBranch begun = branches[^LinesBehindMax], to = branches[^(LinesBehindMax / 2)];
            foreach (Checkpoint checkpoint in Kept.Where(
                c => begun.Line > new LogLine(new Reign(c.Reign), new WorldLine(c.WorldLine)) && IsUsable(log, c)).ToList())
            {
                Note(checkpoint, checkpoint with { Reign = to.Reign.Number, WorldLine = to.WorldLine.Number });
            }
        }
    }

    /// <summary>Deletes what no restore needs. Of the usable checkpoints at or below an offset the newest stay; of those above it,
    /// where an earlier point may still be the one to restore, those that lie a certain way apart, and the newest.</summary>
    /// <param name="log">Tells which are usable; those that are not are deleted.</param>
    /// <param name="keep">How many to keep at or below <paramref name="offset"/>; at least 1.</param>
    /// <param name="offset">An offset that any later restore is at or above: not above the recorded cut's.</param>
    /// <param name="apart">Bytes of log that a restore of an earlier point may have to replay; 0: every checkpoint stays.</param>
    /// <returns>The offset of the oldest checkpoint left, or null: the log may be trimmed below it.</returns>
    /// <exception cref="LogIOException">The disk refused.</exception>
    public long? Prune(VersionLog log, int keep, long offset, long apart)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(keep, 1);
        lock (Gate)
        {
            List<Checkpoint> usable = [.. Kept.Where(c => IsUsable(log, c))];
            List<Checkpoint> kept = [.. usable.Where(c => c.Offset <= offset).TakeLast(keep)];
            foreach (Checkpoint checkpoint in usable.Where(c => c.Offset > offset))
            {
                bool isNewest = usable.Count - usable.IndexOf(checkpoint) <= keep;
                // Behind a gap the log can be replayed from no earlier one.
                bool isNeeded = kept.Count == 0 || log.HasGap(kept[^1].Offset, checkpoint.Offset);
                if (isNewest || isNeeded || checkpoint.Offset - kept[^1].Offset >= apart) { kept.Add(checkpoint); }
            }
            foreach (Checkpoint checkpoint in Kept.Except(kept).ToList()) { Delete(checkpoint); }
            return Kept.Count > 0 ? Kept[0].Offset : null;
        }
    }

    /// <summary>Deletes all: another history begins.</summary>
    /// <exception cref="LogIOException">The disk refused; those that are left are as they were.</exception>
    public void Clear()
    {
        lock (Gate)
        {
            foreach (Checkpoint checkpoint in All) { Delete(checkpoint); }
        }
    }

    private protected override string StemOf(Checkpoint described) => described.Offset.ToString("D16", CultureInfo.InvariantCulture);

    private static bool IsUsable(VersionLog log, Checkpoint c) =>
        !log.IsEmpty && log.IsInHistory(c.Origin, new Reign(c.Reign), new WorldLine(c.WorldLine), c.Offset) && c.Offset >= log.StartOffset;
}
