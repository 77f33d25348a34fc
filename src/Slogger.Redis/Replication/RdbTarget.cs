// The file that an RDB is received into: created with mode 0600 (it holds the users' data), synced before it counts.
using Slogger.Redis.Connections;

namespace Slogger.Redis.Replication;

internal static class RdbTarget
{
    public static long Write(string path, Func<Stream, long> receive)
    {
        try
        {
            var options = new FileStreamOptions { Mode = FileMode.Create, Access = FileAccess.Write, BufferSize = 0 };
            if (!OperatingSystem.IsWindows())
                options.UnixCreateMode = UnixFileMode.UserRead | UnixFileMode.UserWrite;
            using var file = new FileStream(path, options);
            long bytes = receive(file);
            file.Flush(flushToDisk: true);
            return bytes;
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            throw new RedisException(RedisProblem.LocalFile, $"The RDB file {path} cannot be written: {e.Message}.", e);
        }
    }
}
