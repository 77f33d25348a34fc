// One command of the table: what Redis's COMMAND says of it, and what executes it.
namespace Slogger.Faster.Commands;

/// <summary>What Redis's flags do not say.</summary>
[Flags]
internal enum CommandTraits
{
    None = 0,

    /// <summary>Executed within MULTI too, not queued.</summary>
    Immediate = 1,

    /// <summary>Looks at keys that its arguments do not name: in a transaction no key may change meanwhile.</summary>
    Whole = 2,

    /// <summary>No key may change meanwhile, in a transaction or not.</summary>
    Alone = 4,

    /// <summary>Only for the store's owner; others do not know it.</summary>
    Owner = 8,

    /// <summary>Also for a connection of RESP2 that is subscribed.</summary>
    Subscriber = 16,

    /// <summary>What COMMAND calls its keys are channels: only clusters look at them.</summary>
    Channels = 32,
}

/// <summary>Which locks a command needs.</summary>
internal enum CommandLocks
{
    None,
    One,
    Several,

    /// <summary>None, but what is seen must be of one timeline.</summary>
    Whole,

    All,
}

/// <summary>A command.</summary>
/// <param name="Name">Its name in small letters; a subcommand's with its container's, as in client|id.</param>
/// <param name="Arity">How many arguments it takes, its name included; negative: at least as many.</param>
/// <param name="Flags">Redis's flags.</param>
/// <param name="FirstKey">Where its first key is; 0: it has none.</param>
/// <param name="LastKey">Where the last is; negative: counted from the end.</param>
/// <param name="KeyStep">How far one key is from the next.</param>
/// <param name="Categories">Redis's categories of rights.</param>
/// <param name="Execute">Executes it; null: it has subcommands only.</param>
internal sealed record Command(
    string Name, int Arity, string Flags, int FirstKey, int LastKey, int KeyStep, string Categories, Action<CommandHandlers>? Execute)
{
    public CommandTraits Traits { get; init; }

    public Command[] Subcommands { get; init; } = [];

    public bool IsWrite { get; } = Has(Flags, "write");

    /// <summary>Not executed at the limit of memory.</summary>
    public bool NeedsMemory { get; } = Has(Flags, "denyoom");

    public bool IsImmediate => (Traits & CommandTraits.Immediate) != 0;

    public bool IsForSubscribers => (Traits & CommandTraits.Subscriber) != 0;

    // One key that is only read is read in one look.
    public CommandLocks Locks { get; private init; } =
        FirstKey == 0 ? CommandLocks.None
        : FirstKey != LastKey ? CommandLocks.Several
        : Has(Flags, "write") ? CommandLocks.One : CommandLocks.None;

    public bool Takes(int arguments) => Arity < 0 ? arguments >= -Arity : arguments == Arity;

    /// <summary>How many keys it names with so many arguments.</summary>
    public int KeyCountOf(int arguments) => FirstKey == 0 ? 0 : Math.Max(0, (LastKeyOf(arguments) - FirstKey) / KeyStep) + 1;

    /// <summary>How many keys; or of a command without keys how many arguments, each of which it may look at on its own: channels,
    /// patterns, names.</summary>
    public int NamesOf(int arguments) => FirstKey == 0 ? arguments - 1 : KeyCountOf(arguments);

    /// <summary>Where the last key is among so many arguments.</summary>
    public int LastKeyOf(int arguments) => LastKey < 0 ? arguments + LastKey : LastKey;

    public Command With(CommandTraits traits) => this with { Traits = traits, Locks = LocksWith(traits) };

    private CommandLocks LocksWith(CommandTraits traits) => (traits & CommandTraits.Alone) != 0 ? CommandLocks.All
        : (traits & CommandTraits.Whole) != 0 ? CommandLocks.Whole
        : (traits & CommandTraits.Channels) != 0 ? CommandLocks.None : Locks;

    private static bool Has(string flags, string flag) => flags.Split(' ').Contains(flag);
}
