// The command line of a long run of odd requests:
//   dotnet run -c Release --project test/Slogger.Integration.Tests -- --fuzz --requests 1000000 --seed 1 --shards 2
using System.Diagnostics;
using System.Globalization;
using System.Runtime.InteropServices;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Fuzzing;

internal static class FuzzCommand
{
    private const string Usage =
        """
        --fuzz                          send odd requests to a cluster that works, instead of the tests
          --requests N                  how many (default: 200000)
          --seed S                      chooses them (default: the clock)
          --shards N                    default: 2
          --finder approximate|exact|hybrid   default: approximate
          --transport auto|epoll|sockets      default: auto
        """;

    /// <returns>0 if nobody was harmed, 1 if somebody was, 2 for a bad option.</returns>
    public static async Task<int> RunAsync(string[] args)
    {
        var given = new Dictionary<string, string>();
        string[] known = ["requests", "seed", "shards", "finder", "transport"];
        for (int i = 0; i < args.Length; i++)
        {
            if (args[i] == "--fuzz") { continue; }
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
        await using var cluster = new ClusterDeployment(workspace, Number("shards", 2), usesPostgres: false)
        {
            Finder = given.GetValueOrDefault("finder", "approximate"),
            Options = ["--transport", given.GetValueOrDefault("transport", "auto")],
        };
        using var interrupted = PosixSignalRegistration.Create(PosixSignal.SIGINT, _ =>
        {
            // The servers would outlive an interrupted run.
            cluster.DisposeAsync().AsTask().Wait();
            Environment.Exit(130);
        });
        await cluster.StartAsync();
        await cluster.ServingAsync();
        var run = new FuzzRun(cluster, seed);
        long began = Stopwatch.GetTimestamp();
        try
        {
            await run.RunAsync(Number("requests", 200_000));
            Console.WriteLine($"{run.Counts.Requests} requests on {run.Counts.Connections} connections in "
                + $"{Stopwatch.GetElapsedTime(began).TotalSeconds:0} s, {run.Counts.AnswerBytes} bytes answered; {run.Work.Operations} "
                + $"operations of others, {run.Work.Commits} commits awaited; memory {run.MemoryBytes.Before >> 20} MB, then "
                + $"{run.MemoryBytes.After >> 20} MB; nobody was harmed");
            return 0;
        }
        catch (Exception e) when (e is InvalidDataException or IOException or TimeoutException or Xunit.Sdk.XunitException)
        {
            await Console.Error.WriteLineAsync(
                $"after {run.Counts.Requests} requests: {e.Message}\n{string.Join('\n', cluster.Tail().Split('\n').TakeLast(60))}");
            return 1;
        }
    }
}
