// The first eight bytes of each value: when it expires, in milliseconds since the Unix epoch, or 0, or that the key is removed; and
// whether the record is only a copy of what the key was before. FASTER's own removal is not used: it takes keys out of their chain of
// records, and so loses what they were in versions before.
namespace Slogger.Faster.Records;

internal static class RecordHeader
{
    public const int Bytes = sizeof(long);

    /// <summary>In place of an expiry: the key has no value.</summary>
    public const long Removed = long.MinValue;

    /// <summary>The record changes nothing: compaction or a rollback has put it there.</summary>
    public const long Copied = 1L << 62;

    /// <summary>The expiry, or <see cref="Removed"/>.</summary>
    public static long Expiry(long header) => header & ~Copied;

    public static bool IsRemoved(long header) => Expiry(header) == Removed;

    public static bool IsCopy(long header) => (header & Copied) != 0;
}
