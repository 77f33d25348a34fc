// What comes of an operation: the value that Redis answered, and where in the history it stands.
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Client;

/// <summary>An operation's answer. It is no proof of commit: see
/// <see cref="SloggerSession.WaitForCommitAsync(System.Threading.CancellationToken)"/>.</summary>
/// <param name="Value">What Redis answered.</param>
/// <param name="Sequence">The operation's number in its session.</param>
/// <param name="Shard">Where it was executed.</param>
/// <param name="Version">The version that it was executed in, of <paramref name="WorldLine"/>.</param>
/// <param name="WorldLine">The timeline that it was executed in.</param>
public readonly record struct Result<T>(T Value, SequenceNumber Sequence, ShardId Shard, VersionNumber Version, WorldLine WorldLine);

/// <summary>How far a session is committed.</summary>
/// <param name="CommittedUpTo">Every operation up to here is committed, less <see cref="SloggerSession.Exceptions"/>.</param>
/// <param name="WorldLine">The session's timeline.</param>
public readonly record struct CommitProgress(SequenceNumber CommittedUpTo, WorldLine WorldLine);

/// <summary>What a call asks for besides its command.</summary>
[Flags]
public enum OperationFlags
{
    /// <summary>Nothing. If its connection breaks before the answer, the operation is uncertain, and the caller is told.</summary>
    None = 0,

    /// <summary>To do it twice is as good as once: if its connection breaks before the answer, it is sent again, as another
    /// operation with a number of its own. After a rollback nothing is sent again.</summary>
    Idempotent = 1,
}
