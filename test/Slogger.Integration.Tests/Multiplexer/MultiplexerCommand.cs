// The command line of a long run of StackExchange.Redis under failures:
//   dotnet run -c Release --project test/Slogger.Integration.Tests -- --multiplexer --rounds 60 --seed 1
using System.Globalization;
using System.Runtime.InteropServices;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Multiplexer;

internal static class MultiplexerCommand
{
    private const string Usage =
        """
        --multiplexer                   run rounds of failures under multiplexers of StackExchange.Redis instead of the tests
          --rounds N                    how many (default: 60)
          --seed S                      chooses faults, moments and commands (default: the clock)
          --shards N                    1: what any Redis client sees; more: a cluster (default: 1)
          --faster                      all of them have an embedded store
          --commit log|bgsave           default: log
          --finder approximate|exact|hybrid   default: approximate
          --fault NAME                  this one only
        """;

    /// <returns>0 if every promise was kept, 1 if not, 2 for a bad option.</returns>
    public static async Task<int> RunAsync(string[] args)
    {
        var given = new Dictionary<string, string>();
        string[] known = ["rounds", "seed", "shards", "commit", "finder", "fault"];
        for (int i = 0; i < args.Length; i++)
        {
            if (args[i] == "--multiplexer") { continue; }
            if (args[i] == "--faster")
            {
                given["faster"] = "";
                continue;
            }

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
        int seed = Number("seed", Environment.TickCount & 0xFFFFFF), shards = Number("shards", 1);
        Console.WriteLine($"seed {seed}");
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards, usesPostgres: false)
        {
            Embedded = given.ContainsKey("faster") ? shards : 0,
            Finder = given.GetValueOrDefault("finder", "approximate"),
            Options = given.TryGetValue("commit", out string? commit) ? ["--commit", commit] : [],
        };
        using var interrupted = PosixSignalRegistration.Create(PosixSignal.SIGINT, _ =>
        {
            // The servers would outlive an interrupted run.
            cluster.DisposeAsync().AsTask().Wait();
            Environment.Exit(130);
        });
        await cluster.StartAsync();
        await using var run = given.TryGetValue("fault", out string? fault)
            ? new MultiplexerRun(cluster, Number("rounds", 60), seed, Console.WriteLine) { Faults = [fault] }
            : new MultiplexerRun(cluster, Number("rounds", 60), seed, Console.WriteLine);
        try
        {
            await run.RunAsync();
            return 0;
        }
        catch (InvalidDataException e)
        {
            await Console.Error.WriteLineAsync(e.Message);
            return 1;
        }
    }
}
