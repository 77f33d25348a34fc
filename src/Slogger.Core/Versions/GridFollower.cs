// A shard's part in a change of the interval (IntervalProposal has the metadata's): with each beat it learns what is proposed, agrees, and
// sees to it that the proposal ends. Without a proposal it asks for nothing.
//
// Contract with the caller
// - A beat begins with Beat; then each step that is handed out is performed, what it has read is given to Learned, and Next says what
//   follows, until that is nothing. A step that fails ends the beat; the next one goes on from what was learned.
// - If Learned says so the shard's machine is told (ShardMachine.GridChanged) before Next is asked, and the clock is read after that: from
//   then on no version is ended beyond the change. Was its time still to come, then none has been; that is what is agreed to.
// - An agreement is answered with the grid of the same transaction. It may have been settled meanwhile: the proposal is known no more
//   then, and no later beat would ask for it.
namespace Slogger.Core.Versions;

/// <summary>What a shard does next about its grid.</summary>
public enum GridStepKind
{
    /// <summary>Nothing more in this beat.</summary>
    None,

    /// <summary>Read the grid; with the agreement to a change, if one is named.</summary>
    Read,

    /// <summary>Have the proposal ended.</summary>
    Settle,
}

/// <summary>A step.</summary>
/// <param name="Kind">What to do.</param>
/// <param name="ChangeUs">Read: the change that the shard agrees to, or 0. Settle: the proposal.</param>
/// <param name="GivesUp">Settle: if not all have agreed it is over.</param>
public readonly record struct GridStep(GridStepKind Kind, long ChangeUs = 0, bool GivesUp = false);

/// <summary>Follows the cluster's grid for a shard. Not thread-safe.</summary>
public sealed class GridFollower
{
    private readonly long _graceUs;
    private readonly GridMutation _mutation;
    private long _agreesTo;

    /// <summary>Starts with what the shard has read when it was taken.</summary>
    /// <param name="view">The grid.</param>
    /// <param name="graceUs">How long after its time a proposal is given up, by whoever sees it open. In microseconds.</param>
    public GridFollower(GridView view, long graceUs)
        : this(view, graceUs, GridMutation.None)
    {
    }

    internal GridFollower(GridView view, long graceUs, GridMutation mutation) => (View, _graceUs, _mutation) = (view, graceUs, mutation);

    /// <summary>The grid, as it was learned last.</summary>
    public GridView View { get; private set; }

    /// <summary>A beat begins.</summary>
    /// <param name="proposedUs">The change that is proposed, as the beat has found it; 0: none. What is proposed is not settled without
    /// this shard: it sees it in time.</param>
    public GridStep Beat(long proposedUs)
    {
        _agreesTo = 0;
        return new(proposedUs > 0 || View.ChangeUs > 0 ? GridStepKind.Read : GridStepKind.None);
    }

    /// <summary>A step has read the grid.</summary>
    /// <returns>Whether the shard's machine is to be told of it.</returns>
    public bool Learned(GridView view)
    {
        bool isNews = view != View;
        View = view;
        return isNews && !(_agreesTo > 0 && _mutation == GridMutation.SettledNotTold);
    }

    /// <summary>What follows.</summary>
    /// <param name="nowUs">The shard's clock, read since its machine was told.</param>
    public GridStep Next(long nowUs)
    {
        if (View.ChangeUs == 0) return default;
        bool isToCome = nowUs < View.ChangeUs || _mutation == GridMutation.AgreesLate;
        if (!isToCome || _agreesTo == View.ChangeUs) return new(GridStepKind.Settle, View.ChangeUs, nowUs > View.ChangeUs + _graceUs);
        _agreesTo = View.ChangeUs;
        return new(GridStepKind.Read, View.ChangeUs);
    }
}
