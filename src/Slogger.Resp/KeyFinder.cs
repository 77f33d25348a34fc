// Where the keys of a request are, and whether they share a slot: what Redis Cluster checks before it runs a command. Where the
// keys stand Redis itself tells, in its reply to COMMAND (modules included); for those commands of which it says only that
// their keys move about, the rules are in KeyFinder.Movable. Made once per store, used for each command: no allocation then.
using System.Runtime.InteropServices;
using System.Text;
using Slogger.Core.Ownership;

namespace Slogger.Resp;

/// <summary>The keys of a request as places among its arguments (0 is the command's name): some at equal distances, and
/// perhaps one more.</summary>
/// <param name="First">The first of the keys at equal distances.</param>
/// <param name="Count">How many of those there are.</param>
/// <param name="Step">From one to the next.</param>
/// <param name="Extra">One more key; 0: none.</param>
public readonly record struct KeyPlaces(int First, int Count, int Step, int Extra = 0)
{
    /// <summary>How many keys in all.</summary>
    public int Total => Count + (Extra > 0 ? 1 : 0);

    /// <summary>The place of a key, from 0 to <see cref="Total"/> - 1.</summary>
    public int this[int index] => index < Count ? First + (index * Step) : Extra;
}

/// <summary>What a command has to do with the data, by what the store says of it.</summary>
public enum DataUse : byte
{
    /// <summary>It may change data, or nothing is known of it.</summary>
    Writes,

    /// <summary>It tells of data, and changes none.</summary>
    Reads,

    /// <summary>Neither: it is about its connection, or about messages.</summary>
    None,
}

/// <summary>Where a command's keys are, if two places and a step say it (0 is the command's name).</summary>
/// <param name="First">The first key; 0: it has none.</param>
/// <param name="Last">The last key; from the end of the arguments if negative, -1 being the last argument.</param>
/// <param name="Step">From one key to the next, at least 1.</param>
public readonly record struct KeyRange(int First, int Last, int Step);

/// <summary>Which slots a request's keys are in.</summary>
public enum SlotScope
{
    /// <summary>It has no key, or is none that Redis would run: any shard's store gives the right answer.</summary>
    NoKey,

    /// <summary>All of its keys are in one slot.</summary>
    OneSlot,

    /// <summary>Its keys are in several slots: -CROSSSLOT.</summary>
    SeveralSlots,

    /// <summary>The store's table has no such command, or does not say where its keys are. It may be an error, or a command
    /// of a module loaded since: read the table again, or ask the store (COMMAND GETKEYS).</summary>
    Unknown,
}

/// <summary>Finds the keys of requests. Immutable. Source: Redis 7.0, COMMAND and getKeysFromCommand in db.c.</summary>
public sealed partial class KeyFinder
{
    private readonly Dictionary<byte[], Spec> _commands;
    private readonly Dictionary<byte[], Spec>.AlternateLookup<ReadOnlySpan<byte>> _lookup;

    private KeyFinder(Dictionary<byte[], Spec> commands)
    {
        _commands = commands;
        _lookup = commands.GetAlternateLookup<ReadOnlySpan<byte>>();
    }

    /// <summary>How many commands the table has.</summary>
    public int Count => _commands.Count;

    /// <summary>The commands whose keys are at equal distances, whatever the other arguments.</summary>
    public IEnumerable<KeyValuePair<string, KeyRange>> Ranges => _commands
        .Where(c => c.Value is { Movable: Movable.No, Subcommands: null })
        .Select(c => KeyValuePair.Create(Encoding.Latin1.GetString(c.Key),
            c.Value.First == 0 || c.Value.Step <= 0 ? default : new KeyRange(c.Value.First, c.Value.Last, c.Value.Step)));

    /// <summary>The commands that change no data.</summary>
    public IEnumerable<string> Reads =>
        _commands.Where(static c => c.Value.Use == DataUse.Reads).Select(static c => Encoding.Latin1.GetString(c.Key));

    /// <summary>Whether a command changes no data.</summary>
    public bool IsRead(string name) => _commands.TryGetValue(Encoding.Latin1.GetBytes(name), out Spec? spec) && spec.Use == DataUse.Reads;

    /// <summary>Whether a command has one key, right behind its name.</summary>
    public bool HasOneKey(ReadOnlySpan<byte> name) =>
        _lookup.TryGetValue(name, out Spec? spec) && spec is { Movable: Movable.No, Subcommands: null, First: 1, Last: 1 };

