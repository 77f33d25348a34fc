// What libDPR adds to a batch of operations and to its answer (DPR, section 6; design, section 7). Values only: how they
// look on the wire is the business of the protocols that carry them.
using Slogger.Core.Cuts;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Sessions;

/// <summary>Consecutive operations of a batch that were executed in the same version.</summary>
/// <param name="Count">How many; at least 1.</param>
/// <param name="Version">The version; at least 1.</param>
public readonly record struct VersionRun(int Count, VersionNumber Version);

/// <summary>What a session says to a shard about a batch.</summary>
/// <param name="Session">Whose operations these are.</param>
/// <param name="WorldLine">The session's timeline: the batch may be executed in no other (DPR, section 4.2).</param>
/// <param name="AtLeast">Vs: no operation of the batch may be executed in an earlier version (DPR, section 3.2).</param>
/// <param name="First">The number of its first operation.</param>
/// <param name="Count">How many operations; at least 1.</param>
/// <param name="Dependencies">For finders that want them (exact, hybrid): what the session has newly seen at other shards
/// since its last batch to this one, each shard at most once. The memory is the session's: it is valid until its next batch.</param>
public readonly record struct BatchHeader(
    SessionId Session, WorldLine WorldLine, VersionNumber AtLeast, SequenceNumber First, int Count,
        ReadOnlyMemory<Dependency> Dependencies);

/// <summary>What a shard says to a session about a batch that it has executed.</summary>
/// <param name="WorldLine">The timeline in which it was executed: that of its header.</param>
/// <param name="Versions">In which versions, in the order of the operations, never decreasing; the counts add up to that of the
/// header. The memory is the shard's: it is not kept.</param>
/// <param name="Cut">The cut that the shard knows: every shard is committed at least up to here.</param>
public readonly record struct BatchReply(WorldLine WorldLine, ReadOnlyMemory<VersionRun> Versions, WorldPoint Cut);
