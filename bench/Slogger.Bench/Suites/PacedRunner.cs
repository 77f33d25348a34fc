// Runs the paced load as a child process on the load's core.
using System.Text.Json;
using Slogger.Bench.Host;
using Slogger.Bench.Load;

namespace Slogger.Bench.Suites;

internal static class PacedRunner
{
    /// <exception cref="BenchException">The load ended with an error, the server's overload included.</exception>
    public static PacedResult Run(PacedOptions paced, int? core)
    {
        (string output, string errors, int exitCode) = ManagedProcess.Run(
            ["dotnet", typeof(PacedRunner).Assembly.Location, "paced", paced.ToJson()], core,
                TimeSpan.FromSeconds(paced.WarmUpSeconds + paced.Seconds + 60));
        return exitCode == 0 && JsonSerializer.Deserialize<PacedResult>(output) is { } result
            ? result : throw new BenchException($"paced load: {errors.Trim()} {output.Trim()}");
    }

    /// <summary>A word for a note when a paced load did not reach its rate: then its latencies are of a backlog.</summary>
    public static string Shortfall(double achieved, double rate) =>
        achieved < rate * 0.97 ? $"; only {achieved / rate:P0} of the rate was reached" : "";

    /// <summary>Operations per second that a contestant reaches when nothing limits the load: the best of three short runs.</summary>
    public static double FullRate(string operation, int clients, int port, int keySpace, int? core) => Enumerable.Range(0, 3)
        .Max(_ => RedisBenchmark.Run(new Cell(operation, clients, 1, 64), port, 100_000, keySpace, [], core).OperationsPerSecond);
}
