// Nobody but the proxy's user reads what the product makes: data, and secrets. The mask of the process sees to that, for every file,
// directory and socket, also those that SQLite, FASTER and a supervised Redis make. Only the executable sets it: a library has no say in
// its process's mask.
using System.Globalization;
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

    /// <summary>Tells a person about files with metadata that others can read: the peers' secret is in them.</summary>
    public static void WarnOfReadable(MetadataSpec metadata, ILogger log)
    {
        ArgumentNullException.ThrowIfNull(metadata);
        if (metadata.Kind != MetadataKind.Sqlite || OperatingSystem.IsWindows()) { return; }
        foreach (string path in (string[])[metadata.Target, metadata.Target + "-wal", metadata.Target + "-shm"])
        {
            if (ModeOf(path) is not { } mode || ((int)mode & Others) == 0) { continue; }
            log.Warn($"others than its owner may use {path} (mode {Convert.ToString((int)mode, 8)}), which holds the secret by which the "
                + $"cluster's proxies know each other: chmod 600 {path}");
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

    /// <summary>
    /// Root becomes the user who runs the proxy of a data directory: what root made there, that user could not read, and a link that he has
    /// laid there would lead root's writing anywhere. For good, and with that user's groups. Nothing happens for others, or where root runs
    /// the proxy.
    /// </summary>
    /// <returns>Why it cannot be done; null: done, or nothing to do.</returns>
    public static string? BecomeOwner(string directory)
    {
        if (!OperatingSystem.IsLinux() || Geteuid() != Root || OwnerOf(directory, 0) is not { User: > Root } owner) { return null; }
        if (OwnerOf(Path.Combine(directory, DataDirectory.LockFileName), NoFollow) is { User: Root }) { return null; }
        // The user's name is the first field of an entry; who has no name has no groups either.
        nint entry = Getpwuid(owner.User);
        int groups = entry != 0 ? InitGroups(Marshal.ReadIntPtr(entry), owner.Group) : SetGroups(1, owner.Group);
        // The user last: only root may do the other two.
        return groups == 0 && SetResGid(owner.Group, owner.Group, owner.Group) == 0 && SetResUid(owner.User, owner.User, owner.User) == 0
            ? null
            : string.Create(CultureInfo.InvariantCulture,
            $"{directory} belongs to user {owner.User}, and root cannot become that user ({Marshal.GetLastPInvokeErrorMessage()})");
    }

    private static (uint User, uint Group)? OwnerOf(string path, int flags)
    {
        Span<uint> status = stackalloc uint[64];
        return Statx(CurrentDirectory, path, flags, UserAndGroup, ref MemoryMarshal.GetReference(status)) == 0 ? (status[5], status[6])
            : null;
    }

    // Of <linux/stat.h>: there the user is the sixth word of the answer, and the group the seventh.
    private const int CurrentDirectory = -100, NoFollow = 0x100;
    private const uint Root = 0, UserAndGroup = 0x18;

    [LibraryImport("libc", EntryPoint = "statx", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Statx(int directory, string path, int flags, uint mask, ref uint status);

    [LibraryImport("libc", EntryPoint = "geteuid")]
    private static partial uint Geteuid();

    [LibraryImport("libc", EntryPoint = "getpwuid")]
    private static partial nint Getpwuid(uint user);

    [LibraryImport("libc", EntryPoint = "initgroups", SetLastError = true)]
    private static partial int InitGroups(nint user, uint group);

    [LibraryImport("libc", EntryPoint = "setgroups", SetLastError = true)]
    private static partial int SetGroups(nuint count, in uint group);

    [LibraryImport("libc", EntryPoint = "setresgid", SetLastError = true)]
    private static partial int SetResGid(uint real, uint effective, uint saved);

    [LibraryImport("libc", EntryPoint = "setresuid", SetLastError = true)]
    private static partial int SetResUid(uint real, uint effective, uint saved);

    [LibraryImport("libc", EntryPoint = "umask")]
    private static partial int Umask(int mask);
}
