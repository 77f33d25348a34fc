// What the front end needs of a shard for the batches of sessions: the shard's half of libDPR.
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Proxy.FrontEnd;

/// <summary>A shard whose operations have versions. Called by the loop's thread.</summary>
internal interface IBatchPort
{
    /// <summary>The cluster's name.</summary>
    string Cluster { get; }

    /// <summary>Which shard of it this is.</summary>
    ShardId Shard { get; }

    /// <summary>Length of a version. Unit: microseconds.</summary>
    long VersionIntervalUs { get; }

    /// <summary>The last operation of a session's batch that is known to have been executed here, and the version that it was at the
    /// latest, or 0 for the open one. Null if nothing is known.</summary>
    (Sequence Last, long Version)? LastDone(SessionId session);

    /// <summary>What to do with a batch now.</summary>
    /// <param name="header">Its header.</param>
    /// <param name="open">The lowest version that a request forwarded now belongs to.</param>
    GateDecision Decide(in BatchHeader header, Version open);

    /// <summary>Has this version, or a later one, open at the next tick, which is due at once.</summary>
    void FastForward(Version atLeast);
}
