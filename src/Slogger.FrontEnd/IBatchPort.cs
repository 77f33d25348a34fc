// What the front end needs of a shard for the batches of sessions: the shard's half of libDPR.
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.FrontEnd;

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
    (SequenceNumber Last, long Version)? LastDone(SessionId session);

    /// <summary>Who finds the cut. Unless it is the approximate finder, headers must name what their sessions have seen, and cuts and
    /// branches have one version for each shard.</summary>
    FinderKind Finder { get; }

    /// <summary>How keys fall into partitions.</summary>
    Partitioning Partitions { get; }

    /// <summary>How many shards the cluster has.</summary>
    int ShardCount { get; }

    /// <summary>A batch is let through.</summary>
    /// <param name="header">Its header.</param>
    /// <param name="open">As in <see cref="Decide"/>.</param>
    void OnLetThrough(in BatchHeader header, VersionNumber open);

    /// <summary>Unless the finder is the approximate one: the version up to which every shard is committed, as far as it is
    /// known.</summary>
    WorldPoint CommittedEverywhere { get; }

    /// <summary>Unless the finder is the approximate one: the world-line and the committed version of each shard, or nothing.</summary>
    string CommittedByShard { get; }

    /// <summary>What each shard kept of a world-line that is over, by number, with commas between.</summary>
    string BranchesSince(WorldLine abandoned);

    /// <summary>What to do with a batch now.</summary>
    /// <param name="header">Its header.</param>
    /// <param name="open">The lowest version that a request forwarded now belongs to.</param>
    GateDecision Decide(in BatchHeader header, VersionNumber open);

    /// <summary>Has this version, or a later one, open at the next tick, which is due at once.</summary>
    void FastForward(VersionNumber atLeast);
}
