// The thread of a node. All that decides who leads, and what the log holds while the node follows, happens on it, one thing after the
// other.
using System.Collections.Concurrent;
using Slogger.Core.Identities;
using Slogger.Log.Format;

namespace Slogger.Cohorts;

/// <summary>Does what it is given, and lets the node look at the clock in between. Any thread.</summary>
internal sealed class NodeThread : IDisposable
{
    private const int TickMs = 4;
    private readonly Action _tick;
    private readonly Action<Exception> _failed;
    private readonly BlockingCollection<Action> _inputs = [];
    private readonly CancellationTokenSource _ending = new();
    private Thread? _thread;

    /// <summary>Does nothing before <see cref="Start"/>: until then what is posted waits.</summary>
    /// <param name="tick">What is done every few milliseconds, and after whatever was done.</param>
    /// <param name="failed">Is told why the thread has ended, if that was not asked for. Nothing ticks any more.</param>
    public NodeThread(Action tick, Action<Exception> failed) => (_tick, _failed, Ending) = (tick, failed, _ending.Token);

    /// <summary>Is cancelled when the node ends.</summary>
    public CancellationToken Ending { get; }

    /// <summary>Begins.</summary>
    public void Start()
    {
        _thread = new Thread(Run) { Name = "cohort", IsBackground = true };
        _thread.Start();
    }

    /// <summary>Has the thread do something. False: it has ended.</summary>
    public bool Post(Action input)
    {
        try
        {
            return !_inputs.IsAddingCompleted && _inputs.TryAdd(input);
        }
        catch (Exception e) when (e is InvalidOperationException or ObjectDisposedException)
        {
            return false;
        }
    }

    /// <summary>Has the thread find something out.</summary>
    /// <exception cref="OperationCanceledException">The node has ended.</exception>
    public async Task<T> DoAsync<T>(Func<T> input)
    {
        var done = new TaskCompletionSource<T>(TaskCreationOptions.RunContinuationsAsynchronously);
        bool isPosted = Post(() =>
        {
            try
            {
                if (_ending.IsCancellationRequested) { done.TrySetCanceled(); }
                else { done.TrySetResult(input()); }
            }
            catch (Exception e)
            {
                done.TrySetException(e);
                throw;
            }
        });
        if (!isPosted) { throw new OperationCanceledException("The node has ended."); }
        return await done.Task.ConfigureAwait(false);
    }

    /// <summary>Has it end: nothing ticks any more, and who waits is told that the node has ended.</summary>
    public Task CancelAsync() => _ending.CancelAsync();

    /// <summary>Waits for its end.</summary>
    public void Join()
    {
        _inputs.CompleteAdding();
        _thread?.Join();
    }

    /// <summary>After <see cref="Join"/>.</summary>
    public void Dispose()
    {
        _ending.Dispose();
        _inputs.Dispose();
    }

    private void Run()
    {
        try
        {
            while (!_inputs.IsCompleted)
            {
                if (_inputs.TryTake(out Action? input, TickMs)) { input(); }
                if (!_ending.IsCancellationRequested) { _tick(); }
            }
        }
        catch (Exception e)
        {
            if (_ending.IsCancellationRequested) { return; }
            _failed(e);
            // Who waits for an answer gets it.
            while (_inputs.TryTake(out Action? rest, 0))
            {
                try
                {
                    rest();
                }
                catch (Exception again) when (again is BrokenInvariantException or LogException or IOException)
                {
                    // It has failed already.
                }
            }
        }
    }
}
