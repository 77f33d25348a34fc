// A version closed, as it lies in a block: 32 bytes, little-endian (the only order .NET 10 supports this project on).
//    0 i64 offset in the stream     16 u64 hybrid timestamp     28 u32 kind: 1 boundary, 2 run of empty versions, 3 held cut,
//    8 i64 version                  24 i32 database                4 the boundary that a window ends at, 5 a window begins
// In a log windows are of what was shipped (LogWindows, Core): what one holds counts with its end. Its beginning has the last version
// closed. An empty run closes every version up to its own at the offset and database of the entry before it. A held cut closes nothing: it
// has the cut's version, its world-line in place of the timestamp, and the stream's end when it was noted.
using System.Runtime.InteropServices;
using Slogger.Core.Replication;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Log.Format;

internal enum EntryKind : uint
{
    Boundary = 1,
    EmptyRun = 2,
    HeldCut = 3,
    ReducedBoundary = 4,
    WindowBegin = 5,
}

[StructLayout(LayoutKind.Sequential, Pack = 1, Size = Bytes)]
internal readonly struct LogEntry
{
    public const int Bytes = 32;

    public readonly long Offset;
    public readonly long Version;
    public readonly ulong TimeBits;
    public readonly int Database;
    public readonly EntryKind Kind;

    public LogEntry(EntryKind kind, in Boundary boundary) =>
        (Kind, Offset, Version, TimeBits, Database) =
            (kind, boundary.Offset, boundary.Version.Number, boundary.Time.Bits, boundary.Database);

    public LogEntry(WorldPoint held, long offset) =>
        (Kind, Offset, Version, TimeBits) = (EntryKind.HeldCut, offset, held.Version.Number, (ulong)held.WorldLine.Number);

    /// <summary>Whether it ends versions.</summary>
    public bool Closes => Kind is not (EntryKind.HeldCut or EntryKind.WindowBegin);

    /// <summary>A run of empty versions, as far as it goes up to a version.</summary>
    public LogEntry UpTo(VersionNumber version) => new(Kind, ToBoundary(default) with { Version = version });

    public WorldPoint ToHeldCut() => new(new WorldLine((long)TimeBits), new VersionNumber(Version));

    /// <summary>What is known of windows behind it.</summary>
    /// <param name="before">What was known before it.</param>
    /// <param name="held">The cut that was noted before it.</param>
    /// <param name="line">Its world-line.</param>
    public LogWindows Note(in LogWindows before, WorldPoint held, WorldLine line) => Kind switch
    {
        EntryKind.WindowBegin => before.Began(held),
        // Without a beginning it has come on as a part of a log: where that was made no cut lay inside, so it hides none.
        EntryKind.ReducedBoundary => before.Ended(new(line, new(Version)), Offset),
        EntryKind.HeldCut => before.Noted(ToHeldCut()),
        _ => before,
    };

    public Boundary ToBoundary(WorldLine worldLine) =>
        new(worldLine, new VersionNumber(Version), Offset, Database, new HybridTimestamp(TimeBits));
}
