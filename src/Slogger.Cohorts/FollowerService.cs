// A node's end of shipping: the calls of leaders, each for as long as it lasts. A leader whose reign is over is told so.
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Grpc;
using Slogger.Grpc.Server;
using Slogger.Grpc.Shipping;
using Slogger.Replication.Links;
using Slogger.Replication.Receiving;
using Slogger.Sites.Shipping;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Cohorts;

/// <summary>Serves leaders.</summary>
/// <param name="node">The node.</param>
/// <param name="thread">Its thread.</param>
/// <param name="terms">Of this process.</param>
internal sealed class FollowerService(CohortNode node, NodeThread thread, ShipTerms terms)
{
    /// <summary>Has a server answer.</summary>
    public void AddTo(GrpcServer server) => server.Add(ShippingMethods.Ship, ServeAsync);

    private async Task ServeAsync(ServerCall<ShipFrame, V1.ShipReply> call)
    {
        await call.SendHeadersAsync().ConfigureAwait(false);
        var link = new ReplyLink(call);
        NodeName? leader = null;
        Cohort? members = null;
        try
        {
            while (await call.ReadAsync().ConfigureAwait(false) is { } frame)
            {
                ShipMessage message = ShipWire.FromWire(frame);
                if (message.Request is ShipRequest.Piece { Window: not null })
                {
                    throw new RpcException(StatusCode.InvalidArgument, "a follower has the log as it is, and takes no windows of it");
                }
                VersionGrid? grid = ShipWire.GridOf(frame);
                if (frame.Request.Hello is { } hello)
                {
                    if (terms.Against(ShipWire.TermsOf(hello)) is { } why) { throw new RpcException(StatusCode.FailedPrecondition, why); }
                    leader = new NodeName(hello.Node);
                    members = ShipWire.FromWire(hello.Members, hello.Founded);
                }
                if (leader is not { } from) { throw new RpcException(StatusCode.InvalidArgument, "the call does not begin with a hello"); }
                try
                {
                    await thread.DoAsync(() => Take(message, from, members, grid, link)).ConfigureAwait(false);
                }
                catch (OperationCanceledException)
                {
                    throw new RpcException(StatusCode.Unavailable, $"node {node.Options.Node} is ending");
                }
            }
        }
        finally
        {
            await link.CloseAsync().ConfigureAwait(false);
        }
    }

    // The node's thread. The message's bytes are its own until this has returned.
    private bool Take(in ShipMessage message, NodeName from, Cohort? members, VersionGrid? grid, ReplyLink link)
    {
        if (!node.Heard(new Reign(message.Request.Sender.Epoch), from, message.Request is ShipRequest.Hello ? members : null, out Reign promised))
        {
            link.Reply(new(ShipReplyKind.NotLeader, message.Request.Stream, 0, default, default, default, default, 0,
                new(default, promised.Number, long.MaxValue)));
            return false;
        }
        if (grid is not null) { node.OnGrid(grid); }
        // Between two lives it says nothing, and is asked again.
        node.Life?.Received(message, link);
        return true;
    }
}
