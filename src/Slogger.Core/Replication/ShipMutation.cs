// Deliberate faults, each one line of the machines of disaster recovery switched. Only tests can select one: they prove that the checks
// would notice if the line were wrong. Production always runs with None.
namespace Slogger.Core.Replication;

internal enum ShipMutation
{
    None,

    /// <summary>Shipper: what the log has received counts as durable there.</summary>
    EndIsDurable,

    /// <summary>Shipper: what the shard has durable goes along as if it were the recorded cut.</summary>
    OwnDurableIsCut,

    /// <summary>Shipper: windows go as far as the log does, and not only up to the recorded cut.</summary>
    WindowsBeyondCut,

    /// <summary>Shipper: where the receiver has the log as it is, counts as a place in a window that was made of it.</summary>
    PlaceInLogIsInWindow,

    /// <summary>Shipper: a piece of the log as it is goes beyond where a window begins.</summary>
    LogRunsIntoWindow,

    /// <summary>Receiver: a cut inside of a window counts as held.</summary>
    CutInsideWindow,

    /// <summary>Receiver: it does not say that its windows hide cuts.</summary>
    WindowsNotTold,

    /// <summary>Receiver: the log as it is goes on behind a part of a window.</summary>
    PartOfWindowStays,

    /// <summary>Receiver: what is there of a window is taken in before all of it is.</summary>
    WindowTakenInParts,

    /// <summary>Receiver: the next windows are taken before a watermark has passed those before.</summary>
    WindowsFollowWindows,

    /// <summary>Failover: the least of what is held, although a stream has windows there.</summary>
    FinalInsideWindow,

    /// <summary>Receiver: what was received goes into the log before the primary has it durable.</summary>
    AppendsUnconfirmed,

    /// <summary>Receiver: what an earlier process of the primary has sent, and never had durable, stays beside what a later one
    /// sends.</summary>
    StagedOutlivesSender,

    /// <summary>Receiver: older senders are listened to.</summary>
    OlderSenderAccepted,

    /// <summary>Receiver: the newest sender is not written down before it is answered.</summary>
    SenderNotRecorded,

    /// <summary>Receiver: what was appended counts as durable.</summary>
    AckBeforeSync,

    /// <summary>Receiver: a cut counts as held when it was received.</summary>
    HeldByReceipt,

    /// <summary>Receiver: a cut counts as held although the log lacks the world-line's beginning.</summary>
    HeldWithoutWorldLine,

    /// <summary>Receiver: the store follows what this stream holds, not the watermark.</summary>
    AppliesBeforeWatermark,

    /// <summary>Receiver: a seeded store counts although the cut does not cover the seed yet.</summary>
    SeedCountsAtOnce,

    /// <summary>Receiver: pieces out of order are taken.</summary>
    GapsAccepted,

    /// <summary>Receiver: after its final report it goes on.</summary>
    FrozenGoesOn,

    /// <summary>Receiver: a process that starts does not look whether a failover is under way.</summary>
    FreezeForgotten,

    /// <summary>Receiver: nothing above the final watermark is made void.</summary>
    NothingVoided,

    /// <summary>Watermarks: the least of those that have reported, whoever is missing.</summary>
    WatermarkBeforeAll,

    /// <summary>Watermarks: by versions alone.</summary>
    WatermarkByVersion,

    /// <summary>Watermarks: by what is held by most.</summary>
    WatermarkIsMax,

    /// <summary>Watermarks: a stream that was seeded can be brought anywhere.</summary>
    FloorsNotCompared,

    /// <summary>Watermarks: what a stream held before it was seeded anew still counts.</summary>
    OldGenerationCounts,

    /// <summary>Failover: any report counts as the final one.</summary>
    StaleFinalCounts,

    /// <summary>Failover: the final report of a receiver that was deposed counts.</summary>
    DeposedFinalCounts,

    /// <summary>Failover: decided by those who have answered.</summary>
    FinalBeforeAll,

    /// <summary>Failover: does not wait until the site lease has run out.</summary>
    LeaseNotAwaited,

    /// <summary>Failover: begins although a stream is being seeded.</summary>
    SeedingIgnored,

    /// <summary>Switch-over: the primary goes on without asking the backup whether that has taken over.</summary>
    ResumesUnasked,

    /// <summary>Switch-over: the backup is offered to take over before it holds everything.</summary>
    OffersEarly,

    /// <summary>Switch-over: what a shard has durable is taken for everything, while its last version is open.</summary>
    OpenVersionNotAwaited,

    /// <summary>Lease: counted from when the grant arrives.</summary>
    LeaseFromArrival,

    /// <summary>Lease: what could be told once is told from then on.</summary>
    ToldForEver,

    /// <summary>Gate: a process does not know that an earlier one has shipped.</summary>
    GateNotKept,

    /// <summary>A stream's life: a log of another life counts as that of this one.</summary>
    OldLifeCounts,

    /// <summary>Receiver: the shard is opened before the new world-line has begun in its log.</summary>
    OpensBeforeVoid,

    /// <summary>Receiver: a world-line that keeps less than the copy held goes into the log like any other.</summary>
    BehindSeedAccepted,

    /// <summary>Shipper: after a new connection it goes on behind what was sent over the last one, and is deaf to a receiver that misses
    /// something.</summary>
    ResendForgotten,

    /// <summary>Seeds: the log begins with a copy that is not durable.</summary>
    CopyUsedUnsynced,

    /// <summary>Seeds: a chunk of another seed is taken for one of this.</summary>
    SeedsMixed,

    /// <summary>Watermarks: a report that comes again is not answered.</summary>
    AgainNotTold,

    /// <summary>Watermarks: told on, whatever the site is by now.</summary>
    ToldByNoBackup,

    /// <summary>Failover: the other site is told that it is deposed before SQL has taken the epoch.</summary>
    DeposesBeforeTaken,

    /// <summary>Failover: SQL opens a stream's shard for whoever had the stream.</summary>
    OpensForAnyOwner,

    /// <summary>Take-over: a stream says that it is ready before its store has entered the new world-line.</summary>
    ReadyBeforeEntered,

    /// <summary>Take-over: a process has its stream opened before that is ready.</summary>
    OpensBeforeReady,

    /// <summary>Take-over: the store is handed over as soon as its own stream is open.</summary>
    HandsOverEarly,

    /// <summary>Take-over: the store is handed over while it is being promoted.</summary>
    PromotionNotAwaited,

    /// <summary>Take-over: a process hands its store over although another one has the stream by now.</summary>
    DeposedHandsOver,

    /// <summary>Take-over: the store is handed over to a site of a later epoch, too.</summary>
    AnyPrimaryTakes,
}