    /// <summary>Whether there is a command of this name.</summary>
    public bool Knows(ReadOnlySpan<byte> name) => _lookup.ContainsKey(name);

    /// <summary>Reads the table from a reply of COMMAND, in RESP2 or RESP3.</summary>
    /// <exception cref="FormatException">That is no such reply.</exception>
    public static KeyFinder FromCommandReply(ReadOnlySpan<byte> reply)
    {
        try
        {
            int at = 0;
            return new(ReadSpecs(CommandReply.Read(reply, ref at)));
        }
        catch (Exception e) when (e is IndexOutOfRangeException or ArgumentOutOfRangeException or InvalidCastException or OverflowException
            or ArgumentNullException)
        {
            throw new FormatException("That is not what Redis replies to COMMAND.", e);
        }
    }

    /// <summary>Finds the keys of a request.</summary>
    /// <param name="request">Its bytes.</param>
    /// <param name="arguments">Where its arguments are in them, as <see cref="CommandScanner.ReadArguments"/> gives it.</param>
    /// <param name="keys">The places of its keys; none if Redis would refuse the request as wrongly formed.</param>
    /// <returns>False if that cannot be known; see <see cref="SlotScope.Unknown"/>.</returns>
    public bool TryFind(ReadOnlySpan<byte> request, ReadOnlySpan<(int Offset, int Length)> arguments, out KeyPlaces keys) =>
        TryFind(request, arguments, out keys, out _);

    /// <summary>Finds the keys of a request, and what it has to do with the data.</summary>
    /// <param name="request">As the other.</param>
    /// <param name="arguments">As the other.</param>
    /// <param name="keys">As the other.</param>
    /// <param name="use">What it does; of one that is not known, or that Redis would refuse, <see cref="DataUse.Writes"/>.</param>
    public bool TryFind(ReadOnlySpan<byte> request, ReadOnlySpan<(int Offset, int Length)> arguments, out KeyPlaces keys,
        out DataUse use)
    {
        keys = default;
        use = DataUse.Writes;
        if (arguments.IsEmpty) { return true; }
        var view = new ArgumentView(request, arguments);
        if (!_lookup.TryGetValue(view[0], out Spec? spec)) { return false; }
        if (spec.Subcommands is { } subcommands)
        {
            if (arguments.Length < 2 || !subcommands.GetAlternateLookup<ReadOnlySpan<byte>>().TryGetValue(view[1], out spec))
            {
                return true;
            }
        }
        use = spec.Use;
        if (spec.Arity >= 0 ? arguments.Length != spec.Arity : arguments.Length < -spec.Arity) { return true; }
        if (spec.Movable == Movable.No) { keys = FromRange(spec, arguments.Length); }
        else if (spec.Movable == Movable.Unknown) { return false; }
        else { keys = FromMovable(spec.Movable, view); }
        return true;
    }

    /// <summary>Finds the slot of a request's keys.</summary>
    /// <param name="request">Its bytes.</param>
    /// <param name="arguments">Where its arguments are in them, as <see cref="CommandScanner.ReadArguments"/> gives it.</param>
    /// <param name="partitions">Which slot a key is in.</param>
    /// <param name="slot">With <see cref="SlotScope.OneSlot"/> the slot; with SeveralSlots that of the first key.</param>
    public SlotScope FindSlot(ReadOnlySpan<byte> request, ReadOnlySpan<(int Offset, int Length)> arguments, Partitioning partitions,
        out HashSlot slot)
    {
        ArgumentNullException.ThrowIfNull(partitions);
        slot = default;
        if (!TryFind(request, arguments, out KeyPlaces keys)) { return SlotScope.Unknown; }
        if (keys.Total == 0) { return SlotScope.NoKey; }
        var view = new ArgumentView(request, arguments);
        slot = partitions.Of(view[keys[0]]);
        for (int i = 1; i < keys.Total; i++)
        {
            if (partitions.Of(view[keys[i]]) != slot) { return SlotScope.SeveralSlots; }
        }
        return SlotScope.OneSlot;
    }

    // As getKeysUsingLegacyRangeSpec: a key beyond the end means that there are too few arguments, and then there is none.
    private static KeyPlaces FromRange(Spec spec, int arguments)
    {
        if (spec.First == 0 || spec.Step <= 0) { return default; }
        int last = spec.Last < 0 ? arguments + spec.Last : spec.Last;
        if (last < spec.First) { return default; }
        int count = ((last - spec.First) / spec.Step) + 1;
        return spec.First + ((count - 1) * spec.Step) < arguments ? new(spec.First, count, spec.Step) : default;
    }

