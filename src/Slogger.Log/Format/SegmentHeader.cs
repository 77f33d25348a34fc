// THE FORMAT OF A SEGMENT'S HEADER: the data of the first block (kind 1) of its file in the log's own directory; its files in further
// directories have none. It restates everything a reader must know of what came before, so that older files can be deleted, and so that
// a change of history is one atomic write: a history begins, or a world-line or a reign branches off, exactly when the header of the
// segment that says so is durable.
//
//   u32 format (3 to 5)   u32 shard   u32 salt   u32 reason: 1 begin, 2 continue, 3 branch, 4 gap, 5 rewind, 6 reign
//   u64 epoch   u64 sequence   u64 previous sequence (0: none)   i64 end of the previous segment (bytes that count, of all its files)
//   u64 sequence of the segment that began this history
//   origin:  text replication id, i64 offset, i32 database       text: u8 length, ASCII bytes
//   text current replication id
//   i64 world-line   i64 reign   the same two of the history's begin   i64 first version of the history
//   i64 stream offset of the first byte in this file
//   last boundary before this file: u8 0 or 1, then i64 world-line, i64 version, i64 offset, i32 database, u64 time
//   u32 count, then branches: i64 reign, i64 world-line, i64 version, i64 offset (the newest 64 that lead to this file's line)
//   the cut held before this file, of a backup's log: i64 world-line (0: none), i64 version
//   from format 4 on: u32 count, then u32 for each further directory in which the segment has a file: its number
//   format 5: what is known of windows before this file (LogWindows): u32 1 there is a stretch, 2 a window is open; then the cut held when
//   it began, and the first one behind it: i64 world-line, i64 version each; then the last window's end, and that of the last one before
//   the stretch: i64 world-line, i64 version, i64 offset each
//
// A line is a world-line within a reign. A rewind may lead back to an older one: then the line, and the branches, are as they were.
// The lowest format that says all is written: 5 once there was a window, else 4 where the segment has several files, else 3. Format 2 has
// no reigns, which reads as reign 0. Format 1 ends before the cut, too. These two are read, and not written any more.
using System.Buffers.Binary;
using System.Text;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Log.Format;

internal enum SegmentReason : uint
{
    Begin = 1,
    Continue = 2,
    Branch = 3,
    Gap = 4,
    Rewind = 5,
    Reign = 6,
}

internal sealed record SegmentHeader
{
    public const uint FormatVersion = 5;
    private const uint FormatWithoutWindows = 4;
    private const uint FormatWithoutParts = 3;
    private const uint FormatWithoutReigns = 2;
    private const uint FormatWithoutHeld = 1;
    private const uint HasStretch = 1, IsOpen = 2;
    public const int BranchesMax = LogBranch.KeptMax;
    public const int BytesMax = 4096;
    public const int PartsMax = 7;

    public required int Shard { get; init; }
    public required uint Salt { get; init; }
    public required SegmentReason Reason { get; init; }
    public required long Epoch { get; init; }
    public required long Sequence { get; init; }
    public required long PreviousSequence { get; init; }
    public required long PreviousEnd { get; init; }
    public required long HistorySequence { get; init; }
    public required StreamOrigin Origin { get; init; }
    public required string ReplicationId { get; init; }
    public required WorldLine WorldLine { get; init; }
    public required WorldLine FirstWorldLine { get; init; }
    public Reign Reign { get; init; }
    public Reign FirstReign { get; init; }
    public required VersionNumber FirstVersion { get; init; }
    public required long StartOffset { get; init; }
    public required Boundary? LastBoundary { get; init; }
    public required IReadOnlyList<LogBranch> Branches { get; init; }
    public WorldPoint Held { get; init; }
    public LogWindows Windows { get; init; }

    /// <summary>The further directories in which the segment has a file, by the numbers that they were given.</summary>
    public IReadOnlyList<uint> Parts { get; init; } = [];

    /// <summary>The last version closed before this file.</summary>
    public VersionNumber Closed => LastBoundary?.Version ?? FirstVersion.Previous;

    /// <summary>Where the last version closed before this file ends.</summary>
    public long ClosedOffset => LastBoundary?.Offset ?? Origin.Offset;

