// What each finder costs in SQL, and how soon a version is committed: simulated shards over a private PostgreSQL, one of them slow. All
// shards share this machine, so that with hundreds of them its cores are what is measured besides: compare finders, not numbers of shards.
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Microsoft.Extensions.Logging.Abstractions;
using Slogger.Bench.Report;
using Slogger.Bench.Suites;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Coordination;
using Slogger.Proxy.Peers;
using Slogger.Resp;

namespace Slogger.Bench.Finders;

internal sealed class FinderSuite(BenchOptions options, Results results)
{
    private const string Suite = "finders";
    private const long SlowUs = 100_000;

    private TimeSpan Interval => options.VersionInterval ?? TimeSpan.FromMilliseconds(5);

    private sealed record Outcome(int Shards, string Finder, double Statements, double Bytes, double P50Ms, double P99Ms, double Behind);

    public void Run()
    {
        double seconds = options.RunSeconds ?? 10;
        int[] counts = options.Clients is { Count: > 0 } given ? [.. given] : [8, 64, 512];
        string[] finders = options.Cases is { Count: > 0 } some ? [.. some] : ["approximate", "exact", "hybrid"];
        string directory = SuiteDirectory.Create(options, Suite);
        using PrivatePostgres postgres = new(directory, options.PortBase);
        List<Outcome> found = [];
        foreach (int shards in counts)
        {
            foreach (string finder in finders)
            {
                using CountingRelay relay = new(postgres.Port);
                Outcome outcome = MeasureAsync(relay, shards, finder, seconds, directory).GetAwaiter().GetResult();
                found.Add(outcome);
                Console.WriteLine($"  {shards,4} shards, {finder,-11}: {outcome.Statements:0} statements/s, {outcome.Bytes / 1024:0} "
                    + $"KB/s, commit p50 {outcome.P50Ms:0.0} ms, p99 {outcome.P99Ms:0.0} ms, {outcome.Behind:0.0} versions behind");
            }
        }

        Report(found, seconds);
    }

    private void Report(List<Outcome> found, double seconds)
    {
        List<string> lines = ["| shards | finder | SQL statements/s | SQL KB/s | version's end to commit, p50 ms | p99 ms | versions "
            + "durable and not in the cut |", "| ---: | --- | ---: | ---: | ---: | ---: | ---: |"];
        lines.AddRange(found.Select(
            o => $"| {o.Shards} | {o.Finder} | {o.Statements:0} | {o.Bytes / 1024:0} | {o.P50Ms:0.0} | {o.P99Ms:0.0} | {o.Behind:0.0} |"));
        results.AddTable($"{Suite} ({seconds} s each, versions of {Interval.TotalMilliseconds} ms, one shard of all {SlowUs / 1000} "
            + "ms slow)", lines);
        foreach (IGrouping<int, Outcome> of in found.GroupBy(o => o.Shards))
        {
            Outcome? exact = of.FirstOrDefault(o => o.Finder == "exact"), hybrid = of.FirstOrDefault(o => o.Finder == "hybrid");
            if (exact is not null && hybrid is not null && exact.Behind > 0)
                results.Add(Figure.AtMost(Suite, $"hybrid's cut behind exact's, {of.Key} shards", hybrid.Behind / exact.Behind, "", 1.1,
                    "versions durable and not in the cut, ratio"));
        }

        List<Outcome> approximate = [.. found.Where(o => o.Finder == "approximate").OrderBy(o => o.Shards)];
        if (approximate.Count < 2) return;
        Outcome few = approximate[0], many = approximate[^1];
        double growth = many.Statements / few.Statements / ((double)many.Shards / few.Shards);
        results.Add(Figure.AtMost(Suite, $"approximate: growth of statements beside that of shards, {few.Shards} to {many.Shards}", growth,
            "", 1, "1 is linear"));
    }

    private async Task<Outcome> MeasureAsync(CountingRelay relay, int count, string finder, double seconds, string directory)
    {
        using CancellationTokenSource stop = new();
        using TcpListener door = new(IPAddress.Loopback, 0);
        door.Start(1024);
        string cluster = $"{finder}{count}";
        List<SimulatedShard> shards = [];
        try
        {
            for (int s = 0; s < count; s++)
                shards.Add(new(await ClusterSeat.TakeAsync(OptionsOf(relay, door, cluster, s, count, finder, directory, Interval),
                    NullLogger.Instance, stop.Token)));
            Task admitting = AdmitAsync(door, shards, stop.Token);
            Task[] running = [.. shards.Select(s => Task.Run(() => s.RunAsync(stop.Token)))];
            Thread driver = new(() => Drive(shards, finder, stop.Token)) { IsBackground = true };
            driver.Start();
            await SettledAsync(shards);
            await Task.Delay(TimeSpan.FromSeconds(2));
            (long statements, long bytes) = (relay.Statements, relay.Bytes);
            foreach (SimulatedShard shard in shards) shard.Measure(true);
            long began = Stopwatch.GetTimestamp();
            List<double> behind = [];
            while (Stopwatch.GetElapsedTime(began).TotalSeconds < seconds)
            {
                await Task.Delay(50);
                behind.Add(shards.Skip(1).Average(s => (double)s.Behind));
            }

            double took = Stopwatch.GetElapsedTime(began).TotalSeconds;
            foreach (SimulatedShard shard in shards) shard.Measure(false);
            // The slow shard's own versions are late whatever finds the cut.
            double[] p50 = [.. shards.Skip(1).Select(s => s.Latency.QuantileNs(0.5) / 1e6)];
            double[] p99 = [.. shards.Skip(1).Select(s => s.Latency.QuantileNs(0.99) / 1e6)];
            Outcome outcome = new(count, finder, (relay.Statements - statements) / took, (relay.Bytes - bytes) / took,
                Statistics.Median(p50), Statistics.Median(p99), behind.Average());
            await stop.CancelAsync();
            await Task.WhenAll(running);
            driver.Join();
            await admitting;
            return outcome;
        }
        finally
        {
            await stop.CancelAsync();
            foreach (SimulatedShard shard in shards) shard.Dispose();
        }
    }

