// Whether a primary's shard holds the operations of its clients, since its site hands over (SwitchOver), and from when on it is known that
// everything that was ever done there is durable. The switch-over goes on when each shard has said so.
//
// Order: SQL says that the site hands over; from then on no operation is let through; what was let through before is awaited; the version
// that is open then holds the last of it; when that one is durable, in its world-line, the shard says up to where it is.
//
// Why: the backup takes over at a version. An operation that was answered and is in a later one would be lost with the site that answered
// it. Operations may go on when a switch-over is called off, and be held again for the next one: what was awaited for one hold says nothing
// in another. A recovery leaves the world-line, and what was durable in it may be void.
//
// Contract with the caller: calls are serialised. While IsHeld no operation is let through; one that was, before the front end came to know
// of the hold, is awaited as well.
using Slogger.Core.Replication;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Sites;

/// <summary>The hold of one shard. Source: design, section 10.</summary>
public sealed class OperationHold
{
    private readonly ShipMutation _mutation;
    private volatile bool _isHeld;
    private long _hold;             // counted
    private long _number;           // of the switch-over
    private WorldPoint? _last;      // the version that was open when nothing was under way any more
    private WorldPoint? _held;

    /// <summary>Nothing is held.</summary>
    public OperationHold() : this(ShipMutation.None)
    {
    }

    internal OperationHold(ShipMutation mutation) => _mutation = mutation;

    /// <summary>Whether operations of clients are held. Any thread.</summary>
    public bool IsHeld => _isHeld;

    /// <summary>SQL was read: what it says now.</summary>
    /// <returns>Whether <see cref="IsHeld"/> has changed.</returns>
    public bool SiteIs(SiteState site)
    {
        _number = site.HandOver.Number;
        bool isHeld = site.Role == SiteRole.HandingOver;
        if (isHeld == _isHeld) { return false; }
        _hold++;
        (_last, _held, _isHeld) = (null, null, isHeld);
        return true;
    }

    /// <summary>The hold for a switch-over; null: nothing is held, or for another one.</summary>
    public long? Of(long number) => _isHeld && _number == number ? _hold : null;

    /// <summary>Up to where everything that was ever done is durable, if that was found out in this hold and in this world-line. If not:
    /// what was let through is to be awaited, and then <see cref="Quiet"/>.</summary>
    public WorldPoint? HeldAt(long number, WorldLine line) =>
        Of(number) is not null && _held is { } held && held.WorldLine == line ? held : null;

    /// <summary>What was let through before the hold has been answered, and its effects are in the version that is open now, or before
    /// it.</summary>
    /// <param name="hold">The hold, as it was when that began to be awaited.</param>
    /// <param name="open">The version that is open, in the world-line of the shard.</param>
    public void Quiet(long hold, WorldPoint open)
    {
        // In the same world-line nothing has been done since the first time.
        if (IsOf(hold) && _last?.WorldLine != open.WorldLine) { _last = open; }
    }

    /// <summary>Looks whether the last version is durable.</summary>
    /// <param name="hold">As for <see cref="Quiet"/>.</param>
    /// <param name="durable">What the shard has durable.</param>
    /// <returns>Up to where everything that was ever done is durable; null: not yet, or nothing is held any more.</returns>
    public WorldPoint? Look(long hold, WorldPoint durable)
    {
        if (!IsOf(hold) || _last is not { } last) { return null; }
        bool isDurable = durable.WorldLine == last.WorldLine && durable >= last;
        return isDurable || _mutation == ShipMutation.OpenVersionNotAwaited ? _held = durable : null;
    }

    private bool IsOf(long hold) => _isHeld && hold == _hold;
}
