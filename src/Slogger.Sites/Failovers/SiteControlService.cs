// What the manager of a failover asks of a backup process: to freeze its streams, and to go to the final watermark.
using Slogger.Core.Shards;
using Slogger.Core.Sites;
using Slogger.Grpc;
using Slogger.Grpc.Server;
using Slogger.Grpc.Shipping;
using Slogger.Metadata;
using Slogger.Sites.Backup;
using Slogger.Sites.Shipping;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Failovers;

/// <summary>Serves managers.</summary>
/// <param name="metadata">The backup's SQL: only what it says is done.</param>
/// <param name="cluster">The cluster.</param>
/// <param name="streamsOf">The streams of this process.</param>
internal sealed class SiteControlService(IMetadataStore metadata, string cluster, Func<IReadOnlyList<BackupStream>> streamsOf)
{
    private static readonly TimeSpan StreamLimit = TimeSpan.FromSeconds(1);

    /// <summary>Has a server answer.</summary>
    public void AddTo(GrpcServer server) => server.AddUnary(SiteControlMethods.Freeze, FreezeAsync).AddUnary(SiteControlMethods.Final, FinalAsync);

    private async Task<V1.FreezeReply> FreezeAsync(V1.FreezeRequest request, ServerCall<V1.FreezeRequest, V1.FreezeReply> call)
    {
        var number = new SiteEpoch(request.SiteEpoch);
        SiteState site = await ReadAsync(call.Cancellation).ConfigureAwait(false);
        // Nobody is frozen on a word alone: a message that is late could stop a backup that has long gone on.
        if (site.Epoch != number || site.Role != SiteRole.FailingOver) { throw new RpcException(StatusCode.FailedPrecondition, $"failover {number} is not under way here"); }
        var reply = new V1.FreezeReply();
        // Each by itself: one that has failed may be given up, and then the others are all that there is.
        FinalReport?[] reports = await Task.WhenAll(streamsOf().Where(s => request.Shards.Contains(s.Stream.Number)).Select(s => FreezeAsync(s, number, call.Cancellation))).ConfigureAwait(false);
        foreach (FinalReport report in reports.OfType<FinalReport>())
        {
            BackupStream stream = streamsOf().First(s => s.Stream == report.Stream);
            var final = new V1.FinalReport { SiteEpoch = report.Number.Number, Shard = report.Stream.Number, Generation = report.Generation, Owner = report.Owner, Held = ShipWire.ToWire(report.Held) };
            final.Lineage.AddRange(stream.Lineage.Select(ShipWire.ToWire));
            reply.Reports.Add(final);
        }
        return reply;
    }

    private async Task<V1.FinalReply> FinalAsync(V1.FinalRequest request, ServerCall<V1.FinalRequest, V1.FinalReply> call)
    {
        var number = new SiteEpoch(request.SiteEpoch);
        SiteState site = await ReadAsync(call.Cancellation).ConfigureAwait(false);
        if (site.Epoch != number || site.Final is not { } final) { throw new RpcException(StatusCode.FailedPrecondition, $"failover {number} is not decided"); }
        foreach (BackupStream stream in streamsOf())
        {
            try
            {
                await stream.Receiver.DecidedAsync(number, final).ConfigureAwait(false);
            }
            catch (OperationCanceledException)
            {
                // It has failed, and was given up.
            }
        }
        var reply = new V1.FinalReply();
        reply.Open.AddRange(Enumerable.Range(0, site.Streams.Length).Where(s => site.Streams[s].IsOpen));
        return reply;
    }

    private static async Task<FinalReport?> FreezeAsync(BackupStream stream, SiteEpoch number, CancellationToken stop)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(stop);
        limit.CancelAfter(StreamLimit);
        try
        {
            return await stream.FreezeAsync(number, limit.Token).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            return null;
        }
    }

    private async Task<SiteState> ReadAsync(CancellationToken stop)
    {
        try
        {
            return await metadata.SiteAsync(cluster, stop).ConfigureAwait(false);
        }
        catch (MetadataException e)
        {
            throw new RpcException(StatusCode.Unavailable, $"this process cannot read the site's metadata: {e.Message}");
        }
    }
}
