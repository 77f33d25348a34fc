// Finds out, by a fresh connection, what clients may do that have not logged in. If that is something, the connection becomes the shared
// upstream where there is none; if a password is needed it logs in as the proxy itself, for those clients that are the same user.
using System.Net.Sockets;

namespace Slogger.FrontEnd;

/// <summary>How far the connection has come that finds out what new connections may do.</summary>
internal enum ProbeStage
{
    New,

    /// <summary>Has asked for Redis's commands.</summary>
    Asked,

    LoggingIn,
    LoggedIn,
    LoggedInAndAsked,

    /// <summary>The proxy's credentials were not taken.</summary>
    Refused,
}

/// <summary>Whether clients may share a connection, and as whom. The loop's thread.</summary>
internal sealed class SharingProbe(FrontEndLoop loop)
{
    private const long IntervalMicroseconds = 500_000;
    private const long RetryMicroseconds = 50_000;
    private const string Done = "done", TooEarly = "asked too early";
    private readonly List<Client> _waiting = [];
    private Upstream? _probe;
    private ProbeStage _stage;
    private bool _again;
    private bool _isKnown;
    private long _last = long.MinValue / 2;
    private long _next = long.MaxValue;

    // The default user may not send markers.
    private bool _mayNotMark;

    // The proxy's own user may not share its connection: it was not let in, or may not know Redis's commands.
    private bool _ownUserSharesNot;

    /// <summary>Whether a client that connects now may do, unasked for a password, what the shared upstream may.</summary>
    public bool AcceptsSharing { get; private set; }

    /// <summary>Whether it is known that new connections need a password.</summary>
    public bool NeedsPassword { get; private set; }

    /// <summary>Whether it is known that new connections may not share.</summary>
    public bool MustNotShare => _isKnown && !AcceptsSharing;

    /// <summary>Whether it is known if new connections may share.</summary>
    public bool IsSharingKnown => loop.Shard.IsOpen && _isKnown;

    /// <summary>How many connections it has.</summary>
    public int Count => _probe is null ? 0 : 1;

    /// <summary>A client cannot go on before it is known whether there is a shared upstream.</summary>
    public void WaitFor(Client client) => _waiting.Add(client);

    /// <summary>The store opens: rights are found out anew.</summary>
    public void OnStoreOpens() => ForgetRefusals();

    /// <summary>The store is lost, or about to be closed.</summary>
    public void OnStoreCloses() => _isKnown = false;

    /// <summary>Closes the connection that asks.</summary>
    public void Close(string reason) => _probe?.Close(reason);

    /// <summary>Rights may be changing: until a new connection has shown what they are, nobody new shares.</summary>
    public void Suspend()
    {
        AcceptsSharing = false;
        _isKnown = false;
        ForgetRefusals();
        loop.Spares.Drop("rights may change");
    }

    /// <summary>Nobody new shares.</summary>
    public void RefuseSharing() => AcceptsSharing = false;

    /// <summary>The default user may not send markers.</summary>
    public void OnMayNotMark() => _mayNotMark = true;

    /// <summary>The shared upstream has ended.</summary>
    public void OnSharedClosed()
    {
        AcceptsSharing = false;
        _isKnown = false;
    }

    /// <summary>Has a new connection show whether a password is needed.</summary>
    public void Check()
    {
        _isKnown = false;
        AcceptsSharing = false;
        if (_probe is null) { Start(); } else { _again = true; }
    }

    /// <summary>Whether it is known, as of a moment ago, that a new connection may share. If not, it is found out.</summary>
    public bool IsFresh()
    {
        if (AcceptsSharing && loop.Now - _last < IntervalMicroseconds) { return true; }
        Check();
        return false;
    }

    /// <summary>Asks at once.</summary>
    public void StartNow()
    {
        _next = loop.Now;
        Start();
    }

    /// <summary>Asks when it is time.</summary>
    public void Housekeeping()
    {
        if (loop.Now < _next) { return; }
        _next = loop.Now + RetryMicroseconds;
        Start();
    }

    /// <summary>An upstream is connected.</summary>
    public void OnConnected(Upstream upstream)
    {
        if (upstream != _probe) { return; }
        loop.CountInternal("client|no-evict");
        upstream.Write(InternalRequest.NoEvict);
        upstream.Expect(null, 1, ReplyKind.Greeting);
    }

    /// <summary>The store's commands are known, which were asked for on this upstream.</summary>
    public void OnCommandsLearnt(Upstream upstream)
    {
        if (upstream == _probe) { OnGreeting(upstream, "+OK\r\n"u8); }
    }

