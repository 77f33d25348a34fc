// SIGTERM and SIGINT ask for an orderly stop; a second one ends the process at once. SIGHUP has a process that serves read its options
// again, and never stops it; a command that a person waits for ends with the terminal.
using System.Runtime.InteropServices;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Terminal;

/// <summary>Turns signals into a cancelled token.</summary>
internal sealed class StopSignals : IDisposable
{
    // What shells report for a process that a signal ended: 128 and the signal's number.
    private const int SignalExitBase = 128;

    private readonly CancellationTokenSource _stop;
    private readonly List<PosixSignalRegistration> _registrations = [];
    private readonly ILogger _log;
    private readonly Action? _reload;
    private readonly Lock _reloading = new();
    private int _signals;

    /// <summary>Begins to listen, if enabled.</summary>
    /// <param name="log">Is told of signals.</param>
    /// <param name="enabled">Whether to listen.</param>
    /// <param name="also">Cancels the token, too.</param>
    /// <param name="reload">What SIGHUP does: one call at a time, on any thread. Null: it stops the command.</param>
    public StopSignals(ILogger log, bool enabled, CancellationToken also = default, Action? reload = null)
    {
        _stop = CancellationTokenSource.CreateLinkedTokenSource(also);
        (_log, _reload) = (log, reload);
        if (enabled)
        {
            foreach (PosixSignal signal in new[] { PosixSignal.SIGTERM, PosixSignal.SIGINT, PosixSignal.SIGHUP })
            {
                _registrations.Add(PosixSignalRegistration.Create(signal, OnSignal));
            }
        }
    }

    /// <summary>Cancelled by the first signal.</summary>
    public CancellationToken Token => _stop.Token;

    public void Dispose()
    {
        _registrations.ForEach(registration => registration.Dispose());
        _stop.Dispose();
    }

    private void OnSignal(PosixSignalContext context)
    {
        context.Cancel = true;
        if (context.Signal == PosixSignal.SIGHUP && _reload is not null)
        {
            Reload(_reload);
            return;
        }

        if (Interlocked.Increment(ref _signals) == 1)
        {
            _log.Info($"{context.Signal}: stopping in order; a second signal stops at once");
            _stop.CancelAsync();
            return;
        }

        int number = context.Signal switch { PosixSignal.SIGHUP => 1, PosixSignal.SIGINT => 2, _ => 15 };
        Environment.Exit(SignalExitBase + number);
    }

    // Whatever goes wrong with it is no reason to end.
    private void Reload(Action reload)
    {
        lock (_reloading)
        {
            try
            {
                reload();
            }
            catch (Exception e)
            {
                _log.Error($"SIGHUP: the options were not taken up: {e}");
            }
        }
    }
}
