// The shipper's way to the backup's site: a call for as long as the connection holds.
using Slogger.Core.Cohorts;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Grpc;
using Slogger.Grpc.Client;
using Slogger.Grpc.Shipping;
using Slogger.Replication.Links;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Shipping;

/// <summary>Connects to a receiver's process.</summary>
/// <param name="channel">The way to it; disposed with this.</param>
/// <param name="target">Where it is, for people.</param>
/// <param name="terms">What is said with each hello.</param>
/// <param name="isGzip">Whether the log is compressed on its way.</param>
internal sealed class GrpcShipConnector(GrpcChannel channel, string target, ShipTerms terms, bool isGzip) : IShipConnector, IDisposable
{
    private static readonly TimeSpan ShapePause = TimeSpan.FromMilliseconds(20);

    public string Target => target;

    public Func<ShipShape?> Shape { get; set; } = static () => default(ShipShape);

    public Func<VersionGrid?> Grid { get; set; } = static () => null;

    /// <summary>Of a node of a cohort: the members of its reign, who are said with each hello.</summary>
    public Func<Cohort?> Members { get; init; } = static () => null;

    public async Task<IShipLink> ConnectAsync(CancellationToken stop)
    {
        ShipShape? shape;
        while ((shape = Shape()) is null) { await Task.Delay(ShapePause, stop).ConfigureAwait(false); }
        var over = new CancellationTokenSource();
        var link = new Link(channel.Open(ShippingMethods.Ship, new CallOptions { IsGzip = isGzip, Cancellation = over.Token }),
            terms with { Shape = shape.Value, Members = Members() }, Grid, over);
        // The receiver answers with its headers: somebody who is not there, or not the right one, is noticed now.
        if (await link.OpenAsync(stop).ConfigureAwait(false)) { return link; }
        await using (link.ConfigureAwait(false))
        {
            await link.ReceiveAsync(stop).ConfigureAwait(false);
            throw new ShipLinkException("the receiver has answered, and takes nothing");
        }
    }

    public void Dispose() => channel.Dispose();

    private sealed class Link(ClientCall<ShipFrame, V1.ShipReply> call, ShipTerms terms, Func<VersionGrid?> grid,
        CancellationTokenSource over) : IShipLink
    {
        private VersionGrid? _told;

        public async ValueTask<bool> OpenAsync(CancellationToken stop)
        {
            await using CancellationTokenRegistration ends = EndsWith(stop);
            try
            {
                await call.HeadersAsync().ConfigureAwait(false);
                return true;
            }
            catch (RpcException)
            {
                return false;
            }
        }

        public ValueTask<bool> SendAsync(ShipMessage message, bool isLast)
        {
            ShipFrame frame = ShipWire.ToWire(message, terms);
            if (grid() is { } now && now != _told)
            {
                frame.Request.Grid.AddRange(ShipWire.ToWire(now));
                _told = now;
            }
            return call.WriteAsync(frame);
        }

        public async ValueTask<ShipReply> ReceiveAsync(CancellationToken stop)
        {
            await using CancellationTokenRegistration ends = EndsWith(stop);
            try
            {
                return ShipWire.FromWire(await call.ReadAsync().ConfigureAwait(false)
                    ?? throw new ShipLinkException("the receiver has ended the call"));
            }
            catch (RpcException e)
            {
                stop.ThrowIfCancellationRequested();
                throw new ShipLinkException(Explained(e), e) { NeedsPerson = e.Code is StatusCode.Unauthenticated
                    or StatusCode.PermissionDenied or StatusCode.FailedPrecondition };
            }
        }

        public async ValueTask DisposeAsync()
        {
            await call.DisposeAsync().ConfigureAwait(false);
            over.Dispose();
        }

        // What a person has to put right is said as such.
        private static string Explained(RpcException e) =>
            e.Code == StatusCode.Unauthenticated ? $"it does not let us in: {e.Detail}: --site-secret-file must name the same secret at "
                + "both sites, and certificates must come from authorities that both know" : e.Message;

        private CancellationTokenRegistration EndsWith(CancellationToken stop) =>
            stop.UnsafeRegister(static o => ((CancellationTokenSource)o!).Cancel(), over);
    }
}
