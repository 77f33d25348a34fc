// The change feed: what a commit has changed; and all that it holds.
using System.Buffers.Binary;
using FASTER.core;
using Slogger.Faster.Commits;
using Slogger.Faster.Records;

namespace Slogger.Faster;

/// <summary>What became of a key. The memory is the reader's.</summary>
/// <param name="Key">The key.</param>
/// <param name="Value">Its value; null: it was removed.</param>
/// <param name="ExpiryMs">When it expires, in milliseconds since the Unix epoch; 0: never.</param>
public readonly record struct Change(byte[] Key, byte[]? Value, long ExpiryMs);

/// <summary>Reads from the log what commits have changed.</summary>
internal static class ChangeFeed
{
    private const int LookEvery = 4096;

    /// <summary>The keys that a commit has changed, each once, with what they were at its end.</summary>
    public static IEnumerable<Change> Of(FasterKV<SpanByte, SpanByte> kv, CommitRecord commit)
    {
        ArgumentNullException.ThrowIfNull(commit);
        using IFasterScanIterator<SpanByte, SpanByte> records = kv.Log.Scan(commit.From, commit.To);
        while (true)
        {
            bool any = records.GetNext(out _);
            if (kv.Log.BeginAddress > commit.From)
                throw new InvalidOperationException($"The commit of version {commit.Point} was not kept: the log begins at "
                    + $"{kv.Log.BeginAddress}, its changes at {commit.From}.");
            if (!any) yield break;
            byte[] key = records.GetKey().ToByteArray();
            byte[] record = records.GetValue().ToByteArray();
            long header = BinaryPrimitives.ReadInt64LittleEndian(record);
            if (RecordHeader.IsCopy(header) || !IsLast(kv, key, records.CurrentAddress, commit.To)) continue;
            yield return RecordHeader.IsRemoved(header) ? new(key, null, 0)
                : new(key, record[RecordHeader.Bytes..], RecordHeader.Expiry(header));
        }
    }

    /// <summary>The keys that there are at the end of a commit, each once. As long as that is kept, compaction takes no record away that
    /// is not found again further on.</summary>
    /// <param name="kv">The store.</param>
    /// <param name="commit">The commit.</param>
    /// <param name="isKept">Whether it is still kept.</param>
    public static IEnumerable<Change> All(FasterKV<SpanByte, SpanByte> kv, CommitRecord commit, Func<bool> isKept)
    {
        ArgumentNullException.ThrowIfNull(commit);
        using IFasterScanIterator<SpanByte, SpanByte> records = kv.Log.Scan(kv.Log.BeginAddress, commit.To);
        for (long i = 0; ; i++)
        {
            bool any = records.GetNext(out _);
            if ((!any || i % LookEvery == 0) && !isKept())
                throw new InvalidOperationException($"The commit of version {commit.Point} was not kept while it was read.");
            if (!any) yield break;
            byte[] key = records.GetKey().ToByteArray();
            byte[] record = records.GetValue().ToByteArray();
            long header = BinaryPrimitives.ReadInt64LittleEndian(record);
            if (RecordHeader.IsRemoved(header) || !IsLast(kv, key, records.CurrentAddress, commit.To)) continue;
            yield return new(key, record[RecordHeader.Bytes..], RecordHeader.Expiry(header));
        }
    }

    // Whether a record is the last of its key before an address. A value that grew has made another.
    private static unsafe bool IsLast(FasterKV<SpanByte, SpanByte> kv, byte[] key, long address, long before)
    {
        var newest = new NewestBefore(before);
        fixed (byte* at = key)
        {
            SpanByte name = SpanByte.FromPointer(at, key.Length);
            kv.Log.IterateKeyVersions(ref newest, ref name);
        }

        return newest.Address == address;
    }

    private struct NewestBefore(long before) : IScanIteratorFunctions<SpanByte, SpanByte>
    {
        public long Address { get; private set; }

        public bool OnStart(long beginAddress, long endAddress) => true;

        public bool SingleReader(ref SpanByte key, ref SpanByte value, RecordMetadata recordMetadata, long numberOfRecords) =>
            Look(recordMetadata.Address);

        public bool ConcurrentReader(ref SpanByte key, ref SpanByte value, RecordMetadata recordMetadata, long numberOfRecords) =>
            Look(recordMetadata.Address);

        public void OnException(Exception exception, long numberOfRecords)
        {
        }

        public void OnStop(bool completed, long numberOfRecords)
        {
        }

        private bool Look(long address)
        {
            if (address >= before) return true;
            Address = address;
            return false;
        }
    }
}
