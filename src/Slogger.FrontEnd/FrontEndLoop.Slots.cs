// Which of the keys are this shard's, in a cluster of several; a shard alone has no slots, and pays nothing for them.
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Resp;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class FrontEndLoop
{
    /// <summary>The slots; <c>null</c> for a shard alone.</summary>
    public ShardSlots? Slots { get; private set; }

    /// <summary>Takes what the metadata says. The loop's thread, first before the store is opened.</summary>
    /// <param name="view">The slots and the shards.</param>
    /// <param name="commands">The store's, where none have been given before.</param>
    public void UseSlots(ClusterSlots view, StoreCommands commands)
    {
        Slots = Slots?.WithView(view) ?? ShardSlots.Of(view, commands, Cohort is not null);
        Replies.OnSlotsChanged();
        OnSlotsChanged();
    }

    /// <summary>The store has other commands now.</summary>
    public void UseCommands(StoreCommands commands)
    {
        Slots = Slots?.WithCommands(commands);
        Replies.UseCommands(commands);
    }
}

/// <summary>Which slots are served here, and where the others are. Immutable.</summary>
/// <param name="Partitions">Which slot a key is in. Never changes.</param>
/// <param name="Served">Decides about each command.</param>
/// <param name="Replies">What clients are told.</param>
internal sealed record ClusterSlots(Partitioning Partitions, ServedSlots Served, ClusterReplies Replies);

/// <summary>What the front end knows of slots: the metadata's part, and where the store's commands have their keys. Immutable.</summary>
internal sealed class ShardSlots
{
    private readonly ClusterSlots _view;
    private readonly StoreCommands _commands;
    private readonly bool _inCohort;

    private ShardSlots(ClusterSlots view, StoreCommands commands, SlotTable table, bool inCohort)
    {
        _inCohort = inCohort;
        _view = view;
        _commands = commands;
        Table = table;
    }

    /// <summary>Finds the keys of any request.</summary>
    public KeyFinder Keys => _commands.Keys;

    /// <summary>For scans.</summary>
    public SlotTable Table { get; }

    /// <summary>Which slot a key is in.</summary>
    public Partitioning Partitions => _view.Partitions;

    /// <summary>What clients are told.</summary>
    public ClusterReplies Replies => _view.Replies;

    /// <summary>Puts both parts together.</summary>
    /// <param name="view">The metadata's.</param>
    /// <param name="commands">The store's.</param>
    /// <param name="inCohort">Whether this is a cohort's node.</param>
    public static ShardSlots Of(ClusterSlots view, StoreCommands commands, bool inCohort = false)
    {
        List<KeyValuePair<string, CommandKind>> unknown = commands.Unknown();
        // As many are not told apart; then nobody shares.
        if (unknown.Count > CommandCatalog.UnknownMax) { unknown.Clear(); }
        return new(view, commands,
            SlotTable.Of(CommandKinds.AmongShards(unknown, inCohort), commands.Keys, (byte)CommandKind.Impossible,
                (byte)CommandKind.OwnSpelled, view.Partitions, Owned(view)), inCohort);
    }

    /// <summary>The store has other commands now.</summary>
    public ShardSlots WithCommands(StoreCommands commands) => commands == _commands ? this : Of(_view, commands, _inCohort);

    /// <summary>The metadata says something new.</summary>
    public ShardSlots WithView(ClusterSlots view) => new(view, _commands, Table.With(Owned(view)), _inCohort);

    /// <summary>The error with which a client is sent to a slot's owner, without line end.</summary>
    public string Redirection(HashSlot slot)
    {
        Span<byte> bytes = stackalloc byte[ClusterReplies.RedirectionBytesMax];
        int length = Replies.WriteMoved(bytes, slot, _view.Served.Ask(slot).Owner);
        return System.Text.Encoding.Latin1.GetString(bytes[1..(length - 2)]);
    }

    /// <summary>Whether requests for a slot wait.</summary>
    public bool IsWithheld(HashSlot slot) => _view.Served.Ask(slot).Verdict == SlotVerdict.Wait;

    private static bool[] Owned(ClusterSlots view) =>
        [.. Enumerable.Range(0, view.Partitions.Count).Select(slot => view.Served.Serves(new HashSlot(slot)))];
}
