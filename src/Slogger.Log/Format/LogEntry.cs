// A version closed, as it lies in a block: 32 bytes, little-endian (the only order .NET 10 supports this project on).
//    0 i64 offset in the stream     16 u64 hybrid timestamp     28 u32 kind: 1 boundary, 2 run of empty versions
//    8 i64 version                  24 i32 database
// An empty run closes every version up to its own at the offset and database of the entry before it.
using System.Runtime.InteropServices;
using Slogger.Core.Time;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Log.Format;

internal enum EntryKind : uint
{
    Boundary = 1,
    EmptyRun = 2,
}

[StructLayout(LayoutKind.Sequential, Pack = 1, Size = Bytes)]
internal readonly struct LogEntry(EntryKind kind, in Boundary boundary)
{
    public const int Bytes = 32;

    public readonly long Offset = boundary.Offset;
    public readonly long Version = boundary.Version.Number;
    public readonly ulong TimeBits = boundary.Time.Bits;
    public readonly int Database = boundary.Database;
    public readonly EntryKind Kind = kind;

    public Boundary ToBoundary(WorldLine worldLine) =>
        new(worldLine, new Version(Version), Offset, Database, new HybridTimestamp(TimeBits));
}
