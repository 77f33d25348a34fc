// Where FASTER keeps its index and its log, so that the processor can be told what will be needed soon, and the kernel to use huge pages.
// Most of what an operation takes is waiting for memory: for the bucket of its key, for the record, and each time for the tables of pages.
//
// FASTER does not say where they are: its fields are read. These are hints only: a wrong place costs time, and nothing depends on it. If a
// later FASTER has other fields there are no hints. What is given back to the kernel is certainly of an array that FASTER has just made.
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Runtime.Intrinsics.X86;
using FASTER.core;

namespace Slogger.Faster.Memory;

/// <summary>Hints about the memory of one store. The index must not grow.</summary>
internal sealed unsafe partial class MemoryHints
{
    // FASTER's layout of the index: buckets of a cache line with seven entries, each a tag of 14 bits above an address of 48.
    private const int BucketBytes = 64, EntriesPerBucket = 7, TagBits = 14, AddressBits = 48, LineBytes = 64;
    private const int NotNeeded = 4, UseHugePages = 14, CollapseNow = 25;   // MADV_DONTNEED, MADV_HUGEPAGE, MADV_COLLAPSE
    private const BindingFlags Hidden = BindingFlags.Instance | BindingFlags.NonPublic | BindingFlags.Public;
    private readonly byte* _index;
    private readonly long _bucketMask;
    private readonly long[] _pages;      // where each page of the log is; 0: not there yet
    private readonly long[] _advised;    // those of them that the kernel has been told of
    private readonly int _pageBits;
    private readonly long _ahead;        // so many bytes behind each are for pages to come

    private MemoryHints(byte* index, long bucketMask, long[] pages, byte[]?[] arrays, int pageBits, int ahead)
    {
        _index = index;
        (_bucketMask, _pages, _pageBits, _ahead) = (bucketMask, pages, pageBits, (long)ahead << pageBits);
        _advised = new long[pages.Length];
        // Nobody has touched it: it comes as huge pages.
        Advise((nint)index, (bucketMask + 1) * BucketBytes, UseHugePages);
        GiveBack(arrays);
    }

    /// <summary>Finds out where a store's memory is; null: FASTER has changed.</summary>
    /// <param name="kv">The store.</param>
    /// <param name="pageBits">A page of its log, as a power of two.</param>
    /// <param name="ahead">For how many pages that are not there yet the kernel is told, too. Other memory of the process may come to lie
    /// there.</param>
    public static MemoryHints? Of(FasterKV<SpanByte, SpanByte> kv, int pageBits, int ahead)
    {
        if (!Sse.IsSupported) return null;
        object? log = typeof(FasterKV<SpanByte, SpanByte>).GetField("hlog", Hidden)?.GetValue(kv);
        object? table = (typeof(FasterBase).GetField("state", Hidden)?.GetValue(kv) as Array)?.GetValue(0);
        if (log?.GetType().GetField("pointers", Hidden)?.GetValue(log) is not long[] pages || !int.IsPow2(pages.Length)) return null;
        if (log.GetType().GetField("values", Hidden)?.GetValue(log) is not byte[]?[] arrays || arrays.Length != pages.Length) return null;
        if (table?.GetType().GetField("tableAligned", Hidden)?.GetValue(table) is not Pointer index) return null;
        if (table.GetType().GetField("size_mask", Hidden)?.GetValue(table) is not long mask) return null;
        return new((byte*)Pointer.Unbox(index), mask, pages, arrays, pageBits, ahead);
    }

    /// <summary>The bucket of a key will be needed.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void PrefetchBucket(long hash) => Sse.Prefetch0(_index + ((hash & _bucketMask) * BucketBytes));

    /// <summary>The newest record of a key will be needed; its bucket has been fetched.</summary>
    /// <param name="hash">The key's hash.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void PrefetchRecord(long hash)
    {
        long* bucket = (long*)(_index + ((hash & _bucketMask) * BucketBytes));
        ulong tag = (ulong)hash >> (64 - TagBits);
        for (int i = 0; i < EntriesPerBucket; i++)
        {
            long entry = bucket[i];
            if ((((ulong)entry >> AddressBits) & ((1 << TagBits) - 1)) != tag || entry == 0) continue;
            long address = entry & ((1L << AddressBits) - 1);
            PrefetchAt(address);
            return;
        }
    }

    /// <summary>The record at an address will be needed.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void PrefetchAt(long address)
    {
        byte* record = (byte*)_pages[(int)(address >> _pageBits) & (_pages.Length - 1)] + (address & ((1L << _pageBits) - 1));
        Sse.Prefetch0(record);
        Sse.Prefetch0(record + LineBytes);
    }

    /// <summary>Tells the kernel of pages that have come since. May take some 10 ms for each.</summary>
    public void AdvisePages()
    {
        for (int i = 0; i < _pages.Length; i++)
        {
            long page = Volatile.Read(ref _pages[i]);
            if (page == 0 || page == _advised[i]) continue;
            _advised[i] = page;
            Advise((nint)page, 1L << _pageBits, UseHugePages);
            // Now, if the kernel can (since 6.1), else when it comes by.
            Advise((nint)page, 1L << _pageBits, CollapseNow);
            // The runtime puts what FASTER asks for next a little further on. Made of huge pages from the first, it need not be copied into
            // them.
            if (_ahead > 0) Advise((nint)page + (nint)(1L << _pageBits), _ahead, UseHugePages);
        }
    }

    // The runtime has filled the first pages of the log with zeros, and a store may stay small. They come again, as huge pages, when they
    // are written. FASTER has used at most the beginning of the first.
    private void GiveBack(byte[]?[] arrays)
    {
        long bytes = 1L << _pageBits, used = Environment.SystemPageSize;
        for (int i = 0; i < _pages.Length; i++)
        {
            if (arrays[i] is not { } array) continue;
            // It is pinned.
            long begin = (long)Unsafe.AsPointer(ref MemoryMarshal.GetArrayDataReference(array));
            if (_pages[i] < begin || _pages[i] + bytes > begin + array.Length) continue;
            _advised[i] = _pages[i];
            Advise((nint)(_pages[i] + used), bytes - used, NotNeeded);
            Advise((nint)_pages[i], bytes, UseHugePages);
        }
    }

    // Whole pages of the kernel, and no others. What it refuses stays as it is.
    private static void Advise(nint start, long bytes, int advice)
    {
        if (!OperatingSystem.IsLinux()) return;
        nint page = Environment.SystemPageSize, from = (start + page - 1) / page * page, to = (start + (nint)bytes) / page * page;
        if (to > from) _ = MAdvise(from, (nuint)(to - from), advice);
    }

    [LibraryImport("libc", EntryPoint = "madvise")]
    [DefaultDllImportSearchPaths(DllImportSearchPath.SafeDirectories)]
    private static partial int MAdvise(nint address, nuint length, int advice);
}
