namespace Slogger.Core.Retention;

/// <summary>Deliberate faults for the tests of the tests: each switches off one rule of what may be deleted.</summary>
internal enum TileMutation
{
    None,

    /// <summary>Raw log is deleted before what it became is whole.</summary>
    DeletesUnreduced,

    /// <summary>What follows one checkpoint may end elsewhere than at the next.</summary>
    SkipsUnreduced,

    /// <summary>Raw log behind the recorded cut is deleted.</summary>
    IgnoresCut,

    /// <summary>Raw log that somebody reads is deleted.</summary>
    IgnoresHold,

    /// <summary>Raw log that another log lacks is deleted.</summary>
    IgnoresNeeded,

    /// <summary>Raw log that is kept in detail is deleted.</summary>
    IgnoresDetail,

    /// <summary>One checkpoint less than is wanted is left in the raw log.</summary>
    KeepsOneLess,

    /// <summary>A checkpoint that nothing is read from stays: what follows it could never be reduced.</summary>
    KeepsIdle,
}
