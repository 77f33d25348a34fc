// The thread of a node. All that decides who leads, and what the log holds while the node follows, happens on it, one thing after the
// other.
using System.Diagnostics.CodeAnalysis;
using Slogger.Core.Identities;
using Slogger.Log.Format;

namespace Slogger.Cohorts;

/// <summary>Does what it is given, and lets the node look at the clock in between. Any thread.</summary>
internal sealed class NodeThread : IDisposable
{
    private const int TickMs = 50;
    private readonly Func<long> _tick;
    private readonly Action<Exception> _failed;

    // Of the library's queues those that wait spin first: that many times a second it costs a tenth of a processor.
    private readonly Queue<Action> _inputs = [];        // under its own lock, as _isClosed
    private readonly AutoResetEvent _some = new(false);
    private readonly CancellationTokenSource _ending = new();
    private bool _isClosed;
    private Thread? _thread;

    /// <summary>Does nothing before <see cref="Start"/>: until then what is posted waits.</summary>
    /// <param name="tick">What is done every 50 milliseconds, and after whatever was done. It says when it wants to be done again at the
    /// latest, by <see cref="CohortNode.NowUs"/>.</param>
    /// <param name="failed">Is told why the thread has ended, if that was not asked for. Nothing ticks any more.</param>
    public NodeThread(Func<long> tick, Action<Exception> failed) => (_tick, _failed, Ending) = (tick, failed, _ending.Token);

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
        lock (_inputs)
        {
            if (_isClosed) { return false; }
            _inputs.Enqueue(input);
            _some.Set();
        }
        return true;
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
        Close();
        _thread?.Join();
    }

    /// <summary>After <see cref="Join"/>.</summary>
    public void Dispose()
    {
        _ending.Dispose();
        _some.Dispose();
    }

    // False: there is none.
    private bool TryTake([NotNullWhen(true)] out Action? input)
    {
        lock (_inputs) { return _inputs.TryDequeue(out input); }
    }

    private bool IsOver
    {
        get
        {
            lock (_inputs) { return _isClosed && _inputs.Count == 0; }
        }
    }

    private void Run()
    {
        try
        {
            long nextUs = long.MaxValue;
            while (!IsOver)
            {
                bool isThere = TryTake(out Action? input);
                if (!isThere) { _some.WaitOne((int)Math.Clamp((nextUs - CohortNode.NowUs + 999) / 1000, 1, TickMs)); }
                if (isThere || TryTake(out input)) { input!(); }
                if (!_ending.IsCancellationRequested) { nextUs = _tick(); }
            }
        }
        catch (Exception e)
        {
            if (!_ending.IsCancellationRequested) { _failed(e); }
            Close();
            // Who waits for an answer gets it.
            while (TryTake(out Action? rest))
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

    private void Close()
    {
        lock (_inputs)
        {
            _isClosed = true;
            _some.Set();
        }
    }
}
