// The scanner of replies against a slow recursive reader: every payload under every cut, random nested ones, and what is
// left over when only some of the replies are wanted.
using System.Text;

namespace Slogger.Resp.Tests;

public sealed unsafe class ReplyScannerTests(ITestOutputHelper output)
{
    public static TheoryData<string> Payloads =>
    [
        "+OK\r\n", "-ERR no\r\n", ":1\r\n", ":-1\r\n", "$5\r\nhello\r\n", "$0\r\n\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "_\r\n", "#t\r\n",
        ",3.14\r\n", ",inf\r\n", "(3492890328409238509324850943850943825024385\r\n", "=15\r\ntxt:Some string\r\n", "!5\r\nERROR\r\n",
        "*2\r\n$1\r\na\r\n:1\r\n", "*3\r\n*0\r\n*-1\r\n*1\r\n*2\r\n+a\r\n$-1\r\n", "%0\r\n", "%2\r\n+a\r\n:1\r\n$1\r\nb\r\n*1\r\n_\r\n",
            "~2\r\n:1\r\n:2\r\n",
        ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n", "|1\r\n+ttl\r\n:3600\r\n*2\r\n:1\r\n|0\r\n:2\r\n", "+\r\n", "+a\rb\r\n",
            "$4\r\n\r\n\r\n\r\n",
        "*2\r\n>3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n:1\r\n>1\r\n+a\r\n>0\r\n:2\r\n", "*1\r\n*1\r\n>1\r\n*0\r\n$1\r\na\r\n",
        "*10\r\n:0\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n:7\r\n:8\r\n:9\r\n",
    ];

    [Theory]
    [MemberData(nameof(Payloads))]
    public void Consume_CutAnywhere_EndsWhereTheReplyEnds(string payload)
    {
        byte[] bytes = Bytes.Of(payload + "+NEXT\r\n" + payload);
        int[] ends = [payload.Length, payload.Length + 7, bytes.Length];
        for (int first = 0; first <= bytes.Length; first++)
        {
            for (int second = first; second <= bytes.Length; second++) { CheckPieces(bytes, [first, second, bytes.Length], ends); }
        }
    }

    [Fact]
    public void Consume_RandomReplies_AgreesWithARecursiveReader()
    {
        for (int seed = 1; seed <= 3000; seed++)
        {
            var random = new Random(seed);
            var text = new StringBuilder();
            int[] ends = new int[random.Next(1, 6)];
            for (int i = 0; i < ends.Length; i++)
            {
                AppendRandom(text, random, depth: 0);
                ends[i] = text.Length;
            }
            byte[] bytes = Bytes.Of(text.ToString());
            try
            {
                int at = 0;
                foreach (int end in ends) { Assert.Equal(end, at = ReadOne(bytes, at)); }
                CheckPieces(bytes, RandomRequests.Cuts(random, bytes.Length), ends);
            }
            catch
            {
                output.WriteLine($"seed {seed}: {Bytes.Show(bytes)}");
                throw;
            }
        }
    }

    [Fact]
    public void Consume_WantedReplies_LeavesTheRest()
    {
        using var native = new Native(Bytes.Of("+1\r\n$1\r\n2\r\n*1\r\n:3\r\n+4\r\n"));
        ReplyState state = default;
        int remaining = 3;
        byte* end = ReplyScanner.Consume(native.Start, native.End, ref state, ref remaining);
        Assert.Equal(0, remaining);
        Assert.Equal("+4\r\n", Bytes.Text(new ReadOnlySpan<byte>(end, (int)(native.End - end))));
        Assert.True(state.IsBetweenReplies);
    }

    [Theory]
    [InlineData("x")]
    [InlineData("\r\n")]
    [InlineData("\0")]
    [InlineData("$-2\r\n")]
    [InlineData("$x\r\n")]
    [InlineData("*-2\r\n")]
    [InlineData("*1\r\nx")]
    [InlineData("$1\r\nabcdef")]
    public void Consume_NoReply_IsRefused(string bytes)
    {
        using var native = new Native(Bytes.Of(bytes));
        ReplyState state = default;
        int remaining = 2;
        byte* start = native.Start, end = native.End;
        bool refused = false;
        try
        {
            ReplyScanner.Consume(start, end, ref state, ref remaining);
        }
        catch (InvalidDataException)
        {
            refused = true;
        }
        Assert.True(refused);
    }

