// Notices the death of a process that is not necessarily our child (an adopted Redis is not): a pidfd becomes readable at the
// instant of the exit. Where pidfds do not exist the process is asked for every 20 ms.
using System.Globalization;
using System.Runtime.InteropServices;

namespace Slogger.Redis.Supervision;

internal static partial class ProcessWatch
{
    private const int SysPidfdOpen = 434; // the same on every Linux architecture
    private const short PollIn = 1;
    private const int SigTerm = 15;
    private const int SigKill = 9;
    private const int SigContinue = 18, SigStop = 19;   // of Linux
    private const int WaitNoHang = 1;
    private const uint FlagExiting = 4; // PF_EXITING of the kernel

    /// <summary>Completes when the process has ended (at once if it has). Cancelling ends the watch within a quarter of a second.</summary>
    public static Task WaitForExitAsync(int processId, CancellationToken cancellation)
    {
        var ended = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var thread = new Thread(() =>
        {
            if (Watch(processId, cancellation))
                ended.TrySetResult();
            else
                ended.TrySetCanceled(cancellation);
        })
        { IsBackground = true, Name = "redis exit watch" };
        thread.Start();
        return ended.Task;
    }

    /// <summary>Whether the process runs; a zombie does not.</summary>
    public static bool IsRunning(int processId)
    {
        if (processId <= 0)
            return false;
        if (!OperatingSystem.IsLinux())
            return Kill(processId, 0) == 0;
        if (!IsThere(processId, out bool isZombie, out _))
            return false;
        if (isZombie)
            _ = WaitPid(processId, 0, WaitNoHang); // as process 1 of a container orphans are ours to bury
        return !isZombie;
    }

    /// <summary>Whether the process does nothing any more: it has ended, or the system is taking it down. Its connections end meanwhile,
    /// some milliseconds before <see cref="IsRunning"/> says so if it has much memory.</summary>
    public static bool IsEnding(int processId) => OperatingSystem.IsLinux()
        ? !IsThere(processId, out bool isZombie, out bool isEnding) || isZombie || isEnding
        : !IsRunning(processId);

    private static bool IsThere(int processId, out bool isZombie, out bool isEnding)
    {
        (isZombie, isEnding) = (false, false);
        try
        {
            // "pid (name) S ppid pgrp session tty tpgid flags ...": the name may hold anything, the rest follows its last parenthesis.
            string stat = File.ReadAllText(string.Create(CultureInfo.InvariantCulture, $"/proc/{processId}/stat"));
            string[] fields = stat[(stat.LastIndexOf(')') + 2)..].Split(' ');
            isZombie = fields[0] is "Z" or "X";
            isEnding = (uint.Parse(fields[6], CultureInfo.InvariantCulture) & FlagExiting) != 0;
            return true;
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            return false;
        }
    }

    public static void Terminate(int processId) => _ = Kill(processId, SigTerm);

    public static void KillHard(int processId) => _ = Kill(processId, SigKill);

    public static void Pause(int processId) => _ = Kill(processId, SigStop);

    public static void Resume(int processId) => _ = Kill(processId, SigContinue);

    private static bool Watch(int processId, CancellationToken cancellation)
    {
        int descriptor = OperatingSystem.IsLinux() ? (int)SystemCall(SysPidfdOpen, processId, 0) : -1;
        try
        {
            while (IsRunning(processId))
            {
                if (descriptor < 0) { Thread.Sleep(20); }
                // A while passes in which nothing happens: there is nothing to look at.
                while (descriptor >= 0 && !cancellation.IsCancellationRequested)
                {
                    var poll = new PollDescriptor { Descriptor = descriptor, Events = PollIn };
                    if (Poll(ref poll, 1, 250) != 0) { break; }
                }
                if (cancellation.IsCancellationRequested) { return false; }
            }
            return true;
        }
        finally
        {
            if (descriptor >= 0)
                _ = Close(descriptor);
        }
    }

    [StructLayout(LayoutKind.Sequential)]
    private struct PollDescriptor
    {
        public int Descriptor;
        public short Events;
        public short Returned;
    }

    [LibraryImport("libc", EntryPoint = "syscall")]
    private static partial nint SystemCall(nint number, nint processId, nint flags);

    [LibraryImport("libc", EntryPoint = "poll")]
    private static partial int Poll(ref PollDescriptor descriptors, nuint count, int timeoutMilliseconds);

    [LibraryImport("libc", EntryPoint = "close")]
    private static partial int Close(int descriptor);

    [LibraryImport("libc", EntryPoint = "kill")]
    private static partial int Kill(int processId, int signal);

    [LibraryImport("libc", EntryPoint = "waitpid")]
    private static partial int WaitPid(int processId, nint status, int options);
}
