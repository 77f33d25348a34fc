// Files that only their owner reads, whatever the umask of the process: what is in them is data, or a password.
namespace Slogger.Redis;

/// <summary>Makes files of mode 600.</summary>
internal static class PrivateFile
{
    /// <summary>Makes a file for writing, or empties one that is there, which keeps its mode. Throws IOException.</summary>
    public static FileStream Create(string path, FileShare share = FileShare.Read, int bufferBytes = 4096)
    {
        var options = new FileStreamOptions { Mode = FileMode.Create, Access = FileAccess.Write, Share = share, BufferSize = bufferBytes };
        if (!OperatingSystem.IsWindows()) { options.UnixCreateMode = UnixFileMode.UserRead | UnixFileMode.UserWrite; }
        return new FileStream(path, options);
    }
}
