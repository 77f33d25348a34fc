namespace Slogger.Core.Lifecycle;

/// <summary>Which rule of a shard's life a test has switched off.</summary>
internal enum LifecycleMutation
{
    None,

    /// <summary>A store that may be lost is taken for the same without a look.</summary>
    SameStoreAssumed,

    /// <summary>A store that lost nothing goes on although the cluster has left its world-line.</summary>
    LeftWorldLineGoesOn,

    /// <summary>Clients are let in at once after a suspicion that came while others were waited for.</summary>
    CutShortOpens,

    /// <summary>That a world-line is left is noted before the clients' connections are closed.</summary>
    EntersBeforeClosed,

    /// <summary>The store is restored, and its world-line begun in SQL afterwards.</summary>
    RestoresBeforeBegun,

    /// <summary>The store is restored to what this shard has durable, wherever SQL says that the world-line branches.</summary>
    OwnBranchTaken,

    /// <summary>A recovery that is tried again goes by what SQL said at the first attempt.</summary>
    ViewKept,

    /// <summary>What versions depend on is not collected anew.</summary>
    TrailNotBegun,

    /// <summary>Clients are let in as soon as their own shard is restored.</summary>
    PeersNotAwaited,

    /// <summary>Clients are let in, although not all have entered the world-line, as soon as a later one has begun.</summary>
    LaterWorldLineLetsIn,

    /// <summary>Clients are let in before the version after the last one has begun.</summary>
    VersionNotAwaited,

    /// <summary>A branch is not told of if the recovery that led there was cut short.</summary>
    BranchForgotten,

    /// <summary>A joiner lets clients in before it counts.</summary>
    AdmissionNotAwaited,

    /// <summary>A joiner begins anew although it may be admitted yet with what it had before.</summary>
    AdmissionForgotten,

    /// <summary>A joiner whose clock stands behind those of the others goes by its clock alone.</summary>
    JoinerNotHurried,

    /// <summary>A leaver does not wait for the end of the version that was open when it served for the last time.</summary>
    OpenVersionForgotten,

    /// <summary>A leaver counts no more when what it has answered is durable, whether the cut has come to it or not.</summary>
    LeavesUncommitted,
}
