// Commands that change what a connection is, or are about it: its user, protocol, database, name, subscriptions, and its end.
using System.Text;

namespace Slogger.FrontEnd;

/// <summary>Handlers of AUTH, HELLO, SELECT, CLIENT, RESET, QUIT, MONITOR and of subscriptions.</summary>
internal static class ConnectionCommands
{
    // ---- AUTH, HELLO, SELECT ----

    public static bool Auth(Client client)
    {
        string user = client.ArgumentCount == 3 ? client.TextOf(1) : FrontEndLoop.DefaultUser;
        return client.Forward(needsDedicated: true, barrier: true, then: (c, upstream, failed, reply) =>
        {
            if (!failed) { c.LogIn(upstream, user); }
            c.Answer(reply);
        });
    }

    public static bool Hello(Client client)
    {
        // Where it has logged in its id is that of its own connection.
        bool isUser = (client.Pins & Pins.Auth) != 0;
        if (client.ArgumentCount == 1)
        {
            return client.Forward(needsDedicated: isUser, OnHello(protocol: 0, name: null, user: null), ReplyKind.Hello, barrier: true);
        }
        Upstream? upstream = client.Route(needsDedicated: isUser || client.HasArgument("AUTH"u8));
        if (upstream is null) { return false; }
        byte[]? name = null;
        string? user = null;
        long protocol = client.ArgumentNumber(1, out long version) ? version : 0;
        for (int i = 2; i + 1 < client.ArgumentCount; i++)
        {
            if (client.ArgumentIs(i, "AUTH"u8))
            {
                user = client.TextOf(i + 1);
                i += 2;
            }
            else if (client.ArgumentIs(i, "SETNAME"u8)) { name = client.Argument(++i).ToArray(); }
        }
        client.SendRequest(upstream);
        upstream.Protocol = 0;
        client.ForwardWritten(upstream, OnHello(protocol, name, user), ReplyKind.Hello, barrier: true);
        return false;
    }

    private static ReplyHandler OnHello(long protocol, byte[]? name, string? user) => (client, upstream, failed, reply) =>
    {
        if (!failed)
        {
            if (protocol is 2 or 3) { client.Protocol = (int)protocol; }
            if (name is not null) { client.SetName(upstream, name); }
            if (user is not null) { client.LogIn(upstream, user); }
        }
        if (upstream.Protocol == 0) { upstream.Protocol = client.Protocol; }
        ReadOnlySpan<byte> own = upstream.Exclusive is null && !failed ? ClientListCommands.WithOwnId(client, reply) : reply;
        client.Answer(ClusterCommands.WithMode(client, CohortCommands.WithRole(client.Loop, own)));
    };

    public static bool QueueHello(Client client)
    {
        if ((client.Pins & Pins.PubSub) == 0 || !client.ArgumentIs(1, "2"u8)) { return QueueChange(client); }
        // What is published behind it in the transaction comes in the middle of the reply to EXEC, as arrays like any other.
        return client.Loop.Gate.IsVersioned
            ? client.RefuseCommand("ERR SLOGGER HELLO 2 cannot be queued in a transaction of a connection that is subscribed: send it "
            + "outside, or start the proxy with --commit none")
            : client.StartRaw();
    }

    /// <summary>Queues what changes the view of its connection when the transaction runs.</summary>
    public static bool QueueChange(Client client)
    {
        client.Transaction.QueueChange(rights: false);
        return client.Forward(needsDedicated: true);
    }

    public static bool Select(Client client)
    {
        Upstream? upstream = client.Route(needsDedicated: false);
        if (upstream is null) { return false; }
        if (!client.ArgumentNumber(1, out long db) || client.ArgumentCount != 2) { return client.Forward(needsDedicated: false); }
        client.SendRequest(upstream);
        upstream.Db = -1;
        client.ForwardWritten(upstream, OnSelect((int)db), barrier: true);
        return false;
    }

    private static ReplyHandler OnSelect(int db) => (client, upstream, failed, reply) =>
    {
        if (!failed)
        {
            client.Db = db;
            client.Loop.Spares.PreferView(db, client.Protocol);
        }
        if (upstream.Db == -1) { upstream.Db = client.Db; }
        client.Answer(reply);
    };

    // ---- CLIENT ----