    /// <summary>Whether the file begins where an earlier one has more: that is void.</summary>
    public bool IsVoiding => Reason is SegmentReason.Branch or SegmentReason.Reign or SegmentReason.Rewind;

    /// <summary>Where each line begins that is known, in order: the first one with the history, if it is not forgotten.</summary>
    public IEnumerable<LogBranch> Lines => Branches.Count == BranchesMax ? Branches
        : Branches.Prepend(new LogBranch(FirstWorldLine, FirstVersion.Previous, Origin.Offset) { Reign = FirstReign });

    /// <summary>As <see cref="Lines"/>, but for those whose own beginning a later one has made void.</summary>
    public IEnumerable<LogBranch> KeptLines => Lines.Where(line => Branches.All(b => line.IsKeptBy(b)));

    public bool IsOf(in LogIndex index) => Reign == index.Reign && WorldLine == index.WorldLine;

    public int Encode(Span<byte> destination)
    {
        uint format = Windows != default ? FormatVersion : Parts.Count > 0 ? FormatWithoutWindows : FormatWithoutParts;
        var writer = new FieldWriter(destination);
        writer.U32(format);
        writer.U32((uint)Shard);
        writer.U32(Salt);
        writer.U32((uint)Reason);
        writer.I64(Epoch);
        writer.I64(Sequence);
        writer.I64(PreviousSequence);
        writer.I64(PreviousEnd);
        writer.I64(HistorySequence);
        writer.Text(Origin.ReplicationId);
        writer.I64(Origin.Offset);
        writer.U32((uint)Origin.Database);
        writer.Text(ReplicationId);
        writer.I64(WorldLine.Number);
        writer.I64(Reign.Number);
        writer.I64(FirstWorldLine.Number);
        writer.I64(FirstReign.Number);
        writer.I64(FirstVersion.Number);
        writer.I64(StartOffset);
        writer.U8(LastBoundary is null ? (byte)0 : (byte)1);
        Boundary last = LastBoundary ?? default;
        writer.I64(last.WorldLine.Number);
        writer.I64(last.Version.Number);
        writer.I64(last.Offset);
        writer.U32((uint)last.Database);
        writer.I64((long)last.Time.Bits);
        writer.U32((uint)Branches.Count);
        foreach (LogBranch branch in Branches)
        {
            writer.I64(branch.Reign.Number);
            writer.I64(branch.WorldLine.Number);
            writer.I64(branch.Version.Number);
            writer.I64(branch.Offset);
        }
        writer.Point(Held);
        if (format >= FormatWithoutWindows)
        {
            writer.U32((uint)Parts.Count);
            foreach (uint part in Parts) { writer.U32(part); }
        }
        if (format < FormatVersion) { return writer.Length; }
        writer.U32((Windows.HasStretch ? HasStretch : 0) | (Windows.IsOpen ? IsOpen : 0));
        writer.Point(Windows.Base);
        writer.Point(Windows.From);
        writer.Point(Windows.End);
        writer.I64(Windows.EndOffset);
        writer.Point(Windows.EndBefore);
        writer.I64(Windows.EndOffsetBefore);
        return writer.Length;
    }

