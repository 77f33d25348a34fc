// Writes at a steady pace: some SETs together, each few milliseconds.
using System.Diagnostics;
using System.Globalization;
using System.Net.Sockets;
using System.Text;
using Slogger.Bench.Suites;

namespace Slogger.Bench.Past;

internal static class PacedSets
{
    private const int PeriodMs = 5;

    /// <summary>Writes for a while; returns how many.</summary>
    /// <param name="port">Of the server.</param>
    /// <param name="keys">Over how many keys, by chance.</param>
    /// <param name="valueBytes">How large a value is.</param>
    /// <param name="rate">How many a second.</param>
    /// <param name="seconds">How long.</param>
    /// <exception cref="BenchException">One was refused.</exception>
    public static long Run(int port, int keys, int valueBytes, int rate, double seconds)
    {
        using Socket socket = RollbackSuite.Connect(port);
        var random = new Random(1);
        int together = rate * PeriodMs / 1000;
        byte[] answer = new byte[together * "+OK\r\n".Length];
        long done = 0;
        for (long began = Stopwatch.GetTimestamp(); Stopwatch.GetElapsedTime(began).TotalSeconds < seconds;)
        {
            byte[] sets = [.. Enumerable.Range(0, together)
                .SelectMany(_ => Set(random.Next(keys), valueBytes, (char)('a' + random.Next(26))))];
            for (int sent = 0; sent < sets.Length;) { sent += socket.Send(sets.AsSpan(sent)); }
            for (int got = 0; got < answer.Length;)
            {
                int count = socket.Receive(answer.AsSpan(got));
                if (count == 0 || answer[0] != (byte)'+') { throw new BenchException("a SET was refused"); }
                got += count;
            }
            done += together;
            double ahead = (done * 1000.0 / rate) - Stopwatch.GetElapsedTime(began).TotalMilliseconds;
            if (ahead > 0) { Thread.Sleep((int)Math.Ceiling(ahead)); }
        }
        return done;
    }

    /// <summary>A SET of one of the keys that StoreFiller has filled.</summary>
    public static byte[] Set(int key, int valueBytes, char with) => Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture,
        $"*3\r\n$3\r\nSET\r\n$16\r\nkey:{key:D12}\r\n${valueBytes}\r\n{new string(with, valueBytes)}\r\n"));
}
