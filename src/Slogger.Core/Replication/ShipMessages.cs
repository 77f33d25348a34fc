// What shipper and receiver say to each other, without the bytes: a driver adds to a Piece what it names (bytes of the stream, ends of
// versions), and hands the machine the rest. Any of them may be lost, doubled, late, or overtake another.
using Slogger.Core.Identities;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Replication;

/// <summary>From a shipper.</summary>
/// <param name="Stream">The primary's shard.</param>
/// <param name="Sender">Who ships.</param>
public abstract record ShipRequest(ShardId Stream, Sender Sender)
{
    /// <summary>A shipper introduces itself: first of all on each connection, and again until it is answered.</summary>
    /// <param name="Stream">The primary's shard.</param>
    /// <param name="Sender">Who ships.</param>
    /// <param name="History">The history of its log.</param>
    public sealed record Hello(ShardId Stream, Sender Sender, StreamHistory History) : ShipRequest(Stream, Sender);

    /// <summary>A piece of the log, or none (a heartbeat).</summary>
    /// <param name="Stream">The primary's shard.</param>
    /// <param name="Sender">Who ships.</param>
    /// <param name="From">Where it begins: what was sent before ends there.</param>
    /// <param name="To">Where it ends. In a later line than its beginning: that begins there, and nothing else is in the piece.</param>
    /// <param name="Durable">Up to here the primary itself has its log durable; of a cohort, up to here a majority has. What lies beyond is
    /// not to be relied upon yet: a crash may have the shard go on otherwise.</param>
    /// <param name="Cut">The newest cut that is recorded in the primary's SQL. Not what the shard has durable: a recovery may go back
    /// behind that.</param>
    /// <param name="SentUs">When, by the shipper's monotonic clock. Microseconds.</param>
    public sealed record Piece(ShardId Stream, Sender Sender, LogIndex From, LogIndex To, LogIndex Durable, WorldPoint Cut, long SentUs)
        : ShipRequest(Stream, Sender)
    {
        /// <summary>It holds nothing of the log.</summary>
        public bool IsHeartbeat => From == To;

        /// <summary>To a follower that learns: it has all that was committed, and votes from now on.</summary>
        public bool Admits { get; init; }

        /// <summary>To a follower: when the newest of its replies was sent (<see cref="ShipReply.SentUs"/>) that the leader had heard
        /// before it looked at what is committed; 0: it cannot say (<see cref="Slogger.Core.Cohorts.ReadAge"/>).</summary>
        public long HeardUs { get; init; }

        /// <summary>A piece of a window (<see cref="LogWindows"/>), which is taken whole or not at all. Offsets inside are those of what is
        /// left of it, counted from where it begins; the last piece ends where the window does. Only to a receiver that takes them
        /// (<see cref="ShipReply.TakesWindows"/>). Null: the log as it is.</summary>
        public ShipWindow? Window { get; init; }

        /// <summary>How many bytes it brings.</summary>
        public long DataBytes => IsBranch ? 0
            : (Window is { } window && To == window.To ? window.From.Offset + window.Bytes : To.Offset) - From.Offset;

        /// <summary>It says that a line begins.</summary>
        public bool IsBranch => From.Line < To.Line;
    }

    /// <summary>To a follower of a cohort: its log is the leader's up to here, and no further. It makes void all above, durably, and says
    /// where it is (<see cref="ShipReplyKind.Welcome"/>).</summary>
    /// <param name="Stream">The shard.</param>
    /// <param name="Sender">Who ships.</param>
    /// <param name="To">The end of a version.</param>
    public sealed record Rewind(ShardId Stream, Sender Sender, LogIndex To) : ShipRequest(Stream, Sender);

    /// <summary>The shipper cannot go on with a life of the stream: its log does not reach back to it, or was never where that
    /// is.</summary>
    /// <param name="Stream">The primary's shard.</param>
    /// <param name="Sender">Who ships.</param>
    /// <param name="Generation">Which life. If that is over by now it is late, and nothing is done.</param>
    public sealed record WantsSeed(ShardId Stream, Sender Sender, long Generation) : ShipRequest(Stream, Sender);

