// Memory with a page behind it that must not be touched: whoever reads on is stopped by the system.
using System.Runtime.InteropServices;

namespace Slogger.Faster.Tests.Commands;

internal static unsafe partial class Guarded
{
    private const int PageBytes = 4096, ReadWrite = 3, None = 0, PrivateAnonymous = 0x22;

    public static byte* Allocate(int bytes)
    {
        nint memory = Map(0, bytes + PageBytes, ReadWrite, PrivateAnonymous, -1, 0);
        if (memory == -1 || Protect(memory + bytes, PageBytes, None) != 0) throw new InvalidOperationException("no guarded memory");
        return (byte*)memory;
    }

    public static void Free(byte* memory, int bytes) => _ = Unmap((nint)memory, bytes + PageBytes);

    [LibraryImport("libc", EntryPoint = "mmap")]
    private static partial nint Map(nint at, nint bytes, int protection, int flags, int file, nint offset);

    [LibraryImport("libc", EntryPoint = "mprotect")]
    private static partial int Protect(nint at, nint bytes, int protection);

    [LibraryImport("libc", EntryPoint = "munmap")]
    private static partial int Unmap(nint at, nint bytes);
}
