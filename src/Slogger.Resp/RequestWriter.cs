// Writes requests in RESP, and remembers where the arguments of the last one are: the keys among them decide its shard.
using System.Buffers;
using System.Buffers.Text;
using System.Text;

namespace Slogger.Resp;

/// <summary>A growing buffer of requests. One caller at a time.</summary>
/// <param name="keptMax">The largest buffer that it keeps when it is emptied.</param>
internal sealed class RequestWriter(int keptMax = 256 << 10)
{
    private byte[] _bytes = new byte[1024];
    private (int Offset, int Length)[] _arguments = new (int, int)[8];
    private int _count;

    public int Length { get; private set; }

    public ReadOnlySpan<byte> Written => _bytes.AsSpan(0, Length);

    public ReadOnlyMemory<byte> WrittenMemory => _bytes.AsMemory(0, Length);

    /// <summary>The arguments of the last request, in <see cref="Written"/>.</summary>
    public ReadOnlySpan<(int Offset, int Length)> Arguments => _arguments.AsSpan(0, _count);

    public ReadOnlySpan<byte> Argument(int index) => _bytes.AsSpan(_arguments[index].Offset, _arguments[index].Length);

    /// <summary>Empties it. A buffer that one large request made is not kept.</summary>
    public void Clear()
    {
        Length = _count = 0;
        if (_bytes.Length > keptMax) { _bytes = new byte[1024]; }
    }

    /// <summary>Begins a request of so many arguments, the command's name included.</summary>
    public RequestWriter Begin(int arguments)
    {
        _count = 0;
        if (arguments > _arguments.Length) { _arguments = new (int, int)[arguments]; }
        Header((byte)'*', arguments);
        return this;
    }

    public RequestWriter Add(ReadOnlySpan<byte> bytes)
    {
        Header((byte)'$', bytes.Length);
        Span<byte> to = Reserve(bytes.Length + 2);
        bytes.CopyTo(to);
        End(to, bytes.Length);
        return this;
    }

    public RequestWriter Add(string text)
    {
        int length = Encoding.UTF8.GetByteCount(text);
        Header((byte)'$', length);
        Span<byte> to = Reserve(length + 2);
        Encoding.UTF8.GetBytes(text, to);
        End(to, length);
        return this;
    }

    public RequestWriter Add(long number)
    {
        Span<byte> digits = stackalloc byte[20];
        Utf8Formatter.TryFormat(number, digits, out int length);
        return Add(digits[..length]);
    }

    /// <summary>Bytes that are whole requests already.</summary>
    public void AddRaw(ReadOnlySpan<byte> requests)
    {
        requests.CopyTo(Reserve(requests.Length));
        Length += requests.Length;
    }

    private void End(Span<byte> to, int length)
    {
        to[length] = (byte)'\r';
        to[length + 1] = (byte)'\n';
        _arguments[_count++] = (Length, length);
        Length += length + 2;
    }

    private void Header(byte kind, int number)
    {
        Span<byte> to = Reserve(16);
        to[0] = kind;
        int length;
        if ((uint)number < 10)
        {
            to[1] = (byte)('0' + number);
            length = 1;
        }
        else
        {
            Utf8Formatter.TryFormat(number, to[1..], out length);
        }

        to[length + 1] = (byte)'\r';
        to[length + 2] = (byte)'\n';
        Length += length + 3;
    }

    private Span<byte> Reserve(int bytes)
    {
        if (_bytes.Length - Length < bytes) { Array.Resize(ref _bytes, Math.Max(_bytes.Length * 2, Length + bytes)); }
        return _bytes.AsSpan(Length);
    }
}
