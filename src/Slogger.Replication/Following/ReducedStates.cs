// Versions of which the log has the commands no more, but a reduced file has the state.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Reduced;

namespace Slogger.Replication.Following;

/// <summary>A state that a reduced file has.</summary>
/// <param name="Base">The checkpoint below it.</param>
/// <param name="Window">Where it ends in the file.</param>
internal readonly record struct ReducedState(Checkpoint Base, ReducedFileWindow Window)
{
    /// <summary>Where a store that is filled with it begins. The bytes of the file are fewer than the log's: they are sent as the last ones
    /// before the boundary, so that the store ends where it would have.</summary>
    public long BaseOffset => Math.Max(0, Window.End.Offset - Window.DataEnd);

    /// <summary>Where such a store ends.</summary>
    public long TargetOffset => BaseOffset + Window.DataEnd;

    /// <summary>Whether the state is that of a version.</summary>
    public bool Has(VersionNumber version) => Window.End.Version <= version && version <= Window.Through;

    /// <summary>What follows the checkpoint. To be disposed.</summary>
    /// <exception cref="LogCorruptException">It is not what was written.</exception>
    /// <exception cref="IOException">It cannot be read.</exception>
    public ReducedHistory OpenHistory(VersionLog log, CheckpointStore checkpoints) =>
        new(ReducedFile.Open(log.Files, checkpoints.ReducedPathOf(Base)), BaseOffset);
}

/// <summary>The states of a shard's reduced files.</summary>
internal static class ReducedStates
{
    /// <summary>Those below the versions of which the log still has each command, oldest first. Each file is opened when it is its turn.
    /// </summary>
    /// <exception cref="LogCorruptException">A file is not what was written.</exception>
    /// <exception cref="IOException">One cannot be read.</exception>
    public static IEnumerable<ReducedState> Of(VersionLog log, CheckpointStore checkpoints) =>
        Of(log, checkpoints, _ => true);

    /// <summary>The one that is that of a version; null: none is.</summary>
    /// <exception cref="LogCorruptException">The file is not what was written.</exception>
    /// <exception cref="IOException">It cannot be read.</exception>
    public static ReducedState? At(VersionLog log, CheckpointStore checkpoints, VersionNumber version)
    {
        foreach (ReducedState state in Of(log, checkpoints, s => s.First <= version && version <= s.Last))
        {
            if (state.Has(version)) { return state; }
        }
        return null;
    }

    private static IEnumerable<ReducedState> Of(VersionLog log, CheckpointStore checkpoints, Func<ReducedStretch, bool> isWanted)
    {
        long rawFrom = checkpoints.Oldest(log)?.Offset ?? long.MaxValue;
        foreach (Tile tile in checkpoints.Tiles(log))
        {
            if (tile.Reduced is not { } stretch || tile.Base.Offset >= rawFrom) { yield break; }
            if (!isWanted(stretch)) { continue; }
            using ReducedFile file = ReducedFile.Open(log.Files, checkpoints.ReducedPathOf(tile.Base));
            foreach (ReducedFileWindow window in file.Windows) { yield return new(tile.Base, window); }
        }
    }
}