    public static bool Client(Client client)
    {
        if (client.ArgumentIs(1, "SETNAME"u8) && client.ArgumentCount == 3) { return SetName(client); }
        if (client.ArgumentIs(1, "GETNAME"u8) && client.ArgumentCount == 2)
        {
            return client.Forward(needsDedicated: false, OnGetName, barrier: true);
        }
        if (client.ArgumentIs(1, "SETINFO"u8) || client.ArgumentIs(1, "HELP"u8)) { return client.Forward(needsDedicated: false); }
        if (client.ArgumentIs(1, "REPLY"u8) && ReplyModeOf(client) is { } mode) { return SetReplyMode(client, mode); }
        if (client.ArgumentIs(1, "PAUSE"u8) && client.ArgumentCount is 3 or 4 && client.ArgumentNumber(2, out long milliseconds)
            && milliseconds >= 0)
        {
            return client.IsQuiet() && Pause(client, milliseconds);
        }
        if (client.ArgumentIs(1, "UNPAUSE"u8) && client.ArgumentCount == 2)
        {
            return client.Forward(needsDedicated: true, barrier: true, then: static (c, _, failed, reply) =>
            {
                if (!failed) { c.Loop.Pause.End(); }
                c.Answer(reply);
            });
        }
        if (client.ArgumentIs(1, "KILL"u8)) { return ClientKill.Handle(client); }
        if (client.ArgumentIs(1, "LIST"u8)) { return ClientListCommands.List(client); }
        if (client.ArgumentIs(1, "INFO"u8)) { return ClientListCommands.Info(client); }
        if (client.ArgumentIs(1, "TRACKING"u8))
        {
            if (!client.Forward(needsDedicated: true, pin: Pins.Tracking)) { return false; }
            client.Dedicated!.MayInvalidate = true;
            return true;
        }
        bool identity = client.ArgumentIs(1, "ID"u8) || client.ArgumentIs(1, "NO-EVICT"u8) || client.ArgumentIs(1, "NO-TOUCH"u8)
            || client.ArgumentIs(1, "CACHING"u8);
        return client.Forward(needsDedicated: true, pin: identity ? Pins.Identity : Pins.None);
    }

    public static bool QueueClient(Client client)
    {
        client.Transaction.QueueChange(rights: false);
        if (client.ArgumentIs(1, "KILL"u8) && client.ArgumentCount > 2)
        {
            return client.RefuseCommand(
                "ERR SLOGGER CLIENT KILL cannot be queued in a transaction: it could hit the connection that other clients share");
        }
        if (client.ArgumentIs(1, "PAUSE"u8) && client.ArgumentNumber(2, out long milliseconds)) { return QueuePause(client, milliseconds); }
        if (client.ArgumentIs(1, "REPLY"u8) && ReplyModeOf(client) is not null) { return QueueReplyMode(client); }
        return client.Forward(needsDedicated: true);
    }

    private static bool SetName(Client client)
    {
        byte[] name = client.Argument(2).ToArray();
        return client.Forward(needsDedicated: false, barrier: true, then: (c, upstream, failed, reply) =>
        {
            if (!failed) { c.SetName(upstream, name); }
            c.Answer(reply);
        });
    }

    private static void OnGetName(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply) =>
        client.Answer(failed ? reply : NameReply(client));

    private static ReadOnlySpan<byte> NameReply(Client client) =>
        client.Name is { } name ? RespText.Bulk(name) : client.Protocol == 3 ? "_\r\n"u8 : "$-1\r\n"u8;

    private static bool Pause(Client client, long milliseconds) =>
        client.Forward(needsDedicated: true, barrier: true, then: (c, _, failed, reply) =>
        {
            c.Loop.Pause.Begin(failed ? 0 : milliseconds);
            c.Answer(reply);
        });

    // The pause will begin with EXEC.
    private static bool QueuePause(Client client, long milliseconds) =>
        client.Forward(needsDedicated: true, barrier: true, then: (c, _, failed, reply) =>
        {
            if (!failed) { c.Transaction.QueuePause(milliseconds); }
            c.Answer(reply);
        });

    private static ReadOnlySpan<byte> ReplyOn => "*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$2\r\nON\r\n"u8;

    // Redis is asked only whether it would be allowed: it must go on replying to the proxy.
    private static bool SetReplyMode(Client client, ReplyMode mode)
    {
        Upstream? upstream = client.Route(needsDedicated: false);
        if (upstream is null) { return false; }
        upstream.Write(ReplyOn);
        client.ForwardWritten(upstream, (c, _, failed, reply) => c.SetReplyMode(mode, failed, reply), ReplyKind.ReplyMode, barrier: true);
        return false;
    }

    // Queued in a transaction, CLIENT REPLY OFF would silence Redis in the middle of the reply to EXEC, and the proxy with
    // it. Redis is asked to reply ON instead: the transaction is answered whole, and so is what follows.
    private static bool QueueReplyMode(Client client)
    {
        Upstream? upstream = client.Route(needsDedicated: true);
        if (upstream is null) { return false; }
        upstream.Write(ReplyOn);
        client.ForwardWritten(upstream);
        return true;
    }

