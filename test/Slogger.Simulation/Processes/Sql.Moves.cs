// The table of owners in the oracle of SQL, changed by the machine that the product's store drives (OwnershipTable), each method one
// transaction.
using System.Collections.Immutable;
using Slogger.Core.Membership;
using Slogger.Core.Ownership;

namespace Slogger.Simulation.Processes;

internal sealed partial class Sql
{
    private static readonly SlotMap?[] Even = new SlotMap?[17];

    /// <summary>Who owns what.</summary>
    public OwnershipTable Owners { get; private set; }

    /// <summary>Plans a move, if its slots may move.</summary>
    public bool PlanMove(ImmutableArray<SlotRange> slots, int to)
    {
        if (Members.States[to] != MemberState.Member || Owners.Plan(slots, new(to), out _) is not { } planned) return false;
        Owners = planned;
        return true;
    }

    /// <summary>Calls off a move, if it has not landed.</summary>
    public bool CancelMove(MoveId move)
    {
        if (Owners.Cancel(move) is not { } cancelled) return false;
        Owners = cancelled;
        return true;
    }

    /// <summary>A step of a move.</summary>
    public object ChangeMove(in MoveChange change)
    {
        long newest = Is(SimMutation.MoveOfDeposedCounts) ? change.Epoch.Number : Shards[change.By.Number].Epoch;
        (ChangeOutcome outcome, OwnershipTable after) = Owners.Apply(change, new(newest));
        Owners = after;
        _cluster.OnMoveChanged(change, outcome);
        return outcome;
    }

    private void RecoverOwners()
    {
        OwnershipTable before = Owners;
        Owners = Owners.Recover(Line, Cut.Versions[0]);
        if (Is(SimMutation.LandingOutlivesRecovery)) Owners = before with { Revision = Owners.Revision, WorldLine = Line };
        if (before.Moves.Length == 0) return;
        bool isSame = before.Map.Rows.AsSpan().SequenceEqual(Owners.Map.Rows.AsSpan());
        _cluster.Count(isSame ? "recovery during a move" : "recovery gives slots back");
    }

    private static SlotMap EvenMap(int shards) => Even[shards] ??= SlotMap.Even(shards);
}
