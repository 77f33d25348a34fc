// Finds the command boundaries of a replication stream, incrementally, over chunks split anywhere. It looks only at the
// heads (`*N`, `$len`) and skips bodies, so a value of 512 MB costs as much as one of 5 bytes and nothing is buffered but a
// split head and the arguments of the few commands that matter here: MULTI, EXEC, SELECT, PUBLISH, SPUBLISH, REPLCONF, PING.
// Who calls it: the replication link while reading, the feed while replaying, and whoever reopens a log that may end
// inside a command.
using System.Buffers.Text;
using System.Globalization;
using Slogger.Redis.Connections;

namespace Slogger.Redis.Replication;

/// <summary>What <see cref="StreamScanner.Next"/> found.</summary>
public enum StreamEvent
{
    /// <summary>The chunk is used up.</summary>
    None,
    /// <summary>A complete SPUBLISH.</summary>
    ShardPublish,
    /// <summary>A complete PUBLISH.</summary>
    Publish,
    /// <summary>A complete REPLCONF (GETACK, in a stream).</summary>
    ReplicationConfig,
    /// <summary>A complete PING: Redis's own heartbeat.</summary>
    Ping,
}

/// <summary>An incremental scanner of replication stream bytes. Not thread-safe.</summary>
public sealed class StreamScanner
{
    /// <summary>Bytes of arguments kept of a command that matters; a longer one is reported with <see cref="ArgumentsComplete"/>
    /// false.</summary>
    public const int CaptureBytesMax = 1024;

    private const int HeadBytesMax = 32;

    private enum Phase
    {
        CommandHead,
        ArgumentHead,
        Body,
    }

    private enum Kind
    {
        Unknown,    // the name has not been read yet
        Plain,      // nothing to look for
        Multi,
        Exec,
        Select,
        Publish,
        ShardPublish,
        ReplicationConfig,
        Ping,
    }

    private readonly byte[] _head = new byte[HeadBytesMax];
    private readonly byte[] _captured = new byte[CaptureBytesMax];
    private readonly int[] _argumentEnds = new int[3];
    private int _headLength;
    private int _capturedLength;
    private Phase _phase;
    private Kind _kind;
    private bool _capturing;
    private int _argumentCount;
    private int _argumentIndex;
    private long _bodyLeft; // including the closing CRLF
    private long _bodyLength;

