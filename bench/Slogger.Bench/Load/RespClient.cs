// A small synchronous RESP2 client for the bench's own questions (INFO, CONFIG, ACL, DBSIZE): never for load.
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Slogger.Bench.Load;

internal sealed class RespClient : IDisposable
{
    private readonly Socket _socket;
    private readonly Stream _stream;

    /// <exception cref="SocketException">Nobody listens.</exception>
    public RespClient(int port, TimeSpan timeout)
    {
        _socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp)
        {
            NoDelay = true,
            ReceiveTimeout = (int)timeout.TotalMilliseconds,
            SendTimeout = (int)timeout.TotalMilliseconds,
        };
        try
        {
            _socket.Connect(IPAddress.Loopback, port);
        }
        catch (SocketException)
        {
            _socket.Dispose();
            throw;
        }

        _stream = new BufferedStream(new NetworkStream(_socket), 1 << 16);
    }

    /// <summary>Sends bytes as they are and returns the first line of the answer.</summary>
    public string Raw(string request)
    {
        _stream.Write(Encoding.ASCII.GetBytes(request));
        _stream.Flush();
        return ReadLine();
    }

    /// <summary>A command whose reply is only looked at for an error.</summary>
    public void Expect(params string[] words) => Call(words);

    /// <summary>A string reply.</summary>
    public string Text(params string[] words) => Call(words) as string ?? "";

    /// <summary>The process of the Redis that answers.</summary>
    public int ServerProcess() => int.Parse(Text("INFO", "server").Split("\r\n")
        .First(l => l.StartsWith("process_id:", StringComparison.Ordinal))["process_id:".Length..], CultureInfo.InvariantCulture);

    /// <summary>An integer reply.</summary>
    public long Integer(params string[] words) =>
        Call(words) is long value ? value : throw new BenchException($"{words[0]}: an integer was expected");

    /// <summary>An array of strings.</summary>
    public IReadOnlyList<string> Strings(params string[] words) => Call(words) is object?[] items
        ? [.. items.Select(x => x?.ToString() ?? "")] : throw new BenchException($"{words[0]}: an array was expected");

    /// <summary>One command, one reply: string, long, object?[] or null.</summary>
    /// <exception cref="BenchException">The reply is an error.</exception>
    public object? Call(params string[] words)
    {
        var request = new StringBuilder().Append('*').Append(words.Length).Append("\r\n");
        foreach (string word in words)
        {
            request.Append('$').Append(Encoding.UTF8.GetByteCount(word)).Append("\r\n").Append(word).Append("\r\n");
        }

        _stream.Write(Encoding.UTF8.GetBytes(request.ToString()));
        _stream.Flush();
        return ReadReply(words[0]);
    }

    public void Dispose()
    {
        _stream.Dispose();
        _socket.Dispose();
    }

    private object? ReadReply(string command)
    {
        string line = ReadLine();
        switch (line[0])
        {
            case '+':
                return line[1..];
            case '-':
                throw new BenchException($"{command}: {line[1..]}");
            case ':':
                return long.Parse(line[1..]);
            case '$':
            {
                int length = int.Parse(line[1..]);
                if (length < 0)
                {
                    return null;
                }

                byte[] bytes = new byte[length + 2];
                _stream.ReadExactly(bytes);
                return Encoding.UTF8.GetString(bytes, 0, length);
            }

            case '*':
            {
                int count = int.Parse(line[1..]);
                object?[] items = new object?[Math.Max(count, 0)];
                for (int i = 0; i < items.Length; i++)
                {
                    items[i] = ReadReply(command);
                }

                return items;
            }

            default:
                throw new BenchException($"{command}: not a RESP2 reply: {line}");
        }
    }

    private string ReadLine()
    {
        var line = new StringBuilder();
        while (true)
        {
            int b = _stream.ReadByte();
            if (b < 0)
            {
                throw new IOException("the server closed the connection");
            }

            if (b == '\n')
            {
                return line.ToString();
            }

            if (b != '\r')
            {
                line.Append((char)b);
            }
        }
    }
}
