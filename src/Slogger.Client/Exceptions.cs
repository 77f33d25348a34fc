// Everything that can become of an operation besides an answer. Each says what happened, where, and what to do.
using System.Collections.Immutable;
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Client;

/// <summary>What all exceptions of the client derive from.</summary>
public class SloggerException : Exception
{
    /// <summary>Says what happened.</summary>
    public SloggerException(string message, Exception? inner = null) : base(message, inner)
    {
    }
}

/// <summary>Redis, or the proxy in its place, answered an operation with an error. The operation counts, and has a number.</summary>
public sealed class RedisErrorException : SloggerException
{
    internal RedisErrorException(string message, SequenceNumber sequence) : base(message) => Sequence = sequence;

    /// <summary>The operation's number.</summary>
    public SequenceNumber Sequence { get; }
}

/// <summary>The connection broke before the answer: whether the operation was executed cannot be told, now or later. The
/// session goes on. See <see cref="OperationFlags.Idempotent"/>, and <see cref="ReplyLostException"/> for what is known to be
/// executed.</summary>
public sealed class UncertainException : SloggerException
{
    internal UncertainException(string message, SequenceNumber sequence, Exception? inner) : base(message, inner) => Sequence = sequence;

    /// <summary>The operation's number.</summary>
    public SequenceNumber Sequence { get; }
}

/// <summary>The operation was executed once, and its answer is lost: the connection broke, and the shard says that it had come that far. It
/// counts as an answered one: it commits with the others, what is started now rests on it, and a rollback says what became of
/// it. An answer that was an error (as of a wrong type, or a slot that has moved) is lost like any other.</summary>
public sealed class ReplyLostException : SloggerException
{
    internal ReplyLostException(
        string message, SequenceNumber sequence, ShardId shard, VersionNumber latest, WorldLine line, Exception? inner)
            : base(message, inner) =>
        (Sequence, Shard, Latest, WorldLine) = (sequence, shard, latest, line);

    /// <summary>The operation's number.</summary>
    public SequenceNumber Sequence { get; }

    /// <summary>Where it was executed.</summary>
    public ShardId Shard { get; }

    /// <summary>The version that it was executed in at the latest. After a rollback to a version below, it may be that the operation is
    /// <see cref="OperationFate.Uncertain"/>.</summary>
    public VersionNumber Latest { get; }

    /// <summary>The timeline that it was executed in.</summary>
    public WorldLine WorldLine { get; }
}

/// <summary>A shard could not be reached in the time that <see cref="SloggerClientOptions.GiveUpAfter"/> allows. The
/// operation was not sent, and has no number.</summary>
public sealed class ShardUnreachableException : SloggerException
{
    internal ShardUnreachableException(string message, Exception? inner) : base(message, inner)
    {
    }
}

/// <summary>The cluster went back to a version before some of what this session has done or seen. The session lives in the
/// new world-line, and every call fails with this exception until <see cref="SloggerSession.Resume"/> says that the
/// application has taken it in: so that no thread goes on with what another one knows to be lost.</summary>
public sealed class RollbackException : SloggerException
{
    internal RollbackException(SessionId session, ClientRollback rollback, int unsent, SequenceNumber operation)
        : base($"Session {session} was rolled back to world-line {rollback.WorldLine}: operations up to {rollback.Survived} survived"
            + (rollback.Exceptions.IsEmpty ? "" : $" except {string.Join(", ", rollback.Exceptions.Select(e => $"{e.Range} ({e.Kind})"))}")
            + $"; behind that lost: {Text(rollback.Lost)}, uncertain: {Text(rollback.Uncertain)}; {unsent} not sent. Repair what rests on "
                + "them, then call Resume.") =>
        (Session, Rollback, Unsent, Operation) = (session, rollback, unsent, operation);

    /// <summary>Whose rollback it is.</summary>
    public SessionId Session { get; }

    /// <summary>The number of the operation that this exception is the end of; 0: it was not sent (and so not executed), or the exception
    /// comes from a call that is no operation.</summary>
    public SequenceNumber Operation { get; }

    /// <summary>What became of every operation since the rollback before.</summary>
    public ClientRollback Rollback { get; }

    /// <summary>How many operations were waiting to be sent. They have no number, and were not executed.</summary>
    public int Unsent { get; }

    /// <summary>The timeline in which the session goes on.</summary>
    public WorldLine WorldLine => Rollback.WorldLine;

    /// <summary>The last operation that survived; so did all before it, less <see cref="Exceptions"/> and what was reported by
    /// an <see cref="UncertainException"/> before.</summary>
    public SequenceNumber Survived => Rollback.Survived;

    /// <summary>Operations before <see cref="Survived"/> that are lost or uncertain.</summary>
    public ImmutableArray<ExceptionRange> Exceptions => Rollback.Exceptions;

    /// <summary>Operations behind <see cref="Survived"/> that are undone, or were never executed.</summary>
    public ImmutableArray<SequenceRange> Lost => Rollback.Lost;

    /// <summary>Operations behind <see cref="Survived"/> whose fate cannot be told.</summary>
    public ImmutableArray<SequenceRange> Uncertain => Rollback.Uncertain;

    /// <summary>What became of an operation that was sent since the rollback before, and was not reported by an
    /// <see cref="UncertainException"/>.</summary>
    public OperationFate FateOf(SequenceNumber operation)
    {
        if (operation > Survived)
        {
            return Uncertain.Any(r => Holds(r, operation)) ? OperationFate.Uncertain : OperationFate.Lost;
        }

        foreach (ExceptionRange exception in Exceptions)
        {
            if (Holds(exception.Range, operation))
            {
                return exception.Kind == ExceptionKind.Lost ? OperationFate.Lost : OperationFate.Uncertain;
            }
        }

        return OperationFate.Survived;
    }

    private static bool Holds(SequenceRange range, SequenceNumber operation) => range.First <= operation && operation <= range.Last;

    private static string Text(ImmutableArray<SequenceRange> ranges) => ranges.IsEmpty ? "none" : string.Join(", ", ranges);
}

/// <summary>What a rollback did to an operation.</summary>
public enum OperationFate
{
    /// <summary>It is in the state that the cluster went back to.</summary>
    Survived,

    /// <summary>It is undone, or was never executed.</summary>
    Lost,

    /// <summary>That cannot be told.</summary>
    Uncertain,
}
