// A shard's part in moves of slots: the real ShardOwnership, driven as the product's SlotMoves drives it. Life: opened when the store is
// there and of a world-line, closed when that is in doubt: what was under way ends with it, and begins again from the table. The
// copying itself is in ProxyProcess.Copying.
using System.Collections.Immutable;
using Slogger.Core.Ownership;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Processes;

internal sealed partial class ProxyProcess
{
    // Closing a version may take as many as the longest stride.
    private long PatienceUs => (Cluster.IsSettling ? 200 : 6) * Cluster.IntervalUs;

    private readonly List<MoveEffect> _moveEffects = [];
    private readonly List<Op> _inFlight = [];                  // forwarded and not answered
    private readonly List<StoreConnection> _givenUp = [];      // what they hold may be executed yet
    private readonly Queue<MoveChange> _steps = new();
    private MoveChange? _inDoubt;                              // nobody knows whether SQL has made it, or yet will
    private MoveWork? _work;
    private ServedSlots? _served;                              // what the front end goes by
    private ServedSlots? _told;                                // what it goes by when it has come to it
    private long _ownersAskedUs;

    /// <summary>What is under way between the store's coming and its loss, in one world-line.</summary>
    private sealed class MoveWork(ShardOwnership ownership, WorldLine line)
    {
        public ShardOwnership Ownership => ownership;

        public WorldLine Line => line;

        public bool IsOver { get; set; }

        /// <summary>The moves whose import is under way; false: it has to end.</summary>
        public Dictionary<MoveId, bool> Imports { get; } = [];

        /// <summary>Old owner: the ways over which it is asked.</summary>
        public List<MoveWay> Ways { get; } = [];
    }

    // ---- Life ----

    private IEnumerable<bool> OpenMoves()
    {
        if (!Cluster.Keys.Move) yield break;
        WorldLine line = _machine!.WorldLine;
        // What was under way may be on its way to SQL still: nothing new is decided before its fate is known.
        foreach (bool step in WriteSteps()) yield return step;
        SqlCall look = Ask("owners", () => Cluster.Sql.Owners);
        while (!look.IsDone) yield return true;
        while (look.Result is null)
        {
            look = Ask("owners", () => Cluster.Sql.Owners);
            while (!look.IsDone) yield return true;
        }

        if (IsDead) yield break;
        _work = new(new ShardOwnership(new(Shard), new(Epoch), line, _settings.Move), line);
        Start(MovesTask(_work));
        ReadOwners((OwnershipTable)look.Result);
    }

    private void CloseMoves()
    {
        if (_work is not { } work) return;
        _work = null;
        work.IsOver = true;
        foreach (MoveWay way in work.Ways) way.Break();
        _steps.Clear();
        if (_inDoubt is { } change && !Is(SimMutation.StepForgotten)) _steps.Enqueue(change);
    }

    // The replication stream is interrupted: nobody knows any more what has changed.
    private void LoseChanges()
    {
        foreach (MoveWay way in _work?.Ways ?? []) way.Break();
    }

    // Asks for the table now and then, writes what was decided, and listens to the ways.
    private IEnumerable<bool> MovesTask(MoveWork work)
    {
        while (!work.IsOver && !IsDead)
        {
            foreach (bool step in WriteSteps()) yield return step;
            foreach (MoveWay way in work.Ways.ToArray())
                if (way.IsBroken || Cluster.NowUs - way.HeardUs > PatienceUs) EndWay(work, way);
            if (Cluster.NowUs >= _ownersAskedUs + Cluster.AskPeriodUs)
            {
                _ownersAskedUs = Cluster.NowUs;
                SqlCall look = Ask("owners", () => Cluster.Sql.Owners);
                while (!look.IsDone) yield return true;
                if (look.Result is OwnershipTable table) ReadOwners(table);
            }

            yield return true;
        }
    }

    // In order, each until it is known what has become of it.
    private IEnumerable<bool> WriteSteps()
    {
        while (_steps.TryPeek(out MoveChange change) && !IsDead)
        {
            MoveWork? work = _work;
            _inDoubt = change;
            SqlCall call = Ask("move", () => Cluster.Sql.ChangeMove(change));
            while (!call.IsDone) yield return true;
            if (call.Result is null)
            {
                if (Is(SimMutation.StepForgotten) && work is { IsOver: true }) yield break;
                yield return true;
                continue;
            }

            _inDoubt = null;
            if (_steps.Count > 0 && _steps.Peek() == change) _steps.Dequeue();
            _ownersAskedUs = 0;
        }
    }

    // ---- What is heard ----

    private void OnMovesBoundary(WorldPoint closed) => DoMoves(w => w.Ownership.BoundaryClosed(closed, _moveEffects));

    private void OnMovesCut(WorldPoint cut) => DoMoves(w => w.Ownership.CutRecorded(cut, _moveEffects));

    private void ReadOwners(OwnershipTable table)
    {
        if (_work is not { } work) return;
        DoMoves(w => w.Ownership.Read(table, _moveEffects));
        foreach (MoveWay way in work.Ways)
            if (way.IsFrozen && way.Renounced is null && RowOf(work, way.Move) is { State: MoveState.Leaving } row)
                way.Renounced = row.Changed;
    }

