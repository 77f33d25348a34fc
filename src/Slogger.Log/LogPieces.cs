// The log as its shipper reads it: piece by piece, from any index on, as soon as it was appended. From memory while the shipper keeps up
// (LogTail), else from the files, where only what is durable can be read. Each piece holds bytes of the stream, and the ends of versions as
// they follow each other.
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Format;

namespace Slogger.Log;

/// <summary>The end of a version in a piece of a log.</summary>
/// <param name="Boundary">The version. Of a run of empty ones the last, at the offset of the end before it.</param>
/// <param name="IsEmptyRun">Whether it closes every version since the end before it as empty: what was appended behind that belongs to
/// later versions.</param>
/// <param name="EndsWindow">Whether it ends a window (<see cref="LogWindows"/>).</param>
public readonly record struct VersionEnd(Boundary Boundary, bool IsEmptyRun, bool EndsWindow = false);

/// <summary>Reads a <see cref="VersionLog"/> in pieces. Not thread-safe; the log may be appended to, synced, trimmed, and begin world-lines
/// and reigns meanwhile, and go back.</summary>
public sealed class LogPieces(VersionLog log) : IShippedLog, IDisposable
{
    private const int CachedMax = 4096;
    private readonly List<LogEntry> _found = [];
    private readonly List<LogEntry> _cached = [];      // of the files: the ends behind a version
    private LogIndex _cachedAfter;
    private long _cachedOf;                            // how often the log had gone back
    private bool _isCutShort;
    private LogReader? _reader;

    /// <inheritdoc />
    /// <exception cref="LogCorruptException">A block does not verify.</exception>
    public LogIndex? EndOfPiece(LogIndex from, LogIndex limit, int bytesMax)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(bytesMax, 1);
        if (from.WorldLine != limit.WorldLine || from.Reign != limit.Reign)
        {
            throw new ArgumentException($"A piece is of one world-line and reign: {from}, {limit}.", nameof(limit));
        }
        if (log.TailEndOfPiece(from, limit, bytesMax) is { } inMemory) { return inMemory; }
        LogIndex durable = log.DurableEnd;
        if (from.Offset < log.StartOffset) { return null; }
        long offset = Math.Min(Math.Min(limit.Offset, durable.Offset), from.Offset + bytesMax);
        try
        {
            Find(from, offset);
        }
        catch (FileNotFoundException)
        {
            // Trimmed while it was being read.
            Forget();
            return null;
        }
        if (_isCutShort) { offset = Math.Min(offset, _cached[^1].Offset); }
        offset = Math.Max(offset, from.Offset);
        VersionNumber closed = from.Closed;
        foreach (LogEntry end in _cached)
        {
            bool isBeyond = end.Version > limit.Closed.Number;
            // A run that has become longer since the limit was told.
            bool covers = isBeyond && end.Kind == EntryKind.EmptyRun && end.Offset <= offset && offset == limit.Offset;
            if (covers) { closed = VersionNumber.Max(closed, limit.Closed); }
            if (isBeyond || end.Offset > offset) { break; }
            closed = VersionNumber.Max(closed, new VersionNumber(end.Version));
        }
        return limit with { Offset = offset, Closed = closed };
    }

    /// <summary>Reads a piece.</summary>
    /// <param name="from">Where it begins.</param>
    /// <param name="to">Where it ends, as <see cref="EndOfPiece"/> gave it.</param>
    /// <param name="bytes">Receives the bytes between: as long as they are.</param>
    /// <param name="ends">Receives the ends of versions behind <paramref name="from"/>'s up to <paramref name="to"/>'s.</param>
    /// <returns>Whether it is all there. If a world-line or a reign has begun meanwhile, or the log has gone back or was trimmed, it may
    /// not be: then nothing that was read counts.</returns>
    /// <exception cref="LogCorruptException">A block does not verify.</exception>
    public bool Read(LogIndex from, LogIndex to, Span<byte> bytes, List<VersionEnd> ends)
    {
        ArgumentNullException.ThrowIfNull(ends);
        ArgumentOutOfRangeException.ThrowIfNotEqual(bytes.Length, to.Offset - from.Offset, nameof(bytes));
        _found.Clear();
        long rewinds = log.Rewinds;
        if (!log.TryCopyTail(from, to, bytes, _found))
        {
            try
            {
                ReadFiles(from, to, bytes);
            }
            catch (Exception e) when (e is LogHistoryChangedException or FileNotFoundException)
            {
                Forget();
                return false;
            }
            // A line that has begun since, or was gone back to, may have put other bytes in the same place.
            bool isWhole = to.Closed == from.Closed || (_found.Count > 0 && _found[^1].Version == to.Closed.Number);
            if (!isWhole || !log.Keeps(to) || log.Rewinds != rewinds) { return false; }
        }
        foreach (LogEntry end in _found) { ends.Add(EndOf(end, from)); }
        return true;
    }

    /// <summary>Closes the file.</summary>
    public void Dispose() => Forget();

    private static VersionEnd EndOf(in LogEntry end, in LogIndex from) =>
        new(end.ToBoundary(from.WorldLine), end.Kind == EntryKind.EmptyRun, end.Kind == EntryKind.ReducedBoundary);

    private void ReadFiles(LogIndex from, LogIndex to, Span<byte> bytes)
    {
        Find(from, to.Offset);
        foreach (LogEntry end in _cached)
        {
            if (end.Version <= from.Closed.Number) { continue; }
            bool isBeyond = end.Version > to.Closed.Number;
            // The run that ended the piece may have become longer since it was told.
            bool isCovered = to.Closed == from.Closed || (_found.Count > 0 && _found[^1].Version == to.Closed.Number);
            if (!isBeyond) { _found.Add(end); }
            else if (!isCovered && end.Kind == EntryKind.EmptyRun) { _found.Add(end.UpTo(to.Closed)); }
            if (isBeyond) { break; }
        }
        if (bytes.IsEmpty) { return; }
        if (_reader is null || _reader.Position > from.Offset) { Open(from.Offset); }
        else { _reader.SkipTo(from.Offset); }
        for (int at = 0; at < bytes.Length;)
        {
            int got = _reader!.Read(bytes[at..]);
            // Not durable any more: a line has begun below.
            if (got == 0) { throw new LogHistoryChangedException($"Offset {_reader.Position} is not in the log any more."); }
            at += got;
        }
    }

    private void Open(long offset)
    {
        _reader?.Dispose();
        try
        {
            _reader = log.OpenReader(offset);
        }
        catch (ArgumentOutOfRangeException e)
        {
            throw new LogHistoryChangedException(e.Message);
        }
    }

    // The ends behind an index, up to an offset at least, if there are not too many.
    private void Find(LogIndex from, long offset)
    {
        long rewinds = log.Rewinds;
        bool isHere = _cachedOf == rewinds && _cachedAfter.WorldLine == from.WorldLine && _cachedAfter.Reign == from.Reign
            && _cachedAfter.Closed <= from.Closed && _cached.Count > 0 && _cached[^1].Version > from.Closed.Number
            && (_isCutShort || _cached[^1].Offset > offset);
        if (isHere) { return; }
        _cached.Clear();
        (_cachedOf, _cachedAfter, _isCutShort) = (rewinds, from, false);
        foreach (LogEntry end in log.EndsAfter(from))
        {
            if (_cached.Count == CachedMax)
            {
                _isCutShort = true;
                return;
            }
            _cached.Add(end);
        }
    }

    private void Forget()
    {
        _cached.Clear();
        _reader?.Dispose();
        _reader = null;
    }
}
