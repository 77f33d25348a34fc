// What a receiver has its driver do. Order is part of the contract: perform them one after the other as they stand; noted before answered,
// durable before reported.
using Slogger.Core.Identities;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Replication;

/// <summary>One effect.</summary>
public abstract record ReceiverEffect
{
    private ReceiverEffect()
    {
    }

    /// <summary>Send it to the shipper.</summary>
    public sealed record Reply(ShipReply Message) : ReceiverEffect;

    /// <summary>Have the backup's SQL note that this sender ships the stream now (<see cref="SiteState.Admit"/>), then call
    /// <see cref="Receiver.SenderNoted"/>; if that is not known, not at all: the sender says hello again.</summary>
    public sealed record NoteSender(Sender Sender) : ReceiverEffect;

    /// <summary>This life of the stream is over: have SQL note that it is seeded anew (<see cref="SiteState.Reseed"/>), and begin the next.
    /// Said again until it is.</summary>
    /// <param name="Why">For a person.</param>
    public sealed record Reseed(string Why) : ReceiverEffect;

    /// <summary>Write what came with this chunk to the copy that the stream is seeded with, at its place. If that is the beginning,
    /// whatever there was is of another copy: it is deleted first, durably. If the disk refuses call
    /// <see cref="Receiver.CopyRefused"/>.</summary>
    public sealed record WriteCopy(SeedChunk Chunk) : ReceiverEffect;

    /// <summary>Make what was written of the copy durable, then note how much that is, then call <see cref="Receiver.CopySynced"/> with
    /// this; or <see cref="Receiver.CopyRefused"/>.</summary>
    public sealed record SyncCopy(SeedTicket Ticket) : ReceiverEffect;

    /// <summary>All of the copy is durable: the log of this life can begin with it (<see cref="Slogger.Core.Sites.SiteState.Seeded"/>).
    /// This receiver takes nothing more.</summary>
    public sealed record Copied(Seed Seed) : ReceiverEffect;

    /// <summary>Keep what came with this piece, in memory: it may be asked for.</summary>
    public sealed record Keep(ShipRequest.Piece Piece) : ReceiverEffect;

    /// <summary>Append a piece that was kept to the log, bytes and ends of versions as they follow each other; or begin the world-line, if
    /// it says that. Then forget it.</summary>
    public sealed record Append(ShipRequest.Piece Piece) : ReceiverEffect;

    /// <summary>A follower's log: make void all that lies above the end of a version, durably; then call
    /// <see cref="Slogger.Core.Cohorts.Follower.Rewound"/>.</summary>
    /// <param name="To">The end of a version; null: of the last one that is closed.</param>
    public sealed record Rewind(LogIndex? To) : ReceiverEffect;

    /// <summary>A follower's node has learned all that was committed: it may vote again
    /// (<see cref="Slogger.Core.Cohorts.Election.Learned"/>).</summary>
    public sealed record Learned : ReceiverEffect;

    /// <summary>Forget all pieces that are kept.</summary>
    public sealed record Forget : ReceiverEffect;

    /// <summary>Append a note to the log: this cut is recorded, and the log reaches it. A later opening finds the last one that is
    /// durable.</summary>
    public sealed record NoteCut(WorldPoint Cut) : ReceiverEffect;

    /// <summary>Make all that was appended so far durable, then call <see cref="Receiver.Synced"/> with this.</summary>
    public sealed record Sync(SyncTicket Ticket) : ReceiverEffect;

    /// <summary>Tell the watermark service.</summary>
    public sealed record Report(WatermarkReport Message) : ReceiverEffect;

    /// <summary>A watermark has come to what the stream was seeded with: have SQL note that it counts (<see cref="SiteState.Count"/>).
    /// Until that is known the backup cannot take over. Said once in a process.</summary>
    public sealed record Count : ReceiverEffect;

    /// <summary>Bring the store to exactly the end of this version, from where it is, and call <see cref="Receiver.Applied"/>. Readers see
    /// it when it is there.</summary>
    public sealed record Apply(WorldPoint To) : ReceiverEffect;

    /// <summary>The final report: answer the failover.</summary>
    public sealed record Final(FinalReport Message) : ReceiverEffect;

    /// <summary>Begin this world-line in the log, at the end of the final watermark's version; void is what lies above. It is durable
    /// before <see cref="Receiver.Voided"/> is called.</summary>
    public sealed record Void(LogBranchPoint Branch) : ReceiverEffect;

    /// <summary>The shard can be opened as a primary's (<see cref="SiteState"/>.Open): its log is in the new world-line, its store at the
    /// final watermark.</summary>
    public sealed record Open(SiteEpoch Number) : ReceiverEffect;
}

/// <summary>A world-line that begins at the end of a version; where that is the log knows.</summary>
/// <param name="WorldLine">The one that begins.</param>
/// <param name="At">The last version that it keeps.</param>
public readonly record struct LogBranchPoint(WorldLine WorldLine, WorldPoint At);

/// <summary>What a sync will have made durable.</summary>
/// <param name="Log">The log up to here.</param>
/// <param name="Cut">The last cut noted.</param>
/// <param name="Of">Whose messages were received then.</param>
/// <param name="EchoUs">The newest message received before it was asked for, by that sender's clock; 0: none.</param>
public readonly record struct SyncTicket(LogIndex Log, WorldPoint Cut, Sender? Of, long EchoUs);
