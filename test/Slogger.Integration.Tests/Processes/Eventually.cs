// Waiting for something that another process does. The limits are generous: they end a hung test, they decide nothing.
using System.Diagnostics;

namespace Slogger.Integration.Tests.Processes;

internal static class Eventually
{
    /// <summary>Asks until the answer is yes.</summary>
    /// <exception cref="TimeoutException">It stayed no for the whole time.</exception>
    public static async Task AsyncTrue(string what, TimeSpan limit, Func<Task<bool>> ask)
    {
        long start = Stopwatch.GetTimestamp();
        while (!await ask())
        {
            if (Stopwatch.GetElapsedTime(start) > limit)
            {
                throw new TimeoutException($"did not happen in {limit.TotalSeconds:0} s: {what}");
            }

            await Task.Delay(20);
        }
    }
}
