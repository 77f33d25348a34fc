// A digest of keys with their values and expiries that does not depend on their order: the sums of their hashes.
using System.Buffers.Binary;
using System.Globalization;
using System.Security.Cryptography;

namespace Slogger.Faster.Keys;

/// <summary>A digest of a set of keys. Two that are equal are of the same keys, values and expiries, as far as SHA-256 tells them
/// apart.</summary>
internal struct KeyDigest
{
    private ulong _a, _b, _c, _d;

    /// <summary>How many there are.</summary>
    public long Keys { get; private set; }

    /// <summary>Adds a key, once.</summary>
    public void Add(ReadOnlySpan<byte> key, ReadOnlySpan<byte> value, long expiryMs)
    {
        Span<byte> head = stackalloc byte[12], hash = stackalloc byte[SHA256.HashSizeInBytes];
        BinaryPrimitives.WriteInt64LittleEndian(head, expiryMs);
        BinaryPrimitives.WriteInt32LittleEndian(head[8..], key.Length);
        using var sum = IncrementalHash.CreateHash(HashAlgorithmName.SHA256);
        sum.AppendData(head);
        sum.AppendData(key);
        sum.AppendData(value);
        sum.GetHashAndReset(hash);
        _a += BinaryPrimitives.ReadUInt64LittleEndian(hash);
        _b += BinaryPrimitives.ReadUInt64LittleEndian(hash[8..]);
        _c += BinaryPrimitives.ReadUInt64LittleEndian(hash[16..]);
        _d += BinaryPrimitives.ReadUInt64LittleEndian(hash[24..]);
        Keys++;
    }

    public override readonly string ToString() => string.Create(CultureInfo.InvariantCulture, $"{_a:x16}{_b:x16}{_c:x16}{_d:x16}");
}
