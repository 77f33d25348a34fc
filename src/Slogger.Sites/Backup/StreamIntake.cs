// What a shard of a backup receives by: a gRPC server to which the primary's shipper, the managers of failovers and the followers of the watermark connect, the stream's receiver, and
// the connection to whoever tells the watermark.
using System.Net;
using Slogger.Core.Shards;
using Slogger.Core.Sites;
using Slogger.Core.Watermarks;
using Slogger.Core.WorldLines;
using Slogger.Grpc.Server;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Following;
using Slogger.Proxy.Shards;
using Slogger.Proxy.Shipping;
using Slogger.Sites.Failovers;
using Slogger.Sites.Seeding;
using Slogger.Sites.Shipping;
using Slogger.Sites.Watermarks;

namespace Slogger.Sites.Backup;

/// <summary>The intake of one stream.</summary>
/// <param name="options">The process's options.</param>
/// <param name="credentials">Between the sites.</param>
/// <param name="serverOptions">Where it listens.</param>
/// <param name="log">For people.</param>
internal sealed class StreamIntake(ServeOptions options, SiteCredentials credentials, GrpcServerOptions serverOptions, ILogSink log) : IStreamIntake, IAsyncDisposable
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
    private volatile BackupStream? _stream;
    private StreamDisk? _disk;
    private Task _following = Task.CompletedTask, _leaving = Task.CompletedTask;
    private WorldPoint _watermark;

    /// <summary>Whether it has begun.</summary>
    public bool IsListening => _server is not null;

    public IEnumerable<(string Name, object Value)> Status
    {
        get
        {
            if (_stream is not { } stream) { yield break; }
            StreamReceiver? receiver = stream.Receiver;
            yield return ("held", receiver?.Held ?? default);
            yield return ("watermark", _watermark);
            yield return ("bytes_received", receiver?.BytesReceived ?? 0);
            yield return ("silent_ms", receiver?.Silence is { } silence ? (long)silence.TotalMilliseconds : -1);
            if (receiver is { IsSeeded: false })
            {
                yield return ("seed_has_bytes", receiver.Seeding?.HasBytes ?? 0);
                yield return ("seed_bytes", receiver.Seeding?.Bytes ?? 0);
            }
            if (stream.Failure is { } failure) { yield return ("failure", failure); }
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
        new ShippingService(s => _stream is { } stream && stream.Stream == s ? stream.Receiver : null, ShipTerms.Of(options), () => seat.FollowedSite is null ? (shard as IPrimaryShard)?.SiteEpoch : null).AddTo(_server);
        new SiteControlService(
            seat.Metadata, seat.Cluster, () => _stream is { } stream ? [stream] : [], () => seat.FollowedSite is null ? shard as IPrimaryShard : null, () => shard is IPrimaryShard primary ? [(primary.Shard, primary.Serving)] : [],
            options.Site.Lease ?? default, shard.TryRestoreAsync).AddTo(_server);
        _failovers = new FailoverRole(seat.Metadata, seat.Cluster, seat.Shard, credentials, log);
        _failovers.AddTo(_server);
        _disk = StreamDisk.Open(options.DataDirectory, shard.Log, shard.Checkpoints);
        _stream = new BackupStream(_disk, seat.Shard, shard, site, seat.Metadata, seat.Cluster, OnHeld, log, shard.OnIntakeFailed);
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
        if (site is { Role: SiteRole.FailingOver, Final: { } final }) { await _stream.DecidedAsync(site.Epoch, final).ConfigureAwait(false); }
        _following = FollowWatermarkAsync(_ending.Token);
    }

    public async Task WithLogAsync(Action change)
    {
        if (_stream is { } stream) { await stream.WithLogAsync(change).ConfigureAwait(false); }
        else { change(); }
    }

    public async Task EndAsync()
    {
        if (!_ending.IsCancellationRequested) { await _ending.CancelAsync().ConfigureAwait(false); }
        await _following.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (_failovers is not null) { await _failovers.EndAsync().ConfigureAwait(false); }
        // A stop and a failover may both end it.
        if (Interlocked.Exchange(ref _stream, null) is { } stream)
        {
            await stream.DisposeAsync().ConfigureAwait(false);
            _disk!.Dispose();
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

    // As others reach it.
    private string Address(IPEndPoint bound)
    {
        ListenAddress given = options.Site.Listen!;
        string host = !given.IsEveryInterface ? given.Host! : options.Announce is { IsEveryInterface: false, Host: { } announced } ? announced : Dns.GetHostName();
        return ListenAddress.Tcp(host, bound.Port).ToString();
    }

    private void OnHeld(WatermarkReport report)
    {
        if (_followsHere) { _role!.ReportHere(report); }
        else { _follower?.Report(report); }
    }

    private void OnWatermark(WorldPoint watermark)
    {
        if (watermark > _watermark) { _watermark = watermark; }
        _stream?.WatermarkTold(watermark);
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
                if (at is null && (await seat.Metadata.SiteAddressesAsync(seat.Cluster, stop).ConfigureAwait(false)).TryGetValue(WatermarkShard, out text)) { _ = ListenAddress.TryParse(text, out at, out _); }
                if (at is not null && at != followed)
                {
                    if (_follower is { } before) { await before.DisposeAsync().ConfigureAwait(false); }
                    // As noted in SQL by this process: the role is its own.
                    _followsHere = options.Site.Watermark is null && text == Address(_server!.EndPoint) && seat.Shard == WatermarkShard;
                    _follower = _followsHere ? null : new WatermarkFollower(at.Host!, at.Port, credentials.Channel, seat.Cluster, OnWatermark, log);
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
