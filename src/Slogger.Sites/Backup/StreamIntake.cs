// What a shard of a backup receives by: a gRPC server to which the primary's shipper, the managers of failovers and the followers of the
// watermark connect, the stream's receiver, and the connection to whoever tells the watermark.
using System.Net;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Shards;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Grpc.Server;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Ports;
using Slogger.Replication.Receiving;
using Slogger.Replication.Seeding;
using Slogger.Resp;
using Slogger.Sites.Access;
using Slogger.Sites.Failovers;
using Slogger.Sites.Merging;
using Slogger.Sites.Shipping;
using Slogger.Sites.Streams;
using Slogger.Sites.Watermarks;

namespace Slogger.Sites.Backup;

/// <summary>The intake of a shard: of one stream, or of several that it is put together from.</summary>
/// <param name="options">The process's options.</param>
/// <param name="credentials">Between the sites.</param>
/// <param name="serverOptions">Where it listens.</param>
/// <param name="log">For people.</param>
/// <param name="rehearsal">Of a failover; null: there is none.</param>
internal sealed class StreamIntake(ServeOptions options, SiteCredentials credentials, GrpcServerOptions serverOptions, ILogger log,
    IRehearsal? rehearsal = null)
    : IStreamIntake, IAsyncDisposable
{
    private static readonly TimeSpan RolePeriod = TimeSpan.FromMilliseconds(500);
    private static readonly ShardId WatermarkShard = new(0);

    private readonly CancellationTokenSource _ending = new();
    private IFollowingShard? _shard;
    private GrpcServer? _server;
    private WatermarkRole? _role;
    private FailoverRole? _failovers;
    private volatile WatermarkFollower? _follower;
    private volatile bool _followsHere;
    private volatile BackupStream[] _streams = [];
    private StreamDisk? _disk;
    private MergedStore? _merged;
    private Task _following = Task.CompletedTask, _leaving = Task.CompletedTask;

    /// <summary>Whether it has begun.</summary>
    public bool IsListening => _server is not null;

    public IEnumerable<(string Name, object Value)> Status
    {
        get
        {
            BackupStream[] streams = _streams;
            if (streams.Length == 0) { yield break; }
            // Of several: the least that is held, the longest silence, and the copies together.
            StreamReceiver?[] receivers = [.. streams.Select(s => s.Receiver)];
            yield return ("held", receivers.Min(r => r?.Held ?? default));
            yield return ("watermark", receivers.Max(r => r?.Watermark ?? default));
            yield return ("bytes_received", receivers.Sum(r => r?.BytesReceived ?? 0));
            yield return ("silent_ms", receivers.All(r => r?.Silence is not null)
                ? (long)receivers.Max(r => r!.Silence!.Value).TotalMilliseconds : -1);
            if (receivers.Any(r => r is { IsSeeded: false }))
            {
                yield return ("seed_has_bytes", receivers.Sum(r => r?.Seeding?.HasBytes ?? 0));
                yield return ("seed_bytes", receivers.Sum(r => r?.Seeding?.Bytes ?? 0));
            }
            yield return ("failover_rehearsal", rehearsal?.State ?? "off");
            if (streams.Select(s => s.Failure ?? s.Receiver?.Refusal).FirstOrDefault(f => f is not null) is { } failure)
            {
                yield return ("failure", failure);
            }
        }
    }

    public async Task StartAsync(IFollowingShard shard, CancellationToken stop)
    {
        ClusterSeat seat = shard.Seat;
        SiteState site = seat.FollowedSite!;
        _shard = shard;
        _server = new GrpcServer(serverOptions);
        _role = new WatermarkRole(seat.Metadata, seat.Cluster, site);
        _role.AddTo(_server);
        new ShippingService(
            source => _streams.FirstOrDefault(s => site.Layout[s.Stream.Number].Source == source.Number)?.Receiver, ShipTerms.Of(options),
                () => seat.FollowedSite is null ? shard.Primary?.SiteEpoch : null,
            (shape, source) => seat.FollowedSite is null ? null : ShipTerms.Against(site, shape, source), shard.OnGrid).AddTo(_server);
        new SiteControlService(
            seat.Metadata, seat.Cluster, () => _streams, () => seat.FollowedSite is null ? shard.Primary
                : null, () => shard.Primary is { } primary ? [(primary.Shard, primary.Serving)] : [],
            options.Site.Lease ?? default, shard.TryRestoreAsync).AddTo(_server);
        _failovers = new FailoverRole(seat.Metadata, seat.Cluster, seat.Shard, credentials, log, rehearsal);
        _failovers.AddTo(_server);
        OpenStreams(shard, site);
        await _server.StartAsync(stop).ConfigureAwait(false);
        await seat.RetryAsync(
            async () =>
            {
                await seat.Metadata.NoteSiteAddressAsync(seat.Cluster, seat.Shard, Address(_server.EndPoint), stop).ConfigureAwait(false);
                return true;
            },
            stop).ConfigureAwait(false);
        log.Info($"shard {seat.Shard}: receives its stream at {_server.EndPoint}");
        // Whoever manages it may have gone: what is decided holds.
        if (site is { Role: SiteRole.FailingOver, Final: { } final }) 
        {
            foreach (BackupStream stream in _streams) { await stream.DecidedAsync(site.Epoch, final).ConfigureAwait(false); }
        }
        _following = FollowWatermarkAsync(_ending.Token);
    }

    public async Task WithLogAsync(Action change)
    {
        if (_merged is { } merged) { await merged.WithLogAsync(change).ConfigureAwait(false); }
        else if (_streams is [var stream]) { await stream.WithLogAsync(change).ConfigureAwait(false); }
        else { change(); }
    }

    public async Task EndAsync()
    {
        rehearsal?.End(forGood: true);
        if (!_ending.IsCancellationRequested) { await _ending.CancelAsync().ConfigureAwait(false); }
        await _following.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (_failovers is not null) { await _failovers.EndAsync().ConfigureAwait(false); }
        // A stop and a failover may both end it.
        if (Interlocked.Exchange(ref _streams, []) is { Length: > 0 } streams)
        {
            foreach (BackupStream stream in streams) { await stream.DisposeAsync().ConfigureAwait(false); }
            _disk?.Dispose();
            Interlocked.Exchange(ref _merged, null)?.Dispose();
        }
        // What it says concerns nobody any more; that it is gone nobody needs to wait for.
        if (Interlocked.Exchange(ref _follower, null) is { } follower) { _leaving = follower.DisposeAsync().AsTask(); }
    }

    public async ValueTask DisposeAsync()
    {
        await EndAsync().ConfigureAwait(false);
        await _leaving.ConfigureAwait(false);
        if (_server is not null) { await _server.DisposeAsync().ConfigureAwait(false); }
        if (_failovers is not null) { await _failovers.DisposeAsync().ConfigureAwait(false); }
        if (_role is not null) { await _role.DisposeAsync().ConfigureAwait(false); }
        _ending.Dispose();
    }

    private void OpenStreams(IFollowingShard shard, SiteState site)
    {
        ClusterSeat seat = shard.Seat;
        if (site.Layout.IsPlain)
        {
            _disk = StreamDisk.Open(options.DataDirectory, shard.Log, shard.Checkpoints, shard.Guard, StreamDisk.DatabaseOf);
            _streams = [new BackupStream(_disk, seat.Shard, shard, site, seat.Metadata, seat.Cluster, OnHeld, log, shard.OnIntakeFailed,
                OnBusy)];
            return;
        }
        if (options.Commit == CommitMode.Faster)
        {
            throw new RecoveryRefusedException($"shard {seat.Shard}: the primary has {site.Layout.Sources} shards, and this site another "
                + "number, which needs a Redis: an embedded store follows one shard. Give --redis or --redis-server, or make the backup "
                + "with as many shards");
        }
        MergedStore merged = _merged = MergedStore.Open(shard, seat.Shard, seat.Epoch, options.DataDirectory, site.Layout, log);
        _streams = [.. merged.Streams.Select(s =>
            new BackupStream(s.Disk, s.Number, s, site, seat.Metadata, seat.Cluster, OnHeld, log, shard.OnIntakeFailed, OnBusy,
                (to, stop) => merged.Verify(s, to, stop)))];
    }

    private void OnBusy(bool forGood) => rehearsal?.End(forGood);

    // As others reach it.
    private string Address(IPEndPoint bound)
    {
        ListenAddress given = options.Site.Listen!;
        string host = !given.IsEveryInterface ? given.Host!
            : options.Announce is { IsEveryInterface: false, Host: { } announced } ? announced : Dns.GetHostName();
        return ListenAddress.Tcp(host, bound.Port).ToString();
    }

    private void OnHeld(WatermarkReport report)
    {
        if (_followsHere) { _role!.ReportHere(report); }
        else { _follower?.Report(report); }
    }

    private void OnWatermark(WorldPoint watermark)
    {
        foreach (BackupStream stream in _streams) { stream.WatermarkTold(watermark); }
    }

    // The process of shard 0 may be started elsewhere.
    private async Task FollowWatermarkAsync(CancellationToken stop)
    {
        ClusterSeat seat = _shard!.Seat;
        ListenAddress? followed = null;
        while (true)
        {
            try
            {
                string? text = null;
                ListenAddress? at = options.Site.Watermark;
                if (at is null && (await seat.Metadata.SiteAddressesAsync(seat.Cluster, stop).ConfigureAwait(false)).TryGetValue(
                    WatermarkShard, out text))
                {
                    _ = ListenAddress.TryParse(text, out at, out _);
                }
                if (at is not null && at != followed)
                {
                    if (_follower is { } before) { await before.DisposeAsync().ConfigureAwait(false); }
                    // As noted in SQL by this process: the role is its own.
                    _followsHere = options.Site.Watermark is null && text == Address(_server!.EndPoint) && seat.Shard == WatermarkShard;
                    _follower = _followsHere ? null
                        : new WatermarkFollower(at.Host!, at.Port, credentials.Channel, seat.Cluster, OnWatermark, log);
                    if (_followsHere) { _role!.FollowHere(OnWatermark); }
                    followed = at;
                }
            }
            catch (MetadataException)
            {
                // As it was known last.
            }
            await Task.Delay(RolePeriod, stop).ConfigureAwait(false);
        }
    }
}