    private void DoMoves(Action<MoveWork> input)
    {
        if (_work is not { } work || IsDead) return;
        _moveEffects.Clear();
        input(work);
        ServedSlots served = work.Ownership.Served;
        if (served != _told) Post(() => _served = served);
        _told = served;
        foreach (MoveEffect effect in _moveEffects.ToArray())
        {
            Cluster.Count($"move: {effect.Kind}");
            if (Cluster.IsTraced) Cluster.Note(
                $"{Name} move {effect.Move.Id.Number}: "
                    + $"{effect.Kind}{(effect.Kind == MoveEffectKind.Write ? $" {effect.Change.Next} {effect.Change.Version}" : "")}");
            switch (effect.Kind)
            {
                case MoveEffectKind.Write:
                    _steps.Enqueue(effect.Change);
                    break;
                case MoveEffectKind.Withhold:
                    // Behind this nothing more is forwarded for those slots.
                    if (Is(SimMutation.WithheldUntold)) Start(WithholdTask(work, effect.Move.Id, effect.Attempt));
                    else Post(() => Start(WithholdTask(work, effect.Move.Id, effect.Attempt)));
                    break;
                case MoveEffectKind.Import:
                    work.Imports[effect.Move.Id] = true;
                    Start(ImportTask(work, effect.Move));
                    break;
                case MoveEffectKind.Discard:
                    Start(DiscardTask(work, effect.Move));
                    break;
            }
        }
    }

    private static SlotMove? RowOf(MoveWork work, MoveId move) => work.Ownership.Table?.Moves.FirstOrDefault(m => m.Id == move);

    // ---- The front end ----

    /// <summary>Whether this shard serves a key now.</summary>
    private SlotAnswer AnswerFor(int key)
    {
        if (!Cluster.Keys.Move || key < 0) return new(SlotVerdict.Serve, new(Shard));
        return _served?.Ask(Cluster.Keys.SlotOf(key)) ?? new(SlotVerdict.Wait, default);
    }

    private bool MustWait(params ReadOnlySpan<Op> ops)
    {
        if (!Cluster.Keys.Move) return false;
        foreach (Op op in ops)
            if (AnswerFor(op.Key).Verdict == SlotVerdict.Wait) return true;
        return false;
    }

    /// <summary>The operation's key is another shard's: it is answered so, and not executed.</summary>
    private bool IsRedirected(Op op)
    {
        SlotAnswer answer = AnswerFor(op.Key);
        if (answer.Verdict != SlotVerdict.Moved) return false;
        Cluster.Count("operation redirected");
        (op.RedirectedTo, op.ToldGone, op.Label, op.Line) = (answer.Owner.Number, true, _front.Open, _machine!.WorldLine);
        return true;
    }

    private void NoteForwarded(Op op)
    {
        if (Cluster.Keys.Move) _inFlight.Add(op);
    }

    // ---- Old owner: renouncing ----

    // Until all has been answered that was forwarded before, and the stream has told of it.
    private IEnumerable<bool> WithholdTask(MoveWork work, MoveId move, long attempt)
    {
        Op[] before = [.. _inFlight];
        while (before.Any(_inFlight.Contains))
        {
            if (work.IsOver) yield break;
            yield return true;
        }

        // What was on its way over a connection that broke must not be executed later.
        KillGivenUp();
        long executed = _host.Store.History.Count;
        while (_streamed < executed && !Is(SimMutation.StreamNotAwaited))
        {
            if (work.IsOver) yield break;
            yield return true;
        }

        if (work.IsOver) yield break;
        WorldPoint open = new(work.Line, OpenForAll);
        DoMoves(w => w.Ownership.Withheld(move, attempt, open, _moveEffects));
    }

    // ---- Deleting ----

    private IEnumerable<bool> DiscardTask(MoveWork work, SlotMove move)
    {
        if (work.Imports.ContainsKey(move.Id)) work.Imports[move.Id] = false;
        while (work.Imports.ContainsKey(move.Id))
        {
            if (work.IsOver) yield break;
            yield return true;
        }

        while (!work.IsOver)
        {
            StoreConnection connection = ConnectForMoves();
            foreach (int key in Cluster.Keys.KeysIn(move.Slots)) connection.ToStore.Enqueue(new(null, null, new(key, null)));
            int count = Cluster.Keys.KeysIn(move.Slots).Count();
            while (!work.IsOver && !connection.IsDead && connection.ToProxy.Count < count) yield return true;
            bool isDone = !connection.IsDead && connection.ToProxy.Count == count;
            GiveUp(connection);
            if (work.IsOver) yield break;
            if (isDone) break;
            yield return true;
        }

        if (work.IsOver) yield break;
        WorldPoint open = CloseChanged(work.Line);
        DoMoves(w => w.Ownership.Discarded(move.Id, open));
    }

    // ---- Connections to the store beside the front end's ----

    private StoreConnection ConnectForMoves()
    {
        KillGivenUp();
        return _host.Store.Connect(Epoch);
    }

    // Nobody reads its answers any more; what it holds may be executed all the same.
    private void GiveUp(StoreConnection connection)
    {
        connection.IsGivenUp = true;
        if (connection.ToStore.Count > 0 && Cluster.Keys.Move) _givenUp.Add(connection);
    }

    private void KillGivenUp()
    {
        if (!Is(SimMutation.GivenUpNotKilled))
            foreach (StoreConnection connection in _givenUp) _host.Store.Kill(connection);
        _givenUp.Clear();
    }
}
