// Who owns what, as the metadata holds it: the map, and the moves that are not finished. This is the one truth about
// ownership (paper, section 5.3), and these are all the ways in which it changes. Immutable and pure: SQL performs a change
// in one transaction by reading the rows, applying it here, and writing the result if the revision is still what it was.
//
// A move has two versions. Its boundary v: the old owner has served the slots up to there and no further, and said so. Its
// landing w > v: a version that the new owner has closed, and which holds the whole copy. So the old owner owns in the
// versions up to v, nobody in those between, the new owner from w on. A recovery to a cut at or above w finds the data at
// the new owner; to one below w only the old owner has it, and owns again. v alone would not do: the copy takes time, and
// a cut between v and w has no whole copy.
//
// A change is made by a process of a shard, under its epoch: of a process that was replaced nothing may arrive late.
using System.Collections.Immutable;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Ownership;

/// <summary>The name of a move: the revision that brought it.</summary>
public readonly record struct MoveId(long Number);

/// <summary>Serial number of the processes that own a shard, one after the other; the newest may write.</summary>
public readonly record struct OwnerEpoch(long Number);

/// <summary>How far a move is. By this alone it is decided who owns its slots.</summary>
public enum MoveState
{
    /// <summary>The old owner owns and serves; the data is being copied meanwhile.</summary>
    Planned,

    /// <summary>The old owner owns, but has renounced: nobody serves, the last changes are being copied.</summary>
    Leaving,

    /// <summary>The new owner owns and serves; the old one has data to delete, once the cut has passed the landing.</summary>
    Landed,

    /// <summary>The old owner owns and serves; the new one may have data to delete.</summary>
    Cancelled,

    /// <summary>Nothing is left to do: such a row is removed.</summary>
    Finished,
}

/// <summary>A row of a move.</summary>
/// <param name="Id">Its name.</param>
/// <param name="Slots">What moves; at least one range, and nothing of another move's.</param>
/// <param name="From">The old owner.</param>
/// <param name="To">The new owner.</param>
/// <param name="State">How far it is.</param>
/// <param name="Boundary">v: the last version in which the old owner served; set from Leaving on.</param>
/// <param name="Landed">w: the version of the new owner that holds the data; set in Landed.</param>
/// <param name="Changed">The revision that brought the row to what it says. A state may come again, a revision does not.</param>
public sealed record SlotMove(
    MoveId Id, ImmutableArray<SlotRange> Slots, ShardId From, ShardId To, MoveState State, VersionNumber Boundary, VersionNumber Landed,
        MapRevision Changed)
{
    /// <summary>Who has data of the slots to delete when the move is over.</summary>
    public ShardId Loser => State == MoveState.Cancelled ? To : From;
}

/// <summary>A move that is finished, and has landed: who had its slots before.</summary>
/// <param name="Id">Its name.</param>
/// <param name="Slots">What has moved.</param>
/// <param name="From">The old owner.</param>
/// <param name="To">The new owner.</param>
/// <param name="Landed">The first version whose state of the slots the new owner has; that of those before, the old one.</param>
public sealed record PastMove(MoveId Id, ImmutableArray<SlotRange> Slots, ShardId From, ShardId To, VersionNumber Landed)
{
    /// <summary>Whether a slot has moved.</summary>
    public bool Has(HashSlot slot) => Slots.Any(s => s.Contains(slot));
}

/// <summary>A step of a move as a compare-and-set.</summary>
/// <param name="Move">Which.</param>
/// <param name="WorldLine">The timeline in which it was decided.</param>
/// <param name="Expected">The row's <see cref="SlotMove.Changed"/> when it was decided: it must not have changed since.</param>
/// <param name="State">What the row has to say.</param>
/// <param name="Next">What it says then.</param>
/// <param name="Version">The boundary for Leaving, the landing for Landed, for Finished a version of the loser that holds its deletion, else
/// 0.</param>
/// <param name="By">The shard whose step it is.</param>
/// <param name="Epoch">The epoch of the process that decided it.</param>
public readonly record struct MoveChange(
    MoveId Move, WorldLine WorldLine, MapRevision Expected, MoveState State, MoveState Next, VersionNumber Version, ShardId By,
        OwnerEpoch Epoch);

/// <summary>What became of a change.</summary>
public enum ChangeOutcome
{
    /// <summary>It is made.</summary>
    Applied,

    /// <summary>It had been made before: its answer was lost.</summary>
    AlreadyApplied,

    /// <summary>The row says something else, or the cluster is in another world-line: read the table.</summary>
    Refused,

    /// <summary>Another process took the shard: this one has to stop serving it.</summary>
    Deposed,
}

/// <summary>The map and the moves. Source: DPR, section 5.3; design, section 7.</summary>
/// <param name="Revision">Which state of it this is.</param>
/// <param name="WorldLine">The cluster's current timeline.</param>
/// <param name="Map">Who owns which slot.</param>
/// <param name="Moves">The moves that are not finished, oldest first. No slot is in two of them.</param>
public sealed record OwnershipTable(MapRevision Revision, WorldLine WorldLine, SlotMap Map, ImmutableArray<SlotMove> Moves)
{
    /// <summary>From this version on the data of each slot is where the map says, and nowhere else, unless a move is unfinished. So what was
    /// there then can be read by this map.</summary>
    public VersionNumber Settled { get; init; }

