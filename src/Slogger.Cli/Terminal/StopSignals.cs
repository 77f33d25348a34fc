// SIGTERM, SIGINT and SIGHUP ask for an orderly stop; a second one ends the process at once.
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
    private int _signals;

    /// <summary>Begins to listen, if enabled. <paramref name="also"/> cancels the token, too.</summary>
    public StopSignals(ILogger log, bool enabled, CancellationToken also = default)
    {
        _stop = CancellationTokenSource.CreateLinkedTokenSource(also);
        _log = log;
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
        if (Interlocked.Increment(ref _signals) == 1)
        {
            _log.Info($"{context.Signal}: stopping in order; a second signal stops at once");
            _stop.CancelAsync();
            return;
        }

        int number = context.Signal switch { PosixSignal.SIGHUP => 1, PosixSignal.SIGINT => 2, _ => 15 };
        Environment.Exit(SignalExitBase + number);
    }
}
