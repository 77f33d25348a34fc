// Which slots a client has to do with, in a cluster of several shards: what is not for this one is answered as a node of Redis Cluster
// answers it, in its words and at its place. Only requests that the scan does not pass come here; a shard alone has none of it.
//
// Slots move while a client uses them. What comes for a slot that is withheld waits, and then goes on here or is sent on; what
// was forwarded before is answered before the slot is given away. A blocked command is ended (Redis Cluster sends its client on,
// too); a transaction whose WATCH saw a slot that is not here any more does not run.
using System.Runtime.InteropServices;
using System.Text;
using Slogger.Core.Ownership;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>The slots that one client uses. The loop's thread.</summary>
internal sealed class ClientSlots(FrontEndLoop loop, Client client)
{
    // Where what blocks waits: its last one's slot.
    private HashSlot _blocking;
    private List<HashSlot>? _watched;
    private List<HashSlot>? _channels;
    private bool _isWatchBroken;

    /// <summary>What is said of keys that are not.</summary>
    public string CrossSlot => Encoding.ASCII.GetString(loop.Slots!.Replies.CrossSlot[1..^2]);

    /// <summary>Whether this shard serves the keys of the request at the head of the input, whose arguments have been read.</summary>
    /// <returns><c>null</c>: it does. Else the request has been answered, or is about to be: what the caller then returns.</returns>
    public bool? IsServed(CommandKind kind)
    {
        ShardSlots slots = loop.Slots!;
        switch (slots.Keys.FindSlot(client.Request, CollectionsMarshal.AsSpan(loop.Arguments), slots.Partitions, out HashSlot slot))
        {
            case SlotScope.NoKey:
                return null;
            case SlotScope.SeveralSlots:
                return client.RefuseCommand(CrossSlot);
            case SlotScope.Unknown when kind != CommandKind.Ordinary && !slots.Keys.Knows(client.Argument(0)):
                // Of the proxy's own, or of a store that does not have it.
                return null;
            case SlotScope.Unknown when slots.Keys.Knows(client.Argument(0)):
                string name = Encoding.Latin1.GetString(client.Argument(0));
                return client.RefuseCommand(
                    $"ERR SLOGGER it is not known where '{name}' has its keys: it cannot be used in a cluster of several shards");
            case SlotScope.Unknown:
                return client.RefuseCommand(SettingCommands.UnknownCommandError(client));
        }
        if (slots.IsWithheld(slot))
        {
            client.Wait(Waiting.Slot);
            return false;
        }
        if (!slots.Table.Owns(slot)) { return client.RefuseCommand(slots.Redirection(slot)); }
        if (kind != CommandKind.Watch) { NoteQueued(slot); }
        NoteServed(kind, slot);
        return null;
    }

    /// <summary>Whether this shard serves these keys. The same as of a request's.</summary>
    public bool? IsServed(IReadOnlyList<byte[]> keys)
    {
        ShardSlots slots = loop.Slots!;
        if (!AreOfOneSlot(keys)) { return client.RefuseCommand(CrossSlot); }
        HashSlot slot = slots.Partitions.Of(keys[0]);
        if (slots.IsWithheld(slot))
        {
            client.Wait(Waiting.Slot);
            return false;
        }
        return slots.Table.Owns(slot) ? null : client.RefuseCommand(slots.Redirection(slot));
    }

    /// <summary>Whether these keys are all of one slot.</summary>
    public bool AreOfOneSlot(IReadOnlyList<byte[]> keys)
    {
        if (keys.Count == 0) { return true; }
        Partitioning partitions = loop.Slots!.Partitions;
        return keys.All(k => partitions.Of(k) == partitions.Of(keys[0]));
    }

    /// <summary>Answers a special request that is to be treated differently among several shards.</summary>
    /// <returns><c>null</c>: it is not. Else what the caller then returns.</returns>
    public bool? Handle(CommandKind kind)
    {
        if (IsServed(kind) is { } done) { return done; }
        if (ClusterCommands.Refusal(client, kind) is { } why) { return client.RefuseCommand(why); }
        switch (kind)
        {
            case CommandKind.Exec when (client.Pins & Pins.Multi) != 0 && client.ArgumentCount == 1:
                if (client.Transaction.Slot >= 0 && loop.Slots!.IsWithheld(new HashSlot(client.Transaction.Slot)))
                {
                    client.Wait(Waiting.Slot);
                    return false;
                }
                if (_isWatchBroken && client.Transaction.Slot != Transaction.SeveralSlots)
                {
                    return client.DiscardInstead(Client.NoReplyToExec);
                }
                string? misplaced = client.Transaction.Slot switch
                {
                    SlotTable.None => null,
                    Transaction.SeveralSlots => CrossSlot,
                    int slot => loop.Slots!.Table.Owns(new HashSlot(slot)) ? null : loop.Slots.Redirection(new HashSlot(slot)),
                };
                return misplaced is null ? null : client.DiscardInstead(misplaced);
            default:
                return null;
        }
    }

    /// <summary>A request with a key is about to be forwarded: in a transaction it is queued.</summary>
    public void NoteQueued(HashSlot slot)
    {
        if ((client.Pins & Pins.Multi) == 0) { return; }
        client.Transaction.Queue(slot);
    }

    // This shard serves the slot of a request that is looked at, and forwarded next.
    private void NoteServed(CommandKind kind, HashSlot slot)
    {
        switch (kind)
        {
            case CommandKind.Blocking or CommandKind.BlockingStream:
                _blocking = slot;
                break;
            case CommandKind.Watch:
                if ((client.Pins & Pins.Watch) == 0)
                {
                    _watched?.Clear();
                    _isWatchBroken = false;
                }
                _watched ??= [];
                if (!_watched.Contains(slot)) { _watched.Add(slot); }
                break;
            case CommandKind.Subscribe:
                _channels ??= [];
                if (!_channels.Contains(slot)) { _channels.Add(slot); }
                break;
        }
    }

    /// <summary>The slot of what blocks is this shard's.</summary>
    public bool ServesWhatBlocks(ShardSlots slots) => slots.Table.Owns(_blocking);

    /// <summary>The reply to a blocked command that the proxy ended: its client is sent to whoever the slot's owner is, which may still be
    /// this shard, and asks again.</summary>
    public ReadOnlySpan<byte> AnswerOfUnblocked(ReadOnlySpan<byte> reply) => loop.Slots is { } slots && !ServesWhatBlocks(slots)
        ? Encoding.Latin1.GetBytes($"-{slots.Redirection(_blocking)}\r\n") : reply;

    /// <summary>Other slots are served than before.</summary>
    public void OnChanged(ShardSlots slots)
    {
        if (_watched is not null && (client.Pins & Pins.Watch) != 0) { _isWatchBroken |= _watched.Exists(s => !slots.Table.Owns(s)); }
        if (_channels is not null && client.Dedicated is { ShardChannels: > 0 }
            && _channels.Exists(s => !slots.Table.Owns(s) && !slots.IsWithheld(s)))
        {
            // It subscribes anew, where the channels are now.
            client.CloseWhenSent();
        }
    }
}
