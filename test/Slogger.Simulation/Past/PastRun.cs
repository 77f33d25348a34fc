// Runs many cases of the past, and prints what happened in them.
using System.Diagnostics;
using Slogger.Core.Identities;

namespace Slogger.Simulation.Past;

internal static class PastRun
{
    /// <summary>Runs one case. Null: every invariant held.</summary>
    public static string? Try(PastSettings settings, out PastWorld? world, bool takesNotes = false)
    {
        world = null;
        try
        {
            world = new(settings) { TakesNotes = takesNotes };
            world.Run();
            return null;
        }
        catch (Exception e)
        {
            // Whatever it is, the seed is to be told.
            return e is SimException or BrokenInvariantException ? e.Message : $"{e}";
        }
    }

    /// <summary>Runs the cases of some seeds, until one fails; its trace is printed.</summary>
    /// <returns>Whether all held.</returns>
    public static bool Seeds(int first, int last, int threads, PastSettings settings)
    {
        var watch = Stopwatch.StartNew();
        var happened = new SortedDictionary<string, long>(StringComparer.Ordinal);
        long cases = 0;
        int? failed = null;
        Parallel.For(first, last + 1, new ParallelOptions { MaxDegreeOfParallelism = threads }, (seed, loop) =>
        {
            string? broken = Try(settings with { Seed = seed }, out PastWorld? world);
            lock (happened)
            {
                cases++;
                foreach ((string what, long n) in world?.Happened ?? []) { happened[what] = happened.GetValueOrDefault(what) + n; }
                if (broken is null) { return; }
                failed = Math.Min(failed ?? int.MaxValue, seed);
                loop.Stop();
            }
        });
        Console.WriteLine(FormattableString.Invariant(
            $"{cases} cases in {watch.Elapsed.TotalSeconds:F1} s, {cases / watch.Elapsed.TotalSeconds:F0} per second"));
        foreach ((string what, long n) in happened) { Console.WriteLine(FormattableString.Invariant($"  {n,12}  {what}")); }
        if (failed is not { } bad) { return true; }
        string? text = Try(settings with { Seed = bad }, out PastWorld? again, takesNotes: true);
        foreach (string note in again?.Notes ?? []) { Console.WriteLine(note); }
        Console.WriteLine($"seed {bad}: {text}");
        return false;
    }
}
