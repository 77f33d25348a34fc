// THE FORMAT OF A BALLOT: what a node of a cohort has promised. Two slots of 4096 bytes, written in turn: a write that does not come to its
// end spoils the slot that does not count. The newer whole slot counts. All numbers are little-endian.
//
//     0 u32 magic "SLBT"    4 u32 format (2)        8 u8[16] incarnation       24 i64 sequence: 1 is the file's making
//    32 i64 promised reign 40 i32 shard            44 u8 learns: 0, 1; 2: and its vote founds the cohort
//    45 text cluster, text node, text for whom      text: u8 length, that many bytes of ASCII; names have 0 to 64
//       u8 count of members, then of each: text node, text address
//       i64 reign with which the cohort began, or 0; text who was elected
//       zeros
//  4092 u32 checksum: CRC-32C of [0, 4092)
//
// Format 1 has slots of 512 bytes, and no members. It is read, and replaced when it is opened.
//
// What is acted upon is durable: a process that was killed may have left a slot that is in memory only, so opening writes the slot that
// counts once more, in its place, and syncs it.
using System.Buffers.Binary;
using System.Security.Cryptography;
using System.Text;
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.Log.Files;
using Slogger.Log.Format;

namespace Slogger.Log.Ballots;

/// <summary>The ballot of one node of a shard's cohort, on disk. One thread at a time. Source: design, replicated shards, 13.</summary>
public sealed class BallotFile : IDisposable
{
    /// <summary>Most characters of a cluster's identity and of a node's name.</summary>
    public const int TextMax = 64;

    /// <summary>Most members of a cohort, and most characters of the address of one.</summary>
    public const int MembersMax = 7, AddressMax = 255;

    private const uint Magic = 0x54424C53;
    private const uint FormatVersion = 2;
    private const int SlotBytes = 4096;
    private const int ChecksumAt = SlotBytes - sizeof(uint);
    private const int TextsAt = 45;
    private const int SlotBytesOf1 = 512;

    private readonly ILogFile _file;
    private readonly ArraySegment<byte> _slot = AlignedBuffer.Allocate(SlotBytes);
    private Content _content;
    private bool _hasFailed;

    private BallotFile(ILogFile file, Content content) => (_file, _content) = (file, content);

    /// <summary>What the node has promised, durably.</summary>
    public Ballot Ballot => _content.Ballot;

    /// <summary>Drawn when the file was made: who has another one has lost what it had.</summary>
    public Guid Incarnation => _content.Incarnation;

    /// <summary>Whether there was no file, or nothing was written into it since it was made.</summary>
    public bool IsNew => _content.Sequence == Content.FirstSequence;

    /// <summary>Opens the ballot of a node, or makes one that has promised nothing. What it says is durable.</summary>
    /// <param name="files">The disk.</param>
    /// <param name="path">The file; its directory is there.</param>
    /// <param name="cluster">Identity of the cluster: up to 64 ASCII characters.</param>
    /// <param name="shard">The shard.</param>
    /// <param name="node">The node: up to 64 ASCII characters.</param>
    /// <exception cref="ArgumentException">A name is too long, or not ASCII.</exception>
    /// <exception cref="InvalidDataException">The file is damaged, of a newer format, or of another cluster, shard or node; the message
    /// says what to do.</exception>
    /// <exception cref="IOException">The disk refused.</exception>
    public static BallotFile Open(IFileLayer files, string path, string cluster, ShardId shard, NodeName node)
    {
        ArgumentNullException.ThrowIfNull(files);
        CheckText(cluster, nameof(cluster));
        CheckText(node.Text, nameof(node));
        if (ReadSlots(files, path) is not { } slots)
        {
            var made = new Content(cluster, shard, node, new Guid(RandomNumberGenerator.GetBytes(16)), Content.FirstSequence, default);
            Make(files, path, made);
            return new BallotFile(files.Open(path, writable: true), made);
        }
        Content found = Newest(slots, path);
        if (found.Cluster != cluster || found.Shard != shard || found.Node != node)
        {
            throw new InvalidDataException(
                $"{path} is the ballot of node {found.Node} of shard {found.Shard} in cluster {found.Cluster}, not of node {node} of " +
                $"shard {shard} in cluster {cluster}. Check which data directory belongs to this node.");
        }
        if (slots.Length == 2 * SlotBytesOf1) { Make(files, path, found); }
        ILogFile file = files.Open(path, writable: true);
        try
        {
            var ballot = new BallotFile(file, found);
            ballot.WriteSlot(found);
            files.SyncDirectory(Path.GetDirectoryName(path)!);
            return ballot;
        }
        catch
        {
            file.Dispose();
            throw;
        }
    }

