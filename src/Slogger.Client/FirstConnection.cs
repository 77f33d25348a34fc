// The time in which a client knows no proxy yet. One that was made by SloggerClient.Start tries until one answers, so that an application
// may start before them; who needs the cluster waits for Made.
using System.Diagnostics;
using Microsoft.Extensions.Logging;

namespace Slogger.Client;

/// <summary>Whether a client has found its cluster, and the attempts to find it. Any thread.</summary>
internal sealed partial class FirstConnection(SloggerClientOptions options, ILogger logger)
{
    // A reason that lasts is told once in this time.
    private static readonly TimeSpan s_tellEvery = TimeSpan.FromMinutes(1);
    private readonly TaskCompletionSource _made = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly HashSet<string> _told = new(StringComparer.Ordinal);
    private long _toldSince = Stopwatch.GetTimestamp();
    private Task _trying = Task.CompletedTask;
    private volatile string _whyNot = "no proxy has answered yet";

    /// <summary>Completes when there is a cluster; fails when the client is disposed before that.</summary>
    public Task Made => _made.Task;

    /// <summary>There is a cluster.</summary>
    public void IsMade() => _made.TrySetResult();

    /// <exception cref="SloggerException">There is no cluster yet.</exception>
    public void ThrowIfNotMade()
    {
        if (!Made.IsCompletedSuccessfully)
        {
            throw new SloggerException($"The client is not connected yet: {_whyNot}. Await Connected first, or open the session by "
                + "OpenSessionAsync, which waits for it.");
        }
    }

    /// <summary>Tries until it succeeds, or is to stop. Once.</summary>
    /// <param name="connect">One attempt.</param>
    /// <param name="stop">Ends it.</param>
    public void Try(Func<CancellationToken, Task> connect, CancellationToken stop) =>
        _trying = Task.Run(() => TryAsync(connect, stop), CancellationToken.None);

    /// <summary>When stopped: nothing runs any more, and nobody waits in vain.</summary>
    public async Task EndAsync()
    {
        await _trying.ConfigureAwait(false);
        // Nobody need look at it.
        if (_made.TrySetException(new ObjectDisposedException(nameof(SloggerClient)))) { _ = _made.Task.Exception; }
    }

    private async Task TryAsync(Func<CancellationToken, Task> connect, CancellationToken stop)
    {
        TimeSpan pause = options.ReconnectDelayMin;
        while (true)
        {
            try
            {
                await connect(stop).ConfigureAwait(false);
                IsMade();
                return;
            }
            catch (Exception e)
            {
                // Whatever it is, another attempt may succeed.
                if (stop.IsCancellationRequested) { return; }
                _whyNot = e.Message.TrimEnd('.');
                Tell(e);
            }

            await Task.Delay(pause, stop).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            pause = TimeSpan.FromTicks(Math.Min(pause.Ticks * 2, options.ReconnectDelayMax.Ticks));
        }
    }

    private void Tell(Exception why)
    {
        if (Stopwatch.GetElapsedTime(_toldSince) >= s_tellEvery)
        {
            _told.Clear();
            _toldSince = Stopwatch.GetTimestamp();
        }
        // What this client says of a proxy is told by its text; anything else is a surprise.
        if (_told.Add(why.Message)) { LogNotConnected(_whyNot, why is SloggerException ? null : why); }
    }

    [LoggerMessage(EventId = 4, Level = LogLevel.Warning, Message = "The cluster is not reached yet: {Why}. Trying again.")]
    private partial void LogNotConnected(string why, Exception? exception);
}
