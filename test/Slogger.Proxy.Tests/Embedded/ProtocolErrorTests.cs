// Bytes that are no requests, held against redis-server: the embedded store behind the front end says the same of them, and closes when
// Redis does. Each is sent with a request behind it as well: whether that is answered tells whether the connection was closed.
using System.Net;
using System.Net.Sockets;
using System.Text;
using Slogger.Core.Shards;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Tests.Harness;

namespace Slogger.Proxy.Tests.Embedded;

public sealed class ProtocolErrorTests(ProtocolErrorTests.Servers servers) : IClassFixture<ProtocolErrorTests.Servers>
{
    private const int LineMax = 64 * 1024, LargeValue = 17 << 20;
    private const string Ping = "*1\r\n$4\r\nPING\r\n";

    public sealed class Servers : IDisposable
    {
        private readonly RedisServer _redis = new();
        private readonly TestProxy _proxy;

        public Servers() => _proxy = new TestProxy(_redis, TransportKind.Auto,
            o => o with { Redis = null, Commit = CommitMode.Faster, FasterMemoryBytes = 256 << 20 });

        public int RedisPort => _redis.Port;

        public int ProxyPort => _proxy.Port;

        public void Dispose()
        {
            _proxy.Dispose();
            _redis.Dispose();
        }
    }

    public static TheoryData<string> Requests =>
    [
        // Counts.
        "*\r\n", "*-1\r\n", "*-2147483648\r\n", "*0\r\n", "*-\r\n", "*-0\r\n", "*a\r\n", "*1a\r\n", "* 1\r\n", "*1 \r\n", "*+1\r\n",
            "*01\r\n", "*00\r\n", "*2147483647\r\n", "*2147483648\r\n",
        "*9223372036854775807\r\n", "*9223372036854775808\r\n", "*99999999999999999999999\r\n", "*1\n", "*1\r", "*1", "*", "*1\0\r\n",
            "*\0", "**1\r\n", "*1\rX$4\r\nPING\r\n",
        // Lengths.
        "*1\r\n$\r\n", "*1\r\n$-1\r\n", "*1\r\n$-2\r\n", "*1\r\n$a\r\n", "*1\r\n$4a\r\nPING\r\n", "*1\r\n$04\r\nPING\r\n",
            "*1\r\n$+4\r\nPING\r\n", "*1\r\n$ 4\r\nPING\r\n", "*1\r\n$4\nPING\r\n",
        "*2\r\n$4\r\nECHO\r\n$536870912\r\n", "*2\r\n$4\r\nECHO\r\n$536870913\r\n", "*2\r\n$4\r\nECHO\r\n$2147483648\r\n",
            "*1\r\n$9223372036854775808\r\n", "*1\r\n$99999999999999999999999\r\n", "*1\r\n$4\0\r\nPING\r\n", "*1\r\n$4\rXPING\r\n",
        "*1\r\n$4\r\nPINGXX", "*1\r\n$4\r\nPING", "*1\r\n$4\r\nPIN\r\n", "*1\r\n$3\r\nPING\r\n", "*1\r\n$5\r\nPING\r\n",
            "*1\r\n$0\r\n\r\n", "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n",
        // No length.
        "*1\r\n+4\r\nPING\r\n", "*1\r\n:4\r\nPING\r\n", "*1\r\nPING\r\n", "*1\r\n\r\n", "*1\r\n\n", "*1\r\n\0\r\n", "*1\r\n*1\r\n",
            "*1\r\n\xff\r\n", "*1\r\n'\r\n", "*1\r\n\\\r\n", "*1\r\nx", "*1\r\nx\r",
        "*2\r\n$4\r\nECHO\r\nx\r\n", "*2\r\n$4\r\nECHO\r\n$\r\n", "*2\r\n$4\r\nECHO\r\n$-1\r\n", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\nx\r\n",
            "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$-5\r\n", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n\n",
        // Lines.
        "PING\n", "PING\r\n", "PING\r\r\n", "\r\n", "\n", " \r\n", "\t\v\r\n", "  PING  \r\n", "\"PING\r\n", "'PING\r\n", "PING \"a\r\n",
            "PING 'a\r\n", "PING \"a\"b\r\n", "PING 'a'b\r\n", "PING \"a\" 'b\r\n",
        "PING a\"b\"\r\n", "ECHO \"\\x41\\n\\\"\"\r\n", "ECHO 'a\\'b'\r\n", "\"PING\"\r\n", "\"\"\r\n", "'' PING\r\n", "\0PING\r\n",
            "PING\0\r\n", "PI\0NG\r\n", "$4\r\nPING\r\n", "+PING\r\n", "-1\r\n", "PING\r", "PING",
        "POST / HTTP/1.1\r\n", "Host: x\r\n", "GET / HTTP/1.1\r\n", "\xff\xfe\r\n",
    ];

