// Commands on the connection itself.
namespace Slogger.Faster.Commands;

/// <summary>Commands on the connection: who is there, and in which protocol.</summary>
internal sealed class ConnectionCommands(
    Request request, Replies replies, CommandEngine engine, ClientState client,
    TransactionQueue queue, Watches watches, Subscriptions subscriptions)
{
    private const string NoPassword =
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?";

    private const string WrongPassword = "WRONGPASS invalid username-password pair or user is disabled.";

    public void Ping()
    {
        if (request.Count > 2) replies.Error("ERR wrong number of arguments for 'ping' command");
        else if (subscriptions.Any && !replies.IsResp3) PongAsMessage();
        else if (request.Count == 2) replies.Bulk(request[1]);
        else replies.Raw("+PONG\r\n"u8);
    }

    public void Echo() => replies.Bulk(request[1]);

    public void Quit()
    {
        replies.Ok();
        replies.WantsClose = true;
    }

    public void Reset()
    {
        queue.Clear();
        watches.Clear();
        subscriptions.Clear();
        // What was published before comes before.
        subscriptions.TakePushes(replies.Buffer);
        (replies.Protocol, replies.Mode, client.Name) = (2, ReplyMode.On, "");
        replies.Status("RESET");
    }

    public void Authenticate()
    {
        // Nobody has a password here: the only user is let in with any.
        if (request.Count > 3) replies.Error(ErrorText.Syntax);
        else if (request.Count == 2) replies.Error(NoPassword);
        else if (TryLogin(1)) replies.Ok();
    }

    public void Hello()
    {
        long protocol = 0;
        if (request.Count > 1)
        {
            if (!request.TryInteger(1, replies, out protocol, "ERR Protocol version is not an integer or out of range")) return;
            if (protocol is < 2 or > 3)
            {
                replies.Error("NOPROTO unsupported protocol version");
                return;
            }
        }

        // Each as it comes: what is before an error holds.
        for (int i = 2; i < request.Count; i++)
        {
            int more = request.Count - 1 - i;
            if (more >= 2 && request.Is(i, "auth"u8))
            {
                if (!TryLogin(i + 1)) return;
                i += 2;
            }
            else if (more >= 1 && request.Is(i, "setname"u8))
            {
                if (!client.TrySetName(++i)) return;
            }
            else
            {
                replies.Error($"ERR Syntax error in HELLO option '{Latin1.Text(request[i])}'");
                return;
            }
        }

        if (protocol != 0) subscriptions.SetProtocol((int)protocol);
        replies.BeginMap(7);
        replies.Field("server", "redis");
        replies.Field("version", ServerCommands.RedisVersion);
        replies.Bulk("proto");
        replies.Integer(replies.Protocol);
        replies.Bulk("id");
        replies.Integer(client.Id);
        replies.Field("mode", "standalone");
        replies.Field("role", engine.IsFollowing ? "replica" : "master");
        replies.Bulk("modules");
        replies.BeginArray(0);
    }

    public void Select()
    {
        if (request.TryDatabase(1, replies)) replies.Ok();
    }

    // Clients that are subscribed read nothing but messages.
    private void PongAsMessage()
    {
        replies.BeginArray(2);
        replies.Bulk("pong");
        replies.Bulk(request.Count == 2 ? request[1] : default);
    }

    // The only user needs no password.
    private bool TryLogin(int user)
    {
        if (request[user].SequenceEqual("default"u8)) return true;
        replies.Error(WrongPassword);
        return false;
    }
}
