// Taking requests apart, exactly as Redis does. A request that is too large is passed over as it comes, and answered with an error.
using System.Runtime.InteropServices;
using Slogger.Resp;

namespace Slogger.Faster.Commands;

/// <summary>Reads the requests of one connection, one after the other. Remembers what it has taken apart of one that has not come
/// whole.</summary>
internal sealed unsafe class RequestReader(Request request) : IDisposable
{
    /// <summary>The longest argument that Redis takes, in bytes.</summary>
    public const int BulkBytesMax = 512 << 20;

    private const long RequestBytesMax = 64 << 20;
    private long _partBytes;            // of a request that has not come whole: so many were taken apart, into so many arguments
    private int _partCount;
    private long _wanted;               // so many bytes there must be before it makes sense to look again
    private long _skippedArguments;     // of a request that is too large: still to come, besides the present one
    private long _skippedBytes;         // of the present one, its line end included
    private byte* _line;
    private int _lineBytes;

    /// <summary>How many arguments it has taken apart.</summary>
    public long ArgumentsRead { get; private set; }

    /// <summary>Whether a part of the next request has been read already.</summary>
    public bool IsInMiddle => _wanted > 0 || _partCount > 0 || _skippedBytes > 0 || _skippedArguments > 0;

    /// <summary>Why what was just read is not executed: the error that it is answered with; null: there is none.</summary>
    public string? Refusal { get; private set; }

    /// <summary>Whether what was just read is no request, so that nothing behind it can be read either.</summary>
    public bool IsMalformed { get; private set; }

    /// <summary>Reads the request at a place into the present one. None (its count is 0): it has no reply, or is answered with
    /// <see cref="Refusal"/>.</summary>
    /// <returns>Where it ends; null: it is not whole.</returns>
    public byte* Read(byte* p, byte* end)
    {
        request.Count = 0;
        Refusal = null;
        if (end - p < _wanted) return null;
        _wanted = 0;
        if (_skippedBytes > 0 || _skippedArguments > 0) return Skip(p, end);
        return *p == (byte)'*' ? ReadArray(p, end) : ReadLine(p, end);
    }

    /// <inheritdoc />
    public void Dispose()
    {
        NativeMemory.Free(_line);
        _line = null;
    }

    // What has been taken apart of a request stays so while the rest of it comes: a million arguments come in hundreds of pieces.
    private byte* ReadArray(byte* start, byte* end)
    {
        byte* p = start + 1;
        long arguments = CommandScanner.ReadLength(ref p, end);
        if (arguments is < 0 or > int.MaxValue)
        {
            if (arguments == CommandScanner.Incomplete) return null;
            return arguments is CommandScanner.Invalid or CommandScanner.TooLong or > 0 ? Malformed(start, end) : p;
        }

        int count = _partCount;
        if (count > 0) p = start + _partBytes;
        (_partCount, _partBytes) = (0, 0);
        byte* whole = p;
        for (; count < arguments; count++, whole = p)
        {
            if (p >= end) return Incomplete();
            if (*p != (byte)'$')
            {
                byte* line = p;
                return CommandScanner.ReadLength(ref line, end) == CommandScanner.Incomplete ? Incomplete() : Malformed(start, end);
            }

            p++;
            long length = CommandScanner.ReadLength(ref p, end);
            if (length is < 0 or > BulkBytesMax) return length == CommandScanner.Incomplete ? Incomplete() : Malformed(start, end);
            if (length > CommandEngine.ValueBytesMax || p - start + length > RequestBytesMax)
            {
                (_skippedArguments, _skippedBytes) = (arguments - count - 1, length + 2);
                return Skip(p, end);
            }

            if (end - p < length + 2)
            {
                _wanted = p - start + length + 2;
                return Incomplete();
            }

            // Where they are is known when they have all come: until then the bytes may be moved.
            ArgumentsRead++;
            request.Own(count + 1)[count] = new() { At = (byte*)(p - start), Length = (int)length };
            p += length + 2;
        }

        Argument[] own = request.Own(count);
        for (int i = 0; i < count; i++) own[i].At += (nint)start;
        request.Shrink(count);
        request.Count = count;
        return p;

        byte* Incomplete()
        {
            if (count > 0) (_partCount, _partBytes) = (count, whole - start);
            return null;
        }
    }

    // A line of words, for people.
    private byte* ReadLine(byte* start, byte* end)
    {
        long bytes = Math.Min(end - start, CommandScanner.MaxLineBytes + 1);
        int length = new ReadOnlySpan<byte>(start, (int)bytes).IndexOf((byte)'\n');
        if (length < 0) return bytes <= CommandScanner.MaxLineBytes ? null : Fail("ERR Protocol error: too big inline request", end);
        byte* next = start + length + 1;
        if (length > 0 && start[length - 1] == (byte)'\r') length--;
        if (InlineRequest.Split(new(start, length)) is not { } words) return Fail("ERR Protocol error: unbalanced quotes in request", end);
        int needed = words.Sum(w => w.Length);
        if (needed > _lineBytes)
        {
            _line = (byte*)NativeMemory.Realloc(_line, (nuint)needed);
            _lineBytes = needed;
        }

        byte* to = _line;
        Argument[] arguments = request.Own(words.Count);
        foreach (byte[] word in words)
        {
            word.CopyTo(new Span<byte>(to, word.Length));
            arguments[request.Count++] = new() { At = to, Length = word.Length };
            to += word.Length;
        }

        return next;
    }

    private byte* Skip(byte* start, byte* end)
    {
        byte* p = start;
        while (true)
        {
            long skipped = Math.Min(_skippedBytes, end - p);
            p += skipped;
            _skippedBytes -= skipped;
            if (_skippedBytes > 0) return p;
            if (_skippedArguments == 0) break;
            if (p == end) return p;
            byte* header = p + 1;
            long length = *p == (byte)'$' ? CommandScanner.ReadLength(ref header, end) : CommandScanner.ReadOtherLine(p, end);
            if (length == CommandScanner.Incomplete) return p == start ? null : p;
            if (length is < 0 or > BulkBytesMax) return Fail(CommandScanner.ClassifyLength(p, length), end);
            p = header;
            (_skippedArguments, _skippedBytes) = (_skippedArguments - 1, length + 2);
        }

        Refusal = $"ERR SLOGGER an argument has at most {CommandEngine.ValueBytesMax} bytes, and a request {RequestBytesMax}: "
            + "this one was not executed";
        return p;
    }

    private byte* Malformed(byte* start, byte* end) => Fail(CommandScanner.Classify(start, end), end);

    private byte* Fail(string error, byte* end)
    {
        _partCount = 0;
        (_skippedArguments, _skippedBytes) = (0, 0);
        (Refusal, IsMalformed) = (error, true);
        return end;
    }
}
