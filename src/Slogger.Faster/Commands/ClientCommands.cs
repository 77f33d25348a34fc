// CLIENT. Nobody tracks or is blocked here.
namespace Slogger.Faster.Commands;

/// <summary>Commands on the clients of the store.</summary>
internal sealed class ClientCommands(Request request, Replies replies, CommandEngine engine, ClientState client)
{
    private const string BadUnblockReason = "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR";
    private const string BadId = "ERR client-id should be greater than 0";

    public void ClientId() => replies.Integer(client.Id);

    public void GetName()
    {
        if (client.Name.Length == 0) replies.Null();
        else replies.Bulk(client.Name);
    }

    public void SetName()
    {
        if (client.TrySetName(2)) replies.Ok();
    }

    public void ClientInfo() => replies.Verbatim(client.Describe(request.NowMs));

    public void ClientList()
    {
        HashSet<long>? ids = null;
        bool? isSubscribed = null;
        if (request.Count == 4 && request.Is(2, "type"u8))
        {
            if (!IsClientType(3))
            {
                replies.Error(UnknownType(3));
                return;
            }

            if (!request.Is(3, "normal"u8) && !request.Is(3, "pubsub"u8))
            {
                replies.Verbatim("");
                return;
            }

            isSubscribed = request.Is(3, "pubsub"u8);
        }
        else if (request.Count > 3 && request.Is(2, "id"u8))
        {
            ids = [];
            for (int i = 3; i < request.Count; i++)
            {
                if (!request.TryInteger(i, replies, out long id, "ERR Invalid client ID")) return;
                ids.Add(id);
            }
        }
        else if (request.Count != 2)
        {
            replies.Error(ErrorText.Syntax);
            return;
        }

        IEnumerable<ClientState> clients = engine.Connections().Select(c => c.Client)
            .Where(c => (isSubscribed is null || c.IsSubscribed == isSubscribed) && (ids is null || ids.Contains(c.Id)));
        replies.Verbatim(string.Concat(clients.Select(c => c.Describe(request.NowMs))));
    }

    // Nobody can be killed here: whose connections these are is for who holds their sockets.
    public void KillClient()
    {
        if (request.Count == 3)
        {
            replies.Error("ERR No such client");
            return;
        }

        for (int i = 2; i < request.Count; i += 2) if (!IsFilter(i)) return;
        replies.Integer(0);
    }

    public void SetNoEvict()
    {
        if (request.Is(2, "on"u8) || request.Is(2, "off"u8)) replies.Ok();
        else replies.Error(ErrorText.Syntax);
    }

    public void SetReplyMode()
    {
        if (request.Is(2, "on"u8))
        {
            replies.Mode = ReplyMode.On;
            replies.Ok();
        }
        else if (request.Is(2, "off"u8))
        {
            replies.Mode = ReplyMode.Off;
        }
        else if (request.Is(2, "skip"u8))
        {
            if (replies.Mode == ReplyMode.On) replies.Mode = ReplyMode.SkipNext;
        }
        else
        {
            replies.Error(ErrorText.Syntax);
        }
    }

    public void GetRedirection() => replies.Integer(-1);

    public void DescribeTracking()
    {
        replies.BeginMap(3);
        replies.Bulk("flags");
        replies.BeginSet(1);
        replies.Bulk("off");
        replies.Bulk("redirect");
        replies.Integer(-1);
        replies.Bulk("prefixes");
        replies.BeginArray(0);
    }

    public void SetCaching() =>
        replies.Error("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled");

    public void UnblockClient()
    {
        if (request.Count > 4) replies.Error(ErrorText.BadSubcommandUse(request));
        else if (request.Count == 4 && !request.Is(3, "timeout"u8) && !request.Is(3, "error"u8)) replies.Error(BadUnblockReason);
        else if (request.TryInteger(2, replies, out _)) replies.Integer(0);
    }

    public void Unpause() => replies.Ok();

    private bool IsFilter(int argument)
    {
        int value = argument + 1;
        string? error = value == request.Count ? ErrorText.Syntax
            : request.Is(argument, "id"u8) ? Numbers.TryParse(request[value], out long id) && id > 0 ? null : BadId
            : request.Is(argument, "type"u8) ? IsClientType(value) ? null : UnknownType(value)
            : request.Is(argument, "user"u8) ? request[value].SequenceEqual("default"u8) ? null : UnknownUser(value)
            : request.Is(argument, "skipme"u8) ? request.Is(value, "yes"u8) || request.Is(value, "no"u8) ? null : ErrorText.Syntax
            : request.Is(argument, "addr"u8) || request.Is(argument, "laddr"u8) ? null : ErrorText.Syntax;
        if (error is not null) replies.Error(error);
        return error is null;
    }

    private bool IsClientType(int argument) =>
        request.Is(argument, "normal"u8) || request.Is(argument, "master"u8) || request.Is(argument, "replica"u8)
        || request.Is(argument, "slave"u8) || request.Is(argument, "pubsub"u8);

    private string UnknownUser(int argument) => $"ERR No such user '{Latin1.Text(request[argument])}'";

    private string UnknownType(int argument) => $"ERR Unknown client type '{Latin1.Text(request[argument])}'";
}
