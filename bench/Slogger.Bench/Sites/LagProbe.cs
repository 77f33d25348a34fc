// Measures the backup's lag from a client, as the paper does (section 7.2.2): a write, then the wait for its commit, what is committed
// then, and the wait for the backup, pipelined on one connection. From the answer of the one wait to that of the other is the time from the
// commit until the primary hears that the backup holds it: less the way there and back, an upper bound of the lag. When the watermark
// itself came to what was committed is heard at the backup (WatermarkWatch).
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Slogger.Bench.Sites;

/// <summary>One write.</summary>
/// <param name="AtMs">When it was answered, from the probe's beginning.</param>
/// <param name="FromReplyMs">From its reply until the backup holds it, as heard here.</param>
/// <param name="FromCommitMs">From its commit.</param>
internal readonly record struct LagSample(double AtMs, double FromReplyMs, double FromCommitMs)
{
    /// <summary>By the machine's clock, when it was answered, and when its commit was.</summary>
    public (long Replied, long Committed) Clock { get; init; }

    /// <summary>What was committed then: no less than its version.</summary>
    public long Version { get; init; }
}

internal static class LagProbe
{
    /// <summary>Probes for so long, one write at a time, with random gaps.</summary>
    /// <param name="port">Of the primary.</param>
    /// <param name="key">Of its shard.</param>
    /// <param name="time">How long.</param>
    /// <param name="gapMs">The mean gap.</param>
    /// <param name="stop">Ends it.</param>
    public static List<LagSample> Run(int port, string key, TimeSpan time, double gapMs, CancellationToken stop = default)
    {
        var samples = new List<LagSample>();
        var random = new Random(port);
        byte[] request = Encoding.ASCII.GetBytes(
            $"*3\r\n$3\r\nSET\r\n${key.Length}\r\n{key}"
                + "\r\n$1\r\n1\r\n*3\r\n$8\r\nDPR.WAIT\r\n$1\r\n*\r\n$5\r\n20000\r\n*1\r\n$13\r\nDPR.COMMITTED\r\n*4\r\n$8\r\n"
                + "DPR.WAIT\r\n$1\r\n*\r\n$5\r\n20000\r\n$6\r\nBACKUP\r\n");
        long began = Stopwatch.GetTimestamp();
        Socket? socket = null;
        try
        {
            while (Stopwatch.GetElapsedTime(began) < time && !stop.IsCancellationRequested)
            {
                try
                {
                    if (socket is null)
                    {
                        socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true,
                            ReceiveTimeout = 30_000 };
                        socket.Connect(IPAddress.Loopback, port);
                    }
                    socket.Send(request);
                    long replied = 0, committed = 0, held = 0;
                    var text = new StringBuilder();
                    // "+OK", an array of three integers, one of four, and one of three.
                    for (int lines = 0; lines < 14;)
                    {
                        int before = lines;
                        lines += Lines(socket, text);
                        long now = Stopwatch.GetTimestamp();
                        if (before < 1 && lines >= 1) { replied = now; }
                        if (before < 5 && lines >= 5) { committed = now; }
                        if (lines >= 14) { held = now; }
                    }
                    samples.Add(new(Stopwatch.GetElapsedTime(began, replied).TotalMilliseconds,
                        Stopwatch.GetElapsedTime(replied, held).TotalMilliseconds,
                            Stopwatch.GetElapsedTime(committed, held).TotalMilliseconds)
                    {
                        Clock = (replied, committed),
                            Version = long.Parse(text.ToString().Split("\r\n")[9][1..], System.Globalization.CultureInfo.InvariantCulture),
                    });
                }
                catch (SocketException)
                {
                    socket?.Dispose();
                    socket = null;
                    Thread.Sleep(5);
                }
                if (gapMs > 0) { Thread.Sleep(TimeSpan.FromMilliseconds(random.NextDouble() * 2 * gapMs)); }
            }
        }
        finally
        {
            socket?.Dispose();
        }
        return samples;
    }

    private static int Lines(Socket socket, StringBuilder text)
    {
        byte[] buffer = new byte[512];
        int count = socket.Receive(buffer);
        if (count == 0) { throw new SocketException((int)SocketError.ConnectionReset); }
        if (buffer[0] == '-') { throw new BenchException(Encoding.ASCII.GetString(buffer, 0, count)); }
        text.Append(Encoding.ASCII.GetString(buffer, 0, count));
        return buffer.AsSpan(0, count).Count((byte)'\n');
    }
}
