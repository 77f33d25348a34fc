// Who waits for a session's commits. Whoever waits for "all that was started before" waits for operations whose numbers are not known yet:
// operations count with a generation, which ends when somebody begins to wait.
using Slogger.Core.Sessions;

namespace Slogger.Client;

/// <summary>Operations that were started before the same wait for commit.</summary>
internal sealed class Generation
{
    /// <summary>How many have neither an answer nor an exception.</summary>
    public int Outstanding;

    /// <summary>The largest number among them.</summary>
    public SequenceNumber Last;
}

/// <summary>Somebody who waits for commit.</summary>
/// <param name="Generations">Whose operations all have to end first; null if only the number counts.</param>
/// <param name="Upto">The number.</param>
internal sealed record CommitWaiter(Generation[]? Generations, SequenceNumber Upto)
{
    public TaskCompletionSource Done { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);
}

/// <summary>Those who wait for commits of one session, or listen to them. Guarded by the session.</summary>
internal sealed class CommitWaiters(ClientSession machine, CommitWatch watch)
{
    private readonly List<Generation> _earlier = [];   // that were outstanding when a wait began, the oldest first
    private readonly List<CommitWaiter> _waiters = [];
    private readonly List<ExceptionRange> _exceptions = [];
    private Generation _present = new();
    private int _listeners;
    private TaskCompletionSource _advanced = new(TaskCreationOptions.RunContinuationsAsynchronously);

    /// <summary>Whether anybody waits for a commit.</summary>
    public bool Any => _waiters.Count > 0;

    /// <summary>Whether anybody waits or listens.</summary>
    public bool IsWanted => _waiters.Count > 0 || _listeners > 0;

    /// <summary>Completes when the committed prefix has grown, or nothing will any more.</summary>
    public Task Advanced => _advanced.Task;

    /// <summary>An operation was started.</summary>
    public void Started(Operation operation)
    {
        operation.Generation = _present;
        _present.Outstanding++;
    }

    /// <summary>Somebody listens from now on.</summary>
    public void Listen() => _listeners++;

    /// <summary>Somebody listens no more.</summary>
    public void EndListen() => _listeners--;

    /// <summary>Begins to wait for all that was started before.</summary>
    /// <returns>Null: it is committed.</returns>
    public CommitWaiter? WaitForAll()
    {
        if (_present.Outstanding > 0)
        {
            _earlier.Add(_present);
            _present = new();
        }

        return Add(new([.. _earlier], machine.Begun));
    }

    /// <summary>Begins to wait for an operation that was sent, and all before it.</summary>
    /// <returns>Null: it is committed.</returns>
    public CommitWaiter? WaitFor(SequenceNumber upTo) => Add(new(null, upTo));

    /// <summary>Somebody does not wait any more.</summary>
    public void Remove(CommitWaiter waiter) => _waiters.Remove(waiter);

    /// <summary>Lets go whose operations are committed. Called whenever something was answered, given up or committed.</summary>
    public void Check()
    {
        while (_earlier.Count > 0 && _earlier[0].Outstanding == 0) { _earlier.RemoveAt(0); }
        if (!IsWanted) { return; }
        for (int i = _waiters.Count - 1; i >= 0; i--)
        {
            if (!IsDone(_waiters[i])) { continue; }
            _waiters[i].Done.TrySetResult();
            _waiters.RemoveAt(i);
        }

        // What was just answered has to be committed yet.
        if (IsWanted) { watch.Signal(); }
    }

    /// <summary>The committed prefix has grown.</summary>
    public void Grown()
    {
        if (_listeners > 0) { WakeListeners(); }
    }

    /// <summary>The session is rolled back or closed: nobody waits any more.</summary>
    public void Fail(Exception why)
    {
        foreach (CommitWaiter waiter in _waiters) { waiter.Done.TrySetException(why); }
        _waiters.Clear();
        _earlier.Clear();
        _present = new();
        WakeListeners();
    }

    private CommitWaiter? Add(CommitWaiter waiter)
    {
        if (IsDone(waiter)) { return null; }
        _waiters.Add(waiter);
        return waiter;
    }

    private bool IsDone(CommitWaiter waiter)
    {
        SequenceNumber upTo = waiter.Upto;
        foreach (Generation generation in waiter.Generations ?? [])
        {
            if (generation.Outstanding > 0) { return false; }
            if (generation.Last > upTo) { upTo = generation.Last; }
        }

        if (machine.Committed < upTo) { return false; }
        machine.CopyExceptions(_exceptions);
        foreach (ExceptionRange exception in _exceptions)
        {
            if (exception.Kind == ExceptionKind.Open && exception.Range.First <= upTo) { return false; }
        }

        return true;
    }

    private void WakeListeners()
    {
        _advanced.TrySetResult();
        _advanced = new(TaskCreationOptions.RunContinuationsAsynchronously);
    }
}
