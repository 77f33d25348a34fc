// The command line of a long run of Slogger.Client under failures:
//   dotnet run -c Release --project test/Slogger.Integration.Tests -- --client-chaos --rounds 200 --seed 1
using System.Globalization;
using System.Runtime.InteropServices;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Client;

internal static class ClientChaosCommand
{
    private const string Usage =
        """
        --client-chaos                  run rounds of failures under sessions of Slogger.Client instead of the tests
          --rounds N                    how many (default: 200)
          --seed S                      chooses faults, moments and what the sessions do (default: the clock)
          --shards N                    at least 2 (default: 3)
          --faster N                    how many of them have an embedded store; default: 0
          --metadata sqlite|postgres    default: sqlite
          --finder approximate|exact|hybrid   default: approximate
          --partitions hash|range       default: hash
        """;

    /// <returns>0 if every promise was kept, 1 if not, 2 for a bad option.</returns>
    public static async Task<int> RunAsync(string[] args)
    {
        var given = new Dictionary<string, string>();
        string[] known = ["rounds", "seed", "shards", "faster", "metadata", "finder", "partitions"];
        for (int i = 0; i < args.Length; i++)
        {
            if (args[i] == "--client-chaos") { continue; }
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
        Console.WriteLine($"seed {seed}");
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, Number("shards", 3), given.GetValueOrDefault("metadata") == "postgres")
        {
            Embedded = Number("faster", 0),
            Finder = given.GetValueOrDefault("finder", "approximate"),
            Partitions = given.GetValueOrDefault("partitions") == "range" ? ClusterDeployment.TenRanges
                : Slogger.Core.Ownership.Partitioning.Hash,
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
            await new ClientChaosRun(cluster, Number("rounds", 200), seed, Console.WriteLine).RunAsync();
            return 0;
        }
        catch (InvalidDataException e)
        {
            await Console.Error.WriteLineAsync(e.Message);
            return 1;
        }
    }
}
