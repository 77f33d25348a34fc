// What a version costs: CPU and wake-ups of every process of two sites, for versions that are empty, that hold one write, and that hold a
// thousand; by process, and by thread, since most steps of a version have one of their own. Time that passes does not count, only what
// runs, so a busy machine changes the figures little. The paper has no such figures. Contestants are builds: this one, and those that
// --extra names by their executables; they take turns.
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Text.RegularExpressions;
using Slogger.Bench.Cases;
using Slogger.Bench.Finders;
using Slogger.Bench.Host;
using Slogger.Bench.Load;
using Slogger.Bench.Report;
using Slogger.Bench.Suites;

namespace Slogger.Bench.Sites;

internal sealed partial class VersionCostSuite(BenchOptions options, Results results)
{
    private const string Suite = "version-cost";
    private const double IdlePercent = 0.3;
    private static readonly TimeSpan s_limit = TimeSpan.FromSeconds(30), s_warmUp = TimeSpan.FromSeconds(15), s_rest = TimeSpan.FromSeconds(2);
    private static readonly string[] s_parts = ["primary", "its Redis", "backup", "its Redis (backup)", "SQL"];

    // Per version, but for the versions themselves.
    private sealed record Cost(string Part, double CpuUs, double Wakes, double CallsPerSecond, IReadOnlyDictionary<string, double> ThreadUs);

    private sealed record Run(double VersionsPerSecond, double WritesPerVersion, IReadOnlyList<Cost> Costs)
    {
        public double TotalUs => Costs.Sum(c => c.CpuUs);
    }

    public void Measure()
    {
        string directory = SuiteDirectory.Create(options, Suite);
        string[] databases = [Path.Combine(directory, "sql0"), Path.Combine(directory, "sql1")];
        foreach (string database in databases) { Directory.CreateDirectory(database); }
        using PrivatePostgres primary = new(databases[0], options.PortBase + 900), backup = new(databases[1], options.PortBase + 901);
        (string Label, BenchOptions Options)[] builds = [("this", options), .. options.Extra.Select(e => (e.Label, options with
        {
            ProxyPath = e.Arguments,
        }))];
        foreach (int shards in options.Clients ?? [1, 2, 4])
        {
            var runs = new Dictionary<(string Build, int Writes), List<Run>>();
            for (int round = 0; round < (options.Rounds ?? 3); round++)
            {
                foreach ((string label, BenchOptions build) in builds)
                {
                    using var fleet = new CaseFleet(build, options.Layout ?? Layout.Unpinned, directory);
                    using var pair = new SitePair(build, fleet, directory, (Of(primary), Of(backup)), shards, TimeSpan.Zero,
                        $"--version-interval {Interval.TotalMilliseconds}ms");
                    pair.Rehearsed();
                    Write(pair, 1, s_warmUp);
                    foreach (int writes in (int[])[0, 1, 1000])
                    {
                        // More than two cores can do.
                        if (writes > 1 && shards > 1) { continue; }
                        Thread.Sleep(s_rest);
                        Run run = Take(pair, writes, [primary.ProcessId, backup.ProcessId]);
                        (runs.TryGetValue((label, writes), out List<Run>? all) ? all : runs[(label, writes)] = []).Add(run);
                        Console.WriteLine(string.Create(CultureInfo.InvariantCulture,
                            $"  {shards} shards, {writes} writes, {label}: {run.TotalUs:0} us a version, {run.VersionsPerSecond:0} a second"));
                    }
                }
            }
            Report(shards, runs);
        }

        static string Of(PrivatePostgres server) =>
            string.Create(CultureInfo.InvariantCulture, $"postgres:Host=127.0.0.1;Port={server.Port};Username=postgres;Database=postgres");
    }

    private TimeSpan Interval => options.VersionInterval ?? TimeSpan.FromMilliseconds(5);

    // ---- One run ----

