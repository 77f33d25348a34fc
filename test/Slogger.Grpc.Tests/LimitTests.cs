// Limits: each is told by a status, and memory stays within them.
using System.Net;
using Google.Protobuf;
using Slogger.Grpc.Client;
using Slogger.Grpc.Server;
using Slogger.Grpc.Tests.Support;
using Slogger.Grpc.Tests.V1;

namespace Slogger.Grpc.Tests;

public sealed class LimitTests
{
    private static readonly global::Grpc.Core.Method<Message, Message> Gated = EchoServer.Named("Gated");

    private static async Task<RpcException> FailsAsync(Func<Task> what) =>
        await Assert.ThrowsAsync<RpcException>(() => what().WaitAsync(EchoServer.Guard));

    private static Message Of(int bytes) => new() { Payload = UnsafeByteOperations.UnsafeWrap(new byte[bytes]) };

    [Fact]
    public async Task Message_TooLargeForTheServer_IsResourceExhausted()
    {
        await using EchoServer server = await EchoServer.StartAsync(EchoServer.Local with { MessageBytesMax = 10_000 });
        using GrpcChannel channel = server.Channel();
        int fits = 10_000 - (Of(9_000).CalculateSize() - 9_000);
        Assert.Equal(fits, (await channel.CallAsync(EchoServer.Unary, Of(fits))).Payload.Length);
        RpcException e = await FailsAsync(() => channel.CallAsync(EchoServer.Unary, Of(fits + 1)));
        Assert.Equal(StatusCode.ResourceExhausted, e.Code);
        Assert.Equal(StatusCode.ResourceExhausted, (await FailsAsync(() => channel.CallAsync(EchoServer.Unary, Of(50_000_000)))).Code);
    }

