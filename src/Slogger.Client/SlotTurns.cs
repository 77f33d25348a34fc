// The order of operations on one slot while its owner changes. A session sends without awaiting, so a redirection finds later operations
// of the same slot under way. Were the next one sent to the new owner at once, it would overtake those that the old owner is about to
// redirect: two writes of one key would change places. So the next ones wait until all earlier ones of their slot that were redirected, or
// are about to be, have ended.
//
// The new owner may not know yet that it is one. Of two that it receives behind each other it would send the first one back and execute the
// second. So those that were redirected go one at a time, and so do others until one was executed: from then on the owner knows.
//
// In quiet times nothing is kept here. Guarded by the session.

namespace Slogger.Client;

internal sealed class SlotTurns
{
    private readonly Dictionary<int, Turn> _turns = [];
    private readonly List<int> _ready = [];

    /// <summary>An operation that was redirected, and waits for an earlier one.</summary>
    /// <param name="Operation">The operation.</param>
    /// <param name="Requests">Its requests.</param>
    /// <param name="To">Where an ASK has sent it; null: it goes to its slot's owner.</param>
    /// <param name="Pause">How long it has to wait before it is sent.</param>
    public readonly record struct Redirected(Operation Operation, byte[] Requests, Link? To, TimeSpan Pause);

    /// <summary>How many operations wait.</summary>
    public int Waiting { get; private set; }

    /// <summary>Notes whether an operation that has not ended was redirected, or is on its way to another shard than its slot's
    /// owner.</summary>
    public void SetElsewhere(Operation operation, bool isElsewhere)
    {
        if (operation.IsElsewhere == isElsewhere || operation.Slot == Operation.NoSlot) { return; }
        operation.IsElsewhere = isElsewhere;
        if (isElsewhere)
        {
            if (!_turns.TryGetValue(operation.Slot, out Turn? turn)) { _turns.Add(operation.Slot, turn = new()); }
            turn.Elsewhere++;
            return;
        }

        Turn ending = _turns[operation.Slot];
        ending.Elsewhere--;
        if (ending.Alone == operation) { ending.Alone = null; }
        if (ending.IsOver) { _turns.Remove(operation.Slot); }
        else if (ending.IsReady) { _ready.Add(operation.Slot); }
    }

    /// <summary>Whether an operation that was redirected may be sent again now. If not it waits.</summary>
    public bool MayResend(in Redirected redirected)
    {
        Operation operation = redirected.Operation;
        if (operation.Slot == Operation.NoSlot) { return true; }
        Turn turn = _turns[operation.Slot];
        if (turn.Alone is null && turn.Redirected.Count == 0) { turn.Alone = operation; }
        if (turn.Alone == operation) { return true; }
        turn.Redirected.Enqueue(redirected);
        Waiting++;
        return false;
    }

    /// <summary>An operation goes to a shard that may not know that the slot is its own: later ones wait until it has ended.</summary>
    public void GoAlone(Operation operation)
    {
        SetElsewhere(operation, true);
        _turns[operation.Slot].Alone = operation;
    }

    /// <summary>Whether an operation that begins now has to wait for earlier ones of its slot.</summary>
    public bool MustWait(int slot) => _turns.Count > 0 && _turns.ContainsKey(slot);

    /// <summary>Has it wait.</summary>
    /// <param name="operation">The operation.</param>
    /// <param name="requests">Its requests, which are copied.</param>
    public void Wait(Operation operation, ReadOnlySpan<byte> requests)
    {
        _turns[operation.Slot].Operations.Enqueue((operation, requests.ToArray()));
        Waiting++;
    }

    /// <summary>A slot whose next operation may go on.</summary>
    public bool TryFindReady(out int slot)
    {
        while (_ready.Count > 0)
        {
            slot = _ready[^1];
            if (IsReady(slot)) { return true; }
            // Its owner has changed once more: it comes back when that is over.
            _ready.RemoveAt(_ready.Count - 1);
        }

        slot = Operation.NoSlot;
        return false;
    }

    /// <summary>Whether the next operation of a slot may go on.</summary>
    public bool IsReady(int slot) => _turns.TryGetValue(slot, out Turn? turn) && turn.IsReady;

    /// <summary>Takes the next operation of a slot that is ready.</summary>
    /// <param name="slot">The slot.</param>
    /// <param name="goesAlone">Its owner may not know that it is one.</param>
    public Redirected Take(int slot, bool goesAlone)
    {
        Turn turn = _turns[slot];
        Waiting--;
        if (turn.Redirected.TryDequeue(out Redirected redirected))
        {
            turn.Alone = redirected.Operation;
            return redirected;
        }

        (Operation operation, byte[] requests) = turn.Operations.Dequeue();
        if (goesAlone) { GoAlone(operation); }
        if (turn.IsOver)
        {
            _turns.Remove(slot);
            _ready.Remove(slot);
        }

        return new(operation, requests, null, TimeSpan.Zero);
    }

    /// <summary>Takes all that waits: nothing of it will be sent.</summary>
    public List<Operation> TakeAll()
    {
        List<Operation> all = [];
        foreach ((int slot, Turn turn) in _turns)
        {
            all.AddRange(turn.Redirected.Select(static o => o.Operation));
            all.AddRange(turn.Operations.Select(static o => o.Operation));
            turn.Redirected.Clear();
            turn.Operations.Clear();
            if (turn.IsOver) { _turns.Remove(slot); }
        }

        _ready.Clear();
        Waiting = 0;
        return all;
    }

    private sealed class Turn
    {
        /// <summary>How many operations the others wait for.</summary>
        public int Elsewhere;

        /// <summary>The one of them that goes alone, if one is under way.</summary>
        public Operation? Alone;

        /// <summary>Those of them that wait until it has ended, in the order in which they were started.</summary>
        public readonly Queue<Redirected> Redirected = new();

        /// <summary>The others, in the order in which they were started.</summary>
        public readonly Queue<(Operation Operation, byte[] Requests)> Operations = new();

        /// <summary>Whether the next one may go on.</summary>
        public bool IsReady => Alone is null && (Redirected.Count > 0 || (Elsewhere == 0 && Operations.Count > 0));

        /// <summary>Whether nothing is left.</summary>
        public bool IsOver => Elsewhere == 0 && Operations.Count == 0;
    }
}
