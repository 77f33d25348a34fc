// The way of a receiver's replies back over the call that has brought the messages.
using System.Threading.Channels;
using Slogger.Core.Replication;
using Slogger.Grpc.Server;
using Slogger.Grpc.Shipping;
using Slogger.Replication.Links;
using Slogger.Replication.Receiving;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Shipping;

/// <summary>Replies over one call. Any thread.</summary>
internal sealed class ReplyLink : IReplyLink
{
    // Each reply says all that there is to know: of those that nobody has taken yet the newest do.
    private const int RepliesMax = 16;
    private readonly Channel<ShipReply> _replies = Channel.CreateBounded<ShipReply>(
        new BoundedChannelOptions(RepliesMax) { FullMode = BoundedChannelFullMode.DropOldest, SingleReader = true });

    public void Reply(ShipReply reply) => _replies.Writer.TryWrite(reply);

    /// <summary>There are no more: <see cref="WriteAsync"/> ends when it has written those that there are.</summary>
    public void Close() => _replies.Writer.TryComplete();

    /// <summary>Writes replies to the call until <see cref="Close"/>.</summary>
    public async Task WriteAsync(ServerCall<ShipFrame, V1.ShipReply> call)
    {
        while (await _replies.Reader.WaitToReadAsync().ConfigureAwait(false))
        {
            while (_replies.Reader.TryRead(out ShipReply? reply))
            {
                await call.WriteAsync(ShipWire.ToWire(reply), flush: _replies.Reader.Count == 0).ConfigureAwait(false);
            }
        }
    }
}
