// What lies between two instants of a shard, as files: the keys that were named in between with their values at the one, and those of them
// that are not there. So a snapshot can rest on an earlier one; or on a later one, if it goes back. Whether a value differs from that at
// the other instant is not looked at: that would cost as much again, and mostly it does.
//
// On top of what the other snapshot says, the files say this of each key that is there at the instant: its value, exactly; and of each
// that is not: nothing, or something that had expired by then. Keys that have expired, and that Redis had not deleted, are in an RDB
// file of all keys: they count as not there, and whoever loads it looks at the time. Going back, one of them may be alive again, so each
// key that was named, and is not there, is removed. And it may be missing below, where what rests on the file of all keys did not count
// it, or where it was deleted before that: so going back, all keys are looked at that were named behind the lowest of these, up to the
// highest.
using System.Globalization;
using System.Text;
using Slogger.Core.WorldLines;
using Slogger.Log.Files;
using Slogger.Redis.Connections;
using Slogger.Redis.Past;
using Slogger.Redis.Rdb;
using Slogger.Redis.Rollback;

namespace Slogger.Proxy.Past;

/// <summary>Writes the files. One caller at a time.</summary>
/// <param name="past">The shard's past.</param>
/// <param name="since">The instant of the other snapshot. Where the shard had no slots of this one, or the lowest, only the version counts.
/// </param>
/// <param name="to">The instant.</param>
/// <param name="lowest">The lowest instant of a snapshot that the other one rests on, or its own.</param>
/// <param name="highest">The highest of these.</param>
internal sealed class SnapshotDelta(ShardPast past, Boundary since, Boundary to, Boundary lowest, Boundary highest)
{
    private const int RemovedAtOnce = 1 << 20;

    private static readonly byte[] s_delete = "DEL"u8.ToArray(), s_select = "SELECT"u8.ToArray();

    private long _looked, _all;
    private int _database;

    /// <summary>How many of the keys are there; and how many are not.</summary>
    public long Keys { get; private set; }

    /// <inheritdoc cref="Keys"/>
    public long Removed { get; private set; }

    /// <summary>How many keys have been looked at, and how many there are in all. Any thread.</summary>
    public (long Done, long All) Progress => (Volatile.Read(ref _looked), Volatile.Read(ref _all));

    /// <summary>Writes them.</summary>
    /// <param name="values">The values: an RDB file.</param>
    /// <param name="removals">The other keys, as commands that delete them.</param>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="PastException">That is not possible; the text says why.</exception>
    /// <exception cref="IOException">They cannot be written.</exception>
    public async Task WriteAsync(string values, string removals, CancellationToken stop)
    {
        bool goesBack = to.Version < since.Version;
        Boundary first = !goesBack ? since : lowest.Version < to.Version ? lowest : to;
        IReadOnlySet<StoreKey> touched = await past.TouchedAsync(first, goesBack ? highest : to, to.Version, stop).ConfigureAwait(false);
        Volatile.Write(ref _all, touched.Count);
        using FileStream ofValues = PrivateFile.Open(values, FileMode.Create), ofRemovals = PrivateFile.Open(removals, FileMode.Create);
        var writer = new RdbWriter(ofValues);
        var batch = new RedisBatch();
        await foreach (IReadOnlyList<DumpedKey> some in past.DumpAllAsync(to.Version, touched, stop).ConfigureAwait(false))
        {
            foreach (DumpedKey key in some)
            {
                if (key.Value is null) { Remove(batch, key.Key); }
                else { writer.Add(key.Key.Database, key.Key.Name, key.IsString, key.Value, key.ExpiresAtMs); }
            }
            if (batch.Bytes >= RemovedAtOnce) { Write(batch, ofRemovals); }
            Volatile.Write(ref _looked, _looked + some.Count);
        }
        writer.End();
        Keys = writer.Keys;
        Write(batch, ofRemovals);
        ofRemovals.Flush(flushToDisk: true);
    }

    private void Remove(RedisBatch batch, StoreKey key)
    {
        if (key.Database != _database)
        {
            _database = key.Database;
            batch.Add(s_select, Encoding.ASCII.GetBytes(key.Database.ToString(CultureInfo.InvariantCulture)));
        }
        batch.Add(s_delete, key.Name);
        Removed++;
    }

    private static void Write(RedisBatch batch, FileStream file)
    {
        file.Write(batch.Written.Span);
        batch.Clear();
    }
}
