// Which threads go before others. On Linux each thread has a niceness of its own, and one that it begins inherits it.
using System.Globalization;
using System.Runtime.InteropServices;

namespace Slogger.Replication.Following;

/// <summary>The priority of threads, on Linux; elsewhere nothing is done.</summary>
internal static partial class Niceness
{
    private const int OfProcess = 0, Self = 0, Ahead = -10, Behind = 19;

    /// <summary>Has this process's threads go before others, and those that they begin.</summary>
    /// <returns>Whether that was allowed.</returns>
    public static bool PutProcessAhead()
    {
        if (!OperatingSystem.IsLinux()) { return false; }
        bool isAhead = true;
        foreach (string task in Directory.EnumerateDirectories("/proc/self/task"))
        {
            isAhead &= int.TryParse(Path.GetFileName(task), CultureInfo.InvariantCulture, out int thread)
                && SetPriority(OfProcess, thread, Ahead) == 0;
        }
        return isAhead;
    }

    /// <summary>Has the calling thread go behind all others: for work that nobody waits for.</summary>
    public static void PutThreadBehind()
    {
        if (OperatingSystem.IsLinux()) { _ = SetPriority(OfProcess, Self, Behind); }
    }

    [LibraryImport("libc", EntryPoint = "setpriority")]
    private static partial int SetPriority(int which, int who, int niceness);
}
