// How the connection comes, and how it ends.
using System.Net.Sockets;
using Slogger.FrontEnd.Transports;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Upstream
{
    private bool FinishConnect()
    {
        if (Channel.HasSocket)
        {
            var error = (int)Channel.Socket.GetSocketOption(SocketOptionLevel.Socket, SocketOptionName.Error)!;
            if (error != 0)
            {
                Close($"cannot connect to {_loop.Store}: {new SocketException(error).Message}");
                return false;
            }
            _loop.Store.Connected(Channel.Socket);
        }
        _loop.Poller.Watch(Channel, read: true, write: false);
        if (!_loop.Shard.IsFenced)
        {
            Admit();
            return !IsClosed;
        }
        _loop.CountInternal("hello");
        ReadOnlySpan<byte> greeting = InternalRequest.Nothing;
        fixed (byte* bytes = greeting)
        {
            if (Channel.Send(bytes, greeting.Length) != greeting.Length) { Close("Redis took nothing on a new connection"); }
        }
        return false;
    }

    /// <summary>May be used from now on; see <see cref="ConnectionAdmission"/>.</summary>
    public void Admit()
    {
        if (IsClosed) { return; }
        _connected = true;
        _loop.Upstreams.OnConnected(this);
        if (!IsClosed) { Flush(); }
    }

    /// <summary>Ends the connection. Clients that wait for replies on it are closed: nobody can tell what came of their
    /// commands.</summary>
    public void Close(string reason)
    {
        if (IsClosed) { return; }
        IsClosed = true;
        _loop.Poller.Close(Channel);
        _loop.Gate.ExactInFlight -= ExactInFlight;
        ExactInFlight = 0;
        _out.Free();
        _held.Free();
        _capture.Free();
        _rest.Free();
        _loop.Upstreams.OnClosed(this, reason);
        int count = _expected.Count;
        for (int i = 0; i < count; i++)
        {
            ref Expected e = ref _expected[i];
            Client? client = e.Client;
            e.Client = null;
            if (e.IsWriting) { _loop.Replies.OnWritten(); }
            if (e.Blocking && _loop.Replies.IsOn) { _loop.Replies.OnUnblocked(); }
            if (e.Kind == ReplyKind.Unlogged) { client?.UnloggedChange?.OnLost(); }
            client?.OnReplyLost(Math.Max(1, e.Kind == ReplyKind.Plain ? e.Count : 1), e.Kind);
        }
        _expected.Clear();
        Exclusive?.OnDedicatedClosed(this);
    }

    /// <summary>The client has ended its stream: so is this one, when all has been sent. Redis answers what it can, and
    /// hangs up.</summary>
    public void EndInput()
    {
        _endsInput = true;
        EndIfSent();
    }

    /// <summary>The client has gone. What has not been sent is dropped; what has been is executed or not, and is over when Redis hangs
    /// up.</summary>
    public void Linger()
    {
        if (IsClosed || !_connected)
        {
            Close("the client has gone");
            return;
        }
        _out.Clear(OutKeepBytes);
        _held.Clear(OutKeepBytes);
        _heldExact = 0;
        _loop.Upstreams.Lingering.Add(this);
        EndInput();
        UpdateReading();
    }

    private bool _endsInput;

    private void EndIfSent()
    {
        if (!_endsInput || !_connected || _out.Count > 0 || _held.Count > 0) { return; }
        _endsInput = false;
        if (Channel is LocalChannel local)
        {
            local.EndInput();
            return;
        }
        try
        {
            Channel.Socket.Shutdown(SocketShutdown.Send);
        }
        catch (SocketException)
        {
            // It is gone already: the end of its stream will tell.
        }
    }
}
