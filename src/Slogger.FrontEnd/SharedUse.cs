// How one client uses the upstream that clients share. Whether it may is decided once for each shared upstream, and whenever the client has
// become another user.
namespace Slogger.FrontEnd;

/// <summary>A client's use of the shared upstream. The loop's thread.</summary>
internal struct SharedUse
{
    private const long AvoidMicroseconds = 100_000;
    private long _avoidedUntil;

    /// <summary>Begins with an upstream, or with none.</summary>
    /// <param name="upstream">The upstream.</param>
    /// <param name="isDecided">Whether that is known to be right.</param>
    public SharedUse(Upstream? upstream, bool isDecided)
    {
        Upstream = upstream;
        IsUndecided = !isDecided;
        if (upstream is not null) { upstream.ClientCount++; }
    }

    /// <summary>The shared upstream; <c>null</c> when the client has none.</summary>
    public Upstream? Upstream { get; private set; }

    /// <summary>It is yet to be decided whether the client may share.</summary>
    public bool IsUndecided { get; private set; }

    /// <summary>As whom the client has logged in; <c>null</c>: it has not. The connection on which it did stays its own; ordinary requests
    /// may be shared all the same.</summary>
    public string? User { get; private set; }

    /// <summary>Requests on the shared upstream that are not answered.</summary>
    public int InFlight { get; set; }

    /// <summary>Whether the client keeps to an upstream of its own for now.</summary>
    public readonly bool IsAvoided(long now) => _avoidedUntil > now;

    /// <summary>The shared upstream was refused the client's view.</summary>
    public void Avoid(long now) => _avoidedUntil = now + AvoidMicroseconds;

    /// <summary>Decides, if that is due.</summary>
    public void Decide(SharedUpstream sharing)
    {
        if (!IsUndecided) { return; }
        IsUndecided = false;
        Upstream = sharing.For(User);
        if (Upstream is not null) { Upstream.ClientCount++; }
    }

    /// <summary>The client is another user now. Nothing of it is under way on the shared upstream.</summary>
    public void BecomeUser(string? user)
    {
        User = user;
        Uncount();
        Upstream = null;
        IsUndecided = true;
    }

    /// <summary>The shared upstream is gone; the client may share the next one if a new connection may.</summary>
    public void Lose()
    {
        Upstream = null;
        IsUndecided = true;
        InFlight = 0;
    }

    /// <summary>The client has an upstream of its own from the next request on.</summary>
    public void Leave() => Upstream = null;

    /// <summary>The client has gone.</summary>
    public readonly void Uncount()
    {
        if (Upstream is { } upstream) { upstream.ClientCount--; }
    }
}
