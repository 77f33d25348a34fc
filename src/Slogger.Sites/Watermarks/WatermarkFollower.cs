// A backup process's connection to the watermark service: says what its streams hold, and hears how far the stores may go.
using System.Collections.Concurrent;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.WorldLines;
using Slogger.Grpc;
using Slogger.Grpc.Client;
using Slogger.Grpc.Shipping;
using Slogger.Proxy.Configuration;
using Slogger.Replication.Links;
using Slogger.Sites.Shipping;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Watermarks;

/// <summary>Follows the watermark.</summary>
internal sealed class WatermarkFollower : IAsyncDisposable
{
    private static readonly TimeSpan ReconnectPause = TimeSpan.FromMilliseconds(50);

    private readonly GrpcChannel _channel;
    private readonly string _target, _cluster;
    private readonly Action<WorldPoint> _onWatermark;
    private readonly ILogger _report;
    private readonly ConcurrentDictionary<ShardId, WatermarkReport> _reports = [];
    private readonly WakeSignal _wanted = new();
    private volatile bool _isToSayAgain;
    private readonly CancellationTokenSource _stop = new();
    private readonly Task _running;
    private readonly LastingLoss _loss = new();

    /// <summary>Begins to follow.</summary>
    /// <param name="host">Where the role is.</param>
    /// <param name="port">And its port.</param>
    /// <param name="options">How to connect.</param>
    /// <param name="cluster">Whose watermark.</param>
    /// <param name="onWatermark">Is told the watermark, again and again.</param>
    /// <param name="report">For people.</param>
    public WatermarkFollower(string host, int port, GrpcChannelOptions options, string cluster, Action<WorldPoint> onWatermark,
        ILogger report)
    {
        (_channel, _target, _cluster, _onWatermark, _report) = (new(host, port, options), $"{host}:{port}", cluster, onWatermark, report);
        _running = Task.Run(RunAsync);
    }

    /// <summary>A stream says what it holds. Any thread; never waits.</summary>
    public void Report(WatermarkReport report)
    {
        _reports[report.Stream] = report;
        _wanted.Set();
    }

    public async ValueTask DisposeAsync()
    {
        await _stop.CancelAsync().ConfigureAwait(false);
        await _running.ConfigureAwait(false);
        _channel.Dispose();
        _stop.Dispose();
    }

    private async Task RunAsync()
    {
        while (!_stop.IsCancellationRequested)
        {
            using var over = CancellationTokenSource.CreateLinkedTokenSource(_stop.Token);
            Task reporting = Task.CompletedTask;
            try
            {
                await using var call = _channel.Open(WatermarkMethods.Follow, new CallOptions { Cancellation = over.Token });
                reporting = ReportAllAsync(call, over);
                while (await call.ReadAsync().ConfigureAwait(false) is { } notice)
                {
                    if (notice.Cluster != _cluster)
                    {
                        throw new RpcException(StatusCode.FailedPrecondition,
                            $"it is of cluster \"{notice.Cluster}\", and this process of \"{_cluster}\": check --watermark");
                    }
                    _loss.Over();
                    if (notice.Watermark is { } watermark) { _onWatermark(ShipWire.FromWire(watermark)); }
                }
            }
            catch (RpcException e)
            {
                SayLost(e);
            }
            await over.CancelAsync().ConfigureAwait(false);
            await reporting.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            await Task.Delay(ReconnectPause, _stop.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
    }

    private void SayLost(RpcException e)
    {
        if (_stop.IsCancellationRequested || !_loss.IsToTell(e.Code is StatusCode.Unauthenticated or StatusCode.FailedPrecondition))
        {
            return;
        }
        string why = e.Code == StatusCode.Unauthenticated
            ? $"it does not let us in: {e.Detail}: --site-secret-file must name the same secret in all processes" : e.Message;
        _report.Warn($"the watermark service at {_target} cannot be reached, and is tried again; the stores stay where they are: {why}");
    }

    // All at first, since the service may be another one; then what is new.
    private async Task ReportAllAsync(ClientCall<V1.WatermarkReport, V1.WatermarkNotice> call, CancellationTokenSource over)
    {
        var told = new Dictionary<ShardId, WatermarkReport>();
        await using CancellationTokenRegistration ending =
            over.Token.UnsafeRegister(static o => ((WatermarkFollower)o!)._wanted.Set(), this);
        await using var again = new Timer(static o => ((WatermarkFollower)o!).SayAgain(), this, WatermarkRole.SayAgain,
            WatermarkRole.SayAgain);
        while (!over.IsCancellationRequested)
        {
            foreach ((ShardId stream, WatermarkReport report) in _reports)
            {
                if (told.TryGetValue(stream, out WatermarkReport before) && before == report) { continue; }
                var wire = new V1.WatermarkReport { Shard = stream.Number, Generation = report.Generation,
                    Floor = ShipWire.ToWire(report.Floor), Held = ShipWire.ToWire(report.Held), Cluster = _cluster };
                if (!await call.WriteAsync(wire).ConfigureAwait(false)) { return; }
                told[stream] = report;
            }
            if (_isToSayAgain) { told.Clear(); }
            _isToSayAgain = false;
            await _wanted.WaitAsync().ConfigureAwait(false);
        }
    }

    private void SayAgain()
    {
        _isToSayAgain = true;
        _wanted.Set();
    }
}