    private static Dictionary<byte[], Spec> ReadSpecs(object? reply)
    {
        var specs = new Dictionary<byte[], Spec>(NameComparer.Instance);
        foreach (object? entry in reply as List<object?> ?? throw new FormatException("There is no list of commands."))
        {
            if (entry is not List<object?> fields) { continue; }
            // A subcommand's name is "command|subcommand".
            string name = fields[0] as string ?? throw new FormatException("A command has no name.");
            name = name[(name.IndexOf('|', StringComparison.Ordinal) + 1)..];
            List<object?> flags = fields[2] as List<object?> ?? [];
            Movable movable = !flags.Contains("movablekeys") ? Movable.No
                : MovableCommands.TryGetValue(name.ToUpperInvariant(), out Movable known) ? known : Movable.Unknown;
            List<object?> subcommands = fields.Count > 9 ? fields[9] as List<object?> ?? [] : [];
            specs[Encoding.Latin1.GetBytes(name)] = new(
                Number(fields[1]), Number(fields[3]), Number(fields[4]), Number(fields[5]), movable,
                    subcommands.Count > 0 ? ReadSpecs(subcommands) : null, UseOf(name, flags, fields));
        }
        return specs;
    }

    private static readonly HashSet<string> OfNoData = new(["MULTI", "DISCARD", "WATCH", "UNWATCH", "TIME"],
        StringComparer.OrdinalIgnoreCase);

    // Scripts are flagged neither as writing nor as reading, and so are EXEC and whatever else is not said to read only.
    private static DataUse UseOf(string name, List<object?> flags, List<object?> fields)
    {
        if (flags.Contains("write")) { return DataUse.Writes; }
        if (flags.Contains("readonly")) { return DataUse.Reads; }
        bool isOfConnection = fields.Count > 6 && fields[6] is List<object?> categories
            && (categories.Contains("@connection") || categories.Contains("@pubsub"));
        return isOfConnection || OfNoData.Contains(name) ? DataUse.None : DataUse.Writes;
    }

    private static int Number(object? text) => int.Parse((string)text!, System.Globalization.CultureInfo.InvariantCulture);

    private sealed record Spec(int Arity, int First, int Last, int Step, Movable Movable, Dictionary<byte[], Spec>? Subcommands,
        DataUse Use);

    /// <summary>The arguments of a request.</summary>
    private readonly ref struct ArgumentView(ReadOnlySpan<byte> request, ReadOnlySpan<(int Offset, int Length)> arguments)
    {
        private readonly ReadOnlySpan<byte> _request = request;
        private readonly ReadOnlySpan<(int Offset, int Length)> _arguments = arguments;

        public int Count => _arguments.Length;

        public ReadOnlySpan<byte> this[int index] => _request.Slice(_arguments[index].Offset, _arguments[index].Length);

        // As Redis compares: as C strings, that is up to a zero byte.
        public bool Is(int index, ReadOnlySpan<byte> word)
        {
            ReadOnlySpan<byte> argument = this[index];
            int zero = argument.IndexOf((byte)0);
            return Ascii.EqualsIgnoreCase(zero < 0 ? argument : argument[..zero], word);
        }
    }

    /// <summary>Names without regard to case.</summary>
    private sealed class NameComparer : IEqualityComparer<byte[]>, IAlternateEqualityComparer<ReadOnlySpan<byte>, byte[]>
    {
        public static readonly NameComparer Instance = new();

        public bool Equals(byte[]? x, byte[]? y) => Ascii.EqualsIgnoreCase(x, y);

        public bool Equals(ReadOnlySpan<byte> alternate, byte[] other) => Ascii.EqualsIgnoreCase(alternate, other);

        public int GetHashCode(byte[] name) => GetHashCode(name.AsSpan());

        // Bit 5 is the case of a letter.
        public int GetHashCode(ReadOnlySpan<byte> name)
        {
            ulong hash = (ulong)name.Length;
            while (name.Length >= 8)
            {
                hash = ((hash << 5) | (hash >> 59)) ^ (MemoryMarshal.Read<ulong>(name) & 0xDFDFDFDFDFDFDFDFUL);
                hash *= 0x9E3779B97F4A7C15UL;
                name = name[8..];
            }
            foreach (byte b in name) { hash = (hash ^ (ulong)(b & 0xDF)) * 0x9E3779B97F4A7C15UL; }
            return (int)(hash >> 32);
        }

        public byte[] Create(ReadOnlySpan<byte> alternate) => alternate.ToArray();
    }
}
