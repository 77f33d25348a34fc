// A transaction as the client sends it: how it begins and ends. What is queued in it each command says itself (SpecialCommand.Queue).
namespace Slogger.FrontEnd;

/// <summary>Handlers of MULTI, EXEC, DISCARD, WATCH and UNWATCH.</summary>
internal static class TransactionCommands
{
    // Whether a transaction begins must be known before what follows: in RESP2 a subscriber may not begin one.
    public static bool Multi(Client client)
    {
        if ((client.Pins & Pins.PubSub) != 0 && !client.MayAnswer()) { return false; }
        // A second one is an error, and leaves the first as it is.
        bool begins = client.ArgumentCount == 1 && (client.Pins & Pins.Multi) == 0 && !(client.Protocol == 2
            && client.Dedicated is { IsSubscribed: true });
        if (!begins) { return client.Forward(needsDedicated: true); }
        bool watches = (client.Pins & Pins.Watch) != 0;
        if (!client.Forward(needsDedicated: true, OnMulti, pin: Pins.Multi)) { return false; }
        client.Transaction.Begin(watches);
        return true;
    }

    // Whether Redis has begun the transaction that the proxy takes for begun.
    private static void OnMulti(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply)
    {
        if (client.Transaction.WasRefused(failed, out bool watches))
        {
            client.Pins &= ~Pins.Multi;
            if (watches) { client.Pins |= Pins.Watch; }
        }
        client.Pass(reply);
    }

    public static string? MultiInBatch(Client client) =>
        client.BatchLeft == 1 ? "ERR SLOGGER a transaction must end in the batch that it begins in" : null;

    public static bool Watch(Client client) =>
        client.Forward(needsDedicated: true, pin: (client.Pins & Pins.Multi) != 0 ? Pins.None : Pins.Watch);

    public static bool Unwatch(Client client) =>
        client.Forward(needsDedicated: false, unpin: client.ArgumentCount == 1 ? Pins.Watch : Pins.None);

    public static bool Exec(Client client) => End(client, isExec: true);

    public static bool Discard(Client client) => End(client, isExec: false);

    private static bool End(Client client, bool isExec)
    {
        // Without a transaction both are errors, and what is watched stays so; a DISCARD that Redis does not understand
        // leaves the transaction as it is, an EXEC ends it.
        bool ends = (client.Pins & Pins.Multi) != 0 && (isExec || client.ArgumentCount == 1);
        bool runs = ends && isExec, touches = runs && client.Transaction.TouchesView;
        if (client.Transaction.PauseMilliseconds > 0 && isExec)
        {
            if (!client.IsQuiet()) { return false; }
            client.Loop.Pause.Begin(client.Transaction.PauseMilliseconds);
        }
        Pins unpin = ends && !touches ? Pins.Multi | Pins.Watch : Pins.None;
        if (!client.Forward((client.Pins & (Pins.Multi | Pins.Watch)) != 0, unpin: unpin)) { return false; }
        if (!ends) { return true; }
        client.Transaction.End(runs);
        if (!touches) { return true; }
        // What the transaction has changed of the connection is asked for.
        Upstream upstream = client.Dedicated!;
        upstream.Write(InternalRequest.ClientInfo);
        client.Loop.CountInternal("client|info");
        upstream.Expect(client, OnRun, ReplyKind.Exec);
        client.Wait(Waiting.Reply);
        return false;
    }

    private static void OnRun(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply)
    {
        client.LearnView(upstream, reply);
        if (client.Transaction.TakeRights())
        {
            client.Loop.Settings.Learn();
            client.Loop.Probe.Suspend();
            client.Loop.Probe.Check();
        }
        client.EndWait();
    }
}
