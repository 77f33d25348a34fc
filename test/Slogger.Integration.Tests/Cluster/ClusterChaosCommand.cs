// The command line of a long run against a cluster:
//   dotnet run -c Release --project test/Slogger.Integration.Tests -- --cluster-chaos --rounds 500 --seed 1
using System.Globalization;
using System.Runtime.InteropServices;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Cluster;

internal static class ClusterChaosCommand
{
    private static readonly string Usage =
        $"""
        --cluster-chaos                 run rounds of failures of a cluster instead of the tests
          --rounds N                    how many (default: 500)
          --seed S                      chooses faults, moments and what the writers do (default: the clock)
          --shards N                    default: 4
          --faster N                    how many of them have an embedded store; default: 0
          --metadata sqlite|postgres    default: postgres
          --version-interval DURATION   default: 5ms
          --commit log|bgsave           of those with a Redis; default: log
          --clock-skew US               how far each proxy's clock is ahead of that of the one before; default: 0
          --clock-error DURATION        default: 0ms
          --finder approximate|exact|hybrid   default: approximate; with the others the writers are sessions
          --partitions hash|range       default: drawn by the seed, range one time in four
          --fault NAME                  this fault only: {string.Join(", ", ClusterChaosRun.Faults)}
        """;

    /// <returns>0 if every promise was kept, 1 if not, 2 for a bad option.</returns>
    public static async Task<int> RunAsync(string[] args)
    {
        var given = new Dictionary<string, string>();
        string[] known = ["rounds", "seed", "shards", "faster", "metadata", "version-interval", "commit", "clock-skew", "clock-error",
            "finder", "partitions", "fault"];
        for (int i = 0; i < args.Length; i++)
        {
            if (args[i] == "--cluster-chaos") { continue; }
            if (args[i].StartsWith("--", StringComparison.Ordinal) && known.Contains(args[i][2..]) && i + 1 < args.Length)
            {
                given[args[i][2..]] = args[++i];
                continue;
            }

            await Console.Error.WriteLineAsync($"{args[i]} is not understood\n{Usage}");
            return 2;
        }

        int Number(string name, int otherwise) => given.TryGetValue(name, out string? text) ? int.Parse(text, CultureInfo.InvariantCulture)
            : otherwise;
        int seed = Number("seed", Environment.TickCount & 0xFFFFFF);
        // Keys of embedded stores do not move, nor do ranges mean anything to what their writers do.
        string partitions = given.GetValueOrDefault("partitions",
            Number("faster", 0) == 0 && new Random(seed).Next(4) == 0 ? "range" : "hash");
        Console.WriteLine($"seed {seed}, partitions {partitions}");
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, Number("shards", 4), given.GetValueOrDefault("metadata") != "sqlite")
        {
            Options = ["--version-interval", given.GetValueOrDefault("version-interval", "5ms"), "--clock-error",
                given.GetValueOrDefault("clock-error", "0ms")],
            RedisOptions = ["--commit", given.GetValueOrDefault("commit", "log")],
            Embedded = Number("faster", 0),
            ClockSkew = TimeSpan.FromMicroseconds(Number("clock-skew", 0)),
            Finder = given.GetValueOrDefault("finder", "approximate"),
            Partitions = partitions == "range" ? ClusterDeployment.TenRanges : Slogger.Core.Ownership.Partitioning.Hash,
        };
        using var interrupted = PosixSignalRegistration.Create(PosixSignal.SIGINT, _ =>
        {
            // The servers would outlive an interrupted run.
            cluster.DisposeAsync().AsTask().Wait();
            Environment.Exit(130);
        });
        await cluster.StartAsync();
        try
        {
            await new ClusterChaosRun(cluster, Number("rounds", 500), seed,
                Console.WriteLine) { Only = given.GetValueOrDefault("fault") }.RunAsync();
            return 0;
        }
        catch (InvalidDataException e)
        {
            await Console.Error.WriteLineAsync(e.Message);
            return 1;
        }
    }
}