    /// <summary>Most moves that are remembered.</summary>
    public const int PastMax = 1000;

    /// <summary>The moves that are finished and have landed, as they were finished: of those since <see cref="KnownFrom"/>.</summary>
    public ImmutableArray<PastMove> Past { get; init; } = [];

    /// <summary>From this version on it is known who had which slot.</summary>
    public VersionNumber KnownFrom { get; init; }

    /// <summary>Who has the state of which slot at the end of a version.</summary>
    /// <param name="version">The version, not below <see cref="KnownFrom"/>. It was committed before the table was read.</param>
    /// <remarks>Between the boundary and the landing of a move nobody changes anything. So the old owner has the state up to the landing,
    /// also in a version above the landing of a move that lands later: what the new owner serves then is in later versions.</remarks>
    public SlotMap MapAt(VersionNumber version)
    {
        // Each move of a slot begins when the one before is finished.
        var later = Landings.Reverse().Where(m => version < m.Landed).Select(m => (m.Slots, m.From)).ToList();
        return later.Count == 0 ? Map : Map.Move(later);
    }

    /// <summary>Whether <see cref="MapAt"/> says of a version what every later table will say of it. What has to be the same at all shards,
    /// each of which reads the table for itself, is to wait for that: while the last changes of a move are copied it may land in a version
    /// that is committed already, and else it does not.</summary>
    /// <param name="version">The version. It was committed before the table was read.</param>
    public bool IsCertainAt(VersionNumber version) => !Moves.Any(m => m.State == MoveState.Leaving && m.Boundary < version);

    /// <summary>All moves that have landed since <see cref="KnownFrom"/>: those of one slot in order.</summary>
    public IEnumerable<PastMove> Landings => Past.Concat(Moves.Where(m => m.State == MoveState.Landed)
        .Select(m => new PastMove(m.Id, m.Slots, m.From, m.To, m.Landed)));

    /// <summary>The first version behind one in which a move has landed from or to a shard; null: none has.</summary>
    public VersionNumber? NextLanding(ShardId shard, VersionNumber behind) => FirstOf(Landings.Where(m =>
        (m.From == shard || m.To == shard) && m.Landed > behind));

    /// <summary>The move by which the shard that does the commands of a version on a slot came to have it: what was done before was done at
    /// <see cref="PastMove.From"/>. Null: none is known.</summary>
    public PastMove? BroughtBefore(HashSlot slot, VersionNumber version) =>
        Landings.LastOrDefault(m => m.Has(slot) && m.Landed < version);

    /// <summary>The first version, at or above one, at whose end a shard has slots; null: it has none since.</summary>
    /// <param name="shard">The shard.</param>
    /// <param name="version">Not below <see cref="KnownFrom"/>.</param>
    public VersionNumber? HasSlotsFrom(ShardId shard, VersionNumber version) => MapAt(version).Rows.Any(r => r.Shard == shard) ? version
        : FirstOf(Landings.Where(m => m.To == shard && m.Landed > version));

    /// <summary>The shards that have slots at the end of one of some versions, in order.</summary>
    /// <param name="from">The first version, not below <see cref="KnownFrom"/>.</param>
    /// <param name="to">The last.</param>
    public IReadOnlyList<ShardId> OwnersIn(VersionNumber from, VersionNumber to) => [.. MapAt(from).Rows.Select(r => r.Shard)
        .Concat(Landings.Where(m => m.Landed > from && m.Landed <= to).Select(m => m.To)).Distinct().OrderBy(s => s.Number)];

    private static VersionNumber? FirstOf(IEnumerable<PastMove> moves) =>
        moves.Min(m => (long?)m.Landed.Number) is { } landed ? new(landed) : null;

    /// <summary>Plans a move. All of its slots have to have the same owner, and none may be part of an unfinished move.</summary>
    /// <param name="slots">What is to move.</param>
    /// <param name="to">The new owner.</param>
    /// <param name="error">For a person: why not.</param>
    /// <returns>The table with it, or null.</returns>
    public OwnershipTable? Plan(ImmutableArray<SlotRange> slots, ShardId to, out string? error)
    {
        if (slots.IsDefaultOrEmpty || !slots.All(s => s.IsValid && s.Last.Number < Map.Count))
        {
            error = $"Slots are ranges within 0 to {Map.Count - 1}, at least one.";
            return null;
        }

        ShardId from = Map.Owner(slots[0].First);
        error = from == to ? $"Shard {to} owns slots {slots[0]} already." : null;
        foreach (SlotRange range in slots)
        {
            foreach (SlotRow row in Map.Rows)
                if (row.Slots.Overlaps(range) && row.Shard != from)
                    error ??= $"Slots {row.Slots} belong to shard {row.Shard}, slots {slots[0]} to shard {from}: move them one "
                        + "owner at a time.";
            foreach (SlotMove move in Moves)
                if (move.Slots.Any(s => s.Overlaps(range)))
                    error ??= $"Slots {range} are part of move {move.Id.Number} from shard {move.From} to shard {move.To}, which is not "
                        + "finished.";
        }

        SlotMove planned = new(new(Revision.Next.Number), slots, from, to, MoveState.Planned, VersionNumber.Zero, VersionNumber.Zero,
            Revision.Next);
        return error is null ? this with { Revision = Revision.Next, Moves = Moves.Add(planned) } : null;
    }

