// The shard's half of libDPR: may a batch be executed now, and if not, what has to happen first (DPR, sections 3.2, 4.2 and
// 6; design, sections 3 and 7; invariant I5). Pure decisions: the shard performs them.
//
// Contract with the caller
// - The decision and the execution are one step for the shard: neither its world-line nor its open version changes
//   between them, except that the open version may grow.
// - Batches of one session are decided in their order: one that waits holds up those behind it. When it is let go, or after
//   a fast-forward, it is decided again.
// - A batch that is refused is never executed, and neither is what the session sent behind it on that connection, which is
//   closed: the session's later headers rest on the shard having had the earlier ones.
using Slogger.Core.Identities;
using Slogger.Core.Recovery;
using Slogger.Core.Sessions;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Shards;

/// <summary>Settings of a <see cref="BatchGate"/>.</summary>
public sealed record BatchGateOptions
{
    /// <summary>How far the clocks of two shards may be apart, in microseconds: e. Default 0: batches never wait for the
    /// clock and replies of a version that has begun are not held, which keeps order in real time only where one clock serves all
    /// shards.</summary>
    public long ClockErrorUs { get; init; }

    /// <summary>A version that opens later than this from now, in microseconds, was not given out by a sane shard. Default
    /// 500 ms, as for the clock's own remote timestamps; no less than <see cref="ClockErrorUs"/>.</summary>
    public long RemoteAheadMaxUs { get; init; } = 500_000;
}

/// <summary>What the gate has to know of its shard.</summary>
/// <param name="WorldLine">The timeline that the store is in.</param>
/// <param name="Open">The version of what is executed now.</param>
/// <param name="Grid">The cluster's clock grid.</param>
/// <param name="Branches">Where the world-lines up to this one branched off; only looked at for a session of an older one.</param>
public readonly record struct GateShard(
    WorldLine WorldLine, VersionNumber Open, VersionGrid Grid, IReadOnlyCollection<WorldLineBranch> Branches)
{
    /// <summary>Until then the grid is known: what opens later may open sooner, by a stretch that the shard has not heard of. In
    /// microseconds since the Unix epoch.</summary>
    public long GridValidUntilUs { get; init; } = long.MaxValue;
}

/// <summary>What is to be done with a batch.</summary>
public enum GateVerdict
{
    /// <summary>Execute it, in the open version.</summary>
    Execute,

    /// <summary>The session is ahead by less than the clocks' error: the open version will get there by itself.</summary>
    WaitUntil,

    /// <summary>Close the open version, so that the one wanted or a later one opens; then execute.</summary>
    FastForward,

    /// <summary>Refuse it: no sane clock can have given out a version so far ahead.</summary>
    RefuseAhead,

    /// <summary>Refuse it: the session has to roll back first.</summary>
    Rollback,

    /// <summary>Keep it until this shard has restored its store for the session's world-line.</summary>
    WaitForWorldLine,

    /// <summary>Keep it until this shard knows the clock grid again: others may have given out the version by now.</summary>
    WaitForGrid,
}

/// <summary>A decision of the gate.</summary>
/// <param name="Verdict">What to do.</param>
/// <param name="Until">WaitUntil: when the wanted version opens by the clock.</param>
/// <param name="Version">FastForward: the version that has to be open, at least.</param>
/// <param name="Branch">Rollback: the shard's world-line, and the lowest version at which a world-line since the session's
/// branched off. It counts for what was done in that world-line only, so the session has to be told which that is. With cuts
/// of one version for each shard it needs the branches of all of them instead.</param>
public readonly record struct GateDecision(
    GateVerdict Verdict, HybridTimestamp Until = default, VersionNumber Version = default, WorldPoint Branch = default);

/// <summary>Decides about batches and their replies. Immutable.</summary>
public sealed class BatchGate
{
    private readonly BatchGateOptions _options;
    private readonly GateMutation _mutation;

    /// <summary>Makes a gate.</summary>
    /// <exception cref="ArgumentOutOfRangeException">The error bound is negative, or larger than the bound for remote versions.</exception>
    public BatchGate(BatchGateOptions options)
        : this(options, GateMutation.None)
    {
    }

