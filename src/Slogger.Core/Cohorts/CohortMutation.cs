namespace Slogger.Core.Cohorts;

/// <summary>Deliberate faults for the tests of the tests; see ShardMutation.</summary>
internal enum CohortMutation
{
    None,

    /// <summary>A node votes whatever it has promised.</summary>
    PromiseIgnored,

    /// <summary>A promise is told before it is durable, and may be forgotten.</summary>
    PromiseNotDurable,

    /// <summary>A node votes for a candidate whose log is behind its own.</summary>
    AnyLogWins,

    /// <summary>Logs are compared by their length alone.</summary>
    LongestLogWins,

    /// <summary>A node votes, and stands, while its own grant runs.</summary>
    GrantIgnored,

    /// <summary>A node that starts does not wait for what it may have granted before.</summary>
    NoWaitAtStart,

    /// <summary>The grant takes no account of clocks that run apart.</summary>
    NoDrift,

    /// <summary>The lease is counted from when an echo came.</summary>
    LeaseFromArrival,

    /// <summary>One follower's echo renews the lease, however many there are.</summary>
    LeaseOfOne,

    /// <summary>Pieces of an older reign's leader are accepted.</summary>
    OldLeaderObeyed,

    /// <summary>One node less than a majority is enough.</summary>
    MinorityCounts,

    /// <summary>A leader goes on in its reign after it has asked another to lead.</summary>
    GoesOnAfterLead,

    /// <summary>A leader without a lease is never silent.</summary>
    NeverSilent,

    /// <summary>A follower says that it has durable what it has only appended.</summary>
    AckBeforeSync,

    /// <summary>A follower's store goes to what its own disk has.</summary>
    AppliesUncommitted,

    /// <summary>A node that has lost its disk votes as one that has not.</summary>
    LossForgotten,

    /// <summary>What a node says that has lost its disk counts at once.</summary>
    LearnerCounts,

    /// <summary>The first reign of a cohort is begun by a majority.</summary>
    MinorityFounds,

    /// <summary>A node acknowledges to a leader what it has made durable after it voted for the next one.</summary>
    AcksAfterVote,

    /// <summary>Who has voted for a founder believes only that one that the cohort began so.</summary>
    FoundingNotPassedOn,

    /// <summary>A leader changes the members before its own reign's record is committed.</summary>
    ChangesUncommitted,

    /// <summary>A leader changes two members at once.</summary>
    ChangesTwo,

    /// <summary>A leader that has handed over votes for a node that lacks what it has committed.</summary>
    AnyLogIsHandedTo,

    /// <summary>A node does not keep which members its leader has named.</summary>
    MembersForgotten,

    /// <summary>A leader says that all it has told is committed, whether or not it is.</summary>
    AlwaysSettled,
}
