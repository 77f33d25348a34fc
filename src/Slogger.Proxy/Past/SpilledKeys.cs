// However many keys, in the order in which they were added: in memory as long as they are few (Spill).
using System.Buffers;
using System.Buffers.Binary;
using Slogger.Redis.Rollback;

namespace Slogger.Proxy.Past;

/// <summary>Keys in order. Not thread-safe.</summary>
/// <param name="pieces">Where they go; disposed with this.</param>
/// <param name="knownMax">So many are told apart in memory: one of these that is added again counts once.</param>
internal sealed class SpilledKeys(Spill pieces, int knownMax = 0) : IDisposable
{
    private const int PieceBytes = 64 << 10, HeadBytes = 2 * sizeof(int);

    private readonly ArrayBufferWriter<byte> _last = new();
    private HashSet<StoreKey> _known = [];
    private int _lastCount;

    /// <summary>How many there are.</summary>
    public long Count { get; private set; }

    /// <summary>Their bytes.</summary>
    public long Bytes => pieces.Bytes;

    /// <summary>Adds one.</summary>
    /// <exception cref="IOException">The disk refused.</exception>
    public void Add(in StoreKey key)
    {
        if (_known.Count < knownMax ? !_known.Add(key) : _known.Contains(key)) { return; }
        Span<byte> head = _last.GetSpan(HeadBytes);
        BinaryPrimitives.WriteInt32LittleEndian(head, key.Database);
        BinaryPrimitives.WriteInt32LittleEndian(head[sizeof(int)..], key.Name.Length);
        _last.Advance(HeadBytes);
        _last.Write(key.Name);
        _lastCount++;
        Count++;
        if (_last.WrittenCount < PieceBytes) { return; }
        pieces.Append(_last.WrittenSpan, _lastCount);
        _last.ResetWrittenCount();
        _lastCount = 0;
    }

    /// <summary>Those of some hashes. None is added meanwhile; one that is added afterwards may be there twice.</summary>
    /// <param name="isWanted">Whether a hash is wanted.</param>
    /// <exception cref="IOException">The disk does not give back what it took.</exception>
    public IEnumerable<StoreKey> Read(Func<ulong, bool> isWanted)
    {
        _known = [];
        foreach (SpilledPiece piece in pieces.Read().Append(new(_last.WrittenSpan.ToArray(), _lastCount)))
        {
            for (int at = 0; at < piece.Bytes.Length;)
            {
                int database = BinaryPrimitives.ReadInt32LittleEndian(piece.Bytes.AsSpan(at));
                int end = at + HeadBytes + BinaryPrimitives.ReadInt32LittleEndian(piece.Bytes.AsSpan(at + sizeof(int)));
                if (isWanted(StoreKey.HashOf(database, piece.Bytes.AsSpan(at + HeadBytes, end - at - HeadBytes))))
                {
                    yield return new(database, piece.Bytes[(at + HeadBytes)..end]);
                }
                at = end;
            }
        }
    }

    public void Dispose() => pieces.Dispose();
}
