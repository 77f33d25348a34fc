// Clients that send much and mean little: what they cost has a bound, and others are served beside them.
using System.Net;
using System.Text.RegularExpressions;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Tests.Harness;

namespace Slogger.Proxy.Tests.FrontEnd;

[Collection(nameof(AloneInTheProcess))]
public sealed class FloodTests(BothTransports servers) : IClassFixture<BothTransports>
{
    private const int Megabyte = 1 << 20;

    // Each is within what one request may have; together they are not.
    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void RequestsThatNeverCome_TooMuchTogether_TheLargestIsClosed(TransportKind transport)
    {
        servers.Fresh(transport).Dispose();
        using TestProxy proxy = new(servers.Redis, transport,
            o => o with { ClientOutputLimitBytes = 16 * Megabyte, OutputMemoryLimitBytes = 16 * Megabyte });
        using RespConnection other = proxy.Connect(), largest = proxy.Connect(), blocked = proxy.Connect();
        // It waits, and is read on meanwhile.
        blocked.Send("BLPOP", "none", "0");
        RespConnection[] some = [.. Enumerable.Range(0, 8).Select(_ => proxy.Connect())];
        string begin = "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$60000000\r\n", piece = new('x', Megabyte);
        largest.SendRaw(begin + piece + piece + piece + piece);
        // Others are as large before all of it is read.
        var hasCome = new Regex($":{((IPEndPoint)largest.Socket.LocalEndPoint!).Port} .* qbuf=4194\\d{{3}} ");
        HeldLoop.Until(() => hasCome.IsMatch(other.Call("CLIENT", "LIST")));
        foreach (RespConnection client in some) { client.SendRaw(begin); }
        for (int i = 0; i < 3; i++)
        {
            foreach (RespConnection client in some)
            {
                try { client.SendRaw(piece); }
                catch (IOException) { /* Closed already. */ }
            }

            Assert.Equal("+PONG\r\n", other.Call("PING"));
        }

        Assert.Equal("", largest.ReadToEnd());
        Assert.Contains("requests that have arrived only in part take more than 16 MB", proxy.Log, StringComparison.Ordinal);
        Assert.Equal("+PONG\r\n", other.Call("PING"));
        other.Send("RPUSH", "none", "1");
        Assert.Equal(":1\r\n", other.Read());
        Assert.Equal("*2\r\n$4\r\nnone\r\n$1\r\n1\r\n", blocked.Read());
        foreach (RespConnection client in some) { client.Dispose(); }
    }

    // Whatever the pieces, what comes out is the request; long ones take another way than short ones.
    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void LongRequest_InPiecesOfAnySize_IsDoneOnce(TransportKind transport)
    {
        using RespConnection client = servers.Fresh(transport);
        using RespConnection proxied = servers.Proxy(transport).Connect();
        var random = new Random(7);
        foreach (int arguments in (int[])[2000, 5000, 30_000, 60_000])
        {
            string[] values = [.. Enumerable.Range(0, arguments).Select(i => $"v{i}")];
            foreach (string command in (string[])["RPUSH", "CONFIG", "MULTI"])
            {
                // One that streams, one that is held as a whole, and one that is refused.
                byte[] request = RespConnection.Request([command, command == "CONFIG" ? "GET" : "list", .. values]);
                int at = 0;
                while (at < request.Length)
                {
                    int count = Math.Min(random.Next(4) == 0 ? random.Next(1, 9) : random.Next(1, 9000), request.Length - at);
                    proxied.SendRaw(request.AsSpan(at, count));
                    at += count;
                }

                proxied.SendRaw(RespConnection.Request("LLEN", "list"));
                string first = proxied.Read();
                Assert.True(command switch { "RPUSH" => first == $":{arguments}\r\n", "CONFIG" => first == "*0\r\n", _ =>
                    first.StartsWith("-ERR wrong number", StringComparison.Ordinal) }, first);
                Assert.Equal($":{arguments}\r\n", proxied.Read());
            }

            Assert.Equal(":1\r\n", proxied.Call("DEL", "list"));
        }
    }

    // Redis executes what it has read before it writes what it owes, so that all replies asked for could lie there at once, before others'.
    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public async Task LargeReplies_AskedForWithoutReading_LieInRedisOnlyWithinTheBound(TransportKind transport)
    {
        const int Clients = 4, Requests = 1500, ValueBytes = 64 << 10;
        servers.Fresh(transport).Dispose();
        using TestProxy proxy = new(servers.Redis, transport, o => o);
        using RespConnection other = proxy.Connect(), direct = servers.Redis.Connect();
        other.Call("SET", "large", new string('x', ValueBytes));
        other.Call("SET", "small", "1");
        other.Send("GET", "large");
        Assert.Equal(ValueBytes, other.ReadBulkLength());
        RespConnection[] clients = [.. Enumerable.Range(0, Clients).Select(_ => proxy.Connect())];
        byte[] flood = [.. Enumerable.Repeat(RespConnection.Request("GET", "large"), Requests).SelectMany(r => r)];
        foreach (RespConnection client in clients) { client.SendRaw(flood); }
        // One reads after the other, so that the others do not for long.
        Task reading = Task.Run(() =>
        {
            foreach (RespConnection client in clients)
            {
                for (int i = 0; i < Requests; i++) { Assert.Equal(ValueBytes, client.ReadBulkLength()); }
            }
        });
        long most = 0;
        while (!reading.IsCompleted)
        {
            foreach (string field in direct.Call("CLIENT", "LIST").Split(' ').Where(f => f.StartsWith("omem=", StringComparison.Ordinal)))
            {
                most = Math.Max(most, long.Parse(field["omem=".Length..]));
            }
            Assert.Equal("$1\r\n1\r\n", other.Call("GET", "small"));
        }

        await reading;
        Assert.InRange(most, 0, 150L * Megabyte);
        foreach (RespConnection client in clients) { client.Dispose(); }
    }
}
