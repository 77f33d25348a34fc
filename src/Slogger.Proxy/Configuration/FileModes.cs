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

    [LibraryImport("libc", EntryPoint = "umask")]
    private static partial int Umask(int mask);
}