    /// <summary>Whose ballot a file is, and what it says; null: there is none. Nothing is written.</summary>
    /// <param name="files">The disk.</param>
    /// <param name="path">The file.</param>
    /// <exception cref="InvalidDataException">The file is damaged, or of a newer format.</exception>
    /// <exception cref="IOException">The disk refused.</exception>
    public static (NodeName Node, Ballot Ballot)? Read(IFileLayer files, string path)
    {
        ArgumentNullException.ThrowIfNull(files);
        if (ReadSlots(files, path) is not { } slots) { return null; }
        Content found = Newest(slots, path);
        return (found.Node, found.Ballot);
    }

    /// <summary>Replaces the ballot. Durable when it returns.</summary>
    /// <exception cref="ArgumentException">A name is too long, or not ASCII.</exception>
    /// <exception cref="IOException">The disk refused, now or before: either ballot may be on it. Nothing can be promised until the file is
    /// opened anew.</exception>
    public void Write(Ballot ballot)
    {
        CheckText(ballot.For.Text ?? "", nameof(ballot));
        if (ballot.Members is { } members) { Check(members); }
        Content next = _content with { Sequence = _content.Sequence + 1, Ballot = ballot };
        WriteSlot(next);
        _content = next;
    }

    /// <summary>Whether members can be kept in a ballot.</summary>
    /// <exception cref="ArgumentException">There are too many, or a name or an address is too long, or not ASCII.</exception>
    public static void Check(Cohort members)
    {
        ArgumentNullException.ThrowIfNull(members);
        if (members.Voters.Length > MembersMax)
        {
            throw new ArgumentException($"There are {members.Voters.Length} members, and {MembersMax} are the most.", nameof(members));
        }
        CheckText(members.Founded?.By.Text ?? "", nameof(members));
        foreach ((NodeName node, string address) in members.Members)
        {
            CheckText(node.Text, nameof(members));
            CheckText(address, nameof(members), AddressMax);
        }
    }

    /// <summary>Closes the file.</summary>
    public void Dispose() => _file.Dispose();

    private void WriteSlot(in Content content)
    {
        if (_hasFailed) { throw new IOException("The ballot could not be written before. Check the disk, then restart this node."); }
        _hasFailed = true;
        Encode(content, _slot);
        _file.Write(_slot, content.SlotAt);
        _file.SyncData();
        _hasFailed = false;
    }

    private static void Make(IFileLayer files, string path, in Content content)
    {
        byte[] both = new byte[2 * SlotBytes];
        Encode(content, both.AsSpan(content.SlotAt, SlotBytes));
        DurableFile.Write(files, path, both);
    }

    private static byte[]? ReadSlots(IFileLayer files, string path)
    {
        try
        {
            using ILogFile file = files.Open(path, writable: false);
            byte[] slots = new byte[2 * (file.Length == 2 * SlotBytesOf1 ? SlotBytesOf1 : SlotBytes)];
            file.Read(slots, 0);
            return file.Length == 0 ? null : slots;
        }
        catch (FileNotFoundException)
        {
            return null;
        }
    }

    private static Content Newest(ReadOnlySpan<byte> slots, string path)
    {
        Content? newest = null;
        int bytes = slots.Length / 2;
        for (int at = 0; at < slots.Length; at += bytes)
        {
            if (Decode(slots.Slice(at, bytes), path) is { } slot && !(newest?.Sequence > slot.Sequence)) { newest = slot; }
        }
        return newest ?? throw new InvalidDataException(
            $"{path} is damaged: it does not say what this node has promised, so the node must not vote. Put back no older copy of it. " +
            "Delete the node's data directory: the cohort then takes the node for a new one, which learns the log first.");
    }

