// The order of operations on one slot while its owner changes. A session sends without awaiting, so a redirection finds later operations
// of the same slot under way. Were the next one sent to the new owner at once, it would overtake those that the old owner is about to
// redirect: two writes of one key would change places. So the next ones wait until all earlier ones of their slot that were redirected, or
// are about to be, have ended.
//
// In quiet times nothing is kept here. Guarded by the session.
namespace Slogger.Client.Operations;

internal sealed class SlotTurns
{
    private readonly Dictionary<int, Turn> _turns = [];
    private readonly List<int> _ready = [];

    /// <summary>How many operations wait.</summary>
    public int Waiting { get; private set; }

    /// <summary>Notes whether an operation that has not ended was redirected, or is on its way to another shard than its slot's owner.</summary>
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
        if (--ending.Elsewhere > 0) { return; }
        if (ending.Operations.Count == 0) { _turns.Remove(operation.Slot); }
        else { _ready.Add(operation.Slot); }
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
    public bool IsReady(int slot) => _turns.TryGetValue(slot, out Turn? turn) && turn.Elsewhere == 0;

    /// <summary>Takes the next operation of a slot that is ready.</summary>
    public (Operation Operation, byte[] Requests) Take(int slot)
    {
        Turn turn = _turns[slot];
        if (turn.Operations.Count == 1)
        {
            _turns.Remove(slot);
            _ready.Remove(slot);
        }

        Waiting--;
        return turn.Operations.Dequeue();
    }

    /// <summary>Takes all that waits: nothing of it will be sent.</summary>
    public List<Operation> TakeAll()
    {
        List<Operation> all = [];
        foreach ((int slot, Turn turn) in _turns)
        {
            all.AddRange(turn.Operations.Select(static o => o.Operation));
            turn.Operations.Clear();
            if (turn.Elsewhere == 0) { _turns.Remove(slot); }
        }

        _ready.Clear();
        Waiting = 0;
        return all;
    }

    private sealed class Turn
    {
        /// <summary>How many operations the others wait for.</summary>
        public int Elsewhere;

        /// <summary>The others, in the order in which they were started.</summary>
        public readonly Queue<(Operation Operation, byte[] Requests)> Operations = new();
    }
}
