// What is known when a shard starts, or finds its store gone: the input of RecoveryPlan.
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Recovery;

/// <summary>How the store looks next to the log.</summary>
public enum StoreSituation
{
    /// <summary>It cannot be reached, or is still loading.</summary>
    Unreachable,

    /// <summary>It holds no key in any database.</summary>
    Empty,

    /// <summary>It is on the log's history and can continue the stream at the log's end.</summary>
    Continues,

    /// <summary>It is on the log's history and ahead of it, but its backlog no longer reaches back to the log's end.</summary>
    AheadWithGap,

    /// <summary>It is on the log's history (by its replication id or its previous one) but holds less than the log, or has
    /// branched off it at or below the log's end.</summary>
    BehindKnownOrigin,

    /// <summary>It holds data of which the log knows nothing.</summary>
    Foreign,
}

/// <summary>What the operator chose for data of unknown origin (--seed).</summary>
public enum SeedChoice
{
    /// <summary>Nothing: never overwrite, never adopt.</summary>
    None,

    /// <summary>The store's data is the truth: the log starts again from it.</summary>
    FromRedis,

    /// <summary>The log is the truth: the store's data is replaced.</summary>
    FromLog,
}

/// <summary>What the version log proves, durably.</summary>
/// <param name="Last">Its last boundary. A log that was begun but has none yet proves version 0 at its base.</param>
public readonly record struct LogEvidence(Boundary Last);

/// <summary>The facts that decide how a shard goes on.</summary>
public sealed record RecoveryFacts
{
    /// <summary>Which shard, for texts.</summary>
    public required ShardId Shard { get; init; }

    /// <summary>How a person knows the store: its address.</summary>
    public string Store { get; init; } = "the Redis";

    /// <summary>What the log proves; null if the log is empty or absent.</summary>
    public LogEvidence? Log { get; init; }

    /// <summary>The metadata's current world-line and what this shard has recorded as durable in it (version 0: nothing ever).</summary>
    public required WorldPoint Recorded { get; init; }

    /// <summary>If the log's world-line is older than the metadata's: the newest boundary of the log at or below every
    /// branch since, that is, the last that is not void (<see cref="WorldLineBranches.LastValid"/> says up to which version).
    /// Null if there is none.</summary>
    public Boundary? LastBelowBranch { get; init; }

    /// <summary>How the store looks.</summary>
    public required StoreSituation Situation { get; init; }

    /// <summary>True if the store is one that this proxy supervises: it may always be overwritten.</summary>
    public bool Supervised { get; init; }

    /// <summary>What the operator chose.</summary>
    public SeedChoice Seed { get; init; }

    /// <summary>Whether the operator could choose: for data that others may have put there, and so not for a store inside the
    /// proxy.</summary>
    public bool MaySeed { get; init; } = true;

    /// <summary>The shard has yet to join its cluster: it has served nobody, and no cut counts it.</summary>
    public bool IsJoining { get; init; }

    /// <summary>How many keys the store holds, as far as it can be asked.</summary>
    public long KeyCount { get; init; }

    /// <summary>What an offline restore has left for this start; null: nothing.</summary>
    public RestoredState? Restored { get; init; }
}

/// <summary>An older version that an offline restore has put into the store.</summary>
/// <param name="Version">Which one.</param>
/// <param name="GoesOn">Whether the administrator has said that the shard goes on from it. Otherwise that is still to be decided.</param>
/// <param name="Begun">The world-line that an earlier start was about to begin with it; number 0: none was.</param>
public readonly record struct RestoredState(VersionNumber Version, bool GoesOn, WorldLine Begun)
{
    /// <summary>Whether the administrator accepts that committed versions are lost: those that are not in what is kept.</summary>
    public bool AcceptsLoss { get; init; }
}

/// <summary>Where a world-line branched off the one before.</summary>
/// <param name="WorldLine">Its number.</param>
/// <param name="Branch">The last version of the world-line before that is part of it.</param>
public readonly record struct WorldLineBranch(WorldLine WorldLine, VersionNumber Branch);

/// <summary>Which versions of an older world-line are still part of the current one.</summary>
public static class WorldLineBranches
{
    /// <summary>The last version of a world-line that every later branch kept; what lies above is void (invariant I5).</summary>
    /// <param name="of">The world-line that wrote the versions.</param>
    /// <param name="branches">All world-lines of the metadata, in any order.</param>
    public static VersionNumber LastValid(WorldLine of, IEnumerable<WorldLineBranch> branches)
    {
        VersionNumber last = new(long.MaxValue);
        foreach (WorldLineBranch b in branches)
            if (b.WorldLine > of) last = VersionNumber.Min(last, b.Branch);
        return last;
    }
}

/// <summary>How a shard goes on.</summary>
public abstract record RecoveryDecision
{
    private RecoveryDecision()
    {
    }

    /// <summary>Attach where the log ends: nothing was lost, the world-line goes on.</summary>
    public sealed record Continue : RecoveryDecision;

    /// <summary>Begin with an empty store and an empty log.</summary>
    public sealed record FirstStartEmpty : RecoveryDecision;

    /// <summary>Begin, or begin anew, with an empty store at a version that the cluster cannot go back behind: the shard has yet to
    /// join.</summary>
    public sealed record BeginToJoin(WorldPoint At) : RecoveryDecision;

    /// <summary>Adopt the store's data by a checkpoint while it serves; the log begins there. If a world-line is given it has
    /// to be started first, at the branch: the data is not the history that the cluster had.</summary>
    public sealed record TakeOverByCheckpoint(WorldLine? NewWorldLine, VersionNumber Branch) : RecoveryDecision;

    /// <summary>Write the content of an older version as the next one: bring the store to that content, begin a world-line at the branch,
    /// and let what is kept begin anew with it. Nothing is taken back: version numbers and cuts go on from where they were.</summary>
    /// <param name="WorldLine">The world-line that begins.</param>
    /// <param name="Version">Whose content it is.</param>
    /// <param name="Branch">The last version that is proved. The branch is there, or where the other shards have it.</param>
    /// <param name="Begins">Whether the world-line has to be started first; if not, it branches there.</param>
    public sealed record GoOnFrom(WorldLine WorldLine, VersionNumber Version, VersionNumber Branch, bool Begins) : RecoveryDecision;

    /// <summary>Bring the store back to a boundary of the log, in another world-line.</summary>
    /// <param name="WorldLine">The world-line that begins there.</param>
    /// <param name="Last">The last boundary that the log proves. The branch is there, or where the other shards have it.</param>
    /// <param name="Begins">Whether the world-line has to be started first; if not, others have started it, and branched there.</param>
    public sealed record RestoreFromLog(WorldLine WorldLine, Boundary Last, bool Begins) : RecoveryDecision;

    /// <summary>The same history goes on, but the log has to begin again from a fresh checkpoint. What the old log holds
    /// stays until a boundary behind the checkpoint is durable.</summary>
    public sealed record GapCheckpoint : RecoveryDecision;

    /// <summary>Ask again later: nothing can be said before the store answers.</summary>
    public sealed record WaitForStore(string Text) : RecoveryDecision;

    /// <summary>Stop, and tell the operator why and what to do.</summary>
    public sealed record Refuse(string Text) : RecoveryDecision;
}
