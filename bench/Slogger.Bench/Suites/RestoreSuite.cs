// How long a restore of many keys takes, against Redis loading the same data from its own RDB file. Both clocks run
// from the start of an empty redis-server's process to the moment at which all keys are there.
using System.Diagnostics;
using System.Net.Sockets;
using Slogger.Bench.Cases;
using Slogger.Bench.Host;
using Slogger.Bench.Load;
using Slogger.Bench.Report;

namespace Slogger.Bench.Suites;

internal sealed class RestoreSuite(BenchOptions options, Results results)
{
    private const string Suite = "restore";
    private const int ValueBytes = 16;
    // Below it the proxy sees no need of a checkpoint.
    private const long SmallTailBytes = 8L << 20;
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(3);

    public void Run()
    {
        int rounds = options.Rounds ?? 5;
        Console.WriteLine($"\n== {Suite}: {options.RestoreKeys} keys, {rounds} rounds");
        string directory = SuiteDirectory.Create(options, Suite);
        var seconds = new Dictionary<string, List<double>>();
        void Note(string what, double s)
        {
            seconds.TryAdd(what, []);
            seconds[what].Add(s);
            Console.WriteLine($"  {what}: {s:0.00} s");
        }

        using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
        string rdbDirectory = MakeRdb(fleet, directory);
        for (int round = 0; round < rounds; round++)
        {
            Note("redis from its RDB", LoadByRedis(fleet, rdbDirectory));
        }

        foreach ((string what, Func<CaseFleet, string, string, Action<string, double>, int, bool> part) in
            ((string, Func<CaseFleet, string, string, Action<string, double>, int, bool>)[])[("attached", Attached),
                ("supervised", Supervised)])
        {
            try
            {
                if (options.Cases is null || options.Cases.Contains(what))
                {
                    _ = part(fleet, directory, rdbDirectory, Note, rounds);
                }
            }
            catch (Exception e) when (e is BenchException or SocketException or IOException)
            {
                Console.WriteLine($"  -- {what}: {e.Message}");
            }
        }

        Report(seconds, rounds);
    }

    private void Report(Dictionary<string, List<double>> seconds, int rounds)
    {
        double reference = Statistics.Median(seconds["redis from its RDB"]);
        var lines = new List<string> { $"| {options.RestoreKeys} keys of {ValueBytes} B | median s | lowest | highest | of Redis's own |",
            "| --- | ---: | ---: | ---: | ---: |" };
        foreach ((string what, List<double> s) in seconds)
        {
            double median = Statistics.Median(s);
            lines.Add($"| {what} | {median:0.00} | {s.Min():0.00} | {s.Max():0.00} | {median / reference:0.00} |");
            if (what.StartsWith("slogger", StringComparison.Ordinal))
            {
                bool goal = !what.Contains("as the load ended", StringComparison.Ordinal);
                string name = $"{what} / Redis loading the same RDB";
                results.Add(goal ? Figure.AtMost(Suite, name, median / reference, "", 1.2)
                    : Figure.Information(Suite, name, median / reference, ""));
            }
        }

        results.AddTable($"{Suite} ({rounds} rounds)", lines);
    }

    // A redis-server with all keys, saved to dump.rdb.
    private string MakeRdb(CaseFleet fleet, string directory)
    {
        string rdbDirectory = Path.Combine(directory, "rdb");
        int port = fleet.NextPort();
        ManagedProcess redis = fleet.LaunchRedis("redis-rdb", port, rdbDirectory);
        CaseFleet.WaitUntilUp(redis, port, "PING\r\n");
        StoreFiller.Fill(port, 0, options.RestoreKeys, ValueBytes);
        using (var client = new RespClient(port, s_limit))
        {
            client.Expect("SAVE");
        }

        redis.Kill();
        return rdbDirectory;
    }

    private double LoadByRedis(CaseFleet fleet, string rdbDirectory)
    {
        int port = fleet.NextPort();
        Native.SyncDisks();
        long start = Stopwatch.GetTimestamp();
        ManagedProcess redis = fleet.LaunchRedis("redis-load", port, rdbDirectory);
        WaitForKeys(port);
        double seconds = Stopwatch.GetElapsedTime(start).TotalSeconds;
        redis.Kill();
        return seconds;
    }

