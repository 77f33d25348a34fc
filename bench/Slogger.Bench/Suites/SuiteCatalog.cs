// The names of the suites.
using Slogger.Bench.Report;

namespace Slogger.Bench.Suites;

internal static class SuiteCatalog
{
    private static readonly string[] s_all =
        ["none-pinned", "none-unpinned", "typical", "latency", "log", "aof", "commit", "memory", "restore", "rollback", "sessions",
            "faster", "faster-local"];

    /// <exception cref="BenchException">No suite has this name, or it cannot run.</exception>
    public static void Run(BenchOptions options, Results results)
    {
        foreach (string suite in options.Suite == "all" ? s_all : [options.Suite])
        {
            RunOne(suite, options, results);
        }
    }

    private static void RunOne(string suite, BenchOptions options, Results results)
    {
        var throughput = new ThroughputSuite(options, results);
        switch (suite)
        {
            case "quick":
                throughput.Run(ThroughputPlans.Quick(options));
                break;
            case "none-pinned":
                throughput.Run(ThroughputPlans.NonePinned(options));
                break;
            case "none-unpinned":
                throughput.Run(ThroughputPlans.NoneUnpinned(options));
                break;
            case "typical":
                throughput.Run(ThroughputPlans.Typical(options));
                break;
            case "latency":
                foreach (Layout layout in options.Layout is { } one ? [one] : (Layout[])[Layout.Pinned, Layout.Unpinned])
                {
                    throughput.Run(ThroughputPlans.OneClient(options, layout));
                }

                new HalfLoadSuite(options, results).Run();
                break;
            case "log":
                throughput.Run(ThroughputPlans.Log(options));
                break;
            case "aof":
                throughput.Run(ThroughputPlans.Aof(options));
                break;
            case "drain-study":
                throughput.Run(ThroughputPlans.DrainStudy(options));
                break;
            case "faster":
                throughput.Run(ThroughputPlans.Faster(options));
                break;
            case "faster-local":
                new Faster.FasterLocalSuite(options, results).Run();
                break;
            case "co-location":
                new Faster.CoLocationSuite(options, results).Run();
                break;
            case "commit":
                new CommitSuite(options, results).Run();
                break;
            case "memory":
                new MemorySuite(options, results).Run();
                break;
            case "sessions":
                new SessionsSuite(options, results).Run();
                break;
            case "finders":
                new Finders.FinderSuite(options, results).Run();
                break;
            case "grpc":
                new Frames.FrameSuite(options, results).Run();
                break;
            case "reduce":
                new Reduction.ReductionSuite(options, results).Run();
                break;
            case "past":
                new Past.PastSuite(options, results).Run();
                break;
            case "reset":
                new Past.ResetSuite(options, results).Run();
                break;
            case "disks":
                new Disks.DisksSuite(options, results).Run();
                break;
            case "restore":
                new RestoreSuite(options, results).Run();
                break;
            case "sites":
                new Sites.SitesSuite(options, results).Run();
                break;
            case "version-cost":
                new Sites.VersionCostSuite(options, results).Measure();
                break;
            case "cohort":
                new Cohorts.CohortSuite(options, results).Run();
                break;
            case "rollback":
                new RollbackSuite(options, results).Run();
                break;
            default:
                throw new BenchException($"no suite is called '{suite}'\n\n{BenchOptions.Help}");
        }
    }
}
