// Commands with very many arguments: they come in hundreds of pieces, and each argument is taken apart once.
using System.Text;
using Slogger.Faster.Commands;

namespace Slogger.Faster.Tests.Commands;

public sealed unsafe class ManyArgumentsTests
{
    private const int Keys = 60_000;

    [Fact]
    public void Request_InManyPieces_EachArgumentIsTakenApartOnce()
    {
        using var test = new TestEngine();
        string[] keys = [.. Enumerable.Range(0, Keys).Select(i => $"key:{i}")];
        string[] replies =
        [
            InPieces(test, 4096, ["MSET", .. keys.SelectMany(k => new[] { k, k })]), InPieces(test, 4096, ["EXISTS", .. keys]),
                InPieces(test, 4096, ["DEL", .. keys[..^1]]),
            InPieces(test, 4096, ["MGET", .. keys[^2..], .. keys]),
        ];
        Assert.Equal("+OK\r\n", replies[0]);
        Assert.Equal($":{Keys}\r\n", replies[1]);
        Assert.Equal($":{Keys - 1}\r\n", replies[2]);
        Assert.StartsWith($"*{Keys + 2}\r\n$-1\r\n$9\r\nkey:59999\r\n$-1\r\n", replies[3], StringComparison.Ordinal);
        Assert.EndsWith("$-1\r\n$9\r\nkey:59999\r\n", replies[3], StringComparison.Ordinal);
        Assert.Equal((2L * Keys) + 1 + Keys + 1 + Keys + Keys + 3, test.Client.Connection.ArgumentsRead);
    }

    // All wait for it meanwhile. What follows another store must do as that has done.
    [Fact]
    public void Keys_MoreThanOneCommandMayName_AreRefused_ButNotToAFeed()
    {
        using var test = new TestEngine();
        string[] keys = [.. Enumerable.Range(0, CommandEngine.KeysMax + 1).Select(i => $"{i}")];
        string refused = $"-ERR SLOGGER one command or transaction of the embedded store names at most {CommandEngine.KeysMax} keys, "
            + $"channels and the like, not {CommandEngine.KeysMax + 1}: give them in several|";
        foreach (string name in (string[])["EXISTS", "MGET", "DEL", "UNLINK", "TOUCH", "WATCH"])
            Assert.Equal(refused, test.Client.Send([name, .. keys]));
        foreach (string name in (string[])["MSET", "MSETNX"])
            Assert.Equal(refused, test.Client.Send([name, .. keys.SelectMany(k => new[] { k, "v" })]));
        Assert.Equal("+OK|", test.Client.Send(["MSET", .. keys[1..].SelectMany(k => new[] { k, "v" })]));
        Assert.Equal($":{CommandEngine.KeysMax}|", test.Client.Send(["EXISTS", .. keys[1..]]));

        test.Client.Send("MULTI");
        Assert.Equal("+QUEUED|", test.Client.Send(["DEL", .. keys[1..]]));
        Assert.Equal(refused, test.Client.Send("GET", "k"));
        Assert.Equal("-EXECABORT Transaction discarded because of previous errors.|", test.Client.Send("EXEC"));
        Assert.Equal($":{CommandEngine.KeysMax}|", test.Client.Send("DBSIZE"));

        using var feed = new TestClient(test.Engine.ConnectFeed());
        Assert.Equal($":{CommandEngine.KeysMax}|", feed.Send(["DEL", .. keys]));
    }

    [Fact]
    public void Names_MoreThanOneCommandMayHave_AreRefused()
    {
        using var test = new TestEngine();
        string[] names = [.. Enumerable.Repeat("get", CommandEngine.KeysMax + 1)];
        string Refused(int more) =>
            $"-ERR SLOGGER one command or transaction of the embedded store names at most {CommandEngine.KeysMax} keys, channels and "
                + $"the like, not {CommandEngine.KeysMax + more}: give them in several|";
        foreach (string command in (string[])["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "INFO"])
            Assert.Equal(Refused(1), test.Client.Send([command, .. names]));
        foreach (string command in (string[])["CONFIG GET", "CONFIG SET", "COMMAND INFO", "COMMAND GETKEYS", "COMMAND DOCS",
            "PUBSUB NUMSUB", "PUBSUB SHARDNUMSUB", "CLIENT KILL"])
        {
            Assert.Equal(Refused(2), test.Client.Send([.. command.Split(' '), .. names]));
        }

        // In a transaction nobody else is served between them either.
        string[] half = names[..(CommandEngine.KeysMax / 2)];
        Assert.Equal("+OK|", test.Client.Send("MULTI"));
        Assert.Equal("+QUEUED|", test.Client.Send(["CONFIG", "GET", .. half[1..]]));
        Assert.Equal(Refused(1), test.Client.Send(["CONFIG", "GET", .. half]));
        Assert.StartsWith("-EXECABORT", test.Client.Send("EXEC"), StringComparison.Ordinal);
        Assert.StartsWith("*2|", test.Client.Send(["CONFIG", "GET", "timeout", .. half]), StringComparison.Ordinal);
    }

    // The bytes are elsewhere each time, and cut at every place.
    [Fact]
    public void Request_CutAnywhere_IsExecutedAsIfWhole()
    {
        using var test = new TestEngine();
        string request = TestClient.Request(["MSET", .. Enumerable.Range(0, 40).SelectMany(i => new[] { $"k{i}", new string('v', i) })])
            + TestClient.Request("MGET", "k0", "k1", "k39") + "PING\r\n";
        byte[] bytes = Encoding.Latin1.GetBytes(request);
        for (int cut = 1; cut < bytes.Length; cut++)
        {
            using TestClient client = test.Connect();
            byte[] first = bytes[..cut];
            nint consumed;
            fixed (byte* at = first) { consumed = client.Connection.Execute(at, cut, client.Replies); }
            byte[] rest = bytes[(int)consumed..];
            fixed (byte* at = rest) { Assert.Equal(rest.Length, (int)client.Connection.Execute(at, rest.Length, client.Replies)); }
            Assert.Equal($"+OK\r\n*3\r\n$0\r\n\r\n$1\r\nv\r\n$39\r\n{new string('v', 39)}\r\n+PONG\r\n", client.TakeReplies());
        }
    }

    // As a channel gives it: what was not consumed is given again with what has come behind it, somewhere else.
    private static string InPieces(TestEngine test, int piece, string[] arguments)
    {
        byte[] bytes = Encoding.Latin1.GetBytes(TestClient.Request(arguments));
        for (int end = piece; ; end += piece)
        {
            byte[] come = bytes[..Math.Min(end, bytes.Length)];
            nint consumed;
            fixed (byte* at = come) { consumed = test.Client.Connection.Execute(at, come.Length, test.Client.Replies); }
            if (consumed == bytes.Length) return test.Client.TakeReplies();
            Assert.Equal(0, (int)consumed);
            Assert.True(end < bytes.Length, "the whole request was not executed");
        }
    }
}
