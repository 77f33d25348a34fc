// Which shards a cluster has, and which of them count (design, section 7, Membership). Immutable and pure: SQL performs a change in one
// transaction by reading the rows, applying it here, and writing the result. Whatever finds a cut goes by what is said here.
//
// Numbers are given out one after the other and never again: a claim, a session or a client that speaks of shard 3 can mean one
// shard only. So cuts stay vectors over all numbers ever given out, and who has left has a place in them that nobody asks about.
//
// A joiner counts from the transaction on that admits it, which it gets into when it can be restored to the recorded cut: before, it is
// in nobody's way, whatever becomes of it; after, the cut that the cluster may go back to is one that it can go back to as well.
// Until then it serves nobody, so that each of its versions is empty and no cut needs it.
//
// A leaver owns no slots, and takes part in no move: what it had is elsewhere, and a move ends only when no recovery can undo it.
// It stops serving, and counts until the recorded cut has come to the last version in which it served: a version of its own may have been
// open beyond its time, and while it counts no cut falls into what others count to several. One
// that is dead cannot say so: a world-line is begun in its name first, so that nothing above its last claim is ever committed.
using System.Collections.Immutable;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Membership;

/// <summary>Where a shard stands.</summary>
public enum MemberState
{
    /// <summary>It counts, and may own slots.</summary>
    Member,

    /// <summary>It has a number and does not count: it serves nobody.</summary>
    Joining,

    /// <summary>It counts, owns nothing and will not: its proxy closes its last version.</summary>
    Leaving,

    /// <summary>It does not count, and will not again.</summary>
    Left,
}

/// <summary>What becomes of a change: the members after it, or why it is refused.</summary>
/// <param name="After">Null: refused.</param>
/// <param name="Error">For a person; null: done.</param>
public readonly record struct MemberChange(Members? After, string? Error);

/// <summary>The shards of a cluster, by number.</summary>
/// <param name="MadeWith">How many the cluster had when it was made.</param>
/// <param name="States">One for each number given out.</param>
public sealed record Members(int MadeWith, ImmutableArray<MemberState> States)
{
    /// <summary>The members of a new cluster.</summary>
    public static Members New(int count) => new(count, [.. Enumerable.Repeat(MemberState.Member, count)]);

    /// <summary>Whether a shard's claims hold and move the cut, and whether a recovery waits for it.</summary>
    public static bool Counts(MemberState state) => Counts(state, MemberMutation.None);

    internal static bool Counts(MemberState state, MemberMutation mutation) =>
        state is MemberState.Member or MemberState.Leaving || (state == MemberState.Joining && mutation == MemberMutation.JoiningCounts);

    /// <summary>Whether a joiner may begin to count: it can be restored to whatever the cluster could go back to from then on.</summary>
    /// <param name="cut">The recorded cut, while nobody can move it.</param>
    /// <param name="claim">What the joiner has durable.</param>
    public static bool Admits(WorldPoint cut, in DurableClaim claim) => Admits(cut, claim, MemberMutation.None);

    internal static bool Admits(WorldPoint cut, in DurableClaim claim, MemberMutation mutation) =>
        (claim.Point.WorldLine == cut.WorldLine || mutation == MemberMutation.AnyWorldLineAdmits)
        && (claim.Restores(cut.Version) || mutation == MemberMutation.AnyClaimAdmits
        || (mutation == MemberMutation.FloorIgnored && claim.Point.Version >= cut.Version));

    /// <summary>The version that a joiner is to open at once, since the cut has passed what it has durable: its clock may stand behind
    /// those of the others for ever. It serves nobody, so what it closes ahead of its clock is empty; whom it lets in later it lets in when
    /// that has come.</summary>
    /// <param name="cut">The recorded cut.</param>
    /// <param name="durable">What the joiner has durable.</param>
    /// <returns>As far beyond the cut as the joiner was behind it, so that the next claim, or one soon after, is not late again; null if it
    /// is not behind.</returns>
    public static VersionNumber? CatchesUpAt(WorldPoint cut, WorldPoint durable) =>
        cut.WorldLine == durable.WorldLine && cut.Version > durable.Version
            ? new(cut.Version.Number + (cut.Version.Number - durable.Version.Number) + 1) : null;

    /// <summary>Gives a number to a shard that is to join. Again, while it is joining or has joined: nothing changes.</summary>
    /// <param name="shard">The number that it is to have: the next one, so that a typing error makes no shard.</param>
    /// <param name="finder">Who finds the cluster's cuts.</param>
    public MemberChange Add(ShardId shard, FinderKind finder)
    {
        int count = States.Length;
        string? error =
            !finder.HasGridCuts ? $"its finder is {finder.Name}: slots do not move there, so another shard could not get any. "
                + "Only clusters of the approximate finder grow"
            : MadeWith == 1 ? "it was made with one shard, whose proxy does not look for others. Make a cluster of several shards, and "
            + "bring the data there"
            : shard.Number < MadeWith ? $"shard {shard} is one that it was made with: leave --join out, or give the number {count}"
            : shard.Number > count ? $"it has given out the numbers 0 to {count - 1}: the next shard to join is {count}"
            : count >= Cut.ShardsMax && shard.Number == count ? $"it has had {count} shards, and cannot have more"
            : shard.Number < count && States[shard.Number] is MemberState.Leaving
            or MemberState.Left ? $"shard {shard} has left it, and numbers are not given out again: the next shard to join is {count}"
            : null;
        if (error is not null) return new(null, error);
        return new(shard.Number == count ? this with { States = States.Add(MemberState.Joining) } : this, null);
    }

    /// <summary>Has a shard leave. One that has not joined yet has left at once. Again: nothing changes.</summary>
    /// <param name="shard">Which.</param>
    /// <param name="owners">Who owns what, as of the same moment.</param>
    public MemberChange Leave(ShardId shard, OwnershipTable owners)
    {
        if (shard.Number < 0 || shard.Number >= States.Length)
            return new(null, $"it has no shard {shard}: its shards are 0 to {States.Length - 1}");
        MemberState state = States[shard.Number];
        if (state is MemberState.Leaving or MemberState.Left) return new(this, null);
        if (state == MemberState.Joining) return new(With(shard, MemberState.Left), null);
        int slots = owners.Map.Rows.Where(r => r.Shard == shard).Sum(r => r.Slots.Last.Number - r.Slots.First.Number + 1);
        SlotMove? move = owners.Moves.FirstOrDefault(m => m.From == shard || m.To == shard);
        string? error =
            slots > 0 ? $"shard {shard} owns {slots} hash slots: move them to others first (slogger move --slots ... --to SHARD; slogger "
                + "move --list shows them)"
            : move is not null ? $"shard {shard} takes part in move {move.Id.Number} from shard {move.From} to shard {move.To}, which is "
            + "not finished (slogger move --list shows it): give the command again when it is"
            : null;
        return error is null ? new(With(shard, MemberState.Leaving), null) : new(null, error);
    }

    /// <summary>A shard takes another state.</summary>
    public Members With(ShardId shard, MemberState state) => this with { States = States.SetItem(shard.Number, state) };
}
