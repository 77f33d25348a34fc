// Drills of a shard that follows: its log is restored into a store of its own, and compared. Nothing of what a drill restores from is
// deleted meanwhile. A stream that is seeded anew, and a failover, do not wait for it: they bar it.
using Slogger.Proxy.Drills;

namespace Slogger.Proxy.Shards;

/// <summary>The drill that runs, if any. Any thread.</summary>
/// <param name="checkpointing">Held by who deletes what a store can begin from, or needs that it stays.</param>
internal sealed class RestoreTrials(SemaphoreSlim checkpointing)
{
    private readonly Lock _lock = new();
    private CancellationTokenSource? _running;      // under _lock
    private int _barred;                            // under _lock

    /// <summary>Restores and compares, unless that is barred.</summary>
    public async Task<RestoreTrial> RunAsync(Func<CancellationToken, Task<RestoreTrial>> compare, CancellationToken stop)
    {
        await checkpointing.WaitAsync(stop).ConfigureAwait(false);
        using var trial = CancellationTokenSource.CreateLinkedTokenSource(stop);
        try
        {
            // Whoever bars trials may be waiting for this one's end, with the store held: from here on it either ends this one, or this one
            // does not begin.
            lock (_lock)
            {
                if (_barred > 0) { return NoneNow(); }
                _running = trial;
            }
            return await compare(trial.Token).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (!stop.IsCancellationRequested)
        {
            return NoneNow();
        }
        finally
        {
            lock (_lock) { _running = null; }
            checkpointing.Release();
        }
    }

    /// <summary>Ends the drill that runs, and has none begin.</summary>
    public void Bar()
    {
        lock (_lock)
        {
            _barred++;
            _running?.Cancel();
        }
    }

    /// <summary>One who has barred them does so no more.</summary>
    public void Allow()
    {
        lock (_lock) { _barred--; }
    }

    private static RestoreTrial NoneNow() =>
        RestoreTrial.Impossible("the stream is being seeded anew, or the site takes over: give the command again afterwards");
}