    private Run Take(SitePair pair, int writes, int[] databases)
    {
        int[] All(Func<int, int> of) => [.. Enumerable.Range(0, pair.Shards).Select(of)];
        (string Part, int[] Processes)[] parts =
        [
            (s_parts[0], All(s => pair.Primary(s).Pid)), (s_parts[1], All(s => StoreOf(pair.PrimaryPort(s)))),
            (s_parts[2], All(s => pair.Backup(s).Pid)), (s_parts[3], All(s => StoreOf(pair.BackupPort(s)))), (s_parts[4], databases),
        ];
        using var calls = new SystemCalls([.. parts.Where(p => p.Part != s_parts[4]).SelectMany(p => p.Processes)]);
        ThreadTimes[] before = [.. parts.Select(p => ThreadTimes.Of(WithChildren(p.Processes)))];
        (long version, DateTime began) = (OpenVersion(pair), DateTime.UtcNow);
        long written = Write(pair, writes, TimeSpan.FromSeconds(options.RunSeconds ?? 5));
        double versions = OpenVersion(pair) - version, seconds = (DateTime.UtcNow - began).TotalSeconds;
        ThreadTimes[] after = [.. parts.Select(p => ThreadTimes.Of(WithChildren(p.Processes)))];
        IReadOnlyDictionary<int, long> counted = calls.End();
        return new(versions / seconds, written / versions / pair.Shards, [.. parts.Select((p, i) =>
        {
            ThreadTimes spent = after[i].Less(before[i]);
            return new Cost(p.Part, spent.CpuUs / versions, spent.Wakes / versions,
                p.Processes.Sum(id => counted.GetValueOrDefault(id)) / seconds,
                spent.CpuUsByName.ToDictionary(t => t.Key, t => t.Value / versions));
        })]);
    }

    private static int[] WithChildren(int[] processes) => [.. processes.SelectMany(p => (int[])[p, .. ProcFs.Children(p)])];

    private static int StoreOf(int port)
    {
        using var client = new RespClient(port, s_limit);
        return client.ServerProcess();
    }

    private static long OpenVersion(SitePair pair)
    {
        using var client = new RespClient(pair.PrimaryPort(0), s_limit);
        return long.Parse(OpenVersionLine().Match(client.Text("DPR.INFO")).Groups[1].Value, CultureInfo.InvariantCulture);
    }

    [GeneratedRegex("\nopen_version:([0-9]+)")]
    private static partial Regex OpenVersionLine();

    // To each shard so many in the time of a version, in one piece; nobody waits for a commit. How many were written.
    private long Write(SitePair pair, int writes, TimeSpan length)
    {
        if (writes == 0)
        {
            Thread.Sleep(length);
            return 0;
        }
        long written = 0;
        DateTime end = DateTime.UtcNow + length;
        Thread[] writers = [.. Enumerable.Range(0, pair.Shards).Select(shard => new Thread(() =>
        {
            string key = pair.Key(shard, "cost");
            byte[] request = Encoding.ASCII.GetBytes(string.Concat(Enumerable.Repeat(
                $"*3\r\n$3\r\nSET\r\n${key.Length}\r\n{key}\r\n$64\r\n{new string('x', 64)}\r\n", writes)));
            byte[] replies = new byte[writes * "+OK\r\n".Length];
            using var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
            socket.Connect(IPAddress.Loopback, pair.PrimaryPort(shard));
            using var stream = new NetworkStream(socket);
            for (DateTime next = DateTime.UtcNow; next < end; next += Interval)
            {
                if (next - DateTime.UtcNow is { Ticks: > 0 } pause) { Thread.Sleep(pause); }
                stream.Write(request);
                stream.ReadExactly(replies);
                if (replies[0] != '+') { throw new BenchException($"SET was answered {Encoding.ASCII.GetString(replies)}"); }
                Interlocked.Add(ref written, writes);
            }
        }))];
        foreach (Thread writer in writers) { writer.Start(); }
        foreach (Thread writer in writers) { writer.Join(); }
        return written;
    }

    // ---- What is said ----