    // Somebody else's Redis comes back empty; the proxy in front of it fills it. The proxy first took that Redis over
    // when it held all keys, so that its newest checkpoint is the RDB.
    private bool Attached(CaseFleet fleet, string directory, string rdbDirectory, Action<string, double> note, int rounds)
    {
        int redisPort = fleet.NextPort(), port = fleet.NextPort();
        string redisDirectory = Path.Combine(directory, "attached-redis");
        Directory.CreateDirectory(redisDirectory);
        File.Copy(Path.Combine(rdbDirectory, "dump.rdb"), Path.Combine(redisDirectory, "dump.rdb"));
        ManagedProcess redis = fleet.LaunchRedis("attached-redis", redisPort, redisDirectory);
        WaitForKeys(redisPort);
        File.Delete(Path.Combine(redisDirectory, "dump.rdb"));
        ManagedProcess proxy = fleet.LaunchProcess("attached-proxy", fleet.SloggerCommand(
            "--commit log --version-interval 5ms --seed from-redis", port, $"--redis 127.0.0.1:{redisPort}",
                Path.Combine(directory, "attached-data")));
        try
        {
            CaseFleet.WaitUntilUp(proxy, port, "PING\r\n", s_limit);
            CommitOneWrite(port);
            for (int round = 0; round < rounds; round++)
            {
                redis.Kill();
                // A replica that loads from disk leaves the file behind: it must not find its data there.
                File.Delete(Path.Combine(redisDirectory, "dump.rdb"));
                Native.SyncDisks();
                long start = Stopwatch.GetTimestamp();
                redis = fleet.LaunchRedis("attached-redis", redisPort, redisDirectory);
                WaitForKeys(port);
                note("slogger, attached Redis came back empty", Stopwatch.GetElapsedTime(start).TotalSeconds);
                CommitOneWrite(port);
            }
        }
        finally
        {
            proxy.Stop(TimeSpan.FromSeconds(10));
            redis.Kill();
        }

        return true;
    }

    // Our own Redis is killed; the proxy starts it again and restores it. All keys came through the proxy. The first time it
    // is killed as soon as the last key is committed: of a load that has just ended much is in the log alone. Then when the
    // proxy has had the time to take its checkpoint.
    private bool Supervised(CaseFleet fleet, string directory, string rdbDirectory, Action<string, double> note, int rounds)
    {
        int port = fleet.NextPort();
        string data = Path.Combine(directory, "supervised-data");
        string server = FindOnPath("redis-server");
        IReadOnlyList<string> command = fleet.SloggerCommand("--commit log --version-interval 5ms", port, $"--redis-server {server}", data);
        ManagedProcess proxy = fleet.LaunchProcess("supervised-proxy", command);
        int redisPid = 0;
        try
        {
            CaseFleet.WaitUntilUp(proxy, port, "PING\r\n", s_limit);
            StoreFiller.Fill(port, 0, options.RestoreKeys, ValueBytes);
            CommitOneWrite(port);
            for (int round = 0; round < rounds; round++)
            {
                if (round == 1) { WaitForCheckpoint(port); }
                redisPid = RedisPid(port);
                ProcessRegistry.Adopt(redisPid);
                Native.SyncDisks();
                long start = Stopwatch.GetTimestamp();
                _ = Native.Kill(redisPid, Native.SigKill);
                ProcessRegistry.Disown(redisPid);
                WaitForKeys(port, otherThanPid: redisPid);
                note(round == 0 ? "slogger, supervised Redis killed as the load ended" : "slogger, supervised Redis killed later",
                    Stopwatch.GetElapsedTime(start).TotalSeconds);
                CommitOneWrite(port);
            }

            redisPid = RedisPid(port);
            ProcessRegistry.Adopt(redisPid);
        }
        finally
        {
            proxy.Stop(TimeSpan.FromSeconds(10));
            if (redisPid > 0)
            {
                _ = Native.Kill(redisPid, Native.SigKill);
                ProcessRegistry.Disown(redisPid);
            }
        }

        return true;
    }

    private static void CommitOneWrite(int port)
    {
        using var client = new RespClient(port, s_limit);
        client.Expect("SET", "key:000000000000", "committed");
        client.Expect("DPR.WAIT", "*", "60000");
    }

    private static void WaitForCheckpoint(int port)
    {
        using var client = new RespClient(port, s_limit);
        long start = Stopwatch.GetTimestamp();
        while (Stopwatch.GetElapsedTime(start) < s_limit)
        {
            string line = client.Text("INFO", "dpr").Split("\r\n").First(l => l.StartsWith("log_tail_bytes:", StringComparison.Ordinal));
            if (long.Parse(line["log_tail_bytes:".Length..]) < SmallTailBytes) { return; }
            Thread.Sleep(100);
        }

        throw new InvalidOperationException("the proxy took no checkpoint");
    }

    private static int RedisPid(int port)
    {
        using var client = new RespClient(port, s_limit);
        return client.ServerProcess();
    }

    // Asks until all keys are there. Connections may be refused, closed or answered -LOADING meanwhile.
    private void WaitForKeys(int port, int otherThanPid = 0)
    {
        long start = Stopwatch.GetTimestamp();
        while (Stopwatch.GetElapsedTime(start) < s_limit)
        {
            try
            {
                using var client = new RespClient(port, TimeSpan.FromSeconds(10));
                while (Stopwatch.GetElapsedTime(start) < s_limit)
                {
                    if (client.Integer("DBSIZE") >= options.RestoreKeys && (otherThanPid == 0 || RedisPid(port) != otherThanPid))
                    {
                        return;
                    }

                    Thread.Sleep(10);
                }
            }
            catch (Exception e) when (e is BenchException or SocketException or IOException)
            {
                Thread.Sleep(10);
            }
        }

        throw new BenchException($"the keys were not there after {s_limit.TotalMinutes:0} minutes");
    }

    private static string FindOnPath(string program) => (Environment.GetEnvironmentVariable("PATH") ?? "").Split(':')
        .Select(d => Path.Combine(d, program)).FirstOrDefault(File.Exists) ?? throw new BenchException($"{program} is not on the PATH");
}
