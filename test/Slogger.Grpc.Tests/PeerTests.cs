// Peers that do not keep the protocol, or are lost anywhere in it: a server goes on serving others and keeps nothing of them, a caller
// gets a status and nothing else.
using System.Net;
using System.Net.Sockets;
using System.Text;
using Slogger.Grpc.Client;
using Slogger.Grpc.Tests.Support;
using Slogger.Grpc.Tests.V1;

namespace Slogger.Grpc.Tests;

public sealed class PeerTests(ITestOutputHelper output)
{
    private static readonly int Seed = int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_TEST_SEED"), out int seed) ? seed
        : Environment.TickCount;

    [Fact]
    public async Task Server_HearsHttp1OrNoise_GoesOnAndClosesThem()
    {
        output.WriteLine($"SLOGGER_TEST_SEED={Seed}");
        await using EchoServer server = await EchoServer.StartAsync();
        var random = new Random(Seed);
        await SpeakAsync(server.Port, Encoding.ASCII.GetBytes("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
        for (int i = 0; i < 100; i++)
        {
            byte[] noise = new byte[random.Next(1, 5000)];
            random.NextBytes(noise);
            await SpeakAsync(server.Port, i % 2 == 0 ? noise : [.. "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"u8, .. noise]);
        }
        await ServesAsync(server);
    }

    [Fact]
    public async Task Server_CallerIsCutOffAfterAnyByte_KeepsNothingOfIt()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        byte[] said = (await RecordAsync(server)).FromClient;
        for (int length = 0; length <= said.Length; length++) { await SpeakAsync(server.Port, said.AsMemory(0, length)); }
        await ServesAsync(server);
    }

    [Fact]
    public async Task Server_BytesAreChanged_GoesOn()
    {
        output.WriteLine($"SLOGGER_TEST_SEED={Seed}");
        await using EchoServer server = await EchoServer.StartAsync();
        byte[] said = (await RecordAsync(server)).FromClient;
        var random = new Random(Seed);
        for (int i = 0; i < 1000; i++)
        {
            byte[] changed = [.. said];
            for (int n = random.Next(1, 4); n > 0; n--) { changed[random.Next(24, changed.Length)] = (byte)random.Next(256); }
            await SpeakAsync(server.Port, changed);
        }
        await ServesAsync(server);
    }

    [Fact]
    public async Task Caller_ServerIsCutOffAfterAnyByte_GetsAStatus()
    {
        byte[] said;
        await using (EchoServer server = await EchoServer.StartAsync()) { said = (await RecordAsync(server)).FromServer; }
        int succeeded = 0;
        for (int length = 0; length <= said.Length; length++)
        {
            StatusCode code = await CallScriptedAsync(said.AsMemory(0, length));
            Assert.True(code is StatusCode.Unavailable or StatusCode.OK, $"cut after {length} bytes: {code}");
            if (code == StatusCode.OK) { succeeded++; }
        }
        // Whole, or up to what is nobody's reply any more (a window's update, a ping); never without the end of the stream.
        Assert.InRange(succeeded, 1, 60);
    }

    [Fact]
    public async Task Caller_BytesAreChanged_GetsAStatusOrAReply()
    {
        output.WriteLine($"SLOGGER_TEST_SEED={Seed}");
        byte[] said;
        await using (EchoServer server = await EchoServer.StartAsync()) { said = (await RecordAsync(server)).FromServer; }
        var random = new Random(Seed);
        for (int i = 0; i < 500; i++)
        {
            byte[] changed = [.. said];
            for (int n = random.Next(1, 4); n > 0; n--) { changed[random.Next(changed.Length)] = (byte)random.Next(256); }
            await CallScriptedAsync(changed);
        }
    }

    [Theory]
    [InlineData("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi")]
    [InlineData("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")]
    [InlineData("-ERR unknown command 'PRI'\r\n")]
    public async Task Caller_ServerSpeaksSomethingElse_IsUnavailable(string text) =>
        Assert.Equal(StatusCode.Unavailable, await CallScriptedAsync(Encoding.ASCII.GetBytes(text)));

    [Fact]
    public async Task Server_BodyEndsWithinAMessage_IsInternal()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        Assert.Equal("13", await PostAsync(server, [0, 0, 0, 0, 9, 1, 2]));
        Assert.Equal("13", await PostAsync(server, [0, 0, 0]));
        Assert.Equal("13", await PostAsync(server, []));
        Assert.Equal("13", await PostAsync(server, [7, 0, 0, 0, 0]));
        Assert.Equal("13", await PostAsync(server, [0, 0, 0, 0, 1, 0xff]));
        Assert.Equal("13", await PostAsync(server, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
        Assert.Equal("8", await PostAsync(server, [0, 0x7f, 0xff, 0xff, 0xff]));
        Assert.Equal("0", await PostAsync(server, [0, 0, 0, 0, 0]));
    }

    [Fact]
    public async Task Server_CompressedInAnUnknownOrUnnamedWay_SaysSo()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        Assert.Equal("12", await PostAsync(server, [1, 0, 0, 0, 1, 0], ("grpc-encoding", "snappy")));
        Assert.Equal("13", await PostAsync(server, [1, 0, 0, 0, 1, 0]));
        Assert.Equal("13", await PostAsync(server, [1, 0, 0, 0, 1, 0], ("grpc-encoding", "gzip")));
        Assert.Equal("0", await PostAsync(server, [0, 0, 0, 0, 0], ("grpc-encoding", "gzip")));
    }

    [Fact]
    public async Task Server_NotAskedAsGrpcAsks_AnswersWithHttpStatus()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        Assert.Equal("HTTP 415", await PostAsync(server, [], ("content-type", "application/json")));
        Assert.Equal("HTTP 415", await PostAsync(server, [], ("content-type", "application/grpcweb")));
        Assert.Equal("HTTP 405", await PostAsync(server, [], (":method", "PUT")));
    }