    [Fact]
    public void Consume_HalfAGigabyteInPieces_KeepsNothing()
    {
        const long Length = 512L << 20;
        using var header = new Native(Bytes.Of($"*2\r\n${Length}\r\n"));
        using var piece = new Native(new byte[1 << 20]);
        using var tail = new Native(Bytes.Of("\r\n+END\r\n"));
        ReplyState state = default;
        int remaining = 1;
        Assert.True(ReplyScanner.Consume(header.Start, header.End, ref state, ref remaining) == header.End);
        for (long left = Length; left > 0; left -= piece.Length)
        {
            Assert.True(ReplyScanner.Consume(piece.Start, piece.End, ref state, ref remaining) == piece.End);
        }
        Assert.True(ReplyScanner.Consume(tail.Start, tail.End, ref state, ref remaining) == tail.End);
        Assert.Equal(0, remaining);
    }

    // As an upstream does: what is not consumed comes again in front of the next piece.
    private static void CheckPieces(byte[] bytes, int[] cuts, int[] ends)
    {
        ReplyState state = default;
        int wanted = ends.Length, remaining = wanted, consumed = 0, from = 0;
        var kept = new List<byte>();
        foreach (int cut in cuts)
        {
            kept.AddRange(bytes[from..cut]);
            from = cut;
            using var native = new Native(kept.ToArray(), behind: (byte)'\n');
            byte* end = ReplyScanner.Consume(native.Start, native.End, ref state, ref remaining);
            int used = (int)(end - native.Start);
            Assert.InRange(used, 0, native.Length);
            Assert.True(native.Length - used < 32, "only part of a header may be left");
            consumed += used;
            kept.RemoveRange(0, used);
            Assert.Equal(ends.Count(e => e <= cut), wanted - remaining);
        }
        Assert.Equal(bytes.Length, consumed);
        Assert.True(state.IsBetweenReplies);
    }

    // A push inside a reply is no element of it.
    private static int ReadOne(byte[] bytes, int at, bool isInside = false)
    {
        int line = Array.IndexOf(bytes, (byte)'\n', at) + 1;
        char kind = (char)bytes[at];
        if ("+-:_,#(".Contains(kind)) { return line; }
        long count = long.Parse(Bytes.Text(bytes.AsSpan(at + 1, line - at - 3)), System.Globalization.CultureInfo.InvariantCulture);
        if ("$=!".Contains(kind)) { return count < 0 ? line : line + (int)count + 2; }
        if (count < 0) { count = 0; }
        if (kind is '%' or '|') { count *= 2; }
        if (kind == '|' || (kind == '>' && isInside)) { count++; }
        for (; count > 0; count--) { line = ReadOne(bytes, line, isInside: true); }
        return line;
    }

    private static void AppendRandom(StringBuilder text, Random random, int depth)
    {
        int kind = random.Next(depth > 4 ? 9 : 15);
        switch (kind)
        {
            case < 3:
                text.Append("+-:"[kind]).Append(random.Next(100_000)).Append("\r\n");
                break;
            case 3:
                text.Append(random.Next(3) switch { 0 => "$-1\r\n", 1 => "*-1\r\n", _ => "_\r\n" });
                break;
            case < 9:
                string content = new((char)random.Next(256), random.Next(0, random.Next(2) == 0 ? 4 : 200));
                text.Append("$$$=!"[kind - 4]).Append(content.Length).Append("\r\n").Append(content).Append("\r\n");
                break;
            default:
                char aggregate = "**%~>|"[kind - 9];
                int count = random.Next(0, 4);
                text.Append(aggregate).Append(count).Append("\r\n");
                int frames = aggregate is '%' or '|' ? count * 2 : count;
                if (aggregate == '|' || (aggregate == '>' && depth > 0)) { frames++; }
                for (; frames > 0; frames--) { AppendRandom(text, random, depth + 1); }
                break;
        }
    }
}