    [Theory]
    [MemberData(nameof(Requests))]
    public void Bytes_OfAnyKind_AreAnsweredAsByRedis(string bytes)
    {
        // Of what it takes for an attack Redis says nothing, nor what it owes: here what was asked before is answered.
        bool isAttack = bytes.StartsWith("POST", StringComparison.Ordinal) || bytes.StartsWith("Host:", StringComparison.Ordinal);
        foreach (string before in isAttack ? (string[])[""] : ["", Ping, "PING\r\n"])
        {
            foreach (string behind in (string[])["", Ping, "PING\r\n"]) { Check(before + bytes + behind); }
        }
    }

    [Fact]
    public void Lines_OfTheGreatestLength_AreAnsweredAsByRedis()
    {
        // Just at the limit Redis itself says one thing or the other, as the bytes come.
        foreach (int more in (int[])[-1000, 40_000])
        {
            string digits = new('1', LineMax + more);
            foreach (string start in (string[])["", "*", "*1\r\n$", "*1\r\n:", "*1\r\nx", "*2\r\n$4\r\nECHO\r\n$", "*2\r\n$4\r\nECHO\r\nx",
                "ECHO \""])
            {
                Check(start + digits);
                Check(Ping + start + digits);
            }
        }
    }

    // The store has no place for such a value, and passes it over; what is wrong behind it is told all the same.
    [Theory]
    [InlineData("x\r\n")]
    [InlineData("x")]
    [InlineData("\r\n")]
    [InlineData("\0\r\n")]
    [InlineData("$\r\n")]
    [InlineData("$-1\r\n")]
    [InlineData("$a\r\n")]
    [InlineData("$536870913\r\n")]
    [InlineData("1", LineMax + 40_000)]
    [InlineData("$1", LineMax + 40_000)]
    public void Bytes_BehindAValueThatIsTooLarge_AreAnsweredAsByRedis(string bytes, int digits = 0)
    {
        string value = new('v', LargeValue);
        Check($"*4\r\n$3\r\nSET\r\n$1\r\nk\r\n${LargeValue}\r\n{value}\r\n{bytes}{new string('1', digits)}");
    }

    // The line goes on, or never ends: nothing is answered, and nobody waits for it.
    [Theory]
    [InlineData("x")]
    [InlineData("x\0\r\n")]
    [InlineData("$\0\r\n")]
    public void Line_ThatHasNotEndedBehindALargeValue_HoldsUpNoCommit(string start)
    {
        using RespConnection broken = RespConnection.To(servers.ProxyPort), other = RespConnection.To(servers.ProxyPort);
        broken.SendRaw($"*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n{new string('v', 1_000_000)}\r\n{start}{new string('x', 100)}");
        for (int i = 0; i < 10; i++)
        {
            Assert.Equal("+OK\r\n", other.Call("SET", "k", $"{i}"));
            Assert.EndsWith(":1\r\n", other.Call("DPR.WAIT", "*", "20000"), StringComparison.Ordinal);
        }
    }

