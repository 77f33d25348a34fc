// What is written with each commit, besides what FASTER notes for itself: which stretch of the log its version is, and of which timeline.
using System.Buffers.Binary;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Faster.Commits;

/// <summary>A commit.</summary>
/// <param name="Token">Its name in FASTER.</param>
/// <param name="Number">Its version in FASTER, which counts commits.</param>
/// <param name="Point">The last version that it holds, and its world-line.</param>
/// <param name="From">The log address at which its first version begins.</param>
/// <param name="To">The address at which the next version begins.</param>
public sealed record CommitRecord(Guid Token, long Number, WorldPoint Point, long From, long To)
{
    private const uint Magic = 0x31434653;   // "SFC1"
    internal const int Bytes = 44;

    internal byte[] Cookie()
    {
        byte[] cookie = new byte[Bytes];
        BinaryPrimitives.WriteUInt32LittleEndian(cookie, Magic);
        BinaryPrimitives.WriteInt64LittleEndian(cookie.AsSpan(4), Point.WorldLine.Number);
        BinaryPrimitives.WriteInt64LittleEndian(cookie.AsSpan(12), Point.Version.Number);
        BinaryPrimitives.WriteInt64LittleEndian(cookie.AsSpan(20), From);
        BinaryPrimitives.WriteInt64LittleEndian(cookie.AsSpan(28), To);
        BinaryPrimitives.WriteInt64LittleEndian(cookie.AsSpan(36), Number);
        return cookie;
    }

    /// <summary>Reads a cookie back; null if it is none of ours.</summary>
    internal static CommitRecord? Read(Guid token, ReadOnlySpan<byte> cookie) =>
        cookie.Length != Bytes || BinaryPrimitives.ReadUInt32LittleEndian(cookie) != Magic ? null : new(
            token, BinaryPrimitives.ReadInt64LittleEndian(cookie[36..]),
            new(new(BinaryPrimitives.ReadInt64LittleEndian(cookie[4..])), new Version(BinaryPrimitives.ReadInt64LittleEndian(cookie[12..]))),
            BinaryPrimitives.ReadInt64LittleEndian(cookie[20..]), BinaryPrimitives.ReadInt64LittleEndian(cookie[28..]));
}
