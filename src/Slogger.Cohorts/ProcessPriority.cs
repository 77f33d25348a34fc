// A leader whose beats are late is deposed, though nothing is wrong with it. So where that is allowed a node's threads go before others.
using System.Globalization;
using System.Runtime.InteropServices;

namespace Slogger.Cohorts;

/// <summary>The priority of this process.</summary>
internal static partial class ProcessPriority
{
    private const int OfProcess = 0, Nice = -10;

    /// <summary>Raises it. Threads that begin later have it from those that begin them.</summary>
    /// <returns>Whether that was allowed.</returns>
    public static bool Raise()
    {
        if (!OperatingSystem.IsLinux()) { return false; }
        bool isRaised = true;
        foreach (string task in Directory.EnumerateDirectories("/proc/self/task"))
        {
            isRaised &= int.TryParse(Path.GetFileName(task), CultureInfo.InvariantCulture, out int thread)
                && setpriority(OfProcess, thread, Nice) == 0;
        }
        return isRaised;
    }

    [LibraryImport("libc")]
    private static partial int setpriority(int which, int who, int priority);
}
