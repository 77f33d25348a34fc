// The scanner finds the same boundaries however the stream is split.
using System.Text;
using Slogger.Redis.Connections;
using Slogger.Redis.Replication;

namespace Slogger.Redis.Tests.Replication;

public sealed class StreamScannerTests
{
    private static string Command(params string[] words) =>
        $"*{words.Length}\r\n" + string.Concat(words.Select(w => $"${w.Length}\r\n{w}\r\n"));

    private static readonly string[] Commands =
    [
        Command("SELECT", "11"), Command("SET", "k", "v"), Command("multi"), Command("SET", "k", "*3\r\n$8\r\nSPUBLISH\r\n"),
        Command("SPUBLISH", "chan", "payload"), Command("EXEC"), Command("ping"), "\n", Command("select", "0"),
        Command("PUBLISH", "", ""), Command("REPLCONF", "GETACK", "*"), Command("SPUBLISH", "chan", new string('x', 5000)),
        Command("EXPIREAT", "ab", "cd"), Command(["RPUSH", .. Enumerable.Range(0, 50).Select(i => $"{i}")]),
        Command("SET", "", ""), Command("EXEC"), Command("FLUSHALL"),
    ];

    private static List<string> Scan(byte[] stream, IEnumerable<int> cuts)
    {
        var scanner = new StreamScanner(1000, 7);
        var found = new List<string>();
        int start = 0;
        foreach (int cut in cuts.Append(stream.Length))
        {
            int at = 0;
            ReadOnlySpan<byte> chunk = stream.AsSpan(start, cut - start);
            StreamEvent e;
            while ((e = scanner.Next(chunk, ref at)) != StreamEvent.None)
            {
                found.Add($"{e} {scanner.EventStart}-{scanner.Offset} db{scanner.Database} tx{scanner.InTransaction} "
                    + (scanner.ArgumentsComplete
                    ? string.Join('|', Enumerable.Range(0, 3).Select(i => Encoding.ASCII.GetString(scanner.Argument(i)))) : "long"));
                Assert.True(scanner.AtCommandBoundary);
            }
            Assert.Equal(1000 + cut, scanner.Offset);
            start = cut;
        }
        found.Add($"end {scanner.CommandStart} {scanner.Offset}");
        return found;
    }

    [Fact]
    public void Scan_EverySplit_FindsTheSame()
    {
        byte[] stream = Encoding.ASCII.GetBytes(string.Concat(Commands));
        List<string> whole = Scan(stream, []);
        Assert.Contains(whole, e => e.StartsWith("ShardPublish", StringComparison.Ordinal)
            && e.EndsWith("db11 txTrue SPUBLISH|chan|payload", StringComparison.Ordinal));
        Assert.Contains(whole, e => e.StartsWith("ShardPublish", StringComparison.Ordinal)
            && e.EndsWith("db0 txFalse long", StringComparison.Ordinal));
        Assert.Equal(6, whole.Count);
        Assert.Equal($"end {1000 + stream.Length} {1000 + stream.Length}", whole[^1]);
        for (int cut = 1; cut < stream.Length; cut++)
            Assert.Equal(whole, Scan(stream, [cut]));
        for (int size = 1; size < 40; size++)
            Assert.Equal(whole, Scan(stream, Enumerable.Range(1, (stream.Length - 1) / size).Select(i => i * size)));
    }

    [Fact]
    public void Scan_EveryPrefix_KnowsTheLastBoundary()
    {
        byte[] stream = Encoding.ASCII.GetBytes(string.Concat(Commands));
        var boundaries = new SortedSet<int> { 0 };
        int sum = 0;
        foreach (string command in Commands)
            boundaries.Add(sum += command.Length);
        for (int length = 0; length <= stream.Length; length++)
        {
            var scanner = new StreamScanner(0, 0);
            int at = 0;
            while (scanner.Next(stream.AsSpan(0, length), ref at) != StreamEvent.None)
            {
            }
            Assert.Equal(boundaries.GetViewBetween(0, length).Max, scanner.CommandStart);
        }
    }

    [Theory]
    [InlineData("SET k v\r\n")]
    [InlineData("*0\r\n")]
    [InlineData("*-1\r\n")]
    [InlineData("*1\r\n*1\r\n")]
    [InlineData("*1\r\n$-1\r\n")]
    [InlineData("*\r\n")]
    [InlineData("*1x\r\n")]
    [InlineData("*99999999999999999999999999999999999999")]
    [InlineData("*2\r\n$6\r\nSELECT\r\n$1\r\nx\r\n")]
    public void Scan_NoStream_IsRefused(string text)
    {
        foreach (int size in new[] { 1, 1000 })
        {
            var e = Assert.Throws<RedisException>(() =>
            {
                var scanner = new StreamScanner(0, 0);
                foreach (byte[] piece in Encoding.ASCII.GetBytes(text).Chunk(size))
                {
                    int at = 0;
                    scanner.Next(piece, ref at);
                }
            });
            Assert.Equal(RedisProblem.Protocol, e.Problem);
        }
    }

    [Fact]
    public void Marker_WrittenAndRead_Equal()
    {
        var codec = new MarkerCodec(new string('a', 32));
        var payload = new MarkerPayload(new(3), new(long.MaxValue), new(5), new(ulong.MaxValue));
        byte[] channel = Encoding.ASCII.GetBytes(codec.Channel);
        Assert.True(codec.TryRead(channel, Encoding.ASCII.GetBytes(MarkerCodec.Format(payload)), out MarkerPayload read));
        Assert.Equal(payload, read);
        foreach (string bad in new[] { "", "1", "1:2:3", "1:2:3:", "1:2:3:4 ", "1:2:3:-4", "a:2:3:4", "1:2::4", "1:2:3:4:5" })
            Assert.False(codec.TryRead(channel, Encoding.ASCII.GetBytes(bad), out _), bad);
        Assert.False(codec.TryRead("__slogger:"u8, "1:2:3:4"u8, out _));
        Assert.Throws<ArgumentException>(() => new MarkerCodec("short"));
    }
}
