// Which upstream carries the markers. The shared one, as long as there is one: then each request on it is in a version by
// its position. Where nobody may share (Redis wants a password, or lets its default user not send markers) all clients are
// on dedicated upstreams, which the gate drains and holds; then a control upstream, on which nothing else is ever sent and
// which has logged in as the proxy itself, carries the markers.
//
// A connection that breaks may leave a marker at Redis that is executed later, behind what was forwarded on others meanwhile: whoever
// reads it there would take it for the end of its version. So a marker that is lost stays undecided, with all that is held held, until the shard has
// had Redis end that connection: then it was executed, before anything that comes now, or never is.
using System.Text;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class FrontEndLoop
{
    private const long ControlRetryMicroseconds = 500_000;
    private const long WarnAgainMicroseconds = 60_000_000;
    private Upstream? _control;
    private bool _controlReady;
    private long _nextControl;
    private long _nextControlWarning;

    // Was shared; owes replies still.
    private Upstream? _retiring;

    // What has sent the marker that is not answered; closed: nobody knows whether Redis has executed it.
    private Upstream? _carrier;

    // The default user may not send markers.
    private bool _mayNotMark;

    /// <summary>Whether a marker can be sent now.</summary>
    public bool CanSendMarker => !IsPaused && (Shared is { } shared
        ? shared is { IsClosed: false, IsIdentified: true } && _sharedReady
        : _control is { IsClosed: false } && _controlReady && _retiring is not { InFlight: > 0 });

    private bool NeedsControl => Gate.IsVersioned && Shared is null && _rightsKnown && !AcceptsSharing && MayConnect && !_storeClosed;

    /// <summary>Sends a marker.</summary>
    public void SendMarker(ReadOnlySpan<byte> command)
    {
        Upstream carrier = _carrier = Shared ?? _control!;
        carrier.Write(command);
        carrier.Expect(null, 1, ReplyKind.Marker);
        // Before anything that may hold the shared upstream until the reply.
        carrier.Flush();
        if (Shard.MarkerChannel.Length > 0) { MarkersSent++; } else { CountInternal("bgsave"); }
    }

    /// <summary>A marker's reply has come.</summary>
    public void OnMarkerReply(Upstream upstream, ReadOnlySpan<byte> reply)
    {
        _carrier = null;
        Boundary.OnMarkerReply(reply[0]);
        if (!reply.StartsWith("-NOPERM"u8)) { return; }
        if (upstream == Shared)
        {
            _mayNotMark = true;
            RetireShared();
            Shard.Warn("Redis's default user may not send the proxy's markers: every client gets a connection of its own. Let it SPUBLISH (or BGSAVE, in mode bgsave) for speed");
        }
        else
        {
            WarnOfControl($"Redis does not let the proxy's own user send markers, so nothing is committed: {Encoding.UTF8.GetString(reply).Trim()}");
        }
    }

    // The proxy's own user may not share its connection: it was not let in, or may not know Redis's commands.
    private bool _ownUserSharesNot;

    /// <summary>Rights may have changed: whether markers may be sent, and as whom, is tried again.</summary>
    private void ForgetRights() => _mayNotMark = _ownUserSharesNot = false;

    private void CarrierHousekeeping()
    {
        IdentifyAgain();
        if (_retiring is { InFlight: 0 } retired)
        {
            _retiring = null;
            retired.Close("done");
        }
        if (!NeedsControl)
        {
            if (Shared is not null && _control is { InFlight: 0 } needless) { needless.Close("done"); }
            return;
        }
        if (_control is not null || Now < _nextControl) { return; }
        _nextControl = Now + ControlRetryMicroseconds;
        try
        {
            _controlReady = false;
            _control = new Upstream(this, exclusive: null, isControl: true);
        }
        catch (Exception e) when (e is System.Net.Sockets.SocketException or InvalidOperationException)
        {
            Shard.StoreUnreachable(e.Message);
        }
    }

    private void OnControlConnected(Upstream upstream)
    {
        if (Store.Login is { Length: > 0 } login)
        {
            upstream.Write(login);
            upstream.Expect(null, 1, ReplyKind.Control);
            CountInternal("auth");
        }
        Identify(upstream);
        CountInternal("client|no-evict");
        upstream.Write(InternalRequest.NoEvict);
        upstream.Expect(null, 1, ReplyKind.Control);
    }

    /// <summary>Redis has answered the login of the control upstream, or what came after it.</summary>
    public void OnControlReply(Upstream upstream, ReadOnlySpan<byte> reply)
    {
        if (upstream != _control) { return; }
        bool failed = reply.StartsWith("-NOAUTH"u8) || reply.StartsWith("-WRONGPASS"u8) || reply.StartsWith("-LOADING"u8) || reply.StartsWith("-ERR max number"u8);
        if (failed)
        {
            string why = Encoding.UTF8.GetString(reply).Trim();
            WarnOfControl($"Redis does not let the proxy itself in, so nothing is committed: {why} (see --redis-user and --redis-password-file)");
            upstream.Close("done");
            return;
        }
        if (upstream.InFlight == 0) { _controlReady = true; }
    }

    private void OnControlClosed(Upstream control, string reason)
    {
        _control = null;
        _controlReady = false;
        if (Shared is null) { OnCarrierClosed(control, reason); }
    }

    // Before the store is opened again, the shard ends at Redis what may have something to execute yet.
    private void OnCarrierClosed(Upstream upstream, string reason)
    {
        if (upstream == _carrier || upstream is { InFlight: > 0, Line: not null }) { Shard.CarrierLost(upstream.Line); }
        Boundary.OnCarrierClosed();
        if (reason != "done" && !_storeClosed) { Shard.StoreUnreachable(reason); }
    }

    private void WarnOfControl(string what)
    {
        if (Now < _nextControlWarning) { return; }
        _nextControlWarning = Now + WarnAgainMicroseconds;
        Shard.Warn(what);
    }

    // Nobody shares any more. What is under way on the connection is answered there, and then it is closed.
    private void RetireShared()
    {
        Upstream shared = Shared!;
        shared.Flush();
        _retiring = shared;
        Shared = null;
        _sharedReady = false;
        AcceptsSharing = false;
        DropSpares("nobody shares now");
        foreach (Client client in Clients) { client.LeaveShared(); }
        WakeFullClients();
    }
}
