// The project's goals for throughput and latency, in one place: each method turns a suite's samples into figures with
// a mark. A figure whose contestants did not run is left out.
using Slogger.Bench.Load;
using Slogger.Bench.Report;

namespace Slogger.Bench.Suites;

internal static class Goals
{
    private const string Proxy = "none";
    private static readonly string[] s_peers = ["haproxy", "haproxy2", "nutcracker"];

    /// <summary>Of raw Redis 1.0 at depth 1, 0.90 at 16 and 64 (512 B: 0.85); 1.15 of the better peer; CPU per operation.</summary>
    public static void NonePinned(SampleQuery q, Results results, string suite)
    {
        foreach (Cell cell in q.Cells.Where(c => q.Has(Proxy, c)))
        {
            double ofRaw = cell.Pipeline == 1 ? 1.0 : cell.SizeBytes <= 64 ? 0.90 : 0.85;
            bool goal = cell.Clients == 50 || (cell.Clients == 200 && cell.Pipeline == 1);
            AddRatio(q, results, suite, cell, Proxy, "raw", goal ? ofRaw : null);
            AddBestPeer(q, results, suite, cell, cell.Clients == 50 ? 1.15 : null);
            if (cell is { Clients: 50, SizeBytes: 64 } && CpuGoal(cell.Pipeline) is { } cpuGoal)
            {
                double cpu = q.Median(Proxy, cell, s => s.ProxyCpuUs);
                results.Add(Figure.AtMost(suite, $"proxy CPU per operation, {cell}", cpu, "us",
                    cpuGoal) with { Disturbed = q.IsNoisy(Proxy, cell) });
            }
        }
    }

    /// <summary>At least the better peer at depths 1 and 16, 0.85 of it at 64.</summary>
    public static void NoneUnpinned(SampleQuery q, Results results, string suite)
    {
        foreach (Cell cell in q.Cells.Where(c => q.Has(Proxy, c)))
        {
            AddRatio(q, results, suite, cell, Proxy, "raw", cell is { Clients: 200, Pipeline: 1 } ? 1.0 : null);
            AddBestPeer(q, results, suite, cell, cell.Clients != 50 ? null : cell.Pipeline <= 16 ? 1.0 : 0.85);
        }
    }

    /// <summary>HELLO 3 and SELECT cost at most a tenth; dedicated clients are at least as fast as through haproxy.</summary>
    public static void Typical(SampleQuery q, Results results, string suite)
    {
        foreach (Cell cell in q.Cells.Where(c => q.Has(Proxy, c)))
        {
            AddRatio(q, results, suite, cell, $"{Proxy} -3", Proxy, 0.9);
            AddRatio(q, results, suite, cell, $"{Proxy} db1", Proxy, 0.9);
            AddRatio(q, results, suite, cell, $"{Proxy} dedicated", "haproxy dedicated", 1.0);
        }
    }

    /// <summary>GET 0.98 of `none`; SET 0.90 at depth 1, deeper 0.95 of what Redis keeps with a bare replica; 1 ms costs at most 3
    /// %.</summary>
    public static void Log(SampleQuery q, Results results, string suite)
    {
        foreach (Cell cell in q.Cells)
        {
            if (cell.Operation == "GET")
            {
                AddRatio(q, results, suite, cell, "log5", Proxy, 0.98);
            }
            else if (cell.Pipeline == 1)
            {
                AddRatio(q, results, suite, cell, "log5", Proxy, 0.90);
            }
            else if (q.Compare("log5", Proxy, cell) is { } ours && q.Compare("drain", "raw", cell) is { } bare)
            {
                results.Add(Figure.AtLeast(suite, $"log5 / none over drain / raw, {cell}", ours.Median / bare.Median, "", 0.95,
                    $"{ours.Median:0.00} over {bare.Median:0.00}") with { Disturbed = q.IsNoisy("log5", cell)
                        || q.IsNoisy("drain", cell) });
            }

            AddRatio(q, results, suite, cell, "drain", "raw", null);
            AddRatio(q, results, suite, cell, "log1", "log5", 0.97);
        }
    }

    /// <summary>Of raw Redis 1.0 at depth 1, 1.6 at 16, 2.2 at 64.</summary>
    public static void Faster(SampleQuery q, Results results, string suite)
    {
        foreach (Cell cell in q.Cells)
        {
            AddRatio(q, results, suite, cell, "faster", "raw", cell.Pipeline switch { 1 => 1.0, 16 => 1.6, 64 => 2.2, _ => null });
        }
    }

    /// <summary>At least AOF everysec at every depth, at least twice AOF always.</summary>
    public static void Aof(SampleQuery q, Results results, string suite)
    {
        foreach (Cell cell in q.Cells)
        {
            AddRatio(q, results, suite, cell, "log5", "everysec", 1.0);
            AddRatio(q, results, suite, cell, "log5", "always", 2.0);
            AddRatio(q, results, suite, cell, "log1", "everysec", null);
        }
    }

    /// <summary>Mean latency of one client: at most 1.5 of raw Redis, and below both peers.</summary>
    public static void OneClient(SampleQuery q, Results results, string suite)
    {
        foreach (Cell cell in q.Cells.Where(c => q.Has(Proxy, c)))
        {
            if (q.Compare(Proxy, "raw", cell, s => s.MeanMs) is { } toRaw)
            {
                results.Add(Figure.AtMost(suite, $"mean latency none / raw, {cell}", toRaw.Median, "", 1.5,
                    $"{q.Median(Proxy, cell, s => s.MeanMs) * 1e3:0} us; {toRaw.Spread}") with { Disturbed = q.IsNoisy(Proxy, cell) });
            }

            foreach (string peer in s_peers)
            {
                if (q.Compare(Proxy, peer, cell, s => s.MeanMs) is { } toPeer)
                {
                    results.Add(Figure.AtMost(suite, $"mean latency none / {peer}, {cell}", toPeer.Median, "", 1.0,
                        $"{q.Median(peer, cell, s => s.MeanMs) * 1e3:0} us there") with { Disturbed = q.IsNoisy(Proxy, cell)
                            || q.IsNoisy(peer, cell) });
                }
            }
        }
    }

    private static double? CpuGoal(int pipeline) => pipeline switch { 1 => 4, 16 => 0.3, 64 => 0.12, _ => null };

    private static void AddBestPeer(SampleQuery q, Results results, string suite, Cell cell, double? goal)
    {
        if (q.Best(s_peers, cell) is { } best)
        {
            AddRatio(q, results, suite, cell, Proxy, best, goal, $"best peer {best}");
        }
    }

    private static void AddRatio(
        SampleQuery q, Results results, string suite, Cell cell, string label, string against, double? goal, string? againstName = null)
    {
        if (q.Compare(label, against, cell) is not { } ratio)
        {
            return;
        }

        string name = $"{label} / {againstName ?? against}, {cell}";
        Figure figure = goal is { } g ? Figure.AtLeast(suite, name, ratio.Median, "", g, ratio.Spread)
            : Figure.Information(suite, name, ratio.Median, "", ratio.Spread);
        results.Add(figure with { Disturbed = q.IsNoisy(label, cell) || q.IsNoisy(against, cell) });
    }
}
