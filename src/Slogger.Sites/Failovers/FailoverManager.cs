// Performs a failover as Core's Failover decides: in a process of the backup, which runs already (FailoverRole), or in the command of a
// person, if none does. It may end at any moment; the next one goes on.
using System.Diagnostics;
using System.Globalization;
using System.Net.Sockets;
using System.Text;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Grpc;
using Slogger.Grpc.Client;
using Slogger.Grpc.Shipping;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Sites.Shipping;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Failovers;

/// <summary>A process of the backup.</summary>
/// <param name="Shards">Those that SQL says are there.</param>
/// <param name="Channel">The way to it.</param>
internal readonly record struct SitePeer(IReadOnlyList<ShardId> Shards, GrpcChannel Channel);

/// <summary>What a failover came to.</summary>
/// <param name="Site">The site after it; null: it was refused.</param>
/// <param name="Error">Why it was; null: it was done.</param>
/// <param name="FinalTime">When the last version that is kept ended at the primary, a hybrid timestamp's bits; 0: this manager has not
/// heard of it, since another one had decided.</param>
/// <param name="Silent">Shards that are open, and have not said in time that they serve.</param>
internal readonly record struct FailoverOutcome(SiteState? Site, string? Error, ulong FinalTime = 0, IReadOnlyList<int>? Silent = null);

