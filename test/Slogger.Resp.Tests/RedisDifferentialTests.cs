// What the scanners say, held against what redis-server does with the same bytes. The rule behind it: many clients share a
// connection to Redis, so bytes that pass as n whole requests must be n requests to Redis, or it closes that connection.
using System.Text;

namespace Slogger.Resp.Tests;

public sealed unsafe class RedisDifferentialTests(RedisServer redis, ITestOutputHelper output) : IClassFixture<RedisServer>
{
    private static readonly SpecialNames Names = new([KeyValuePair.Create("QUIT", (byte)1), KeyValuePair.Create("POST", (byte)2)],
        impossible: 3);

    public static TheoryData<string> EdgeCases => [.. CommandScannerTests.Payloads.Select(row => row.Data)];

    [Theory]
    [MemberData(nameof(EdgeCases))]
    public void ScanRun_EdgeCase_IsReadAsRedisReadsIt(string bytes) => Check(Bytes.Of(bytes));

    [Fact]
    public void ScanRun_MutilatedRequests_AreReadAsRedisReadsThem()
    {
        for (int seed = 1; seed <= 1500; seed++)
        {
            var random = new Random(seed);
            byte[] bytes = RandomRequests.Of(random, random.Next(1, 6), mutilated: true);
            try
            {
                Check(bytes);
            }
            catch
            {
                output.WriteLine($"seed {seed}: {Bytes.Show(bytes)}");
                throw;
            }
        }
    }

    [Theory]
    [InlineData("*", 0)]
    [InlineData("*1\r\n$", 0)]
    [InlineData("*1\r\n:", 0)]
    public void ScanRun_LineThatNeverEnds_IsRefusedAsByRedis(string start, int requests)
    {
        byte[] bytes = Bytes.Of(start + new string('1', CommandScanner.MaxLineBytes + 100));
        string answer = Bytes.Text(redis.Exchange(bytes));
        using var native = new Native(bytes);
        int count = 0;
        byte* end = CommandScanner.ScanRun(native.Start, native.End, Names, 1 << 20, ref count, out ScanStop stop, out _);
        Assert.Equal((ScanStop.Malformed, requests), (stop, count));
        Assert.Equal($"-{CommandScanner.Classify(end, native.End)}\r\n", answer);
    }

    [Fact]
    public void Split_RandomLines_GivesRedissArguments()
    {
        string[] pieces = ["a", "b c", " ", "\"", "'", "\\", "\\x41", "\\n", "\\\"", "\\'", "\t", "\v", "\0", "\r", "\xff", "\"x\"",
            "'y' ", "\\x0"];
        for (int seed = 1; seed <= 1500; seed++)
        {
            var random = new Random(seed);
            string tail = string.Concat(Enumerable.Range(0, random.Next(1, 9)).Select(_ => pieces[random.Next(pieces.Length)]));
            byte[] line = Bytes.Of("EVAL 'return ARGV' 0 " + tail);
            // Redis looks for the line's end behind no zero byte: the front end does not split such lines before that.
            if (tail.Contains('\0', StringComparison.Ordinal)) { continue; }
            // One CR before the line's end belongs to it.
            List<byte[]>? found = InlineRequest.Split(line[^1] == '\r' ? line.AsSpan(0, line.Length - 1) : line);
            string expected = found is null
                ? "-ERR Protocol error: unbalanced quotes in request\r\n"
                : $"*{found.Count - 3}\r\n" + string.Concat(found.Skip(3).Select(a => $"${a.Length}\r\n{Bytes.Text(a)}\r\n"));
            string answer = Bytes.Text(redis.Exchange([.. line, (byte)'\n']));
            Assert.True(expected == answer, $"seed {seed}: {Bytes.Show(line)}\nexpected {expected}\nanswer   {answer}");
        }
    }

    private void Check(byte[] bytes)
    {
        using var native = new Native(bytes);
        int count = 0;
        byte* end = CommandScanner.ScanRun(native.Start, native.End, Names, 1 << 20, ref count, out ScanStop stop, out _);
        byte[] passed = bytes[..(int)(end - native.Start)];

        // What would go over the shared connection: as many replies as requests, and the connection lives on.
        byte[] marked = redis.Exchange([.. passed, .. Bytes.Request("ECHO", "the connection lives on")]);
        (int replies, string last) = Replies(marked);
        Assert.Equal((count + 1, "$23\r\nthe connection lives on\r\n"), (replies, last));

        // A large request takes a connection of its own: Redis may find what it likes.
        if (stop is ScanStop.Special or ScanStop.Inline or ScanStop.Large) { return; }
        (replies, last) = Replies(redis.Exchange(bytes));
        if (stop == ScanStop.Malformed)
        {
            Assert.Equal((count + 1, $"-{CommandScanner.Classify(end, native.End)}\r\n"), (replies, last));
        }
        else
        {
            Assert.Equal(count, replies);
            Assert.DoesNotContain("Protocol error", last, StringComparison.Ordinal);
        }
    }

    private static (int Count, string Last) Replies(byte[] bytes)
    {
        using var native = new Native(bytes);
        ReplyState state = default;
        int count = 0;
        byte* p = native.Start, last = p;
        while (p < native.End)
        {
            int one = 1;
            last = p;
            p = ReplyScanner.Consume(p, native.End, ref state, ref one);
            Assert.Equal(0, one);
            count++;
        }
        return (count, Bytes.Text(new ReadOnlySpan<byte>(last, (int)(native.End - last))));
    }
}
