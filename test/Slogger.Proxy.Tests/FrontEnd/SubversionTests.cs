// Requests that would hit the shared connection as a whole if they reached it: the client that sends them is answered as by
// Redis, or closed as by Redis, and another, which shares with it, notices nothing.
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Tests.Harness;

namespace Slogger.Proxy.Tests.FrontEnd;

public sealed class SubversionTests(BothTransports servers) : IClassFixture<BothTransports>
{
    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void HttpRequest_AsABrowserSendsIt_ClosesOnlyThatClient(TransportKind transport)
    {
        using RespConnection other = servers.Fresh(transport);
        foreach (string request in (string[])["POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", "*1\r\n$4\r\npost\r\n",
            "*1\r\n$5\r\nHOST:\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"])
        {
            using RespConnection browser = servers.Proxy(transport).Connect();
            browser.SendRaw(request);
            string answer = browser.ReadToEnd();
            Assert.True(answer.Length == 0 || answer.StartsWith("-ERR wrong number", StringComparison.Ordinal), answer);
            Assert.Equal("+PONG\r\n", other.Call("PING"));
        }
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void Name_WithAZeroByte_IsNeverTakenForACommand(TransportKind transport)
    {
        // Redis compares names as C strings once the hashes meet, which some of these do.
        using RespConnection client = servers.Fresh(transport), other = servers.Proxy(transport).Connect();
        foreach (string name in (string[])["multi", "subscribe", "quit", "ping", "post", "select"])
        {
            for (int i = 0; i < 1000; i++) { client.Send($"{name}\0{i}", "1"); }
            for (int i = 0; i < 1000; i++)
            {
                Assert.Equal($"-ERR unknown command '{name}', with args beginning with: '1' \r\n", client.Read());
            }
            Assert.Equal("+PONG\r\n", other.Call("PING"));
        }
        client.Send("multi\0" + new string('x', 300));
        Assert.Equal("-ERR unknown command 'multi', with args beginning with: \r\n", client.Read());
        client.Call("MULTI");
        client.Call("ping\0");
        Assert.StartsWith("-EXECABORT", client.Call("EXEC"), StringComparison.Ordinal);
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void Option_WithAZeroByte_IsReadAsRedisReadsIt(TransportKind transport)
    {
        using RespConnection client = servers.Fresh(transport), other = servers.Proxy(transport).Connect();
        client.Send("XREAD", "BLOCK\0x", "300", "STREAMS", "s", "$");
        for (int i = 0; i < 50; i++) { Assert.Equal("+PONG\r\n", other.Call("PING")); }
        Assert.Equal("*-1\r\n", client.Read());
        client.Send("CLIENT", "REPLY", "OFF\0");
        client.Send("PING");
        client.Send("CLIENT", "REPLY", "ON\0");
        Assert.Equal("+OK\r\n", client.Read());
        Assert.Equal("+PONG\r\n", client.Call("PING"));
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void Malformed_Requests_AreAnsweredAsByRedisAndHarmNobody(TransportKind transport)
    {
        string[] malformed =
        [
            "*x\r\n", "*2147483648\r\n", "*1\r\n:1\r\n", "*1\r\n\r\n", "*1\r\n\xff\r\n", "*1\r\n$-1\r\n", "*1\r\n$x\r\n",
                "*2\r\n$3\r\nGET\r\n$-5\r\n", "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$99999999999\r\n",
            "*2\r\n$3\r\nGET\r\n$9223372036854775807\r\n", "*2\r\n$5\r\nMULTI\r\n$x\r\n", "GET 'a\r\n", "*1\r\n" + new string('$', 66_000),
        ];
        using RespConnection other = servers.Fresh(transport);
        foreach (string bytes in malformed)
        {
            using RespConnection client = servers.Proxy(transport).Connect(), raw = servers.Redis.Connect();
            client.SendRaw("*2\r\n$4\r\nECHO\r\n$1\r\na\r\n" + bytes);
            raw.SendRaw("*2\r\n$4\r\nECHO\r\n$1\r\na\r\n" + bytes);
            Assert.Equal(raw.ReadToEnd(), client.ReadToEnd());
            Assert.Equal("+PONG\r\n", other.Call("PING"));
        }
    }
}
