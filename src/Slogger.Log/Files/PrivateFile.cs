// Files that only their owner reads, whatever the umask of the process: that is the application's where the proxy runs in one.
namespace Slogger.Log.Files;

/// <summary>Makes files of mode 600.</summary>
public static class PrivateFile
{
    /// <summary>Opens a file, and makes it if the mode says so. One that is there keeps its mode. Throws IOException.</summary>
    public static FileStream Open(string path, FileMode mode, FileShare share = FileShare.Read)
    {
        var options = new FileStreamOptions { Mode = mode, Access = FileAccess.ReadWrite, Share = share };
        if (!OperatingSystem.IsWindows()) { options.UnixCreateMode = UnixFileMode.UserRead | UnixFileMode.UserWrite; }
        return new FileStream(path, options);
    }

    /// <summary>Writes a whole file, not synced. Throws IOException.</summary>
    public static void Write(string path, ReadOnlySpan<byte> content)
    {
        using FileStream file = Open(path, FileMode.Create);
        file.Write(content);
    }
}
