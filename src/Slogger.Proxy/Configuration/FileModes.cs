// Nobody but the proxy's user reads what the product makes: data, and secrets. The mask of the process sees to that, for every file, directory and socket,
// also those that SQLite, FASTER and a supervised Redis make. Only the executable sets it: a library has no say in its process's mask.
using System.Runtime.InteropServices;

namespace Slogger.Proxy.Configuration;

/// <summary>Modes of files (Unix; elsewhere nothing happens).</summary>
public static partial class FileModes
{
    private const int Others = 0b111_111;
    private const int All = 0b111_111_111;
    private static int? s_mask;

    /// <summary>From now on what this process and its children make belongs to their user alone.</summary>
    public static void MakePrivate()
    {
        if (!OperatingSystem.IsWindows()) { s_mask = Umask(Others); }
    }

    /// <summary>A socket at which clients come in has the mode that the process's own mask says.</summary>
    internal static void OpenToClients(string path)
    {
        if (s_mask is { } mask && !OperatingSystem.IsWindows()) { File.SetUnixFileMode(path, (UnixFileMode)(All & ~mask)); }
    }

    /// <summary>What to tell a person about files with metadata that others can read: the peers' secret is in them.</summary>
    public static IEnumerable<string> ReadableMetadata(MetadataSpec metadata)
    {
        ArgumentNullException.ThrowIfNull(metadata);
        if (metadata.Kind != MetadataKind.Sqlite || OperatingSystem.IsWindows()) { yield break; }
        foreach (string path in (string[])[metadata.Target, metadata.Target + "-wal", metadata.Target + "-shm"])
        {
            if (ModeOf(path) is not { } mode || ((int)mode & Others) == 0) { continue; }
            yield return $"others than its owner may use {path} (mode {Convert.ToString((int)mode, 8)}), which holds the secret by which the cluster's proxies know each other: chmod 600 {path}";
        }
    }

    // Null: there is no such file (any more), or it may not be looked at.
    private static UnixFileMode? ModeOf(string path)
    {
        try
        {
            return OperatingSystem.IsWindows() ? null : File.GetUnixFileMode(path);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            return null;
        }
    }

    /// <summary>What root has made in a data directory is given to the directory's owner, who runs the proxy and could not read it. Does nothing for others.</summary>
    /// <returns>What could not be given; null: nothing is left.</returns>
    internal static string? GiveToOwner(string directory)
    {
        if (!OperatingSystem.IsLinux() || Geteuid() != Root || OwnerOf(directory) is not { User: > Root } owner) { return null; }
        var all = new EnumerationOptions { RecurseSubdirectories = true, AttributesToSkip = FileAttributes.None, IgnoreInaccessible = true };
        foreach (string path in Directory.EnumerateFileSystemEntries(directory, "*", all))
        {
            // What is gone meanwhile was somebody's temporary file.
            if (OwnerOf(path) is { User: Root } && LChown(path, owner.User, owner.Group) != 0 && OwnerOf(path) is { User: Root }) { return path; }
        }
        return null;
    }

    private static (uint User, uint Group)? OwnerOf(string path)
    {
        Span<uint> status = stackalloc uint[64];
        return Statx(CurrentDirectory, path, NoFollow, UserAndGroup, ref MemoryMarshal.GetReference(status)) == 0 ? (status[5], status[6]) : null;
    }

    // Of <linux/stat.h>: there the user is the sixth word of the answer, and the group the seventh.
    private const int CurrentDirectory = -100, NoFollow = 0x100;
    private const uint Root = 0, UserAndGroup = 0x18;

    [LibraryImport("libc", EntryPoint = "statx", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Statx(int directory, string path, int flags, uint mask, ref uint status);

    [LibraryImport("libc", EntryPoint = "lchown", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int LChown(string path, uint user, uint group);

    [LibraryImport("libc", EntryPoint = "geteuid")]
    private static partial uint Geteuid();

    [LibraryImport("libc", EntryPoint = "umask")]
    private static partial int Umask(int mask);
}