    internal BatchGate(BatchGateOptions options, GateMutation mutation)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(options.ClockErrorUs, nameof(options));
        ArgumentOutOfRangeException.ThrowIfLessThan(options.RemoteAheadMaxUs, options.ClockErrorUs, nameof(options));
        _options = options;
        _mutation = mutation;
    }

    /// <summary>What to do with a batch now.</summary>
    /// <param name="header">Its header.</param>
    /// <param name="shard">The shard as it is.</param>
    /// <param name="now">The shard's clock, read after the batch was received.</param>
    public GateDecision Decide(in BatchHeader header, in GateShard shard, HybridTimestamp now)
    {
        if (header.WorldLine < shard.WorldLine && _mutation != GateMutation.OlderWorldLineExecutes)
            return new(GateVerdict.Rollback, Branch: new(shard.WorldLine, WorldLineBranches.LastValid(header.WorldLine, shard.Branches)));
        if (header.WorldLine > shard.WorldLine && _mutation != GateMutation.NewerWorldLineExecutes)
            return new(GateVerdict.WaitForWorldLine);
        if (header.AtLeast <= shard.Open || _mutation == GateMutation.EarlierVersionExecutes)
            return new(GateVerdict.Execute);

        // Looked up by time, not by version: a nonsensical version must not be computed with.
        long furthestUs = now.Microseconds + _options.RemoteAheadMaxUs;
        if (header.AtLeast > shard.Grid.VersionAt(furthestUs) && _mutation == GateMutation.FarAheadExecutes)
            return new(GateVerdict.Execute);
        if (header.AtLeast > shard.Grid.VersionAt(furthestUs))
            return new(furthestUs <= shard.GridValidUntilUs ? GateVerdict.RefuseAhead : GateVerdict.WaitForGrid);
        long opensUs = shard.Grid.StartOf(header.AtLeast), aheadUs = opensUs - now.Microseconds;
        // This grid may not hold any more, and the version may have opened elsewhere much sooner. A clock that is set by it would be ahead
        // of all others.
        if (opensUs > shard.GridValidUntilUs && _mutation != GateMutation.OldGridTranslates) return new(GateVerdict.WaitForGrid);
        // Due by this clock already: there is nothing to wait for but the shard's own closing.
        return aheadUs > 0 && aheadUs <= _options.ClockErrorUs
            ? new(GateVerdict.WaitUntil, Until: HybridTimestamp.Of(opensUs, 0))
            : new(GateVerdict.FastForward, Version: header.AtLeast);
    }

    /// <summary>The earliest time, by the shard's clock, at which replies of a version may leave: then every clock of the
    /// cluster is past the version's opening, so that whoever hears the reply finds no shard in an earlier version. With one clock for
    /// all that matters only where a version was opened before its time: at an ordered end.</summary>
    /// <param name="version">The highest version of the reply.</param>
    /// <param name="grid">The cluster's clock grid.</param>
    public HybridTimestamp HoldReplyUntil(VersionNumber version, VersionGrid grid) =>
        _mutation == GateMutation.OneClockHoldsNothing && _options.ClockErrorUs == 0 ? default
            : HybridTimestamp.Of(grid.StartOf(version) + _options.ClockErrorUs, 0);

    /// <summary>The reply to a batch that was executed.</summary>
    /// <param name="header">Its header.</param>
    /// <param name="executed">In which versions, in order; neighbours of the same version are joined in place. The reply refers
    /// to this memory.</param>
    /// <param name="cut">The cut that the shard knows.</param>
    /// <exception cref="BrokenInvariantException">It was executed in an earlier version than the session had seen,
    /// or its versions decrease.</exception>
    /// <exception cref="ArgumentException">The counts do not add up to that of the header.</exception>
    public static BatchReply ReplyFor(in BatchHeader header, Memory<VersionRun> executed, WorldPoint cut)
    {
        Span<VersionRun> runs = executed.Span;
        int last = -1;
        long count = 0;
        VersionNumber atLeast = header.AtLeast;
        foreach (VersionRun run in runs)
        {
            if (run.Version < atLeast)
                throw new BrokenInvariantException($"I1: session {header.Session}: of a batch from operation {header.First} on, some was "
                    + $"executed in version {run.Version}, although version {atLeast} had been seen before.");
            atLeast = run.Version;
            count += run.Count;
            if (last >= 0 && runs[last].Version == run.Version) runs[last] = new(runs[last].Count + run.Count, run.Version);
            else runs[++last] = run;
        }

        if (count != header.Count)
            throw new ArgumentException($"A batch of {header.Count} operations was answered as one of {count}.", nameof(executed));
        return new(header.WorldLine, executed[..(last + 1)], cut);
    }
}

/// <summary>Deliberate faults for the tests of the tests; see ShardMutation.</summary>
internal enum GateMutation
{
    None,

    /// <summary>A session of an older world-line is served.</summary>
    OlderWorldLineExecutes,

    /// <summary>A session of a newer world-line is served.</summary>
    NewerWorldLineExecutes,

    /// <summary>Operations are executed in an earlier version than the session has seen.</summary>
    EarlierVersionExecutes,

    /// <summary>A session that is too far ahead is served as if it were not ahead.</summary>
    FarAheadExecutes,

    /// <summary>A version is looked up in a grid that may not hold any more, and the clock set to what it says.</summary>
    OldGridTranslates,

    /// <summary>Where one clock serves all shards, replies of versions that were opened before their time leave at once.</summary>
    OneClockHoldsNothing,
}
