// The order in which a shard goes back in a store that is alive: only the keys that were written above the branch are put back. Driven by
// the shard's recovery in the product, and by the simulator. RollbackChoice says whether it can be done at all.
//
// The driver calls Next, does the step, reports what the step asks for, and calls Next again. It decides nothing. A step that cannot be
// done is reported by Failed, and ends the sequence: the store is as it was, or in no defined state, and everything is to be restored.
// Before that the driver waits for what it does beside. The process may end at each step.
//
// The order of the steps is what keeps the invariants:
// - Clients are shut out before anything is read: nothing of theirs is executed behind what is put back (I5).
// - All that may be in the way is known before anything changes: the plan is made first.
// - The store is noted before the log begins the world-line. From then on the log alone would say that a store of this identity stands
//   where the log ends (I1, I5).
// - The log begins the world-line beside the change of the store, in any order. A start that finds the log in the old world-line knows by
//   SQL that it is left, and goes back again. So clients do not wait for the disk.
// - What somebody else wrote before the transaction was not known when it was made, and is put back by another one (I1).
// - Where the last transaction ends the store stands at the branch. There the log goes on, so that neither what was undone nor what
//   undid it is in the log (I5). The expiries come behind that place: a key whose time is over is deleted there, in store and log.
// - The log is filled when its world-line has begun: to begin one takes out what stands above the branch.
// - The note is forgotten when the log holds that filler, durably: a start in between would go on with what was undone (I5).
namespace Slogger.Core.Recovery;

/// <summary>One rollback in place. For one use, by one caller at a time.</summary>
public sealed class RollbackInPlace
{
    /// <summary>So many transactions at most.</summary>
    public const int PassesMax = 5;

    private readonly RollbackPlace _branch;
    private readonly RollbackMutation _mutation;
    private readonly IEnumerator<RollbackStep> _steps;
    private RollbackPlace _found;
    private bool _haveOthersWritten;

    /// <summary>A rollback that has yet to begin.</summary>
    /// <param name="branch">Where the branch is in the log.</param>
    public RollbackInPlace(RollbackPlace branch) : this(branch, RollbackMutation.None)
    {
    }

    internal RollbackInPlace(RollbackPlace branch, RollbackMutation mutation) =>
        (_branch, _mutation, _steps) = (branch, mutation, Steps());

    /// <summary>All steps are done: the shard follows a store that is at the branch.</summary>
    public bool IsDone { get; private set; }

    /// <summary>Why it came to nothing, for a person; null: it has not.</summary>
    public string? Reason { get; private set; }

    /// <summary>The next step.</summary>
    /// <param name="step">What to do.</param>
    /// <returns>False: the sequence is over.</returns>
    public bool Next(out RollbackStep step)
    {
        bool isMore = Reason is null && _steps.MoveNext();
        step = isMore ? _steps.Current : default;
        return isMore;
    }

    /// <summary>A step cannot be done.</summary>
    /// <param name="reason">Why, for a person. The first one stays.</param>
    public void Failed(string reason) => Reason ??= reason;

    /// <summary>FindTransaction: it was found.</summary>
    /// <param name="place">Where it ends in the stream.</param>
    /// <param name="haveOthersWritten">Whether somebody else wrote a key before it that it does not put back.</param>
    public void Found(RollbackPlace place, bool haveOthersWritten) => (_found, _haveOthersWritten) = (place, haveOthersWritten);

    private IEnumerator<RollbackStep> Steps()
    {
        if (!Is(RollbackMutation.ClientsNotShutOut)) { yield return new(RollbackStepKind.ShutOut); }
        yield return new(RollbackStepKind.ReadUndone);
        int passes = 0;
        do
        {
            if (passes == PassesMax)
            {
                if (Is(RollbackMutation.LastPassCounts)) { break; }
                Failed("others keep writing to the store");
                yield break;
            }
            // The log is read again, and changes only once.
            if (passes > 0) { yield return new(RollbackStepKind.AwaitBranch); }
            yield return new(RollbackStepKind.Plan);
            if (passes == 0)
            {
                RollbackStep note = Beside(RollbackStepKind.NoteStore), begin = Beside(RollbackStepKind.BeginWorldLine);
                bool isLate = Is(RollbackMutation.NotedBehindWorldLine);
                if (isLate) { yield return begin; }
                if (!Is(RollbackMutation.StoreNotNoted)) { yield return note; }
                if (!isLate) { yield return begin; }
            }
            yield return new(RollbackStepKind.PutBack);
            yield return new(RollbackStepKind.FindTransaction);
            passes++;
        }
        while (_haveOthersWritten && !Is(RollbackMutation.OnePassOnly));
        yield return new(RollbackStepKind.GiveExpiriesBack);
        if (!Is(RollbackMutation.BranchNotAwaited)) { yield return new(RollbackStepKind.AwaitBranch); }
        RollbackPlace place = Is(RollbackMutation.AttachesAtBranch) ? _branch : _found;
        yield return new(RollbackStepKind.Attach) { At = place };
        if (Is(RollbackMutation.NoteForgottenEarly)) { yield return new(RollbackStepKind.ForgetNote); }
        yield return new(RollbackStepKind.FillLog) { At = place };
        yield return new(RollbackStepKind.SetIdentity);
        if (!Is(RollbackMutation.NoteForgottenEarly)) { yield return new(RollbackStepKind.ForgetNote); }
        yield return new(RollbackStepKind.Follow) { At = place };
        IsDone = Reason is null;
    }

    private static RollbackStep Beside(RollbackStepKind kind) => new(kind) { IsBeside = true };

    private bool Is(RollbackMutation mutation) => _mutation == mutation;
}
