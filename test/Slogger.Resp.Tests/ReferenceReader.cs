// A slow reader of requests, written after Redis 7.0's processMultibulkBuffer line by line: one step at a time over a
// buffer that grows, the state kept where Redis keeps it. What the scanner says is compared with what this does.
namespace Slogger.Resp.Tests;

/// <summary>Reads requests as Redis does.</summary>
internal sealed class ReferenceReader
{
    private const int LineLimit = 64 * 1024;
    private readonly List<byte> _buffer = [];
    private int _at;
    private long _arguments;
    private long _bulk = -1;
    private List<byte[]> _current = [];

    /// <summary>Whole requests, each as its arguments.</summary>
    public List<byte[][]> Requests { get; } = [];

    /// <summary>The error that closes the connection.</summary>
    public string? Error { get; private set; }

    /// <summary>The first byte of what is not a multi bulk request.</summary>
    public bool IsInline { get; private set; }

    /// <summary>Whether no request is begun.</summary>
    public bool IsBetween => _arguments == 0 && _at == _buffer.Count;

    public static ReferenceReader Read(ReadOnlySpan<byte> bytes)
    {
        var reader = new ReferenceReader();
        reader.Feed(bytes);
        return reader;
    }

    public void Feed(ReadOnlySpan<byte> bytes)
    {
        _buffer.AddRange(bytes);
        while (Error is null && !IsInline && Step()) { }
    }

    private bool Step()
    {
        if (_arguments == 0)
        {
            if (_at >= _buffer.Count) { return false; }
            if (_buffer[_at] != (byte)'*')
            {
                IsInline = true;
                return false;
            }
            if (!Line("too big mbulk count string", out string line)) { return false; }
            if (!Number(line[1..], out long count) || count > int.MaxValue) { return Fail("invalid multibulk length"); }
            if (count <= 0) { return true; }
            _arguments = count;
            _current = [];
            return true;
        }
        if (_bulk < 0)
        {
            if (!Line("too big bulk count string", out string line)) { return false; }
            if (line.Length == 0 || line[0] != '$') { return Fail($"expected '$', got '{Printed(line.Length == 0 ? '\r' : line[0])}"); }
            if (!Number(line[1..], out long length) || length < 0) { return Fail("invalid bulk length"); }
            _bulk = length;
        }
        if (_buffer.Count - _at - 2 < _bulk) { return false; }
        _current.Add([.. _buffer.GetRange(_at, (int)_bulk)]);
        _at += (int)_bulk + 2;
        _bulk = -1;
        if (--_arguments == 0) { Requests.Add([.. _current]); }
        return true;
    }

    private static string Printed(char c) => c switch { '\0' => "", '\r' or '\n' => " '", _ => c + "'" };

    private bool Fail(string why)
    {
        Error = "ERR Protocol error: " + why;
        return false;
    }

    private bool Line(string tooBig, out string line)
    {
        line = "";
        int cr = _at;
        while (cr < _buffer.Count && _buffer[cr] != (byte)'\r' && _buffer[cr] != 0 && cr - _at <= LineLimit) { cr++; }
        if (cr >= _buffer.Count || _buffer[cr] != (byte)'\r')
        {
            if (_buffer.Count - _at > LineLimit) { Fail(tooBig); }
            return false;
        }
        if (cr + 2 > _buffer.Count) { return false; }
        line = Bytes.Text(_buffer.GetRange(_at, cr - _at).ToArray());
        _at = cr + 2;
        return true;
    }

    // string2ll: what prints back to the same text is a number.
    private static bool Number(string text, out long value) =>
        long.TryParse(text, System.Globalization.CultureInfo.InvariantCulture, out value)
        && value.ToString(System.Globalization.CultureInfo.InvariantCulture) == text;
}
