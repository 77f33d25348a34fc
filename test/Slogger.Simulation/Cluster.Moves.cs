// Slots that move while all else goes on: operators who plan moves and call them off, and what fails just when a move has made a step.
using Slogger.Core.Ownership;
using Slogger.Simulation.Checks;
using Slogger.Simulation.Processes;

namespace Slogger.Simulation;

internal sealed partial class Cluster
{
    private ShardHost? _failsNext;

    public KeySpace Keys { get; }

    public KeyHistories Histories { get; }

    /// <summary>A step of a move was decided in SQL: now and then somebody dies of it, and it is planned for soon.</summary>
    public void OnMoveChanged(MoveChange change, ChangeOutcome outcome)
    {
        Count($"move: {outcome} {change.Next}{(IsSettling ? ", at rest" : "")}");
        if (IsTraced) Note($"SQL: move {change.Move.Number}, {change.State} to {change.Next} {change.Version} by shard {change.By}: "
            + $"{outcome}");
        if (!Settings.Faults || outcome != ChangeOutcome.Applied || IsSettling || !Dice(change.Next == MoveState.Landed ? 6 : 24)) return;
        SlotMove? row = Sql.Owners.Moves.FirstOrDefault(m => m.Id.Number == change.Move.Number);
        _failsNext = row is null ? null : Hosts[Dice(2) ? row.From.Number : row.To.Number];
    }

    /// <summary>A step of a move is on its way to SQL for long: now and then whoever decided it is not the owner any more when it
    /// arrives.</summary>
    private void OnMoveLate(ProxyProcess by)
    {
        Count("step of a move late");
        if (!IsSettling && Dice(3)) _failsNext = Hosts[by.Shard];
    }

    private void MoveTurn()
    {
        if (_failsNext is { } host)
        {
            _failsNext = null;
            Count("failure at a step of a move");
            switch (Random.Next(5))
            {
                case 0: StoreDies(host); break;
                case 1: ProxyDies(host); break;
                case 2: PowerCut(host); break;
                case 3: TakeOver(host); break;
                default: Pause(host); break;
            }
        }

        if (Dice(2)) Hurry(Hosts[Random.Next(Hosts.Length)]);
        if (Dice(3)) SqlTurn();
        if (!Settings.Faults) return;
        int dice = Random.Next(800);
        if (dice < 20) PlanMove(Random.Next(Keys.Count), 1 + Random.Next(2), Random.Next(Hosts.Length));
        else if (dice == 20 && Sql.Owners.Moves.Length > 0) CancelMove(Sql.Owners.Moves[Random.Next(Sql.Owners.Moves.Length)].Id);
    }

    // A move takes many steps of two shards, within the few versions that a case lasts.
    private void Hurry(ShardHost host)
    {
        if (Someone(host) is not { } p) return;
        p.Loop(Random);
        p.StepTasks();
        for (int n = 0; n < 3; n++) host.Store.ExecuteSome(Random, unblock: Dice(6));
        for (int n = 0; n < 4; n++) p.StreamOne();
        p.SyncSome(Random);
    }

    /// <summary>Somebody has the slots of some keys move.</summary>
    public void PlanMove(int key, int count, int to)
    {
        if (!Sql.PlanMove(Keys.SlotsOf(key, count), to)) return;
        Count(Sql.Owners.Moves.Length > 1 ? "move planned beside another" : "move planned");
        if (IsTraced) Note($"move {Sql.Owners.Moves[^1].Id.Number} is planned: key {key}+{count} from shard {Sql.Owners.Moves[^1].From} "
            + $"to {to}");
    }

    private void CancelMove(MoveId move)
    {
        if (!Sql.CancelMove(move)) return;
        Count("move called off");
        if (IsTraced) Note($"move {move.Number} is called off");
    }
}