    /// <summary>Decodes a verified header.</summary>
    /// <exception cref="LogCorruptException">It is of a newer format, or makes no sense.</exception>
    public static SegmentHeader Decode(ReadOnlySpan<byte> source, string file)
    {
        var reader = new FieldReader(source);
        uint format = reader.U32();
        if (format is < FormatWithoutHeld or > FormatVersion)
        {
            throw new LogCorruptException(file, BlockFormat.HeaderBytes,
                $"format {format} is not the format {FormatVersion} that this program reads; use the program that wrote it");
        }
        bool hasReigns = format >= FormatWithoutParts;
        int shard = (int)reader.U32();
        uint salt = reader.U32();
        var reason = (SegmentReason)reader.U32();
        long epoch = reader.I64();
        long sequence = reader.I64();
        long previous = reader.I64();
        long previousEnd = reader.I64();
        long history = reader.I64();
        var origin = new StreamOrigin(reader.Text(), reader.I64(), (int)reader.U32());
        string replicationId = reader.Text();
        long worldLine = reader.I64();
        long reign = hasReigns ? reader.I64() : 0;
        long firstWorldLine = reader.I64();
        long firstReign = hasReigns ? reader.I64() : 0;
        long firstVersion = reader.I64();
        long startOffset = reader.I64();
        bool hasLast = reader.U8() != 0;
        var last = new Boundary(new WorldLine(reader.I64()), new VersionNumber(reader.I64()), reader.I64(), (int)reader.U32(),
            new HybridTimestamp((ulong)reader.I64()));
        var branches = new LogBranch[Math.Min(reader.U32(), BranchesMax)];
        for (int i = 0; i < branches.Length; i++)
        {
            var of = new Reign(hasReigns ? reader.I64() : 0);
            branches[i] = new(new WorldLine(reader.I64()), new VersionNumber(reader.I64()), reader.I64()) { Reign = of };
        }
        WorldPoint held = format == FormatWithoutHeld ? default : reader.Point();
        uint[] parts = format >= FormatWithoutWindows ? new uint[Math.Min(reader.U32(), PartsMax)] : [];
        for (int i = 0; i < parts.Length; i++) { parts[i] = reader.U32(); }
        if (parts.Distinct().Count() < parts.Length)
        {
            throw new LogCorruptException(file, BlockFormat.HeaderBytes, "the segment's header names a directory twice");
        }
        uint windows = format >= FormatVersion ? reader.U32() : 0;
        return new SegmentHeader
        {
            Shard = shard, Salt = salt, Reason = reason, Epoch = epoch, Sequence = sequence, PreviousSequence = previous,
            PreviousEnd = previousEnd, HistorySequence = history, Origin = origin, ReplicationId = replicationId,
            WorldLine = new WorldLine(worldLine), FirstWorldLine = new WorldLine(firstWorldLine),
            FirstVersion = new VersionNumber(firstVersion), StartOffset = startOffset, LastBoundary = hasLast ? last : null,
            Branches = branches, Held = held, Reign = new Reign(reign), FirstReign = new Reign(firstReign),
            Parts = parts,
            Windows = format < FormatVersion ? default : new()
            {
                HasStretch = (windows & HasStretch) != 0, IsOpen = (windows & IsOpen) != 0, Base = reader.Point(), From = reader.Point(),
                End = reader.Point(), EndOffset = reader.I64(), EndBefore = reader.Point(), EndOffsetBefore = reader.I64(),
            },
        };
    }

    private ref struct FieldWriter(Span<byte> destination)
    {
        private readonly Span<byte> _destination = destination;

        public int Length { get; private set; }

        public void U8(byte value) => _destination[Length++] = value;

        public void U32(uint value)
        {
            BinaryPrimitives.WriteUInt32LittleEndian(_destination[Length..], value);
            Length += sizeof(uint);
        }

        public void I64(long value)
        {
            BinaryPrimitives.WriteInt64LittleEndian(_destination[Length..], value);
            Length += sizeof(long);
        }

        public void Point(WorldPoint value)
        {
            I64(value.WorldLine.Number);
            I64(value.Version.Number);
        }

        public void Text(string value)
        {
            U8((byte)value.Length);
            Length += Encoding.ASCII.GetBytes(value, _destination[Length..]);
        }
    }

    private ref struct FieldReader(ReadOnlySpan<byte> source)
    {
        private ReadOnlySpan<byte> _rest = source;

        public byte U8() => Take(1)[0];

        public uint U32() => BinaryPrimitives.ReadUInt32LittleEndian(Take(sizeof(uint)));

        public long I64() => BinaryPrimitives.ReadInt64LittleEndian(Take(sizeof(long)));

        public WorldPoint Point() => new(new WorldLine(I64()), new VersionNumber(I64()));

        public string Text() => Encoding.ASCII.GetString(Take(U8()));

        private ReadOnlySpan<byte> Take(int count)
        {
            ReadOnlySpan<byte> taken = _rest[..count];
            _rest = _rest[count..];
            return taken;
        }
    }
}
