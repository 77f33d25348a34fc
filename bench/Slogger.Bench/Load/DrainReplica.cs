// `drain PORT SLEEP_US`: a replica that wants no data, reads the stream and throws it away, and acknowledges each
// second. What it costs Redis is what any consumer of the stream costs at least. Runs as a child process until killed.
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Slogger.Bench.Load;

internal static class DrainReplica
{
    private const int BufferBytes = 1 << 20;

    public static int Run(int port, int sleepUs)
    {
        using var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        socket.Connect(IPAddress.Loopback, port);
        byte[] buffer = new byte[BufferBytes];
        foreach (string line in (string[])["PING", "REPLCONF listening-port 1", "REPLCONF capa eof capa psync2", "REPLCONF "
            + "rdb-filter-only \"\""])
        {
            socket.Send(Encoding.ASCII.GetBytes(line + "\r\n"));
            string reply = ReadLine(socket);
            if (reply.StartsWith('-'))
            {
                Console.Error.WriteLine($"{line}: {reply}");
                return 1;
            }
        }

        socket.Send("PSYNC ? -1\r\n"u8);
        string[] sync = ReadLine(socket).Split(' ');
        if (sync[0] != "+FULLRESYNC")
        {
            Console.Error.WriteLine(string.Join(' ', sync));
            return 1;
        }

        long offset = long.Parse(sync[2], CultureInfo.InvariantCulture);
        SkipSnapshot(socket);

        // Redis listens to acknowledgements only once it holds the replica for online: repeat them quickly at first.
        using var timer = new Timer(_ => Acknowledge(socket, Volatile.Read(ref offset)), null, 0, 10);
        long start = Stopwatch.GetTimestamp();
        bool settled = false;
        while (true)
        {
            int n = socket.Receive(buffer);
            if (n == 0)
            {
                return 0;
            }

            Volatile.Write(ref offset, offset + n);
            if (!settled && Stopwatch.GetElapsedTime(start).TotalSeconds > 1)
            {
                settled = true;
                timer.Change(1000, 1000);
            }

            if (sleepUs > 0)
            {
                Thread.Sleep(TimeSpan.FromMicroseconds(sleepUs));
            }
        }
    }

    private static void Acknowledge(Socket socket, long offset)
    {
        string number = offset.ToString(CultureInfo.InvariantCulture);
        try
        {
            socket.Send(Encoding.ASCII.GetBytes($"*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n${number.Length}\r\n{number}\r\n"));
        }
        catch (SocketException)
        {
            // Redis is gone; the reader sees it too and ends the process.
        }
    }

    private static void SkipSnapshot(Socket socket)
    {
        string header = ReadLine(socket);
        if (!header.StartsWith("$EOF:", StringComparison.Ordinal))
        {
            SkipBytes(socket, long.Parse(header[1..], CultureInfo.InvariantCulture));
            return;
        }

        // An RDB without data is 172 bytes: one byte at a time up to the mark costs nothing.
        byte[] mark = Encoding.ASCII.GetBytes(header["$EOF:".Length..]);
        byte[] one = new byte[1];
        var last = new Queue<byte>(mark.Length);
        while (!last.SequenceEqual(mark))
        {
            if (socket.Receive(one) == 0)
            {
                throw new BenchException("Redis closed the replica link during the snapshot");
            }

            last.Enqueue(one[0]);
            if (last.Count > mark.Length)
            {
                last.Dequeue();
            }
        }
    }

    private static void SkipBytes(Socket socket, long count)
    {
        byte[] buffer = new byte[65536];
        while (count > 0)
        {
            int n = socket.Receive(buffer, (int)Math.Min(count, buffer.Length), SocketFlags.None);
            count = n == 0 ? throw new BenchException("Redis closed the replica link during the snapshot") : count - n;
        }
    }

    // Byte by byte, so that nothing behind the line is taken; bare newlines keep the link alive while Redis forks.
    private static string ReadLine(Socket socket)
    {
        var line = new StringBuilder();
        byte[] one = new byte[1];
        while (true)
        {
            if (socket.Receive(one) == 0)
            {
                throw new BenchException("Redis closed the replica link");
            }

            if (one[0] == '\n')
            {
                if (line.Length > 0)
                {
                    return line.ToString();
                }
            }
            else if (one[0] != '\r')
            {
                line.Append((char)one[0]);
            }
        }
    }
}
