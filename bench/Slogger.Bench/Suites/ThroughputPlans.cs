// Which contestants meet in which matrix, and where: one method per suite.
using Slogger.Bench.Load;

namespace Slogger.Bench.Suites;

internal static class ThroughputPlans
{
    private static readonly string[] s_both = ["SET", "GET"];
    private static readonly int[] s_depths = [1, 16, 64];

    /// <summary>A minute: is everything about right?</summary>
    public static ThroughputPlan Quick(BenchOptions o) => Plan(
        o, "quick", Layout.Pinned, ["raw", "haproxy", "nutcracker", "none"], [LoadVariant.Plain],
        Matrix(o, [50], [1, 16], [64]), Goals.NonePinned, rounds: 3, seconds: 0.6);

    /// <summary>The whole matrix of mode `none` against raw Redis and the peers.</summary>
    public static ThroughputPlan NonePinned(BenchOptions o) => Plan(
        o, "none-pinned", Layout.Pinned, ["raw", "haproxy", "nutcracker", "none"], [LoadVariant.Plain],
        Matrix(o, [50, 200, 1], s_depths, [64, 512]), Goals.NonePinned);

    /// <summary>The same with everything anywhere; haproxy also with two threads.</summary>
    public static ThroughputPlan NoneUnpinned(BenchOptions o) => Plan(
        o, "none-unpinned", Layout.Unpinned, ["raw", "haproxy", "haproxy2", "nutcracker", "none"], [LoadVariant.Plain],
        Matrix(o, [50, 200], s_depths, [64, 512]), Goals.NoneUnpinned);

    /// <summary>What most client libraries do first, and clients that cannot share a connection.</summary>
    public static ThroughputPlan Typical(BenchOptions o) => Plan(
        o, "typical", Layout.Pinned, ["raw", "haproxy", "none"],
        [LoadVariant.Plain, LoadVariant.Resp3, LoadVariant.Database1, LoadVariant.Dedicated],
        Matrix(o, [50], s_depths, [64]), Goals.Typical);

    /// <summary>What the version log costs, beside what a bare replica costs.</summary>
    public static ThroughputPlan Log(BenchOptions o) => Plan(
        o, "log", Layout.Pinned, ["raw", "none", "log5", "log1", "drain"], [LoadVariant.Plain],
        Matrix(o, [50], s_depths, [64]), Goals.Log);

    /// <summary>The embedded store over the network, beside Redis.</summary>
    public static ThroughputPlan Faster(BenchOptions o) => Plan(
        o, "faster", Layout.Pinned, ["raw", "faster"], [LoadVariant.Plain], Matrix(o, [50], s_depths, [64]), Goals.Faster);

    /// <summary>Against Redis with its own append-only file.</summary>
    public static ThroughputPlan Aof(BenchOptions o) => Plan(
        o, "aof", Layout.Pinned, ["raw", "everysec", "always", "log5", "log1"], [LoadVariant.Plain],
        [.. Matrix(o, [50], s_depths, [64]).Where(c => c.Operation == "SET")], Goals.Aof);

    /// <summary>Which of backlog size and wake-ups of the reader makes a replica dear: backlog bytes, sleep in us.</summary>
    public static ThroughputPlan DrainStudy(BenchOptions o) => Plan(
        o, "drain-study", Layout.Pinned,
        ["raw", "drain:1048576:0", "drain:16777216:0", "drain:268435456:0", "drain:1048576:200", "drain:1048576:1000",
            "drain:268435456:1000"],
        [LoadVariant.Plain], [.. Matrix(o, [50], s_depths, [64]).Where(c => c.Operation == "SET")], static (_, _, _) => { });

    /// <summary>One client, one command at a time; in both layouts.</summary>
    public static ThroughputPlan OneClient(BenchOptions o, Layout layout) => Plan(
        o with { Layout = layout }, $"latency-1-client-{layout.ToString().ToLowerInvariant()}", layout,
            ["raw", "haproxy", "nutcracker", "none"],
        [LoadVariant.Plain], [.. (o.Operations ?? s_both).Select(op => new Cell(op, 1, 1, 64))], Goals.OneClient);

    private static ThroughputPlan Plan(
        BenchOptions o, string name, Layout layout, string[] cases, IReadOnlyList<LoadVariant> variants, IReadOnlyList<Cell> cells,
        Action<Report.SampleQuery, Report.Results, string> goals, int rounds = 5, double seconds = 1.5) => new(
            name, o.Layout ?? layout, [.. o.Cases ?? cases, .. o.Cases is null ? o.Extra.Select(e => e.Label) : []], variants, cells,
            o.Rounds ?? rounds, o.RunSeconds ?? seconds, goals);

    private static Cell[] Matrix(BenchOptions o, int[] clients, int[] pipelines, int[] sizes) =>
    [
        .. from size in o.Sizes ?? sizes
           from c in o.Clients ?? clients
           from p in o.Pipelines ?? pipelines
           from op in o.Operations ?? s_both
           select new Cell(op, c, p, size),
    ];
}
