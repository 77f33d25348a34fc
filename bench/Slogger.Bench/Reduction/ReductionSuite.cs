// What log reduction leaves, by the size of its windows, and what it costs; and what a replay costs Redis then. Others on the machine do
// not change what is left, and hardly CPU times. Raw and reduced are replayed in turn, each by a fresh server. Then what a backup that is
// far behind is spared.
using System.Globalization;
using Slogger.Bench.Cases;
using Slogger.Bench.Host;
using Slogger.Bench.Report;
using Slogger.Bench.Suites;
using Slogger.Redis.Connections;

namespace Slogger.Bench.Reduction;

internal sealed class ReductionSuite(BenchOptions options, Results results)
{
    private const string Suite = "reduce";

    // A version of 5 ms had 110 to 130 commands under these loads, when they went through the proxy.
    private const int VersionCommands = 120;

    private const int HeadLines = 2;

    private static readonly int[] s_windows = [VersionCommands, 1_000, 10_000, 100_000, int.MaxValue];

    // What the paper says is left of its commands at batches of 1,000, reads left out.
    private static readonly Dictionary<string, string> s_paper = new() { ["uniform"] = "100", ["latest"] = "68" };

    private readonly int _rounds = options.Rounds ?? 5;

    private readonly List<string> _left =
    [
        "| left of commands / of bytes, % | writes | keys | a version (120) | 1,000 | 10,000 | 100,000 | whole | the paper, 1,000 |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ];

    private readonly List<string> _cpu =
    [
        "| CPU of the reducer, ns a command | a version (120) | 1,000 | 10,000 | 100,000 | whole |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ];

    private readonly List<string> _replay =
    [
        "| CPU of Redis, replaying | raw, ms | reduced as a whole, ms | of raw | lowest | highest | digests |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ];

    public void Run() => RunAsync().GetAwaiter().GetResult();

    private async Task RunAsync()
    {
        string directory = SuiteDirectory.Create(options, Suite);
        using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
        foreach (ReductionLoad load in ReductionLoad.All.Where(l => options.Cases?.Contains(l.Name) ?? true))
        {
            Console.WriteLine($"\n== {Suite}: {load.Title}, {load.Writes} writes, {load.Keys} keys, {_rounds} rounds");
            EffectStream stream = null!;
            await OnRedisAsync(fleet, directory, async redis =>
                stream = await EffectStream.RecordAsync(redis, load, directory).ConfigureAwait(false)).ConfigureAwait(false);
            Reduce(load, stream);
            await ReplayAsync(load, stream, fleet, directory).ConfigureAwait(false);
        }
        if (_left.Count > HeadLines)
        {
            results.AddTable($"{Suite}: what is left", _left);
            results.AddTable($"{Suite}: what it costs, medians of {_rounds} rounds", _cpu);
            results.AddTable($"{Suite}: replay, medians of {_rounds} rounds", _replay);
        }
        if (!(options.Cases?.Contains(ShippedReduction.Case) ?? true)) { return; }
        Console.WriteLine($"\n== {Suite}: a backup that is far behind catches up");
        await new ShippedReduction(options, results, Suite).RunAsync().ConfigureAwait(false);
    }

    private void Reduce(ReductionLoad load, EffectStream stream)
    {
        int keys = stream.DistinctKeys();
        var left = new List<string>();
        var cpu = new List<double>();
        long commands = 0;
        foreach (int window in s_windows)
        {
            // The first two: the code is compiled anew meanwhile, and arrays grow.
            ReducedStream[] runs = [.. Enumerable.Range(0, _rounds + 2).Select(_ => stream.Reduce(window))];
            ReducedStream run = runs[0];
            commands = run.CommandsBefore;
            double ofCommands = 100.0 * run.CommandsAfter / commands, ofBytes = 100.0 * run.BytesAfter / run.BytesBefore;
            left.Add($"{ofCommands:0.0} / {ofBytes:0.0}");
            cpu.Add(Statistics.Median(runs.Skip(2).Select(r => r.CpuNs)));
            string size = window == int.MaxValue ? "all" : window.ToString("N0", CultureInfo.InvariantCulture);
            string name = $"{load.Title}, windows of {size}: commands left";
            double? goal = (load.Name, window) switch { ("zipf", int.MaxValue) => 26, ("latest", 1_000) => 70, _ => null };
            string note = $"overwrites of {100.0 * keys / commands:0.0} % as many keys";
            if (goal is { } most) { results.Add(Figure.AtMost(Suite, name, ofCommands, "%", most, note)); }
        }
        _left.Add($"| {load.Title} | {commands} | {keys} | {string.Join(" | ", left)} | {s_paper.GetValueOrDefault(load.Name, "")} |");
        _cpu.Add($"| {load.Title} | {string.Join(" | ", cpu.Select(c => c.ToString("0", CultureInfo.InvariantCulture)))} |");
        if (load.IsOverwriting)
        {
            results.Add(Figure.AtMost(Suite, $"{load.Title}: CPU of a command, the dearest of all windows", cpu.Max(), "ns", 300,
                $"windows of 1,000: {cpu[1]:0}"));
        }
    }

    private async Task ReplayAsync(ReductionLoad load, EffectStream stream, CaseFleet fleet, string directory)
    {
        byte[] reduced = stream.Reduce(int.MaxValue, isKept: true).Bytes;
        List<double> raw = [], less = [], ratios = [];
        var digests = new HashSet<string>();
        for (int round = 0; round < _rounds; round++)
        {
            foreach ((byte[] bytes, List<double> cpu) in ((byte[], List<double>)[])[(stream.Bytes, raw), (reduced, less)])
            {
                await OnRedisAsync(fleet, directory, async redis =>
                {
                    (double ms, string digest) = await EffectStream.ReplayAsync(redis, bytes).ConfigureAwait(false);
                    cpu.Add(ms);
                    digests.Add(digest);
                }).ConfigureAwait(false);
            }
            ratios.Add(less[^1] / raw[^1]);
        }
        if (digests.Count != 1) { throw new BenchException($"{load.Title}: the digests differ: {string.Join(' ', digests)}"); }
        double ratio = Statistics.Median(ratios);
        _replay.Add($"| {load.Title} | {Statistics.Median(raw):0} | {Statistics.Median(less):0} | {ratio:0.00} | {ratios.Min():0.00} | "
            + $"{ratios.Max():0.00} | the same |");
        string name = $"{load.Title}: CPU of Redis for what is left, of raw";
        results.Add(load.Name == "zipf" ? Figure.AtMost(Suite, name, ratio, "", 0.5) : Figure.Information(Suite, name, ratio, ""));
    }

    private static async Task OnRedisAsync(CaseFleet fleet, string directory, Func<RedisEndpoint, Task> work)
    {
        int port = fleet.NextPort();
        ManagedProcess redis = fleet.LaunchRedis("redis-reduce", port, Path.Combine(directory, "redis"), "--enable-debug-command", "yes",
            "--repl-diskless-sync-delay", "0", "--client-output-buffer-limit", "replica 0 0 0");
        try
        {
            CaseFleet.WaitUntilUp(redis, port, "PING\r\n");
            await work(RedisEndpoint.Tcp("127.0.0.1", port)).ConfigureAwait(false);
        }
        finally
        {
            redis.Kill();
        }
    }
}
