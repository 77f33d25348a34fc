// The records of a stretch of the log, where they lie in memory: FASTER's own scan copies each, and enters its protection for each. For
// stretches that are read-only, and whose writing to disk has begun: nothing changes there any more, and the memory is theirs until the log
// is cut.
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using FASTER.core;
using Slogger.Faster.Disk;

namespace Slogger.Faster.Records;

/// <summary>Goes from record to record. As FASTER lays them out: a word of its own, the key and the value, each behind its length and
/// filled up to whole words; words of zeros in between, where a value was shortened or a page is not used to its end.</summary>
/// <param name="device">Knows where the log's pages are in memory.</param>
/// <param name="pageBits">A page, as a power of two.</param>
/// <param name="from">The address of a record, or of a page.</param>
/// <param name="until">The first address that is not wanted any more.</param>
/// <param name="marked">From here on records are passed over that say that they have been replaced.</param>
internal unsafe ref struct RecordWalk(LogDevice device, int pageBits, long from, long until, long marked = long.MaxValue)
{
    private const int Word = 8;
    private long _next = from;
    private byte* _page;
    private long _pageEnd;

    /// <summary>Where the record is.</summary>
    public long Address { get; private set; }

    /// <summary>Where the record is that it names as the one before; below all addresses: there is none.</summary>
    public long Previous { get; private set; }

    /// <summary>Behind the record.</summary>
    public readonly long Next => _next;

    /// <summary>Its key.</summary>
    public ReadOnlySpan<byte> Key { get; private set; }

    /// <summary>Its header and value.</summary>
    public ReadOnlySpan<byte> Value { get; private set; }

    /// <summary>Goes to a record that another walk of the same stretch has found.</summary>
    public void GoTo(long address)
    {
        (_next, marked) = (address, long.MaxValue);
        GoOn();
    }

    /// <summary>Goes on to the next record.</summary>
    /// <returns>No: there is none.</returns>
    public bool GoOn()
    {
        while (_next < until)
        {
            if (_next >= _pageEnd)
            {
                long first = _next & -(1L << pageBits);
                _page = (byte*)device.MemoryOf(_next >> pageBits) - first;
                _pageEnd = first + (1L << pageBits);
            }

            byte* at = _page + _next;
            ref RecordInfo info = ref *(RecordInfo*)at;
            if (info.IsNull())
            {
                _next += Word;
                continue;
            }

            at += Word;
            int key = *(int*)at;
            if ((uint)key > _pageEnd - _next - (3 * Word)) throw Spoilt($"a key of {key} bytes");
            int value = *(int*)(at + Whole(sizeof(int) + key));
            long bytes = Word + Whole(sizeof(int) + key) + Whole(sizeof(int) + (long)value);
            if (value < RecordHeader.Bytes || bytes > _pageEnd - _next) throw Spoilt($"a value of {value} bytes");
            (Address, _next) = (_next, _next + bytes);
            if (info.SkipOnScan) continue;
            byte* header = at + Whole(sizeof(int) + key) + sizeof(int);
            if (Address >= marked && RecordHeader.IsReplaced(Unsafe.ReadUnaligned<long>(header))) continue;
            Previous = info.PreviousAddress;
            Key = new(at + sizeof(int), key);
            Value = new(header, value);
            return true;
        }

        return false;
    }

    private readonly InvalidDataException Spoilt(string what) => new($"The log is spoilt in memory: the record at {_next} has {what}.");

    private static long Whole(long bytes) => (bytes + Word - 1) & -Word;
}
