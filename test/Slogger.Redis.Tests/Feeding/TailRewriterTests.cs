// Replayed history: messages become fillers of the same length, everything else passes unchanged, in bounded memory.
using System.Text;
using Slogger.Redis.Feeding;
using Slogger.Redis.Replication;

namespace Slogger.Redis.Tests.Feeding;

public sealed class TailRewriterTests(ITestOutputHelper output)
{
    private sealed class Bytes(byte[] bytes, int pieceMax) : IHistorySource
    {
        public int Read(long offset, Span<byte> destination)
        {
            int count = Math.Min(pieceMax, (int)Math.Min(destination.Length, bytes.Length - offset));
            bytes.AsSpan((int)offset, count).CopyTo(destination);
            return count;
        }
    }

    private static string Command(params string[] words) =>
        $"*{words.Length}\r\n" + string.Concat(words.Select(w => $"${w.Length}\r\n{w}\r\n"));

    [Fact]
    public void Filler_EveryLength_IsOnePingOfThatLength()
    {
        for (int length = 29; length < 12_000; length++)
        {
            byte[] command = new byte[length];
            Filler.Overwrite(command);
            var scanner = new StreamScanner(0, 0);
            int at = 0;
            Assert.Equal(StreamEvent.None, scanner.Next(command, ref at));
            Assert.True(scanner.AtCommandBoundary && scanner.Offset == length, $"length {length}");
            Assert.StartsWith("*2\r\n$4\r\nPING\r\n$", Encoding.ASCII.GetString(command).TrimStart('\n'));
        }
    }

    [Fact]
    public void Rewrite_RandomHistories_SameLengthAndOnlyMessagesReplaced()
    {
        int seed = Environment.TickCount;
        output.WriteLine($"seed {seed}");
        var random = new Random(seed);
        for (int round = 0; round < 300; round++)
        {
            var original = new StringBuilder();
            var expected = new StringBuilder();
            for (int i = random.Next(30); i > 0; i--)
            {
                string body = new('b', random.Next(4) == 0 ? random.Next(500) : random.Next(20));
                string command = random.Next(6) switch
                {
                    0 => Command("PUBLISH", body, body),
                    1 => Command("spublish", "c", body),
                    2 => Command("MULTI") + Command("publish", "c", body) + Command("EXEC"),
                    _ => Command("SET", "key", body),
                };
                original.Append(command);
                if (command.Contains("UBLISH", StringComparison.OrdinalIgnoreCase))
                {
                    int start = command.StartsWith("*1", StringComparison.Ordinal) ? Command("MULTI").Length : 0;
                    int end = command.Length - (start > 0 ? Command("EXEC").Length : 0);
                    byte[] filler = new byte[end - start];
                    Filler.Overwrite(filler);
                    command = command[..start] + Encoding.ASCII.GetString(filler) + command[end..];
                }
                expected.Append(command);
            }
            byte[] bytes = Encoding.ASCII.GetBytes(original.ToString());
            var rewriter = new TailRewriter(new Bytes(bytes, random.Next(1, 300)), 0, random.Next(32, 256));
            var produced = new MemoryStream();
            RewriteState state;
            while ((state = rewriter.Next(bytes.Length, out ReadOnlyMemory<byte> piece)) == RewriteState.Produced)
                produced.Write(piece.Span);
            Assert.Equal(RewriteState.AtLimit, state);
            Assert.Equal(bytes.Length, rewriter.Position);
            Assert.Equal(expected.ToString(), Encoding.ASCII.GetString(produced.ToArray()));
        }
    }

    [Fact]
    public void Rewrite_EveryLimit_StopsAtBoundariesOnly()
    {
        string text = Command("SET", "a", "1") + Command("PUBLISH", "c", "m") + Command("MULTI") + Command("SET", "b", "2")
            + Command("EXEC") + Command("DEL", "a");
        int first = Command("SET", "a", "1").Length, second = first + Command("PUBLISH", "c", "m").Length;
        int third = text.Length - Command("DEL", "a").Length;
        int[] good = [0, first, second, third, text.Length];
        byte[] bytes = Encoding.ASCII.GetBytes(text);
        for (int limit = 0; limit <= text.Length + 5; limit++)
        {
            var rewriter = new TailRewriter(new Bytes(bytes, 1000), 0, 64);
            RewriteState state;
            while ((state = rewriter.Next(limit, out _)) == RewriteState.Produced)
            {
            }
            Assert.Equal(limit > text.Length ? RewriteState.SourceEnded
                : good.Contains(limit) ? RewriteState.AtLimit : RewriteState.InsideCommand, state);
        }
    }
}
