// Short forms for the tests of shipping: an index is "world-line:closed@offset".
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Replication;

internal static class ShipKit
{
    public static readonly ShardId Shard = new(0);
    public static readonly StreamHistory History = new("history", 0);

    public static LogIndex Index(string text)
    {
        string[] parts = text.Split(':', '@');
        return new(new(long.Parse(parts[0])), long.Parse(parts[2]), new(long.Parse(parts[1])));
    }

    public static WorldPoint Point(string text)
    {
        string[] parts = text.Split(':');
        return new(new(long.Parse(parts[0])), new(long.Parse(parts[1])));
    }

    public static LogBranch Branch(string text)
    {
        LogIndex at = Index(text);
        return new(at.WorldLine, at.Closed, at.Offset);
    }

    public static Sender Sender(long epoch, long site = 0, long incarnation = 1) => new(new(site), epoch, incarnation);

    /// <summary>A log in which a version ends every so many bytes; all of it can be read.</summary>
    public sealed class Log(long bytesPerVersion = 10) : IShippedLog
    {
        public long Start { get; set; }

        public LogIndex? EndOfPiece(LogIndex from, LogIndex limit, int bytesMax)
        {
            if (from.Offset < Start) return null;
            long offset = Math.Min(limit.Offset, from.Offset + bytesMax);
            VersionNumber closed = offset == limit.Offset ? limit.Closed : VersionNumber.Max(from.Closed, new(offset / bytesPerVersion));
            return new(from.WorldLine, offset, closed);
        }
    }
}
