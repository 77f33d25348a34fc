// CLIENT LIST and CLIENT INFO: about clients, of which Redis knows only those with a connection of their own. What Redis
// lists is changed so that people see clients as they are: the proxy's own connections are left out, the others show
// where the client really comes from, and clients that only share a connection are added.
using System.Globalization;
using System.Text;

namespace Slogger.FrontEnd;

/// <summary>Handlers of CLIENT LIST and CLIENT INFO.</summary>
internal static class ClientListCommands
{
    public static bool List(Client client)
    {
        var list = new Listing(null, null);
        if (client.ArgumentCount == 4 && client.ArgumentIs(2, "TYPE"u8))
        {
            ClientType? type = ClientLine.TypeOf(Encoding.Latin1.GetString(client.Argument(3)));
            if (type is null) { return client.Forward(needsDedicated: true); }
            list = new Listing(null, type);
        }
        else if (client.ArgumentCount > 3 && client.ArgumentIs(2, "ID"u8))
        {
            List<long> ids = [];
            for (int i = 3; i < client.ArgumentCount; i++)
            {
                if (!client.ArgumentNumber(i, out long id)) { return client.Forward(needsDedicated: true); }
                ids.Add(id);
            }
            list = new Listing(ids, null);
            if (ids.Exists(static id => id >= Client.FirstVirtualId))
            {
                // Redis does not know these: the ones wanted are picked out of all.
                Upstream? upstream = client.Route(needsDedicated: true);
                if (upstream is null) { return false; }
                upstream.Write("*2\r\n$6\r\nCLIENT\r\n$4\r\nLIST\r\n"u8);
                client.ForwardWritten(upstream, list.OnReply, barrier: true);
                return false;
            }
        }
        else if (client.ArgumentCount != 2)
        {
            return client.Forward(needsDedicated: true);
        }
        return client.Forward(needsDedicated: true, list.OnReply, barrier: true);
    }

    public static bool Info(Client client) => client.ArgumentCount != 2
        ? client.Forward(needsDedicated: true)
        : client.Forward(needsDedicated: true, OnInfo, barrier: true, pin: Pins.Identity);

    private static void OnInfo(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply)
    {
        if (!IsPutOff(client, reply, later => client.Answer(OfItself(client, later))))
        {
            client.Answer(failed ? reply : OfItself(client, reply));
        }
    }

    private static byte[] OfItself(Client client, ReadOnlySpan<byte> reply)
    {
        List<ClientLine> lines = ClientLine.Parse(reply);
        foreach (ClientLine line in lines) { client.Identity.Show(line); }
        return ClientLine.Format(lines, reply[0]);
    }

    /// <summary>A list may hold connections of the proxy that it does not know yet by their ids: it is looked at a moment later.</summary>
    public static bool IsPutOff(Client client, ReadOnlySpan<byte> reply, Action<byte[]> then)
    {
        if (reply[0] is not ((byte)'$' or (byte)'=') || client.Loop.Directory.AreIdsKnown || client.IsSkipping) { return false; }
        byte[] copy = reply.ToArray();
        client.Loop.Directory.WhenIdsKnown(() =>
        {
            if (client.IsClosed || !client.AwaitsReply) { return; }
            client.Loop.Replies.BeginAny();
            then(copy);
            client.Loop.Replies.End();
        });
        return true;
    }

    // HELLO tells the id of the connection that it came over: not this client's.
    public static byte[] WithOwnId(Client client, ReadOnlySpan<byte> reply)
    {
        ReadOnlySpan<byte> field = "$2\r\nid\r\n:"u8;
        int at = reply.IndexOf(field);
        if (at < 0) { return reply.ToArray(); }
        int from = at + field.Length;
        int to = from + reply[from..].IndexOf((byte)'\r');
        return [.. reply[..from], .. Encoding.ASCII.GetBytes(client.VirtualId.ToString(CultureInfo.InvariantCulture)), .. reply[to..]];
    }

    // Which clients are to be listed: those with some ids, or of a type, or all.
    private sealed class Listing(List<long>? ids, ClientType? type)
    {
        public void OnReply(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply)
        {
            if (!IsPutOff(client, reply, later => client.Answer(WithOwnClients(client, later))))
            {
                client.Answer(failed ? reply : WithOwnClients(client, reply));
            }
        }

        private byte[] WithOwnClients(Client self, ReadOnlySpan<byte> reply)
        {
            List<ClientLine> lines = ClientLine.Parse(reply);
            var shown = new List<ClientLine>();
            var listed = new HashSet<Client>();
            ClientLine? shared = lines.Find(l => self.Loop.Shared?.Address == l.Address);
            foreach (ClientLine line in lines)
            {
                if (!self.Loop.Directory.IsOwn(line, out Client? client)) { shown.Add(line); }
                else if (client is { IsClosed: false } && listed.Add(client))
                {
                    client.Identity.Show(line);
                    shown.Add(line);
                }
            }
            if (ids is not null)
            {
                var chosen = new List<ClientLine>();
                foreach (long id in ids)
                {
                    if (shown.Find(l => l.Id == id) is { } line) { chosen.Add(line); }
                    else if (id >= Client.FirstVirtualId && self.Loop.Clients.Find(id) is { } client)
                    {
                        ClientLine? own = shown.Find(l => self.Loop.Directory.IsOwn(l, out Client? its) && its == client);
                        own ??= client.Identity.MakeLine(shared);
                        chosen.Add(own);
                    }
                }
                return ClientLine.Format(chosen, reply[0]);
            }
            if (type is null or ClientType.Normal)
            {
                foreach (Client client in self.Loop.Clients.OrderBy(c => c.Id))
                {
                    if (!listed.Contains(client) && !client.IsUnrecognizable && !client.IsClosed
                        && (type is null || client.Dedicated is null))
                    {
                        shown.Add(client.Identity.MakeLine(shared));
                    }
                }
            }
            return ClientLine.Format(shown, reply[0]);
        }
    }
}
