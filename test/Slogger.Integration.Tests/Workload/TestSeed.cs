// The seed of a test that does something else each time. SLOGGER_TEST_SEED repeats a run.
using System.Globalization;

namespace Slogger.Integration.Tests.Workload;

internal static class TestSeed
{
    /// <summary>Chooses a seed, or takes the one that is given, and says which.</summary>
    public static int Choose(ITestOutputHelper output)
    {
        int seed = int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_TEST_SEED"), CultureInfo.InvariantCulture, out int given)
            ? given : Random.Shared.Next(1_000_000);
        output.WriteLine($"seed {seed}");
        return seed;
    }
}
