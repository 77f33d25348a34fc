// Taking requests apart, exactly as Redis does. A request that is too large is passed over as it comes, and answered with an error.
using System.Runtime.InteropServices;
using Slogger.Resp;

namespace Slogger.Faster.Commands;

public sealed unsafe partial class CommandConnection
{
    private const int BulkBytesMax = 512 << 20;
    private const long RequestBytesMax = 64 << 20;
    private const int ArgumentsKept = 1024;
    private long _partBytes;            // of a request that has not come whole: so many were taken apart, into so many arguments
    private int _partCount;
    private long _wanted;               // so many bytes there must be before it makes sense to look again
    private long _skippedArguments;     // of a request that is too large: still to come, besides the present one
    private long _skippedBytes;         // of the present one, its line end included
    private byte* _line;
    private int _lineBytes;

    /// <summary>Arguments that were taken apart, those of usual requests aside.</summary>
    internal long ArgumentsRead { get; private set; }

    // Reads the request at a place into the arguments; none: it has no reply, or has been answered. Returns where it ends; null: it is not whole.
    private byte* Read(byte* p, byte* end)
    {
        _count = 0;
        if (end - p < _wanted) return null;
        _wanted = 0;
        if (_skippedBytes > 0 || _skippedArguments > 0) return Skip(p, end);
        return *p == (byte)'*' ? ReadArray(p, end) : ReadLine(p, end);
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
            Own(count + 1)[count] = new() { At = (byte*)(p - start), Length = (int)length };
            p += length + 2;
        }

        for (int i = 0; i < count; i++) _own[i].At += (nint)start;
        if (_own.Length > ArgumentsKept && count <= ArgumentsKept) _arguments = _own = _own[..ArgumentsKept];
        _count = count;
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
        Argument[] arguments = Own(words.Count);
        foreach (byte[] word in words)
        {
            word.CopyTo(new Span<byte>(to, word.Length));
            arguments[_count++] = new() { At = to, Length = word.Length };
            to += word.Length;
        }

        return next;
    }

    private byte* Skip(byte* p, byte* end)
    {
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
            if (length == CommandScanner.Incomplete) return p;
            if (length is < 0 or > BulkBytesMax) return Fail(CommandScanner.ClassifyLength(p, length), end);
            p = header;
            (_skippedArguments, _skippedBytes) = (_skippedArguments - 1, length + 2);
        }

        Reject($"ERR SLOGGER an argument has at most {CommandEngine.ValueBytesMax} bytes, and a request {RequestBytesMax}: this one was not executed");
        return p;
    }

    private byte* Malformed(byte* start, byte* end) => Fail(CommandScanner.Classify(start, end), end);

    private byte* Fail(string error, byte* end)
    {
        _partCount = 0;
        (_skippedArguments, _skippedBytes) = (0, 0);
        Error(error);
        WantsClose = true;
        return end;
    }
}
