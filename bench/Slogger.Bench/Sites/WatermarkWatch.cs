// Hears the watermark where it is made, at the backup: when it has come to a version is then known by one clock with what the primary's
// clients hear.
using System.Diagnostics;
using Slogger.Grpc;
using Slogger.Grpc.Client;
using Slogger.Grpc.Shipping;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Bench.Sites;

internal sealed class WatermarkWatch : IDisposable
{
    private readonly GrpcChannel _channel;
    private readonly CancellationTokenSource _stop = new();
    private readonly List<(long At, long Version)> _heard = [];
    private readonly Task _running;

    /// <param name="port">Where the role is.</param>
    public WatermarkWatch(int port)
    {
        _channel = new("127.0.0.1", port, new GrpcChannelOptions());
        _running = Task.Run(RunAsync);
    }

    /// <summary>When the watermark had come to a version; null: it has not been heard of.</summary>
    public long? CameTo(long version)
    {
        lock (_heard)
        {
            int low = 0, high = _heard.Count;
            while (low < high)
            {
                int middle = (low + high) / 2;
                if (_heard[middle].Version < version) { low = middle + 1; }
                else { high = middle; }
            }
            return low < _heard.Count ? _heard[low].At : null;
        }
    }

    public void Dispose()
    {
        _stop.Cancel();
        _running.ContinueWith(_ => { }, TaskScheduler.Default).Wait();
        _channel.Dispose();
        _stop.Dispose();
    }

    private async Task RunAsync()
    {
        await using ClientCall<V1.WatermarkReport, V1.WatermarkNotice> call =
            _channel.Open(WatermarkMethods.Follow, new CallOptions { Cancellation = _stop.Token });
        await call.HeadersAsync().ConfigureAwait(false);
        while (await call.ReadAsync().ConfigureAwait(false) is { } notice)
        {
            long now = Stopwatch.GetTimestamp();
            if (notice.Watermark is not { } watermark) { continue; }
            lock (_heard)
            {
                if (_heard.Count == 0 || watermark.Version > _heard[^1].Version) { _heard.Add((now, watermark.Version)); }
            }
        }
    }
}
