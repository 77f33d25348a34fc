// A log in several directories has a writer for each, with a file and syncs of its own. Whoever syncs takes a writer that is free, deals
// it the blocks that come next, has it write and sync them, and then says so; others do the same with other writers meanwhile.
//   - Blocks are numbered as they are dealt, and a segment is read in that order, whatever file a block is in.
//   - R7: what counts as durable is what has no block below it that is not synced. Blocks that are synced before earlier ones wait for
//     those.
//   - After a crash what lies behind the first missing block is void, and is void for good before anything is appended: the next segment's
//     header says where this one ended, and is durable first.
//
// Locks: writers' (LogWriter.Turn), in their order, then _io, then _gate. Whoever begins a segment has all of them: then no block is under
// way.
using Slogger.Log.Format;
using Slogger.Log.Segments;

namespace Slogger.Log;

public sealed partial class VersionLog
{
    private readonly LogWriter[] _writers;
    private readonly Queue<DealtBlocks> _dealt = new();          // under _io: what is not durable, in order
    private uint _turn;

    /// <summary>How many threads that call <see cref="Sync"/> sync at the same time.</summary>
    public int SyncsAtATime => Math.Max(1, _writers.Length);

    /// <summary>Each writer; none: the log is in one directory.</summary>
    internal IReadOnlyList<LogWriter> Writers => _writers;

    /// <summary>What was dealt and is not durable, in order.</summary>
    internal IReadOnlyCollection<DealtBlocks> Dealt => _dealt;

    // How many blocks a writer is dealt at a time: so few that there is work for all of them, and room for appends.
    private int DealtMax => Math.Max(1, _options.BufferBytes / _options.BlockBytes / (2 * _writers.Length));

    /// <summary>Writes and syncs until all up to a position is durable; null: until there is room for appends.</summary>
    private void WriteUntil(long? position)
    {
        LogWriter writer = TakeFree();
        while (true)
        {
            bool needsSegment = false;
            try
            {
                if (IsDone(position)) { return; }
                // Above all not after a sync that failed.
                ThrowUnlessUsableLocked();
                DealtBlocks? dealt = writer.Unfinished ?? Deal(writer, withCurrent: position is not null, out needsSegment);
                if (dealt is not null)
                {
                    Write(dealt);
                    // Whoever appends has room now: whoever syncs, or begins a segment, syncs this, too.
                    if (position is null && IsDone(null)) { return; }
                    Sync(dealt);
                }
            }
            finally
            {
                writer.Turn.Exit();
            }
            if (needsSegment) { BeginNextFor(writer); }
            if (IsDone(position)) { return; }
            // What is missing still is to be dealt, or is with another writer: then this waits for whoever has that.
            writer = _writers[(writer.Part + 1) % _writers.Length];
            writer.Turn.Enter();
        }
    }

    private bool IsDone(long? position)
    {
        if (position is { } target) { return _view.Durable.Position >= target; }
        lock (_gate) { return _free.Count > 0; }
    }

    private LogWriter TakeFree()
    {
        uint first = Interlocked.Increment(ref _turn);
        for (uint i = 0; i < _writers.Length; i++)
        {
            LogWriter writer = _writers[(first + i) % (uint)_writers.Length];
            if (writer.Turn.TryEnter()) { return writer; }
        }
        LogWriter next = _writers[first % (uint)_writers.Length];
        next.Turn.Enter();
        return next;
    }

    /// <summary>Gives a writer that was taken the blocks that come next; null: there are none, or no room for one.</summary>
    /// <param name="writer">Which.</param>
    /// <param name="withCurrent">Whether the block that is being filled counts.</param>
    /// <param name="needsSegment">Whether there is no room.</param>
    internal DealtBlocks? Deal(LogWriter writer, bool withCurrent, out bool needsSegment)
    {
        lock (_io)
        {
            var chunks = new Queue<(AppendChunk Chunk, long Position, long Number)>();
            long end = writer.Position;
            lock (_gate)
            {
                ThrowUnlessUsable();
                if (withCurrent && _sealed.Count < DealtMax) { SealCurrent(); }
                while (chunks.Count < DealtMax && _sealed.TryPeek(out AppendChunk? chunk) && HasRoom(writer, end, chunk))
                {
                    chunks.Enqueue((_sealed.Dequeue(), end, _blockNumber + chunks.Count));
                    end += chunk.TotalBytes;
                }
                needsSegment = chunks.Count == 0 && _sealed.Count > 0;
            }
            if (chunks.Count == 0) { return null; }
            Segment tail = _view.Segments[^1];
            Span<long> places = stackalloc long[_writers.Length];
            for (int i = 0; i < places.Length; i++) { places[i] = _writers[i].Position; }
            foreach ((AppendChunk chunk, long position, _) in chunks)
            {
                places[writer.Part] = position;
                NoteWritten(tail, chunk, places);
            }
            writer.Position = end;
            var dealt = new DealtBlocks(
                writer, tail.Paths[writer.Part], tail.Header.Salt, _fileSynced, chunks, end, _filePosition, _written);
            _dealt.Enqueue(dealt);
            writer.Unfinished = dealt;
            PrepareNext(tail);
            return dealt;
        }
    }

