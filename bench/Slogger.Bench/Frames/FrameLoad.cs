// Frames of shipping between a server and a client in this process: what one costs on both sides together. Names nothing of the bench,
// so that it can be compiled against another build of Slogger.Grpc as it is.
using System.Diagnostics;
using System.Net;
using Slogger.Grpc.Client;
using Slogger.Grpc.Server;
using Slogger.Grpc.Shipping;
using Slogger.Grpc.Shipping.V1;

namespace Slogger.Bench.Frames;

/// <summary>What a frame has cost on average, both sides together.</summary>
internal readonly record struct FrameCost(double AllocatedBytes, double CpuUs, double PerSecond);

/// <summary>A server, and one call to it.</summary>
internal sealed class FrameLoad : IAsyncDisposable
{
    // A machine that is too busy for an answer to a ping is no reason to give up.
    private static readonly TimeSpan s_patience = TimeSpan.FromMinutes(10);
    private readonly GrpcServer _server;
    private readonly GrpcChannel _channel;
    private readonly ClientCall<ShipFrame, ShipReply> _call;
    private long _received;

    private FrameLoad()
    {
        _server = new(new() { Listen = new(IPAddress.Loopback, 0), PingAfter = s_patience });
        _server.Add(ShippingMethods.Ship, ServeAsync);
        TimeSpan before = Cpu;
        // The socket is bound before anything is awaited that could take long.
        _server.StartAsync().GetAwaiter().GetResult();
        StartCpu = Cpu - before;
        _channel = new("127.0.0.1", _server.EndPoint.Port, new() { PingAfter = s_patience, ConnectTimeout = s_patience });
        _call = _channel.Open(ShippingMethods.Ship);
    }

    /// <summary>CPU time that the start of the server took, and the first frame until it was answered. Of a process
    /// only the first load says something.</summary>
    public TimeSpan StartCpu { get; }

    /// <inheritdoc cref="StartCpu" />
    public TimeSpan FirstCpu { get; private set; }

    private static TimeSpan Cpu => Process.GetCurrentProcess().TotalProcessorTime;

    /// <summary>How many frames say something.</summary>
    public static int FramesOf(int sizeBytes, bool isOneWay) =>
        sizeBytes switch { < 16 << 10 => isOneWay ? 20_000 : 5_000, < 128 << 10 => 2_000, _ => 800 };

    /// <summary>Starts a server and calls it.</summary>
    public static async Task<FrameLoad> StartAsync()
    {
        var load = new FrameLoad();
        TimeSpan before = Cpu;
        await load.SendAsync(new byte[1], isAnswered: true).ConfigureAwait(false);
        load.FirstCpu = Cpu - before;
        return load;
    }

    /// <summary>Sends frames and takes what they cost.</summary>
    /// <param name="sizeBytes">The data of each.</param>
    /// <param name="frames">How many.</param>
    /// <param name="isOneWay">They follow each other; or else each is answered before the next.</param>
    public async Task<FrameCost> MeasureAsync(int sizeBytes, int frames, bool isOneWay)
    {
        byte[] data = new byte[sizeBytes];
        long received = _received;
        TimeSpan cpu = Cpu;
        long allocated = GC.GetTotalAllocatedBytes(precise: true), begun = Stopwatch.GetTimestamp();
        for (int i = 1; i <= frames; i++) { await SendAsync(data, !isOneWay || i == frames).ConfigureAwait(false); }
        TimeSpan took = Stopwatch.GetElapsedTime(begun);
        allocated = GC.GetTotalAllocatedBytes(precise: true) - allocated;
        cpu = Cpu - cpu;
        if (_received - received != (long)frames * sizeBytes) { throw new InvalidOperationException("not all has arrived"); }
        return new((double)allocated / frames, cpu.TotalMicroseconds / frames, frames / took.TotalSeconds);
    }

    public async ValueTask DisposeAsync()
    {
        await _call.DisposeAsync().ConfigureAwait(false);
        _channel.Dispose();
        await _server.DisposeAsync().ConfigureAwait(false);
    }

    // As on the way between sites, each frame has a message of its own.
    private async ValueTask SendAsync(byte[] data, bool isAnswered)
    {
        var request = new ShipRequest { Shard = 1, Piece = new() { SentUs = isAnswered ? 1 : 0 } };
        if (!await _call.WriteAsync(new(request, new(data))).ConfigureAwait(false)
            || (isAnswered && await _call.ReadAsync().ConfigureAwait(false) is null))
        {
            throw new InvalidOperationException("the call has ended");
        }
    }

    private async Task ServeAsync(ServerCall<ShipFrame, ShipReply> call)
    {
        while (await call.ReadAsync().ConfigureAwait(false) is { } frame)
        {
            _received += frame.Data.Length;
            if (frame.Request.Piece.SentUs != 0) { await call.WriteAsync(new() { Kind = ReplyKind.Ack }).ConfigureAwait(false); }
        }
    }
}
