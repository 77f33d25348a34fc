// The checkpoints of mode log: which of them the log can restore from, and which are needed no longer.
//
// Beside a checkpoint there may be a reduced file of its name, with what follows it up to the next one: then the log need not have that any
// more. The file goes with its checkpoint, and before it. So whatever a crash leaves, a reduced file that is found is of its checkpoint.
using System.Globalization;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Retention;
using Slogger.Core.WorldLines;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Log.Reduced;

namespace Slogger.Log.Checkpoints;

/// <summary>A checkpoint that something can be restored from.</summary>
/// <param name="Base">The checkpoint.</param>
/// <param name="Reduced">What a file beside it has, if that leads up to the next such checkpoint.</param>
/// <param name="ReducedBytes">The size of that file.</param>
public readonly record struct Tile(Checkpoint Base, ReducedStretch? Reduced, long ReducedBytes);

/// <summary>The checkpoints of one shard, by rising offset, in a directory of their own. Thread-safe.</summary>
public sealed class CheckpointStore : KeptFiles<Checkpoint>
{
    // A fraction of what the log remembers, so that a refusal of the disk now and then does no harm. What is carried is carried half the
    // way: the log may go back to an older line, and a checkpoint of one that it does not know is not usable.
    private const int LinesBehindMax = SegmentHeader.BranchesMax / 4;

    private const string ReducedExtension = ".rlog";

    /// <summary>Of an index of a checkpoint's keys, which others may keep beside it.</summary>
    public const string IndexExtension = ".idx";

    // Under the gate: by the checkpoint's file.
    private readonly Dictionary<string, (ReducedStretch Stretch, long Bytes)> _reduced = [];

    private CheckpointStore(string directory, IFileLayer? files)
        : base(directory, files, KeptFileJson.Default.Checkpoint, (a, b) => a.Offset.CompareTo(b.Offset)) =>
        Attempt("open", directory, LoadReduced);

    /// <summary>Opens the registry of a directory; creates it if missing.</summary>
    /// <param name="directory">The directory; nothing else may use it.</param>
    /// <param name="files">The file layer; default the operating system's.</param>
    /// <exception cref="LogCorruptException">A manifest cannot be read, or the file of a manifest is
    /// missing.</exception>
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

    /// <summary>The checkpoints from which the log, or a reduced file up to the next one of them, leads on: oldest first, without a
    /// hole.</summary>
    public IReadOnlyList<Tile> Tiles(VersionLog log)
    {
        lock (Gate)
        {
            List<Checkpoint> all = Reachable(log);
            return [.. all.Select((c, i) => i + 1 < all.Count && ReducedUpTo(c, all[i + 1]) is var (stretch, bytes)
                ? new Tile(c, stretch, bytes) : new Tile(c, null, 0))];
        }
    }

    /// <summary>What is wrong with reduced files that cannot be read: what they have, and what lies before, is lost to readers.</summary>
    public IList<string> Damaged { get; } = [];

    /// <summary>Where the reduced file of what follows a checkpoint is, or is to be.</summary>
    public string ReducedPathOf(Checkpoint kept) => Path.ChangeExtension(PathOf(kept), ReducedExtension);

    /// <summary>Where the index of a checkpoint's keys is, if there is one.</summary>
    public string IndexPathOf(Checkpoint kept) => Path.ChangeExtension(PathOf(kept), IndexExtension);

