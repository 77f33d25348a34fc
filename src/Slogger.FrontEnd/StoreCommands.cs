// What Redis's COMMAND tells: which commands there are that the table of CommandKinds does not know and that must not run on
// a connection that others share, and which of the table's were given other names. (COMMAND lists a renamed command by its
// own name; COMMAND INFO, which looks it up, then finds nothing. What its new name is nobody is told.)
using System.Globalization;
using System.Text;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>What a reply of COMMAND tells, and what is read of one of COMMAND INFO. Immutable.</summary>
internal sealed class StoreCommands
{
    private const int SubcommandsAt = 9;

    // Asked for again with each new connection, it is 200 kB of mostly the same, and takes milliseconds to read: a shard that recovers or
    // takes over would wait for that.
    private static volatile StoreCommands? s_last;
    private readonly byte[] _reply;
    private volatile KeyFinder? _keys;

    private StoreCommands(byte[] reply) => (_reply, ByName) = (reply, Parse(reply));

    /// <summary>Nothing has been told.</summary>
    public static StoreCommands None { get; } = new("*0\r\n"u8.ToArray());

    /// <summary>The commands: names in capitals, and flags.</summary>
    public IReadOnlyDictionary<string, HashSet<string>> ByName { get; }

    /// <summary>Where they have their keys.</summary>
    /// <exception cref="FormatException">The reply does not say so.</exception>
    public KeyFinder Keys => _keys ??= KeyFinder.FromCommandReply(_reply);

    /// <summary>Those of a reply. Any thread.</summary>
    public static StoreCommands Of(ReadOnlySpan<byte> reply) => s_last is { } last && reply.SequenceEqual(last._reply) ? last
        : s_last = new(reply.ToArray());

    private static Dictionary<string, HashSet<string>> Parse(ReadOnlySpan<byte> reply)
    {
        var found = new Dictionary<string, HashSet<string>>();
        foreach (List<object?> command in Entries(reply).OfType<List<object?>>())
        {
            if (command is not [string name, _, List<object?> flags, ..]) { continue; }
            // What one of its subcommands does it does.
            IEnumerable<object?> ofSubcommands = command.Count > SubcommandsAt && command[SubcommandsAt] is List<object?> subcommands
                ? subcommands.OfType<List<object?>>()
                .SelectMany(s => s is [_, _, List<object?> own, ..] ? own.Where(f => f is "write" or "may_replicate") : []) : [];
            found[name.ToUpperInvariant()] = [.. flags.Concat(ofSubcommands).OfType<string>()];
        }
        return found;
    }

    /// <summary>Commands that the table does not know, with how they are to be treated.</summary>
    public List<KeyValuePair<string, CommandKind>> Unknown()
    {
        // A module's command may block its client without saying so.
        var unknown = new List<KeyValuePair<string, CommandKind>>();
        foreach ((string name, HashSet<string> flags) in ByName)
        {
            bool blocks = flags.Contains("blocking");
            if ((blocks || flags.Contains("module")) && name.All(char.IsAscii) && !CommandKinds.IsKnown(name))
            {
                unknown.Add(KeyValuePair.Create(name, blocks ? CommandKind.Blocking : CommandKind.Dedicated));
            }
        }
        return unknown;
    }

    /// <summary>Of the names that COMMAND INFO was asked for, those which Redis has under another name.</summary>
    public List<string> Renamed(IEnumerable<string> asked, ReadOnlySpan<byte> reply) =>
        [.. asked.Zip(Entries(reply)).Where(row => row.Second is not List<object?> { Count: > 0 } && ByName.ContainsKey(row.First))
            .Select(row => row.First)];

    private static List<object?> Entries(ReadOnlySpan<byte> reply)
    {
        int at = 0;
        return Read(reply, ref at) as List<object?> ?? [];
    }

    private static object? Read(ReadOnlySpan<byte> bytes, ref int at)
    {
        char kind = (char)bytes[at];
        int end = at + bytes[at..].IndexOf((byte)'\n') + 1;
        string line = Encoding.Latin1.GetString(bytes[(at + 1)..(end - 2)]);
        at = end;
        if ("+-:_,#(".Contains(kind, StringComparison.Ordinal)) { return line; }
        int count = int.Parse(line, CultureInfo.InvariantCulture);
        if (count < 0) { return null; }
        if (kind is '$' or '=' or '!')
        {
            at += count + 2;
            return Encoding.Latin1.GetString(bytes.Slice(at - count - 2, count));
        }
        if (kind == '%') { count *= 2; }
        var items = new List<object?>(count);
        for (; count > 0; count--) { items.Add(Read(bytes, ref at)); }
        return items;
    }
}
