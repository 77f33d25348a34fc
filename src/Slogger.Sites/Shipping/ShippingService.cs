// The backup's end of shipping: calls of shippers, each of them for as long as it lasts, go to the receivers of their streams.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Grpc;
using Slogger.Grpc.Server;
using Slogger.Grpc.Shipping;
using Slogger.Replication.Links;
using Slogger.Replication.Receiving;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Shipping;

/// <summary>Serves shippers.</summary>
/// <param name="receiverOf">Who receives a stream in this process; null: nobody (now).</param>
/// <param name="terms">Of this process.</param>
/// <param name="ruling">Under which epoch this site is the primary; null: it is none (yet). Whoever ships under an older one is deposed,
/// and hears it here.</param>
/// <param name="against">Why a shipper whose keys are divided so is refused here, by its shard; null: it is not.</param>
/// <param name="onGrid">Is told by which grids the shipper's versions went.</param>
internal sealed class ShippingService(Func<ShardId, StreamReceiver?> receiverOf, ShipTerms terms, Func<SiteEpoch?> ruling,
    Func<ShipShape, int, string?>? against = null, Action<VersionGrid>? onGrid = null)
{
    /// <summary>Has a server answer.</summary>
    public void AddTo(GrpcServer server) => server.Add(ShippingMethods.Ship, ServeAsync);

    private async Task ServeAsync(ServerCall<ShipFrame, V1.ShipReply> call)
    {
        await call.SendHeadersAsync().ConfigureAwait(false);
        var link = new ReplyLink(call);
        bool hasGreeted = false;
        try
        {
            while (await call.ReadAsync().ConfigureAwait(false) is { } frame)
            {
                ShipMessage message = ShipWire.FromWire(frame);
                if (frame.Request.Hello is { } hello)
                {
                    ShipTerms theirs = ShipWire.TermsOf(hello);
                    if ((terms.Against(theirs) ?? against?.Invoke(theirs.Shape, frame.Request.Shard)) is { } why)
                    {
                        throw new RpcException(StatusCode.FailedPrecondition, why);
                    }
                    hasGreeted = true;
                }
                if (!hasGreeted) { throw new RpcException(StatusCode.InvalidArgument, "the call does not begin with a hello"); }
                ShardId stream = message.Request.Stream;
                if (receiverOf(stream) is not { } receiver)
                {
                    if (ruling() is not { } epoch || epoch <= message.Request.Sender.Site)
                    {
                        throw new RpcException(StatusCode.NotFound, $"the stream of shard {stream} is not received here, or not at this "
                            + "moment: look where the shipper is to connect to");
                    }
                    link.Reply(new(ShipReplyKind.NotLeader, stream, 0, default, default, default, default, 0, new(epoch, 0, 0)));
                    continue;
                }
                if (receiver.Refusal is { } refusal) { throw new RpcException(StatusCode.FailedPrecondition, refusal); }
                if (ShipWire.GridOf(frame) is { } grid) { onGrid?.Invoke(grid); }
                try
                {
                    await receiver.ReceivedAsync(message, link).ConfigureAwait(false);
                }
                catch (OperationCanceledException)
                {
                    throw new RpcException(StatusCode.Unavailable, $"the receiver of shard {stream} is being stopped");
                }
            }
        }
        finally
        {
            await link.CloseAsync().ConfigureAwait(false);
        }
    }
}
