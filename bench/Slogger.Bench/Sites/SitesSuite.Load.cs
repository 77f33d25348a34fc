// What shipping costs the primary, and what bounds it: the parts of the suite that load it.
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Slogger.Bench.Cases;
using Slogger.Bench.Host;
using Slogger.Bench.Load;
using Slogger.Bench.Report;
using Slogger.Bench.Suites;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Bench.Sites;

internal sealed partial class SitesSuite
{
    // ---- 7.1: throughput with and without ----

    private void HalfLoad(string directory, (string Primary, string Backup) metadata)
    {
        using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
        using var pair = new SitePair(options, fleet, directory, metadata, 2, TimeSpan.FromMilliseconds(OneWayMs), Interval);
        using var alone = new SitePair(options, fleet, directory, metadata, 2, TimeSpan.FromMilliseconds(OneWayMs), Interval);
        // Of the second pair nothing is shipped: its backup is stopped, and what it keeps for it is bounded by the run.
        int redisPort = fleet.NextPort(), followedPort = fleet.NextPort(), replicaPort = fleet.NextPort();
        ManagedProcess raw = fleet.LaunchRedis("raw", redisPort, Path.Combine(directory, "raw"));
        ManagedProcess followed = fleet.LaunchRedis("followed", followedPort, Path.Combine(directory, "followed"),
            "--repl-diskless-sync-delay", "0", "--client-output-buffer-limit", "replica", "0", "0", "0");
        using var link = new WideLink(new IPEndPoint(IPAddress.Loopback, followedPort), TimeSpan.FromMilliseconds(OneWayMs));
        ManagedProcess replica = fleet.LaunchRedis("replica", replicaPort, Path.Combine(directory, "replica"), "--replicaof", "127.0.0.1",
            link.Port.ToString(CultureInfo.InvariantCulture));
        try
        {
            foreach ((ManagedProcess redis, int port) in ((ManagedProcess, int)[])[(raw, redisPort), (followed, followedPort),
                (replica, replicaPort)]) { CaseFleet.WaitUntilUp(redis, port, "PING\r\n"); }
            Measure(pair, alone, redisPort, followedPort);
        }
        finally
        {
            foreach (ManagedProcess redis in (ManagedProcess[])[replica, followed, raw]) { redis.Kill(); }
        }
    }

    private void Measure(SitePair pair, SitePair alone, int redisPort, int followedPort)
    {
        for (int s = 0; s < 2; s++) { alone.Backup(s).Stop(TimeSpan.FromSeconds(5)); }
        string key = pair.Key(0, "load"), other = alone.Key(0, "load");
        double Full(int port, string k) => Closed(port, k, clients: 50, Seconds);
        var full = new Dictionary<string, List<double>>();
        var half = new Dictionary<string, List<PacedResult>>();
        void Note<T>(Dictionary<string, List<T>> into, string name, T value)
        {
            into.TryAdd(name, []);
            into[name].Add(value);
        }

        double reference = Full(alone.PrimaryPort(0), other);
        _ = Full(pair.PrimaryPort(0), key);
        double rate = Math.Floor(reference / 2);
        for (int round = 0; round < Rounds; round++)
        {
            _ = _noise.WaitForQuiet();
            Note(full, "alone", Full(alone.PrimaryPort(0), other));
            Note(full, "ships", Full(pair.PrimaryPort(0), key));
            Note(full, "raw Redis", Full(redisPort, key));
            Note(full, "raw Redis with its replica", Full(followedPort, key));
            foreach ((string name, int port, string k) in ((string, int, string)[])[("alone", alone.PrimaryPort(0), other),
                ("ships", pair.PrimaryPort(0), key)])
            {
                Note(half, name, PacedRunner.Run(
                    new PacedOptions { Port = port, Connections = 50, RatePerSecond = rate, Seconds = Seconds, KeySpace = options.KeySpace,
                        Key = k }, null));
            }
        }

        double Ratio(string a, string b) => Statistics.Median(full[a].Zip(full[b], (x, y) => x / y));
        double atHalf = Statistics.Median(half["ships"].Zip(half["alone"], (x, y) => x.AchievedPerSecond / y.AchievedPerSecond));
        double redis = Ratio("raw Redis with its replica", "raw Redis"), own = Ratio("ships", "alone");
        results.Add(Figure.AtLeast(Suite, $"throughput with shipping / without, at half load ({rate / 1e3:0} k SET/s)", atHalf, "", 0.97));
        results.Add(Figure.AtLeast(Suite, "throughput with shipping / without, at saturation (goal: what Redis keeps with its own replica "
            + "on the same link)", own, "", redis));
        var lines = new List<string> { "| 50 clients, SET of 64 B, one of two shards | SET/s, median |", "| --- | ---: |" };
        lines.AddRange(full.Select(
            f => string.Create(CultureInfo.InvariantCulture, $"| {f.Key}, full load | {Statistics.Median(f.Value):0} |")));
        lines.AddRange(half.Select(
            h => string.Create(CultureInfo.InvariantCulture,
                $"| {h.Key}, paced at {rate:0} | {Statistics.Median(h.Value.Select(r => r.AchievedPerSecond)):0} (p50 "
                    + $"{Statistics.Median(h.Value.Select(r => r.Requests.P50Us)):0} us, p99 "
                    + $"{Statistics.Median(h.Value.Select(r => r.Requests.P99Us)):0} us) |")));
        results.AddTable($"{Suite}: what shipping costs the primary, {Rounds} rounds of {Seconds} s; all on "
            + $"{Environment.ProcessorCount} cores", lines);
    }

