// A sleep finer than a millisecond, for the link's reader.
using System.Runtime.InteropServices;

namespace Slogger.Redis.Replication;

internal static partial class Pause
{
    public static void For(TimeSpan time)
    {
        if (!OperatingSystem.IsLinux())
        {
            Thread.Sleep(time);
            return;
        }
        var wanted = new Timespec { Seconds = (nint)(time.Ticks / TimeSpan.TicksPerSecond), Nanoseconds = (nint)(time.Ticks % TimeSpan.TicksPerSecond * 100) };
        _ = Nanosleep(in wanted, 0); // woken early by a signal: no harm
    }

    [StructLayout(LayoutKind.Sequential)]
    private struct Timespec
    {
        public nint Seconds;
        public nint Nanoseconds;
    }

    [LibraryImport("libc", EntryPoint = "nanosleep")]
    private static partial int Nanosleep(in Timespec wanted, nint remaining);
}
