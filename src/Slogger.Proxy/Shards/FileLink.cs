// Keeps a file that another program will replace: a second name for it where the file system allows that, else a copy. Redis
// replaces its dump by renaming a new file over it, so a second name goes on naming the old content.
using System.Runtime.InteropServices;

namespace Slogger.Proxy.Shards;

internal static partial class FileLink
{
    /// <summary>Makes <paramref name="to"/> hold what <paramref name="from"/> holds now. Throws IOException.</summary>
    public static void LinkOrCopy(string from, string to)
    {
        File.Delete(to);
        if (!OperatingSystem.IsWindows() && Link(from, to) == 0) { return; }
        // Another file system, or a file of another user.
        File.Copy(from, to, overwrite: true);
    }

    [LibraryImport("libc", EntryPoint = "link", SetLastError = true, StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Link(string from, string to);
}
