// Runs cases: one with its outcome, or many on some threads.
using Slogger.Core.Identities;
using Slogger.Core.Sessions;

namespace Slogger.Simulation;

/// <summary>A case that broke an invariant.</summary>
internal sealed record SimFailure(SimSettings Settings, string Text, IReadOnlyList<string> Notes);

internal sealed class SimTotals
{
    public long Cases { get; set; }

    public SortedDictionary<string, long> Happened { get; } = new(StringComparer.Ordinal);

    public List<SimFailure> Failures { get; } = [];

    public void Add(Cluster cluster)
    {
        Cases++;
        foreach ((string what, long n) in cluster.Happened) Happened[what] = Happened.GetValueOrDefault(what) + n;
    }
}

internal static class SimRun
{
    /// <summary>Runs one case.</summary>
    /// <returns>Null if every invariant held.</returns>
    public static SimFailure? Try(SimSettings settings, out Cluster cluster)
    {
        cluster = new(settings);
        try
        {
            cluster.Run();
            return null;
        }
        catch (Exception e)
        {
            // Whatever it is, the seed is to be told.
            string text = e is SimException or BrokenInvariantException ? e.Message : $"{e.GetType().Name}: {e.Message}\n{e.StackTrace}";
            return new(settings, text, cluster.Notes);
        }
    }

    /// <summary>Runs many cases on some threads, until so many have failed.</summary>
    /// <param name="cases">The cases.</param>
    /// <param name="threads">How many at a time.</param>
    /// <param name="failuresMax">How many failures end it.</param>
    /// <param name="progress">Called now and then, with the totals so far, by one thread at a time.</param>
    public static SimTotals All(IEnumerable<SimSettings> cases, int threads, int failuresMax = 1, Action<SimTotals>? progress = null)
    {
        SimTotals totals = new();
        ParallelOptions options = new() { MaxDegreeOfParallelism = threads };
        Parallel.ForEach(cases, options, (settings, loop) =>
        {
            SimFailure? failure = Try(settings, out Cluster cluster);
            lock (totals)
            {
                totals.Add(cluster);
                if (failure is not null) totals.Failures.Add(failure);
                if (totals.Failures.Count >= failuresMax) loop.Stop();
                progress?.Invoke(totals);
            }
        });
        return totals;
    }
}
