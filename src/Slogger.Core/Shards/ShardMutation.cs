// Deliberate faults, each one line of the protocol switched. Only tests can select one: they prove that the property tests
// would notice if the line were wrong. Production always runs with None.
namespace Slogger.Core.Shards;

internal enum ShardMutation
{
    None,

    /// <summary>Slots close as empty although something happened in them.</summary>
    BusyIgnored,

    /// <summary>A second marker is sent while one is on its way.</summary>
    SecondMarker,

    /// <summary>A marker counts although it was lost, whenever it is read.</summary>
    LostMarkerCounts,

    /// <summary>A lost marker's version is taken as closed.</summary>
    LostLeavesClean,

    /// <summary>A refused marker's version is taken as closed.</summary>
    RefusedLeavesClean,

    /// <summary>Any marker of the world-line counts when it is read, whoever sent it and whenever.</summary>
    AnyMarkerCounts,

    /// <summary>While catching up, markers of other world-lines count.</summary>
    AnyWorldLine,

    /// <summary>What is forwarded between a marker and its answer gets the closed version.</summary>
    OpenMovesAtAnswer,

    /// <summary>The lower bound of blocked operations moves when a marker is sent.</summary>
    LowestMovesAtSend,

    /// <summary>The open version goes back at a new world-line.</summary>
    OpenGoesBack,

    /// <summary>Closed versions are recorded before they are durable.</summary>
    RecordBeforeDurable,

    /// <summary>Empty runs are recorded before they are durable.</summary>
    RunCountsAtOnce,

    /// <summary>Committed is reported before the metadata has confirmed.</summary>
    CommittedBeforeRecorded,

    /// <summary>Durability of an abandoned world-line counts in the next.</summary>
    OldWorldLineDurable,

    /// <summary>A late record of an abandoned world-line is reported as committed.</summary>
    OldWorldLineCommitted,

    /// <summary>A save closes a multiple of the stride although later versions were handed out already.</summary>
    StrideIgnoresLabels,

    /// <summary>The sync of an awaited commit is put off as if nobody waited.</summary>
    AwaitedSyncIsPutOff,

    /// <summary>The record of an awaited commit is put off as if nobody waited.</summary>
    AwaitedRecordIsPutOff,

    /// <summary>At an ordered end syncs and records are put off.</summary>
    StoppingIsPutOff,

    /// <summary>What a sync that was put off would have made durable is taken as durable.</summary>
    PutOffSyncCounts,

    /// <summary>The ordered end is reached as soon as the last marker is recorded, whatever was done after it.</summary>
    StopsWithoutTick,

    /// <summary>Versions that a late marker closed together are claimed as ones that the shard can be restored to.</summary>
    GapIsNoFloor,

    /// <summary>A version is closed at the end of a later one, with what was done in that.</summary>
    LateEndIsNoMatter,

    /// <summary>A fast-forward ends a version that is open beyond its time as if that had just begun.</summary>
    EndsLateVersionsEarly,

    /// <summary>What passes after a rest goes over changes that have been noticed.</summary>
    ChangePassed,

    /// <summary>Versions are closed by a grid that others may have changed.</summary>
    OldGridGoesOn,
}
