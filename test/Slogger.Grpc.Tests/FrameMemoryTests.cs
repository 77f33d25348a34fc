// What messages cost on their way. Alone: what others allocate meanwhile would be counted too.
using Slogger.Grpc.Client;
using Slogger.Grpc.Shipping;
using Slogger.Grpc.Shipping.V1;
using Slogger.Grpc.Tests.Support;

namespace Slogger.Grpc.Tests;

[CollectionDefinition(nameof(FrameMemoryTests), DisableParallelization = true)]
public sealed class AloneCollection;

[Collection(nameof(FrameMemoryTests))]
public sealed class FrameMemoryTests(ITestOutputHelper output)
{
    [Fact]
    public async Task Frames_Sent_CostNoMemoryThatGrowsWithThem()
    {
        const int size = 256 << 10, count = 400;
        long sum = 0;
        await using EchoServer server = await EchoServer.StartAsync(more: s => s.Add(ShippingMethods.Ship, async call =>
        {
            while (await call.ReadAsync() is { } frame)
            {
                foreach (ReadOnlyMemory<byte> piece in frame.Data) { sum += piece.Span[0] + piece.Length; }
                await call.WriteAsync(new() { Kind = ReplyKind.Ack });
            }
        }));
        using GrpcChannel channel = server.Channel();
        await using var call = channel.Open(ShippingMethods.Ship);
        byte[] bytes = new byte[size];
        var request = new ShipRequest { Piece = new() { SentUs = 1 } };
        async Task SendAsync(int messages)
        {
            for (int i = 0; i < messages; i++)
            {
                Assert.True(await call.WriteAsync(new(request, new(bytes))));
                await call.ReadAsync();
            }
        }
        await SendAsync(count);
        long before = GC.GetTotalAllocatedBytes(precise: true);
        await SendAsync(count);
        long each = (GC.GetTotalAllocatedBytes(precise: true) - before) / count;
        Assert.Equal(2L * count * size, sum);
        output.WriteLine($"{each} bytes for a frame of {size}");
        // Both sides in this process; the pools of bytes are filled by now.
        Assert.InRange(each, 0, size / 16);
    }
}
