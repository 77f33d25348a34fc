// How a client's connection ends: by its own doing, by Redis's, or by the proxy's. What it is owed it still gets.
using System.Text;
using Slogger.FrontEnd.Transports;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    private const int ReadAheadBytes = 1 << 20;
    private const long EndedBlockedMicroseconds = 100_000;

    private const long LingerMicroseconds = 1_000_000;

    // A client of a Redis Cluster has long followed. One that comes again much later was moved once more.
    private const long MovedMicroseconds = 1_000_000, MovedForgottenMicroseconds = 60_000_000;

    // For one that does not read what it is owed.
    private const long UnreadMicroseconds = 30_000_000;

    // A client that has ended its stream still gets what it is owed.
    private void CloseIfDone()
    {
        if (!(_end.IsInputOver || _end.HasQuit) || IsClosed || _waiting != Waiting.Nothing || IsResumeScheduled || !IsDrained) { return; }
        if (_end.IsWithUpstream && Dedicated is not null) { return; }
        if (_output.Count == 0) { Close(); } else { _end.IsWhenSent = true; }
    }

    private void OnEnd(bool broken)
    {
        _end.IsInputOver = true;
        if (broken)
        {
            Close();
            return;
        }
        UpdateWatch();
        EndUpstream();
        CloseIfDone();
    }

    // What is under way on a connection of its own Redis answers or not, as it would if the client had ended that one:
    // what blocks is given up, what came before is told. So are messages.
    private void EndUpstream()
    {
        // What is to be resumed may still forward requests that came before the end.
        if (!_end.IsInputOver || IsClosed || _waiting != Waiting.Nothing || IsResumeScheduled || Dedicated is not { } dedicated) { return; }
        if (dedicated.InFlight == 0 && (_pins & (Pins.PubSub | Pins.Monitor | Pins.Tracking)) == 0) { return; }
        _end.IsWithUpstream = true;
        dedicated.EndInput();
    }

    // Behind a request that blocks others may wait that are not forwarded before it is answered: the end must be seen
    // all the same, or Redis gives an element to a client that has gone.
    private bool ReadsAhead => _waiting is Waiting.Drain or Waiting.Reply or Waiting.Room && Dedicated is { BlockingInFlight: > 0 }
        && _input.Count < ReadAheadBytes;

    private void ReadAhead()
    {
        _input.Reserve(ReadBytes);
        int got = _channel.Receive(_input.Tail, ReadBytes);
        if (got > 0)
        {
            _input.Commit(got);
            if (!IsInputTaken()) { return; }
        }
        else if (got == Channel.Broken)
        {
            Close();
            return;
        }
        else if (got != Channel.WouldBlock)
        {
            _end.IsInputOver = true;
        }
        UpdateWatch();
    }

    // It has ended its stream, and the request before those that are here still blocks: Redis would not do them any more.
    private void GiveUpBlocked(long now)
    {
        if (_end.IsInputOver && _waiting != Waiting.Nothing && Dedicated is { BlockingInFlight: > 0 } dedicated
            && now - _lastActive > EndedBlockedMicroseconds)
        {
            dedicated.EndInput();
        }
    }

    /// <summary>Ends the connection behind what is owed.</summary>
    public void CloseWhenSent()
    {
        _end.IsWhenSent = true;
        _input.Free();
        if (_output.Count == 0) { Close(); } else { UpdateWatch(); }
    }

    public void Close()
    {
        if (IsClosed) { return; }
        IsClosed = true;
        GiveUpReset();
        _output.Free();
        _input.Free();
        _loop.Poller.Close(_channel);
        _sharing.Uncount();
        // A change that the log does not hold may still be on its way to Redis: its end must be seen. Among several shards so must that of
        // anything: its slot may be given away, and be another's before it is executed. With committed replies, too: others may read of it.
        if (UnloggedChange is null)
        {
            if ((_loop.Slots is not null || _loop.Replies.IsOn) && Dedicated is { InFlight: > 0 } dedicated) { dedicated.Linger(); }
            else { Dedicated?.Close("the client has gone"); }
        }
        _loop.Clients.Forget(this);
    }

    public void OnDedicatedClosed(Upstream upstream)
    {
        if (upstream != Dedicated || IsClosed) { return; }
        Dedicated = null;
        // Nothing is watched any more: its request, if that is still to be answered, begins anew.
        _keyWrite = null;
        _transaction.ConnectionLost();
        GiveUpReset();
        // Redis closes connections by its timeout, too: one that was only lent to the client is not missed.
        bool wasIdle = upstream.WasIdle || (_pins == Pins.None && !IsStreaming && !_end.IsWhenSent);
        if (wasIdle || _waiting == Waiting.Verdict || IsKept)
        {
            if ((_pins & Pins.Multi) != 0) { Rollback.LoseTransaction(); }
            _pins &= ~(Pins.Multi | Pins.Watch | Pins.Identity);
            if (_sharing.User is not null)
            {
                _lostLogin = true;
                _verdictDue = _loop.Now + VerdictMicroseconds;
            }
            if (_waiting is Waiting.Reply or Waiting.View or Waiting.Drain or Waiting.Room) { EndWait(); }
            CloseIfDone();
            return;
        }
        LoseReplies();
    }

    /// <summary>Redis has refused the connection that this client needs, as it would have refused the client.</summary>
    public void OnRefused(ReadOnlySpan<byte> error)
    {
        if (IsClosed) { return; }
        Deliver(error);
        if (!IsClosed) { LoseReplies(); }
    }

    private void LoseReplies()
    {
        _end.IsWhenSent = true;
        if (_output.Count == 0 || _output.IsHeld) { Close(); } else { UpdateWatch(); }
    }

    // ---- An error that ends the connection ----

    /// <summary>Tells the client where the leader is. A client of Sentinels that was told an older leader does not follow. It asks anew when
    /// its connection ends, so the connection ends when the client comes again a second later. One that reads here may come again.</summary>
    /// <returns>As a handler.</returns>
    public bool RefuseMoved(string moved)
    {
        long age = _loop.Now - _end.MovedAt;
        bool isFirst = _end.MovedAt == 0 || age > MovedForgottenMicroseconds;
        if (!isFirst && age > MovedMicroseconds && !ReadsHere) { return RefuseAndEnd(moved); }
        bool isAnswered = RefuseCommand(moved);
        if (isFirst && (isAnswered || (_pins & Pins.Multi) != 0)) { _end.MovedAt = _loop.Now; }
        return isAnswered;
    }

    // The error is the only reply, after all that is owed. The connection is closed when the client has seen it: closed at once,
    // with requests still coming, it might be lost on the way.
    public bool RefuseAndEnd(string error, bool tells = false)
    {
        if (!IsDrained)
        {
            Wait(Waiting.Drain);
            return false;
        }
        if (tells) { Tells(); }
        DeliverPush(Encoding.ASCII.GetBytes($"-{error}\r\n"));
        if (!IsClosed) { EndWhenRead(); }
        return false;
    }

    /// <summary>The connection is closed when the client has read what it was sent. What it has sent meanwhile is dropped.</summary>
    public void EndWhenRead()
    {
        _end.LingersUntil = _loop.Now + LingerMicroseconds;
        _input.Free();
        if (_output.Count == 0) { EndSending(); }
        UpdateWatch();
    }

    private void EndSending()
    {
        _end.LingersUntil = _loop.Now + LingerMicroseconds;
        try
        {
            _channel.Socket.Shutdown(System.Net.Sockets.SocketShutdown.Send);
        }
        catch (System.Net.Sockets.SocketException)
        {
            Close();
        }
    }

    private void DropInput()
    {
        int got = _channel.Receive(_loop.ReceiveBuffer, FrontEndLoop.ReceiveBufferBytes);
        if (got <= 0 && got != Channel.WouldBlock) { Close(); }
    }
}
