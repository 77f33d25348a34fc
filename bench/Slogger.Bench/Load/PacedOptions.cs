// What a paced run is asked for and what it answers: passed between the bench and its child process as one JSON line.
using System.Text.Json;

namespace Slogger.Bench.Load;

/// <summary>An open-loop load: requests are due at fixed times, whether or not earlier ones have been answered, and
/// latency counts from the time a request was due.</summary>
internal sealed record PacedOptions
{
    public required int Port { get; init; }

    /// <summary>Connections that share the rate in turn.</summary>
    public int Connections { get; init; } = 50;

    /// <summary>Requests per second over all connections; 0: no such load, only probes.</summary>
    public double RatePerSecond { get; init; }

    public string Operation { get; init; } = "SET";

    public int SizeBytes { get; init; } = 64;

    /// <summary>What each key begins with: a hash tag puts them all into one shard.</summary>
    public string Key { get; init; } = "";

    public int KeySpace { get; init; } = 100_000;

    /// <summary>Commands per request: sent as one, timed to the last reply.</summary>
    public int Pipeline { get; init; } = 1;

    /// <summary>Connections that send SET and then the wait for commit, one pair at a time.</summary>
    public int ProbeConnections { get; init; }

    /// <summary>Mean time between a probe's pairs; the gap is random, so that probes do not fall in step with the grid.</summary>
    public double ProbeGapMs { get; init; } = 20;

    /// <summary>The words of the wait.</summary>
    public string WaitCommand { get; init; } = "DPR.WAIT * 5000";

    /// <summary>Not counted, at the start.</summary>
    public double WarmUpSeconds { get; init; } = 1;

    public double Seconds { get; init; } = 10;

    public int Seed { get; init; } = 1;

    public string ToJson() => JsonSerializer.Serialize(this);

    public static PacedOptions FromJson(string json) => JsonSerializer.Deserialize<PacedOptions>(json)!;
}

/// <summary>Quantiles in microseconds.</summary>
internal sealed record LatencySummary(long Count, double MeanUs, double P50Us, double P90Us, double P99Us, double P999Us, double MaxUs)
{
    public static LatencySummary Of(LatencyHistogram h) => new(h.Count, h.MeanNs / 1e3, h.QuantileNs(0.5) / 1e3,
        h.QuantileNs(0.9) / 1e3, h.QuantileNs(0.99) / 1e3, h.QuantileNs(0.999) / 1e3, h.MaxNs / 1e3);
}

/// <param name="Requests">From the time a request was due to its last reply.</param>
/// <param name="Lateness">How late the generator itself sent: when this is not small, the machine was too busy.</param>
/// <param name="Commits">From the reply of a probe's SET to the answer that it is committed.</param>
/// <param name="Errors">Error replies; the first one in <paramref name="FirstError"/>.</param>
internal sealed record PacedResult(
    double AchievedPerSecond, LatencySummary Requests, LatencySummary Lateness, LatencySummary Commits, long Errors, string FirstError);
