// A planned change of sites, in which nothing is lost: the primary holds its clients' operations, has all that was answered recorded as a
// cut and shipped, and then the backup takes over as in a failover. If it does not get there in time the primary goes on, and nobody has
// noticed but by a delay.
//
// Two SQLs cannot change together. So before the backup is asked to take over the primary notes that it has been offered to; from then on
// the primary may go on only when the backup's SQL has said that it will not take over (CallOff), which refuses an offer that is still on
// its way. Whoever manages it may die at any step: what comes next follows from what the two say.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Sites;

/// <summary>What comes next.</summary>
public abstract record SwitchOverStep
{
    private SwitchOverStep()
    {
    }

    /// <summary>At the primary: <see cref="SiteState.Hold"/>.</summary>
    public sealed record Hold(long After) : SwitchOverStep;

    /// <summary>Wait: some shard has not noted yet that nothing is under way there; or what it has is not in the recorded cut, or not at
    /// the backup. Name what it waits for to a person.</summary>
    public sealed record Await(string For) : SwitchOverStep;

    /// <summary>At the primary: <see cref="SiteState.Offer"/>.</summary>
    public sealed record Offer(long Number, WorldPoint Cut) : SwitchOverStep;

    /// <summary>At the backup: <see cref="SiteState.TakeOffered"/>; what follows there is a failover (<see cref="Failover"/>).</summary>
    public sealed record Take(long Number) : SwitchOverStep;

    /// <summary>At the backup: <see cref="SiteState.CallOff"/>.</summary>
    public sealed record CallOff(long Number) : SwitchOverStep;

    /// <summary>At the primary: <see cref="SiteState.Resume(long, bool)"/>.</summary>
    public sealed record Resume(long Number, bool IsCalledOff) : SwitchOverStep;

    /// <summary>At the primary: <see cref="SiteState.DeposedBy"/>.</summary>
    public sealed record Depose(SiteEpoch By) : SwitchOverStep;

    /// <summary>It is over.</summary>
    /// <param name="HasSwitched">Whether the backup takes over, or has.</param>
    public sealed record Done(bool HasSwitched) : SwitchOverStep;
}

/// <summary>How far the primary has come with its last versions.</summary>
/// <param name="Held">For each shard that counts: its owner of this moment holds all operations, none is under way, and everything that was
/// ever done is in durable versions up to this point. Null: not yet. A process that takes the shard later says so anew.</param>
/// <param name="Cut">The recorded cut.</param>
/// <param name="Watermark">The backup's watermark, as told by it.</param>
public sealed record SwitchOverProgress(IReadOnlyList<WorldPoint?> Held, WorldPoint Cut, WorldPoint Watermark);

/// <summary>Manages a switch-over. Source: design, section 10.</summary>
public sealed class SwitchOver
{
    private readonly long _deadlineUs;
    private readonly ShipMutation _mutation;
    private bool _hasBegun;

    /// <summary>Begins, or goes on with one that was begun.</summary>
    /// <param name="deadlineUs">If the backup has not taken over by then it is called off. By the manager's monotonic clock.</param>
    public SwitchOver(long deadlineUs)
        : this(deadlineUs, ShipMutation.None)
    {
    }

    internal SwitchOver(long deadlineUs, ShipMutation mutation) => (_deadlineUs, _mutation) = (deadlineUs, mutation);

    /// <summary>What is to be done next.</summary>
    /// <param name="primary">What the primary's SQL says, just read.</param>
    /// <param name="backup">What the backup's says; null: it cannot be asked.</param>
    /// <param name="progress">How far it has come.</param>
    /// <param name="nowUs">The manager's monotonic clock.</param>
    public SwitchOverStep Next(SiteState primary, SiteState? backup, SwitchOverProgress progress, long nowUs)
    {
        // A failover that somebody else has ordered comes to the same.
        bool isTaken = backup is not null && backup.Epoch > primary.Epoch && backup.Role is SiteRole.FailingOver or SiteRole.Primary;
        if (primary.Role == SiteRole.Deposed) return new SwitchOverStep.Done(true);
        if (isTaken) return new SwitchOverStep.Depose(backup!.Epoch);
        bool isLate = nowUs >= _deadlineUs;
        if (primary.Role != SiteRole.HandingOver)
        {
            if (_hasBegun || isLate || primary.Role != SiteRole.Primary) return new SwitchOverStep.Done(false);
            return new SwitchOverStep.Hold(primary.HandOver.Number);
        }

        _hasBegun = true;
        long number = primary.HandOver.Number;
        if (primary.HandOver.Cut is null)
        {
            if (isLate) return new SwitchOverStep.Resume(number, false);
            return Missing(progress) is { } missing ? new SwitchOverStep.Await(missing) : new SwitchOverStep.Offer(number, progress.Cut);
        }

        if (backup is null) return new SwitchOverStep.Await("the backup's SQL");
        if (backup.CalledOff >= number) return new SwitchOverStep.Resume(number, true);
        return isLate ? new SwitchOverStep.CallOff(number) : new SwitchOverStep.Take(number);
    }

    private string? Missing(SwitchOverProgress progress)
    {
        for (int s = 0; s < progress.Held.Count; s++)
        {
            if (progress.Held[s] is not { } held || held.WorldLine != progress.Cut.WorldLine)
                return $"shard {s}, where operations are under way yet";
            if (held > progress.Cut) return $"the cut, which is {progress.Cut}: shard {s} has {held}";
        }

        if (progress.Watermark < progress.Cut && _mutation != ShipMutation.OffersEarly)
            return $"the backup, which holds {progress.Watermark}: the cut is {progress.Cut}";
        return null;
    }
}