    private static Content? Decode(ReadOnlySpan<byte> slot, string path)
    {
        if (BinaryPrimitives.ReadUInt32LittleEndian(slot) != Magic
            || BinaryPrimitives.ReadUInt32LittleEndian(slot[^sizeof(uint)..]) != Crc32C.Compute(slot[..^sizeof(uint)]))
        {
            return null;
        }
        uint format = BinaryPrimitives.ReadUInt32LittleEndian(slot[4..]);
        if (format != (slot.Length == SlotBytes ? FormatVersion : 1))
        {
            throw new InvalidDataException(
                $"{path} has format {format}, which is not the format {FormatVersion} that this program reads; use the program that " +
                "wrote it.");
        }
        ReadOnlySpan<byte> texts = slot[TextsAt..];
        (string cluster, string node, string promisedTo) = (Text(ref texts), Text(ref texts), Text(ref texts));
        var ballot = new Ballot(new Reign(BinaryPrimitives.ReadInt64LittleEndian(slot[32..])), new NodeName(promisedTo))
        {
            Learns = slot[44] != 0,
            Founds = slot[44] == 2,
            Members = slot.Length == SlotBytes ? ReadMembers(texts) : null,
        };
        return new Content(cluster, new ShardId(BinaryPrimitives.ReadInt32LittleEndian(slot[40..])), new NodeName(node),
            new Guid(slot.Slice(8, 16)), BinaryPrimitives.ReadInt64LittleEndian(slot[24..]), ballot);
    }

    private static Cohort? ReadMembers(ReadOnlySpan<byte> source)
    {
        var members = new (NodeName, string)[source[0]];
        ReadOnlySpan<byte> texts = source[1..];
        for (int i = 0; i < members.Length; i++) { members[i] = (new(Text(ref texts)), Text(ref texts)); }
        if (members.Length == 0) { return null; }
        var reign = new Reign(BinaryPrimitives.ReadInt64LittleEndian(texts));
        texts = texts[sizeof(long)..];
        return new(members) { Founded = reign == Reign.None ? null : new(reign, new(Text(ref texts))) };
    }

    private static void Encode(in Content content, Span<byte> slot)
    {
        slot.Clear();
        BinaryPrimitives.WriteUInt32LittleEndian(slot, Magic);
        BinaryPrimitives.WriteUInt32LittleEndian(slot[4..], FormatVersion);
        content.Incarnation.TryWriteBytes(slot[8..]);
        BinaryPrimitives.WriteInt64LittleEndian(slot[24..], content.Sequence);
        BinaryPrimitives.WriteInt64LittleEndian(slot[32..], content.Ballot.Promised.Number);
        BinaryPrimitives.WriteInt32LittleEndian(slot[40..], content.Shard.Number);
        slot[44] = (byte)((content.Ballot.Learns ? 1 : 0) + (content.Ballot.Founds ? 1 : 0));
        Span<byte> rest = slot[TextsAt..];
        Put(content.Cluster, ref rest);
        Put(content.Node.Text, ref rest);
        Put(content.Ballot.For.Text ?? "", ref rest);
        rest[0] = (byte)(content.Ballot.Members?.Voters.Length ?? 0);
        rest = rest[1..];
        foreach ((NodeName node, string address) in content.Ballot.Members?.Members ?? [])
        {
            Put(node.Text, ref rest);
            Put(address, ref rest);
        }
        BinaryPrimitives.WriteInt64LittleEndian(rest, content.Ballot.Members?.Founded?.Reign.Number ?? 0);
        rest = rest[sizeof(long)..];
        Put(content.Ballot.Members?.Founded?.By.Text ?? "", ref rest);
        BinaryPrimitives.WriteUInt32LittleEndian(slot[ChecksumAt..], Crc32C.Compute(slot[..ChecksumAt]));
    }

    private static void Put(string text, ref Span<byte> rest)
    {
        rest[0] = (byte)Encoding.ASCII.GetBytes(text, rest[1..]);
        rest = rest[(1 + rest[0])..];
    }

    private static string Text(ref ReadOnlySpan<byte> rest)
    {
        string text = Encoding.ASCII.GetString(rest.Slice(1, rest[0]));
        rest = rest[(1 + rest[0])..];
        return text;
    }

    private static void CheckText(string text, string name, int max = TextMax)
    {
        if (text.Length > max || !Ascii.IsValid(text))
        {
            throw new ArgumentException($"\"{text}\" has more than {max} characters, or one that is not ASCII.", name);
        }
    }

    private readonly record struct Content(
        string Cluster, ShardId Shard, NodeName Node, Guid Incarnation, long Sequence, Ballot Ballot)
    {
        public const long FirstSequence = 1;

        public int SlotAt => (int)(Sequence & 1) * SlotBytes;
    }
}
