// Inputs of one state machine, one after the other, without a thread of their own: who brings one performs it at once. If somebody else is
// at it, he performs that as well, and nobody waits. So a message that arrives wakes no other thread.

namespace Slogger.Replication.Links;

/// <summary>Performs one input after the other, in the order in which they come.</summary>
/// <param name="perform">Performs an input. Never throws.</param>
/// <param name="drained">Is called when there is no further one, before somebody else may begin. Never throws.</param>
internal sealed class Strand(Action<Action> perform, Action drained)
{
    private readonly Lock _lock = new();
    private readonly Queue<Action> _inputs = new();
    private bool _isBusy;

    /// <summary>Has an input performed: when this returns, or else soon, by whoever is at it. Any thread, also out of an input.</summary>
    public void Post(Action input)
    {
        lock (_lock)
        {
            _inputs.Enqueue(input);
            if (_isBusy) { return; }
            _isBusy = true;
        }
        Run();
    }

    /// <summary>Completes when all that was posted before has been performed.</summary>
    public Task DrainAsync()
    {
        var done = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        Post(done.SetResult);
        return done.Task;
    }

    private void Run()
    {
        bool isDrained = false;
        while (true)
        {
            Action? input;
            lock (_lock)
            {
                if (!_inputs.TryDequeue(out input) && isDrained)
                {
                    _isBusy = false;
                    return;
                }
            }
            if (input is null) { drained(); }
            else { perform(input); }
            isDrained = input is null;
        }
    }
}