    // Closed loop, one request on each connection at a time, all to one shard.
    private static double Closed(int port, string tag, int clients, double seconds)
    {
        var sockets = new List<Socket>();
        try
        {
            byte[][] requests = [.. Enumerable.Range(0, 1000).Select(i => Encoding.ASCII.GetBytes(Set($"{tag}{i:D6}")))];
            for (int i = 0; i < clients; i++)
            {
                sockets.Add(new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true });
                sockets[^1].Connect(IPAddress.Loopback, port);
                sockets[^1].Send(requests[i]);
            }

            long began = Stopwatch.GetTimestamp(), answers = 0;
            byte[] buffer = new byte[4096];
            var random = new Random(port);
            while (Stopwatch.GetElapsedTime(began).TotalSeconds < seconds)
            {
                var ready = new List<Socket>(sockets);
                Socket.Select(ready, null, null, 1_000_000);
                foreach (Socket socket in ready)
                {
                    int count = socket.Receive(buffer);
                    if (count == 0 || buffer[0] != '+')
                    {
                        throw new BenchException($"a SET was answered by {Encoding.ASCII.GetString(buffer, 0, count)}");
                    }
                    answers++;
                    socket.Send(requests[random.Next(requests.Length)]);
                }
            }

            return answers / Stopwatch.GetElapsedTime(began).TotalSeconds;
        }
        finally
        {
            foreach (Socket socket in sockets) { socket.Dispose(); }
        }

