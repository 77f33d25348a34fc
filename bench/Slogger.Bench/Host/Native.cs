// The few calls into libc that .NET does not offer: signals by pid, flushing the disk, epoll for the paced load.
using System.Runtime.InteropServices;

namespace Slogger.Bench.Host;

internal static unsafe partial class Native
{
    public const int SigKill = 9;
    public const int SigTerm = 15;
    public const int SigCont = 18;
    public const int SigStop = 19;

    public const int EpollCtlAdd = 1;
    public const uint EpollIn = 1;
    public const int Again = 11;

    /// <summary>The kernel packs this structure on x64 only.</summary>
    [StructLayout(LayoutKind.Sequential, Pack = 4)]
    public struct EpollEventPacked
    {
        public uint Events;
        public long Data;
    }

    [LibraryImport("libc", EntryPoint = "kill", SetLastError = true)]
    public static partial int Kill(int pid, int signal);

    [LibraryImport("libc", EntryPoint = "sync")]
    public static partial void SyncDisks();

    [LibraryImport("libc", EntryPoint = "fdatasync", SetLastError = true)]
    public static partial int FileDataSync(int fd);

    [LibraryImport("libc", EntryPoint = "epoll_create1", SetLastError = true)]
    public static partial int EpollCreate(int flags);

    [LibraryImport("libc", EntryPoint = "epoll_ctl", SetLastError = true)]
    public static partial int EpollControl(int epoll, int operation, int fd, void* epollEvent);

    [LibraryImport("libc", EntryPoint = "sched_yield")]
    public static partial int Yield();

    [LibraryImport("libc", EntryPoint = "epoll_wait", SetLastError = true)]
    public static partial int EpollWait(int epoll, void* events, int maximum, int timeoutMs);

    [LibraryImport("libc", EntryPoint = "recv", SetLastError = true)]
    public static partial nint Receive(int fd, byte* buffer, nint length, int flags);

    [LibraryImport("libc", EntryPoint = "send", SetLastError = true)]
    public static partial nint Send(int fd, byte* buffer, nint length, int flags);
}
