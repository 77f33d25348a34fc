// One command of the replication stream, as places in the bytes that hold it. Made once and filled again for each command: reading
// a tail of a million commands allocates nothing.
using Slogger.Redis.Connections;

namespace Slogger.Redis.Rollback;

/// <summary>A command of a replication stream. Not thread-safe.</summary>
public sealed class Effect
{
    private const int HeadDigitsMax = 18;
    private byte[] _bytes = [];
    private (int Offset, int Length)[] _arguments = new (int, int)[8];

    /// <summary>How many arguments it has, its name included.</summary>
    public int Count { get; private set; }

    /// <summary>Where it begins, behind empty lines.</summary>
    public int Start { get; private set; }

    /// <summary>Where the next one begins.</summary>
    public int End { get; private set; }

    /// <summary>An argument; 0 is the name.</summary>
    public ReadOnlySpan<byte> this[int index]
    {
        get
        {
            ArgumentOutOfRangeException.ThrowIfGreaterThanOrEqual(index, Count);
            (int offset, int length) = _arguments[index];
            return _bytes.AsSpan(offset, length);
        }
    }

    /// <summary>Where an argument is in the bytes.</summary>
    public (int Offset, int Length) PlaceOf(int index)
    {
        ArgumentOutOfRangeException.ThrowIfGreaterThanOrEqual(index, Count);
        return _arguments[index];
    }

    /// <summary>The whole command.</summary>
    public ReadOnlySpan<byte> Bytes => _bytes.AsSpan(Start, End - Start);

    /// <summary>Whether an argument is this word, in whatever case.</summary>
    public bool Is(int index, ReadOnlySpan<byte> upper) => System.Text.Ascii.EqualsIgnoreCase(this[index], upper);

    /// <summary>Reads the command that begins at a place.</summary>
    /// <param name="bytes">The stream's bytes; kept until the next call.</param>
    /// <param name="start">A command boundary.</param>
    /// <param name="end">How far the bytes are filled.</param>
    /// <returns>False if its end has not come yet.</returns>
    /// <exception cref="RedisException">The bytes are no replication stream (Protocol).</exception>
    public bool TryRead(byte[] bytes, int start, int end)
    {
        _bytes = bytes;
        while (start < end && bytes[start] == '\n') { start++; }
        Start = start;
        int at = start;
        if (!TryHead(bytes, ref at, end, (byte)'*', out long count)) { return false; }
        if (count is < 1 or > int.MaxValue) { throw Malformed(start); }
        Count = 0;
        for (long i = 0; i < count; i++)
        {
            if (!TryHead(bytes, ref at, end, (byte)'$', out long length) || length > end - at - 2) { return false; }
            if (Count == _arguments.Length) { Array.Resize(ref _arguments, 2 * _arguments.Length); }
            _arguments[Count++] = (at, (int)length);
            at += (int)length + 2;
        }
        End = at;
        return true;
    }

    private static bool TryHead(byte[] bytes, ref int at, int end, byte prefix, out long value)
    {
        value = 0;
        int i = at;
        if (i >= end) { return false; }
        if (bytes[i++] != prefix) { throw Malformed(at); }
        uint digit;
        while (i < end && (digit = (uint)(bytes[i] - '0')) <= 9)
        {
            value = (value * 10) + digit;
            if (++i - at > HeadDigitsMax) { throw Malformed(at); }
        }
        if (i + 1 >= end) { return false; }
        if (bytes[i] != '\r' || bytes[i + 1] != '\n' || i == at + 1) { throw Malformed(at); }
        at = i + 2;
        return true;
    }

    private static RedisException Malformed(int at) =>
        new(RedisProblem.Protocol, string.Create(System.Globalization.CultureInfo.InvariantCulture, $"The replication stream is not "
            + $"understood at byte {at} of a piece of it."));
}
