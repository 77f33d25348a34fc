// A set of command names that a run of ordinary commands must stop at. Looked up once per command on the proxy's hot
// path, so: no allocation, no hashing of strings, one multiplication and usually one compare for a name not in the set.
using System.Runtime.CompilerServices;
using System.Text;

namespace Slogger.Resp;

/// <summary>An immutable set of command names with a small number for each. Names compare without case.</summary>
public sealed unsafe class SpecialNames
{
    private const int SlotCount = 1024;
    private readonly ulong[] _words = new ulong[SlotCount];
    private readonly byte[] _lengths = new byte[SlotCount];
    private readonly byte[] _values = new byte[SlotCount];
    private readonly byte[][] _names = new byte[SlotCount][];
    private readonly int _longestName;
    private readonly byte _impossible;
    private readonly byte _own;

    /// <summary>Builds the set. Values must be 1 to 255: 0 means "not in the set".</summary>
    /// <param name="names">The names and their values.</param>
    /// <param name="impossible">The value of every name that no command has, but that Redis may take for one: it compares
    /// names as C strings, so a name with a zero byte can be found as the command before that byte (if the hashes happen
    /// to meet). 0: such names are not in the set.</param>
    /// <param name="own">The value of every name, in the set or not, that is spelled as the proxy's own are (<see cref="OwnSpelling"/>).
    /// 0: such names are looked up as any other.</param>
    /// <exception cref="ArgumentException">A name is empty or twice in the set, or a value is 0.</exception>
    public SpecialNames(IEnumerable<KeyValuePair<string, byte>> names, byte impossible = 0, byte own = 0)
    {
        ArgumentNullException.ThrowIfNull(names);
        _impossible = impossible;
        _own = own;
        foreach ((string name, byte value) in names)
        {
            if (name.Length is 0 or > 255 || value == 0)
            {
                throw new ArgumentException($"'{name}' cannot be a special name.", nameof(names));
            }
            byte[] upper = Encoding.ASCII.GetBytes(name.ToUpperInvariant());
            ulong word;
            fixed (byte* p = upper) { word = Word(p, upper.Length); }
            int slot = Slot(word, upper.Length);
            while (_values[slot] != 0)
            {
                if (_names[slot].AsSpan().SequenceEqual(upper))
                {
                    throw new ArgumentException($"'{name}' is twice in the set.", nameof(names));
                }
                slot = (slot + 1) & (SlotCount - 1);
            }
            _words[slot] = word;
            _lengths[slot] = (byte)upper.Length;
            _values[slot] = value;
            _names[slot] = upper;
            _longestName = Math.Max(_longestName, upper.Length);
        }
    }

    /// <summary>The longest name that is looked up. A longer one counts as impossible, whatever its bytes.</summary>
    public const int LongestLookup = 255;

    /// <summary>The number of names that no command can have; see the constructor.</summary>
    public byte Impossible => _impossible;

    /// <summary>The number of a name, or 0 when it is not in the set.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public byte Find(byte* name, int length)
    {
        if ((uint)(length - 1) >= (uint)_longestName)
        {
            return length <= 0 ? (byte)0 : FindLong(new ReadOnlySpan<byte>(name, length));
        }
        ulong raw = RawWord(name, length);
        if (HasZero(length >= 8 ? raw : raw | (ulong.MaxValue << (8 * length))) || (length > 8 && TailHasZero(name, length)))
        {
            return _impossible;
        }
        // Lower case and upper case, or so it looks.
        if ((raw & 0x2020) == 0x20 && _own != 0 && OwnSpelling.Is(new ReadOnlySpan<byte>(name, length))) { return _own; }
        ulong word = raw & CaseMask;
        int slot = Slot(word, length);
        byte value;
        while ((value = _values[slot]) != 0)
        {
            if (_words[slot] == word && _lengths[slot] == length && (length <= 8 || SameTail(name, slot, length)))
            {
                return value;
            }
            slot = (slot + 1) & (SlotCount - 1);
        }
        return 0;
    }

    private byte FindLong(ReadOnlySpan<byte> name) => name.Contains((byte)0) ? _impossible : OwnSpelling.Is(name) ? _own : (byte)0;

    private bool SameTail(byte* name, int slot, int length)
    {
        byte[] expected = _names[slot];
        for (int i = 8; i < length; i++)
        {
            if (Upper(name[i]) != expected[i])
            {
                return false;
            }
        }
        return true;
    }

    private const ulong CaseMask = 0xDFDFDFDFDFDFDFDFUL;

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static bool HasZero(ulong word) => ((word - 0x0101010101010101UL) & ~word & 0x8080808080808080UL) != 0;

    private static bool TailHasZero(byte* name, int length) => new ReadOnlySpan<byte>(name + 8, length - 8).Contains((byte)0);

    private static byte Upper(byte b) => b is >= (byte)'a' and <= (byte)'z' ? (byte)(b - 32) : b;

    // The first eight bytes, letters folded to upper case by clearing bit 5 of all bytes: '-' and '.' and digits change
    // too, but alike for the table and the input, and names that differ only there are told apart by none of Redis's.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static ulong Word(byte* name, int length) => RawWord(name, length) & CaseMask;

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static ulong RawWord(byte* name, int length)
    {
        if (length >= 8) { return Unsafe.ReadUnaligned<ulong>(name); }
        ulong word = 0;
        for (int i = 0; i < length; i++)
        {
            word |= (ulong)name[i] << (8 * i);
        }
        return word;
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static int Slot(ulong word, int length) =>
        (int)(((word ^ (ulong)length) * 0x9E3779B97F4A7C15UL) >> 54);
}