    private static async Task<string> PostAsync(EchoServer server, byte[] body, params (string Key, string Value)[] headers)
    {
        using var http = new HttpMessageInvoker(new SocketsHttpHandler());
        string method = headers.FirstOrDefault(h => h.Key == ":method").Value ?? "POST";
        var request = new HttpRequestMessage(new HttpMethod(method),
            $"http://127.0.0.1:{server.Port}{EchoServer.Unary.FullName}") { Version = HttpVersion.Version20,
                VersionPolicy = HttpVersionPolicy.RequestVersionExact, Content = new ByteArrayContent(body) };
        request.Content.Headers.TryAddWithoutValidation("content-type", headers.FirstOrDefault(h => h.Key == "content-type").Value
            ?? "application/grpc");
        foreach ((string key, string value) in headers.Where(
            h => h.Key.StartsWith("grpc-", StringComparison.Ordinal))) { request.Headers.TryAddWithoutValidation(key, value); }
        using HttpResponseMessage response = await http.SendAsync(request, CancellationToken.None).WaitAsync(EchoServer.Guard);
        await response.Content.ReadAsByteArrayAsync();
        return response.StatusCode == HttpStatusCode.OK
            ? Assert.Single((response.Headers.Contains("grpc-status") ? response.Headers : response.TrailingHeaders).GetValues(
            "grpc-status")) : $"HTTP {(int)response.StatusCode}";
    }

    /// <summary>A small conversation, byte for byte.</summary>
    private static async Task<(byte[] FromClient, byte[] FromServer)> RecordAsync(EchoServer server)
    {
        using var relay = new Relay(server.Port);
        using var channel = new GrpcChannel("127.0.0.1", relay.Port);
        await channel.CallAsync(EchoServer.Unary, new() { Number = 1, Text = "hello" });
        lock (relay.FromClient) { lock (relay.FromServer) { return (relay.FromClient.ToArray(), relay.FromServer.ToArray()); } }
    }

