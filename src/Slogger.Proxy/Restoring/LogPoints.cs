// Finds a version in the version log, or in a reduced file, and the checkpoint from which it is restored. Only reads.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Redis.Feeding;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Restoring;

/// <param name="log">The log.</param>
/// <param name="checkpoints">Its checkpoints.</param>
/// <param name="recorded">The recorded cut.</param>
/// <param name="lastValid">The last version of an older world-line that is still part of the current one.</param>
internal sealed class LogPoints(VersionLog log, CheckpointStore checkpoints, WorldPoint recorded, Func<WorldLine, VersionNumber> lastValid)
    : IVersionPoints
{
    public VersionNumber? Newest => NewestBoundary()?.Version;

    public long End => log.EndOffset;

    public IEnumerable<string> Identities => [log.ReplicationId];

    public IEnumerable<ListedVersions> All()
    {
        if (Newest is not { } newest) { yield break; }
        foreach (ReducedState state in ReducedStates.Of(log, checkpoints))
        {
            yield return new(state.Window.End.Version, state.Window.Through, state.Window.End.Time);
        }
        Boundary? before = null;
        foreach (Boundary boundary in log.Boundaries)
        {
            if (boundary.Version > newest) { yield break; }
            bool isRun = before is { } b && b.Offset == boundary.Offset && b.Version < boundary.Version;
            VersionNumber first = isRun ? before!.Value.Version.Next : boundary.Version;
            before = boundary;
            if (checkpoints.Latest(log, boundary.Offset) is not null) { yield return new(first, boundary.Version, boundary.Time); }
        }
    }

    public FoundPoint At(VersionNumber version)
    {
        Boundary? newest = NewestBoundary();
        if (newest is null || version > newest.Value.Version)
        {
            string have = newest is { } n ? $"the newest durable version is {n.Version}" : "the version log holds none";
            return FoundPoint.None($"version {version} does not exist: {have}", "give one that slogger restore --list shows, or --latest");
        }
        if (newest.Value.Version == version) { return PointAt(newest.Value); }
        if (log.BoundaryAtOrBelow(version) is { } exact && exact.Version == version && checkpoints.Latest(log, exact.Offset) is not null)
        {
            return PointAt(exact);
        }
        if (ReducedStates.At(log, checkpoints, version) is { } state)
        {
            Boundary end = state.Window.End with { Version = version, Offset = state.TargetOffset };
            return PointAt(state.Base, end, state.BaseOffset, state.OpenHistory(log, checkpoints));
        }
        VersionNumber? below = null, above = null;
        foreach (ListedVersions listed in All())
        {
            if (listed.Last < version) { below = listed.Last; continue; }
            above = listed.First;
            break;
        }
        string after = above is { } next ? $"the next one is {next}" : "there is none after it";
        string oldest = above is { } first ? $"the oldest version that can be restored is {first}"
            : "nothing older than the newest version can be restored";
        return below is null
            ? FoundPoint.None($"version {version} is no longer kept: the log was trimmed, and {oldest}",
                "give a later version, or --latest; --log-budget decides how far back the log reaches")
            : FoundPoint.None($"no state of version {version} by itself is kept: the nearest before it is {below}, {after}",
                "give one of these");
    }

    private Boundary? NewestBoundary()
    {
        if (log.IsEmpty) { return null; }
        Boundary last = log.DurableBoundary
            ?? new Boundary(log.WorldLine, log.FirstVersion.Previous, log.Origin.Offset, log.Origin.Database, default);
        if (last.WorldLine >= recorded.WorldLine) { return last; }
        // What lies above the branch of a later world-line is void.
        VersionNumber valid = lastValid(last.WorldLine);
        return last.Version <= valid ? last : log.BoundaryAtOrBelow(valid);
    }

    private FoundPoint PointAt(Boundary boundary)
    {
        if (checkpoints.Latest(log, boundary.Offset) is not { } checkpoint)
        {
            return FoundPoint.None($"there is no checkpoint at or below offset {boundary.Offset} of version {boundary.Version}: its file "
                + "was removed", "bring the complete data directory");
        }
        return PointAt(checkpoint, boundary, checkpoint.Offset, new LogHistory(log));
    }

    private FoundPoint PointAt(Checkpoint checkpoint, in Boundary boundary, long baseOffset, IHistorySource history)
    {
        checkpoints.Verify(checkpoint);
        return new FoundPoint(
            new RestorePoint
            {
                Point = new WorldPoint(boundary.WorldLine, boundary.Version),
                Time = boundary.Time,
                BaseFile = checkpoints.PathOf(checkpoint),
                BaseOffset = baseOffset,
                TargetOffset = boundary.Offset,
                History = history,
                // The log's own: a later serve finds a Redis on its own history.
                ReplicationId = log.ReplicationId,
            }, "", "");
    }
}
