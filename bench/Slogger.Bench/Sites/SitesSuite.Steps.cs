// What single steps cost, each by itself and in earnest: a disk's sync, a cut in SQL, messages between processes, Redis. With these figures
// the simulator says how the lag grows with the number of shards, each on machines of its own, of which there are not enough here (`--lag`;
// the paper's figure 13).
using System.Diagnostics;
using System.Globalization;
using System.Net;
using Slogger.Bench.Cases;
using Slogger.Bench.Host;
using Slogger.Bench.Load;
using Slogger.Bench.Report;
using Slogger.Core.Cuts;
using Slogger.Core.Time;
using Slogger.Core.WorldLines;
using Slogger.Grpc;
using Slogger.Grpc.Client;
using Slogger.Grpc.Server;
using Slogger.Grpc.Shipping;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Metadata;
using Slogger.Metadata.Sql;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Bench.Sites;

internal sealed partial class SitesSuite
{
    private const int StepSamples = 1000, PumpedMessages = 20_000;
    private static readonly TimeSpan s_stepPause = TimeSpan.FromMilliseconds(2);

    private void Steps(string directory, (string Primary, string Backup) metadata)
    {
        _ = _noise.WaitForQuiet();
        Sorted marker = Marker(directory), sync = Sync(directory), record = Record(metadata.Primary).GetAwaiter().GetResult();
        (Sorted way, double report, double tell) = Messages().GetAwaiter().GetResult();
        string Both(string name, Sorted of) =>
            string.Create(CultureInfo.InvariantCulture, $"{name}={of.At(0.05):0},{name}-tail={of.Mean - of.At(0.05):0}");
        string costs = string.Create(
            CultureInfo.InvariantCulture,
                $"{Both("marker", marker)},{Both("sync", sync)},{Both("record", record)},message={way.Mean / 4:0},local={way.Mean / 2:0}"
                    + $",report={report:0.0},tell={tell:0.0}");
        var lines = new List<string> { "| step | mean us | p5 | p50 | p99 |", "| --- | ---: | ---: | ---: | ---: |" };
        foreach ((string name, Sorted of) in ((string, Sorted)[])[("marker: SPUBLISH to Redis and its answer", marker),
            ("sync of the version log", sync), ("cut recorded in PostgreSQL", record), ("message to another process and its answer", way)])
        {
            lines.Add(string.Create(CultureInfo.InvariantCulture,
                $"| {name} | {of.Mean:0} | {of.At(0.05):0} | {of.At(0.5):0} | {of.At(0.99):0} |"));
            Console.WriteLine("  " + lines[^1]);
        }
        lines.Add(string.Create(CultureInfo.InvariantCulture,
            $"| one of many messages that come in, each by itself | {report:0.0} | | | |"));
        lines.Add(string.Create(CultureInfo.InvariantCulture, $"| one of many that go out, each by itself | {tell:0.0} | | | |"));
        lines.AddRange(["", $"For the simulator: `dotnet run -c Release --project test/Slogger.Simulation -- --lag "
            + $"2,4,8,16,32 --lag-costs {costs}`"]);
        Console.WriteLine("  " + lines[^1]);
        results.AddTable($"{Suite}: what steps cost on this machine", lines);
    }

    private static Sorted Timed(int samples, Action<int> step)
    {
        var taken = new List<double>();
        for (int i = -samples / 10; i < samples; i++)
        {
            Thread.Sleep(s_stepPause);
            long began = Stopwatch.GetTimestamp();
            step(i);
            if (i >= 0) { taken.Add(Stopwatch.GetElapsedTime(began).TotalMicroseconds); }
        }
        return new(taken);
    }

    private Sorted Marker(string directory)
    {
        using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
        int port = fleet.NextPort();
        ManagedProcess redis = fleet.LaunchRedis("steps", port, Path.Combine(directory, "steps"));
        try
        {
            CaseFleet.WaitUntilUp(redis, port, "PING\r\n");
            using var client = new RespClient(port, TimeSpan.FromSeconds(10));
            return Timed(StepSamples, _ => client.Expect("SPUBLISH", "marker", "1 2 3 4"));
        }
        finally
        {
            redis.Kill();
        }
    }

