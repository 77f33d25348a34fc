// Calls between both halves of this library: what is said arrives, in both directions at once, and ends as one side says.
using Google.Protobuf;
using Slogger.Grpc.Client;
using Slogger.Grpc.Tests.Support;
using Slogger.Grpc.Tests.V1;

namespace Slogger.Grpc.Tests;

public sealed class CallTests
{
    [Fact]
    public async Task Unary_Succeeds_RepliesWithWhatWasAsked()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        using GrpcChannel channel = server.Channel();
        for (int i = 0; i < 100; i++)
        {
            Message reply = await channel.CallAsync(EchoServer.Unary, new() { Number = i, Text = "grüße" });
            Assert.Equal((i, "grüße"), (reply.Number, reply.Text));
        }
    }

    [Fact]
    public async Task Chat_MessagesBothWays_ArriveInOrder()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        using GrpcChannel channel = server.Channel();
        await using var call = channel.Open(EchoServer.Chat);
        const int count = 5000;
        Task writing = Task.Run(async () =>
        {
            for (int i = 0; i < count; i++) { Assert.True(await call.WriteAsync(new() { Number = i })); }
            Assert.True(await call.CompleteAsync());
        });
        for (int i = 0; i < count; i++) { Assert.Equal(i, (await call.ReadAsync())!.Number); }
        Assert.Null(await call.ReadAsync());
        Assert.Null(await call.ReadAsync());
        await writing;
    }

    [Fact]
    public async Task Chat_PingPong_EachIsAnsweredBeforeTheNext()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        using GrpcChannel channel = server.Channel();
        await using var call = channel.Open(EchoServer.Chat);
        for (int i = 0; i < 200; i++)
        {
            Assert.True(await call.WriteAsync(new() { Number = i }));
            Assert.Equal(i, (await call.ReadAsync())!.Number);
        }
    }

    [Fact]
    public async Task Chat_ServerSpeaksFirst_HeadersComeBeforeAnyRequest()
    {
        // Without pings, which would take along what was left lying.
        TimeSpan never = TimeSpan.FromHours(1);
        await using EchoServer server = await EchoServer.StartAsync(EchoServer.Local with { PingAfter = never });
        using GrpcChannel channel = server.Channel(new() { PingAfter = never });
        for (int i = 0; i < 300; i++)
        {
            await using var call = channel.Open(EchoServer.Chat, new() { Metadata = new() { { "head-one", "1" } } });
            Assert.Equal("1", (await call.HeadersAsync().WaitAsync(EchoServer.Guard)).GetValue("head-one"));
        }
    }

    [Fact]
    public async Task Chat_HalfClosed_StillAnswersWhatWasAsked()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        using GrpcChannel channel = server.Channel();
        await using var call = channel.Open(EchoServer.Chat);
        Assert.True(await call.WriteAsync(new() { Replies = 20_000, Payload = ByteString.CopyFrom(new byte[500]) }));
        Assert.True(await call.CompleteAsync());
        for (int i = 0; i < 20_000; i++) { Assert.Equal(i, (await call.ReadAsync())!.Number); }
        Assert.Null(await call.ReadAsync());
    }

    [Fact]
    public async Task Chat_NothingAsked_EndsWithOk()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        using GrpcChannel channel = server.Channel();
        await using var call = channel.Open(EchoServer.Chat);
        Assert.True(await call.CompleteAsync());
        Assert.Null(await call.ReadAsync());
    }

    [Fact]
    public async Task Metadata_BothWays_ComesWithHeadersAndStatus()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        using GrpcChannel channel = server.Channel();
        byte[] bytes = [0, 1, 254, 255];
        var metadata = new Metadata { { "head-text", "a, b" }, { "tail-text", "late" }, { "tail-text", "later" },
            { "head-raw-bin", bytes }, { "tail-raw-bin", bytes[1..] } };
        await using var call = channel.Open(EchoServer.Chat, new() { Metadata = metadata });
        Assert.True(await call.CompleteAsync());
        Metadata headers = await call.HeadersAsync();
        Assert.Null(await call.ReadAsync());
        Assert.Equal("a, b", headers.GetValue("head-text"));
        Assert.Equal(bytes, headers.GetValueBytes("head-raw-bin"));
        Assert.Equal(["late", "later"], call.Trailers.GetAll("tail-text").SelectMany(t => t.Value.Split(", ")));
        Assert.Equal(bytes[1..], call.Trailers.GetValueBytes("tail-raw-bin"));
        Assert.Equal(2, headers.Count(h => h.Key.StartsWith("head-", StringComparison.Ordinal)));
    }

    [Theory]
    [InlineData(false, false)]
    [InlineData(true, false)]
    [InlineData(false, true)]
    [InlineData(true, true)]
    public async Task Gzip_EitherDirection_ArrivesAsItWas(bool requests, bool replies)
    {
        await using EchoServer server = await EchoServer.StartAsync();
        using GrpcChannel channel = server.Channel();
        var metadata = new Metadata();
        if (replies) { metadata.Add("want-gzip", "1"); }
        await using var call = channel.Open(EchoServer.Chat, new() { IsGzip = requests, Metadata = metadata });
        var random = new Random(1);
        for (int i = 0; i < 30; i++)
        {
            byte[] bytes = new byte[random.Next(0, 200_000)];
            random.NextBytes(bytes.AsSpan(0, bytes.Length / 2));
            ByteString payload = ByteString.CopyFrom(bytes);
            Assert.True(await call.WriteAsync(new() { Number = i, Payload = payload }));
            Message reply = (await call.ReadAsync())!;
            Assert.Equal(i, reply.Number);
            Assert.True(payload.Equals(reply.Payload));
        }
    }

    [Fact]
    public async Task Messages_OfAllSizes_ArriveWhole()
    {
        await using EchoServer server = await EchoServer.StartAsync(
            EchoServer.Local with { MessageBytesMax = 64 << 20, WindowBytes = 1 << 17 });
        using GrpcChannel channel = server.Channel(new() { MessageBytesMax = 64 << 20, WindowBytes = 1 << 17 });
        await using var call = channel.Open(EchoServer.Chat);
        var random = new Random(2);
        // Around the sizes of buffers, frames and windows, and far beyond.
        foreach (int size in (int[])[0, 1, 4095, 4096, 16_379, 16_384, 65_535, 65_536, 131_072, 131_073, 3_000_000, 40_000_000])
        {
            byte[] bytes = new byte[size];
            random.NextBytes(bytes);
            ByteString payload = UnsafeByteOperations.UnsafeWrap(bytes);
            ValueTask<bool> writing = call.WriteAsync(new() { Number = size, Payload = payload });
            Message reply = (await call.ReadAsync())!;
            Assert.True(await writing);
            Assert.Equal(size, reply.Number);
            Assert.True(payload.Equals(reply.Payload));
        }
    }
}
