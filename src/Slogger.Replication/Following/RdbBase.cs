// What an embedded store holds, as an RDB file: a copy of a primary's Redis from which it begins, and what is written of its own commits.
using Slogger.Faster;
using Slogger.Faster.Commits;
using Slogger.Log.Files;
using Slogger.Redis.Connections;
using Slogger.Redis.Rdb;

namespace Slogger.Replication.Following;

/// <summary>Reads and writes such files.</summary>
internal static class RdbBase
{
    private const int WindowBytes = 1 << 20;

    /// <summary>Looks whether an embedded store can hold it.</summary>
    /// <exception cref="UnknownToStoreException">It cannot; the text names the first thing.</exception>
    /// <exception cref="RedisException">It cannot be read.</exception>
    public static void RequireKnown(string path, long recordBytesMax, CancellationToken stop)
    {
        using var cursor = new RdbCursor(path, WindowBytes);
        cursor.ReadHead();
        while (cursor.ReadEntry() is { } entry)
        {
            stop.ThrowIfCancellationRequested();
            string? flaw = entry.Type != RdbCursor.StringType
                ? $"key {FeedCommand.Shown(entry.Key)} is a {RdbCursor.TypeName(entry.Type)}, and it has strings only"
                : entry.Database != 0 ? $"key {FeedCommand.Shown(entry.Key)} is in database {entry.Database}, and it has database 0 only"
                // Only what could be too large is read.
                : entry.End - entry.ValueStart > recordBytesMax / 256
                ? FeedCommand.TooLarge(entry.Key, cursor.ReadString(entry).Length, recordBytesMax)
                : FeedCommand.TooLarge(entry.Key, 0, recordBytesMax);
            if (flaw is not null) { throw Unknown(flaw); }
        }
        if (cursor.HasFunctions) { throw Unknown("there are functions (FUNCTION LOAD), which it does not know"); }
    }

    /// <summary>Loads it into a store that is empty. Nobody else uses that.</summary>
    /// <exception cref="FeedFailedException">It has no room.</exception>
    /// <exception cref="RedisException">The file cannot be read.</exception>
    public static void Load(string path, FasterStore store, CancellationToken stop)
    {
        using var cursor = new RdbCursor(path, WindowBytes);
        using FasterWorker worker = store.NewWorker();
        cursor.ReadHead();
        while (cursor.ReadEntry() is { } entry)
        {
            stop.ThrowIfCancellationRequested();
            byte[] value = cursor.ReadString(entry);
            int entered = worker.Enter(entry.Key);
            try
            {
                worker.Write(entry.Key, value, entry.ExpiresAtMs);
            }
            catch (InvalidOperationException e)
            {
                throw new FeedFailedException(e.Message);
            }
            finally
            {
                worker.Exit(entered);
            }
        }
    }

    /// <summary>Writes what a commit holds; meanwhile others may use the store.</summary>
    /// <returns>How many keys that is, and the bytes of the file.</returns>
    /// <exception cref="InvalidOperationException">The store did not keep the commit.</exception>
    /// <exception cref="IOException">The disk refused.</exception>
    public static (long Keys, long Bytes) Write(FasterStore store, CommitRecord commit, string path, CancellationToken stop)
    {
        using FileStream stream = PrivateFile.Open(path, FileMode.Create);
        var rdb = new RdbWriter(stream);
        foreach (Change record in store.Records(commit))
        {
            stop.ThrowIfCancellationRequested();
            rdb.Add(0, record.Key, isString: true, record.Value, record.ExpiryMs);
        }
        rdb.End();
        return (rdb.Keys, stream.Length);
    }

    private static UnknownToStoreException Unknown(string what) =>
        new($"the embedded store cannot begin from the primary's copy: {what}. {StreamFeed.Advice}");
}