    [Fact]
    public async Task Message_TooLargeForTheCaller_IsResourceExhaustedAndTheHandlerHears()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        using GrpcChannel channel = server.Channel(new() { MessageBytesMax = 10_000 });
        await using var call = channel.Open(EchoServer.Chat);
        Assert.True(await call.WriteAsync(Of(20_000)));
        Assert.Equal(StatusCode.ResourceExhausted, (await FailsAsync(async () => await call.ReadAsync())).Code);
        await server.FirstCancelled;
    }

    [Fact]
    public async Task Message_SmallButHugeWhenUnpacked_IsResourceExhausted()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        using GrpcChannel channel = server.Channel();
        // 100 MB of zeros are 100 KB of gzip.
        RpcException e = await FailsAsync(() => channel.CallAsync(EchoServer.Unary, Of(100_000_000), new() { IsGzip = true }));
        Assert.Equal(StatusCode.ResourceExhausted, e.Code);
    }

    [Fact]
    public async Task Calls_OneTooMany_IsResourceExhaustedUntilOneEnds()
    {
        await using EchoServer server = await EchoServer.StartAsync(EchoServer.Local with { CallsMax = 3 });
        using GrpcChannel channel = server.Channel();
        var calls = new List<ClientCall<Message, Message>>();
        for (int i = 0; i < 3; i++)
        {
            calls.Add(channel.Open(EchoServer.Chat));
            await calls[i].HeadersAsync();
        }
        for (int i = 0; i < 30; i++)
        {
            RpcException e = await FailsAsync(() => channel.CallAsync(EchoServer.Unary, new()));
            Assert.Equal((StatusCode.ResourceExhausted, "more than 3 calls"), (e.Code, e.Detail));
        }
        Assert.True(await calls[0].CompleteAsync());
        Assert.Null(await calls[0].ReadAsync());
        while (server.Server.Calls == 3) { await Task.Delay(1); }
        await channel.CallAsync(EchoServer.Unary, new());
        foreach (ClientCall<Message, Message> call in calls) { await call.DisposeAsync(); }
    }

    [Fact]
    public async Task Connections_OneTooMany_IsResourceExhaustedUntilOneCloses()
    {
        await using EchoServer server = await EchoServer.StartAsync(EchoServer.Local with { ConnectionsMax = 2 });
        using GrpcChannel first = server.Channel(), third = server.Channel();
        GrpcChannel second = server.Channel();
        await first.CallAsync(EchoServer.Unary, new());
        await second.CallAsync(EchoServer.Unary, new());
        RpcException e = await FailsAsync(() => third.CallAsync(EchoServer.Unary, new()));
        Assert.Equal((StatusCode.ResourceExhausted, "more than 2 connections"), (e.Code, e.Detail));
        second.Dispose();
        // The refused connection is not kept: there is room as soon as the server has seen the second one close.
        using var guard = new CancellationTokenSource(EchoServer.Guard);
        while (true)
        {
            guard.Token.ThrowIfCancellationRequested();
            try { await third.CallAsync(EchoServer.Unary, new()); break; }
            catch (RpcException again) { Assert.True(again.Code is StatusCode.ResourceExhausted or StatusCode.Unavailable, again.Message); }
        }
    }

    [Fact]
    public async Task SlowReader_AtTheServer_BoundsWhatTheCallerMaySend()
    {
        const int window = 1 << 18, size = 1 << 14, count = 2000;
        var gate = new SemaphoreSlim(0);
        long read = 0;
        await using EchoServer server = await EchoServer.StartAsync(
            EchoServer.Local with { WindowBytes = window }, s => s.Add(Gated, async call =>
        {
            while (true)
            {
                await gate.WaitAsync(call.Cancellation);
                if (await call.ReadAsync() is null) { return; }
                Interlocked.Add(ref read, size);
            }
        }));
        using GrpcChannel channel = server.Channel();
        await using var call = channel.Open(Gated);
        long written = 0, ahead = 0;
        Message message = Of(size);
        Task writing = Task.Run(async () =>
        {
            for (int i = 0; i < count; i++)
            {
                Assert.True(await call.WriteAsync(message));
                ahead = Math.Max(ahead, Interlocked.Add(ref written, size) - Interlocked.Read(ref read));
            }
            Assert.True(await call.CompleteAsync());
        });
        await StuckAsync(() => Interlocked.Read(ref written), writing);
        Assert.False(writing.IsCompleted, "everything was taken, though nothing was read");
        gate.Release(count + 1);
        await writing.WaitAsync(EchoServer.Guard);
        Assert.Null(await call.ReadAsync());
        Assert.Equal((long)size * count, Interlocked.Read(ref read));
        // The window; what the reader holds before it gives it back; one message on its way.
        Assert.InRange(ahead, 0, window + (256 << 10) + 4 * size);
    }

    [Fact]
    public async Task SlowReader_AtTheCaller_BoundsWhatTheServerMaySend()
    {
        const int window = 1 << 18, size = 1 << 14, count = 2000;
        long written = 0, read = 0;
        await using EchoServer server = await EchoServer.StartAsync(more: s => s.Add(Gated, async call =>
        {
            Message message = Of(size);
            for (int i = 0; i < count; i++)
            {
                await call.WriteAsync(message);
                Interlocked.Add(ref written, size);
            }
        }));
        using GrpcChannel channel = server.Channel(new() { WindowBytes = window });
        await using var call = channel.Open(Gated);
        Assert.True(await call.CompleteAsync());
        await StuckAsync(() => Interlocked.Read(ref written), Task.Delay(EchoServer.Guard));
        // HttpClient's window, Kestrel's buffers of a stream and a connection. (When it is read HttpClient may raise its window.)
        Assert.InRange(Interlocked.Read(ref written), size, window + (256 << 10));
        while (await call.ReadAsync() is not null) { read += size; }
        Assert.Equal((long)size * count, read);
    }

    [Fact]
    public async Task Handler_ThatIsSlow_HoldsUpNoOtherCall()
    {
        await using EchoServer server = await EchoServer.StartAsync(
            EchoServer.Local with { WindowBytes = 1 << 18 }, s =>
                s.Add(Gated, async call => await Task.Delay(Timeout.Infinite, call.Cancellation)));
        using GrpcChannel channel = server.Channel();
        await using var stuck = channel.Open(Gated);
        // A window full on one stream; others are read meanwhile, many times what the connection has room for.
        Task writing = Task.Run(async () => { while (await stuck.WriteAsync(Of(1 << 14))) { } });
        for (int i = 0; i < 50; i++)
        {
            Assert.Equal(60_000, (await channel.CallAsync(EchoServer.Unary, Of(60_000)).WaitAsync(EchoServer.Guard)).Payload.Length);
        }
        await stuck.DisposeAsync();
        await writing.WaitAsync(EchoServer.Guard);
    }

    // Until nothing has moved for a while. That a slow machine takes a pause for the end makes a test weaker, not fail.
    private static async Task StuckAsync(Func<long> progress, Task over)
    {
        for (long last = -1, now = progress(); (now != last || now == 0) && !over.IsCompleted; now = progress())
        {
            last = now;
            await Task.WhenAny(Task.Delay(200), over);
        }
    }
}
