// What the proxy has to know of a client's transaction, from MULTI to EXEC or DISCARD. Redis queues it and runs it. Whether one is open
// Pins.Multi says.
using Slogger.Core.Ownership;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>A client's transaction.</summary>
internal struct Transaction
{
    /// <summary>A <see cref="Slot"/>: its keys are in several, so it cannot run.</summary>
    public const int SeveralSlots = SlotTable.Owned;

    private int _unanswered;
    private bool _watchedBefore;

    /// <summary>The slot of the keys in its queue; <see cref="SlotTable.None"/> before it has a key.</summary>
    public int Slot { get; private set; }

    /// <summary>Whether it changes database, protocol or user of its connection when it runs: they are asked for behind it.</summary>
    public bool TouchesView { get; private set; }

    /// <summary>Whether it changes who may do what.</summary>
    public bool TouchesRights { get; private set; }

    /// <summary>The longest CLIENT PAUSE in its queue, in milliseconds; 0: none.</summary>
    public long PauseMilliseconds { get; private set; }

    /// <summary>Whether a MULTI is on its way. Redis may refuse it, for want of a right or a password.</summary>
    public readonly bool MayBeRefused => _unanswered > 0;

    /// <summary>A MULTI is sent.</summary>
    /// <param name="watches">Whether the client watches keys.</param>
    public void Begin(bool watches)
    {
        Slot = SlotTable.None;
        _unanswered++;
        _watchedBefore = watches;
    }

    /// <summary>A MULTI was answered.</summary>
    /// <param name="failed">With an error.</param>
    /// <param name="watches">If none is open: whether the client watches keys all the same. An EXEC without a transaction leaves what is
    /// watched.</param>
    /// <returns>Whether none is open. Of several MULTIs on their way the last one tells.</returns>
    public bool WasRefused(bool failed, out bool watches)
    {
        watches = _watchedBefore;
        return --_unanswered <= 0 && failed;
    }

    /// <summary>A request with keys is queued.</summary>
    public void Queue(HashSlot slot) => Slot = Slot == SlotTable.None || Slot == slot.Number ? slot.Number : SeveralSlots;

    /// <summary>A request is queued that changes the view.</summary>
    /// <param name="rights">Whether it changes rights.</param>
    public void QueueChange(bool rights)
    {
        TouchesView = true;
        TouchesRights |= rights;
    }

    /// <summary>A CLIENT PAUSE was queued.</summary>
    public void QueuePause(long milliseconds) => PauseMilliseconds = Math.Max(PauseMilliseconds, milliseconds);

    /// <summary>EXEC or DISCARD is sent. What it does to rights is seen to when it has been answered: <see cref="TakeRights"/>.</summary>
    /// <param name="runs">Whether it runs.</param>
    public void End(bool runs)
    {
        TouchesView = false;
        TouchesRights &= runs;
        PauseMilliseconds = 0;
    }

    /// <summary>It has run: whether it has changed rights.</summary>
    public bool TakeRights()
    {
        bool touches = TouchesRights;
        TouchesRights = false;
        return touches;
    }

    /// <summary>The connection with it has gone: no MULTI is answered any more.</summary>
    public void ConnectionLost() => _unanswered = 0;
}
