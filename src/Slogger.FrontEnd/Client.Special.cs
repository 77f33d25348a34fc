// Commands that are not ordinary: which upstream they take, what they change, and which are refused.
using System.Buffers.Text;
using System.Globalization;
using System.Text;
using Slogger.Resp;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    private int _subscribing;
    private long _argumentNumber;
    private byte[]? _argumentBytes;
    private string? _refusal;
    private long _requestBytes;

    // Handles the special request at the head of the input. False when something must be waited for, or more bytes.
    private bool HandleSpecial(CommandKind kind)
    {
        byte* p = _input.Head;
        if (kind == CommandKind.OwnSpelled)
        {
            if (IsToBeRespelled(p))
            {
                OwnSpelling.Undo(p);
                return true;
            }
            kind = CommandKind.Impossible;
        }
        long length = CommandScanner.ReadArguments(p, _input.Tail, _loop.Arguments);
        if (length == 0)
        {
            // Among several shards its keys must be seen first.
            if (kind == CommandKind.Dedicated && _input.Count > LargeRequestBytes && _loop.Slots is null) { return StartDropping() ?? StartStream(); }
            if (_input.Count > SpecialRequestBytes)
            {
                return Refuse("ERR Protocol error: request too large for this command", thenClose: true);
            }
            return false;
        }
        if (length < 0)
        {
            Refuse(CommandScanner.Classify(p, _input.Tail), thenClose: true);
            return false;
        }
        _requestBytes = length;
        if (MayHaveNoTransaction(kind))
        {
            Wait(Waiting.Drain);
            return false;
        }
        if (LeavesTransactionOpen && !EndsTransaction(kind)) { return DiscardTransaction(); }
        if (_loop.Shard.IsFollowing && BackupRefusalOf(kind) is { } notAtBackup) { return RefuseCommand(notAtBackup); }
        if (_batchLeft > 0 && BatchRefusalOf(kind) is { } notInBatch) { return RefuseCommand(notInBatch); }
        if (kind == CommandKind.Batch) { return HandleBatch(); }
        if (kind == CommandKind.Peer) { return HandlePeer(); }
        // What speaks of sequence numbers must not speak of those after the rollback to one who has not heard of it.
        bool asksOfShard = kind == CommandKind.Dpr && !ArgumentIs(0, "DPR.COMMITTED"u8) && !ArgumentIs(0, "DPR.WAIT"u8) && !ArgumentIs(0, "DPR.RESUME"u8);
        if (!asksOfShard && AnswerWithNotice((nint)length, kind)) { return true; }
        bool versioned = _loop.Gate.IsVersioned;
        if (kind == CommandKind.Abuse) { return CloseAbuser(); }
        if (kind == CommandKind.Impossible) { return RefuseCommand(UnknownCommandError()); }
        if (versioned && NeedsFacts(kind))
        {
            Wait(Waiting.Facts);
            return false;
        }
        string? why = versioned ? RefusalOf(kind) : null;
        _facts = null;
        if (why is not null) { return RefuseCommand(why); }
        if (_loop.Slots is not null && HandleAmongShards(kind) is { } done) { return done; }
        if ((_pins & Pins.Multi) != 0 && kind is not (CommandKind.Multi or CommandKind.Exec or CommandKind.Discard or CommandKind.Watch
            or CommandKind.Quit or CommandKind.Reset or CommandKind.Dpr or CommandKind.WaitAof)) { return QueueSpecial(kind, versioned); }
        switch (kind)
        {
            case CommandKind.Debug when versioned && IsUnlogged:
                return ForwardUnlogged();
            case CommandKind.Dedicated or CommandKind.Takeover or CommandKind.Debug:
                // SCRIPT KILL and FUNCTION KILL must work while nothing else does.
                return Forward(needsDedicated: true, ReplyKind.Plain, viewMatters: !ArgumentIs(1, "KILL"u8));
            case CommandKind.Module:
                return Forward(needsDedicated: true, ReplyKind.Module, barrier: true);
            case CommandKind.Blocking:
                return Forward(needsDedicated: true, BlockedReply, blocking: true);
            case CommandKind.BlockingStream:
                bool blocks = HasArgument("BLOCK"u8);
                return Forward(blocks, blocks ? BlockedReply : ReplyKind.Plain, blocks);
            case CommandKind.Multi:
                return HandleMulti();
            case CommandKind.Watch:
                return Forward(needsDedicated: true, ReplyKind.Plain, pin: (_pins & Pins.Multi) != 0 ? Pins.None : Pins.Watch);
            case CommandKind.Exec or CommandKind.Discard:
                return EndTransaction(kind);
            case CommandKind.Unwatch:
                return Forward(needsDedicated: false, ReplyKind.Plain, unpin: ArgumentCount == 1 ? Pins.Watch : Pins.None);
            case CommandKind.Subscribe or CommandKind.Unsubscribe:
                return HandleSubscription(kind);
            case CommandKind.Monitor:
                return HandleMonitor();
            case CommandKind.Auth:
                _authenticating = ArgumentCount == 3 ? Encoding.UTF8.GetString(Argument(1)) : FrontEndLoop.DefaultUser;
                return Forward(needsDedicated: true, ReplyKind.Auth, barrier: true);
            case CommandKind.Hello:
                return HandleHello();
            case CommandKind.Select:
                return HandleSelect();
            case CommandKind.Client:
                return HandleClient();
            case CommandKind.Reset:
                return HandleReset();
            case CommandKind.Quit:
                return HandleQuit();
            case CommandKind.Replication:
                return StartRaw();
            case CommandKind.Config or CommandKind.Acl:
                if (kind == CommandKind.Config && ArgumentIs(1, "RESETSTAT"u8)) { return HandleResetStatistics(); }
                bool changesSettings = kind == CommandKind.Config && KeepSettings();
                if (!ChangesRights(kind))
                {
                    return Forward(needsDedicated: true, changesSettings ? ReplyKind.Setting : ReplyKind.Plain, barrier: changesSettings);
                }
                return ChangeRights();
            case CommandKind.Info:
                return HandleInfo();
            case CommandKind.SlowLog:
                return HandleSlowLog();
            case CommandKind.Latency:
                return Forward(needsDedicated: true, ArgumentIs(1, "HISTOGRAM"u8) ? ReplyKind.Latency : ReplyKind.Plain);
            case CommandKind.Role:
                return Forward(needsDedicated: true, HasReplicaLink ? ReplyKind.Role : ReplyKind.Plain);
            case CommandKind.Wait:
                return HandleWait();
            case CommandKind.Dpr:
                return HandleDpr();
            case CommandKind.WaitAof:
                return versioned ? HandleWaitAof() : Forward(needsDedicated: false, ReplyKind.Plain);
            default:
                throw new InvalidOperationException($"command kind {kind} is not handled");
        }
    }

    private bool ChangesRights(CommandKind kind) => kind == CommandKind.Config
        ? ArgumentIs(1, "SET"u8) && HasArgument("requirepass"u8)
        : ArgumentIs(1, "SETUSER"u8) || ArgumentIs(1, "DELUSER"u8) || ArgumentIs(1, "LOAD"u8);

    // Nobody is to be asked about sharing from the moment on that this is on its way; before, the client itself may
    // have to wait for an answer.
    private bool ChangeRights()
    {
        Upstream? upstream = Route(needsDedicated: true);
        if (upstream is null) { return false; }
        _loop.Probe.Suspend();
        upstream.Write(_input.Head, (nint)_requestBytes);
        ForwardWritten(upstream, ReplyKind.Config, barrier: true);
        return false;
    }

    // ---- Arguments of the request at the head of the input ----

    private int ArgumentCount => _loop.Arguments.Count;

    private ReadOnlySpan<byte> Argument(int index)
    {
        (int offset, int length) = _loop.Arguments[index];
        return new ReadOnlySpan<byte>(_input.Head + offset, length);
    }

    // As Redis compares: as C strings, that is up to a zero byte.
    private bool ArgumentIs(int index, ReadOnlySpan<byte> word)
    {
        if (index >= ArgumentCount) { return false; }
        ReadOnlySpan<byte> argument = Argument(index);
        int zero = argument.IndexOf((byte)0);
        return Ascii.EqualsIgnoreCase(zero < 0 ? argument : argument[..zero], word);
    }

    private bool HasArgument(ReadOnlySpan<byte> word)
    {
        for (int i = 1; i < ArgumentCount; i++)
        {
            if (ArgumentIs(i, word)) { return true; }
        }
        return false;
    }

    private bool ArgumentNumber(int index, out long number)
    {
        ReadOnlySpan<byte> text = index < ArgumentCount ? Argument(index) : default;
        return Utf8Parser.TryParse(text, out number, out int used) && used == text.Length && text.Length > 0;
    }

    // ---- Forwarding ----

    // Forwards the request as it stands. A barrier lets nothing follow before its reply has been looked at.
    private bool Forward(
        bool needsDedicated, ReplyKind reply, bool blocking = false, bool barrier = false, Pins pin = Pins.None, Pins unpin = Pins.None,
        bool viewMatters = true)
    {
        Upstream? upstream = Route(needsDedicated, viewMatters);
        if (upstream is null) { return false; }
        upstream.Write(_input.Head, (nint)_requestBytes, inexact: blocking);
        ForwardWritten(upstream, reply, blocking, barrier);
        _pins = (_pins & ~unpin) | pin;
        return !barrier;
    }

    private void ForwardWritten(Upstream upstream, ReplyKind reply, bool blocking = false, bool barrier = false)
    {
        upstream.Expect(this, 1, reply, blocking);
        if (upstream.Exclusive is null) { KeepLast(_input.Head, _requestBytes); }
        _input.Consume((nint)_requestBytes);
        if (barrier) { Wait(Waiting.Reply); }
    }

    // Sends a harmless request in place of one that the proxy answers: without the right to do anything its error is the answer.
    private bool ForwardProbe(ReplyKind reply)
    {
        Upstream? upstream = Route(needsDedicated: false);
        if (upstream is null) { return false; }
        _loop.CountInternal("ping");
        upstream.Write("*1\r\n$4\r\npING\r\n"u8);
        ForwardWritten(upstream, reply, barrier: true);
        return false;
    }

    private bool HandleSubscription(CommandKind kind)
    {
        Upstream? upstream = Route(needsDedicated: true);
        if (upstream is null) { return false; }
        // No effect on data, so no version boundary holds it back: it would be overtaken by others' messages.
        upstream.Write(_input.Head, (nint)_requestBytes, inexact: true);
        upstream.Expect(this, Math.Max(0, ArgumentCount - 1), kind == CommandKind.Subscribe ? ReplyKind.Subscribe : ReplyKind.Unsubscribe, inexact: true);
        _input.Consume((nint)_requestBytes);
        _pins |= Pins.PubSub;
        _subscribing++;
        return true;
    }

    private bool HandleSelect()
    {
        Upstream? upstream = Route(needsDedicated: false);
        if (upstream is null) { return false; }
        if (!ArgumentNumber(1, out _argumentNumber) || ArgumentCount != 2) { return Forward(needsDedicated: false, ReplyKind.Plain); }
        upstream.Write(_input.Head, (nint)_requestBytes);
        upstream.Db = -1;
        ForwardWritten(upstream, ReplyKind.Select, barrier: true);
        return false;
    }

    private bool HandleHello()
    {
        // What an earlier request left here is none of this one's.
        _argumentNumber = 0;
        _argumentBytes = null;
        _authenticating = null;
        // Where it has logged in its id is that of its own connection.
        bool isUser = (_pins & Pins.Auth) != 0;
        if (ArgumentCount == 1) { return Forward(needsDedicated: isUser, ReplyKind.Hello, barrier: true); }
        Upstream? upstream = Route(needsDedicated: isUser || HasArgument("AUTH"u8));
        if (upstream is null) { return false; }
        if (ArgumentNumber(1, out long version)) { _argumentNumber = version; }
        for (int i = 2; i + 1 < ArgumentCount; i++)
        {
            if (ArgumentIs(i, "AUTH"u8))
            {
                _authenticating = Encoding.UTF8.GetString(Argument(i + 1));
                i += 2;
            }
            else if (ArgumentIs(i, "SETNAME"u8)) { _argumentBytes = Argument(++i).ToArray(); }
        }
        upstream.Write(_input.Head, (nint)_requestBytes);
        upstream.Protocol = 0;
        ForwardWritten(upstream, ReplyKind.Hello, barrier: true);
        return false;
    }

    // As whom it asks to be logged in.
    private string? _authenticating;

    private bool HandleClient()
    {
        if (ArgumentIs(1, "SETNAME"u8) && ArgumentCount == 3)
        {
            _argumentBytes = Argument(2).ToArray();
            return Forward(needsDedicated: false, ReplyKind.SetName, barrier: true);
        }
        if (ArgumentIs(1, "GETNAME"u8) && ArgumentCount == 2)
        {
            return Forward(needsDedicated: false, ReplyKind.GetName, barrier: true);
        }
        if (ArgumentIs(1, "SETINFO"u8) || ArgumentIs(1, "HELP"u8))
        {
            return Forward(needsDedicated: false, ReplyKind.Plain);
        }
        if (ArgumentIs(1, "REPLY"u8) && ArgumentCount == 3)
        {
            ReplyMode? mode = ReplyModeOf();
            if (mode is not null)
            {
                // Redis is asked only whether it would be allowed: it must go on replying to the proxy.
                Upstream? upstream = Route(needsDedicated: false);
                if (upstream is null) { return false; }
                _argumentNumber = (long)mode.Value;
                upstream.Write("*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$2\r\nON\r\n"u8);
                ForwardWritten(upstream, ReplyKind.ReplyMode, barrier: true);
                return false;
            }
        }
        if (ArgumentIs(1, "PAUSE"u8) && ArgumentCount is 3 or 4 && ArgumentNumber(2, out long milliseconds) && milliseconds >= 0)
        {
            _argumentNumber = milliseconds;
            return IsQuiet() && Forward(needsDedicated: true, ReplyKind.Pause, barrier: true);
        }
        if (ArgumentIs(1, "UNPAUSE"u8) && ArgumentCount == 2) { return Forward(needsDedicated: true, ReplyKind.Unpause, barrier: true); }
        if (ArgumentIs(1, "KILL"u8)) { return HandleKill(); }
        if (ArgumentIs(1, "LIST"u8)) { return HandleList(); }
        if (ArgumentIs(1, "INFO"u8)) { return HandleClientInfo(); }
        if (ArgumentIs(1, "TRACKING"u8))
        {
            if (!Forward(needsDedicated: true, ReplyKind.Plain, pin: Pins.Tracking)) { return false; }
            Dedicated!.MayInvalidate = true;
            return true;
        }
        bool identity = ArgumentIs(1, "ID"u8) || ArgumentIs(1, "NO-EVICT"u8) || ArgumentIs(1, "NO-TOUCH"u8)
            || ArgumentIs(1, "CACHING"u8);
        return Forward(needsDedicated: true, ReplyKind.Plain, pin: identity ? Pins.Identity : Pins.None);
    }

    // What CLIENT REPLY asks for, if that is something.
    private ReplyMode? ReplyModeOf() => ArgumentCount != 3 ? null
        : ArgumentIs(2, "ON"u8) ? ReplyMode.On : ArgumentIs(2, "OFF"u8) ? ReplyMode.Off : ArgumentIs(2, "SKIP"u8) ? ReplyMode.SkipNext : null;

    // Redis does not answer one that monitors already.
    private bool HandleMonitor()
    {
        if ((_pins & Pins.Monitor) == 0) { return Forward(needsDedicated: true, ReplyKind.Monitor, pin: Pins.Monitor); }
        if (!IsDrained)
        {
            Wait(Waiting.Drain);
            return false;
        }
        if (Dedicated is not { IsMonitor: true } || ArgumentCount != 1) { return Forward(needsDedicated: true, ReplyKind.Monitor); }
        _input.Consume((nint)_requestBytes);
        CountLocal();
        return true;
    }

    private bool HandleReset()
    {
        if (ArgumentCount != 1) { return Forward(needsDedicated: _pins != Pins.None, ReplyKind.Plain); }
        if (Dedicated is not null && _pins != Pins.None)
        {
            return Forward(needsDedicated: true, ReplyKind.Reset, barrier: true, unpin: Pins.Multi);
        }
        if (!IsDrained)
        {
            Wait(Waiting.Drain);
            return false;
        }
        _input.Consume((nint)_requestBytes);
        bool skipped = IsSkipping;
        BecomeNew();
        CountLocal();
        if (!skipped) { Deliver("+RESET\r\n"u8); }
        return true;
    }

    private void BecomeNew()
    {
        Db = 0;
        Protocol = 2;
        Name = null;
        _replyMode = ReplyMode.On;
        _pins = Pins.None;
        _transaction.End(runs: false);
        BecomeUser(null);
        _lostLogin = false;
        _loop.Probe.IsFresh();
    }

    private bool HandleQuit()
    {
        if (Dedicated is { } dedicated && (_pins != Pins.None || dedicated.InFlight > 0))
        {
            // Redis answers it after all that comes before.
            Forward(needsDedicated: true, ReplyKind.Plain, viewMatters: false);
            if (_waiting != Waiting.Nothing || IsClosed) { return false; }
            _quits = true;
            return false;
        }
        if (!IsDrained)
        {
            Wait(Waiting.Drain);
            return false;
        }
        Deliver("+OK\r\n"u8);
        if (!IsClosed) { CloseWhenSent(); }
        return false;
    }

    // SYNC and its like: from here on bytes pass both ways as they are.
    private bool StartRaw()
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

    /// <summary>All confirmations of one (un)subscription have come.</summary>
    public void OnConfirmed() => _subscribing--;
}