    /// <summary>Takes note of a reduced file that is durable.</summary>
    /// <param name="log">Tells which checkpoints are usable.</param>
    /// <param name="kept">The checkpoint that it follows.</param>
    /// <returns>False: the checkpoints have changed meanwhile, and the file is deleted.</returns>
    /// <exception cref="LogCorruptException">It is not what was written.</exception>
    /// <exception cref="LogIOException">The disk refused.</exception>
    public bool AddReduced(VersionLog log, Checkpoint kept)
    {
        ReducedStretch? stretch = null;
        long bytes = 0;
        // All of it is read back: the log's bytes will be deleted.
        try
        {
            Attempt("read", ReducedPathOf(kept), () =>
            {
                using ReducedFile file = ReducedFile.Open(Files, ReducedPathOf(kept));
                (stretch, bytes) = (file.Stretch, file.FileBytes);
            });
        }
        catch (LogException)
        {
            // The next start would count on it.
            Attempt("delete", ReducedPathOf(kept), () => Files.Delete(ReducedPathOf(kept)));
            throw;
        }
        lock (Gate)
        {
            List<Checkpoint> all = Reachable(log);
            int at = all.FindIndex(c => c.FileName == kept.FileName);
            bool isOfThese = at >= 0 && at + 1 < all.Count && all[at + 1].FileName == stretch!.Next;
            if (isOfThese) { _reduced[kept.FileName] = (stretch!, bytes); }
            else
            {
                _reduced.Remove(kept.FileName);
                Attempt("delete", ReducedPathOf(kept), () => Files.Delete(ReducedPathOf(kept)));
            }
            return isOfThese;
        }
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
                c => begun.Line > new LogLine(new Reign(c.Reign), new WorldLine(c.WorldLine)) && IsInHistory(log, c)).ToList())
            {
                Note(checkpoint, checkpoint with { Reign = to.Reign.Number, WorldLine = to.WorldLine.Number });
            }
        }
    }

    /// <summary>Deletes what no restore needs. Of the usable checkpoints at or below an offset the newest stay; of those above it,
    /// where an earlier point may still be the one to restore, those that lie a certain way apart, and the newest. A reduced file goes with
    /// its checkpoint; the two that it lies between stay, unless they are the oldest.</summary>
    /// <param name="log">Tells which are usable; those that neither it nor a reduced file leads on from are deleted.</param>
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
            List<Checkpoint> usable = Reachable(log);
            PruneBase[] bases = [.. usable.Select(c => new PruneBase(c.Offset, _reduced.ContainsKey(c.FileName)
                || _reduced.Values.Any(r => r.Stretch.Next == c.FileName)))];
            Checkpoint[] kept = [.. PrunePlan.Kept(bases, keep, offset, apart, log.HasGap).Select(i => usable[i])];
            foreach (Checkpoint checkpoint in Kept.Except(kept).ToList()) { Delete(checkpoint); }
            return Kept.Count > 0 ? Kept[0].Offset : null;
        }
    }

    /// <summary>Deletes one that nothing is read from, and that no reduced file leads up to.</summary>
    /// <exception cref="LogIOException">The disk refused; it is as it was.</exception>
    public void Drop(Checkpoint kept)
    {
        lock (Gate) { Delete(kept); }
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

    // The log may be trimmed meanwhile: what it had at the beginning counts.
    private List<Checkpoint> Reachable(VersionLog log) => PrunePlan.Reachable(Kept.Reverse().Where(c => IsInHistory(log, c)),
        log.StartOffset, c => c.Offset, (c, next) => ReducedUpTo(c, next) is not null);

    private (ReducedStretch Stretch, long Bytes)? ReducedUpTo(Checkpoint c, Checkpoint next) =>
        _reduced.TryGetValue(c.FileName, out var reduced) && reduced.Stretch.Next == next.FileName ? reduced : null;

    private protected override void Delete(Checkpoint kept)
    {
        if (_reduced.Remove(kept.FileName))
        {
            Attempt("delete", ReducedPathOf(kept), () =>
            {
                Files.Delete(ReducedPathOf(kept));
                Files.SyncDirectory(Folder);
            });
        }
        base.Delete(kept);
    }

    private void LoadReduced()
    {
        var left = Files.List(Folder).Where(n => n.EndsWith(ReducedExtension, StringComparison.Ordinal)).ToHashSet();
        foreach (Checkpoint checkpoint in Kept)
        {
            string path = ReducedPathOf(checkpoint);
            if (!left.Remove(Path.GetFileName(path))) { continue; }
            using ILogFile file = Files.Open(path, writable: false);
            try
            {
                _reduced.Add(checkpoint.FileName, (ReducedStretch.Read(file, path), file.Length));
            }
            catch (LogCorruptException e)
            {
                // No recovery needs it.
                Damaged.Add(e.Message);
            }
        }
        foreach (string name in left) { Files.Delete(Path.Combine(Folder, name)); }
        if (left.Count > 0) { Files.SyncDirectory(Folder); }
    }

    private static bool IsUsable(VersionLog log, Checkpoint c) => IsInHistory(log, c) && c.Offset >= log.StartOffset;

    private static bool IsInHistory(VersionLog log, Checkpoint c) =>
        !log.IsEmpty && log.IsInHistory(c.Origin, new Reign(c.Reign), new WorldLine(c.WorldLine), c.Offset);
}