    private bool HasRoom(LogWriter writer, long position, AppendChunk chunk) =>
        writer.File is not null && position + chunk.TotalBytes <= _fileBytes;

    /// <summary>Writes what a writer was dealt; its memory is free again then.</summary>
    internal void Write(DealtBlocks dealt)
    {
        while (dealt.Blocks.TryPeek(out (AppendChunk Chunk, long Position, long Number) block))
        {
            try
            {
                dealt.Writer.File!.Write(block.Chunk.Seal(dealt.Salt, block.Position, dealt.SyncedUpTo, block.Number), block.Position);
            }
            catch (Exception e) when (IsDiskFailure(e))
            {
                // The block stays in memory; the next attempt writes the same payload to the same place.
                throw new LogIOException("write to", dealt.Path, isFatal: false, e);
            }
            dealt.Blocks.Dequeue();
            lock (_gate) { _free.Push(block.Chunk); }
        }
    }

    /// <summary>Syncs what was written.</summary>
    internal void Sync(DealtBlocks dealt)
    {
        try
        {
            dealt.Writer.File!.SyncData();
        }
        catch (Exception e) when (IsDiskFailure(e))
        {
            // As for one file: a second sync would prove nothing.
            throw Fail("sync", dealt.Path, e);
        }
        dealt.Writer.Unfinished = null;
        lock (_io)
        {
            dealt.IsSynced = true;
            NoteDurable();
        }
    }

    // Under _io. R7: in order only.
    private void NoteDurable()
    {
        Segment tail = _view.Segments[^1];
        long[] ends = [.. tail.PartEnds];
        DealtBlocks? last = null;
        while (_dealt.TryPeek(out DealtBlocks? first) && first.IsSynced)
        {
            last = _dealt.Dequeue();
            ends[last.Writer.Part] = last.FileEnd;
        }
        if (last is null) { return; }
        _fileSynced = last.SegmentEnd;
        tail.PartEnds = ends;
        tail.DurableEnd = last.SegmentEnd;
        _view = _view with { Durable = last.Written };
    }

    // The log goes on in a new segment, unless somebody else has begun it meanwhile.
    private void BeginNextFor(LogWriter writer)
    {
        using (EnterAll())
        {
            ThrowUnlessUsableLocked();
            foreach (LogWriter other in _writers)
            {
                if (other.Unfinished is not { } unfinished) { continue; }
                Write(unfinished);
                Sync(unfinished);
            }
            bool isFull;
            lock (_gate) { isFull = _sealed.TryPeek(out AppendChunk? next) && !HasRoom(writer, writer.Position, next); }
            if (isFull) { ContinueInNext(); }
        }
    }

    // Under all locks.
    private void GiveToWriters(Segment segment, SegmentFile file)
    {
        foreach (LogWriter writer in _writers)
        {
            (writer.File, writer.Position) = (file.Parts[writer.Part], writer.Part == 0 ? segment.FirstBlock : 0);
        }
        segment.PartEnds = segment.Start.Places ?? [];
    }

    // Under all locks, and _gate: what was dealt and is not synced is void.
    private void ForgetDealt()
    {
        foreach (LogWriter writer in _writers) { writer.Unfinished = null; }
        foreach (DealtBlocks dealt in _dealt)
        {
            foreach ((AppendChunk chunk, _, _) in dealt.Blocks) { _free.Push(chunk); }
        }
        _dealt.Clear();
    }

    private Held EnterAll()
    {
        foreach (LogWriter writer in _writers) { writer.Turn.Enter(); }
        _io.Enter();
        return new(this);
    }

    // All locks.
    private readonly struct Held(VersionLog log) : IDisposable
    {
        public void Dispose()
        {
            log._io.Exit();
            foreach (LogWriter writer in log._writers) { writer.Turn.Exit(); }
        }
    }
}
