// Finds a version among the snapshots of mode bgsave. Only reads.
using Slogger.Core.WorldLines;
using Slogger.Log.Checkpoints;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Proxy.Restoring;

internal sealed class SnapshotPoints(SnapshotStore snapshots)
{
    /// <summary>The newest version that is part of the current world-line.</summary>
    public FoundPoint Latest(WorldPoint recorded, Func<WorldLine, Version> lastValid)
    {
        if (snapshots.Latest(recorded.WorldLine, lastValid, new Version(long.MaxValue)) is not { } newest)
        {
            return FoundPoint.None("no snapshot of the current world-line is kept", "give the data directory and the metadata that belong together");
        }
        return newest.Last < recorded.Version
            ? FoundPoint.None($"version {recorded.Version} was committed, but the newest snapshot is of version {newest.Last}: files are missing",
                $"bring the complete data directory; or restore what there is with --version {newest.Last}")
            : PointAt(newest);
    }

    /// <summary>Exactly this version.</summary>
    public FoundPoint At(Version version, WorldPoint recorded, Func<WorldLine, Version> lastValid)
    {
        UsableSnapshot? best = null;
        string have = "";
        foreach (UsableSnapshot usable in snapshots.Usable(recorded.WorldLine, lastValid))
        {
            bool isRun = usable.Last.Number > usable.Snapshot.Version;
            have += $"{(have.Length > 0 ? ", " : "")}{usable.Snapshot.Version}{(isRun ? $" to {usable.Last}" : "")}";
            if (usable.Snapshot.Version <= version.Number && version <= usable.Last) { best = usable with { Last = version }; }
        }
        return best is { } found
            ? PointAt(found)
            : FoundPoint.None($"no snapshot of version {version} is kept: there are {(have.Length > 0 ? $"those of {have}" : "none")}", "give one of these, or --latest; mode bgsave keeps the last two that were committed");
    }

    private FoundPoint PointAt(UsableSnapshot usable)
    {
        Snapshot snapshot = usable.Snapshot;
        snapshots.Verify(snapshot);
        return new FoundPoint(
            new RestorePoint
            {
                Point = new WorldPoint(new WorldLine(snapshot.WorldLine), usable.Last),
                Time = snapshot.Time,
                BaseFile = snapshots.PathOf(snapshot),
                BaseOffset = snapshot.Offset,
                TargetOffset = snapshot.Offset,
                History = NoHistory.Instance,
                ReplicationId = null,
            }, "", "");
    }
}
