// Makes the version log durable on threads of its own: one, or as many as the log can sync at a time. Everything that was appended before a
// sync begins becomes durable with it, so versions that end while all syncs run share the next.
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Format;

namespace Slogger.Proxy.Shards;

/// <summary>The threads that sync one log. <see cref="Request"/>: any thread; the rest: who owns it.</summary>
/// <param name="log">The log. Appends go on during a sync, so no lock is held here.</param>
/// <param name="synced">Called after each sync with the last boundary that is durable; null: none is yet. One call at a time.</param>
/// <param name="failed">The log cannot be written. The thread that found out has ended then, and the others soon will.</param>
internal sealed class LogSyncer(VersionLog log, Action<Boundary?> synced, Action<LogIOException> failed) : IDisposable
{
    // Bytes of a version that has not ended yet are synced now and then, too.
    private static readonly TimeSpan Period = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan EndLimit = TimeSpan.FromSeconds(5);
    private readonly AutoResetEvent _wanted = new(false);
    private readonly Lock _telling = new();
    private Thread[] _threads = [];

    /// <summary>Starts the threads. They end when <paramref name="ending"/> is cancelled.</summary>
    public void Start(CancellationToken ending)
    {
        _threads = [.. Enumerable.Range(0, log.SyncsAtATime).Select(
            _ => new Thread(() => Run(ending)) { Name = "log sync", IsBackground = true })];
        foreach (Thread thread in _threads) { thread.Start(); }
    }

    /// <summary>Has the log synced soon. Returns at once.</summary>
    public void Request() => _wanted.Set();

    /// <summary>Waits for the threads' end, which was asked for by the token that they were started with.</summary>
    public void Join()
    {
        _wanted.Set();
        long deadline = Environment.TickCount64 + (long)EndLimit.TotalMilliseconds;
        foreach (Thread thread in _threads) { thread.Join((int)Math.Max(0, deadline - Environment.TickCount64)); }
    }

    private void Run(CancellationToken ending)
    {
        while (!ending.IsCancellationRequested)
        {
            _wanted.WaitOne(Period);
            try
            {
                log.Sync();
            }
            catch (LogIOException e)
            {
                failed(e);
                return;
            }
            catch (ObjectDisposedException)
            {
                return;
            }
            lock (_telling) { synced(log.DurableBoundary); }
        }
        // Another one may wait.
        _wanted.Set();
    }

    public void Dispose()
    {
        // A thread that hangs in a sync comes back to it.
        if (!Array.Exists(_threads, t => t.IsAlive)) { _wanted.Dispose(); }
    }
}
