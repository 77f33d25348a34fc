// Requests as bytes: cut anywhere, malformed, at random, in lines, more than replies have room for.
using System.Text;
using Slogger.Faster.Commands;

namespace Slogger.Faster.Tests.Commands;

public sealed unsafe class RequestTests : IDisposable
{
    private readonly TestEngine _test = new();

    public void Dispose() => _test.Dispose();

    [Fact]
    public void Requests_CutAtAnyPlace_GiveTheSameReplies()
    {
        string requests = "*0\r\n*-1\r\nPING\r\n\r\nset 'in line' \"a\\x41\"\r\n" + TestClient.Request("SET", "a", "value\r\n*1\r\n")
            + TestClient.Request("get", "a") + TestClient.Request("MULTI")
            + TestClient.Request("INCR", "n") + TestClient.Request("nonsense", "x") + TestClient.Request("EXEC")
            + TestClient.Request("GET", "in line") + TestClient.Request("MGET", "a", "none") + TestClient.Request("GET", "");
        string expected = _test.Client.Raw(requests);
        byte[] bytes = Encoding.Latin1.GetBytes(requests);
        for (int first = 0; first <= bytes.Length; first++)
        {
            Assert.Equal(expected, InPieces(bytes, [first]));
        }

        Assert.Equal(expected, InPieces(bytes, [.. Enumerable.Range(1, bytes.Length - 1)]));
    }

    // What comes behind a value that the store has no place for is passed over too, wherever the pieces end. On a thread of its own: one
    // that never ended would not see the limit.
    [Fact(Timeout = 60_000)]
    public Task RequestThatIsTooLarge_CutAtAnyPlaceBehindItsValue_GivesTheSameReplies() => Task.Run(() =>
    {
        const int Length = CommandEngine.ValueBytesMax + 1;
        string start = $"*5\r\n$3\r\nSET\r\n$1\r\nk\r\n${Length}\r\n{new string('v', Length)}";
        byte[] bytes = Encoding.Latin1.GetBytes(start + "\r\n$2\r\nPX\r\n$5\r\n10000\r\n" + TestClient.Request("PING"));
        string expected = InPieces(bytes, []);
        Assert.EndsWith("+PONG\r\n", expected, StringComparison.Ordinal);
        for (int cut = start.Length - 1; cut < bytes.Length; cut++) { Assert.Equal(expected, InPieces(bytes, [cut])); }
        Assert.Equal(expected, InPieces(bytes, [.. Enumerable.Range(start.Length, bytes.Length - start.Length)]));
    });

    // What changes how the next ones are executed, among many that are taken apart together.
    [Fact]
    public void Requests_ManyAtOnce_GiveTheSameRepliesAsOneByOne()
    {
        string[][] lines =
        [
            ["SET", "a", "1"], ["GET", "a"], ["MULTI"], ["INCR", "a"], ["GET", "a"], ["EXEC"], ["GET", "a"], ["CLIENT", "REPLY", "SKIP"],
                ["INCR", "a"], ["GET", "a"],
            ["WATCH", "a"], ["MULTI"], ["SET", "a", "9"], ["DISCARD"], ["GET", "a"], ["nonsense"], ["a-name-that-no-command-has"], ["GET"],
                ["MSET", .. Enumerable.Range(0, 150).Select(i => $"k{i / 2}")],
            ["MGET", .. Enumerable.Range(0, 100).Select(i => $"k{i}")], ["CLIENT", "REPLY", "OFF"], ["INCR", "a"],
                ["CLIENT", "REPLY", "ON"], ["GET", "a"], ["HELLO", "3"], ["GET", "none"], ["HELLO", "2"],
            ["DEL", "a", "k0"], ["EXISTS", "a", "a"], ["MULTI"], ["nonsense"], ["EXEC"], ["GET", "k1"],
                ["SET", "k1", new string('v', 70_000)], ["STRLEN", "k1"], ["FLUSHALL"], ["DBSIZE"], ["QUIT"], ["GET", "k1"],
        ];
        foreach (int turns in (int[])[1, 2])
        {
            // The second time everything is one request further on.
            string[] requests = [.. Enumerable.Repeat(TestClient.Request("PING"), turns), .. lines.Select(TestClient.Request)];
            string all = string.Concat(requests);
            int[] ends = [.. requests.Take(requests.Length - 1).Select((_, i) => requests.Take(i + 1).Sum(r => r.Length))];
            byte[] bytes = Encoding.Latin1.GetBytes(all);
            Assert.Equal(WithoutIds(InPieces(bytes, ends)), WithoutIds(InPieces(bytes, [])));
        }
    }

    [Fact]
    public void Memory_OfThisFaster_IsKnown() => Assert.NotNull(_test.Store.Hints);

    [Theory]
    [InlineData("*1\r\n:1\r\n", "-ERR Protocol error: expected '$', got ':'")]
    [InlineData("*1\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length")]
    [InlineData("*1\r\n$600000000\r\n", "-ERR Protocol error: invalid bulk length")]
    [InlineData("*x\r\n", "-ERR Protocol error: invalid multibulk length")]
    [InlineData("*2147483648\r\n", "-ERR Protocol error: invalid multibulk length")]
    [InlineData("get \"a\r\n", "-ERR Protocol error: unbalanced quotes in request")]
    [InlineData("*2\r\n$3\r\nGET\r\n$20000000\r\n", null)]
    public void Request_ThatIsNone_ClosesTheConnection(string bytes, string? error)
    {
        TestClient client = _test.Client;
        string reply = client.Raw(TestClient.Request("PING") + bytes + (error is null ? "" : TestClient.Request("PING")));
        Assert.Equal(error is null ? "+PONG\r\n" : $"+PONG\r\n{error}\r\n", reply);
        Assert.Equal(error is not null, client.Connection.WantsClose);
    }

