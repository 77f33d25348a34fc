// Memory: what an idle client connection costs, and whether the resident size stays flat under a long full load.
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using Slogger.Bench.Cases;
using Slogger.Bench.Host;
using Slogger.Bench.Load;
using Slogger.Bench.Report;

namespace Slogger.Bench.Suites;

internal sealed class MemorySuite(BenchOptions options, Results results)
{
    private const string Suite = "memory";
    private const long LeastFreeDiskBytes = 5L << 30;

    public void Run()
    {
        Console.WriteLine($"\n== {Suite}: {options.IdleConnections} idle connections; full load for "
            + $"{options.Duration.TotalMinutes:0.#} min");
        string[] proxies = [.. options.Cases ?? ["haproxy", "nutcracker", "none", "log5", .. options.Extra.Select(e => e.Label)]];
        var lines = new List<string> { "| idle connections | proxy, MB before | after | KB per connection | Redis, KB per connection | "
            + "CPU of the idle proxy, cores |", "| --- | ---: | ---: | ---: | ---: | ---: |" };
        foreach (string name in proxies)
        {
            OnOne(name, "idle", fleetCase => Idle(fleetCase, lines));
        }

        results.AddTable($"{Suite}: {options.IdleConnections} idle connections", lines);
        if (options.Duration > TimeSpan.Zero)
        {
            var loadLines = new List<string> { "| full load | operations/s | MB at 1/5 | 2/5 | 3/5 | 4/5 | end | highest |",
                "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |" };
            foreach (string name in proxies.Where(n => CaseSpec.ByName(n, options).Kind == CaseKind.Slogger))
            {
                OnOne(name, "load", fleetCase => FullLoad(fleetCase, loadLines));
            }

            if (loadLines.Count > 2)
            {
                results.AddTable($"{Suite}: {options.Duration.TotalMinutes:0.#} minutes at full load", loadLines);
            }
        }
    }

    private void OnOne(string name, string part, Action<RunningCase> work)
    {
        using var fleet = new CaseFleet(options, Layout.Pinned, SuiteDirectory.Create(options, $"{Suite}-{part}-{name}"));
        if (fleet.TryStart(name) is not { Proxy: not null } started)
        {
            return;
        }

        try
        {
            fleet.Fill(64, secondDatabaseToo: false);
            work(started);
        }
        catch (Exception e) when (e is BenchException or SocketException or IOException)
        {
            Console.WriteLine($"  -- {name}: {e.Message} {started.Failure}");
        }
    }

