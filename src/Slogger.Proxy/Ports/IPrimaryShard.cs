using Slogger.Core.Identities;
using Slogger.Core.WorldLines;

namespace Slogger.Proxy.Ports;

/// <summary>What the control of two sites asks of a primary's shard. Any thread.</summary>
internal interface IPrimaryShard
{
    /// <summary>Which it is.</summary>
    ShardId Shard { get; }

    /// <summary>Under which epoch its site rules.</summary>
    SiteEpoch SiteEpoch { get; }

    /// <summary>The recorded cut, as it knows it.</summary>
    WorldPoint RecordedCut { get; }

    /// <summary>The backup's watermark, as it was told; the beginning of history if it does not ship.</summary>
    WorldPoint Watermark { get; }

    /// <summary>Completes when it first serves as a primary's shard.</summary>
    Task Serving { get; }

    /// <summary>What its shipper is doing, for people.</summary>
    string ShippingState { get; }

    /// <summary>Somebody manages a switch-over: looks now whether SQL says that clients' operations are to be held, or not any more, and
    /// does so.</summary>
    /// <param name="number">The switch-over.</param>
    /// <param name="stop">Ends waiting, not the holding.</param>
    /// <returns>All operations are held, none is under way, and everything that was ever done is in durable versions up to this point.
    /// Null: not yet, or they are not held; ask again.</returns>
    Task<WorldPoint?> HoldAllAsync(long number, CancellationToken stop);

    /// <summary>Ships again to a backup that was given up: that is then seeded anew.</summary>
    /// <returns>Whether it ships now.</returns>
    bool Attach();
}
