// What a client session is configured with, and what it tells its application.
using System.Collections.Immutable;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Sessions;

/// <summary>Settings of a <see cref="ClientSession"/>.</summary>
public sealed record ClientSessionOptions
{
    /// <summary>How many operations may be unanswered. Default 1024. More hide more latency, and cost 40 bytes for each
    /// batch, and more exceptions to look through after a failure.</summary>
    public int WindowMax { get; init; } = 1024;

    /// <summary>How many unanswered batches and runs of answered, uncommitted operations are kept apart, at 40 bytes each;
    /// at least 8. Default 4096. When there are more, the older runs are merged: they commit a little later, and would be
    /// listed as uncertain by a recovery that falls between them. Where that does not help, nothing new may begin.</summary>
    public int RunsMax { get; init; } = 4096;

    /// <summary>True: the committed prefix stops at the first unanswered operation (strict DPR). Default false: it goes
    /// on, and lists such operations as exceptions (relaxed DPR; DPR, section 5.4).</summary>
    public bool Strict { get; init; }

    /// <summary>Whether headers list dependencies. Only the exact and hybrid finders need them. Default false.</summary>
    public bool TrackDependencies { get; init; }
}

/// <summary>What became of a reply.</summary>
public enum ReplyOutcome
{
    /// <summary>The batch is completed.</summary>
    Completed,

    /// <summary>Nothing changes: the batch was answered before, given up, or is of an older world-line.</summary>
    Ignored,

    /// <summary>The reply breaks the protocol (it does not fit its batch, which was never sent, or has an impossible
    /// version or world-line). Nothing changes; the shard is not to be trusted, its connection is to be given up.</summary>
    Invalid,
}

/// <summary>Why operations below the committed prefix's end do not belong to it.</summary>
public enum ExceptionKind
{
    /// <summary>Not answered when the prefix passed them, and not committed since: they still may be.</summary>
    Open,

    /// <summary>Their fate cannot be told, for ever.</summary>
    Uncertain,

    /// <summary>Surely undone, or never executed.</summary>
    Lost,
}

/// <summary>Operations that are not part of a prefix although it passes over them. Source: DPR, section 5.4.</summary>
public readonly record struct ExceptionRange(SequenceRange Range, ExceptionKind Kind);

/// <summary>What a recovery did to a session: every operation since the one before, except those reported as uncertain
/// already, is in exactly one place. Ranges are in order and as wide as possible.</summary>
/// <param name="WorldLine">The timeline in which the session goes on.</param>
/// <param name="Survived">The last operation that survived; so did all before it that are not <paramref name="Exceptions"/>.</param>
/// <param name="Exceptions">Operations before the last survivor that are lost or uncertain. No survivor depends on what was
/// lost: none began after the answer to a lost operation.</param>
/// <param name="Lost">Operations behind the last survivor that are undone, or will never be executed.</param>
/// <param name="Uncertain">Operations behind the last survivor whose fate cannot be told.</param>
public sealed record ClientRollback(
    WorldLine WorldLine, SequenceNumber Survived, ImmutableArray<ExceptionRange> Exceptions,
    ImmutableArray<SequenceRange> Lost, ImmutableArray<SequenceRange> Uncertain);