    private void Idle(RunningCase on, List<string> lines)
    {
        // A load first: what a proxy sets up once shall not be counted as its connections'.
        _ = RedisBenchmark.Run(new Cell("SET", 100, 16, 64), on.Port, 500_000, options.KeySpace, [], 1);
        Thread.Sleep(2000);
        double cpuBefore = ProcFs.CpuSeconds(on.Proxy!.Pid);
        long idleStart = Stopwatch.GetTimestamp();
        Thread.Sleep(3000);
        double idleCores = (ProcFs.CpuSeconds(on.Proxy.Pid) - cpuBefore) / Stopwatch.GetElapsedTime(idleStart).TotalSeconds;
        long proxyBefore = ProcFs.ResidentBytes(on.Proxy.Pid), redisBefore = ProcFs.ResidentBytes(on.Redis.Pid);
        var connections = new List<Socket>();
        try
        {
            byte[] answer = new byte[64];
            for (int i = 0; i < options.IdleConnections; i++)
            {
                var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true,
                    ReceiveTimeout = 10_000 };
                connections.Add(socket);
                socket.Connect(IPAddress.Loopback, on.Port);
                // Each has been used once, or buffers made on first use would be missed.
                socket.Send("*3\r\n$3\r\nSET\r\n$4\r\nidle\r\n$4\r\nidle\r\n"u8);
                if (socket.Receive(answer) == 0 || answer[0] != '+')
                {
                    throw new BenchException($"connection {i + 1} was not served");
                }
            }

            Thread.Sleep(3000);
            long proxyAfter = ProcFs.ResidentBytes(on.Proxy.Pid), redisAfter = ProcFs.ResidentBytes(on.Redis.Pid);
            double perConnectionKb = (proxyAfter - proxyBefore) / 1024.0 / options.IdleConnections;
            double redisKb = (redisAfter - redisBefore) / 1024.0 / options.IdleConnections;
            lines.Add($"| {on.Name} | {proxyBefore / 1048576.0:0.0} | {proxyAfter / 1048576.0:0.0} | {perConnectionKb:0.0} | "
                + $"{redisKb:0.0} | {idleCores:0.000} |");
            Console.WriteLine("  " + lines[^1]);
            string figure = $"memory per idle connection, {on.Name}";
            results.Add(on.Spec.Kind == CaseKind.Slogger ? Figure.AtMost(Suite, figure, perConnectionKb, "KB", 16)
                : Figure.Information(Suite, figure, perConnectionKb, "KB"));
        }
        finally
        {
            connections.ForEach(s => s.Dispose());
        }
    }

    // The load is deep without a log; with one it is at depth 1, or ten minutes would fill the disk.
    private void FullLoad(RunningCase on, List<string> lines)
    {
        int pipeline = options.Pipelines?[0] ?? (on.Spec.NeedsOwnRedis ? 1 : 16);
        var set = new Cell("SET", 50, pipeline, 64);
        double full = RedisBenchmark.Run(set, on.Port, 200_000L * pipeline / 4, options.KeySpace, [], 1).OperationsPerSecond;
        long perRun = (long)(full * 2);
        var sizes = new List<(double Seconds, double Mb)>();
        long start = Stopwatch.GetTimestamp();
        long operations = 0;
        using var stop = new CancellationTokenSource();
        var sampler = new Thread(() =>
        {
            while (!stop.Token.WaitHandle.WaitOne(Math.Clamp((int)(options.Duration.TotalMilliseconds / 120), 250, 5000)))
            {
                lock (sizes)
                {
                    sizes.Add((Stopwatch.GetElapsedTime(start).TotalSeconds, ProcFs.ResidentBytes(on.Proxy!.Pid) / 1048576.0));
                }
            }
        });
        sampler.Start();
        string note = "";
        try
        {
            for (int i = 0; Stopwatch.GetElapsedTime(start) < options.Duration; i++)
            {
                _ = RedisBenchmark.Run(i % 2 == 0 ? set : set with { Operation = "GET" }, on.Port, perRun, options.KeySpace, [], 1);
                operations += perRun;
                if (on.Failure is { } failure)
                {
                    throw new BenchException(failure);
                }

                if (new DriveInfo(Path.GetFullPath(options.Directory)).AvailableFreeSpace < LeastFreeDiskBytes)
                {
                    note = "stopped early: the disk is nearly full";
                    break;
                }
            }
        }
        finally
        {
            stop.Cancel();
            sampler.Join();
        }

        double seconds = Stopwatch.GetElapsedTime(start).TotalSeconds;
        double Mean(int fifth) => sizes.Where(s => (int)(s.Seconds / seconds * 5) == fifth).Select(s => s.Mb).DefaultIfEmpty(double.NaN)
            .Average();
        lines.Add($"| {on.Name}, SET and GET in turn, 50 clients, P={pipeline} | {operations / seconds:0} | "
            + $"{string.Join(" | ", Enumerable.Range(0, 5).Select(i => $"{Mean(i):0.0}"))} | {sizes.Max(s => s.Mb):0.0} |");
        Console.WriteLine("  " + lines[^1]);
        results.Add(Figure.AtMost(Suite, $"resident size, last fifth over second fifth of {seconds / 60:0.#} min, {on.Name}",
            Mean(4) / Mean(1), "", 1.05, note));
    }
}
