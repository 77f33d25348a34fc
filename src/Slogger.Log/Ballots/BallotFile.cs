// THE FORMAT OF A BALLOT: what a node of a cohort has promised. Two slots of 512 bytes, written in turn, each a sector of its own: a write
// that does not come to its end spoils the slot that does not count. The newer whole slot counts. All numbers are little-endian.
//
//     0 u32 magic "SLBT"    4 u32 format (1)        8 u8[16] incarnation       24 i64 sequence: 1 is the file's making
//    32 i64 promised reign 40 i32 shard            44 u8 learns: 0, 1
//    45 text cluster, text node, text for whom      text: u8 length, 0 to 64 bytes of ASCII
//       zeros
//   508 u32 checksum: CRC-32C of [0, 508)
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

    private const uint Magic = 0x54424C53;
    private const uint FormatVersion = 1;
    private const int SlotBytes = 512;
    private const int ChecksumAt = SlotBytes - sizeof(uint);
    private const int TextsAt = 45;

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
            byte[] both = new byte[2 * SlotBytes];
            Encode(made, both.AsSpan(made.SlotAt, SlotBytes));
            DurableFile.Write(files, path, both);
            return new BallotFile(files.Open(path, writable: true), made);
        }
        Content found = Newest(slots, path);
        if (found.Cluster != cluster || found.Shard != shard || found.Node != node)
        {
            throw new InvalidDataException(
                $"{path} is the ballot of node {found.Node} of shard {found.Shard} in cluster {found.Cluster}, not of node {node} of " +
                $"shard {shard} in cluster {cluster}. Check which data directory belongs to this node.");
        }
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

    /// <summary>Replaces the ballot. Durable when it returns.</summary>
    /// <exception cref="ArgumentException">A name is too long, or not ASCII.</exception>
    /// <exception cref="IOException">The disk refused, now or before: either ballot may be on it. Nothing can be promised until the file is
    /// opened anew.</exception>
    public void Write(Ballot ballot)
    {
        CheckText(ballot.For.Text ?? "", nameof(ballot));
        Content next = _content with { Sequence = _content.Sequence + 1, Ballot = ballot };
        WriteSlot(next);
        _content = next;
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

    private static byte[]? ReadSlots(IFileLayer files, string path)
    {
        try
        {
            using ILogFile file = files.Open(path, writable: false);
            byte[] slots = new byte[2 * SlotBytes];
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
        for (int at = 0; at < slots.Length; at += SlotBytes)
        {
            if (Decode(slots.Slice(at, SlotBytes), path) is { } slot && !(newest?.Sequence > slot.Sequence)) { newest = slot; }
        }
        return newest ?? throw new InvalidDataException(
            $"{path} is damaged: it does not say what this node has promised, so the node must not vote. Put back no older copy of it. " +
            "Delete the node's data directory: the cohort then takes the node for a new one, which learns the log first.");
    }

    private static Content? Decode(ReadOnlySpan<byte> slot, string path)
    {
        if (BinaryPrimitives.ReadUInt32LittleEndian(slot) != Magic
            || BinaryPrimitives.ReadUInt32LittleEndian(slot[ChecksumAt..]) != Crc32C.Compute(slot[..ChecksumAt]))
        {
            return null;
        }
        uint format = BinaryPrimitives.ReadUInt32LittleEndian(slot[4..]);
        if (format != FormatVersion)
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
        };
        return new Content(cluster, new ShardId(BinaryPrimitives.ReadInt32LittleEndian(slot[40..])), new NodeName(node),
            new Guid(slot.Slice(8, 16)), BinaryPrimitives.ReadInt64LittleEndian(slot[24..]), ballot);
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
        slot[44] = content.Ballot.Learns ? (byte)1 : (byte)0;
        Span<byte> rest = slot[TextsAt..];
        foreach (string text in (ReadOnlySpan<string>)[content.Cluster, content.Node.Text, content.Ballot.For.Text ?? ""])
        {
            rest[0] = (byte)Encoding.ASCII.GetBytes(text, rest[1..]);
            rest = rest[(1 + rest[0])..];
        }
        BinaryPrimitives.WriteUInt32LittleEndian(slot[ChecksumAt..], Crc32C.Compute(slot[..ChecksumAt]));
    }

    private static string Text(ref ReadOnlySpan<byte> rest)
    {
        string text = Encoding.ASCII.GetString(rest.Slice(1, rest[0]));
        rest = rest[(1 + rest[0])..];
        return text;
    }

    private static void CheckText(string text, string name)
    {
        if (text.Length > TextMax || !Ascii.IsValid(text))
        {
            throw new ArgumentException($"\"{text}\" has more than {TextMax} characters, or one that is not ASCII.", name);
        }
    }

    private readonly record struct Content(
        string Cluster, ShardId Shard, NodeName Node, Guid Incarnation, long Sequence, Ballot Ballot)
    {
        public const long FirstSequence = 1;

        public int SlotAt => (int)(Sequence & 1) * SlotBytes;
    }
}
