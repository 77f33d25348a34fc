// A key with its database, and the hash by which the indexes of a checkpoint and of the log's tail know it. A hash never decides by
// itself: whatever is found by one is compared with the key.
using System.Buffers.Binary;
using System.Numerics;
using System.Text;

namespace Slogger.Redis.Rollback;

/// <summary>A key of a store.</summary>
public readonly struct StoreKey : IEquatable<StoreKey>, IComparable<StoreKey>
{
    /// <summary>Makes one; the name is not copied.</summary>
    public StoreKey(int database, byte[] name)
    {
        Database = database;
        Name = name;
        Hash = HashOf(database, name);
    }

    /// <summary>Its database.</summary>
    public int Database { get; }

    /// <summary>Its name.</summary>
    public byte[] Name { get; }

    /// <summary>The hash of both. It is kept in files: it must not change.</summary>
    public ulong Hash { get; }

    /// <summary>The hash of a key.</summary>
    public static ulong HashOf(int database, ReadOnlySpan<byte> name)
    {
        const ulong Mix = 0x9E3779B97F4A7C15;
        ulong hash = ((ulong)(uint)database + 1) * 0xD6E8FEB86659FD93 ^ (ulong)name.Length;
        while (name.Length >= 8)
        {
            hash = BitOperations.RotateLeft((hash ^ BinaryPrimitives.ReadUInt64LittleEndian(name)) * Mix, 29);
            name = name[8..];
        }
        ulong rest = 0;
        for (int i = 0; i < name.Length; i++) { rest |= (ulong)name[i] << (8 * i); }
        hash = (hash ^ rest) * Mix;
        hash = (hash ^ (hash >> 32)) * 0xD6E8FEB86659FD93;
        return hash ^ (hash >> 29);
    }

    /// <inheritdoc />
    public bool Equals(StoreKey other) => Hash == other.Hash && Database == other.Database && Name.AsSpan().SequenceEqual(other.Name);

    /// <inheritdoc />
    public override bool Equals(object? obj) => obj is StoreKey other && Equals(other);

    /// <inheritdoc />
    public override int GetHashCode() => (int)Hash;

    /// <summary>By database, then by hash.</summary>
    public int CompareTo(StoreKey other) => Database != other.Database ? Database.CompareTo(other.Database) : Hash.CompareTo(other.Hash);

    /// <inheritdoc />
    public override string ToString() => $"{Database}:{Encoding.Latin1.GetString(Name)}";

    public static bool operator ==(StoreKey a, StoreKey b) => a.Equals(b);
    public static bool operator !=(StoreKey a, StoreKey b) => !a.Equals(b);
    public static bool operator <(StoreKey a, StoreKey b) => a.CompareTo(b) < 0;
    public static bool operator >(StoreKey a, StoreKey b) => a.CompareTo(b) > 0;
    public static bool operator <=(StoreKey a, StoreKey b) => a.CompareTo(b) <= 0;
    public static bool operator >=(StoreKey a, StoreKey b) => a.CompareTo(b) >= 0;
}
