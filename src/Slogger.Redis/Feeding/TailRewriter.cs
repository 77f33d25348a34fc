// Reads history for a replay and replaces what must not happen twice (see Filler), keeping every offset. Bounded memory: one
// chunk; a PUBLISH larger than the chunk is skipped over first, to learn its length, and its filler is then made on the fly.
using Slogger.Redis.Replication;

namespace Slogger.Redis.Feeding;

/// <summary>How far a <see cref="TailRewriter"/> got.</summary>
internal enum RewriteState
{
    /// <summary>Bytes were produced.</summary>
    Produced,
    /// <summary>The limit is reached, at a command boundary outside a transaction.</summary>
    AtLimit,
    /// <summary>The limit lies inside a command or a transaction; nothing beyond the last command boundary was produced
    /// (but a very large command may have been produced in part).</summary>
    InsideCommand,
    /// <summary>The source has no bytes at <see cref="TailRewriter.Position"/>, below the limit.</summary>
    SourceEnded,
}

internal sealed class TailRewriter
{
    private readonly IHistorySource _source;
    private readonly byte[] _chunk;
    private StreamScanner _scanner;
    private byte[] _fillerHead = [];
    private long _fillerLeft; // padding and CRLF still to produce

    /// <param name="source">The bytes.</param>
    /// <param name="start">A command boundary.</param>
    /// <param name="chunkBytes">Memory used.</param>
    public TailRewriter(IHistorySource source, long start, int chunkBytes = 1 << 20)
    {
        _source = source;
        _chunk = new byte[chunkBytes];
        _scanner = new StreamScanner(start, 0);
        Position = start;
    }

    /// <summary>Bytes of history produced.</summary>
    public long Position { get; private set; }

    /// <summary>Messages kept from being published again.</summary>
    public long Suppressed { get; private set; }

    /// <summary>Produces the next bytes, none at or beyond <paramref name="limit"/>. They are valid until the next call.</summary>
    public RewriteState Next(long limit, out ReadOnlyMemory<byte> bytes)
    {
        bytes = default;
        if (_fillerHead.Length > 0 || _fillerLeft > 0)
            return Produce(FillerBytes(), out bytes);
        while (true)
        {
            if (Position >= limit)
                return _scanner.AtCommandBoundary && !_scanner.InTransaction ? RewriteState.AtLimit : RewriteState.InsideCommand;
            int count = ReadChunk((int)Math.Min(_chunk.Length, limit - Position));
            if (count == 0)
                return RewriteState.SourceEnded;
            bool whole = Position + count >= limit;
            Rewrite(count);
            if (_scanner.AtCommandBoundary)
                return Produce(_chunk.AsMemory(0, count), out bytes);
            int complete = (int)Math.Max(0, _scanner.CommandStart - Position);
            if (complete > 0)
            {
                // Read the incomplete command again, from its start, together with its end.
                _scanner = new StreamScanner(_scanner.CommandStart, _scanner.Database, _scanner.InTransaction);
                return Produce(_chunk.AsMemory(0, complete), out bytes);
            }
            if (_scanner.CommandStart == Position && (count < _chunk.Length || _scanner.IncompleteIsUnknown))
            {
                _scanner = new StreamScanner(Position, _scanner.Database, _scanner.InTransaction);
                return whole ? RewriteState.InsideCommand : RewriteState.SourceEnded;
            }
            if (!_scanner.IncompleteIsPublish)
                return Produce(_chunk.AsMemory(0, count), out bytes);
            RewriteState skipped = SkipPublish(limit);
            if (skipped != RewriteState.Produced)
                return skipped;
            return Produce(FillerBytes(), out bytes);
        }
    }

    private void Rewrite(int count)
    {
        int at = 0;
        StreamEvent found;
        while ((found = _scanner.Next(_chunk.AsSpan(0, count), ref at)) != StreamEvent.None)
        {
            if (found is not (StreamEvent.Publish or StreamEvent.ShardPublish))
                continue;
            Filler.Overwrite(_chunk.AsSpan((int)(_scanner.EventStart - Position), at - (int)(_scanner.EventStart - Position)));
            Suppressed++;
        }
    }

    // The scanner is inside a PUBLISH that began at Position. Find its end without producing anything.
    private RewriteState SkipPublish(long limit)
    {
        while (true)
        {
            long from = _scanner.Offset;
            int count = from >= limit ? 0 : _source.Read(from, _chunk.AsSpan(0, (int)Math.Min(_chunk.Length, limit - from)));
            if (count == 0)
            {
                _scanner = new StreamScanner(Position, _scanner.Database, _scanner.InTransaction);
                return from >= limit ? RewriteState.InsideCommand : RewriteState.SourceEnded;
            }
            int at = 0;
            if (_scanner.Next(_chunk.AsSpan(0, count), ref at) == StreamEvent.None)
                continue;
            long length = _scanner.Offset - Position;
            _fillerHead = Filler.Head(length, out long padding);
            _fillerLeft = padding + 2;
            Suppressed++;
            return RewriteState.Produced;
        }
    }

    private ReadOnlyMemory<byte> FillerBytes()
    {
        if (_fillerHead.Length > 0)
        {
            byte[] head = _fillerHead;
            _fillerHead = [];
            return head;
        }
        int take = (int)Math.Min(_fillerLeft, _chunk.Length);
        long padding = Math.Max(0, _fillerLeft - 2);
        int dots = (int)Math.Min(padding, take);
        _chunk.AsSpan(0, dots).Fill((byte)'.');
        for (int i = dots; i < take; i++)
            _chunk[i] = _fillerLeft - i == 2 ? (byte)'\r' : (byte)'\n';
        _fillerLeft -= take;
        return _chunk.AsMemory(0, take);
    }

    private RewriteState Produce(ReadOnlyMemory<byte> produced, out ReadOnlyMemory<byte> bytes)
    {
        bytes = produced;
        Position += produced.Length;
        return RewriteState.Produced;
    }

    private int ReadChunk(int count)
    {
        int have = 0;
        while (have < count)
        {
            int read = _source.Read(Position + have, _chunk.AsSpan(have, count - have));
            if (read == 0)
                break;
            have += read;
        }
        return have;
    }
}
