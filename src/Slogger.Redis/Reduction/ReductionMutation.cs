namespace Slogger.Redis.Reduction;

/// <summary>Which rule of the reduction a test has switched off.</summary>
internal enum ReductionMutation
{
    None,

    /// <summary>Rule 1: SET with a condition (NX, XX) is an overwrite.</summary>
    ConditionalSetOverwrites,

    /// <summary>Rule 1: RESTORE without REPLACE is an overwrite.</summary>
    RestoreAlwaysOverwrites,

    /// <summary>Rule 1: DEL is dropped where nothing of the key is alive.</summary>
    DeleteOfNothingDropped,

    /// <summary>Rule 1: a command of several keys dies as a whole when one of its keys is overwritten.</summary>
    PartsDieTogether,

    /// <summary>Rule 2: SET KEEPTTL is an overwrite.</summary>
    KeepTtlOverwrites,

    /// <summary>Rule 2: SET KEEPTTL takes the place of the last one of a run, not of the first.</summary>
    KeepTtlAtLastPlace,

    /// <summary>Rule 3: a sum may pass 64 bits.</summary>
    SumOverflows,

    /// <summary>Rule 3: DECR counts up.</summary>
    DecrementCountsUp,

    /// <summary>Rule 3: the first value of a field stays.</summary>
    FirstValueStays,

    /// <summary>Rule 3: a new field stands before those that are there.</summary>
    FieldsReversed,

    /// <summary>Rule 3: LTRIM with another n joins a run.</summary>
    AnyTrimJoins,

    /// <summary>Rule 3: one element less is kept of a trimmed run.</summary>
    TrimKeepsOneLess,

    /// <summary>Rule 3: what was pushed behind the last LTRIM is trimmed.</summary>
    PushedBehindIsTrimmed,

    /// <summary>Rule 3: commands that change the value in another way do not end a run.</summary>
    OthersDoNotEndRuns,

    /// <summary>Rule 4: an expiry moves up to the place of the one before.</summary>
    ExpiryMovedUp,

    /// <summary>Rule 4: an expiry with a condition is like one without.</summary>
    ConditionalExpiryCounts,

    /// <summary>Rule 5: HDEL and SREM do not end runs.</summary>
    RemovalDoesNotEndRuns,

    /// <summary>Rule 6: a joint command is no barrier.</summary>
    JointIsNoBarrier,

    /// <summary>Rule 6: the second key of a joint command may be forgotten.</summary>
    JointSecondKeyForgotten,

    /// <summary>Rule 7: FLUSHALL kills functions, too.</summary>
    FlushKillsFunctions,

    /// <summary>Rule 7: FLUSHDB kills what stands before a SWAPDB.</summary>
    FlushPassesSwap,

    /// <summary>Rule 7: FLUSHDB kills what a joint command has read.</summary>
    FlushKillsPinned,

    /// <summary>Rule 7: FLUSHDB flushes all databases.</summary>
    FlushIgnoresDatabase,

    /// <summary>Rule 7: what is not confined is no barrier.</summary>
    UnconfinedIsNoBarrier,

    /// <summary>Rule 8: SELECT is not put where the database changes.</summary>
    SelectForgotten,

    /// <summary>Rule 8: the database behind the window is not selected.</summary>
    LastSelectForgotten,

    /// <summary>Keys of one name in different databases are one.</summary>
    DatabaseIgnored,
}
