// The same over gRPC: real connections, cut in the middle and let go silent, and peers that are not who they should be.
using System.Collections.Concurrent;
using System.Net;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Grpc;
using Slogger.Grpc.Client;
using Slogger.Grpc.Server;
using Slogger.Grpc.Shipping;
using Slogger.Grpc.Tests.Support;
using Slogger.Replication.Links;
using Slogger.Replication.Sending;
using Slogger.Sites.Shipping;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Tests.Shipping;

public sealed class GrpcShippingTests : ShippingHarness
{
    private const string Secret = "between-two-sites";
    private static readonly ShipTerms s_terms = new("c", TimeSpan.FromSeconds(5));
    private readonly ConcurrentQueue<VersionGrid> _grids = new();
    private SiteEpoch? _ruling;

    [Theory]
    [InlineData(11, false)]
    [InlineData(12, true)]
    public async Task Log_OverConnectionsThatBreakAndThroughCrashesOfEither_IsTheSame(int seed, bool isGzip)
    {
        await using GrpcServer server = await ServeAsync();
        using var relay = new Relay(server.EndPoint.Port);
        using GrpcShipConnector way = Connector(relay.Port, isGzip: isGzip);
        await CrashesAsync(
            seed,
            () => way,
            onStep: random =>
            {
                if (random.Next(40) == 0) { relay.Cut(); }
                if (random.Next(8) == 0) { Thread.Sleep(1); }
            },
            onCalm: () => { });
    }

    [Fact]
    public async Task Shipper_WithAWrongSecret_IsRefusedAndSaysWhy()
    {
        await StartReceiverAsync();
        await using GrpcServer server = await ServeAsync();
        using GrpcShipConnector way = Connector(server.EndPoint.Port, secret: "guessed");
        await using ShardShipper shipper = NewShipper(way);
        await UntilAsync(() => shipper.Status.Problem?.Contains("the secret is missing or wrong", StringComparison.Ordinal) == true);
        Assert.Equal(1000, BackupLog.EndOffset);
    }

    // It would depose this site by its epoch, or have the stream seeded with another cluster's data; or a failover would not wait for the
    // lease that the primary has.
    [Theory]
    [InlineData("d", 5, "of cluster \"c\"")]
    [InlineData("c", 6, "--site-lease 6s")]
    [InlineData("c", 0, "no --site-lease")]
    public async Task Shipper_OfAnotherClusterOrWithAnotherLease_IsRefusedBeforeAnythingIsDone(string cluster, int lease, string why)
    {
        await StartReceiverAsync();
        _ruling = new(9);
        await using GrpcServer server = await ServeAsync();
        using GrpcShipConnector way = Connector(server.EndPoint.Port, terms: new(cluster, TimeSpan.FromSeconds(lease)));
        await using ShardShipper shipper = NewShipper(way);
        Append(1, 100);
        PrimaryLog.Sync();
        await UntilAsync(() => shipper.Status.Problem?.Contains(why, StringComparison.Ordinal) == true);
        Assert.Equal((1000L, null), (BackupLog.EndOffset, Shard.Deposed));
    }

    [Fact]
    public async Task Shipper_NobodyIsThere_ShipsWhenSomebodyIs()
    {
        await StartReceiverAsync();
        int port;
        await using (GrpcServer once = await ServeAsync()) { port = once.EndPoint.Port; }
        using GrpcShipConnector way = Connector(port);
        await using ShardShipper shipper = NewShipper(way);
        Append(1, 100);
        PrimaryLog.Sync();
        await UntilAsync(() => shipper.Status.Problem?.Contains("Unavailable", StringComparison.Ordinal) == true);
        await using GrpcServer server = await ServeAsync(port);
        await UntilAsync(() => BackupLog.DurableEnd == PrimaryLog.End);
        Assert.Null(shipper.Status.Problem);
    }

    // Who was cut off when the other site took over ships to it again: nobody receives that there any more.
    [Fact]
    public async Task Shipper_ToASiteThatHasTakenOver_IsDeposed()
    {
        await using GrpcServer server = await ServeAsync();
        using GrpcShipConnector way = Connector(server.EndPoint.Port);
        await using ShardShipper shipper = NewShipper(way);
        await UntilAsync(() => shipper.Status.Problem?.Contains("not received here", StringComparison.Ordinal) == true);
        Assert.Null(Shard.Deposed);
        _ruling = new(1);
        await UntilAsync(() => Shard.Deposed is not null);
        Assert.Equal((new Sender(new(1), 0, 0), true), Shard.Deposed);
    }

    [Fact]
    public async Task Grid_IsToldWithTheFirstRequest_AndWhenItHasChanged()
    {
        await StartReceiverAsync();
        await using GrpcServer server = await ServeAsync();
        VersionGrid first = new(new(1), 1_000_000, 5000), second = VersionGrid.OfHistory([first.Stretches[0], new(new(9), 2_000_000, 500)]);
        VersionGrid told = first;
        using GrpcShipConnector way = Connector(server.EndPoint.Port);
        way.Grid = () => Volatile.Read(ref told);
        await using ShardShipper shipper = NewShipper(way);
        await UntilAsync(() => !_grids.IsEmpty);
        Volatile.Write(ref told, second);
        await UntilAsync(() => _grids.Count > 1);
        Assert.Equal([first.Stretches, second.Stretches], _grids.Select(g => g.Stretches));
    }

