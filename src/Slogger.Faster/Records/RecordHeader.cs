// The first eight bytes of each value: when it expires, in milliseconds since the Unix epoch, or 0, or that the key is removed; whether the
// record is only a copy of what the key was before; and whether another has replaced it. That is noted in memory, when it has happened, and
// of some records is written to disk: there it says nothing, since the other one may be of a later version. FASTER's own removal is not
// used: it takes keys out of their chain of records, and so loses what they were in versions before.
namespace Slogger.Faster.Records;

internal static class RecordHeader
{
    public const int Bytes = sizeof(long);

    /// <summary>The record changes nothing: compaction or a rollback has put it there.</summary>
    public const long Copied = 1L << 62;

    /// <summary>In place of an expiry: the key has no value. An expiry is below it.</summary>
    public const long Removed = Copied - 1;

    // The sign: its byte alone is written, so that it is there or not, wherever the header lies.
    private const byte Replaced = 0x80;
    private const int LastByte = Bytes - 1;

    /// <summary>The expiry, or <see cref="Removed"/>.</summary>
    public static long Expiry(long header) => header & Removed;

    /// <summary>The header of a copy.</summary>
    public static long OfCopy(long header) => Expiry(header) | Copied;

    public static bool IsRemoved(long header) => Expiry(header) == Removed;

    public static bool IsCopy(long header) => (header & Copied) != 0;

    /// <summary>Notes in a record that another has replaced it.</summary>
    public static unsafe void MarkReplaced(byte* header) => header[LastByte] |= Replaced;

    /// <summary>Whether another record has replaced it: for records that were made since the store was opened.</summary>
    public static bool IsReplaced(long header) => header < 0;
}
