// What a scan of requests must know to stop at the first one that is not for this shard: where the keys of each command are, as
// far as two numbers and a step say it, and which slots are this shard's. One look-up per command gives both whether it is
// special and where its keys are. What is not that simple is left to KeyFinder: the scan stops there. Immutable.
using System.Runtime.CompilerServices;
using Slogger.Core.Ownership;

namespace Slogger.Resp;

/// <summary>The names, places of keys and slots for <see cref="CommandScanner"/>.</summary>
public sealed class SlotTable
{
    /// <summary>Every key must be in a slot of this shard's, those of one request in the same.</summary>
    public const int Owned = -1;

    /// <summary>No key is taken: the scan stops at every request that has one.</summary>
    public const int None = -2;

    // Names' values from here on are rules, below it the caller's.
    internal const byte FirstRule = 128;

    // The set of names has room for a thousand.
    private const int NamesMax = 900;
    private readonly (KeyRange Range, bool Reads)[] _rules;
    private readonly bool[] _owned;

    private SlotTable(SpecialNames names, (KeyRange Range, bool Reads)[] rules, Partitioning partitions, bool[] owned)
    {
        if (owned.Length != partitions.Count)
        {
            throw new ArgumentException($"There are {partitions.Count} slots, not {owned.Length}.", nameof(owned));
        }
        Names = names;
        Partitions = partitions;
        _rules = rules;
        _owned = owned;
    }

    /// <summary>Makes a table.</summary>
    /// <param name="special">Names at which a scan stops, with values from 1 to 127. They come before the store's.</param>
    /// <param name="keys">The store's commands.</param>
    /// <param name="impossible">As for <see cref="SpecialNames"/>.</param>
    /// <param name="own">As for <see cref="SpecialNames"/>.</param>
    /// <param name="partitions">Which slot a key is in.</param>
    /// <param name="owned">For each slot whether it is this shard's; not copied.</param>
    /// <exception cref="ArgumentException">A value is out of range, or the array does not have one entry for each slot.</exception>
    public static SlotTable Of(IEnumerable<KeyValuePair<string, byte>> special, KeyFinder keys, byte impossible, byte own,
        Partitioning partitions, bool[] owned)
    {
        ArgumentNullException.ThrowIfNull(special);
        ArgumentNullException.ThrowIfNull(keys);
        ArgumentNullException.ThrowIfNull(owned);
        ArgumentNullException.ThrowIfNull(partitions);
        var names = new Dictionary<string, byte>(StringComparer.OrdinalIgnoreCase);
        foreach ((string name, byte value) in special)
        {
            if (value >= FirstRule)
            {
                throw new ArgumentException($"The value {value} of '{name}' is above {FirstRule - 1}.", nameof(special));
            }
            names.Add(name, value);
        }
        var rules = new List<(KeyRange Range, bool Reads)>();
        foreach ((string name, KeyRange range) in keys.Ranges)
        {
            (KeyRange, bool) wanted = (range, keys.IsRead(name));
            int rule = rules.IndexOf(wanted);
            if (rule < 0 && rules.Count < byte.MaxValue - FirstRule)
            {
                rule = rules.Count;
                rules.Add(wanted);
            }
            if (rule >= 0 && names.Count < NamesMax && name.Length is > 0 and <= SpecialNames.LongestLookup)
            {
                names.TryAdd(name, (byte)(FirstRule + rule));
            }
        }
        return new(new SpecialNames(names, impossible, own), [.. rules], partitions, owned);
    }

    /// <summary>The same commands with other slots.</summary>
    /// <param name="owned">For each slot whether it is this shard's; not copied.</param>
    public SlotTable With(bool[] owned) => new(Names, _rules, Partitions, owned);

    /// <summary>Which slot a key is in.</summary>
    public Partitioning Partitions { get; }

    /// <summary>Whether a slot is this shard's.</summary>
    public bool Owns(HashSlot slot) => _owned[slot.Number];

    internal SpecialNames Names { get; }

    // A name that is not in the table is none of a command, or of one with keys in strange places: not to be passed unseen.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal SlotCheck Begin(byte value, long arguments, int within)
    {
        if (value == 0) { return new SlotCheck { Failed = true }; }
        (KeyRange range, bool reads) = _rules[value - FirstRule];
        // Argument 0 is the name: a command without keys waits for it in vain.
        return new SlotCheck { Next = range.First, Last = range.Last < 0 ? arguments + range.Last
            : range.Last, Step = range.Step, Slot = within, Reads = reads };
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal void Check<TSlots>(ref SlotCheck keys, ReadOnlySpan<byte> key)
    {
        if (keys.Next == 0) { return; }
        int slot = (typeof(TSlots) == typeof(CommandScanner.HashSlots) ? HashSlot.Of(key) : Partitions.Of(key)).Number;
        if (!_owned[slot] || (slot != keys.Slot && keys.Slot != Owned))
        {
            keys.Failed = true;
            keys.Next = 0;
            return;
        }
        keys.Slot = slot;
        keys.Next = keys.Next + keys.Step <= keys.Last ? keys.Next + keys.Step : 0;
    }
}

/// <summary>How far the keys of one request have been looked at.</summary>
internal struct SlotCheck
{
    /// <summary>The place of the next key; 0: there is none.</summary>
    public long Next;
    public long Last;
    public int Step;
    public int Slot;
    public bool Failed;

    /// <summary>The command changes no data.</summary>
    public bool Reads;
}
