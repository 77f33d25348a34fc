// A rolling upgrade: conversations, byte for byte, of processes from before gRPC was the stock one, with such a process at the other end.
// Pings are left out of what a server said: nobody has asked it here. Who has recorded one anew has changed what is on the wire: an old
// process has to understand it, too.
using System.Buffers;
using System.Net;
using System.Net.Sockets;
using Slogger.Grpc.Client;
using Slogger.Grpc.Server;
using Slogger.Grpc.Shipping;
using Slogger.Grpc.Shipping.V1;
using Slogger.Grpc.Tests.Support;

namespace Slogger.Grpc.Tests;

public sealed class RecordedPeerTests
{
    // Three frames of shards 1 to 3, with 100, 200 and 300 bytes of their number, and the end.
    [Theory]
    [InlineData("ship.client")]
    [InlineData("ship-gzip.client")]
    public async Task Server_HearsAnOlderShipper_GetsItsFrames(string recorded)
    {
        var heard = new TaskCompletionSource<List<(int Shard, long Sum)>>(TaskCreationOptions.RunContinuationsAsynchronously);
        await using var server = new GrpcServer(EchoServer.Local with { Secret = "open" });
        server.Add(ShippingMethods.Ship, async call =>
        {
            List<(int, long)> frames = [];
            while (await call.ReadAsync() is { } frame)
            {
                frames.Add((frame.Request.Shard, frame.Data.ToArray().Sum(b => (long)b)));
                await call.WriteAsync(new() { Kind = ReplyKind.Ack });
            }
            heard.SetResult(frames);
        });
        await server.StartAsync();
        using var socket = new Socket(SocketType.Stream, ProtocolType.Tcp);
        await socket.ConnectAsync(server.EndPoint);
        await socket.SendAsync(Recorded(recorded));
        Assert.Equal([(1, 100L), (2, 400L), (3, 900L)], await heard.Task.WaitAsync(EchoServer.Guard));
    }

    [Fact]
    public async Task Caller_AtAnOlderServer_GetsItsReply()
    {
        using var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        using var channel = new GrpcChannel("127.0.0.1", ((IPEndPoint)listener.LocalEndpoint).Port, new() { Secret = "open" });
        Task<StatusReply> call = channel.CallAsync(SiteControlMethods.Status, new());
        using Socket socket = await listener.AcceptSocketAsync();
        byte[] said = new byte[4096];
        int length = 0;
        using var guard = new CancellationTokenSource(EchoServer.Guard);
        while (!PeerTests.IsAsked(said.AsSpan(0, length))) { length += await socket.ReceiveAsync(said.AsMemory(length), guard.Token); }
        await socket.SendAsync(Recorded("status.server"));
        Assert.Equal(7, (await call.WaitAsync(EchoServer.Guard)).SiteEpoch);
    }

    private static byte[] Recorded(string name)
    {
        using Stream stream = typeof(RecordedPeerTests).Assembly.GetManifestResourceStream(name)!;
        using var bytes = new MemoryStream();
        stream.CopyTo(bytes);
        return bytes.ToArray();
    }
}
