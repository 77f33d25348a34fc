// Finds a version among the snapshots of mode bgsave. Only reads.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Checkpoints;
using Slogger.Redis.Feeding;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Restoring;

/// <param name="snapshots">The snapshots.</param>
/// <param name="recorded">The recorded cut.</param>
/// <param name="lastValid">The last version of an older world-line that is still part of the current one.</param>
internal sealed class SnapshotPoints(SnapshotStore snapshots, WorldPoint recorded, Func<WorldLine, VersionNumber> lastValid)
    : IVersionPoints
{
    public VersionNumber? Newest => snapshots.Latest(recorded.WorldLine, lastValid, new VersionNumber(long.MaxValue))?.Last;

    public long End => long.MaxValue;

    public IEnumerable<string> Identities => snapshots.All.Select(s => s.ReplicationId ?? "");

    public IEnumerable<ListedVersions> All() =>
        snapshots.Usable(recorded.WorldLine, lastValid)
            .Select(u => new ListedVersions(new VersionNumber(u.Snapshot.Version), u.Last, u.Snapshot.Time));

    public FoundPoint At(VersionNumber version)
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
            : FoundPoint.None($"no snapshot of version {version} is kept: there are {(have.Length > 0 ? $"those of {have}" : "none")}",
            "give one of these, or --latest; mode bgsave keeps the last two that were committed");
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
                // By it a start knows the Redis (StoreNote).
                ReplicationId = FeedPlan.NewReplicationId(),
            }, "", "");
    }
}
