// A matrix of loads by redis-benchmark: for each cell, rounds in which every contestant runs once, in turn.
using Slogger.Bench.Cases;
using Slogger.Bench.Host;
using Slogger.Bench.Load;
using Slogger.Bench.Report;

namespace Slogger.Bench.Suites;

/// <summary>How the clients of a contestant come: words for redis-benchmark.</summary>
internal sealed record LoadVariant(string Name, params IReadOnlyList<string> Arguments)
{
    public static readonly LoadVariant Plain = new("");
    public static readonly LoadVariant Resp3 = new("-3", "-3");
    public static readonly LoadVariant Database1 = new("db1", "--dbnum", "1");
    public static readonly LoadVariant Dedicated = new("dedicated", "--user", CaseFleet.OtherUser, "-a", CaseFleet.OtherPassword);
}

internal sealed record ThroughputPlan(
    string Name, Layout Layout, IReadOnlyList<string> Cases, IReadOnlyList<LoadVariant> Variants, IReadOnlyList<Cell> Cells,
    int Rounds, double RunSeconds, Action<SampleQuery, Results, string> Goals);

internal sealed class ThroughputSuite(BenchOptions options, Results results)
{
    private readonly RunMeter _meter = new(options);

    public void Run(ThroughputPlan plan)
    {
        Console.WriteLine($"\n== {plan.Name}: {plan.Layout.ToString().ToLowerInvariant()}, {plan.Cells.Count} cells, {plan.Rounds} rounds "
            + $"of {plan.RunSeconds} s");
        using var fleet = new CaseFleet(options, plan.Layout, SuiteDirectory.Create(options, plan.Name));
        foreach (string name in plan.Cases)
        {
            _ = fleet.TryStart(name);
        }

        var contestants = (from c in fleet.Cases
                           from v in plan.Variants
                           where v == LoadVariant.Plain || c.Spec.SpeaksAllOfRedis
                           select (Case: c, Variant: v, Label: v.Name.Length == 0 ? c.Name : $"{c.Name} {v.Name}")).ToList();
        int filledSize = -1;
        bool secondDatabase = plan.Variants.Contains(LoadVariant.Database1);
        foreach (Cell cell in plan.Cells)
        {
            if (cell.SizeBytes != filledSize)
            {
                fleet.Focus(null);
                fleet.Fill(cell.SizeBytes, secondDatabase);
                if (filledSize < 0)
                {
                    WarmUp(fleet, contestants);
                }

                filledSize = cell.SizeBytes;
            }

            RunCell(plan, fleet, contestants, cell);
        }

        var query = new SampleQuery(results.Samples.Where(s => s.Suite == plan.Name));
        Console.WriteLine($"-- {plan.Name}: goals");
        plan.Goals(query, results, plan.Name);
        results.AddTable($"{plan.Name} ({plan.Layout.ToString().ToLowerInvariant()}, {plan.Rounds} rounds)", query.Table());
    }

    // Compiles the hot paths of a proxy before anything counts.
    private void WarmUp(CaseFleet fleet, List<(RunningCase Case, LoadVariant Variant, string Label)> contestants)
    {
        foreach ((RunningCase c, LoadVariant v, _) in contestants)
        {
            fleet.Focus(c);
            foreach ((string operation, int pipeline, long n) in ((string, int, long)[])[("SET", 1, 60_000), ("GET", 16, 200_000),
                ("SET", 16, 200_000), ("GET", 1, 60_000)])
            {
                _ = RedisBenchmark.Run(new Cell(operation, 50, pipeline, 64), c.Port, n, options.KeySpace, v.Arguments, fleet.LoadCore);
            }
        }
    }

    private void RunCell(
        ThroughputPlan plan, CaseFleet fleet, List<(RunningCase Case, LoadVariant Variant, string Label)> contestants, Cell cell)
    {
        bool disk = contestants.Any(c => c.Case.Spec.WritesToDisk);
        var operations = new Dictionary<string, long>();
        foreach ((RunningCase c, LoadVariant v, string label) in contestants.ToArray())
        {
            fleet.Focus(c);
            try
            {
                long trial = cell.Clients == 1 ? 5000 * Math.Min(cell.Pipeline, 16) : 20_000 * Math.Min(cell.Pipeline, 16);
                BenchmarkLine line = RedisBenchmark.Run(cell, c.Port, trial, options.KeySpace, v.Arguments, fleet.LoadCore);
                operations[label] = Math.Max(trial / 4, (long)(line.OperationsPerSecond * plan.RunSeconds));
            }
            catch (BenchException e)
            {
                Console.WriteLine($"  -- without {label} from here on: {e.Message}");
                contestants.RemoveAll(x => x.Label == label);
            }
        }

        for (int round = 0; round < plan.Rounds; round++)
        {
            foreach ((RunningCase c, LoadVariant v, string label) in contestants.ToArray())
            {
                fleet.Focus(c);
                if (disk)
                {
                    Native.SyncDisks();
                }

                long n = operations[label];
                try
                {
                    (BenchmarkLine line, RunCost cost, bool noisy) = _meter.Measure(
                        c, () => RedisBenchmark.Run(cell, c.Port, n, options.KeySpace, v.Arguments, fleet.LoadCore));
                    results.Samples.Add(new Sample(plan.Name, label, cell, round, line.OperationsPerSecond, line.MeanMs, line.P50Ms,
                        line.P99Ms,
                        cost.ProxyCpuSeconds / n * 1e6, cost.RedisCpuSeconds / n * 1e6, cost.NoiseCores, noisy));
                }
                catch (BenchException e)
                {
                    Console.WriteLine($"  -- without {label} from here on: {e.Message}");
                    contestants.RemoveAll(x => x.Label == label);
                }
            }
        }

        Print(plan, cell);
        results.Save();
    }

    private void Print(ThroughputPlan plan, Cell cell)
    {
        var query = new SampleQuery(results.Samples.Where(s => s.Suite == plan.Name && s.Cell == cell));
        Console.WriteLine(cell);
        foreach (string label in query.Labels)
        {
            double Median(Func<Sample, double> value) => query.Median(label, cell, value);
            string ratio = query.Compare(label, "raw", cell) is { } r ? $"x raw {r.Median:0.00} [{r.Spread}]" : "";
            Console.WriteLine($"  {label,-18} {Median(s => s.OperationsPerSecond) / 1e3,8:0.0} k/s  {ratio,-27} mean "
                + $"{Median(s => s.MeanMs):0.000} p50 {Median(s => s.P50Ms):0.000} "
                + $"p99 {Median(s => s.P99Ms):0.000} ms  cpu/op proxy {Median(s => s.ProxyCpuUs):0.00} redis "
                + $"{Median(s => s.RedisCpuUs):0.00} us  noise {Median(s => s.NoiseCores):0.00}"
                + (query.IsNoisy(label, cell) ? " NOISY" : ""));
        }
    }
}
