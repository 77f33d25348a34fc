// CLIENT PAUSE: while one is on that a client asked for through the proxy, every client has a connection of its own, so that
// it hits each by itself, and no marker is sent: Redis takes it for a write and would hold it, and with it all that is
// behind it on the shared upstream, or held back until it is answered. The open version just stays open for so long.
namespace Slogger.FrontEnd;

internal sealed unsafe partial class FrontEndLoop
{
    private const long LongestPauseMilliseconds = 1L << 50;
    private const long UnansweredPauseMicroseconds = 1_000_000;
    private readonly List<Client> _waitingForQuiet = [];
    private long _pausedUntil;

    // A pause is on its way to Redis, which may refuse it.
    private long _expectedUntil;

    public bool IsPaused => _pausedUntil > Now || _expectedUntil > Now;

    /// <summary>A client asks for a pause.</summary>
    public void ExpectPause() => _expectedUntil = Now + UnansweredPauseMicroseconds;

    /// <summary>Redis has begun a pause, or refused it (then of no length).</summary>
    public void Pause(long milliseconds)
    {
        _expectedUntil = 0;
        _pausedUntil = Math.Max(_pausedUntil, Now + (Math.Min(milliseconds, LongestPauseMilliseconds) * 1000));
    }

    public void Unpause() => _pausedUntil = _expectedUntil = 0;

    public bool IsSharedBusy => Shared is { IsClosed: false, InFlight: > 0 };

    /// <summary>A client waits until nothing is in flight on the shared upstream, or too long.</summary>
    public void WaitForQuiet(Client client) => _waitingForQuiet.Add(client);

    private void ResumeQuiet()
    {
        foreach (Client client in _waitingForQuiet) { ScheduleResume(client); }
        _waitingForQuiet.Clear();
    }
}
