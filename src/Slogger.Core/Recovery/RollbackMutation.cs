namespace Slogger.Core.Recovery;

/// <summary>Which rule of a rollback in place a test has switched off.</summary>
internal enum RollbackMutation
{
    None,

    /// <summary>Whatever the store's history is, it goes back in place.</summary>
    AnyHistoryGoesBack,

    /// <summary>Clients' connections stay as they are.</summary>
    ClientsNotShutOut,

    /// <summary>A store that is on its way to a branch is not noted as such.</summary>
    StoreNotNoted,

    /// <summary>It is noted when the log has begun the world-line.</summary>
    NotedBehindWorldLine,

    /// <summary>What was written before the transaction is not put back by another.</summary>
    OnePassOnly,

    /// <summary>After the last transaction that may be tried the store is taken to be at the branch.</summary>
    LastPassCounts,

    /// <summary>The log is filled whether its world-line has begun or not.</summary>
    BranchNotAwaited,

    /// <summary>The log goes on at the branch in the stream, not where the store stands there again.</summary>
    AttachesAtBranch,

    /// <summary>The note is forgotten before the log is filled.</summary>
    NoteForgottenEarly,
}
