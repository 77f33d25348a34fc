// Finds a command by its name. On the hot path: one multiplication and usually one compare; nothing is allocated.
using System.Numerics;
using System.Runtime.CompilerServices;
using System.Text;

namespace Slogger.Faster.Commands;

internal static unsafe partial class CommandTable
{
    private const int SlotBits = 9;
    private const int NameBytesMax = 15;
    private static readonly Command?[] s_slots = new Command?[1 << SlotBits];
    private static readonly UInt128[] s_names = new UInt128[1 << SlotBits];

    static CommandTable()
    {
        foreach (Command command in Entries.Append(s_commit))
        {
            byte[] name = Encoding.ASCII.GetBytes(command.Name);
            if (name.Length > NameBytesMax)
                throw new InvalidOperationException($"The table of commands has no place for names as long as '{command.Name}'.");
            UInt128 word;
            fixed (byte* at = name) word = Word(at, name.Length);
            int slot = Slot(word);
            while (s_slots[slot] is not null) slot = (slot + 1) & (s_slots.Length - 1);
            (s_slots[slot], s_names[slot]) = (command, word);
        }
    }

    /// <summary>The command of a name in letters of any size; null: there is none.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static Command? Find(byte* name, int length)
    {
        if ((uint)(length - 1) >= NameBytesMax) return null;
        UInt128 word = Word(name, length);
        for (int slot = Slot(word); ; slot = (slot + 1) & ((1 << SlotBits) - 1))
        {
            Command? command = s_slots[slot];
            if (command is null || s_names[slot] == word) return command;
        }
    }

    /// <summary>The same for a name that is elsewhere.</summary>
    public static Command? Find(ReadOnlySpan<byte> name)
    {
        fixed (byte* at = name) return Find(at, name.Length);
    }

    /// <summary>A subcommand; null: there is none of that name.</summary>
    public static Command? Find(Command container, ReadOnlySpan<byte> name)
    {
        foreach (Command command in container.Subcommands)
        {
            ReadOnlySpan<char> own = command.Name.AsSpan(container.Name.Length + 1);
            if (name.Length == own.Length && Ascii.EqualsIgnoreCase(name, own)) return command;
        }

        return null;
    }

    /// <summary>A command, or with a bar within the name a subcommand.</summary>
    public static Command? FindFull(ReadOnlySpan<byte> name)
    {
        int bar = name.IndexOf((byte)'|');
        if (bar < 0) return Find(name);
        return Find(name[..bar]) is { Subcommands.Length: > 0 } container ? Find(container, name[(bar + 1)..]) : null;
    }

    // The name in small letters, and in the last byte its length.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static UInt128 Word(byte* name, int length)
    {
        ulong tag = (ulong)length << 56;
        if (length <= 8) return new(tag, Lower(Part(name, length)));
        return new(tag | Lower(Part(name + 8, length - 8)), Lower(Unsafe.ReadUnaligned<ulong>(name)));
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static ulong Part(byte* at, int length)
    {
        if (length == 8) return Unsafe.ReadUnaligned<ulong>(at);
        if (length >= 4) return Unsafe.ReadUnaligned<uint>(at) | ((ulong)Unsafe.ReadUnaligned<uint>(at + length - 4) << (8 * (length - 4)));
        ulong word = *at;
        if (length > 1) word |= (ulong)at[1] << 8;
        if (length > 2) word |= (ulong)at[2] << 16;
        return word;
    }

    // Sets bit 5 of the bytes that are capital letters: of eight at once, without a branch.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static ulong Lower(ulong word)
    {
        const ulong Ones = 0x0101010101010101;
        ulong low = word & (0x7F * Ones);
        ulong fromA = low + ((0x80 - 'A') * Ones), beyondZ = low + ((0x7F - 'Z') * Ones);
        return word | ((fromA & ~beyondZ & ~word & (0x80 * Ones)) >> 2);
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static int Slot(UInt128 word) =>
        (int)((((ulong)word ^ BitOperations.RotateLeft((ulong)(word >> 64), 29)) * 0x9E3779B97F4A7C15UL) >> (64 - SlotBits));
}
