namespace Slogger.Core.Versions;

/// <summary>Deliberate faults for the tests of the tests: each switches off one rule of a change of the interval.</summary>
internal enum GridMutation
{
    None,

    /// <summary>A proposal is applied although some have not agreed.</summary>
    AppliedWithoutAll,

    /// <summary>An agreement to a proposal that was given up counts for the next.</summary>
    AnyAgreementCounts,

    /// <summary>A shard agrees although the time has come: it may have ended a version beyond.</summary>
    AgreesLate,

    /// <summary>What an agreement is answered with is not told: the change may have been settled meanwhile.</summary>
    SettledNotTold,
}
