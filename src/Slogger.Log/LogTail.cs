// What was appended last, in memory: a ring of the stream's bytes, and the ends of versions in it. Whoever ships the log reads it here
// before it is durable, and long after that while it keeps up; who has fallen behind reads the files (LogPieces). Only of the present
// line: of its world-line in its reign.
//
// A piece ends where the log once ended, so that of what is not durable yet it can be said by two numbers what of it has become so: a run
// of empty versions may be noted behind bytes of the version that is open, and is in no piece that ends before those.
//
// All under the log's gate. What falls out is in the files, or will be before anybody may rely on it.
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Format;

namespace Slogger.Log;

internal sealed class LogTail(int capacityBytes)
{
    private const int EndsMax = 1 << 16;

    private readonly byte[] _ring = GC.AllocateUninitializedArray<byte>(capacityBytes);
    private readonly LogEntry[] _ends = new LogEntry[EndsMax];
    private readonly long[] _notedAt = new long[EndsMax];       // the end of the stream when each was noted
    private long _start;
    private long _end;
    private long _firstEnd;            // the ends' numbers, from the beginning on
    private long _endCount;
    private VersionNumber _endsAfter;        // all ends of later versions are here

    /// <summary>Forgets all, and begins at the end of the log.</summary>
    public void Restart(long offset, VersionNumber closed)
    {
        _start = _end = offset;
        _firstEnd = _endCount;
        _endsAfter = closed;
    }

    public void Add(ReadOnlySpan<byte> bytes)
    {
        _end += bytes.Length;
        if (bytes.Length > _ring.Length) { bytes = bytes[^_ring.Length..]; }
        int at = (int)((_end - bytes.Length) % _ring.Length);
        int first = Math.Min(bytes.Length, _ring.Length - at);
        bytes[..first].CopyTo(_ring.AsSpan(at));
        bytes[first..].CopyTo(_ring);
        _start = Math.Max(_start, _end - _ring.Length);
    }

    /// <param name="entry">What was noted.</param>
    /// <param name="isLonger">Whether it is the last run of empty versions, which has become longer: here as in the files.</param>
    public void Add(in LogEntry entry, bool isLonger)
    {
        if (!entry.Closes) { return; }
        if (!isLonger || _endCount == _firstEnd) { _endCount++; }
        EndAt(_endCount - 1) = entry;
        _notedAt[(_endCount - 1) % EndsMax] = _end;
        if (_endCount - _firstEnd <= EndsMax - 1) { return; }
        _endsAfter = new VersionNumber(EndAt(_firstEnd).Version);
        _firstEnd++;
    }

    /// <summary>Whether all behind an index of the present line is here.</summary>
    public bool Holds(in LogIndex from) => from.Offset >= _start && from.Offset <= _end && from.Closed >= _endsAfter;

    /// <summary>As <see cref="IShippedLog.EndOfPiece"/>, of what it holds.</summary>
    public LogIndex EndOfPiece(in LogIndex from, in LogIndex limit, int bytesMax)
    {
        long offset = Math.Min(Math.Min(limit.Offset, _end), from.Offset + bytesMax);
        long beyond = FirstAfter(limit.Closed), n = beyond;
        // Up to a version's end: a run closes what its offset says, however much had been appended behind that when it was noted.
        bool isWhole = offset == limit.Offset;
        bool IsRunIn(long end) => isWhole && EndAt(end).Kind == EntryKind.EmptyRun && EndAt(end).Offset <= offset;
        while (n > _firstEnd && _notedAt[(n - 1) % EndsMax] > offset && !IsRunIn(n - 1)) { n--; }
        VersionNumber closed = n > _firstEnd ? new(EndAt(n - 1).Version) : from.Closed;
        // It may have become longer since the limit was told.
        if (n == beyond && n < _endCount && IsRunIn(n)) { closed = limit.Closed; }
        return limit with { Offset = Math.Max(offset, from.Offset), Closed = VersionNumber.Max(closed, from.Closed) };
    }

    /// <summary>Copies a piece that it holds.</summary>
    public void Copy(in LogIndex from, in LogIndex to, Span<byte> bytes, List<LogEntry> ends)
    {
        int length = (int)(to.Offset - from.Offset), at = (int)(from.Offset % _ring.Length);
        int first = Math.Min(length, _ring.Length - at);
        _ring.AsSpan(at, first).CopyTo(bytes);
        _ring.AsSpan(0, length - first).CopyTo(bytes[first..]);
        long until = FirstAfter(to.Closed);
        for (long n = FirstAfter(from.Closed); n < until; n++) { ends.Add(EndAt(n)); }
        // The run that ended the piece may have become longer since it was told.
        bool isCovered = to.Closed == from.Closed || (ends.Count > 0 && ends[^1].Version == to.Closed.Number);
        if (!isCovered && until < _endCount && EndAt(until).Kind == EntryKind.EmptyRun) { ends.Add(EndAt(until).UpTo(to.Closed)); }
    }

    /// <summary>As <see cref="VersionLog.BoundaryAtOrBelow"/>, of a version that is closed; null if that is not known here.</summary>
    public Boundary? EndAtOrBelow(VersionNumber version, WorldLine line)
    {
        long next = FirstAfter(version);
        if (next == _firstEnd || version < _endsAfter) { return null; }
        Boundary end = EndAt(next - 1).ToBoundary(line);
        return next < _endCount && EndAt(next).Kind == EntryKind.EmptyRun ? end with { Version = version } : end;
    }

    // The number of the first end of a later version.
    private long FirstAfter(VersionNumber version)
    {
        (long low, long high) = (_firstEnd, _endCount);
        while (low < high)
        {
            long middle = (low + high) / 2;
            if (EndAt(middle).Version <= version.Number) { low = middle + 1; }
            else { high = middle; }
        }
        return low;
    }

    private ref LogEntry EndAt(long number) => ref _ends[number % EndsMax];
}
