// The way of a receiver's replies back over the call that has brought the messages.
using Slogger.Core.Replication;
using Slogger.Grpc.Server;
using Slogger.Grpc.Shipping;
using Slogger.Replication.Links;
using Slogger.Replication.Receiving;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Shipping;

/// <summary>Replies over one call. Any thread.</summary>
internal sealed class ReplyLink(ServerCall<ShipFrame, V1.ShipReply> call) : IReplyLink
{
    private const int RepliesMax = 16;
    private readonly DirectWriter<ShipReply> _writer = new(RepliesMax, (reply, isLast) => call.WriteAsync(ShipWire.ToWire(reply), isLast));

    public void Reply(ShipReply reply) => _writer.Write(reply);

    /// <summary>There are no more. Returns when those that there are have been written, or the call is over.</summary>
    public Task CloseAsync() => _writer.CloseAsync();
}
