// Runs redis-benchmark once and reads its CSV.
using System.Globalization;
using Slogger.Bench.Host;

namespace Slogger.Bench.Load;

/// <summary>One kind of load: what all contestants get in one line of a table.</summary>
internal sealed record Cell(string Operation, int Clients, int Pipeline, int SizeBytes)
{
    public override string ToString() => $"{Operation} {SizeBytes} B, {Clients} clients, P={Pipeline}";
}

/// <summary>What redis-benchmark says of one run. Times in milliseconds.</summary>
internal readonly record struct BenchmarkLine(double OperationsPerSecond, double MeanMs, double P50Ms, double P99Ms);

internal static class RedisBenchmark
{
    /// <exception cref="BenchException">It failed; the message has its words.</exception>
    public static BenchmarkLine Run(Cell cell, int port, long operations, int keySpace, IReadOnlyList<string> variantArguments, int? core)
    {
        string N(long n) => n.ToString(CultureInfo.InvariantCulture);
        string[] command = ["redis-benchmark", "-h", "127.0.0.1", "-p", N(port), "-t", cell.Operation.ToLowerInvariant(), "-n",
            N(operations),
            "-c", N(cell.Clients), "-P", N(cell.Pipeline), "-d", N(cell.SizeBytes), "-r", N(keySpace), "--csv", .. variantArguments];
        (string output, string errors, int exitCode) = ManagedProcess.Run(command, core, TimeSpan.FromMinutes(2));
        return ParseCsv(output, cell.Operation)
            ?? throw new BenchException($"redis-benchmark gave no figure (exit code {exitCode}): {output}\n{errors}");
    }

    /// <summary>The line of one operation in the CSV, or null.</summary>
    public static BenchmarkLine? ParseCsv(string output, string operation)
    {
        // "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
        foreach (string line in output.Split('\n'))
        {
            string[] f = [.. line.Trim().Split(',').Select(x => x.Trim('"'))];
            if (f.Length == 8 && f[0].Equals(operation, StringComparison.OrdinalIgnoreCase))
            {
                double D(int i) => double.Parse(f[i], CultureInfo.InvariantCulture);
                return new BenchmarkLine(D(1), D(2), D(4), D(6));
            }
        }

        return null;
    }
}
