// The simplest client: blocking, bytes in and bytes out. A reply is its own text as Redis sent it, so that replies of the
// proxy and of raw Redis can be compared byte by byte.
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Text;

namespace Slogger.Proxy.Tests.Harness;

internal sealed class RespConnection : IDisposable
{
    /// <summary>Ends a test that hangs; decides nothing.</summary>
    public const int PatienceMilliseconds = 30_000;

    private readonly Stream _stream;
    private byte[] _buffer = new byte[4096];
    private int _start, _end;

    private RespConnection(Socket socket, Stream? stream = null)
    {
        Socket = socket;
        socket.ReceiveTimeout = socket.SendTimeout = PatienceMilliseconds;
        if (socket.ProtocolType == ProtocolType.Tcp) { socket.NoDelay = true; }
        _stream = stream ?? new NetworkStream(socket, ownsSocket: true);
    }

    public Socket Socket { get; }

    public static RespConnection To(int port) => To(new IPEndPoint(IPAddress.Loopback, port));

    public static RespConnection To(EndPoint place) => new(Connected(place));

    /// <summary>Connects and speaks TLS.</summary>
    public static RespConnection Tls(int port, SslClientAuthenticationOptions options)
    {
        Socket socket = Connected(new IPEndPoint(IPAddress.Loopback, port));
        var stream = new SslStream(new NetworkStream(socket, ownsSocket: true));
        stream.AuthenticateAsClient(options);
        return new RespConnection(socket, stream);
    }

    /// <summary>The certificate that the other side has shown; null: none.</summary>
    public System.Security.Cryptography.X509Certificates.X509Certificate? Shown => (_stream as SslStream)?.RemoteCertificate;

    private static Socket Connected(EndPoint place)
    {
        var socket = place is UnixDomainSocketEndPoint
            ? new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified)
            : new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        socket.Connect(place);
        return socket;
    }

    public static byte[] Request(params string[] arguments) =>
        Encoding.Latin1.GetBytes($"*{arguments.Length}\r\n" + string.Concat(arguments.Select(a => $"${a.Length}\r\n{a}\r\n")));

    public void SendRaw(ReadOnlySpan<byte> bytes) => _stream.Write(bytes);

    public void SendRaw(string text) => _stream.Write(Encoding.Latin1.GetBytes(text));

    public void Send(params string[] arguments) => _stream.Write(Request(arguments));

    public string Call(params string[] arguments)
    {
        Send(arguments);
        return Read();
    }

    /// <summary>The next reply as it came.</summary>
    /// <exception cref="EndOfStreamException">The connection ended.</exception>
    public string Read()
    {
        var text = new StringBuilder();
        for (long frames = 1; frames > 0; frames--)
        {
            string line = Line();
            text.Append(line).Append("\r\n");
            long count = "$=!*~>%|".Contains(line[0]) ? long.Parse(line.AsSpan(1), System.Globalization.CultureInfo.InvariantCulture) : 0;
            if ("$=!".Contains(line[0]))
            {
                if (count >= 0) { Take((int)count + 2, text); }
            }
            else if (count > 0)
            {
                frames += line[0] is '%' or '|' ? count * 2 : count;
                if (line[0] == '|') { frames++; }
            }
        }
        return text.ToString();
    }

    /// <summary>Reads the reply's first line, and drops the bulk string behind it: for large ones.</summary>
    public long ReadBulkLength(Action<byte[], int>? look = null)
    {
        long length = long.Parse(Line().AsSpan(1), System.Globalization.CultureInfo.InvariantCulture);
        long left = length + 2;
        if (_end - _start > 0)
        {
            int here = (int)Math.Min(left, _end - _start);
            look?.Invoke(_buffer[_start..(_start + here)], (int)Math.Min(here, left - 2));
            _start += here;
            left -= here;
        }
        byte[] piece = new byte[1 << 20];
        while (left > 0)
        {
            int got = _stream.Read(piece, 0, (int)Math.Min(left, piece.Length));
            if (got == 0) { throw new EndOfStreamException(); }
            look?.Invoke(piece, (int)Math.Max(0, Math.Min(got, left - 2)));
            left -= got;
        }
        return length;
    }

    /// <summary>So many bytes, of whatever they are.</summary>
    /// <exception cref="IOException">They have not all come in time.</exception>
    public string ReadBytes(int count)
    {
        var text = new StringBuilder(count);
        Take(count, text);
        return text.ToString();
    }

    /// <summary>What has come up to this text, which ends a reply.</summary>
    public string ReadUntil(string last)
    {
        byte[] bytes = Encoding.Latin1.GetBytes(last);
        int at;
        while ((at = _buffer.AsSpan(_start, _end - _start).IndexOf(bytes)) < 0)
        {
            if (!Fill()) { throw new EndOfStreamException(); }
        }
        return ReadBytes(at + last.Length);
    }

    /// <summary>Segments with data that have come, as TCP counts them: a write of a few bytes without delay is one.</summary>
    public long SegmentsReceived
    {
        get
        {
            // Of Linux: struct tcp_info.
            const int Tcp = 6, TcpInfo = 11, DataSegmentsIn = 152;
            Span<byte> info = stackalloc byte[DataSegmentsIn + sizeof(uint)];
            int length = Socket.GetRawSocketOption(Tcp, TcpInfo, info);
            return length == info.Length ? BitConverter.ToUInt32(info[DataSegmentsIn..])
                : throw new InvalidOperationException($"tcp_info has {length} bytes");
        }
    }

    /// <summary>What has come and was not read.</summary>
    public string Unread => Encoding.Latin1.GetString(_buffer, _start, _end - _start);

    public void EndSending() => Socket.Shutdown(SocketShutdown.Send);

    /// <summary>Everything up to the end of the stream, which must come.</summary>
    public string ReadToEnd()
    {
        try
        {
            while (Fill()) { }
        }
        catch (IOException e) when (e.InnerException is SocketException { SocketErrorCode: SocketError.ConnectionReset })
        {
            // As good as an end.
        }
        string text = Encoding.Latin1.GetString(_buffer, _start, _end - _start);
        _start = _end;
        return text;
    }

    public void Dispose() => _stream.Dispose();

    private string Line()
    {
        int at = _start;
        while (true)
        {
            int newline = _buffer.AsSpan(at, _end - at).IndexOf((byte)'\n');
            if (newline >= 0)
            {
                string line = Encoding.Latin1.GetString(_buffer, _start, at + newline - 1 - _start);
                _start = at + newline + 1;
                return line;
            }
            int offset = _end - _start;
            if (!Fill()) { throw new EndOfStreamException(); }
            at = _start + offset;
        }
    }

    private void Take(int count, StringBuilder text)
    {
        while (_end - _start < count)
        {
            if (!Fill()) { throw new EndOfStreamException(); }
        }
        text.Append(Encoding.Latin1.GetString(_buffer, _start, count));
        _start += count;
    }

    private bool Fill()
    {
        if (_start > 0)
        {
            _buffer.AsSpan(_start, _end - _start).CopyTo(_buffer);
            _end -= _start;
            _start = 0;
        }
        if (_end == _buffer.Length) { Array.Resize(ref _buffer, _buffer.Length * 2); }
        int got = _stream.Read(_buffer, _end, _buffer.Length - _end);
        _end += got;
        return got > 0;
    }
}
