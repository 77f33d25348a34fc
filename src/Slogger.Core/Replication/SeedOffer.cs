// The sender's rules for a copy of its store: when one that was taken may be offered, whether one that was offered is of any use still, and
// when it has done its work. What the sender's log needs of the copy's offset is kept for as long (SeedTransfer).
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Replication;

/// <summary>What becomes of a copy that was taken.</summary>
public enum SeedVerdict : byte
{
    /// <summary>It is not known yet which version is its floor, or that is not durable.</summary>
    Waits,

    /// <summary>It can be offered.</summary>
    Offered,

    /// <summary>It is worthless.</summary>
    Void,
}

/// <summary>A copy that was taken, and is not offered yet.</summary>
/// <param name="Line">The world-line in which it was taken.</param>
/// <param name="History">The history of the log then.</param>
public readonly record struct SeedTaken(WorldLine Line, StreamHistory History)
{
    /// <summary>Looks at the log: a crash before the floor is durable could have the shard go on without what the copy holds.</summary>
    /// <param name="history">The log's history.</param>
    /// <param name="durable">Up to where the log is durable.</param>
    /// <param name="floor">The first version that ends at or behind the copy's offset; null: none has ended yet.</param>
    public SeedVerdict Look(StreamHistory history, in LogIndex durable, VersionNumber? floor) =>
        durable.WorldLine != Line || history != History ? SeedVerdict.Void
        : floor <= durable.Closed ? SeedVerdict.Offered
        : SeedVerdict.Waits;
}

/// <summary>Rules for a copy that is offered.</summary>
public static class SeedOffer
{
    /// <summary>Whether a log goes on from a copy: of another history it is worthless, and so it is if a later world-line keeps less than
    /// it holds.</summary>
    /// <param name="seed">The copy.</param>
    /// <param name="history">The log's history.</param>
    /// <param name="start">The first offset that the log still holds.</param>
    /// <param name="branches">The world-lines that have begun in it.</param>
    public static bool IsPartOf(Seed seed, StreamHistory history, long start, IEnumerable<LogBranch> branches) =>
        seed.History == history && seed.Base.Offset >= start
        && !branches.Any(b => b.Line > seed.Base.Line && b.Offset < seed.Base.Offset);

    /// <summary>Why what a receiver asks for is not sent; null: it is.</summary>
    /// <param name="ask">What it says.</param>
    /// <param name="seed">The copy that there is for it; null: none.</param>
    /// <param name="isPartOfLog">Whether the log goes on from that.</param>
    public static string? WhyNot(in SeedAsk ask, Seed? seed, bool isPartOfLog) =>
        seed is null || seed.Generation != ask.Generation ? NoCopy
        : !isPartOfLog ? "a world-line keeps less than the copy held, or the log has begun anew"
        : ask.Bad == seed.Id ? "the copy did not arrive as it was made: its file may be damaged"
        : null;

    /// <summary>A backup's first seeding, or one that somebody has asked for.</summary>
    public const string NoCopy = "there is no copy of the store for it yet";

    /// <summary>Whether the receiver's log goes on from the copy, or from a later one: it is not needed any more.</summary>
    /// <param name="seed">The copy.</param>
    /// <param name="state">What the shipper is doing.</param>
    /// <param name="generation">Which life of the stream it ships to.</param>
    /// <param name="backedUp">Up to where the backup has the log durable.</param>
    public static bool IsDone(Seed seed, ShipperState state, long generation, in LogIndex backedUp) =>
        state == ShipperState.Shipping && (generation > seed.Generation || (generation == seed.Generation && backedUp >= seed.Base));
}
