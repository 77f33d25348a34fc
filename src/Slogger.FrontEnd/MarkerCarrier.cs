// Which upstream carries the markers. The shared one, as long as there is one: then each request on it is in a version by
// its position. Where nobody may share (Redis wants a password, or lets its default user not send markers) all clients are
// on dedicated upstreams, which the gate drains and holds. Then a control upstream carries the markers: nothing else is ever sent on it,
// and it has logged in as the proxy itself.
//
// A connection that breaks may leave a marker at Redis that is executed later, behind what was forwarded on others meanwhile: whoever
// reads it there would take it for the end of its version. So a marker that is lost stays undecided, with all that is held held, until
// the shard has
// had Redis end that connection: then it was executed, before anything that comes now, or never is.
using System.Net.Sockets;
using System.Text;

namespace Slogger.FrontEnd;

/// <summary>Carries the markers to the store. The loop's thread.</summary>
internal sealed class MarkerCarrier(FrontEndLoop loop)
{
    private const long ControlRetryMicroseconds = 500_000;
    private const long WarnAgainMicroseconds = 60_000_000;
    private Upstream? _control;
    private bool _controlReady;
    private long _nextControl;
    private long _nextWarning;

    // What has sent the marker that is not answered; closed: nobody knows whether Redis has executed it.
    private Upstream? _underWay;

    /// <summary>Whether a marker can be sent now.</summary>
    public bool CanSend => !loop.IsPaused && (loop.Shared is { } shared
        ? shared is { IsClosed: false, IsIdentified: true } && loop.Sharing.IsReady
        : _control is { IsClosed: false } && _controlReady && loop.Sharing.Retiring is not { InFlight: > 0 });

    private bool NeedsControl => loop.Gate.IsVersioned && loop.Shared is null && loop.Probe.MustNotShare && loop.MayConnect
        && !loop.IsStoreClosed;

    /// <summary>Sends a marker.</summary>
    public void Send(ReadOnlySpan<byte> command)
    {
        Upstream carrier = _underWay = loop.Shared ?? _control!;
        carrier.Write(command);
        carrier.Expect(null, 1, ReplyKind.Marker);
        // Before anything that may hold the shared upstream until the reply.
        carrier.Flush();
        loop.Replies.OnMarkerSent();
        if (loop.Shard.MarkerChannel.Length > 0) { loop.MarkersSent++; } else { loop.CountInternal("bgsave"); }
    }

    /// <summary>A marker's reply has come.</summary>
    public void OnReply(Upstream upstream, ReadOnlySpan<byte> reply)
    {
        _underWay = null;
        loop.Replies.OnMarkerAnswered();
        loop.Boundary.OnMarkerReply(reply[0]);
        if (!reply.StartsWith("-NOPERM"u8)) { return; }
        if (upstream == loop.Shared)
        {
            loop.Probe.OnMayNotMark();
            loop.Sharing.Retire();
            loop.Shard.Warn("Redis's default user may not send the proxy's markers: every client gets a connection of its own. Let it "
                + "SPUBLISH (or BGSAVE, in mode bgsave) for speed");
        }
        else
        {
            Warn($"Redis does not let the proxy's own user send markers, so nothing is committed: {Encoding.UTF8.GetString(reply).Trim()}");
        }
    }

    /// <summary>The store opens. With the shared upstream still there, or a marker on its way, the gate goes on; else it begins
    /// anew.</summary>
    public void OnStoreOpens()
    {
        if (loop.Shared is not null || _underWay is { IsClosed: false }) { return; }
        _underWay = null;
        loop.Boundary.Restart();
    }

    /// <summary>Makes the control upstream where one is needed, and closes it where not.</summary>
    public void Housekeeping()
    {
        if (!NeedsControl)
        {
            if (loop.Shared is not null && _control is { InFlight: 0 } needless) { needless.Close("done"); }
            return;
        }
        if (_control is not null || loop.Now < _nextControl) { return; }
        _nextControl = loop.Now + ControlRetryMicroseconds;
        try
        {
            _controlReady = false;
            _control = new Upstream(loop, exclusive: null, isControl: true);
        }
        catch (Exception e) when (e is SocketException or InvalidOperationException)
        {
            loop.Shard.StoreUnreachable(e.Message);
        }
    }

    /// <summary>The control upstream is connected: logs in as the proxy itself.</summary>
    public void OnControlConnected(Upstream control)
    {
        if (loop.Store.Login is { Length: > 0 } login)
        {
            control.Write(login);
            control.Expect(null, 1, ReplyKind.Control);
            loop.CountInternal("auth");
        }
        loop.Directory.Identify(control);
        loop.CountInternal("client|no-evict");
        control.Write(InternalRequest.NoEvict);
        control.Expect(null, 1, ReplyKind.Control);
    }

    /// <summary>Redis has answered the login of the control upstream, or what came after it.</summary>
    public void OnControlReply(Upstream upstream, ReadOnlySpan<byte> reply)
    {
        if (upstream != _control) { return; }
        bool failed = reply.StartsWith("-NOAUTH"u8) || reply.StartsWith("-WRONGPASS"u8) || reply.StartsWith("-LOADING"u8)
            || reply.StartsWith("-ERR max number"u8);
        if (failed)
        {
            string why = Encoding.UTF8.GetString(reply).Trim();
            Warn($"Redis does not let the proxy itself in, so nothing is committed: {why} (see --redis-user and --redis-password-file)");
            upstream.Close("done");
            return;
        }
        if (upstream.InFlight == 0) { _controlReady = true; }
    }

    /// <summary>Closes the control upstream.</summary>
    public void Close(string reason) => _control?.Close(reason);

    /// <summary>An upstream has ended. True if it was the control upstream.</summary>
    public bool OnClosed(Upstream upstream, string reason)
    {
        if (upstream != _control) { return false; }
        _control = null;
        _controlReady = false;
        if (loop.Shared is null) { OnLost(upstream, reason); }
        return true;
    }

    /// <summary>An upstream that may have carried a marker has ended. Before the store is opened again, the shard ends at Redis what may
    /// have
    /// something to execute yet.</summary>
    public void OnLost(Upstream upstream, string reason)
    {
        if (upstream == _underWay || upstream is { InFlight: > 0, Line: not null }) { loop.Shard.CarrierLost(upstream.Line); }
        loop.Boundary.OnCarrierClosed();
        if (reason != "done" && !loop.IsStoreClosed) { loop.Shard.StoreUnreachable(reason); }
    }

    private void Warn(string what)
    {
        if (loop.Now < _nextWarning) { return; }
        _nextWarning = loop.Now + WarnAgainMicroseconds;
        loop.Shard.Warn(what);
    }
}
