// Bytes in and out: requests as Redis reads them, replies under every cut, addresses, and refusals.
using System.Text;
using Slogger.Client.Wire;
using Slogger.Resp;

namespace Slogger.Client.Tests;

public sealed class WireTests
{
    private const string Replies = "+OK\r\n-ERR "
        + "no\r\n:-12\r\n$5\r\nhello\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n*3\r\n:1\r\n*2\r\n$1\r\na\r\n$-1\r\n-WRONG "
        + "x\r\n$11\r\n\r\n+OK\r\n:1\r\n\r\n";
    private static readonly string[] s_expected = ["OK", "ERR no", "-12", "hello", "", "(nil)", "(nil)", "[]", "[1, [a, (nil)], WRONG x]",
        "\r\n+OK\r\n:1\r\n"];

    [Fact]
    public void ReplyBuffer_AnyCutIntoThree_GivesTheSameReplies()
    {
        byte[] bytes = Encoding.ASCII.GetBytes(Replies);
        for (int a = 0; a <= bytes.Length; a++)
        {
            for (int b = a; b <= bytes.Length; b++)
            {
                var buffer = new ReplyBuffer();
                var found = new List<string>();
                foreach (Range part in (Range[])[0..a, a..b, b..]) { Feed(buffer, bytes.AsSpan(part), found); }
                Assert.Equal(s_expected, found);
                Assert.False(buffer.HasMore);
            }
        }
    }

    [Fact]
    public void ReplyBuffer_ByteByByteForLong_KeepsItsSizeAndPlace()
    {
        byte[] bytes = Encoding.ASCII.GetBytes(Replies);
        var buffer = new ReplyBuffer();
        var found = new List<string>();
        for (int i = 0; i < 200_000; i++) { Feed(buffer, bytes.AsSpan(i % bytes.Length, 1), found); }
        for (int i = 0; i < found.Count; i++) { Assert.Equal(s_expected[i % s_expected.Length], found[i]); }
        Assert.True(buffer.Room().Length <= 64 << 10, "whole replies leave the buffer small");
    }

    [Fact]
    public void ReplyBuffer_AReplyLargerThanIt_Grows()
    {
        const int seed = 4711;
        var random = new Random(seed);
        string large = new('y', 3_000_000);
        byte[] bytes = Encoding.ASCII.GetBytes($":1\r\n${large.Length}\r\n{large}\r\n:2\r\n");
        var buffer = new ReplyBuffer();
        var found = new List<string>();
        for (int at = 0; at < bytes.Length;)
        {
            int n = Math.Min(random.Next(1, 300_000), bytes.Length - at);
            Feed(buffer, bytes.AsSpan(at, n), found);
            at += n;
        }

        Assert.Equal(["1", large, "2"], found);
    }

    [Theory]
    [InlineData("!x\r\n")]
    [InlineData("$x\r\n")]
    [InlineData("HTTP/1.1 400 Bad Request\r\n")]
    public void ReplyBuffer_WhatIsNoReply_IsAnError(string text) =>
        Assert.Throws<InvalidDataException>(() => Feed(new ReplyBuffer(), Encoding.ASCII.GetBytes(text + "\r\n\r\n"), []));

    [Fact]
    public void RequestWriter_ArgumentsOfEveryKind_AreWrittenAndFoundAgain()
    {
        var writer = new RequestWriter();
        var big = new byte[5000];
        Argument[] arguments = ["SET", "grüße", new byte[] { 0, 1 }, -7L, 1.5, big, "", long.MinValue, new ReadOnlyMemory<byte>(big, 0, 3),
            42, 1, 1];
        writer.Begin(1).Add("PING"u8);
        writer.Begin(arguments.Length);
        foreach (Argument argument in arguments) { argument.WriteTo(writer); }
        string text = Encoding.UTF8.GetString(writer.Written);
        Assert.StartsWith("*1\r\n$4\r\nPING\r\n*12\r\n$3\r\nSET\r\n$7\r\ngrüße\r\n$2\r\n\0\u0001\r\n$2\r\n-7\r\n$3\r\n1.5\r\n$5000\r\n\0",
            text, StringComparison.Ordinal);
        Assert.EndsWith("$0\r\n\r\n$20\r\n-9223372036854775808\r\n$3\r\n\0\0\0\r\n$2\r\n42\r\n$1\r\n1\r\n$1\r\n1\r\n", text,
            StringComparison.Ordinal);
        Assert.Equal(12, writer.Arguments.Length);
        Assert.Equal("grüße"u8, writer.Argument(1));
        Assert.Equal(5000, writer.Argument(5).Length);
        writer.Clear();
        Assert.Equal(0, writer.Length);
    }