    private static Sorted Sync(string directory)
    {
        using VersionLog log = VersionLog.Open(new() { Directory = Path.Combine(directory, "log"), Shard = new(0) });
        log.Begin(new StreamOrigin(new string('a', 40), 0, 0), WorldLine.First, new(1));
        byte[] bytes = new byte[100];
        long version = 1;
        return Timed(StepSamples, _ =>
        {
            log.Append(bytes);
            log.AppendBoundary(new(WorldLine.First, new(++version), log.EndOffset, 0, HybridTimestamp.Of(version, 0)));
            log.Sync();
        });
    }

    private static async Task<Sorted> Record(string spec)
    {
        const string Cluster = "steps";
        await using IMetadataStore store = MetadataStoreFactory.Create(spec);
        await store.InitializeAsync().ConfigureAwait(false);
        await store.GetOrCreateClusterAsync(
            Cluster, new() { ShardCount = 2, Grid = [new(new(1), 1_700_000_000_000_000, 1000)] }).ConfigureAwait(false);
        for (int s = 0; s < 2; s++) { await store.TakeShardEpochAsync(Cluster, new(s), "here").ConfigureAwait(false); }
        long role = (await store.TakeCoordinatorAsync(Cluster, default, "here:1").ConfigureAwait(false))!.Value, owners =
            (await store.CoordinatorViewAsync(Cluster).ConfigureAwait(false)).Owners;
        long version = 0;
        return Timed(StepSamples, _ =>
        {
            CutOutcome outcome = store.RecordCutAsync(Cluster, Cut.Uniform(WorldLine.First, 2, new(++version)), role, owners).GetAwaiter()
                .GetResult();
            if (outcome != CutOutcome.Recorded) { throw new BenchException($"a cut was not recorded: {outcome}"); }
        });
    }

    // A message and its answer; what one of many takes to be read, and to be written.
    private static async Task<(Sorted Way, double ReadUs, double WriteUs)> Messages()
    {
        await using var server = new GrpcServer(new GrpcServerOptions { Listen = new IPEndPoint(IPAddress.Loopback, 0) });
        var notice = new V1.WatermarkNotice { Cluster = "steps", Watermark = new() { WorldLine = 1, Version = 1 } };
        // Shard 0 asks for an answer, shard 1 for none, shard 2 for many.
        server.Add(WatermarkMethods.Follow, async call =>
        {
            await call.SendHeadersAsync().ConfigureAwait(false);
            int read = 0;
            while (await call.ReadAsync().ConfigureAwait(false) is { } report)
            {
                int answers = report.Shard switch { 0 => 1, 1 => ++read == PumpedMessages ? 1 : 0, _ => PumpedMessages };
                for (int i = 0; i < answers; i++) { await call.WriteAsync(notice).ConfigureAwait(false); }
            }
        });
        await server.StartAsync(CancellationToken.None).ConfigureAwait(false);
        using var channel = new GrpcChannel("127.0.0.1", server.EndPoint.Port, new GrpcChannelOptions());
        await using ClientCall<V1.WatermarkReport, V1.WatermarkNotice> call = channel.Open(WatermarkMethods.Follow, default);
        V1.WatermarkReport Of(int shard) =>
            new() { Shard = shard, Cluster = "steps", Generation = 1, Held = new() { WorldLine = 1, Version = 1 },
                Floor = new() { WorldLine = 1, Version = 1 } };
        async Task AnsweredAsync(int answers)
        {
            for (int i = 0; i < answers; i++)
            {
                _ = await call.ReadAsync().ConfigureAwait(false) ?? throw new BenchException("the call has ended");
            }
        }

        V1.WatermarkReport asks = Of(0), says = Of(1), wants = Of(2);
        Sorted way = Timed(StepSamples, _ =>
        {
            call.WriteAsync(asks).AsTask().GetAwaiter().GetResult();
            AnsweredAsync(1).GetAwaiter().GetResult();
        });
        long began = Stopwatch.GetTimestamp();
        for (int i = 0; i < PumpedMessages; i++) { await call.WriteAsync(says).ConfigureAwait(false); }
        await AnsweredAsync(1).ConfigureAwait(false);
        double readUs = Stopwatch.GetElapsedTime(began).TotalMicroseconds / PumpedMessages;
        began = Stopwatch.GetTimestamp();
        await call.WriteAsync(wants).ConfigureAwait(false);
        await AnsweredAsync(PumpedMessages).ConfigureAwait(false);
        return (way, readUs, Stopwatch.GetElapsedTime(began).TotalMicroseconds / PumpedMessages);
    }
}