    /// <summary>Calls off a move that has not landed.</summary>
    /// <returns>The table without it, or null: there is no such move, or it has landed.</returns>
    public OwnershipTable? Cancel(MoveId id) => Find(id) is { State: MoveState.Planned or MoveState.Leaving } move
        ? With(move, move with { State = MoveState.Cancelled })
        : null;

    /// <summary>Makes a step of a move.</summary>
    /// <param name="change">The step.</param>
    /// <param name="newest">The newest epoch of the shard whose step it is.</param>
    /// <returns>What became of it, and the table after it.</returns>
    /// <exception cref="ArgumentException">Such a step does not exist, or the landing is not behind the boundary.</exception>
    public (ChangeOutcome Outcome, OwnershipTable Table) Apply(in MoveChange change, OwnerEpoch newest)
    {
        if (change.Epoch != newest) return (ChangeOutcome.Deposed, this);
        SlotMove? move = Find(change.Move);
        if (move is null) return (change.Next == MoveState.Finished ? ChangeOutcome.AlreadyApplied : ChangeOutcome.Refused, this);
        bool byOld = change.By == move.From, byNew = change.By == move.To;
        SlotMove next = (change.State, change.Next) switch
        {
            (MoveState.Planned, MoveState.Leaving) when byOld => move with { State = MoveState.Leaving, Boundary = change.Version },
            (MoveState.Leaving, MoveState.Planned) when byOld => move with { State = MoveState.Planned, Boundary = VersionNumber.Zero },
            (MoveState.Leaving, MoveState.Landed) when byNew => move with { State = MoveState.Landed, Landed = change.Version },
            (MoveState.Landed, MoveState.Finished) when byOld => move with { State = MoveState.Finished },
            (MoveState.Cancelled, MoveState.Finished) when byNew => move with { State = MoveState.Finished },
            _ => throw new ArgumentException($"Shard {change.By} cannot bring a move from {change.State} to {change.Next}.",
                nameof(change)),
        };
        if (change.WorldLine != WorldLine) return (ChangeOutcome.Refused, this);
        if (move.State != change.State || move.Changed != change.Expected)
        {
            bool made = move.State == change.Next && move.Changed > change.Expected
                && (change.Next == MoveState.Landed ? move.Landed : move.Boundary) == change.Version;
            return (made ? ChangeOutcome.AlreadyApplied : ChangeOutcome.Refused, this);
        }

        if (change.Next == MoveState.Landed && change.Version <= move.Boundary)
            throw new ArgumentException($"A move of the boundary {move.Boundary} cannot land in version {change.Version}.", nameof(change));
        OwnershipTable table = With(move, next);
        if (change.Next == MoveState.Finished)
        {
            table = table with { Settled = VersionNumber.Max(Settled, change.Version) };
            if (move.State == MoveState.Landed) table = table.Remember(new(move.Id, move.Slots, move.From, move.To, move.Landed));
        }

        return (ChangeOutcome.Applied, table);
    }

    /// <summary>What a recovery makes of it; part of the transaction that starts the world-line. What has landed within the cut
    /// stays; every other move begins again, and its slots are the old owner's, which has kept its data.</summary>
    /// <param name="worldLine">The new timeline.</param>
    /// <param name="cut">Where it branches off.</param>
    public OwnershipTable Recover(WorldLine worldLine, VersionNumber cut)
    {
        OwnershipTable table = this;
        foreach (SlotMove move in Moves)
        {
            if (move.State == MoveState.Leaving || (move.State == MoveState.Landed && move.Landed > cut))
                table = table.With(move,
                    move with { State = MoveState.Planned, Boundary = VersionNumber.Zero, Landed = VersionNumber.Zero });
        }

        return table with { Revision = table.Revision.Next, WorldLine = worldLine };
    }

    private OwnershipTable Remember(PastMove move) => Past.Length < PastMax ? this with { Past = Past.Add(move) } : this with
    {
        Past = Past.RemoveAt(0).Add(move), KnownFrom = VersionNumber.Max(KnownFrom, Past[0].Landed),
    };

    private SlotMove? Find(MoveId id) => Moves.FirstOrDefault(m => m.Id == id);

    private OwnershipTable With(SlotMove before, SlotMove after) => this with
    {
        Revision = Revision.Next,
        Map = before.State == MoveState.Landed && after.State == MoveState.Planned ? Map.Move(after.Slots, after.From)
            : after.State == MoveState.Landed ? Map.Move(after.Slots, after.To) : Map,
        Moves = after.State == MoveState.Finished ? Moves.Remove(before) : Moves.Replace(before, after with { Changed = Revision.Next }),
    };
}