    [Theory]
    [InlineData("localhost:6379", "localhost", 6379, "localhost:6379")]
    [InlineData("[::1]:80", "::1", 80, "[::1]:80")]
    [InlineData("::1:80", "::1", 80, "[::1]:80")]
    public void Address_ThatIsOne_IsRead(string text, string host, int port, string back)
    {
        Address address = Address.Parse(text);
        Assert.Equal((host, port, back), (address.Host, address.Port, address.ToString()));
    }

    [Theory]
    [InlineData("")]
    [InlineData("host")]
    [InlineData(":80")]
    [InlineData("host:")]
    [InlineData("host:0")]
    [InlineData("host:65536")]
    [InlineData("host:-1")]
    public void Address_ThatIsNone_IsAnError(string text) =>
        Assert.Contains("HOST:PORT", Assert.Throws<ArgumentException>(() => Address.Parse(text)).Message, StringComparison.Ordinal);

    [Fact]
    public void Refusal_ThatIsARollback_NamesTheBranch()
    {
        Branch branch = RefusedException.Of("ROLLBACK session=0123 abandoned=3 worldline=5 branch=1200").Branch!;
        Assert.Equal((3L, 5L, true, "1200"), (branch.Abandoned.Number, branch.WorldLine.Number, branch.IsUniform, branch.ToString()));
        branch = RefusedException.Of("ROLLBACK session=0123 abandoned=3 worldline=5 branches=1200,0,1207").Branch!;
        Assert.Equal((3L, 5L, false, "1200,0,1207"),
            (branch.Abandoned.Number, branch.WorldLine.Number, branch.IsUniform, branch.ToString()));
        Assert.All(["branch=1,2", "branches=", "branches=1,,2", "branches=1,x", "branch=-1", "worldline=6"],
            end => Assert.Null(RefusedException.Of($"ROLLBACK session=0123 abandoned=3 worldline=5 {end}").Branch));
        Assert.Null(RefusedException.Of("ROLLBACK session=0123 abandoned=3 worldline=5").Branch);
        Assert.Null(RefusedException.Of("SLOGGER AHEAD version=1 open=0").Branch);
        Assert.Contains("AHEAD", RefusedException.Of("SLOGGER AHEAD version=1 open=0").Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Notice_OfAPlainConnection_IsRead()
    {
        RollbackNotice notice = RollbackNotice.Parse("ROLLBACK worldline=3 survived=120 uncertain=121-124,130")!;
        Assert.Equal((3L, 120L), (notice.WorldLine.Number, notice.Survived.Number));
        Assert.Equal(["121-124", "130"], notice.Uncertain.Select(r => r.ToString()));
        Assert.Empty(RollbackNotice.Parse("-ROLLBACK worldline=3 survived=0 uncertain=")!.Uncertain);
        Assert.All(new[] { null, "", "ERR x", "ROLLBACK", "ROLLBACK worldline=3", "ROLLBACK worldline=a survived=1", "ROLLBACK "
            + "worldline=1 survived=1 uncertain=a-b" }, t => Assert.Null(RollbackNotice.Parse(t)));
    }

    private static void Feed(ReplyBuffer buffer, ReadOnlySpan<byte> bytes, List<string> found)
    {
        while (bytes.Length > 0)
        {
            Memory<byte> room = buffer.Room();
            int n = Math.Min(room.Length, bytes.Length);
            bytes[..n].CopyTo(room.Span);
            buffer.Received(n);
            bytes = bytes[n..];
            while (buffer.TryRead(out WireReply reply)) { found.Add(RespValue.Read(reply.Bytes).ToString()); }
        }
    }
}