    // What CLIENT REPLY asks for, if that is something.
    private static ReplyMode? ReplyModeOf(Client client) => client.ArgumentCount != 3 ? null
        : client.ArgumentIs(2, "ON"u8) ? ReplyMode.On
        : client.ArgumentIs(2, "OFF"u8) ? ReplyMode.Off
        : client.ArgumentIs(2, "SKIP"u8) ? ReplyMode.SkipNext : null;

    // ---- Messages ----

    public static bool Subscribe(Client client) => Subscription(client, ReplyKind.Subscribe);

    public static bool Unsubscribe(Client client) => Subscription(client, ReplyKind.Unsubscribe);

    private static bool Subscription(Client client, ReplyKind kind)
    {
        Upstream? upstream = client.Route(needsDedicated: true);
        if (upstream is null) { return false; }
        // No effect on data, so no version boundary holds it back: it would be overtaken by others' messages.
        client.SendRequest(upstream, inexact: true);
        upstream.Expect(client, OnSubscriptionRefused, kind, Math.Max(0, client.ArgumentCount - 1), inexact: true,
            basis: ReplyBasis.None);
        client.ConsumeRequest();
        client.OnSubscribing();
        return true;
    }

    // Confirmations come as pushes; what comes as a reply is an error.
    private static void OnSubscriptionRefused(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply)
    {
        client.OnConfirmed();
        client.Pass(reply);
    }

    // The confirmations come in the middle of the reply to EXEC, more or fewer than it announces: nobody can count replies
    // on such a connection any more. Without versions bytes just pass from here on.
    public static bool QueueSubscription(Client client) => client.Loop.Gate.IsVersioned
        ? client.RefuseCommand("ERR SLOGGER subscriptions cannot be queued in a transaction: subscribe before it, or start the proxy with "
        + "--commit none")
        : client.StartRaw();

    // Redis does not answer one that monitors already.
    public static bool Monitor(Client client)
    {
        ReplyHandler pass = static (c, _, _, reply) => c.Pass(reply);
        if ((client.Pins & Pins.Monitor) == 0) { return client.Forward(needsDedicated: true, pass, ReplyKind.Monitor, pin: Pins.Monitor); }
        if (!client.MayAnswer()) { return false; }
        if (client.Dedicated is not { IsMonitor: true } || client.ArgumentCount != 1)
        {
            return client.Forward(needsDedicated: true, pass, ReplyKind.Monitor);
        }
        client.ConsumeRequest();
        client.CountLocal();
        return true;
    }

    // ---- The end, and a new beginning ----

    public static bool Reset(Client client)
    {
        if (client.ArgumentCount != 1) { return client.Forward(needsDedicated: client.Pins != Pins.None); }
        if (client.Dedicated is not null && client.Pins != Pins.None)
        {
            return client.Forward(needsDedicated: true, OnReset, ReplyKind.Reset, barrier: true, unpin: Pins.Multi);
        }
        if (!client.MayAnswer()) { return false; }
        client.ConsumeRequest();
        bool skipped = client.IsSkipping;
        client.BecomeNew();
        client.CountLocal();
        if (!skipped) { client.Deliver("+RESET\r\n"u8); }
        return true;
    }

    private static void OnReset(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply)
    {
        bool skipped = client.IsSkipping;
        if (!failed)
        {
            client.BecomeNew();
            // The connection was reset too, so it is like a new one.
            upstream.BecomeNew();
        }
        if (skipped) { client.EndWait(); } else { client.Answer(reply); }
    }

    public static bool Quit(Client client)
    {
        if (client.Dedicated is { } dedicated && (client.Pins != Pins.None || dedicated.InFlight > 0))
        {
            // Redis answers it after all that comes before.
            client.Forward(needsDedicated: true, viewMatters: false);
            client.OnQuitForwarded();
            return false;
        }
        if (!client.MayAnswer()) { return false; }
        client.Deliver("+OK\r\n"u8);
        if (!client.IsClosed) { client.CloseWhenSent(); }
        return false;
    }

    // Redis closes a connection on which an HTTP request comes, without a word: so does the proxy, after what is owed.
    public static bool Abuse(Client client)
    {
        if (!client.MayAnswer()) { return false; }
        client.Loop.Shard.Warn($"client {client.Id} is closed: it sent an HTTP request, as a browser does");
        client.CloseWhenSent();
        return false;
    }
}
