// Deliberate faults, each one line of the client session switched. Only tests can select one: they prove that the property
// test would notice if the line were wrong. Production always runs with None.
namespace Slogger.Core.Sessions;

internal enum ClientMutation
{
    None,

    /// <summary>Vs does not follow what was seen.</summary>
    SeenIsForgotten,

    /// <summary>A shard is not told again what it may not have got.</summary>
    ToldForEver,

    /// <summary>A header lists one shard that was seen, not all.</summary>
    OneDependency,

    /// <summary>Cuts of other world-lines commit.</summary>
    AnyWorldLineCommits,

    /// <summary>Unanswered operations within the prefix are not listed.</summary>
    PendingIsNoException,

    /// <summary>What is answered after the prefix has passed it counts as committed.</summary>
    LateIsCommitted,

    /// <summary>The prefix goes on behind answered operations that the cut does not hold.</summary>
    UncoveredIsPassed,

    /// <summary>Strict mode is not.</summary>
    StrictIsRelaxed,

    /// <summary>A merged run commits with its first part.</summary>
    MergedCommitsEarly,

    /// <summary>A run that was merged from two shards is taken for one of the first.</summary>
    MergedIsOfOneShard,

    /// <summary>A branch that was worked out for an older world-line counts.</summary>
    AnyBranchCounts,

    /// <summary>Operations that nobody answered are said to be lost, in whatever version they may be.</summary>
    UnansweredIsLost,

    /// <summary>Operations that nobody answered are said to survive.</summary>
    UnansweredSurvives,

    /// <summary>A merged run survives with its earliest part.</summary>
    LowerBoundSurvives,
}
