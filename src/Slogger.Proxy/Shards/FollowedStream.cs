// The stream that an embedded store follows, as it lies beside the store: its log, what that rests on, and notes of which commit of the
// store stands where in it. When the store is a primary's, its commits are all it needs: the stream is deleted, or, with --retention,
// becomes the history beside the store.
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Shards;

/// <summary>An open stream in a data directory.</summary>
internal sealed class FollowedStream : IDisposable
{
    /// <summary>Directories, in that of the data, and in that of the history.</summary>
    public const string LogName = "log", CheckpointsName = "checkpoints";

    private const string StreamName = "stream";

    /// <summary>Opens it, or begins an empty one.</summary>
    /// <param name="options">The shard's.</param>
    /// <param name="storeDirectory">The store's directory, where the notes are.</param>
    /// <param name="epoch">Of the process that opens it.</param>
    /// <param name="tailBytes">How much of the log is wanted in memory.</param>
    /// <exception cref="LogException">It cannot be used.</exception>
    public FollowedStream(ServeOptions options, string storeDirectory, long epoch, int tailBytes)
    {
        Log = VersionLog.Open(new VersionLogOptions
        {
            Directory = Path.Combine(options.DataDirectory, LogName),
            Shard = options.Shard,
            Epoch = epoch,
            SegmentBytes = options.LogSegmentBytes,
            KeepsSpare = true,
            TailBytes = tailBytes,
        });
        Checkpoints = CheckpointStore.Open(Path.Combine(options.DataDirectory, CheckpointsName));
        Notes = new FollowNotes(storeDirectory);
    }

    /// <summary>Its log.</summary>
    public VersionLog Log { get; }

    /// <summary>What the log rests on.</summary>
    public CheckpointStore Checkpoints { get; }

    /// <summary>Where in it the store's commits stand.</summary>
    public FollowNotes Notes { get; }

    /// <summary>One that is not open becomes the history of its store, unless there is one. What was ended half way is completed by the
    /// next call.</summary>
    /// <exception cref="IOException">The disk refused.</exception>
    /// <exception cref="UnauthorizedAccessException">The same.</exception>
    public static void BecomeHistory(string dataDirectory)
    {
        string history = Path.Combine(dataDirectory, FasterPast.Folder);
        if (Directory.Exists(Path.Combine(history, LogName)) || !Directory.Exists(Path.Combine(dataDirectory, LogName))) { return; }
        FailPoint.Pass(FailPoint.StreamEnded);
        SystemFileLayer.Instance.CreateDirectory(history);
        // The log last: with it there is a history.
        foreach (string name in (ReadOnlySpan<string>)[CheckpointsName, LogName])
        {
            string from = Path.Combine(dataDirectory, name);
            if (Directory.Exists(from)) { Directory.Move(from, Path.Combine(history, name)); }
            FailPoint.Pass(name == LogName ? FailPoint.StreamMoved : FailPoint.StreamMoving);
        }
        SystemFileLayer.Instance.SyncDirectory(history);
        SystemFileLayer.Instance.SyncDirectory(dataDirectory);
    }

    /// <summary>Deletes the history of a store that begins anew.</summary>
    /// <exception cref="IOException">The disk refused.</exception>
    /// <exception cref="UnauthorizedAccessException">The same.</exception>
    public static void DeleteHistory(string dataDirectory)
    {
        string history = Path.Combine(dataDirectory, FasterPast.Folder);
        if (Directory.Exists(history)) { Directory.Delete(history, recursive: true); }
    }

    /// <summary>Deletes one that is not open, if there is one.</summary>
    /// <exception cref="IOException">The disk refused.</exception>
    /// <exception cref="UnauthorizedAccessException">The same.</exception>
    public static void Delete(string dataDirectory, string storeDirectory)
    {
        FollowNotes.Delete(storeDirectory);
        foreach (string name in (ReadOnlySpan<string>)[StreamName, LogName, CheckpointsName])
        {
            string path = Path.Combine(dataDirectory, name);
            if (Directory.Exists(path)) { Directory.Delete(path, recursive: true); }
        }
    }

    public void Dispose() => Log.Dispose();
}
