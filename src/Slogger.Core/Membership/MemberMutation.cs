// Deliberate mistakes in the rules of membership: tests show that each of them is caught.
namespace Slogger.Core.Membership;

internal enum MemberMutation
{
    None,

    /// <summary>A joiner holds the cut from the moment on that it has a number.</summary>
    JoiningCounts,

    /// <summary>A joiner is admitted whatever it has durable.</summary>
    AnyClaimAdmits,

    /// <summary>A joiner is admitted by a claim of a world-line that is over.</summary>
    AnyWorldLineAdmits,

    /// <summary>A joiner is admitted that began above the recorded cut.</summary>
    FloorIgnored,

    /// <summary>A cut that was found for the members before is recorded.</summary>
    OwnersNotCompared,

    /// <summary>A leaver counts no more before its last version is durable.</summary>
    LeavesAtOnce,

    /// <summary>A dead leaver is removed, and no world-line is begun.</summary>
    DeadLeavesQuietly,
}
