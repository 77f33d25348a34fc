namespace Slogger.Core.Retention;

/// <summary>Deliberate faults for the tests of the tests: each switches off one rule of how the past is read and kept.</summary>
internal enum PastMutation
{
    None,

    /// <summary>An instant is the version that is open then, and not the last one that has ended.</summary>
    OpenIsClosed,

    /// <summary>What had expired at an instant is shown.</summary>
    ExpiredIsShown,

    /// <summary>Versions are read in which keys were at other shards.</summary>
    SettledIgnored,

    /// <summary>A reduced file serves versions behind writes that no log has.</summary>
    GapIgnored,

    /// <summary>A version between two windows is read from the later one.</summary>
    LaterWindowServes,

    /// <summary>Checkpoints go though somebody reads what they lead to.</summary>
    PruneIgnoresHold,

    /// <summary>A checkpoint goes though the reduced file of the one before leads up to it.</summary>
    PruneBreaksChain,

    /// <summary>Who has read once holds for ever.</summary>
    LeaseIgnored,
}
