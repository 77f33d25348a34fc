// Makes the version log durable on a thread of its own. Everything that was appended before a sync begins becomes durable with it, so
// versions that end while one sync runs share the next.
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Format;

namespace Slogger.Proxy.Shards;

/// <summary>The thread that syncs one log. <see cref="Request"/>: any thread; the rest: who owns it.</summary>
/// <param name="log">The log. Appends go on during a sync, so no lock is held here.</param>
/// <param name="synced">Called after each sync with the last boundary that is durable; null: none is yet.</param>
/// <param name="failed">The log cannot be written. The thread has ended then.</param>
internal sealed class LogSyncer(VersionLog log, Action<Boundary?> synced, Action<LogIOException> failed) : IDisposable
{
    // Bytes of a version that has not ended yet are synced now and then, too.
    private static readonly TimeSpan Period = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan EndLimit = TimeSpan.FromSeconds(5);
    private readonly AutoResetEvent _wanted = new(false);
    private Thread? _thread;

    /// <summary>Starts the thread. It ends when <paramref name="ending"/> is cancelled.</summary>
    public void Start(CancellationToken ending)
    {
        _thread = new Thread(() => Run(ending)) { Name = "log sync", IsBackground = true };
        _thread.Start();
    }

    /// <summary>Has the log synced soon. Returns at once.</summary>
    public void Request() => _wanted.Set();

    /// <summary>Waits for the thread's end, which was asked for by the token that it was started with.</summary>
    public void Join()
    {
        _wanted.Set();
        _thread?.Join(EndLimit);
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
            synced(log.DurableBoundary);
        }
    }

    public void Dispose() => _wanted.Dispose();
}