    /// <summary>Says this, hears what comes, and hangs up.</summary>
    private static async Task SpeakAsync(int port, ReadOnlyMemory<byte> what)
    {
        using var socket = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        await socket.ConnectAsync(IPAddress.Loopback, port);
        try
        {
            await socket.SendAsync(what);
            socket.Shutdown(SocketShutdown.Send);
            byte[] buffer = new byte[4096];
            using var guard = new CancellationTokenSource(EchoServer.Guard);
            while (await socket.ReceiveAsync(buffer, guard.Token) > 0) { }
        }
        catch (SocketException)
        {
            // It was closed while we spoke.
        }
    }

    private static async Task ServesAsync(EchoServer server)
    {
        using GrpcChannel channel = server.Channel();
        Assert.Equal(7, (await channel.CallAsync(EchoServer.Unary, new() { Number = 7 }).WaitAsync(EchoServer.Guard)).Number);
        using var guard = new CancellationTokenSource(EchoServer.Guard);
        while (server.Server.Calls > 0) { await Task.Delay(5, guard.Token); }
    }

    /// <summary>A call to somebody who says this, whatever he hears, and hangs up.</summary>
    private static async Task<StatusCode> CallScriptedAsync(ReadOnlyMemory<byte> script)
    {
        using var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        using var channel = new GrpcChannel("127.0.0.1", ((IPEndPoint)listener.LocalEndpoint).Port);
        Task<Message> call = channel.CallAsync(EchoServer.Unary, new() { Number = 1, Text = "hello" });
        using (Socket socket = await listener.AcceptSocketAsync())
        {
            try
            {
                using var guard = new CancellationTokenSource(EchoServer.Guard);
                byte[] heard = new byte[4096];
                // An answer to what was not asked yet would be another fault.
                int length = 0;
                while (!IsAsked(heard.AsSpan(0, length))) { length += await socket.ReceiveAsync(heard.AsMemory(length), guard.Token); }
                await socket.SendAsync(script);
                socket.Shutdown(SocketShutdown.Send);
                while (await socket.ReceiveAsync(heard, guard.Token) > 0) { }
            }
            catch (SocketException)
            {
                // The caller has had enough.
            }
        }
        listener.Stop();
        try
        {
            await call.WaitAsync(EchoServer.Guard);
            return StatusCode.OK;
        }
        catch (RpcException e)
        {
            return e.Code;
        }
    }

    /// <summary>Whether the end of the first stream is among these frames.</summary>
    internal static bool IsAsked(ReadOnlySpan<byte> said)
    {
        for (int at = 24; at + 9 <= said.Length; at += 9 + (said[at] << 16 | said[at + 1] << 8 | said[at + 2]))
        {
            (byte type, byte flags, byte stream) = (said[at + 3], said[at + 4], said[at + 8]);
            if (type == 0 && (flags & 1) == 1 && stream == 1) { return true; }
        }
        return false;
    }

    // The runtime asks a connection that has just come about for its other end, and is told that there is none.
    [Fact]
    public async Task Call_ConnectionsResetAtOnce_IsUnavailable()
    {
        var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        Task resetting = Task.Run(async () =>
        {
            try
            {
                while (true) { (await listener.AcceptSocketAsync()).Close(0); }
            }
            // It was stopped.
            catch (Exception e) when (e is SocketException or InvalidOperationException) { }
        });
        await Parallel.ForEachAsync(Enumerable.Range(0, 2000), new ParallelOptions { MaxDegreeOfParallelism = 16 }, async (_, _) =>
        {
            using var channel = new GrpcChannel("127.0.0.1", ((IPEndPoint)listener.LocalEndpoint).Port);
            RpcException failed = await Assert.ThrowsAsync<RpcException>(() => channel.CallAsync(EchoServer.Unary, new()));
            Assert.Equal(StatusCode.Unavailable, failed.Code);
        });
        listener.Stop();
        await resetting;
    }
}