    /// <summary>A piece of a copy of the store.</summary>
    /// <param name="Stream">The primary's shard.</param>
    /// <param name="Sender">Who ships.</param>
    /// <param name="Chunk">Which.</param>
    public sealed record Copied(ShardId Stream, Sender Sender, SeedChunk Chunk) : ShipRequest(Stream, Sender);
}

/// <summary>What a reply says.</summary>
public enum ShipReplyKind : byte
{
    /// <summary>To a hello: ship from <see cref="ShipReply.Received"/> on.</summary>
    Welcome,

    /// <summary>The piece was received, now or before; or more has become durable.</summary>
    Ack,

    /// <summary>Something before the piece is missing: ship from <see cref="ShipReply.Received"/> on.</summary>
    Nack,

    /// <summary>The receiver does not know the sender (any more): say hello.</summary>
    WhoAreYou,

    /// <summary>A later process or site ships this stream (<see cref="ShipReply.Newest"/>), or this site is no backup any more. Whoever
    /// hears of a higher site epoch than its own is deposed.</summary>
    NotLeader,

    /// <summary>The receiver has no log of this history, or what it was seeded with is void: it has to be seeded.</summary>
    NeedsSeed,
}

/// <summary>From a receiver. Each says all that there is to know, so that any later one makes up for one that was lost.</summary>
/// <param name="Kind">What it says.</param>
/// <param name="Stream">The primary's shard.</param>
/// <param name="Generation">Which life of the stream at the backup: each seeding begins another. What an earlier one had durable is
/// gone.</param>
/// <param name="Received">The paper's append-indx: everything up to here was received in order.</param>
/// <param name="Durable">The paper's commit-indx: up to here the backup has it durable, and the primary need not keep it for the
/// backup.</param>
/// <param name="Held">The newest recorded cut that this stream holds durably.</param>
/// <param name="Watermark">The newest watermark that the receiver has heard of: durable at the backup as a whole.</param>
/// <param name="EchoUs">The <see cref="ShipRequest.Piece.SentUs"/> of a piece that the receiver had, as this shard's receiver, when it sent
/// this; 0: of none. The site lease runs from there (<see cref="SiteLease"/>).</param>
/// <param name="Newest">The newest sender that the receiver knows of.</param>
public sealed record ShipReply(
    ShipReplyKind Kind, ShardId Stream, long Generation, LogIndex Received, LogIndex Durable, WorldPoint Held, WorldPoint Watermark,
        long EchoUs, Sender Newest)
{
    /// <summary>With <see cref="ShipReplyKind.NeedsSeed"/>: what the receiver lacks of the copy that it is being seeded with. Null: it is
    /// not being seeded (yet).</summary>
    public SeedAsk? Ask { get; init; }

    /// <summary>Windows can be sent in place of what they stand for (<see cref="ShipRequest.Piece.Window"/>).</summary>
    public bool TakesWindows { get; init; }

    /// <summary>The receiver has a part of this window: <see cref="Received"/> is a place in that. Null: it is one in the log as it
    /// is.</summary>
    public ShipWindow? Window { get; init; }

    /// <summary>The follower has lost what it had, or is new, and only learns. What it says counts for nothing yet
    /// (<see cref="Slogger.Core.Cohorts.Leader"/>).</summary>
    public bool Learns { get; init; }

    /// <summary>Of a follower: when it was sent, by its monotonic clock. 0: it does not say. Microseconds.</summary>
    public long SentUs { get; init; }

    /// <summary>With a follower's <see cref="ShipReplyKind.Welcome"/>: through which lines its log has passed, and where its last version
    /// ends. Null: the receiver is no follower of a cohort.</summary>
    public LogLines? Lines { get; init; }
}
