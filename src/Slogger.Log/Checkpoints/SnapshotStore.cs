// The snapshots of mode bgsave: one RDB file for each version kept. Which of them are part of the current history, and which
// are needed no longer.
using System.Globalization;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Files;
using Slogger.Log.Format;

namespace Slogger.Log.Checkpoints;

/// <summary>A snapshot, and the last version for which it may be used: lower than its own if a later world-line branched off
/// while the shard was idle.</summary>
public readonly record struct UsableSnapshot(Snapshot Snapshot, VersionNumber Last);

/// <summary>The snapshots of one shard, by rising world-line and version, in a directory of their own. Thread-safe.</summary>
public sealed class SnapshotStore : KeptFiles<Snapshot>
{
    private SnapshotStore(string directory, IFileLayer? files)
        : base(directory, files, KeptFileJson.Default.Snapshot, (a, b) => (a.WorldLine, a.Version).CompareTo((b.WorldLine, b.Version)))
    {
    }

    /// <summary>Opens the snapshots of a directory; creates it if missing.</summary>
    /// <exception cref="LogCorruptException">A manifest cannot be read, or its file is missing.</exception>
    /// <exception cref="LogIOException">The disk refused.</exception>
    public static SnapshotStore Open(string directory, IFileLayer? files = null) => new(directory, files);

    /// <summary>Keeps a finished temporary file as a snapshot; durable when it returns. One of the same world-line and version
    /// is replaced: it goes when the new one is kept.</summary>
    /// <exception cref="LogIOException">The disk refused.</exception>
    public override Snapshot Add(string temporaryPath, Snapshot described)
    {
        lock (Gate)
        {
            Snapshot added = base.Add(temporaryPath, described);
            foreach (Snapshot old in Kept.Where(s => s != added && IsSame(s, added)).ToList()) { Delete(old); }
            return added;
        }
    }

    /// <summary>Notes that the snapshot also stands for the versions up to <paramref name="last"/>, in which nothing was done.
    /// Durable when it returns.</summary>
    /// <exception cref="LogIOException">The disk refused; nothing has changed.</exception>
    public Snapshot Extend(Snapshot snapshot, VersionNumber last, HybridTimestamp time)
    {
        lock (Gate)
        {
            Snapshot extended = snapshot with { LastVersion = last.Number, ClosedAt = time.Bits };
            Note(snapshot, extended);
            return extended;
        }
    }

    /// <summary>The newest snapshot that is part of the current history.</summary>
    /// <param name="current">The current world-line.</param>
    /// <param name="lastValid">The last version of an older world-line that is still part of the current one.</param>
    /// <param name="atMost">A version that it must not hold more than.</param>
    public UsableSnapshot? Latest(WorldLine current, Func<WorldLine, VersionNumber> lastValid, VersionNumber atMost)
    {
        UsableSnapshot? best = null;
        foreach (UsableSnapshot candidate in Usable(current, lastValid))
        {
            if (candidate.Snapshot.Version > atMost.Number) { continue; }
            UsableSnapshot limited = candidate with { Last = VersionNumber.Min(candidate.Last, atMost) };
            if (best is not { } b || limited.Last >= b.Last) { best = limited; }
        }
        return best;
    }

    /// <summary>All snapshots that are part of the current history, oldest first.</summary>
    public IEnumerable<UsableSnapshot> Usable(WorldLine current, Func<WorldLine, VersionNumber> lastValid)
    {
        foreach (Snapshot snapshot in All)
        {
            var line = new WorldLine(snapshot.WorldLine);
            if (line > current) { continue; }
            VersionNumber valid = line == current ? new VersionNumber(long.MaxValue) : lastValid(line);
            if (snapshot.Version <= valid.Number)
            {
                yield return new UsableSnapshot(snapshot, VersionNumber.Min(new VersionNumber(snapshot.LastVersion), valid));
            }
        }
    }

    /// <summary>Deletes what no recovery needs: all but the newest usable snapshots at or below the recorded cut. Usable ones
    /// above it are kept.</summary>
    /// <param name="keep">How many to keep at or below the cut; at least 1.</param>
    /// <param name="cut">The recorded cut, of the current world-line.</param>
    /// <param name="lastValid">The last version of an older world-line that is still part of the current one.</param>
    /// <exception cref="LogIOException">The disk refused.</exception>
    public void Prune(int keep, WorldPoint cut, Func<WorldLine, VersionNumber> lastValid)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(keep, 1);
        lock (Gate)
        {
            List<Snapshot> usable = [.. Usable(cut.WorldLine, lastValid).Select(u => u.Snapshot)];
            IEnumerable<Snapshot> kept = usable.Where(s => s.Version <= cut.Version.Number)
                .OrderBy(s => s.Version).ThenBy(s => s.WorldLine).TakeLast(keep)
                .Concat(usable.Where(s => s.Version > cut.Version.Number));
            foreach (Snapshot needless in Kept.Where(s => s.WorldLine <= cut.WorldLine.Number).Except(kept).ToList()) { Delete(needless); }
        }
    }

    private protected override string StemOf(Snapshot described) =>
        string.Create(CultureInfo.InvariantCulture, $"{described.WorldLine}-{described.Version}");

    private static bool IsSame(Snapshot a, Snapshot b) => (a.WorldLine, a.Version) == (b.WorldLine, b.Version);
}
