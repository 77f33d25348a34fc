// A transaction as the client sends it: what is queued, how it ends, and when it is discarded instead.
namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    private Transaction _transaction;

    // Whether a transaction begins must be known before what follows: in RESP2 a subscriber may not begin one.
    private bool HandleMulti()
    {
        if ((_pins & Pins.PubSub) != 0 && !IsDrained)
        {
            Wait(Waiting.Drain);
            return false;
        }
        // A second one is an error, and leaves the first as it is.
        bool begins = ArgumentCount == 1 && (_pins & Pins.Multi) == 0 && !(Protocol == 2 && Dedicated is { IsSubscribed: true });
        if (!begins) { return Forward(needsDedicated: true, ReplyKind.Plain); }
        bool watches = (_pins & Pins.Watch) != 0;
        if (!Forward(needsDedicated: true, ReplyKind.Multi, pin: Pins.Multi)) { return false; }
        _transaction.Begin(watches);
        return true;
    }

    // What would be done otherwise if Redis refuses MULTI waits for its answer.
    private bool MayHaveNoTransaction(CommandKind kind) => (_pins & Pins.Multi) != 0 && _transaction.MayBeRefused
        && kind is not (CommandKind.Exec or CommandKind.Discard or CommandKind.Dedicated) && !(kind == CommandKind.Quit && _batchLeft == 0);

    private void OnTransactionAnswered(bool failed)
    {
        if (!_transaction.WasRefused(failed, out bool watches)) { return; }
        _pins &= ~Pins.Multi;
        if (watches) { _pins |= Pins.Watch; }
    }

    // The special request is queued, not run: what it changes shows when the transaction has run.
    private bool QueueSpecial(CommandKind kind, bool versioned)
    {
        if (kind is CommandKind.Subscribe or CommandKind.Unsubscribe) { return SubscribeInTransaction(versioned); }
        if (kind == CommandKind.Hello && (_pins & Pins.PubSub) != 0 && ArgumentIs(1, "2"u8)) { return ChangeBackInTransaction(versioned); }
        bool rights = kind is CommandKind.Config or CommandKind.Acl && ChangesRights(kind);
        if (rights || kind is CommandKind.Select or CommandKind.Hello or CommandKind.Auth or CommandKind.Client) { _transaction.QueueChange(rights); }
        if (kind == CommandKind.Client && ArgumentIs(1, "KILL"u8) && ArgumentCount > 2)
        {
            return RefuseCommand("ERR SLOGGER CLIENT KILL cannot be queued in a transaction: it could hit the connection that other clients share");
        }
        if (kind == CommandKind.Client && ArgumentIs(1, "PAUSE"u8) && ArgumentNumber(2, out _argumentNumber))
        {
            return Forward(needsDedicated: true, ReplyKind.QueuedPause, barrier: true);
        }
        if (kind == CommandKind.Client && ArgumentIs(1, "REPLY"u8) && ReplyModeOf() is not null) { return QueueReplyMode(); }
        return Forward(needsDedicated: true, ReplyKind.Plain);
    }

    // Queued in a transaction, CLIENT REPLY OFF would silence Redis in the middle of the reply to EXEC, and the proxy with
    // it. Redis is asked to reply ON instead: the transaction is answered whole, and so is what follows.
    private bool QueueReplyMode()
    {
        Upstream? upstream = Route(needsDedicated: true);
        if (upstream is null) { return false; }
        upstream.Write("*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$2\r\nON\r\n"u8);
        ForwardWritten(upstream, ReplyKind.Plain);
        return true;
    }

    // The confirmations come in the middle of the reply to EXEC, more or fewer than it announces: nobody can count replies
    // on such a connection any more. Without versions bytes just pass from here on.
    private bool SubscribeInTransaction(bool versioned) => versioned
        ? RefuseCommand("ERR SLOGGER subscriptions cannot be queued in a transaction: subscribe before it, or start the proxy with --commit none")
        : StartRaw();

    // As above: what is published behind it in the transaction comes in the middle of the reply to EXEC, as arrays like any other.
    private bool ChangeBackInTransaction(bool versioned) => versioned
        ? RefuseCommand("ERR SLOGGER HELLO 2 cannot be queued in a transaction of a connection that is subscribed: send it outside, or start the proxy with --commit none")
        : StartRaw();

    private bool EndTransaction(CommandKind kind)
    {
        // Without a transaction both are errors, and what is watched stays so; a DISCARD that Redis does not understand
        // leaves the transaction as it is, an EXEC ends it.
        bool ends = (_pins & Pins.Multi) != 0 && (kind == CommandKind.Exec || ArgumentCount == 1);
        bool runs = ends && kind == CommandKind.Exec, touches = runs && _transaction.TouchesView;
        if (_transaction.PauseMilliseconds > 0 && kind == CommandKind.Exec)
        {
            if (!IsQuiet()) { return false; }
            _loop.Pause.Begin(_transaction.PauseMilliseconds);
        }
        Pins unpin = ends && !touches ? Pins.Multi | Pins.Watch : Pins.None;
        if (!Forward((_pins & (Pins.Multi | Pins.Watch)) != 0, ReplyKind.Plain, unpin: unpin)) { return false; }
        if (!ends) { return true; }
        _transaction.End(runs);
        if (!touches) { return true; }
        // What the transaction has changed of the connection is asked for.
        Upstream upstream = Dedicated!;
        upstream.Write(InternalRequest.ClientInfo);
        _loop.CountInternal("client|info");
        upstream.Expect(this, 1, ReplyKind.Exec);
        Wait(Waiting.Reply);
        return false;
    }

    // The next request is the last of its batch, and does not end the transaction under way unless it is EXEC or DISCARD.
    private bool LeavesTransactionOpen => _batchLeft == 1 && (_pins & Pins.Multi) != 0;

    private bool EndsTransaction(CommandKind kind) => kind == CommandKind.Exec || (kind == CommandKind.Discard && ArgumentCount == 1);

    // What is queued would be executed after its batch, in a version that the session would not hear of.
    private bool DiscardTransaction() => DiscardInstead("ERR SLOGGER a transaction must end in the batch that it begins in: it was discarded");

    // In the place of the request: the transaction must not run.
    private bool DiscardInstead(string why)
    {
        Upstream? upstream = Route(needsDedicated: true);
        if (upstream is null) { return false; }
        _refusal = why;
        upstream.Write("*1\r\n$7\r\nDISCARD\r\n"u8);
        ForwardWritten(upstream, ReplyKind.Refused, barrier: true);
        _pins &= ~(Pins.Multi | Pins.Watch);
        _transaction.End(runs: false);
        return false;
    }
}
