// The way of a command that is not ordinary: its arguments are read, what would keep it from being done is looked for, and then its handler
// (SpecialCommands) forwards it, answers it, or begins to wait. What handlers need of a client is here.
using System.Buffers.Text;
using System.Net.Sockets;
using System.Text;
using Slogger.Resp;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    private int _subscribing;
    // What Redis says of itself, asked for this request.
    private StoreFacts? _facts;

    // Handles the special request at the head of the input. False when something must be waited for, or more bytes.
    private bool HandleSpecial(CommandKind kind)
    {
        byte* p = _input.Head;
        if (kind == CommandKind.OwnSpelled)
        {
            // The embedded store has neither MONITOR nor a slow log that anybody could hide in, and its errors repeat names as they are
            // spelled.
            if (_loop.Store.Knows(OwnSpelling.NameAt(p)))
            {
                OwnSpelling.Undo(p);
                return true;
            }
            kind = CommandKind.Impossible;
        }
        long length = CommandScanner.ReadArguments(p, _input.Tail, _loop.Arguments);
        if (length == 0)
        {
            // Among several shards, and at a follower, its keys must be seen first.
            if (kind == CommandKind.Dedicated && _input.Count > LargeRequestBytes && _loop.Slots is null && !_loop.IsFollower)
            {
                return StartDropping() ?? StartStream();
            }
            return _input.Count > SpecialRequestBytes && Refuse("ERR Protocol error: request too large for this command", thenClose: true);
        }
        if (length < 0)
        {
            Refuse(CommandScanner.Classify(p, _input.Tail), thenClose: true);
            return false;
        }
        _requestBytes = length;
        return Handle(SpecialCommands.Of(kind));
    }

    private bool Handle(SpecialCommand command)
    {
        CommandKind kind = command.Kind;
        if (MayHaveNoTransaction(kind))
        {
            Wait(Waiting.Drain);
            return false;
        }
        if (LeavesTransactionOpen && !EndsTransaction(kind)) { return DiscardTransaction(); }
        if (_loop.IsFollower && CohortCommands.SendOn(this, kind) is { } sent) { return sent; }
        if (_loop.Shard.IsFollowing && command.RefuseAtBackup?.Invoke(this) is { } notAtBackup) { return RefuseCommand(notAtBackup); }
        if (BatchLeft > 0 && command.RefuseInBatch?.Invoke(this) is { } notInBatch) { return RefuseCommand(notInBatch); }
        if (command.IgnoresNotice?.Invoke(this) != true && AnswerWithNotice((nint)_requestBytes, kind)) { return true; }
        if (command.IsOfProxy) { return command.Handle(this); }
        if (_loop.Gate.IsVersioned)
        {
            if (_facts is null && _loop.Store.Address is not null && command.NeedsFacts?.Invoke(this) == true)
            {
                Wait(Waiting.Facts);
                return false;
            }
            string? why = command.Refuse?.Invoke(this);
            _facts = null;
            if (why is not null) { return RefuseCommand(why); }
        }
        if (_loop.Slots is not null && Slots.Handle(kind) is { } done) { return done; }
        return (_pins & Pins.Multi) != 0 ? command.Queue(this) : command.Handle(this);
    }

    /// <summary>It has said READONLY: a follower may answer its reads.</summary>
    public bool ReadsHere { get; set; }

    /// <summary>What Redis says of itself, where that was asked for.</summary>
    public StoreFacts Facts => _facts ?? StoreFacts.Unknown;

    /// <summary>Redis has answered, or cannot.</summary>
    public void OnFacts(StoreFacts facts)
    {
        if (IsClosed || _waiting != Waiting.Facts) { return; }
        _facts = facts;
        EndWait();
    }

    /// <summary>Who it is to the store.</summary>
    public string UserName => _sharing.User ?? FrontEndLoop.DefaultUser;

    // ---- Forwarding ----

    /// <summary>Forwards the request as it stands.</summary>
    /// <param name="needsDedicated">It must not run on a connection that others share.</param>
    /// <param name="then">Looks at the reply; null: that is passed on.</param>
    /// <param name="kind">What the upstream must know of the reply.</param>
    /// <param name="blocking">It may wait at Redis for something to happen.</param>
    /// <param name="barrier">Nothing follows before its reply has been looked at.</param>
    /// <param name="pin">Why the client needs a connection of its own from now on.</param>
    /// <param name="unpin">Why no longer.</param>
    /// <param name="viewMatters">It needs the client's database and protocol.</param>
    public bool Forward(
        bool needsDedicated, ReplyHandler? then = null, ReplyKind kind = ReplyKind.Handled, bool blocking = false, bool barrier = false,
        Pins pin = Pins.None, Pins unpin = Pins.None, bool viewMatters = true)
    {
        Upstream? upstream = Route(needsDedicated, viewMatters);
        if (upstream is null) { return false; }
        SendRequest(upstream, inexact: blocking);
        ForwardWritten(upstream, then, kind, blocking, barrier);
        _pins = (_pins & ~unpin) | pin;
        return !barrier;
    }

    /// <summary>Writes the request to an upstream. <see cref="ForwardWritten"/> must follow.</summary>
    public void SendRequest(Upstream upstream, bool inexact = false) => upstream.Write(_input.Head, (nint)_requestBytes, inexact);

    /// <summary>The request, or another in its place, was written: its reply is awaited. As <see cref="Forward"/>.</summary>
    public void ForwardWritten(Upstream upstream, ReplyHandler? then = null, ReplyKind kind = ReplyKind.Handled, bool blocking = false,
        bool barrier = false) =>
        ForwardWritten(upstream, then, kind, blocking, barrier,
            BasisOn(upstream, _input.Head, _input.Head + _requestBytes, mayWrite: true));

    private void ForwardWritten(Upstream upstream, ReplyHandler? then, ReplyKind kind, bool blocking, bool barrier, ReplyBasis basis)
    {
        if (then is null)
        {
            upstream.Expect(this, 1, ReplyKind.Plain, blocking, basis: basis);
        }
        else { upstream.Expect(this, then, kind, blocking: blocking, basis: basis); }
        if (upstream.Exclusive is null) { _lastRequest.Keep(_input.Head, _requestBytes); }
        ConsumeRequest();
        if (barrier) { Wait(Waiting.Reply); }
    }

    /// <summary>Sends a harmless request in place of one that the proxy answers: without the right to do anything its error is the
    /// answer.</summary>
    /// <param name="then">Answers.</param>
    /// <param name="counts">It is an operation of the client's all the same.</param>
    public bool ForwardProbe(ReplyHandler then, bool counts = false)
    {
        Upstream? upstream = Route(needsDedicated: false);
        if (upstream is null) { return false; }
        _loop.CountInternal("ping");
        upstream.Write("*1\r\n$4\r\npING\r\n"u8);
        ForwardWritten(upstream, then, counts ? ReplyKind.Handled : ReplyKind.Uncounted, blocking: false, barrier: true, ReplyBasis.None);
        return false;
    }

    /// <summary>The request is done with.</summary>
    public void ConsumeRequest()
    {
        if (_keyWrite is not null) { GiveUpKeyWrite(); }
        _input.Consume((nint)_requestBytes);
    }

    private KeyWrite? _keyWrite;

    /// <summary>The conditional write at the head of the input, once its keys are watched.</summary>
    public KeyWrite? KeyWrite
    {
        get => _keyWrite;
        set => _keyWrite = value;
    }

    // It was refused when it was looked at again.
    private void GiveUpKeyWrite()
    {
        if (_keyWrite!.Upstream is { IsClosed: false } upstream && upstream == Dedicated)
        {
            upstream.Write(InternalRequest.Unwatch, inexact: true);
            upstream.Expect(null, 1, ReplyKind.Dropped, inexact: true);
            _loop.CountInternal("unwatch");
        }
        _keyWrite = null;
    }

    /// <summary>Whether the proxy may answer: nothing that comes first is owed. If not, that is waited for.</summary>
    public bool MayAnswer()
    {
        if (IsDrained) { return true; }
        Wait(Waiting.Drain);
        return false;
    }

    /// <summary>Answers the request with an error. In a transaction Redis must know that something was refused, so that EXEC
    /// fails.</summary>
    public bool RefuseCommand(string why)
    {
        if ((_pins & Pins.Multi) == 0)
        {
            if (!Refuse(why)) { return false; }
            ConsumeRequest();
            return true;
        }
        Upstream? upstream = Route(needsDedicated: true);
        if (upstream is null) { return false; }
        upstream.Write("*1\r\n$15\r\nSLOGGER.REFUSED\r\n"u8);
        ForwardWritten(upstream, OnRefusedInstead(why), barrier: true);
        return false;
    }

    /// <summary>In the place of an error: a transaction that did not run.</summary>
    public const string NoReplyToExec = "";

    private ReadOnlySpan<byte> NilReply => Protocol == 3 ? "_\r\n"u8 : "*-1\r\n"u8;

    private static ReplyHandler OnRefusedInstead(string why) => (client, _, _, _) =>
        client.Answer(why == NoReplyToExec ? client.NilReply : Encoding.Latin1.GetBytes($"-{why}\r\n"));

    // ---- What its transaction means for requests that are not of it ----

    private Transaction _transaction;

    /// <summary>The transaction that is open, or was last.</summary>
    public ref Transaction Transaction => ref _transaction;

    // What would be done otherwise if Redis refuses MULTI waits for its answer.
    private bool MayHaveNoTransaction(CommandKind kind) => (_pins & Pins.Multi) != 0 && _transaction.MayBeRefused
        && kind is not (CommandKind.Exec or CommandKind.Discard or CommandKind.Dedicated) && !(kind == CommandKind.Quit && BatchLeft == 0);

    // The next request is the last of its batch, and does not end the transaction under way unless it is EXEC or DISCARD.
    private bool LeavesTransactionOpen => BatchLeft == 1 && (_pins & Pins.Multi) != 0;

    private bool EndsTransaction(CommandKind kind) => kind == CommandKind.Exec || (kind == CommandKind.Discard && ArgumentCount == 1);

    // What is queued would be executed after its batch, in a version that the session would not hear of.
    private bool DiscardTransaction() =>
        DiscardInstead("ERR SLOGGER a transaction must end in the batch that it begins in: it was discarded");

    /// <summary>In the place of the request: the transaction must not run.</summary>
    public bool DiscardInstead(string why)
    {
        Upstream? upstream = Route(needsDedicated: true);
        if (upstream is null) { return false; }
        upstream.Write("*1\r\n$7\r\nDISCARD\r\n"u8);
        ForwardWritten(upstream, OnRefusedInstead(why), barrier: true);
        _pins &= ~(Pins.Multi | Pins.Watch);
        _transaction.End(runs: false);
        return false;
    }

    // ---- Replies ----

    /// <summary>A whole reply to a request that has a handler.</summary>
    public void OnHandled(Upstream upstream, in Expected expected, ReadOnlySpan<byte> reply)
    {
        if (IsClosed && expected.Kind != ReplyKind.Unlogged) { return; }
        expected.Handler!(this, upstream, reply[0] == (byte)'-', reply);
    }

    /// <summary>Ends the wait for this reply, and passes it on.</summary>
    public void Answer(ReadOnlySpan<byte> reply)
    {
        // The next request is here: its answer may follow at once.
        if (_input.Count > 0 && !IsClosed) { GatherUntilResumed(); }
        Pass(reply);
        if (!IsClosed) { EndWait(); }
    }

    /// <summary>Passes one reply on, subject to CLIENT REPLY.</summary>
    public void Pass(ReadOnlySpan<byte> reply)
    {
        if (IsReplying) { Deliver(reply); }
    }

    /// <summary>A handler's reply is awaited, and nothing goes on before.</summary>
    public bool AwaitsReply => _waiting == Waiting.Reply;

    /// <summary>An answer about the past is awaited.</summary>
    public bool AwaitsPast => _waiting == Waiting.Past;

    // ---- What handlers change ----

    /// <summary>The client's own connection has this name now.</summary>
    public void SetName(Upstream upstream, byte[] name) => Name = upstream.Name = name.Length == 0 ? null : name;

    /// <summary>CLIENT REPLY was allowed, or refused.</summary>
    public void SetReplyMode(ReplyMode mode, bool failed, ReadOnlySpan<byte> reply)
    {
        if (failed)
        {
            Answer(reply);
            if (_replyMode == ReplyMode.SkipNext) { _replyMode = ReplyMode.On; }
            return;
        }
        switch (mode)
        {
            case ReplyMode.On:
                _replyMode = ReplyMode.On;
                Answer("+OK\r\n"u8);
                return;
            case ReplyMode.Off:
                _replyMode = ReplyMode.Off;
                break;
            case ReplyMode.SkipNext when _replyMode != ReplyMode.Off:
                _replyMode = ReplyMode.SkipNext;
                break;
        }
        EndWait();
    }

    /// <summary>The next reply is to be dropped.</summary>
    public bool IsSkipping => _replyMode == ReplyMode.SkipNext;

    /// <summary>The reply to be dropped has come and gone.</summary>
    public void EndSkip() => _replyMode = ReplyMode.On;

    /// <summary>It has logged in.</summary>
    public void LogIn(Upstream upstream, string user)
    {
        _pins |= Pins.Auth;
        _sharing.BecomeUser(user);
        _loop.Directory.LearnId(upstream);
    }

    /// <summary>After a transaction that may have changed the connection: what does Redis say of it now?</summary>
    public void LearnView(Upstream upstream, ReadOnlySpan<byte> reply)
    {
        if (reply[0] is not ((byte)'$' or (byte)'='))
        {
            // It may not even ask (subscribed under RESP2, or without the right).
            PassRaw(upstream);
            return;
        }
        if (ClientLine.Parse(reply) is not [var line]) { throw new InvalidDataException("Redis's reply to CLIENT INFO is not one line."); }
        if (int.TryParse(line["db"], out int db)) { Db = upstream.Db = db; }
        if (int.TryParse(line["resp"], out int protocol)) { Protocol = upstream.Protocol = upstream.ReplyProtocol = protocol; }
        string name = line["name"];
        Name = upstream.Name = name.Length == 0 ? null : Encoding.Latin1.GetBytes(name);
        _pins &= ~(Pins.Multi | Pins.Watch);
        if (line.User is { Length: > 0 } user && (user != FrontEndLoop.DefaultUser || (_pins & Pins.Auth) != 0))
        {
            LogIn(upstream, user);
        }
        if (line["flags"].Contains('t', StringComparison.Ordinal))
        {
            _pins |= Pins.Tracking;
            upstream.MayInvalidate = true;
        }
        if (line["sub"] is not ("0" or "") || line["psub"] is not ("0" or "") || line["ssub"] is not ("0" or ""))
        {
            PassRaw(upstream);
        }
    }

    // What Redis will answer can no longer be matched. Without versions bytes pass as they are from here on; with versions
    // nothing may pass that was not looked at, so the connection ends.
    private void PassRaw(Upstream upstream)
    {
        if (_loop.Gate.IsVersioned)
        {
            CloseWhenSent();
            return;
        }
        _pins |= Pins.Raw;
        upstream.IsRaw = true;
    }

    /// <summary>It is like a new connection.</summary>
    public void BecomeNew()
    {
        Db = 0;
        Protocol = 2;
        Name = null;
        _replyMode = ReplyMode.On;
        _pins = Pins.None;
        ReadsHere = false;
        _transaction.End(runs: false);
        _sharing.BecomeUser(null);
        _lostLogin = false;
        _loop.Probe.IsFresh();
    }

    /// <summary>QUIT is on its way to Redis: what the client sends from here on is dropped.</summary>
    public void OnQuitForwarded() => _end.HasQuit |= _waiting == Waiting.Nothing && !IsClosed;

    /// <summary>A subscription, or its end, is on its way.</summary>
    public void OnSubscribing()
    {
        _pins |= Pins.PubSub;
        _subscribing++;
    }

    /// <summary>All confirmations of one (un)subscription have come.</summary>
    public void OnConfirmed() => _subscribing--;

    /// <summary>SYNC and its like: from here on bytes pass both ways as they are.</summary>
    public bool StartRaw()
    {
        if (!IsDrained)
        {
            Wait(Waiting.Drain);
            return false;
        }
        Upstream? upstream = Route(needsDedicated: true);
        if (upstream is null) { return false; }
        if (upstream.InFlight > 0)
        {
            Wait(Waiting.Drain);
            return false;
        }
        _pins |= Pins.Raw;
        upstream.IsRaw = true;
        return true;
    }

    /// <summary>Whether there is a replication link of the proxy's own.</summary>
    public bool HasReplicaLink => _loop.Shard.MarkerChannel.Length > 0;

    /// <summary>Before clients are paused: what others have in flight on the shared connection must not be caught in it, or it would
    /// hold up what is not to be paused behind it. From here on nobody uses it.</summary>
    public bool IsQuiet()
    {
        const long LongestMicroseconds = 100_000;
        _loop.Pause.Expect();
        if (_loop.Sharing.IsBusy)
        {
            if (_quietDeadline == 0) { _quietDeadline = _loop.Now + LongestMicroseconds; }
            if (_loop.Now < _quietDeadline)
            {
                Wait(Waiting.Quiet);
                return false;
            }
        }
        _quietDeadline = 0;
        return true;
    }

    private long _quietDeadline;

    /// <summary>A CONFIG RESETSTAT of its that is not answered.</summary>
    public StatisticsReset? ResetUnderWay { get; set; }

    // No reply will come to it.
    private void GiveUpReset()
    {
        ResetUnderWay?.GiveUp();
        ResetUnderWay = null;
    }

    // ---- The connection leaves the front end ----

    /// <summary>It has done nothing, nothing is owed, and no other request has come.</summary>
    public bool IsFresh => (_pins & ~Pins.Auth) == 0 && _output.Count == 0 && _input.Count == (nint)_requestBytes;

    /// <summary>The connection is not a client's any more.</summary>
    public void HandOver(Action<Socket> takeOver)
    {
        // Nothing waits for it here: the connection leaves.
        _output.StopGathering();
        Deliver("+OK\r\n"u8);
        if (IsClosed) { return; }
        if (_output.Count > 0) { Close(); } else { takeOver(LeaveLoop()); }
    }

    private Socket LeaveLoop()
    {
        IsClosed = true;
        _output.Free();
        _input.Free();
        Socket socket = _loop.Poller.Release(_channel);
        _sharing.Uncount();
        Dedicated?.Close("the client has gone");
        _loop.Clients.Forget(this);
        return socket;
    }

    /// <summary>A change of its that the log does not hold, and that is not answered.</summary>
    public UnloggedChange? UnloggedChange { get; set; }
}