    [Fact]
    public void Replies_MoreThanThereIsRoomFor_WaitForIt()
    {
        using var replies = new ReplyBuffer(fullBytes: 1000);
        _test.Client.Send("SET", "a", new string('v', 900));
        byte[] requests = Encoding.ASCII.GetBytes(string.Concat(Enumerable.Repeat(TestClient.Request("GET", "a"), 10)));
        using CommandConnection connection = _test.Engine.Connect();
        fixed (byte* at = requests)
        {
            nint done = 0;
            for (int turn = 0; turn < 5; turn++)
            {
                nint consumed = connection.Execute(at + done, requests.Length - done, replies);
                Assert.Equal(requests.Length / 5, consumed);
                Assert.Equal(2 * (900 + 8), replies.Count);
                Assert.Equal(0, connection.Execute(at + done, requests.Length - done, replies));
                replies.Consume(replies.Count);
                done += consumed;
            }
        }
    }

    [Fact]
    public void Bytes_AtRandom_NeitherThrowNorHangNorAreReadBeyondTheirEnd()
    {
        const int Bytes = 4096;
        int seed = Environment.TickCount & 0xFFFFF;
        var random = new Random(seed);
        string[] pieces = ["*", "$", "\r\n", "1", "3", "10", "-1", "GET", "SET", "MULTI", "EXEC", "a", " ", "\"", "'", "\0",
            "99999999999999999999", "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n", "*2\r\n$3\r\nGET\r\n$1\r\na\r\n", "CLIENT", "SCAN 0",
                "16777217", "KEYS *"];
        // At the very end of a page behind which nothing may be read.
        byte* pages = Guarded.Allocate(Bytes);
        try
        {
            for (int round = 0; round < 3000; round++)
            {
                var text = new StringBuilder();
                int length = random.Next(1, 400);
                while (text.Length < length)
                    text.Append(random.Next(4) == 0 ? ((char)random.Next(256)).ToString() : pieces[random.Next(pieces.Length)]);
                byte[] bytes = Encoding.Latin1.GetBytes(text.ToString());
                byte* at = pages + Bytes - bytes.Length;
                bytes.CopyTo(new Span<byte>(at, bytes.Length));
                using CommandConnection connection = _test.Engine.Connect();
                using var replies = new ReplyBuffer();
                nint done = 0;
                for (int turns = 0; done < bytes.Length; turns++)
                {
                    Assert.True(turns < 1000, $"seed {seed}, round {round}");
                    nint consumed = connection.Execute(at + done, bytes.Length - done, replies);
                    Assert.InRange(consumed, 0, bytes.Length - done);
                    done += consumed;
                    if (consumed == 0 && !replies.IsFull) break;
                    replies.Consume(replies.Count);
                }
            }
        }
        finally
        {
            Guarded.Free(pages, Bytes);
        }

        Assert.Equal("+PONG|", _test.Client.Send("PING"));
    }

    [Fact]
    public void GetAndSet_OfSmallValues_AllocateNothing()
    {
        byte[] requests = Encoding.ASCII.GetBytes(
            string.Concat(Enumerable.Range(0, 16)
                .Select(i => TestClient.Request("SET", $"key:{i}", new string('v', 64)) + TestClient.Request("GET", $"key:{i}"))));
        fixed (byte* at = requests)
        {
            Run(at, requests.Length, 200);
            // What requests allocate they allocate in each round; what comes in one of them only is not theirs.
            long least = long.MaxValue;
            for (int round = 0; round < 5; round++)
            {
                long before = GC.GetAllocatedBytesForCurrentThread();
                Run(at, requests.Length, 200);
                least = Math.Min(least, GC.GetAllocatedBytesForCurrentThread() - before);
            }

            Assert.Equal(0, least);
        }
    }

    private static string WithoutIds(string replies) =>
        System.Text.RegularExpressions.Regex.Replace(replies, @"(?<=\$2\r\nid\r\n:)\d+", "");

    private void Run(byte* at, int bytes, int times)
    {
        for (int i = 0; i < times; i++)
        {
            nint consumed = _test.Client.Connection.Execute(at, bytes, _test.Client.Replies);
            if (consumed != bytes) throw new InvalidOperationException("not all was executed");
            _test.Client.Replies.Consume(_test.Client.Replies.Count);
        }
    }

    // The store is emptied first; what was not consumed is given again with what follows.
    private string InPieces(byte[] bytes, int[] cuts)
    {
        _test.Client.Send("FLUSHALL");
        using TestClient client = _test.Connect();
        var replies = new StringBuilder();
        int from = 0;
        foreach (int to in cuts.Append(bytes.Length))
        {
            byte[] piece = bytes[from..to];
            fixed (byte* at = piece)
            {
                from += (int)client.Connection.Execute(at, piece.Length, client.Replies);
            }

            replies.Append(client.TakeReplies());
        }

        Assert.Equal(bytes.Length, from);
        return replies.ToString();
    }
}
