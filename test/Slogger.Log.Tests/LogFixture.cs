// Short ways to make logs and their contents.
using Slogger.Core.Identities;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Log.Tests.Simulation;

namespace Slogger.Log.Tests;

internal static class LogFixture
{
    public const string ReplicationId = "0123456789abcdef0123456789abcdef01234567";
    public const string OtherReplicationId = "fedcba9876543210fedcba9876543210fedcba98";

    public static readonly StreamOrigin Origin = new(ReplicationId, 1000, 2);

    public static VersionLogOptions Options(IFileLayer files, string directory = "/log") => new()
    {
        Directory = directory, Shard = new ShardId(1), Files = files, PrepareInBackground = false,
        SegmentBytes = 16 << 10, BlockBytes = 1 << 10, BufferBytes = 4 << 10,
    };

    public static SimulatedDisk NewDisk() => new(seed: 1);

    /// <summary>A log that begins at offset 1000, world-line 1, version 10.</summary>
    public static VersionLog Begun(IFileLayer files) => Begun(Options(files));

    public static VersionLog Begun(VersionLogOptions options)
    {
        VersionLog log = VersionLog.Open(options);
        log.Begin(Origin, WorldLine.First, new VersionNumber(10));
        return log;
    }

    public static Boundary Closed(VersionLog log, long version) =>
        new(log.WorldLine, new VersionNumber(version), log.EndOffset, 2, HybridTimestamp.Of(version, 0));

    /// <summary>Appends bytes that depend on their offsets, then closes a version.</summary>
    public static Boundary Write(VersionLog log, int bytes, long version)
    {
        log.Append(Stream(log.EndOffset, bytes));
        Boundary boundary = Closed(log, version);
        log.AppendBoundary(boundary);
        return boundary;
    }

    public static byte[] Stream(long offset, int count)
    {
        byte[] bytes = new byte[count];
        for (int i = 0; i < count; i++)
        {
            bytes[i] = (byte)(((offset + i) * 7919) >> 3);
        }
        return bytes;
    }

    public static byte[] ReadAll(VersionLog log, long from)
    {
        using LogReader reader = log.OpenReader(from);
        var all = new MemoryStream();
        byte[] buffer = new byte[1000];
        int read;
        while ((read = reader.Read(buffer)) > 0)
        {
            all.Write(buffer, 0, read);
        }
        return all.ToArray();
    }

    /// <summary>The process dies, the disk stays as it is; then the log is opened again.</summary>
    public static VersionLog Reopened(SimulatedDisk disk, Func<VersionLogOptions, VersionLogOptions>? change = null)
    {
        disk.Kill();
        VersionLogOptions options = Options(disk);
        return VersionLog.Open(change?.Invoke(options) ?? options);
    }
}