    private static ServeOptions OptionsOf(CountingRelay relay, TcpListener door, string cluster, int shard, int count, string finder,
        string directory, TimeSpan interval)
    {
        string spec = string.Create(CultureInfo.InvariantCulture,
            $"postgres:Host=127.0.0.1;Port={relay.Port};Username=postgres;Database=postgres;Pooling=false;SSL Mode=Disable");
        if (!OptionText.Metadata(spec, out MetadataSpec? metadata, out string problem)) throw new BenchException(problem);
        return new()
        {
            DataDirectory = directory,
            Metadata = metadata,
            Cluster = cluster,
            Shard = new ShardId(shard),
            Shards = count,
            Finder = Enum.Parse<FinderKind>(finder, ignoreCase: true),
            VersionInterval = interval,
            Announce = ListenAddress.Tcp("127.0.0.1", ((IPEndPoint)door.LocalEndpoint).Port),
        };
    }

    // In place of the front ends: whoever has the role takes the connection.
    private static async Task AdmitAsync(TcpListener door, List<SimulatedShard> shards, CancellationToken stop)
    {
        try
        {
            while (true)
            {
                Socket socket = await door.AcceptSocketAsync(stop);
                _ = Task.Run(() => IntroducedAsync(socket, shards, stop), stop);
            }
        }
        catch (OperationCanceledException)
        {
            // The end.
        }
    }

    // A request of seven words, each in two lines, behind one line. The peer says nothing more until it is answered.
    private static async Task IntroducedAsync(Socket socket, List<SimulatedShard> shards, CancellationToken stop)
    {
        try
        {
            byte[] request = new byte[4096];
            int length = 0;
            while (request.AsSpan(0, length).Count((byte)'\n') < 15)
            {
                int got = await socket.ReceiveAsync(request.AsMemory(length), stop);
                length += got > 0 ? got : throw new IOException("The peer went away before it had introduced itself.");
            }

            string[] words = Encoding.ASCII.GetString(request, 0, length).Split("\r\n");
            byte[][] said = [.. words.Where((_, i) => i > 2 && i % 2 == 0).Take(6).Select(Encoding.ASCII.GetBytes)];
            if (shards.FirstOrDefault(s => s.Coordinator.IsActive) is not { } holder
                || PeerIntroduction.Read(said, holder.Seat.Secret!, holder.Seat.Shard, holder.Seat.ShardCount,
                out _) is not { } introduction)
            {
                socket.Dispose();
                return;
            }

            await socket.SendAsync("+OK\r\n"u8.ToArray(), stop);
            await HearAsync(holder.Coordinator, socket, introduction, stop);
        }
        catch (Exception e) when (e is IOException or SocketException or OperationCanceledException)
        {
            // It connects again, or this is the end.
            socket.Dispose();
        }
    }

    private static async Task HearAsync(CutCoordinator coordinator, Socket socket, PeerIntroduction introduction, CancellationToken stop)
    {
        try
        {
            await using PeerChannel peer = PeerChannel.Adopt(socket, introduction);
            await coordinator.HearAsync(peer, introduction.Epoch, stop);
        }
        catch (Exception e) when (e is IOException or SocketException or OperationCanceledException or ObjectDisposedException)
        {
            // It connects again, or this is the end.
        }
    }

    private static async Task SettledAsync(List<SimulatedShard> shards)
    {
        long began = Stopwatch.GetTimestamp();
        while (!shards.TrueForAll(s => s.IsLinked))
        {
            if (Stopwatch.GetElapsedTime(began).TotalSeconds > 120 + shards.Count)
                throw new BenchException(
                    $"{shards.Count(s => !s.IsLinked)} of {shards.Count} shards do not come to the coordinator in {120 + shards.Count} s");
            await Task.Delay(100);
        }
    }

    // Every version is durable 1 to 3 ms after its end, the slow shard's much later. Half of them follow what sessions have seen at two
    // other shards: mostly neighbours, so that not everything depends on the slow one.
    private static void Drive(List<SimulatedShard> shards, string finder, CancellationToken stop)
    {
        Random random = new(1);
        VersionGrid grid = shards[0].Grid;
        Dependency[] on = new Dependency[2];
        while (!stop.IsCancellationRequested)
        {
            for (int s = 0; s < shards.Count; s++)
            {
                long delay = s == 0 ? SlowUs : 1000 + random.Next(2000);
                VersionNumber through = grid.VersionAt(SimulatedShard.NowUs() - delay).Previous;
                bool depends = finder != "approximate" && random.Next(2) == 0;
                for (int d = 0; d < on.Length; d++) on[d] = new(new ShardId((s + 1 + random.Next(4)) % shards.Count), through);
                shards[s].Close(through, depends ? on : []);
            }

            Thread.Sleep(1);
        }
    }
}
