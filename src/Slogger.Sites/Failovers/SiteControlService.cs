// What the commands of two sites ask of a process, whatever its site is at the moment: how its streams are; at a backup, to freeze them and
// to go to the final watermark; at a primary, to hold its clients' operations. What a site is, SQL says: nothing is done on a word alone.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Grpc;
using Slogger.Grpc.Server;
using Slogger.Grpc.Shipping;
using Slogger.Metadata;
using Slogger.Proxy.Drills;
using Slogger.Proxy.Ports;
using Slogger.Sites.Shipping;
using Slogger.Sites.Streams;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Failovers;

/// <summary>Serves commands.</summary>
/// <param name="metadata">The site's SQL: only what it says is done.</param>
/// <param name="cluster">The cluster.</param>
/// <param name="streamsOf">The streams of this process, while its site is a backup.</param>
/// <param name="primaryOf">Its shard, while that serves; null: it does not.</param>
/// <param name="serving">Its shards, each with what completes when it serves as a primary's.</param>
/// <param name="lease">The site lease that it is configured with; zero: none.</param>
/// <param name="tryRestore">Restores the log of its stream, and compares; null: nothing can be restored here.</param>
internal sealed class SiteControlService(
    IMetadataStore metadata, string cluster, Func<IReadOnlyList<BackupStream>> streamsOf, Func<IPrimaryShard?>? primaryOf = null,
        Func<IReadOnlyList<(ShardId Shard, Task Serving)>>? serving = null, TimeSpan lease = default,
    Func<CancellationToken, Task<RestoreTrial>>? tryRestore = null)
{
    private static readonly TimeSpan StreamLimit = TimeSpan.FromSeconds(1);

    // Below what a manager waits for an answer; then it asks again.
    private static readonly TimeSpan ServeLimit = TimeSpan.FromSeconds(1);

    /// <summary>Has a server answer.</summary>
    public void AddTo(GrpcServer server) => server
        .AddUnary(SiteControlMethods.Status, StatusAsync).AddUnary(SiteControlMethods.Freeze, FreezeAsync)
            .AddUnary(SiteControlMethods.Final, FinalAsync)
        .AddUnary(SiteControlMethods.Serve, ServeAsync)
        .AddUnary(SiteControlMethods.Hold, HoldAsync).AddUnary(SiteControlMethods.Attach, AttachAsync)
        .AddUnary(SiteControlMethods.Verify, VerifyAsync).AddUnary(SiteControlMethods.TryRestore, TryRestoreAsync);

    private async Task<V1.StatusReply> StatusAsync(V1.StatusRequest request, ServerCall<V1.StatusRequest, V1.StatusReply> call)
    {
        SiteState site = await ReadAsync(call.Cancellation).ConfigureAwait(false);
        var reply = new V1.StatusReply
        {
            SiteEpoch = site.Epoch.Number,
            Role = site.Role switch
            {
                SiteRole.Primary => V1.SiteRole.Primary,
                SiteRole.Backup => V1.SiteRole.Backup,
                SiteRole.FailingOver => V1.SiteRole.FailingOver,
                SiteRole.HandingOver => V1.SiteRole.HandingOver,
                _ => V1.SiteRole.Deposed,
            },
            LeaseUs = (long)lease.TotalMicroseconds,
        };
        if (site.Streams.Length > 0)
        {
            reply.Streams.AddRange(streamsOf().Where(s => s.Stream.Number < site.Streams.Length).Select(s => s.StatusIn(site)));
        }
        if (primaryOf?.Invoke() is { } primary)
        {
            reply.Shipped.Add(new V1.ShippedStatus { Shard = primary.Shard.Number, State = primary.ShippingState,
                Cut = ShipWire.ToWire(primary.RecordedCut), Watermark = ShipWire.ToWire(primary.Watermark) });
        }
        return reply;
    }

    private async Task<V1.HoldReply> HoldAsync(V1.HoldRequest request, ServerCall<V1.HoldRequest, V1.HoldReply> call)
    {
        var reply = new V1.HoldReply();
        if (primaryOf?.Invoke() is not { } primary) { return reply; }
        // The cut and the watermark are read afterwards: they have to have come to what is held.
        WorldPoint? held = await primary.HoldAllAsync(request.Number, call.Cancellation).ConfigureAwait(false);
        reply.Shards.Add(new V1.HeldShard
        {
            Shard = primary.Shard.Number, Held = held is { } point ? ShipWire.ToWire(point) : null,
                Cut = ShipWire.ToWire(primary.RecordedCut), Watermark = ShipWire.ToWire(primary.Watermark),
        });
        return reply;
    }

    private Task<V1.AttachReply> AttachAsync(V1.AttachRequest request, ServerCall<V1.AttachRequest, V1.AttachReply> call)
    {
        var reply = new V1.AttachReply();
        if (primaryOf?.Invoke() is { } primary && request.Shards.Contains(primary.Shard.Number) && primary.Attach())
        {
            reply.Shards.Add(primary.Shard.Number);
        }
        return Task.FromResult(reply);
    }

    private async Task<V1.VerifyReply> VerifyAsync(V1.VerifyRequest request, ServerCall<V1.VerifyRequest, V1.VerifyReply> call)
    {
        WorldPoint to = ShipWire.FromWire(ShipWire.Required(request.To));
        return streamsOf().FirstOrDefault(s => s.Stream.Number == request.Shard) is { } stream
            ? await Task.Run(() => stream.Verify(to, call.Cancellation)).ConfigureAwait(false)
            : throw new RpcException(StatusCode.NotFound, $"the stream of shard {request.Shard} is not received here");
    }

    private async Task<V1.TryRestoreReply> TryRestoreAsync(V1.TryRestoreRequest request,
        ServerCall<V1.TryRestoreRequest, V1.TryRestoreReply> call)
    {
        if (tryRestore is null || !streamsOf().Any(s => s.Stream.Number == request.Shard))
        {
            throw new RpcException(StatusCode.NotFound, $"the stream of shard {request.Shard} is not received here");
        }
        RestoreTrial trial = await tryRestore(call.Cancellation).ConfigureAwait(false);
        return new()
        {
            At = ShipWire.ToWire(trial.At), Keys = trial.Keys, BaseBytes = trial.BaseBytes, LogBytes = trial.LogBytes,
                RestoreUs = (long)trial.Took.TotalMicroseconds, Flaw = trial.Flaw ?? "",
        };
    }

    private async Task<V1.FreezeReply> FreezeAsync(V1.FreezeRequest request, ServerCall<V1.FreezeRequest, V1.FreezeReply> call)
    {
        var number = new SiteEpoch(request.SiteEpoch);
        SiteState site = await ReadAsync(call.Cancellation).ConfigureAwait(false);
        // Nobody is frozen on a word alone: a message that is late could stop a backup that has long gone on.
        if (site.Epoch != number || site.Role != SiteRole.FailingOver)
        {
            throw new RpcException(StatusCode.FailedPrecondition, $"failover {number} is not under way here");
        }
        var reply = new V1.FreezeReply();
        // Each by itself: one that has failed may be given up, and then the others are all that there is.
        FinalReport?[] reports = await Task.WhenAll(streamsOf().Where(s => request.Shards.Contains(s.Stream.Number))
            .Select(s => FreezeAsync(s, number, call.Cancellation))).ConfigureAwait(false);
        foreach (FinalReport report in reports.OfType<FinalReport>())
        {
            BackupStream stream = streamsOf().First(s => s.Stream == report.Stream);
            var final = new V1.FinalReport { SiteEpoch = report.Number.Number, Shard = report.Stream.Number,
                Generation = report.Generation, Owner = report.Owner, Held = ShipWire.ToWire(report.Held),
                    HeldTime = stream.TimeOf(report.Held) };
            if (report.Behind is var (from, to))
            {
                (final.BehindFrom, final.BehindTo, final.BehindToTime) = (ShipWire.ToWire(from), ShipWire.ToWire(to), stream.TimeOf(to));
            }
            final.Lineage.AddRange(stream.Lineage.Select(ShipWire.ToWire));
            reply.Reports.Add(final);
        }
        return reply;
    }

    private async Task<V1.FinalReply> FinalAsync(V1.FinalRequest request, ServerCall<V1.FinalRequest, V1.FinalReply> call)
    {
        var number = new SiteEpoch(request.SiteEpoch);
        // A failover is decided once: who is frozen by it takes the manager's word, and who is not does nothing.
        if (request.Final is null)
        {
            SiteState site = await ReadAsync(call.Cancellation).ConfigureAwait(false);
            if (site.Epoch != number || site.Final is null)
            {
                throw new RpcException(StatusCode.FailedPrecondition, $"failover {number} is not decided");
            }
            request.Final = ShipWire.ToWire(site.Final.Value);
        }
        WorldPoint final = ShipWire.FromWire(request.Final);
        // Each by itself: one that has failed may be given up, and then the others are all that there is.
        ReadyStream?[] ready = await Task.WhenAll(streamsOf()
            .Select(s => ReadyAsync(s, number, final, call.Cancellation))).ConfigureAwait(false);
        var reply = new V1.FinalReply();
        reply.Ready.AddRange(ready.OfType<ReadyStream>()
            .Select(r => new V1.ReadyStream { Shard = r.Stream.Number, Owner = r.Owner, Name = r.Name }));
        return reply;
    }

    private static async Task<ReadyStream?> ReadyAsync(BackupStream stream, SiteEpoch number, WorldPoint final, CancellationToken stop)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(stop);
        limit.CancelAfter(StreamLimit);
        try
        {
            await stream.DecidedAsync(number, final, isWord: true).ConfigureAwait(false);
            return await stream.ReadyAsync(limit.Token).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            return null;
        }
    }

    private async Task<V1.ServeReply> ServeAsync(V1.ServeRequest request, ServerCall<V1.ServeRequest, V1.ServeReply> call)
    {
        var number = new SiteEpoch(request.SiteEpoch);
        SiteState site = await ReadAsync(call.Cancellation).ConfigureAwait(false);
        if (site.Epoch != number || site.Final is null || site.Role is not (SiteRole.Primary or SiteRole.HandingOver))
        {
            throw new RpcException(StatusCode.FailedPrecondition, $"failover {number} has not opened every shard");
        }
        foreach (BackupStream stream in streamsOf()) { stream.SiteServes(site); }
        var reply = new V1.ServeReply();
        IReadOnlyList<(ShardId Shard, Task Serving)> shards = serving?.Invoke() ?? [];
        await Task.WhenAny(Task.WhenAll(shards.Select(s => s.Serving)), Task.Delay(ServeLimit, call.Cancellation)).ConfigureAwait(false);
        reply.Shards.AddRange(shards.Where(s => s.Serving.IsCompletedSuccessfully).Select(s => s.Shard.Number));
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