        static string Set(string key) => $"*3\r\n$3\r\nSET\r\n${key.Length}\r\n{key}\r\n$64\r\n{new string('x', 64)}\r\n";
    }

    // ---- 7.5: pipeline, pieces and the log's budget ----

    private void Pipeline(string directory, (string, string) metadata)
    {
        string[] head = ["| pieces on their way | window | log budget | compression | SET of 1 KB/s | share of the time without an answer "
            + "| bytes over the link for each SET |", "| ---: | ---: | ---: | --- | ---: | ---: | ---: |"];
        var lines = new List<string>(head);
        foreach ((int pieces, string window, string budget, string compression) in ((int, string, string, string)[])
            [(1, "8mb", "4gb", "none"), (4, "8mb", "4gb", "none"), (30, "8mb", "4gb", "none"), (30, "8mb", "4gb", "gzip"),
                (64, "8mb", "4gb", "none"), (30, "256kb", "1mb", "none"), (30, "2mb", "4mb", "none")])
        {
            using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
            using var pair = new SitePair(options, fleet, directory, metadata, 1, TimeSpan.FromMilliseconds(OneWayMs), Interval,
                $"--backup-pieces {pieces} --backup-window {window} --backup-budget {budget} --backup-compression {compression}");
            long carried = pair.Links[0].Bytes;
            (double perSecond, double silent, IReadOnlyList<(string, double)> course) =
                Stream(pair.PrimaryPort(0), pair.Key(0, "stream"), Seconds);
            lines.Add(string.Create(CultureInfo.InvariantCulture,
                $"| {pieces} | {window} | {budget} | {compression} | {perSecond:0} | {silent:P0} | "
                    + $"{(pair.Links[0].Bytes - carried) / (perSecond * Seconds):0} |"));
            Console.WriteLine("  " + lines[^1]);
            if (pieces == 30 && budget != "4gb")
            {
                lines.AddRange(["", $"Answers in each 5 ms of 150 ms, budget {budget}:", .. TextPlot.Bars("ms", "answers", course), "",
                    .. head]);
            }
        }

        results.AddTable($"{Suite}: pipeline, pieces and log budget (the paper's figure 14), one shard, {OneWayMs} ms one way, sixteen "
            + "clients that each wait for their answer", lines[..^2]);
    }

    private static (double PerSecond, double Silent, IReadOnlyList<(string, double)> Course) Stream(int port, string tag, double seconds)
    {
        // Of five bits in eight; a compressor that remembers 32 KB finds none of them again.
        var random = new Random(1);
        byte[][] requests = [.. Enumerable.Range(0, 256)
            .Select(_ => Encoding.ASCII.GetBytes(
                $"*3\r\n$3\r\nSET\r\n${tag.Length}\r\n{tag}\r\n$1024\r\n"
                    + $"{new string(random.GetItems<char>("abcdefghijklmnopqrstuvwxyz012345", 1024))}\r\n"))];
        var answered = new System.Collections.Concurrent.ConcurrentBag<double>();
        long began = Stopwatch.GetTimestamp();
        Task[] clients = [.. Enumerable.Range(0, 16).Select(c => Task.Factory.StartNew(() =>
        {
            int sent = c * 16;
            using var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true,
                ReceiveTimeout = 30_000 };
            socket.Connect(IPAddress.Loopback, port);
            byte[] answer = new byte[64];
            while (Stopwatch.GetElapsedTime(began).TotalSeconds < seconds)
            {
                socket.Send(requests[sent++ % requests.Length]);
                _ = socket.Receive(answer);
                answered.Add(Stopwatch.GetElapsedTime(began).TotalMilliseconds);
            }
        }, TaskCreationOptions.LongRunning))];
        Task.WaitAll(clients);
        double[] times = [.. answered.Order()];
        int[] buckets = new int[(int)(seconds * 200) + 1];
        foreach (double t in times.Where(t => t < seconds * 1000)) { buckets[(int)(t / 5)]++; }
        int from = buckets.Length / 2;
        return (times.Length / seconds, buckets[(buckets.Length / 4)..^1].Count(
            b => b == 0) / (double)buckets[(buckets.Length / 4)..^1].Length,
            [.. Enumerable.Range(from, 30)
                .Select(i => (((i - from) * 5).ToString(CultureInfo.InvariantCulture),
                    Math.Max(0.1, (double)buckets[Math.Min(i, buckets.Length - 1)])))]);
    }

    // ---- 7.2.3: snapshots instead ----

    // Each 500 ms a dump, which is then sent over the same link: the lag is the time between two that have arrived.
    private void Snapshots(string directory)
    {
        using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
        int port = fleet.NextPort();
        ManagedProcess redis = fleet.LaunchRedis("snapshots", port, Path.Combine(directory, "snapshots"));
        CaseFleet.WaitUntilUp(redis, port, "PING\r\n");
        using var sink = new TcpListener(IPAddress.Loopback, 0);
        sink.Start();
        using var link = new WideLink(sink.LocalEndpoint, TimeSpan.FromMilliseconds(OneWayMs));
        try
        {
            StoreFiller.Fill(port, 0, options.KeySpace, 512);
            double before = Closed(port, "key:", 50, Seconds);
            using var stop = new CancellationTokenSource();
            Task<double> load = Task.Factory.StartNew(() => Closed(port, "key:", 50, Seconds * 4), TaskCreationOptions.LongRunning);
            var arrived = new List<double>();
            long began = Stopwatch.GetTimestamp();
            long bytes = 0;
            while (!load.IsCompleted)
            {
                long round = Stopwatch.GetTimestamp();
                using (var client = new RespClient(port, TimeSpan.FromSeconds(60)))
                {
                    client.Expect("BGSAVE");
                    while (client.Text("INFO", "persistence").Contains("rdb_bgsave_in_progress:1", StringComparison.Ordinal))
                    {
                        Thread.Sleep(2);
                    }
                }

                byte[] dump = File.ReadAllBytes(Path.Combine(directory, "snapshots", "dump.rdb"));
                bytes = dump.Length;
                using (var to = new TcpClient(AddressFamily.InterNetwork))
                {
                    to.Connect(IPAddress.Loopback, link.Port);
                    Task sending = Task.Run(() =>
                    {
                        to.GetStream().Write(dump);
                        to.Client.Shutdown(SocketShutdown.Send);
                    });
                    using TcpClient at = sink.AcceptTcpClient();
                    byte[] buffer = new byte[1 << 20];
                    while (at.GetStream().Read(buffer) > 0) { }
                    sending.Wait();
                }

                arrived.Add(Stopwatch.GetElapsedTime(began).TotalMilliseconds);
                double rest = 500 - Stopwatch.GetElapsedTime(round).TotalMilliseconds;
                if (rest > 0) { Thread.Sleep(TimeSpan.FromMilliseconds(rest)); }
            }

            Sorted lag = new(arrived.Zip(arrived.Skip(1), (a, b) => b - a));
            results.Add(Figure.Information(Suite, $"lag by a snapshot each 500 ms ({bytes >> 20} MB), mean", lag.Mean, "ms", $"the paper: "
                + $"29 at best, with snapshots of 32 KB; throughput {load.Result / before:0.00} of that without"));
        }
        finally
        {
            redis.Kill();
        }
    }
}
