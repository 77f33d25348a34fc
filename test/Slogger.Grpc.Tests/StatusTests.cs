// How calls end, and that both sides are told: statuses, deadlines, calls that are given up, servers that stop.
using System.Net;
using Google.Protobuf;
using Slogger.Grpc.Client;
using Slogger.Grpc.Server;
using Slogger.Grpc.Tests.Support;
using Slogger.Grpc.Tests.V1;
using Slogger.TestSupport;

namespace Slogger.Grpc.Tests;

public sealed class StatusTests
{
    private static async Task<RpcException> FailsAsync(Func<Task> what) =>
        await Assert.ThrowsAsync<RpcException>(() => what().WaitAsync(EchoServer.Guard));

    [Fact]
    public async Task Handler_EndsWithAnyStatus_CallerSeesItWithTextAndTrailers()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        using GrpcChannel channel = server.Channel();
        for (int code = 1; code <= 16; code++)
        {
            RpcException e = await FailsAsync(
                () => channel.CallAsync(EchoServer.Unary, new() { FailWith = code, Text = $"100% größer\n{code}" }));
            Assert.Equal(((StatusCode)code, $"100% größer\n{code}", "yes"), (e.Code, e.Detail, e.Trailers.GetValue("failed")));
        }
        Assert.Equal(1, (await channel.CallAsync(EchoServer.Unary, new() { Number = 1 })).Number);
    }

    [Fact]
    public async Task Handler_FailsUnexpectedly_IsUnknownAndTellsNothing()
    {
        var failing = EchoServer.Named("Fails");
        await using EchoServer server = await EchoServer.StartAsync(
            more: s => s.AddUnary(failing, (_, _) => throw new InvalidOperationException("secret")));
        using GrpcChannel channel = server.Channel();
        RpcException e = await FailsAsync(() => channel.CallAsync(failing, new()));
        Assert.Equal(StatusCode.Unknown, e.Code);
        Assert.DoesNotContain("secret", e.ToString(), StringComparison.Ordinal);
    }

    [Fact]
    public async Task Method_NotThere_IsUnimplemented()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        using GrpcChannel channel = server.Channel();
        Assert.Equal(StatusCode.Unimplemented,
            (await FailsAsync(() => channel.CallAsync(EchoServer.Named("Unary", "slogger.test.v1.Other"), new()))).Code);
    }

    [Fact]
    public async Task Chat_FailsWhileWriting_WriterIsToldToReadAndReaderSeesTheStatus()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        using GrpcChannel channel = server.Channel();
        await using var call = channel.Open(EchoServer.Chat);
        Assert.True(await call.WriteAsync(new() { FailWith = (int)StatusCode.FailedPrecondition, Text = "not now" }));
        ByteString payload = ByteString.CopyFrom(new byte[100_000]);
        using var guard = new CancellationTokenSource(EchoServer.Guard);
        while (await call.WriteAsync(new() { Payload = payload })) { guard.Token.ThrowIfCancellationRequested(); }
        for (int i = 0; i < 3; i++)
        {
            RpcException e = await FailsAsync(async () => await call.ReadAsync());
            Assert.Equal((StatusCode.FailedPrecondition, "not now"), (e.Code, e.Detail));
        }
        Assert.False(await call.WriteAsync(new()));
    }

    [Fact]
    public async Task Unary_RequestRefusedBeforeItIsRead_StatusArrives()
    {
        await using EchoServer server = await EchoServer.StartAsync(EchoServer.Local with { WindowBytes = 1 << 16 });
        using GrpcChannel channel = server.Channel();
        var nowhere = EchoServer.Named("Nowhere");
        Message large = new() { Payload = ByteString.CopyFrom(new byte[3_000_000]) };
        for (int i = 0; i < 20; i++)
        {
            Assert.Equal(StatusCode.Unimplemented, (await FailsAsync(() => channel.CallAsync(nowhere, large))).Code);
        }
    }

    [Fact]
    public async Task Deadline_Passes_BothSidesGiveUp()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        using GrpcChannel channel = server.Channel();
        var soon = new CallOptions { Timeout = TimeSpan.FromMilliseconds(100) };
        Assert.Equal(StatusCode.DeadlineExceeded,
            (await FailsAsync(() => channel.CallAsync(EchoServer.Unary, new() { Wait = true }, soon))).Code);
        // Until one has reached its handler in its time.
        for (int ms = 200; Volatile.Read(ref server.Begun) == 0; ms *= 2)
        {
            await using var call = channel.Open(EchoServer.Chat, new() { Timeout = TimeSpan.FromMilliseconds(ms) });
            Assert.Equal(StatusCode.DeadlineExceeded, (await FailsAsync(async () => await call.ReadAsync())).Code);
            Assert.False(await call.WriteAsync(new()));
        }
        await server.FirstCancelled;
    }

    [Fact]
    public async Task Deadline_OverBeforeTheCall_IsDeadlineExceeded()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        using GrpcChannel channel = server.Channel();
        for (int i = 0; i < 300; i++)
        {
            Assert.Equal(StatusCode.DeadlineExceeded,
                (await FailsAsync(() => channel.CallAsync(EchoServer.Unary, new(), new() { Timeout = TimeSpan.Zero }))).Code);
        }
    }

    [Fact]
    public async Task Deadline_KnownToTheServerOnly_ComesAsItsStatus()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        // Past this library's client, which would be as fast.
        using var http = new HttpMessageInvoker(new SocketsHttpHandler());
        var request = new HttpRequestMessage(HttpMethod.Post,
            $"http://127.0.0.1:{server.Port}{EchoServer.Unary.FullName}") { Version = HttpVersion.Version20,
                VersionPolicy = HttpVersionPolicy.RequestVersionExact, Content = new ByteArrayContent([0, 0, 0, 0, 2, 0x20, 1]) };
        request.Content.Headers.TryAddWithoutValidation("content-type", "application/grpc+proto");
        request.Headers.TryAddWithoutValidation("grpc-timeout", "50m");
        using HttpResponseMessage response = await http.SendAsync(request, CancellationToken.None).WaitAsync(EchoServer.Guard);
        Assert.Empty(await response.Content.ReadAsByteArrayAsync());
        Assert.Equal("4", Assert.Single(
            (response.Headers.Contains("grpc-status") ? response.Headers : response.TrailingHeaders).GetValues("grpc-status")));
    }

    [Fact]
    public async Task Cancellation_ByTheCaller_IsCancelledAndTheHandlerHears()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        using GrpcChannel channel = server.Channel();
        using var given = new CancellationTokenSource();
        await using var call = channel.Open(EchoServer.Chat, new() { Cancellation = given.Token });
        await call.HeadersAsync();
        ValueTask<Message?> reading = call.ReadAsync();
        await given.CancelAsync();
        Assert.Equal(StatusCode.Cancelled, (await FailsAsync(async () => await reading)).Code);
        await server.FirstCancelled;
    }

    [Fact]
    public async Task Cancellation_WhileNobodyReadsOrWrites_TheHandlerHears()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        using GrpcChannel channel = server.Channel();
        using var given = new CancellationTokenSource();
        await using var call = channel.Open(EchoServer.Chat, new() { Cancellation = given.Token });
        await call.HeadersAsync();
        await given.CancelAsync();
        await server.FirstCancelled;
    }

    [Fact]
    public async Task Cancellation_AfterHalfClose_TheHandlerHears()
    {
        // Whether the end of the requests is on its way when the call is given up is a race: some of each.
        for (int i = 0; i < 30; i++)
        {
            await using EchoServer server = await EchoServer.StartAsync();
            using GrpcChannel channel = server.Channel();
            using var given = new CancellationTokenSource();
            await using var call = channel.Open(EchoServer.Chat, new() { Cancellation = given.Token });
            Assert.True(await call.WriteAsync(new() { Wait = true }));
            Assert.True(await call.CompleteAsync());
            await call.HeadersAsync();
            if (i % 2 == 0) { await Task.Delay(5); }
            ValueTask<Message?> reading = call.ReadAsync();
            await given.CancelAsync();
            Assert.Equal(StatusCode.Cancelled, (await FailsAsync(async () => await reading)).Code);
            await server.FirstCancelled;
        }
    }

    [Fact]
    public async Task Disposal_BeforeTheEnd_GivesTheCallUp()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        using GrpcChannel channel = server.Channel();
        await using (var call = channel.Open(EchoServer.Chat)) { await call.HeadersAsync(); }
        await server.FirstCancelled;
    }

    [Fact]
    public async Task Disposal_UnderAReaderAndAWriter_TellsThem()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        using GrpcChannel channel = server.Channel();
        for (int i = 0; i < 200; i++)
        {
            var call = channel.Open(EchoServer.Chat);
            await call.HeadersAsync();
            Task reading = Task.Run(async () => { while (await call.ReadAsync() is not null) { } });
            Task writing = Task.Run(async () => { while (await call.WriteAsync(new() { Number = i })) { } });
            if (i % 2 == 0) { await Task.Yield(); }
            await call.DisposeAsync();
            await call.DisposeAsync();
            Assert.Equal(StatusCode.Cancelled, (await FailsAsync(() => reading)).Code);
            await writing.WaitAsync(EchoServer.Guard);
        }
    }

    [Fact]
    public async Task Cancellation_ByTheServer_IsCancelled()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        using GrpcChannel channel = server.Channel();
        await using var call = channel.Open(EchoServer.Chat);
        Assert.True(await call.WriteAsync(new() { FailWith = (int)StatusCode.Cancelled }));
        Assert.Equal(StatusCode.Cancelled, (await FailsAsync(async () => await call.ReadAsync())).Code);
    }

    [Fact]
    public async Task Stop_WithCallsUnderWay_EndsThemWithUnavailable()
    {
        EchoServer server = await EchoServer.StartAsync();
        await using (server)
        {
            using GrpcChannel channel = server.Channel();
            await using var call = channel.Open(EchoServer.Chat);
            await call.HeadersAsync();
            ValueTask<Message?> reading = call.ReadAsync();
            await server.Server.StopAsync(CancellationToken.None).WaitAsync(EchoServer.Guard);
            // With the server's words, or with HttpClient's where it sees the end of the connection first.
            Assert.Equal(StatusCode.Unavailable, (await FailsAsync(async () => await reading)).Code);
            Assert.Equal(StatusCode.Unavailable, (await FailsAsync(() => channel.CallAsync(EchoServer.Unary, new()))).Code);
        }
    }

    [Fact]
    public async Task Server_NotThere_IsUnavailable_AndReachedWhenItIs()
    {
        int port = TestPorts.Next();
        using var channel = new GrpcChannel("127.0.0.1", port);
        Assert.Equal(StatusCode.Unavailable, (await FailsAsync(() => channel.CallAsync(EchoServer.Unary, new()))).Code);
        await using (var call = channel.Open(EchoServer.Chat))
        {
            Assert.False(await call.WriteAsync(new()));
            Assert.Equal(StatusCode.Unavailable, (await FailsAsync(async () => await call.HeadersAsync())).Code);
            Assert.Equal(StatusCode.Unavailable, (await FailsAsync(async () => await call.ReadAsync())).Code);
        }
        await using EchoServer server = await EchoServer.StartAsync(EchoServer.Local with { Listen = new(IPAddress.Loopback, port) });
        Assert.Equal(7, (await channel.CallAsync(EchoServer.Unary, new() { Number = 7 })).Number);
    }

    [Fact]
    public async Task Connection_Breaks_IsUnavailableAndTheNextCallConnectsAgain()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        using var relay = new Relay(server.Port);
        using var channel = new GrpcChannel("127.0.0.1", relay.Port);
        await using (var call = channel.Open(EchoServer.Chat))
        {
            await call.HeadersAsync();
            relay.Cut();
            Assert.Equal(StatusCode.Unavailable, (await FailsAsync(async () => await call.ReadAsync())).Code);
            Assert.False(await call.WriteAsync(new()));
        }
        await server.FirstCancelled;
        Assert.Equal(7, (await channel.CallAsync(EchoServer.Unary, new() { Number = 7 })).Number);
    }

    [Fact]
    public async Task Peer_FallsSilent_BothSidesNotice()
    {
        await using EchoServer server = await EchoServer.StartAsync(
            EchoServer.Local with { PingAfter = TimeSpan.FromSeconds(1), PingTimeout = TimeSpan.FromSeconds(1) });
        using var relay = new Relay(server.Port);
        using var channel = new GrpcChannel("127.0.0.1", relay.Port,
            new() { PingAfter = TimeSpan.FromSeconds(1), PingTimeout = TimeSpan.FromSeconds(1) });
        await using var call = channel.Open(EchoServer.Chat);
        await call.HeadersAsync();
        relay.FallSilent();
        Assert.Equal(StatusCode.Unavailable, (await FailsAsync(async () => await call.ReadAsync())).Code);
        await server.FirstCancelled;
    }
}
