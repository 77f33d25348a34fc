// The watermark service of a backup site, as a role that any of its processes may have: Core's WatermarkService behind a gRPC method. Two
// at once do no harm, and nothing is lost with one: whoever follows says all again to the next.
using System.Collections.Concurrent;
using System.Diagnostics;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.Watermarks;
using Slogger.Core.WorldLines;
using Slogger.Grpc;
using Slogger.Grpc.Server;
using Slogger.Grpc.Shipping;
using Slogger.Metadata;
using Slogger.Replication.Links;
using Slogger.Sites.Shipping;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Watermarks;

/// <summary>Serves who follows the watermark.</summary>
internal sealed class WatermarkRole : IAsyncDisposable
{
    // A stream that was seeded anew says what it holds before that is read in SQL: so all is said again now and then.
    public static readonly TimeSpan SayAgain = TimeSpan.FromMilliseconds(500);
    private static readonly TimeSpan MembersPeriod = TimeSpan.FromMilliseconds(200);

    private readonly IMetadataStore _metadata;
    private readonly string _cluster;
    private readonly Lock _lock = new();
    private readonly WatermarkService _machine;
    private readonly List<DirectWriter<WorldPoint>> _followers = [];
    private readonly CancellationTokenSource _stop = new();
    private readonly Task _watching;
    private Action<WorldPoint>? _here;
    private readonly ConcurrentDictionary<ShardId, (WatermarkReport Report, long At)> _saidHere = [];

    /// <summary>Begins: nobody has reported.</summary>
    /// <param name="metadata">The backup's SQL, which says what the members are.</param>
    /// <param name="cluster">The cluster.</param>
    /// <param name="site">What it says now.</param>
    public WatermarkRole(IMetadataStore metadata, string cluster, SiteState site)
    {
        (_metadata, _cluster) = (metadata, cluster);
        _machine = new(site.Generations);
        Read(site);
        _watching = WatchAsync();
    }

    /// <summary>The watermark; null before every stream has reported.</summary>
    public WorldPoint? Current
    {
        get
        {
            lock (_lock) { return _machine.Current; }
        }
    }

    /// <summary>Has a server answer.</summary>
    public void AddTo(GrpcServer server) => server.Add(WatermarkMethods.Follow, ServeAsync);

    /// <summary>A stream of this process follows: no connection is needed.</summary>
    /// <param name="onWatermark">Is told the watermark, again and again. Any thread, and what is older may come later.</param>
    public void FollowHere(Action<WorldPoint> onWatermark)
    {
        WorldPoint? known;
        lock (_lock)
        {
            _here = onWatermark;
            known = _machine.Tellable;
        }
        if (known is { } watermark) { onWatermark(watermark); }
    }

    /// <summary>A stream of this process says what it holds; as often as it likes.</summary>
    public void ReportHere(in WatermarkReport report)
    {
        bool isOld = _saidHere.TryGetValue(report.Stream, out (WatermarkReport Report, long At) before) && report == before.Report
            && Stopwatch.GetElapsedTime(before.At) < SayAgain;
        if (isOld) { return; }
        _saidHere[report.Stream] = (report, Stopwatch.GetTimestamp());
        Report(report);
    }

    public async ValueTask DisposeAsync()
    {
        await _stop.CancelAsync().ConfigureAwait(false);
        await _watching.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        _stop.Dispose();
    }

    private async Task ServeAsync(ServerCall<V1.WatermarkReport, V1.WatermarkNotice> call)
    {
        await call.SendHeadersAsync().ConfigureAwait(false);
        // The newest is all that there is to say.
        var notices = new DirectWriter<WorldPoint>(keeps: 1, (watermark, _) => call.WriteAsync(
            new V1.WatermarkNotice { Watermark = ShipWire.ToWire(watermark), Cluster = _cluster }));
        lock (_lock)
        {
            _followers.Add(notices);
            if (_machine.Tellable is { } known) { notices.Write(known); }
        }
        try
        {
            while (await call.ReadAsync().ConfigureAwait(false) is { } wire) { Take(wire); }
        }
        finally
        {
            lock (_lock) { _followers.Remove(notices); }
            await notices.CloseAsync().ConfigureAwait(false);
        }
    }

    private void Take(V1.WatermarkReport wire)
    {
        if (wire.Cluster != _cluster)
        {
            throw new RpcException(StatusCode.FailedPrecondition,
                $"this is the watermark of cluster \"{_cluster}\", and the stream is of \"{wire.Cluster}\": check --watermark");
        }
        Report(new(new(wire.Shard), wire.Generation, wire.Floor is null ? default : ShipWire.FromWire(wire.Floor),
            ShipWire.FromWire(ShipWire.Required(wire.Held))));
    }

    private void Report(in WatermarkReport report)
    {
        WorldPoint watermark;
        Action<WorldPoint>? here;
        lock (_lock)
        {
            if (!_machine.Report(report)) { return; }
            watermark = _machine.Current!.Value;
            here = _here;
            // In order: what is dropped for a newer one is older.
            foreach (DirectWriter<WorldPoint> follower in _followers) { follower.Write(watermark); }
        }
        here?.Invoke(watermark);
    }

    private void Read(SiteState site) => _machine.Members(site.Generations, site.Role == SiteRole.Backup);

    // Streams that are seeded anew, and the end of the site's being a backup.
    private async Task WatchAsync()
    {
        while (true)
        {
            await Task.Delay(MembersPeriod, _stop.Token).ConfigureAwait(false);
            lock (_lock)
            {
                // Nobody asks this process.
                if (_followers.Count == 0 && _here is null) { continue; }
            }
            try
            {
                SiteState site = await _metadata.SiteAsync(_cluster, _stop.Token).ConfigureAwait(false);
                lock (_lock) { Read(site); }
            }
            catch (MetadataException)
            {
                // What was known last goes on: a stream that is seeded anew reports under another generation, which does not count until it
                // is read here.
            }
        }
    }
}