    [Fact]
    public async Task Message_ThatContradictsItself_IsAnError()
    {
        await StartReceiverAsync();
        await using GrpcServer server = await ServeAsync();
        var index = new V1.LogIndex { WorldLine = 1, Offset = 1000 };
        var sender = new V1.Sender { Epoch = 1 };
        V1.ShipRequest[] wrong =
        [
            new() { Sender = sender },
            new() { Hello = new() { History = new() } },
            new() { Sender = sender, Hello = new() },
            new() { Sender = sender, WantsSeed = new() { Generation = 1 } },
            new() { Sender = sender, Piece = new() { From = index, To = index, Durable = index } },
            new() { Sender = sender,
                Piece = new() { From = index, To = new() { WorldLine = 1, Offset = 1007 }, Durable = index, Cut = new() } },
        ];
        foreach (V1.ShipRequest request in wrong)
        {
            Assert.Equal(StatusCode.InvalidArgument, (await AskAsync(server, request)).Code);
        }
        Assert.Equal(StatusCode.NotFound,
            (await AskAsync(server, new() { Shard = 7, Sender = sender,
                Hello = new() { History = new() { ReplicationId = ReplicationId, Offset = 1000 }, Cluster = s_terms.Cluster,
                    LeaseUs = 5_000_000 } })).Code);
        Assert.Equal(1000, BackupLog.EndOffset);
    }

    [Fact]
    public void Messages_OnTheWireAndBack_AreTheSame()
    {
        Sender sender = new(new(3), 5, 2);
        LogIndex from = new(new(4), 1000, new(9)), to = new(new(4), 1010, new(12));
        ShipRequest[] requests =
        [
            new ShipRequest.Hello(new(2), sender, new(ReplicationId, 55)),
            new ShipRequest.Piece(new(2), sender, from, from, to, new(new(3), new(8)), 77),
            new ShipRequest.Piece(new(2), sender, from, new(new(5), 900, new(7)), to, new(new(3), new(8)), 77),
            new ShipRequest.WantsSeed(new(2), sender, 6),
        ];
        foreach (ShipRequest request in requests)
        {
            Assert.Equal(request, ShipWire.FromWire(ShipWire.ToWire(new ShipMessage(request, default, []), s_terms)).Request);
        }
        ShipMessage piece = new(
            new ShipRequest.Piece(new(2), sender, from, to, to, new(new(3), new(8)), 77),
            new(new byte[10]),
            [new(new(new(4), new(10), 1004, 3, Core.Time.HybridTimestamp.Of(123, 4)), false),
                new(new(new(4), new(12), 1004, 3, Core.Time.HybridTimestamp.Of(125, 0)), true)]);
        ShipMessage again = ShipWire.FromWire(ShipWire.ToWire(piece, s_terms));
        Assert.Equal((piece.Request, 10), (again.Request, again.Bytes.Length));
        Assert.Equal(piece.Ends, again.Ends);
        Seed seed = new("copy", 6, 100, new(ReplicationId, 55), new(new(4), 990, new(8)), new(new(4), new(9))) { Checksum = 0xfedcba98 };
        ShipMessage chunk = new(new ShipRequest.Copied(new(2), sender, new(seed, 40, 10)), new(new byte[10]), []);
        again = ShipWire.FromWire(ShipWire.ToWire(chunk, s_terms));
        Assert.Equal((chunk.Request, 10), (again.Request, again.Bytes.Length));
        foreach (ShipReplyKind kind in Enum.GetValues<ShipReplyKind>())
        {
            ShipReply reply = new(kind, new(2), 6, to, from, new WorldPoint(new(3), new(8)), new WorldPoint(new(2), new(1)), 99, sender);
            Assert.Equal(reply, ShipWire.FromWire(ShipWire.ToWire(reply)));
            reply = reply with { Ask = new(6, "copy", 44) { Bad = "another" } };
            Assert.Equal(reply, ShipWire.FromWire(ShipWire.ToWire(reply)));
            reply = reply with { Ask = new(6, null, 0) };
            Assert.Equal(reply, ShipWire.FromWire(ShipWire.ToWire(reply)));
        }
    }

    private async Task<GrpcServer> ServeAsync(int port = 0)
    {
        var server = new GrpcServer(new() { Listen = new(IPAddress.Loopback, port), Secret = Secret });
        new ShippingService(stream => stream.Number == 0 ? Receiver : null, s_terms, () => _ruling, onGrid: _grids.Enqueue).AddTo(server);
        await server.StartAsync();
        return server;
    }

    private static GrpcShipConnector Connector(int port, string secret = Secret, bool isGzip = false, ShipTerms? terms = null) =>
        new(new GrpcChannel("127.0.0.1", port, new() { Secret = secret }), $"127.0.0.1:{port}", terms ?? s_terms, isGzip);

    private static async Task<RpcException> AskAsync(GrpcServer server, V1.ShipRequest request)
    {
        using var channel = new GrpcChannel("127.0.0.1", server.EndPoint.Port, new() { Secret = Secret });
        await using ClientCall<ShipFrame, V1.ShipReply> call = channel.Open(ShippingMethods.Ship);
        await call.WriteAsync(new(request, default));
        return await Assert.ThrowsAsync<RpcException>(async () =>
        {
            while (await call.ReadAsync() is not null) { }
        });
    }
}
