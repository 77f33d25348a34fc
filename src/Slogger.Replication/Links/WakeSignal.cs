// A task that has nothing to do waits here until somebody has something for it: said any number of times, it wakes once. Unlike a semaphore
// it is cheap to wait for (nothing is allocated, no timer is set), and to set when nobody waits.
using System.Threading.Tasks.Sources;

namespace Slogger.Replication.Links;

/// <summary>Wakes one task. Any thread may set it; one at a time waits.</summary>
internal sealed class WakeSignal : IValueTaskSource
{
    private const int Clear = 0, IsSet = 1, Waits = 2;
    private ManualResetValueTaskSourceCore<bool> _source = new() { RunContinuationsAsynchronously = true };
    private int _state;

    /// <summary>Wakes who waits, or who does next.</summary>
    public void Set()
    {
        if (Interlocked.Exchange(ref _state, IsSet) != Waits) { return; }
        // It goes on, and looks at everything: what is set from here on wakes it again.
        Volatile.Write(ref _state, Clear);
        _source.SetResult(true);
    }

    /// <summary>Returns when it is set, at once if it has been since the last time.</summary>
    public ValueTask WaitAsync()
    {
        if (Interlocked.CompareExchange(ref _state, Clear, IsSet) == IsSet) { return ValueTask.CompletedTask; }
        _source.Reset();
        short token = _source.Version;
        if (Interlocked.CompareExchange(ref _state, Waits, Clear) == Clear) { return new(this, token); }
        Volatile.Write(ref _state, Clear);
        return ValueTask.CompletedTask;
    }

    void IValueTaskSource.GetResult(short token) => _source.GetResult(token);

    ValueTaskSourceStatus IValueTaskSource.GetStatus(short token) => _source.GetStatus(token);

    void IValueTaskSource.OnCompleted(Action<object?> continuation, object? state, short token, ValueTaskSourceOnCompletedFlags flags) =>
        _source.OnCompleted(continuation, state, token, flags);
}
