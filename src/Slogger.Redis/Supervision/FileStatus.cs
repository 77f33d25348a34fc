// Whose a file is: the framework does not say.
using System.Runtime.InteropServices;

namespace Slogger.Redis.Supervision;

/// <summary>What Linux says of a file.</summary>
internal static partial class FileStatus
{
    /// <summary>Whether a path is a directory (no link to one) of this process's user, in which nobody else may do anything.</summary>
    public static bool IsPrivateDirectory(string path)
    {
        const uint OwnerAndMode = 0x1 | 0x2 | 0x8;
        const int CurrentDirectory = -100, NoFollow = 0x100, KindAndOthers = 0xF03F, DirectoryOnly = 0x4000;
        // Of <linux/stat.h>: the user is the sixth word of the answer, and the mode the lower half of the eighth.
        Span<uint> status = stackalloc uint[64];
        return Statx(CurrentDirectory, path, NoFollow, OwnerAndMode, ref MemoryMarshal.GetReference(status)) == 0
            && status[5] == Geteuid() && (status[7] & KindAndOthers) == DirectoryOnly;
    }

    [LibraryImport("libc", EntryPoint = "statx", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Statx(int directory, string path, int flags, uint mask, ref uint status);

    [LibraryImport("libc", EntryPoint = "geteuid")]
    private static partial uint Geteuid();
}
