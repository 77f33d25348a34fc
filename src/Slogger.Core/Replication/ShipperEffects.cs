// What a shipper has its driver do, in the order in which it stands.
using Slogger.Core.Identities;

namespace Slogger.Core.Replication;

/// <summary>One effect.</summary>
public abstract record ShipperEffect
{
    private ShipperEffect()
    {
    }

    /// <summary>Send it. To a piece that is no heartbeat and no branch the driver adds the bytes of the stream from its beginning to its
    /// end, and the ends of the versions after its beginning's up to its end's. If the log no longer has them as they were (a world-line
    /// has begun meanwhile), it sends nothing: the machine hears of that, and of the loss.</summary>
    public sealed record Send(ShipRequest Request) : ShipperEffect;

    /// <summary>The backup has no use for this log any more: it has to be seeded. Tell the receiver (<see cref="ShipRequest.WantsSeed"/>).
    /// Said again until it is.</summary>
    /// <param name="Generation">The life of the stream that is over (<see cref="Slogger.Core.Sites.SiteState.Reseed"/>).</param>
    /// <param name="Why">For a person.</param>
    public sealed record Seed(long Generation, string Why) : ShipperEffect;

    /// <summary>The backup is being seeded: send what it asks for (<see cref="SeedFlow"/>), or have a copy made.</summary>
    public sealed record Copy(SeedAsk Ask) : ShipperEffect;

    /// <summary>Hold writes of clients from now on, or let them go on.</summary>
    public sealed record HoldWrites(bool IsHeld) : ShipperEffect;

    /// <summary>The log that is kept for the backup has come near its budget, or is at it: somebody has to be told.</summary>
    /// <param name="KeptBytes">How much it is.</param>
    public sealed record Warn(long KeptBytes) : ShipperEffect;

    /// <summary>The backup was given up: nothing is kept for it any more.</summary>
    public sealed record Detached : ShipperEffect;

    /// <summary>A later process owns the shard: end.</summary>
    public sealed record ShardTaken(Sender By) : ShipperEffect;

    /// <summary>Another site is the primary now: note that in the site's SQL, and end. Nothing may be served or committed here any
    /// more.</summary>
    public sealed record SiteDeposed(Sender By) : ShipperEffect;
}