    [Fact]
    public void Requests_Mutilated_AreAnsweredAsByRedis()
    {
        string[] requests = [Ping, "PING\r\n", "*2\r\n$4\r\nECHO\r\n$5\r\nthere\r\n", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nvv\r\n",
            "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "ECHO \"a b\"\r\n", "ECHO 'x'\r\n", "*-1\r\n", "\r\n"];
        string[] pieces = ["*", "$", "\r", "\n", "\r\n", "-", "0", "1", "9", " ", "\"", "'", "\\", "\0", "x", "\xff", "*1\r\n", "$1\r\n",
            "999999999999"];
        for (int seed = 1; seed <= 1000; seed++)
        {
            var random = new Random(seed);
            var text = new StringBuilder("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n1\r\n");
            int from = text.Length;
            for (int i = random.Next(1, 5); i > 0; i--) { text.Append(requests[random.Next(requests.Length)]); }
            for (int i = random.Next(1, 4); i > 0; i--)
            {
                int at = random.Next(from, text.Length + 1);
                if (random.Next(3) > 0) { text.Insert(at, pieces[random.Next(pieces.Length)]); }
                if (at < text.Length && random.Next(2) > 0) { text.Remove(at, Math.Min(random.Next(1, 3), text.Length - at)); }
            }
            Check(text.ToString(), $"seed {seed}");
        }
    }

    private void Check(string request, string which = "")
    {
        string redis = Exchange(servers.RedisPort, request);
        // What is wrong is told, and the connection closed, also to who would send more.
        string store = Exchange(servers.ProxyPort, request, ends: !redis.Contains("Protocol error", StringComparison.Ordinal));
        if (redis != store) { Assert.Fail($"{which} {Show(request)}:\nRedis says {Show(redis)}\nthe store {Show(store)}"); }
    }

    // All that is answered until the connection is closed, be it because no more comes.
    private static string Exchange(int port, string request, bool ends = true)
    {
        try
        {
            return Answers(port, request, ends);
        }
        catch (SocketException e) when (e.SocketErrorCode == SocketError.TimedOut)
        {
            throw new TimeoutException(
                $"Nothing moved for {RespConnection.PatienceMilliseconds} ms. Another client was told:\n{State(port)}", e);
        }
    }

    // What the server says of its clients, and of itself, to one that comes now.
    private static string State(int port)
    {
        try
        {
            using RespConnection other = RespConnection.To(port);
            return other.Call("CLIENT", "LIST") + other.Call("INFO", "everything");
        }
        catch (Exception e) when (e is IOException or SocketException)
        {
            return e.Message;
        }
    }

    private static string Answers(int port, string request, bool ends)
    {
        using var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true,
            ReceiveTimeout = RespConnection.PatienceMilliseconds, SendTimeout = RespConnection.PatienceMilliseconds };
        socket.Connect(new IPEndPoint(IPAddress.Loopback, port));
        try
        {
            byte[] bytes = Encoding.Latin1.GetBytes(request);
            for (int sent = 0; sent < bytes.Length;) { sent += socket.Send(bytes.AsSpan(sent)); }
            if (ends) { socket.Shutdown(SocketShutdown.Send); }
        }
        catch (SocketException e) when (e.SocketErrorCode != SocketError.TimedOut)
        {
            // Closed before it has read all.
        }
        var replies = new StringBuilder();
        var buffer = new byte[65536];
        try
        {
            while (socket.Receive(buffer) is > 0 and int received) { replies.Append(Encoding.Latin1.GetString(buffer, 0, received)); }
        }
        catch (SocketException e) when (e.SocketErrorCode == SocketError.ConnectionReset)
        {
            // It had not read all.
        }
        return replies.ToString();
    }

    private static string Show(string text)
    {
        string shown = string.Concat(
            text.Select(c => c switch { '\r' => "\\r", '\n' => "\\n", < ' ' or > '~' => $"\\x{(int)c:x2}", _ => c.ToString() }));
        return shown.Length <= 400 ? $"[{shown}]" : $"[{shown[..200]}...{shown[^200..]}]";
    }
}
