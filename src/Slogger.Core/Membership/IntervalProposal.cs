// A change of the interval as the metadata holds it. Immutable and pure: SQL performs a step in one transaction by reading the row,
// applying the step here, and writing the result. Versions must mean the same time everywhere, so nobody may go by the old grid when
// another goes by the new one: a change is proposed for a time, every shard agrees (GridFollower says what it is bound to from then on),
// and only then there is another stretch. All steps hold the cluster's lock, so nobody agrees to what is over.
using Slogger.Core.Versions;

namespace Slogger.Core.Membership;

/// <summary>The grid, and the change of its interval that is proposed.</summary>
/// <param name="Grid">The grid.</param>
/// <param name="ChangeUs">When the interval is to change, in microseconds since the Unix epoch: what names the proposal. 0: none is
/// open.</param>
/// <param name="IntervalUs">What it is to be; 0 if none is open.</param>
public sealed record IntervalProposal(VersionGrid Grid, long ChangeUs, long IntervalUs)
{
    /// <summary>Proposes a change.</summary>
    /// <param name="intervalUs">The new interval.</param>
    /// <param name="fromUs">When: far enough ahead for all shards to look before.</param>
    /// <param name="agreedLastUs">The latest change that any shard has ever agreed to: no two proposals have one name, since an agreement
    /// is to one of them.</param>
    /// <returns>The proposal; null if one is open, or the interval is as asked for already.</returns>
    public IntervalProposal? Propose(long intervalUs, long fromUs, long agreedLastUs) =>
        Propose(intervalUs, fromUs, agreedLastUs, GridMutation.None);

    internal IntervalProposal? Propose(long intervalUs, long fromUs, long agreedLastUs, GridMutation mutation)
    {
        if (ChangeUs > 0 || Grid.Stretches[^1].IntervalUs == intervalUs) return null;
        return this with { ChangeUs = mutation == GridMutation.AnyAgreementCounts ? fromUs
            : Math.Max(fromUs, agreedLastUs + 1), IntervalUs = intervalUs };
    }

    /// <summary>Whether an agreement is to what is proposed now.</summary>
    /// <param name="agreedUs">The change that the shard agrees to; 0: it only looks.</param>
    public bool Takes(long agreedUs) => agreedUs > 0 && agreedUs == ChangeUs;

    /// <summary>Whether a shard that has not agreed stands in the way.</summary>
    /// <param name="state">Where it stands: one that has left goes by no grid.</param>
    /// <param name="epoch">Its epoch; 0: it has never run, and reads the grid when it starts.</param>
    /// <param name="agreedUs">The change that it has agreed to last.</param>
    public bool Misses(MemberState state, long epoch, long agreedUs) => Misses(state, epoch, agreedUs, GridMutation.None);

    internal bool Misses(MemberState state, long epoch, long agreedUs, GridMutation mutation) =>
        state != MemberState.Left && epoch > 0 && (mutation == GridMutation.AnyAgreementCounts ? agreedUs == 0 : agreedUs != ChangeUs);

    /// <summary>Ends the proposal.</summary>
    /// <param name="changeUs">Which one.</param>
    /// <param name="isAgreed">Whether nobody stands in the way.</param>
    /// <param name="giveUp">If somebody does, it is over: its time has passed.</param>
    /// <returns>The grid after it: with another stretch, from the first grid point at or after the proposed time on, if all have agreed.
    /// Null: nothing changes, since it is not open any more, or yet to be agreed to.</returns>
    public IntervalProposal? Settle(long changeUs, bool isAgreed, bool giveUp) => Settle(changeUs, isAgreed, giveUp, GridMutation.None);

    internal IntervalProposal? Settle(long changeUs, bool isAgreed, bool giveUp, GridMutation mutation)
    {
        isAgreed |= mutation == GridMutation.AppliedWithoutAll;
        if (ChangeUs != changeUs || (!isAgreed && !giveUp)) return null;
        return new(isAgreed ? new(Grid.Stretches.Add(Grid.Stretches[^1].Successor(IntervalUs, ChangeUs))) : Grid, 0, 0);
    }
}
