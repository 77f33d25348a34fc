// 50 clients at half the rate that raw Redis reaches, paced: what the proxy adds to the latency of a server that is
// not overloaded. The generator spins on a core of its own, so this suite is always pinned.
using Slogger.Bench.Cases;
using Slogger.Bench.Load;
using Slogger.Bench.Report;

namespace Slogger.Bench.Suites;

internal sealed class HalfLoadSuite(BenchOptions options, Results results)
{
    private const string Suite = "latency-half-load";
    private const int Clients = 50;
    private readonly RunMeter _meter = new(options);

    public void Run()
    {
        int rounds = options.Rounds ?? 5;
        double seconds = options.RunSeconds ?? 5;
        Console.WriteLine($"\n== {Suite}: pinned, {Clients} clients, {rounds} rounds of {seconds} s");
        using var fleet = new CaseFleet(options, Layout.Pinned, SuiteDirectory.Create(options, Suite));
        foreach (string name in options.Cases ?? ["raw", "haproxy", "nutcracker", "none", .. options.Extra.Select(e => e.Label)])
        {
            _ = fleet.TryStart(name);
        }

        fleet.Fill(64, secondDatabaseToo: false);
        var lines = new List<string> { "| 50 clients, 64 B, at half of raw's rate | requests/s | mean us | p50 | p99 | p99.9 | "
            + "sent late, p99 |", "| --- | ---: | ---: | ---: | ---: | ---: | ---: |" };
        foreach (string operation in options.Operations ?? ["SET", "GET"])
        {
            RunOperation(fleet, operation, rounds, seconds, lines);
        }

        results.AddTable($"{Suite} (pinned, {rounds} rounds of {seconds} s)", lines);
    }

    private void RunOperation(CaseFleet fleet, string operation, int rounds, double seconds, List<string> lines)
    {
        RunningCase reference = fleet.Cases.FirstOrDefault(c => c.Name == "raw") ?? fleet.Cases[0];
        fleet.Focus(reference);
        double rate = Math.Floor(PacedRunner.FullRate(operation, Clients, reference.Port, options.KeySpace, fleet.LoadCore) / 2);
        var cell = new Cell(operation, Clients, 1, 64);
        var runs = new List<(string Label, PacedResult Result)>();
        for (int round = 0; round < rounds; round++)
        {
            foreach (RunningCase c in fleet.Cases)
            {
                fleet.Focus(c);
                var paced = new PacedOptions { Port = c.Port, Connections = Clients, RatePerSecond = rate, Operation = operation,
                    Seconds = seconds, KeySpace = options.KeySpace, Seed = round + 1 };
                try
                {
                    (PacedResult result, RunCost cost, bool noisy) = _meter.Measure(c, () => PacedRunner.Run(paced, fleet.LoadCore));
                    runs.Add((c.Name, result));
                    double operations = result.AchievedPerSecond * cost.Seconds;
                    results.Samples.Add(new Sample(Suite, c.Name, cell, round, result.AchievedPerSecond, result.Requests.MeanUs / 1e3,
                        result.Requests.P50Us / 1e3, result.Requests.P99Us / 1e3, cost.ProxyCpuSeconds / operations * 1e6,
                        cost.RedisCpuSeconds / operations * 1e6, cost.NoiseCores, noisy));
                }
                catch (BenchException e)
                {
                    Console.WriteLine($"  -- {c.Name}: {e.Message}");
                }
            }
        }

        foreach (IGrouping<string, (string Label, PacedResult Result)> g in runs.GroupBy(r => r.Label))
        {
            double Median(Func<PacedResult, double> value) => Statistics.Median(g.Select(r => value(r.Result)));
            lines.Add($"| {operation}, {g.Key} | {Median(r => r.AchievedPerSecond):0} | {Median(r => r.Requests.MeanUs):0} | "
                + $"{Median(r => r.Requests.P50Us):0} "
                + $"| {Median(r => r.Requests.P99Us):0} | {Median(r => r.Requests.P999Us):0} | {Median(r => r.Lateness.P99Us):0} |");
            Console.WriteLine("  " + lines[^1]);
        }

        var query = new SampleQuery(results.Samples.Where(s => s.Suite == Suite));
        foreach (string label in query.Labels.Where(l => l != "raw"))
        {
            if (query.Compare(label, "raw", cell, s => s.P99Ms) is { } ratio)
            {
                string name = $"p99 {label} / raw, {operation}, {Clients} clients at {rate / 1e3:0} k/s";
                string note = ratio.Spread + PacedRunner.Shortfall(query.Median(label, cell, s => s.OperationsPerSecond), rate);
                Figure figure = label == "none" ? Figure.AtMost(Suite, name, ratio.Median, "", 1.2, note)
                    : Figure.Information(Suite, name, ratio.Median, "", note);
                results.Add(figure with { Disturbed = query.IsNoisy(label, cell) || query.IsNoisy("raw", cell) });
            }
        }
    }
}
