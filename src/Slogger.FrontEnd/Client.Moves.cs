// Slots that move while a client uses them. What comes for a slot that is withheld waits, and then goes on here or is sent on; what
// was forwarded before is answered before the slot is given away. A blocked command is ended (Redis Cluster sends its client on,
// too); a transaction whose WATCH saw a slot that is not here any more does not run.
using System.Text;
using Slogger.Core.Ownership;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    // In the place of an error: a transaction that did not run.
    private const string NoReplyToExec = "";

    // Where what blocks waits: its last one's slot.
    private HashSlot _blockingSlot;
    private List<HashSlot>? _watchedSlots;
    private List<HashSlot>? _shardChannels;
    private bool _isWatchBroken;

    private ReadOnlySpan<byte> NilReply => Protocol == 3 ? "_\r\n"u8 : "*-1\r\n"u8;

    // This shard serves the slot of a request that is looked at, and forwarded next.
    private void NoteServed(CommandKind kind, HashSlot slot)
    {
        switch (kind)
        {
            case CommandKind.Blocking or CommandKind.BlockingStream:
                _blockingSlot = slot;
                break;
            case CommandKind.Watch:
                if ((_pins & Pins.Watch) == 0)
                {
                    _watchedSlots?.Clear();
                    _isWatchBroken = false;
                }
                _watchedSlots ??= [];
                if (!_watchedSlots.Contains(slot)) { _watchedSlots.Add(slot); }
                break;
            case CommandKind.Subscribe:
                _shardChannels ??= [];
                if (!_shardChannels.Contains(slot)) { _shardChannels.Add(slot); }
                break;
        }
    }

    // The proxy ended it: its client is sent to whoever the slot's owner is, which may still be this shard, and asks again.
    public ReadOnlySpan<byte> AnswerOfUnblocked(ReadOnlySpan<byte> reply) =>
        _loop.Slots is { } slots && !slots.Table.Owns(_blockingSlot) ? Encoding.Latin1.GetBytes($"-{slots.Redirection(_blockingSlot)}\r\n")
            : reply;

    /// <summary>Other slots are served than before.</summary>
    public void OnSlotsChanged(ShardSlots slots)
    {
        if (_watchedSlots is not null && (_pins & Pins.Watch) != 0) { _isWatchBroken |= _watchedSlots.Exists(s => !slots.Table.Owns(s)); }
        if (_shardChannels is not null && Dedicated is { ShardChannels: > 0 }
            && _shardChannels.Exists(s => !slots.Table.Owns(s) && !slots.IsWithheld(s)))
        {
            // It subscribes anew, where the channels are now.
            CloseWhenSent();
        }
    }

    /// <summary>A slot's owner is known, or it is served again.</summary>
    public void OnSlotKnown()
    {
        if (!IsClosed && _waiting == Waiting.Slot) { EndWait(); }
    }

    /// <summary>Whether something of this client's may be under way at the store that touches a slot which is not served any more,
    /// or that will be followed by such.</summary>
    /// <param name="slots">The slots; null: there is one shard.</param>
    /// <param name="mustEnd">It blocks, and has to be ended.</param>
    public bool HoldsUp(ShardSlots? slots, out bool mustEnd)
    {
        mustEnd = false;
        if (Dedicated is not { InFlight: > 0 } dedicated) { return false; }
        if (dedicated.BlockingInFlight == 0) { return true; }
        // What was sent behind something that blocks has been looked at already, and may be for any slot.
        mustEnd = dedicated.InFlight > 1 || (slots is not null && !slots.Table.Owns(_blockingSlot));
        return mustEnd;
    }
}
