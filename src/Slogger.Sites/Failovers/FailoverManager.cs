// Performs a failover as Core's Failover decides: the command of a person, or a process that goes on with one that was begun. It may end at any moment; the next one goes on.
using System.Diagnostics;
using Slogger.Core.Sites;
using Slogger.Core.Time;
using Slogger.Core.WorldLines;
using Slogger.Grpc;
using Slogger.Grpc.Client;
using Slogger.Grpc.Shipping;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Sites.Shipping;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Failovers;

/// <summary>What a failover came to.</summary>
/// <param name="Site">The site after it; null: it was refused.</param>
/// <param name="Error">Why it was; null: it was done.</param>
/// <param name="FinalTime">When the last version that is kept ended at the primary; null: this manager has not heard of it, since another one had decided.</param>
internal readonly record struct FailoverOutcome(SiteState? Site, string? Error, DateTimeOffset? FinalTime = null);

/// <summary>Manages a failover.</summary>
/// <param name="metadata">The backup's SQL.</param>
/// <param name="cluster">The cluster.</param>
/// <param name="processes">The backup's processes.</param>
/// <param name="leaseWaitUs"><see cref="SiteLease.WaitUs"/>; 0: the operator attests that the primary is down.</param>
/// <param name="report">For people.</param>
/// <param name="onTaken">Is told when SQL has taken the epoch: the other site may be told that it is deposed, and not before. It does not wait.</param>
internal sealed class FailoverManager(
    IMetadataStore metadata, string cluster, IReadOnlyList<GrpcChannel> processes, long leaseWaitUs, ILogSink report, Action<SiteEpoch>? onTaken = null)
{
    private static readonly TimeSpan AskLimit = TimeSpan.FromSeconds(2), RetryPause = TimeSpan.FromMilliseconds(20), OpenPause = TimeSpan.FromMilliseconds(1);
    private readonly SortedDictionary<WorldLine, WorldPoint> _lineage = [];
    private readonly Dictionary<WorldPoint, ulong> _times = [];
    private string _missing = "";
    private int _open;

    /// <summary>Asks for what is refused everywhere, so that what a failover needs is loaded and connected, here and at the processes, before anything stands still. Changes nothing.</summary>
    public async Task RehearseAsync(CancellationToken stop)
    {
        var never = new SiteEpoch(-1);
        await TryAsync(() => metadata.ChangeSiteAsync(cluster, site => new(null, site.Take([]).Error ?? "a rehearsal"), stop), stop).ConfigureAwait(false);
        await Task.WhenAll(processes.Select(p => AskAsync(p, SiteControlMethods.Freeze, new V1.FreezeRequest { SiteEpoch = never.Number }, stop))).ConfigureAwait(false);
        await TryAsync(() => metadata.DecideFailoverAsync(cluster, never, new(WorldLine.First, new(1)), [], stop), stop).ConfigureAwait(false);
        await Task.WhenAll(processes.Select(p => AskAsync(p, SiteControlMethods.Final, new V1.FinalRequest { SiteEpoch = never.Number }, stop))).ConfigureAwait(false);
    }

    /// <summary>Has the site take over, and returns when it has, or when that is refused.</summary>
    /// <param name="losing">Streams that the operator gives up.</param>
    /// <param name="stop">Gives up; what was begun is gone on with by whoever does this next.</param>
    public async Task<FailoverOutcome> RunAsync(IReadOnlyList<int> losing, CancellationToken stop)
    {
        SiteState site = await TryAsync(() => metadata.SiteAsync(cluster, stop), stop).ConfigureAwait(false);
        foreach (int shard in site is { Role: SiteRole.FailingOver, Final: null } ? losing : [])
        {
            SiteAnswer lost = await TryAsync(() => metadata.ChangeSiteAsync(cluster, s => s.Lose(new(shard)), stop), stop).ConfigureAwait(false);
            if (lost.Error is { } isOver) { return new(null, isOver); }
            site = lost.Site;
        }
        if (site.Role == SiteRole.FailingOver) { onTaken?.Invoke(site.Epoch); }
        var machine = new Failover(site, leaseWaitUs);
        while (true)
        {
            switch (machine.Next(NowUs))
            {
                case FailoverStep.Take:
                    SiteAnswer taken = await TryAsync(() => metadata.ChangeSiteAsync(cluster, site => site.Take([.. losing]), stop), stop).ConfigureAwait(false);
                    if (taken.Error is { } refused) { return new(null, refused); }
                    report.Info($"site epoch {taken.Site.Epoch} is taken: nothing of the primary is received any more");
                    onTaken?.Invoke(taken.Site.Epoch);
                    machine.Read(taken.Site);
                    break;
                case FailoverStep.AskFinals ask:
                    await AskAsync(machine, ask, stop).ConfigureAwait(false);
                    break;
                case FailoverStep.AwaitLease lease:
                    report.Info($"a primary that is cut off may hold a site lease: {TimeSpan.FromMicroseconds(Math.Max(0, lease.UntilUs - NowUs)).TotalMilliseconds:0} ms are waited");
                    await Task.Delay(TimeSpan.FromMicroseconds(Math.Max(1000, lease.UntilUs - NowUs)), stop).ConfigureAwait(false);
                    break;
                case FailoverStep.Decide decide:
                    SiteAnswer decided = await TryAsync(() => metadata.DecideFailoverAsync(cluster, decide.Number, decide.Final, [.. _lineage.Values], stop), stop).ConfigureAwait(false);
                    if (decided.Error is { } over) { return new(null, over); }
                    report.Info($"the final watermark is {decided.Site.Final}: world-line {decide.Number.FirstWorldLine} begins there");
                    machine.Read(decided.Site);
                    break;
                case FailoverStep.AwaitOpen:
                    await TellFinalAsync(machine, stop).ConfigureAwait(false);
                    break;
                case FailoverStep.Done:
                    SiteState done = await TryAsync(() => metadata.SiteAsync(cluster, stop), stop).ConfigureAwait(false);
                    return new(done, null, done.Final is { } final && _times.TryGetValue(final, out ulong bits) && bits > 0
                        ? DateTimeOffset.UnixEpoch.AddTicks(new HybridTimestamp(bits).Microseconds * TimeSpan.TicksPerMicrosecond) : null);
                case FailoverStep.Refused refusal:
                    return new(null, refusal.Why);
                default:
                    throw new UnreachableException();
            }
        }
    }

    // All at once: the slowest one's answer is awaited, not the sum.
    private async Task AskAsync(Failover machine, FailoverStep.AskFinals ask, CancellationToken stop)
    {
        var request = new V1.FreezeRequest { SiteEpoch = ask.Number.Number };
        request.Shards.AddRange(ask.Of.Select(s => s.Number));
        V1.FreezeReply?[] replies = await Task.WhenAll(processes.Select(p => AskAsync(p, SiteControlMethods.Freeze, request, stop))).ConfigureAwait(false);
        bool isNews = false;
        foreach (V1.FinalReport final in replies.Where(r => r is not null).SelectMany(r => r!.Reports))
        {
            foreach (WorldPoint line in final.Lineage.Select(ShipWire.FromWire)) { _lineage[line.WorldLine] = line; }
            if (final.Held is { } point) { _times[ShipWire.FromWire(point)] = final.HeldTime; }
            isNews |= final.Held is { } held && machine.Reported(new(new(final.SiteEpoch), new(final.Shard), final.Generation, final.Owner, ShipWire.FromWire(held)), NowUs);
        }
        if (isNews) { return; }
        // Said when it changes: it is asked again and again.
        string missing = string.Join(", ", ask.Of);
        if (missing != _missing) { report.Warn($"shard {missing} has not said what it holds, and is asked again: are all processes of the backup running? One whose disk is gone can be given up: --lose-shard"); }
        _missing = missing;
        await Task.Delay(RetryPause, stop).ConfigureAwait(false);
        machine.Read(await TryAsync(() => metadata.SiteAsync(cluster, stop), stop).ConfigureAwait(false));
    }

    private async Task TellFinalAsync(Failover machine, CancellationToken stop)
    {
        SiteState site = await TryAsync(() => metadata.SiteAsync(cluster, stop), stop).ConfigureAwait(false);
        machine.Read(site);
        int open = site.Streams.Count(s => s.IsOpen);
        if (open > _open || site.Role != SiteRole.FailingOver) { report.Info(site.Role == SiteRole.FailingOver ? $"{open} of {site.Streams.Length} shards are open" : "all shards are open"); }
        _open = open;
        if (site.Role != SiteRole.FailingOver) { return; }
        var request = new V1.FinalRequest { SiteEpoch = site.Epoch.Number };
        await Task.WhenAll(processes.Select(p => AskAsync(p, SiteControlMethods.Final, request, stop))).ConfigureAwait(false);
        await Task.Delay(OpenPause, stop).ConfigureAwait(false);
    }

    // Null: it does not answer now.
    private static async Task<TReply?> AskAsync<TRequest, TReply>(GrpcChannel process, Method<TRequest, TReply> method, TRequest request, CancellationToken stop)
        where TRequest : class
        where TReply : class
    {
        try
        {
            return await process.CallAsync(method, request, new CallOptions { Timeout = AskLimit, Cancellation = stop }).ConfigureAwait(false);
        }
        catch (RpcException)
        {
            stop.ThrowIfCancellationRequested();
            return null;
        }
    }

    private async Task<T> TryAsync<T>(Func<Task<T>> call, CancellationToken stop)
    {
        while (true)
        {
            try
            {
                return await call().ConfigureAwait(false);
            }
            catch (MetadataUnavailableException e)
            {
                report.Warn($"the site's metadata cannot be used, and is tried again: {e.Message}");
                await Task.Delay(RetryPause, stop).ConfigureAwait(false);
            }
        }
    }

    private static long NowUs => (long)Stopwatch.GetElapsedTime(0).TotalMicroseconds;
}
