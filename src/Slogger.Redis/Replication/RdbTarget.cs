// The file that an RDB is received into: created with mode 0600 (it holds the users' data), synced before it counts. It is synced
// as it grows, too: a whole checkpoint synced at once would hold up every commit of the log on the same disk.
using Slogger.Redis.Connections;

namespace Slogger.Redis.Replication;

internal sealed class RdbTarget
{
    private const int SyncEveryBytes = 1 << 20;
    private readonly string _path;
    private readonly FileStream _file;
    private int _unsynced;

    private RdbTarget(string path, FileStream file)
    {
        _path = path;
        _file = file;
    }

    /// <summary>Creates the file, lets it be filled, and returns its size once it is durable.</summary>
    /// <exception cref="RedisException">The file cannot be written, or what <paramref name="receive"/> throws.</exception>
    public static long Write(string path, Func<RdbTarget, long> receive)
    {
        try
        {
            using FileStream file = PrivateFile.Create(path, bufferBytes: 0);
            long bytes = receive(new RdbTarget(path, file));
            file.Flush(flushToDisk: true);
            return bytes;
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            throw Unwritable(path, e);
        }
    }

    /// <exception cref="RedisException">The file cannot be written.</exception>
    public void Append(ReadOnlySpan<byte> bytes)
    {
        try
        {
            _file.Write(bytes);
            _unsynced += bytes.Length;
            if (_unsynced >= SyncEveryBytes)
            {
                _file.Flush(flushToDisk: true);
                _unsynced = 0;
            }
        }
        catch (IOException e)
        {
            throw Unwritable(_path, e);
        }
    }

    private static RedisException Unwritable(string path, Exception e) =>
        new(RedisProblem.LocalFile, $"The RDB file {path} cannot be written: {e.Message}.", e);
}
