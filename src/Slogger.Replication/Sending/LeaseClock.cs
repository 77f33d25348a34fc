// The clock of site leases: it goes on while the machine sleeps. Stopwatch reads CLOCK_MONOTONIC on Linux, which stands still then: a
// laptop or a virtual machine that was suspended would wake with a lease that ran out long ago. Whoever waits for leases to run out uses a
// clock that stands still: it waits longer.
using System.Diagnostics;
using System.Runtime.InteropServices;

namespace Slogger.Replication.Sending;

/// <summary>The clock of site leases. Where there is no CLOCK_BOOTTIME it is Stopwatch.</summary>
internal static partial class LeaseClock
{
    private const int BootTime = 7;
    private static readonly bool HasBootTime = OperatingSystem.IsLinux() && IntPtr.Size == 8;

    /// <summary>Microseconds from some beginning.</summary>
    public static long NowUs
    {
        get
        {
            if (HasBootTime && clock_gettime(BootTime, out TimeSpec time) == 0)
            {
                return (time.Seconds * 1_000_000) + (time.Nanoseconds / 1000);
            }
            return (long)Stopwatch.GetElapsedTime(0).TotalMicroseconds;
        }
    }

    [LibraryImport("libc")]
    private static partial int clock_gettime(int clock, out TimeSpec time);

    private struct TimeSpec
    {
        public long Seconds;
        public long Nanoseconds;
    }
}
