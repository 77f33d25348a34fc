// A drill's restore of an embedded store: in a directory of its own a store is opened at the commit of the version at which the one that
// follows stands, and then another, at the commit before (or from the copy that the stream was seeded with), which does what the log has up
// to that version. Both are asked for a digest of all keys, values and expiries; one after the other, so that the machine needs memory for
// one more.
using System.Diagnostics;
using System.Globalization;
using Slogger.Core.WorldLines;
using Slogger.Faster;
using Slogger.Faster.Commands;
using Slogger.Faster.Commits;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Redis.Connections;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Drills;

/// <summary>The stores of a trial.</summary>
internal static class TrialFaster
{
    private const string Folder = "drill-faster";

    /// <summary>Restores, compares, and leaves nothing behind.</summary>
    /// <param name="dataDirectory">The shard's.</param>
    /// <param name="options">Its store's.</param>
    /// <param name="log">Its log.</param>
    /// <param name="copies">What the stream was seeded with.</param>
    /// <param name="commits">The store's commits: none is deleted meanwhile.</param>
    /// <param name="at">The end of the version that is compared.</param>
    /// <param name="held">The commit that holds it.</param>
    /// <param name="from">A commit before that; null: there is none.</param>
    /// <param name="stop">Gives up.</param>
    public static Task<RestoreTrial> CompareAsync(
        string dataDirectory, FasterOptions options, VersionLog log, CheckpointStore copies, IReadOnlyList<CommitRecord> commits,
            Boundary at, FollowNote held, FollowNote? from, CancellationToken stop) => Task.Run(
        () =>
        {
            try
            {
                (long Keys, string Digest) store = InScratch(dataDirectory, options, commits, held, (engine, _) => engine.Digest(stop),
                    stop);
                long began = Stopwatch.GetTimestamp();
                TimeSpan took = default;
                Checkpoint? copy = from is null ? copies.Latest(log, at.Offset) : null;
                if (from is null && copy is null)
                {
                    return RestoreTrial.Impossible("the store has one commit only, and nothing before it: give the command again in some "
                        + "seconds, when there is another");
                }
                (long offset, int database) = from is null ? (copy!.Offset, copy.Database) : (from.Offset, from.Database);
                (long Keys, string Digest) restored = InScratch(dataDirectory, options, commits, from, (engine, opened) =>
                {
                    if (copy is not null)
                    {
                        copies.Verify(copy);
                        RdbBase.Load(copies.PathOf(copy), opened, stop);
                    }
                    using (var feed = new StreamFeed(log, offset, database, engine, opened.RecordBytesMax, feeds: true))
                    {
                        feed.GoTo(at.Offset, stop);
                    }
                    took = Stopwatch.GetElapsedTime(began);
                    return engine.Digest(stop);
                }, stop);
                string? difference = restored == store ? null : string.Create(CultureInfo.InvariantCulture,
                    $"what the log restores is not what the store holds at {at.Point}: {restored.Keys} keys with digest "
                        + $"{restored.Digest}, and the store has {store.Keys} with {store.Digest}");
                long baseBytes = copy?.Bytes ?? commits.First(c => c.Point == from!.Point).LiveBytes;
                return new RestoreTrial(at.Point, restored.Keys, baseBytes, at.Offset - offset, took, difference);
            }
            catch (Exception e) when (e is LogException or LogHistoryChangedException or IOException or UnauthorizedAccessException
                or InvalidDataException or InvalidOperationException or RedisException or UnknownToStoreException or FeedFailedException
                or FASTER.core.FasterException)
            {
                return RestoreTrial.Impossible(e.Message);
            }
        }, CancellationToken.None);

    /// <summary>Deletes what a process has left behind that was killed in a drill.</summary>
    public static void Clear(string dataDirectory)
    {
        string directory = Path.Combine(dataDirectory, Folder);
        if (Directory.Exists(directory)) { Directory.Delete(directory, recursive: true); }
    }

    private static T InScratch<T>(string dataDirectory, FasterOptions options, IReadOnlyList<CommitRecord> commits, FollowNote? at,
        Func<CommandEngine, FasterStore, T> work, CancellationToken stop)
    {
        FasterOptions scratch = options with { Directory = Path.Combine(dataDirectory, Folder) };
        Clear(dataDirectory);
        Directory.CreateDirectory(scratch.Directory);
        try
        {
            if (at is not null) { FasterStore.CopyCommit(options, commits.First(c => c.Point == at.Point), scratch.Directory, stop); }
            using FasterStore store = FasterStore.OpenAt(scratch, at?.Point);
            // As one that follows: what has expired is there until the stream says otherwise.
            using var engine = new CommandEngine(store, new EngineOptions()) { IsFollowing = true };
            return work(engine, store);
        }
        finally
        {
            Clear(dataDirectory);
        }
    }
}