    /// <summary>Starts at a command boundary.</summary>
    /// <param name="offset">Bytes of history before it.</param>
    /// <param name="database">The database selected there.</param>
    /// <param name="inTransaction">Whether a MULTI is open there.</param>
    public StreamScanner(long offset, int database, bool inTransaction = false)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(offset);
        Offset = CommandStart = offset;
        Database = database;
        InTransaction = inTransaction;
    }

    /// <summary>Bytes of history scanned.</summary>
    public long Offset { get; private set; }

    /// <summary>The last command boundary at or below <see cref="Offset"/>.</summary>
    public long CommandStart { get; private set; }

    /// <summary>Whether the bytes scanned end with a complete command.</summary>
    public bool AtCommandBoundary => CommandStart == Offset;

    /// <summary>The database selected at <see cref="CommandStart"/>.</summary>
    public int Database { get; private set; }

    /// <summary>Whether <see cref="CommandStart"/> lies between MULTI and EXEC.</summary>
    public bool InTransaction { get; private set; }

    /// <summary>Offset of the first byte of the command last reported.</summary>
    public long EventStart { get; private set; }

    /// <summary>Whether the arguments of the command last reported were kept whole.</summary>
    public bool ArgumentsComplete { get; private set; }

    /// <summary>Whether the command at <see cref="CommandStart"/>, so far incomplete, is known to be a PUBLISH or SPUBLISH.</summary>
    public bool IncompleteIsPublish => !AtCommandBoundary && _kind is Kind.Publish or Kind.ShardPublish;

    /// <summary>Whether the name of the incomplete command has not been read yet.</summary>
    public bool IncompleteIsUnknown => !AtCommandBoundary && _kind == Kind.Unknown;

    /// <summary>The argument of the command last reported, from 0 (the name) to 2; empty if it was not kept.</summary>
    public ReadOnlySpan<byte> Argument(int index)
    {
        if (!ArgumentsComplete || index >= _argumentIndex || index >= _argumentEnds.Length)
            return default;
        int start = index == 0 ? 0 : _argumentEnds[index - 1];
        return _captured.AsSpan(start, _argumentEnds[index] - start);
    }

    /// <summary>Scans on from <paramref name="position"/> of the chunk until something is found or the chunk ends; moves
    /// <paramref name="position"/> behind what was scanned. Chunks must follow one another without gaps.</summary>
    /// <exception cref="RedisException">The bytes are no replication stream (Protocol).</exception>
    public StreamEvent Next(ReadOnlySpan<byte> chunk, ref int position)
    {
        int begin = position;
        long origin = Offset;
        int at = position;
        StreamEvent found = StreamEvent.None;
        while (at < chunk.Length && found == StreamEvent.None)
        {
            switch (_phase)
            {
                case Phase.CommandHead:
                    if (_headLength == 0 && chunk[at] == '\n') // an empty line is no command, but it counts in the offset
                    {
                        at++;
                        CommandStart = origin + (at - begin);
                        continue;
                    }
                    if (_headLength == 0)
                    {
                        int plain = SkipPlain(chunk, at);
                        if (plain != at)
                        {
                            at = plain;
                            CommandStart = origin + (at - begin);
                            continue;
                        }
                    }
                    if (!ReadHead(chunk, ref at, (byte)'*', out long count))
                        break;
                    if (count is < 1 or > int.MaxValue)
                        throw Malformed(origin + (at - begin), "an array head without arguments");
                    BeginCommand((int)count);
                    break;
                case Phase.ArgumentHead:
                    if (!ReadHead(chunk, ref at, (byte)'$', out long length))
                        break;
                    if (length < 0)
                        throw Malformed(origin + (at - begin), "an argument of negative length");
                    BeginArgument(length);
                    break;
                default:
                    if (ReadBody(chunk, ref at) && _argumentIndex == _argumentCount)
                        found = EndCommand(origin + (at - begin));
                    break;
            }
        }
        Offset = origin + (at - begin);
        position = at;
        return found;
    }

    // Passes over whole commands that cannot matter; stops in front of any other, and of whatever is not a whole command:
    // that is looked at step by step.
    private static int SkipPlain(ReadOnlySpan<byte> chunk, int at)
    {
        while (true)
        {
            int next = at;
            int count = QuickHead(chunk, ref next, (byte)'*');
            if (count < 1)
                return at;
            for (int i = 0; i < count; i++)
            {
                int length = QuickHead(chunk, ref next, (byte)'$');
                if (length < 0 || (i == 0 && count <= 3 && CanMatter(count, length)) || chunk.Length - next < length + 2)
                    return at;
                next += length + 2;
            }
            at = next;
        }
    }

    // A head of at most seven digits, whole within the chunk; else -1.
    private static int QuickHead(ReadOnlySpan<byte> chunk, ref int at, byte prefix)
    {
        int i = at;
        if (i + 11 > chunk.Length || chunk[i++] != prefix)
            return -1;
        int value = 0;
        uint digit;
        while ((digit = (uint)(chunk[i] - '0')) <= 9)
        {
            value = (value * 10) + (int)digit;
            if (++i - at > 8)
                return -1;
        }
        if (i == at + 1 || chunk[i] != '\r' || chunk[i + 1] != '\n')
            return -1;
        at = i + 2;
        return value;
    }

    private void BeginCommand(int count)
    {
        _argumentCount = count;
        _argumentIndex = 0;
        _capturedLength = 0;
        _kind = Kind.Unknown;
        _capturing = count <= 3;
        if (!_capturing)
            _kind = Kind.Plain;
        _phase = Phase.ArgumentHead;
    }

    private void BeginArgument(long length)
    {
        _bodyLength = length;
        _bodyLeft = length + 2;
        _phase = Phase.Body;
        if (_argumentIndex == 0 && _capturing && !CanMatter(_argumentCount, length))
        {
            _capturing = false;
            _kind = Kind.Plain;
        }
        else if (_capturing && length > CaptureBytesMax - _capturedLength)
        {
            _capturing = false; // known by name, but too long to be a marker
        }
    }

    private bool ReadBody(ReadOnlySpan<byte> chunk, ref int at)
    {
        int take = (int)Math.Min(_bodyLeft, chunk.Length - at);
        if (_capturing && _bodyLeft > 2)
        {
            int body = (int)Math.Min(take, _bodyLeft - 2);
            chunk.Slice(at, body).CopyTo(_captured.AsSpan(_capturedLength));
            _capturedLength += body;
        }
        at += take;
        _bodyLeft -= take;
        if (_bodyLeft > 0)
            return false;
        if (_capturing)
        {
            _argumentEnds[_argumentIndex] = _capturedLength;
            if (_argumentIndex == 0)
            {
                _kind = Recognise(_argumentCount, _captured.AsSpan(0, _capturedLength));
                _capturing = _kind != Kind.Plain;
            }
        }
        _argumentIndex++;
        _phase = Phase.ArgumentHead;
        return true;
    }

    private StreamEvent EndCommand(long end)
    {
        EventStart = CommandStart;
        CommandStart = end;
        _phase = Phase.CommandHead;
        Kind kind = _kind;
        _kind = Kind.Unknown;
        if (kind == Kind.Plain)
            return StreamEvent.None;
        ArgumentsComplete = _capturing;
        switch (kind)
        {
            case Kind.Multi:
                InTransaction = true;
                return StreamEvent.None;
            case Kind.Exec:
                InTransaction = false;
                return StreamEvent.None;
            case Kind.Select:
                if (!Utf8Parser.TryParse(Argument(1), out int database, out int used) || used != Argument(1).Length || database < 0)
                    throw Malformed(end, "a SELECT without a database number");
                Database = database;
                return StreamEvent.None;
            case Kind.Publish: return StreamEvent.Publish;
            case Kind.ShardPublish: return StreamEvent.ShardPublish;
            case Kind.ReplicationConfig: return StreamEvent.ReplicationConfig;
            case Kind.Ping: return StreamEvent.Ping;
            default: return StreamEvent.None;
        }
    }

    // By number of arguments and length of the name alone: most commands are dismissed here, before their name is read.
    private static bool CanMatter(int arguments, long nameLength) => (arguments, nameLength) switch
    {
        (1, 4) or (1, 5) => true,            // EXEC, PING, MULTI
        (2, 6) => true,                      // SELECT
        (3, 7) or (3, 8) => true,            // PUBLISH, SPUBLISH, REPLCONF
        _ => false,
    };

    private static Kind Recognise(int arguments, ReadOnlySpan<byte> name)
    {
        switch (arguments, name.Length)
        {
            case (1, 4): return Is(name, "EXEC"u8) ? Kind.Exec : Is(name, "PING"u8) ? Kind.Ping : Kind.Plain;
            case (1, 5): return Is(name, "MULTI"u8) ? Kind.Multi : Kind.Plain;
            case (2, 6): return Is(name, "SELECT"u8) ? Kind.Select : Kind.Plain;
            case (3, 7): return Is(name, "PUBLISH"u8) ? Kind.Publish : Kind.Plain;
            case (3, 8): return Is(name, "SPUBLISH"u8) ? Kind.ShardPublish : Is(name, "REPLCONF"u8) ? Kind.ReplicationConfig : Kind.Plain;
            default: return Kind.Plain;
        }
    }

    private static bool Is(ReadOnlySpan<byte> name, ReadOnlySpan<byte> upper) => System.Text.Ascii.EqualsIgnoreCase(name, upper);

    // `<prefix>digits\r\n`. The fast path parses in place; a head split between chunks is gathered in _head.
    private bool ReadHead(ReadOnlySpan<byte> chunk, ref int at, byte prefix, out long value)
    {
        value = 0;
        if (_headLength == 0)
        {
            if (chunk[at] != prefix)
                throw Malformed(Offset, $"byte {chunk[at]} where '{(char)prefix}' belongs");
            int i = at + 1;
            while (i < chunk.Length)
            {
                uint digit = (uint)(chunk[i] - '0');
                if (digit > 9)
                    break;
                value = value * 10 + digit;
                if (++i - at > HeadBytesMax - 4)
                    throw Malformed(Offset, "a number too long");
            }
            if (i + 1 < chunk.Length)
            {
                if (chunk[i] != '\r' || chunk[i + 1] != '\n' || i == at + 1)
                    throw Malformed(Offset, "a head that is no number");
                at = i + 2;
                return true;
            }
        }
        while (at < chunk.Length)
        {
            if (_headLength == HeadBytesMax)
                throw Malformed(Offset, "a head too long");
            byte b = chunk[at++];
            _head[_headLength++] = b;
            if (b != '\n')
                continue;
            ReadOnlySpan<byte> line = _head.AsSpan(0, _headLength);
            if (line.Length < 4 || line[0] != prefix || line[^2] != '\r'
                || !Utf8Parser.TryParse(line[1..^2], out value, out int used) || used != line.Length - 3)
                throw Malformed(Offset, "a head that is no number");
            _headLength = 0;
            return true;
        }
        return false;
    }

    private static RedisException Malformed(long near, string what) => new(RedisProblem.Protocol, string.Create(
        CultureInfo.InvariantCulture, $"The replication stream is not understood near offset {near}: {what}."));
}
