// CLIENT KILL. It follows what is listed, so it cannot hit a connection of the proxy's own; and Redis is asked first whether the request
// is right.
using System.Runtime.InteropServices;
using System.Text;

namespace Slogger.FrontEnd;

/// <summary>A CLIENT KILL under way.</summary>
internal sealed class ClientKill
{
    private readonly bool _isOldForm;
    private readonly List<Client> _clients = [];
    private bool _skipsSelf;
    private string? _address, _localAddress, _user;
    private ClientType? _type;
    private long _id;
    private byte[]? _error;
    private bool _isListed, _askedShared;
    private int _pending, _directPending;
    private long _count;
    private bool _hitsSelf;

    private ClientKill(bool isOldForm) => (_isOldForm, _skipsSelf) = (isOldForm, !isOldForm);

    public static bool Handle(Client client)
    {
        if (client.ArgumentCount < 3) { return client.Forward(needsDedicated: true); }
        Upstream? upstream = client.Route(needsDedicated: true);
        if (upstream is null) { return false; }
        var kill = new ClientKill(client.ArgumentCount == 3);
        List<byte> bytes = kill.ReadRequest(client);
        bytes.AddRange(InternalRequest.ClientList);
        upstream.Write(CollectionsMarshal.AsSpan(bytes));
        upstream.Expect(client, kill.OnChecked);
        upstream.Expect(client, kill.OnStep, ReplyKind.Uncounted);
        client.Loop.CountInternal("client|list");
        client.ConsumeRequest();
        client.Wait(Waiting.Reply);
        return false;
    }

    // Reads whom it is to hit. The result is a request that Redis judges by the same rules, and that hits nobody.
    private List<byte> ReadRequest(Client client)
    {
        var bytes = new List<byte>();
        if (_isOldForm)
        {
            _address = Encoding.Latin1.GetString(client.Argument(2));
            RespText.AppendHeader(bytes, '*', 3);
            for (int i = 0; i < 2; i++) { RespText.AppendBulk(bytes, client.Argument(i)); }
            RespText.AppendBulk(bytes, "nobody"u8);
            return bytes;
        }
        ReadOptions(client);
        // The same request with one more condition, which nobody meets.
        RespText.AppendHeader(bytes, '*', client.ArgumentCount + 2);
        for (int i = 0; i < client.ArgumentCount; i++) { RespText.AppendBulk(bytes, client.Argument(i)); }
        RespText.AppendBulk(bytes, "ID"u8);
        RespText.AppendBulk(bytes, "9223372036854775807"u8);
        return bytes;
    }

    // What is wrong here Redis will say, and nothing is killed.
    private void ReadOptions(Client client)
    {
        for (int i = 2; i + 1 < client.ArgumentCount; i += 2)
        {
            string value = Encoding.Latin1.GetString(client.Argument(i + 1));
            if (client.ArgumentIs(i, "ID"u8)) { _id = client.ArgumentNumber(i + 1, out long id) ? id : -1; }
            else if (client.ArgumentIs(i, "ADDR"u8)) { _address = value; }
            else if (client.ArgumentIs(i, "LADDR"u8)) { _localAddress = value; }
            else if (client.ArgumentIs(i, "USER"u8)) { _user = value; }
            else if (client.ArgumentIs(i, "TYPE"u8)) { _type = ClientLine.TypeOf(value); }
            else if (client.ArgumentIs(i, "SKIPME"u8)) { _skipsSelf = !client.ArgumentIs(i + 1, "NO"u8); }
        }
    }

    private bool Takes(long id, long otherId, string address, string localAddress, ClientType type, string user) =>
        (_id == 0 || _id == id || _id == otherId) && (_address is null || _address == address)
        && (_localAddress is null || _localAddress == localAddress)
        && (_type is null || _type == type) && (_user is null || _user == user);

    // Redis has judged the request: ":0", "no such client", or what is wrong with it.
    private void OnChecked(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply)
    {
        if (failed && !reply.StartsWith("-ERR No such client"u8)) { _error = reply.ToArray(); }
    }

    private void OnStep(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply)
    {
        if (!ClientListCommands.IsPutOff(client, reply, later => Step(client, later))) { Step(client, reply); }
    }

    private void Step(Client client, ReadOnlySpan<byte> reply)
    {
        if (client.Dedicated is null) { return; }
        if (_isListed)
        {
            // Of a connection made at Redis directly it counts whether it was still there; these were asked for first.
            if (_directPending-- > 0 && reply.SequenceEqual(":1\r\n"u8)) { _count++; }
            if (--_pending == 0) { Finish(client); }
            return;
        }
        if (_error is not null)
        {
            client.Answer(_error);
            return;
        }
        if (reply[0] == (byte)'-' && !_askedShared && client.Loop.Shared is { IsClosed: false } shared)
        {
            // The user may kill but not list: the proxy looks for itself.
            _askedShared = true;
            shared.Write(InternalRequest.ClientList);
            shared.Expect(client, OnStep, ReplyKind.Uncounted);
            return;
        }
        _isListed = true;
        Kill(client, reply[0] == (byte)'-' ? [] : ClientLine.Parse(reply));
        if (_pending == 0) { Finish(client); }
    }

    private void Kill(Client self, List<ClientLine> lines)
    {
        FrontEndLoop loop = self.Loop;
        var own = new Dictionary<Client, ClientLine>();
        var victims = new List<long>();
        foreach (ClientLine line in lines)
        {
            if (loop.Directory.IsOwn(line, out Client? client))
            {
                if (client is not null) { own[client] = line; }
            }
            else if (Takes(line.Id, line.Id, line.Address, line["laddr"], line.Type, line["user"])) { victims.Add(line.Id); }
        }
        _directPending = victims.Count;
        foreach (Client client in loop.Clients)
        {
            if (client.IsClosed || (client == self && _skipsSelf)) { continue; }
            own.TryGetValue(client, out ClientLine? line);
            ClientType type = line?.Type ?? ClientType.Normal;
            ClientIdentity who = client.Identity;
            if (!Takes(client.VirtualId, line?.Id ?? 0, who.PeerAddress, who.LocalAddress, type, line?["user"] ?? "default"))
            {
                continue;
            }
            if (client == self)
            {
                _hitsSelf = true;
                continue;
            }
            _clients.Add(client);
            // Redis kills at once; the end of a connection it may notice only after the next command of somebody else.
            if (line is not null) { victims.Add(line.Id); }
        }
        _pending = victims.Count;
        foreach (long victim in victims)
        {
            self.Dedicated!.Write(InternalRequest.Kill(victim));
            self.Dedicated.Expect(self, OnStep, ReplyKind.Uncounted);
            loop.CountInternal("client|kill");
        }
    }

    private void Finish(Client client)
    {
        foreach (Client victim in _clients) { victim.Close(); }
        long count = _count + _clients.Count + (_hitsSelf ? 1 : 0);
        if (!_isOldForm) { client.Answer(RespText.Integer(count)); }
        else { client.Answer(count > 0 ? "+OK\r\n"u8 : "-ERR No such client\r\n"u8); }
        if (_hitsSelf && !client.IsClosed) { client.CloseWhenSent(); }
    }
}