    private void Report(int shards, Dictionary<(string Build, int Writes), List<Run>> runs)
    {
        string[] builds = [.. runs.Keys.Select(k => k.Build).Distinct()];
        var lines = new List<string>
        {
            "| writes a version, build | versions/s | " + string.Join(" | ", s_parts.Select(p => $"{p}: us, wake-ups")) + " | all: us |",
            "| --- | ---: |" + string.Concat(s_parts.Select(_ => " ---: |")) + " ---: |",
        };
        var threads = new List<string> { "| part | thread | " + string.Join(" | ", builds) + " |",
            "| --- | --- |" + string.Concat(builds.Select(_ => " ---: |")) };
        foreach (int writes in runs.Keys.Select(k => k.Writes).Distinct())
        {
            foreach (string build in builds)
            {
                List<Run> all = runs[(build, writes)];
                double Median(Func<Run, double> of) => Statistics.Median(all.Select(of));
                lines.Add(string.Create(CultureInfo.InvariantCulture, $"| {Median(r => r.WritesPerVersion):0.0}, {build} | "
                    + $"{Median(r => r.VersionsPerSecond):0} | ")
                    + string.Join(" | ", s_parts.Select((_, i) => string.Create(CultureInfo.InvariantCulture,
                        $"{Median(r => r.Costs[i].CpuUs):0}, {Median(r => r.Costs[i].Wakes):0.0}")))
                    + string.Create(CultureInfo.InvariantCulture, $" | {Median(r => r.TotalUs):0} |"));
            }
            if (writes == 0) { Idle(shards, runs[("this", 0)]); }
            else if (writes == 1)
            {
                Half(shards, builds, runs);
                Threads(builds, runs, threads);
            }
        }
        string what = string.Create(CultureInfo.InvariantCulture,
            $"{shards} {(shards == 1 ? "shard" : "shards")} with a backup, versions of {Interval.TotalMilliseconds} ms");
        results.AddTable($"{Suite}: CPU microseconds and wake-ups a version, of all processes of a kind; {what}", lines);
        results.AddTable($"{Suite}: microseconds a version by thread, one write a version; {what}", threads);
    }

    private void Idle(int shards, List<Run> runs)
    {
        for (int i = 0; i < s_parts.Length; i++)
        {
            double percent = Statistics.Median(runs.Select(r => r.Costs[i].CpuUs * r.VersionsPerSecond)) / 1e4 / shards;
            string name = $"idle, {shards} shards, {s_parts[i]}: of a core, each";
            results.Add(i is 0 or 2 ? Figure.AtMost(Suite, name, percent, "%", IdlePercent)
                : Figure.Information(Suite, name, percent, "%"));
            double calls = Statistics.Median(runs.Select(r => r.Costs[i].CallsPerSecond)) / shards;
            if (calls > 0) { results.Add(Figure.Information(Suite, $"idle, {shards} shards, {s_parts[i]}: system calls, each", calls, "/s")); }
        }
    }

    private void Half(int shards, string[] builds, Dictionary<(string Build, int Writes), List<Run>> runs)
    {
        double now = Statistics.Median(runs[("this", 1)].Select(r => r.TotalUs));
        foreach (string build in builds.Where(b => b != "this"))
        {
            results.Add(Figure.AtMost(Suite, $"one write a version, {shards} shards, all processes: of {build}",
                now / Statistics.Median(runs[(build, 1)].Select(r => r.TotalUs)), "", 0.5));
        }
    }

    private static void Threads(string[] builds, Dictionary<(string Build, int Writes), List<Run>> runs, List<string> lines)
    {
        for (int i = 0; i < s_parts.Length; i++)
        {
            double Of(string build, string thread) =>
                Statistics.Median(runs[(build, 1)].Select(r => r.Costs[i].ThreadUs.GetValueOrDefault(thread)));
            foreach (string thread in builds.SelectMany(b => runs[(b, 1)].SelectMany(r => r.Costs[i].ThreadUs.Keys)).Distinct()
                .Where(t => builds.Any(b => Of(b, t) >= 1)).OrderByDescending(t => Of("this", t)))
            {
                lines.Add($"| {s_parts[i]} | {thread} | " + string.Join(" | ", builds.Select(b =>
                    string.Create(CultureInfo.InvariantCulture, $"{Of(b, thread):0}"))) + " |");
            }
        }
    }
}
