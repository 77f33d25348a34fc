// CLIENT PAUSE. While a pause is on that a client asked for through the proxy, every client has a connection of its own, so that the pause
// hits each by itself. No marker is sent: Redis takes it for a write and would hold it, and with it all that is behind it on the shared
// upstream, or held back until it is answered. The open version just stays open for so long.
namespace Slogger.FrontEnd;

/// <summary>The pause of clients that Redis has been asked for. The loop's thread.</summary>
internal sealed class ClientPause(FrontEndLoop loop)
{
    private const long LongestMilliseconds = 1L << 50;
    private const long UnansweredMicroseconds = 1_000_000;
    private long _until;

    // A pause is on its way to Redis, which may refuse it.
    private long _expectedUntil;

    /// <summary>Whether clients are paused, or may be at any moment.</summary>
    public bool IsOn => _until > loop.Now || _expectedUntil > loop.Now;

    /// <summary>A client asks for a pause.</summary>
    public void Expect() => _expectedUntil = loop.Now + UnansweredMicroseconds;

    /// <summary>Redis has begun a pause, or refused it (then of no length).</summary>
    public void Begin(long milliseconds)
    {
        _expectedUntil = 0;
        _until = Math.Max(_until, loop.Now + (Math.Min(milliseconds, LongestMilliseconds) * 1000));
    }

    /// <summary>Redis has ended the pause.</summary>
    public void End() => _until = _expectedUntil = 0;
}