    /// <summary>The first answer on a new connection, or the first after a login.</summary>
    public void OnGreeting(Upstream upstream, ReadOnlySpan<byte> reply)
    {
        if (upstream != _probe) { return; }
        if (_again)
        {
            // Asked before the last change: ask once more.
            _again = false;
            upstream.Close(TooEarly);
            Start();
            return;
        }
        if (loop.Shared is null && (loop.Gate.IsMarkerInFlight || loop.Sharing.Retiring is not null))
        {
            // The marker is on the control upstream, or lost, or what was shared before has not ended: nothing may be shared beside it.
            _next = loop.Now + RetryMicroseconds;
            upstream.Close(Done);
            return;
        }
        if (_stage == ProbeStage.LoggingIn)
        {
            // What follows the login is answered next.
            _stage = reply[0] == (byte)'+' ? ProbeStage.LoggedIn : ProbeStage.Refused;
            return;
        }
        bool isLoggedIn = _stage is ProbeStage.LoggedIn or ProbeStage.LoggedInAndAsked;
        bool needsPassword = isLoggedIn || reply.StartsWith("-NOAUTH"u8);
        if (needsPassword && _stage == ProbeStage.New && loop.Shared is null && !_mayNotMark && !_ownUserSharesNot
            && loop.Store.Login is { Length: > 0 } login)
        {
            LogIn(upstream, login);
            return;
        }
        bool isLoading = reply.StartsWith("-LOADING"u8) || reply.StartsWith("-MASTERDOWN"u8) || reply.StartsWith("-ERR max number"u8);
        if ((!needsPassword || isLoggedIn) && !isLoading && !loop.Catalog.IsKnown && _stage is ProbeStage.New or ProbeStage.LoggedIn)
        {
            // Who is not logged in must not ask: Redis hangs up on so long a request.
            _stage = isLoggedIn ? ProbeStage.LoggedInAndAsked : ProbeStage.Asked;
            loop.Catalog.Ask(upstream);
            upstream.Flush();
            return;
        }
        Conclude(upstream, needsPassword, isLoggedIn, isLoading);
    }

    // Who logs in as the same user as the proxy can share with it.
    private void LogIn(Upstream upstream, byte[] login)
    {
        _stage = ProbeStage.LoggingIn;
        loop.CountInternal("auth");
        loop.CountInternal("client|no-evict");
        upstream.Write(login);
        upstream.Expect(null, 1, ReplyKind.Greeting);
        upstream.Write(InternalRequest.NoEvict);
        upstream.Expect(null, 1, ReplyKind.Greeting);
        upstream.Flush();
    }

    private void Conclude(Upstream upstream, bool needsPassword, bool isLoggedIn, bool isLoading)
    {
        _next = isLoading ? loop.Now + RetryMicroseconds : long.MaxValue;
        NeedsPassword = needsPassword;
        bool mayShare = (!needsPassword || isLoggedIn) && !isLoading && !_mayNotMark && !loop.Catalog.HidesCommands;
        // Not tried again for every client that comes: Redis would note each time in its ACL LOG what it refused.
        if (!mayShare && !isLoading && _stage is not (ProbeStage.New or ProbeStage.Asked)) { _ownUserSharesNot = true; }
        string user = isLoggedIn ? loop.Store.LoginUser : FrontEndLoop.DefaultUser;
        if (mayShare && user == FrontEndLoop.DefaultUser && loop.Shared is not null && loop.Sharing.User != FrontEndLoop.DefaultUser)
        {
            // No password is needed any more: what is shared will be for those who give none.
            NeedsPassword = false;
            loop.Sharing.Retire();
            _next = loop.Now + RetryMicroseconds;
            upstream.Close(Done);
            return;
        }
        AcceptsSharing = mayShare && !needsPassword;
        _isKnown = !isLoading;
        _last = loop.Now;
        if (needsPassword) { loop.Spares.Drop("a password is needed now"); }
        if (mayShare && loop.Shared is null)
        {
            _probe = null;
            loop.Sharing.Begin(upstream, user);
        }
        else
        {
            upstream.Close(Done);
        }
        if (isLoading) { return; }
        loop.CarrierHousekeeping();
        foreach (Client client in _waiting) { client.OnSharingKnown(); }
        _waiting.Clear();
    }

    /// <summary>An upstream has ended. True if it was the one that asks.</summary>
    public bool OnClosed(Upstream upstream, string reason)
    {
        if (upstream != _probe) { return false; }
        _probe = null;
        if (reason is not (Done or TooEarly))
        {
            AcceptsSharing = false;
            _next = loop.Now + RetryMicroseconds;
            if (!loop.IsStoreClosed) { loop.Shard.StoreUnreachable(reason); }
        }
        return true;
    }

    private void Start()
    {
        if (!loop.MayConnect || _probe is not null) { return; }
        try
        {
            _stage = ProbeStage.New;
            _probe = new Upstream(loop, exclusive: null);
        }
        catch (Exception e) when (e is SocketException or InvalidOperationException)
        {
            loop.Shard.StoreUnreachable(e.Message);
        }
    }

    // Whether markers may be sent, and as whom, is tried again.
    private void ForgetRefusals() => _mayNotMark = _ownUserSharesNot = false;
}