/// <summary>Manages a failover.</summary>
/// <param name="metadata">The backup's SQL.</param>
/// <param name="cluster">The cluster.</param>
/// <param name="find">Finds the backup's processes, as SQL has them now. It is asked again when one is silent: another may have taken its
/// place at another address.</param>
/// <param name="leaseWaitUs"><see cref="SiteLease.WaitUs"/>; 0: the operator attests that the primary is down.</param>
/// <param name="report">For people.</param>
/// <param name="onTaken">Is told when SQL has taken the epoch: the other site may be told that it is deposed, and not before. It does not
/// wait.</param>
/// <param name="began">When it was asked for, a timestamp of <see cref="Stopwatch"/>; 0: now.</param>
internal sealed class FailoverManager(
    IMetadataStore metadata, string cluster, Func<CancellationToken, Task<IReadOnlyList<SitePeer>>> find, long leaseWaitUs, ILogger report,
    Action<SiteEpoch>? onTaken = null, long began = 0)
{
    private static readonly TimeSpan AskLimit = TimeSpan.FromSeconds(2), RetryPause = TimeSpan.FromMilliseconds(20), ServeLimit =
        TimeSpan.FromSeconds(10);
    private readonly SortedDictionary<WorldLine, WorldPoint> _lineage = [];
    private readonly Dictionary<WorldPoint, ulong> _times = [];
    private readonly StringBuilder _stages = new();
    private readonly long _began = began > 0 ? began : Stopwatch.GetTimestamp();
    private IReadOnlyList<SitePeer> _processes = [];
    private SiteState _site = SiteState.Alone;
    private string _missing = "";

    /// <summary>How long it has been performed.</summary>
    public TimeSpan Elapsed => Stopwatch.GetElapsedTime(_began);

    /// <summary>When each stage was over, for people.</summary>
    public string Stages => _stages.ToString();

    /// <summary>Asks for what is refused everywhere, so that what a failover needs is loaded and connected, here and at the processes,
    /// before anything stands still. Changes nothing.</summary>
    /// <exception cref="MetadataException">The database cannot be used. Nothing is begun yet: the caller decides how long it is
    /// tried.</exception>
    public async Task RehearseAsync(CancellationToken stop)
    {
        var never = new SiteEpoch(-1);
        _processes = await find(stop).ConfigureAwait(false);
        await metadata.ChangeSiteAsync(cluster, site => new(null, site.Take([]).Error ?? "a rehearsal"), stop).ConfigureAwait(false);
        await Task.WhenAll(_processes.Select(
            p => AskAsync(p, SiteControlMethods.Freeze, new V1.FreezeRequest { SiteEpoch = never.Number }, stop))).ConfigureAwait(false);
        await metadata.DecideFailoverAsync(cluster, never, new(WorldLine.First, new(1)), [], stop).ConfigureAwait(false);
        await Task.WhenAll(_processes.Select(
            p => AskAsync(p, SiteControlMethods.Final, new V1.FinalRequest { SiteEpoch = never.Number }, stop))).ConfigureAwait(false);
        await metadata.OpenStreamsAsync(cluster, never, [new(new(0), 1, "nobody")], stop).ConfigureAwait(false);
        await Task.WhenAll(_processes.Select(
            p => AskAsync(p, SiteControlMethods.Serve, new V1.ServeRequest { SiteEpoch = never.Number }, stop))).ConfigureAwait(false);
    }

    /// <summary>Has the site take over, and returns when every shard serves, or when that is refused.</summary>
    /// <param name="losing">Shards that the operator gives up.</param>
    /// <param name="stop">Gives up; what was begun is gone on with by whoever does this next.</param>
    public async Task<FailoverOutcome> RunAsync(IReadOnlyList<int> losing, CancellationToken stop)
    {
        _site = await TryAsync(() => metadata.SiteAsync(cluster, stop), stop).ConfigureAwait(false);
        if (_processes.Count == 0) { await FindAsync(stop).ConfigureAwait(false); }
        foreach (int shard in _site is { Role: SiteRole.FailingOver, Final: null } ? losing : [])
        {
            SiteAnswer lost = await TryAsync(() => metadata.ChangeSiteAsync(cluster, s => s.Lose(new(shard)), stop),
                stop).ConfigureAwait(false);
            if (lost.Error is { } isOver) { return new(null, isOver); }
            _site = lost.Site;
        }
        var machine = new Failover(_site, leaseWaitUs);
        while (true)
        {
            switch (machine.Next(NowUs))
            {
                case FailoverStep.Take:
                    SiteAnswer taken = await TryAsync(() => metadata.ChangeSiteAsync(cluster, site => site.Take([.. losing]), stop),
                        stop).ConfigureAwait(false);
                    if (taken.Error is { } refused) { return new(null, refused); }
                    Passed("taken");
                    report.Info($"site epoch {taken.Site.Epoch} is taken: nothing of the primary is received any more");
                    machine.Read(_site = taken.Site);
                    break;
                case FailoverStep.TellDeposed tell:
                    onTaken?.Invoke(tell.Number);
                    break;
                case FailoverStep.AskFinals ask:
                    await AskAsync(machine, ask, stop).ConfigureAwait(false);
                    break;
                case FailoverStep.AwaitLease lease:
                    report.Info("a primary that is cut off may hold a site lease: "
                        + $"{TimeSpan.FromMicroseconds(Math.Max(0, lease.UntilUs - NowUs)).TotalMilliseconds:0} ms are waited");
                    await Task.Delay(TimeSpan.FromMicroseconds(Math.Max(1000, lease.UntilUs - NowUs)), stop).ConfigureAwait(false);
                    break;
                case FailoverStep.Decide decide:
                    Passed("frozen");
                    SiteAnswer decided = await TryAsync(
                        () => metadata.DecideFailoverAsync(cluster, decide.Number, decide.Final, [.. _lineage.Values], stop),
                            stop).ConfigureAwait(false);
                    if (decided.Error is { } over) { return new(null, over); }
                    Passed("decided");
                    report.Info($"the final watermark is {decided.Site.Final}: world-line {decide.Number.FirstWorldLine} begins there");
                    machine.Read(_site = decided.Site);
                    break;
                case FailoverStep.AskReady ask:
                    await AskReadyAsync(machine, ask, stop).ConfigureAwait(false);
                    break;
                case FailoverStep.Open open:
                    Passed("brought there");
                    Opened(machine, (await TryAsync(() => metadata.OpenStreamsAsync(cluster, open.Number, open.Streams, stop),
                        stop).ConfigureAwait(false)).Site);
                    break;
                case FailoverStep.Done:
                    return new(_site, null, _site.Final is { } final ? _times.GetValueOrDefault(final) : 0,
                        await ServeAsync(stop).ConfigureAwait(false));
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
        (V1.FreezeReply? Reply, RpcException? Silence)[] answers =
            await Task.WhenAll(_processes.Select(p => TryAskAsync(p, SiteControlMethods.Freeze, request, stop))).ConfigureAwait(false);
        bool isNews = false;
        foreach (V1.FinalReport final in answers.Where(a => a.Reply is not null).SelectMany(a => a.Reply!.Reports))
        {
            foreach (WorldPoint line in final.Lineage.Select(ShipWire.FromWire)) { _lineage[line.WorldLine] = line; }
            if (final.Held is { } point) { _times[ShipWire.FromWire(point)] = final.HeldTime; }
            if (final.BehindTo is { } newest) { _times[ShipWire.FromWire(newest)] = final.BehindToTime; }
            isNews |= final.Held is { } held
                && machine.Reported(new(new(final.SiteEpoch), new(final.Shard), final.Generation, final.Owner, ShipWire.FromWire(held))
                {
                    Behind = final is { BehindFrom: { } from, BehindTo: { } to } ? (ShipWire.FromWire(from), ShipWire.FromWire(to)) : null,
                }, NowUs);
        }
        if (isNews) { return; }
        // Said when it changes: it is asked again and again.
        int[] shards = [.. ask.Of.Select(s => _site.ShardOf(s.Number)).Distinct()];
        string why = WhyMissing(shards, [.. answers.Select(a => a.Silence)]);
        string missing = $"shard {string.Join(", ", shards)} has not said what it holds, and is asked again: {why}";
        if (missing != _missing) { report.Warn(missing); }
        _missing = missing;
        await Task.Delay(RetryPause, stop).ConfigureAwait(false);
        if (answers.Any(a => a.Silence is not null)) { await FindAsync(stop).ConfigureAwait(false); }
        machine.Read(_site = await TryAsync(() => metadata.SiteAsync(cluster, stop), stop).ConfigureAwait(false));
    }

    // By process, in their order: null where one has answered.
    private string WhyMissing(int[] shards, RpcException?[] silences)
    {
        List<string> why = [];
        int[] unknown = [.. shards.Except(_processes.SelectMany(p => p.Shards.Select(s => s.Number)))];
        if (unknown.Length > 0)
        {
            why.Add($"no process has ever said that it receives shard {string.Join(", ", unknown)}. Start its slogger backup");
        }
        for (int i = 0; i < silences.Length; i++)
        {
            int[] its = [.. shards.Intersect(_processes[i].Shards.Select(s => s.Number))];
            if (its.Length == 0 || silences[i] is not { } silence) { continue; }
            why.Add($"the process of shard {string.Join(", ", its)} {WhySilent(its, silence)}");
        }
        return why.Count > 0 ? string.Join("; ", why) : "its process answers, and has yet to finish what it writes";
    }

    // Who is slow, or does not let us in, still has what it holds: a loss is advised only where nobody is there.
    private static string WhySilent(int[] shards, RpcException e)
    {
        if (e.Code == StatusCode.Unauthenticated)
        {
            return $"does not let us in: {e.Detail}. All processes of the site need the same --site-secret-file and certificates that fit";
        }
        if (e.Code == StatusCode.DeadlineExceeded)
        {
            string limit = $"{AskLimit.TotalSeconds:0} s";
            return $"has not answered within {limit}: it is busy or stopped, or its machine is not reached. slogger status "
                + "--site tells which";
        }
        for (Exception? cause = e.InnerException; cause is not null; cause = cause.InnerException)
        {
            if (cause is not SocketException) { continue; }
            string loss = string.Join(' ', shards.Select(s => $"--lose-shard {s}"));
            return $"does not run, or its machine is not reached. Start it; only if its disk is gone for good, give it up: "
                + $"slogger failover {loss}";
        }
        return $"cannot say it yet: {e.Detail}";
    }

    // All at once: one sync of the database opens all that are there.
    private async Task AskReadyAsync(Failover machine, FailoverStep.AskReady ask, CancellationToken stop)
    {
        var request = new V1.FinalRequest { SiteEpoch = ask.Number.Number, Final = ShipWire.ToWire(ask.Final) };
        V1.FinalReply?[] replies =
            await Task.WhenAll(_processes.Select(p => AskAsync(p, SiteControlMethods.Final, request, stop))).ConfigureAwait(false);
        bool isNews = false;
        foreach (V1.ReadyStream ready in replies.Where(r => r is not null).SelectMany(r => r!.Ready))
        {
            isNews |= machine.Ready(ask.Number, new(new(ready.Shard), ready.Owner, ready.Name));
        }
        if (isNews) { return; }
        await Task.Delay(RetryPause, stop).ConfigureAwait(false);
        if (replies.Contains(null)) { await FindAsync(stop).ConfigureAwait(false); }
        Opened(machine, await TryAsync(() => metadata.SiteAsync(cluster, stop), stop).ConfigureAwait(false));
    }

    private void Opened(Failover machine, SiteState site)
    {
        machine.Read(_site = site);
        if (_site.Role != SiteRole.FailingOver)
        {
            Passed("open");
            report.Info("all shards are open");
            return;
        }
        string missing = ShardsOf(Enumerable.Range(0, _site.Streams.Length)
            .Where(s => _site.Streams[s] is { IsOpen: false, IsLost: false }));
        if (missing != _missing) { report.Warn($"shard {missing} is not at the final watermark yet"); }
        _missing = missing;
    }

    // The site is the primary, whatever comes of this: whoever does not serve yet recovers by itself.
    private async Task<IReadOnlyList<int>> ServeAsync(CancellationToken stop)
    {
        var request = new V1.ServeRequest { SiteEpoch = _site.Epoch.Number };
        HashSet<int> silent = [.. Enumerable.Range(0, _site.Streams.Length).Where(s => !_site.Streams[s].IsLost).Select(_site.ShardOf)];
        long began = Stopwatch.GetTimestamp();
        while (true)
        {
            V1.ServeReply?[] replies =
                await Task.WhenAll(_processes.Where(p => p.Shards.Any(s => silent.Contains(s.Number))).Select(
                    p => AskAsync(p, SiteControlMethods.Serve, request, stop))).ConfigureAwait(false);
            silent.ExceptWith(replies.Where(r => r is not null).SelectMany(r => r!.Shards));
            if (silent.Count == 0 || Stopwatch.GetElapsedTime(began) > ServeLimit) { break; }
            await Task.Delay(RetryPause, stop).ConfigureAwait(false);
            if (replies.Contains(null)) { await FindAsync(stop).ConfigureAwait(false); }
        }
        Passed("serving");
        return [.. silent.Order()];
    }

    private string ShardsOf(IEnumerable<int> streams) => string.Join(", ", streams.Select(_site.ShardOf).Distinct());

    private void Passed(string stage) =>
        _stages.Append(CultureInfo.InvariantCulture, $"{(_stages.Length == 0 ? "" : ", ")}{stage} {Elapsed.TotalMilliseconds:0.0}");

    // Null: it does not answer now.
    private static async Task<TReply?> AskAsync<TRequest, TReply>(
        SitePeer process, global::Grpc.Core.Method<TRequest, TReply> method, TRequest request, CancellationToken stop)
        where TRequest : class
        where TReply : class => (await TryAskAsync(process, method, request, stop).ConfigureAwait(false)).Reply;

    // One of both is null.
    private static async Task<(TReply? Reply, RpcException? Silence)> TryAskAsync<TRequest, TReply>(
        SitePeer process, global::Grpc.Core.Method<TRequest, TReply> method, TRequest request, CancellationToken stop)
        where TRequest : class
        where TReply : class
    {
        try
        {
            CallOptions options = new() { Timeout = AskLimit, Cancellation = stop };
            return (await process.Channel.CallAsync(method, request, options).ConfigureAwait(false), null);
        }
        catch (RpcException e)
        {
            stop.ThrowIfCancellationRequested();
            return (null, e);
        }
    }

    private async Task FindAsync(CancellationToken stop) =>
        _processes = await TryAsync(() => find(stop), stop).ConfigureAwait(false);

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
                report.Warn($"the backup's database cannot be used, and is tried again: {e.Message}");
                await Task.Delay(RetryPause, stop).ConfigureAwait(false);
            }
        }
    }

    private static long NowUs => (long)Stopwatch.GetElapsedTime(0).TotalMicroseconds;
}
