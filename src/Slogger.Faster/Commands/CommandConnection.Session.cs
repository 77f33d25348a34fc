// Commands on the connection itself.
using System.Globalization;

namespace Slogger.Faster.Commands;

public sealed unsafe partial class CommandConnection
{
    private const string DefaultUser = "default";
    private const string WrongPassword = "WRONGPASS invalid username-password pair or user is disabled.";

    private enum ReplyMode { On, Off, SkipNext, Skip }

    private int _protocol = 2;
    private ReplyMode _replyMode = ReplyMode.On;
    private string _name = "";

    internal void Ping()
    {
        if (_count > 2) Error("ERR wrong number of arguments for 'ping' command");
        else if (IsSubscribed && !IsResp3) PongAsMessage();
        else if (_count == 2) Bulk(ArgumentAt(1));
        else _replies.Raw("+PONG\r\n"u8);
    }

    // Clients that are subscribed read nothing but messages.
    private void PongAsMessage()
    {
        BeginArray(2);
        Bulk("pong");
        Bulk(_count == 2 ? ArgumentAt(1) : default);
    }

    internal void Echo() => Bulk(ArgumentAt(1));

    internal void Quit()
    {
        Ok();
        WantsClose = true;
    }

    internal void Reset()
    {
        EndTransaction();
        EndWatch();
        EndSubscriptions();
        // What was published before comes before.
        TakePushes(_replies);
        (_protocol, _name, _replyMode) = (2, "", ReplyMode.On);
        Status("RESET");
    }

    internal void Authenticate()
    {
        // Nobody has a password here: the only user is let in with any.
        if (_count > 3) Error(SyntaxError);
        else if (_count == 2) Error("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?");
        else if (TryLogin(1)) Ok();
    }

    internal void Hello()
    {
        long protocol = 0;
        if (_count > 1)
        {
            if (!TryInteger(1, out protocol, "ERR Protocol version is not an integer or out of range")) return;
            if (protocol is < 2 or > 3)
            {
                Error("NOPROTO unsupported protocol version");
                return;
            }
        }

        // Each as it comes: what is before an error holds.
        for (int i = 2; i < _count; i++)
        {
            int more = _count - 1 - i;
            if (more >= 2 && IsArgument(i, "auth"u8))
            {
                if (!TryLogin(i + 1)) return;
                i += 2;
            }
            else if (more >= 1 && IsArgument(i, "setname"u8))
            {
                if (!TryName(++i)) return;
            }
            else
            {
                Error($"ERR Syntax error in HELLO option '{Text(ArgumentAt(i))}'");
                return;
            }
        }

        if (protocol != 0) SetProtocol((int)protocol);
        BeginMap(7);
        Field("server", "redis");
        Field("version", RedisVersion);
        Bulk("proto");
        Integer(_protocol);
        Bulk("id");
        Integer(Id);
        Field("mode", "standalone");
        Field("role", _engine.IsFollowing ? "replica" : "master");
        Bulk("modules");
        BeginArray(0);
    }

    internal void Select()
    {
        if (TryDatabase(1)) Ok();
    }

    internal void ClientId() => Integer(Id);

    internal void GetName()
    {
        if (_name.Length == 0) Null();
        else Bulk(_name);
    }

    internal void SetName()
    {
        if (TryName(2)) Ok();
    }

    internal void ClientInfo() => Verbatim(Describe(_now));

    internal void ClientList()
    {
        HashSet<long>? ids = null;
        bool? isSubscribed = null;
        if (_count == 4 && IsArgument(2, "type"u8))
        {
            if (!IsClientType(3))
            {
                Error(UnknownType(3));
                return;
            }

            if (!IsArgument(3, "normal"u8) && !IsArgument(3, "pubsub"u8))
            {
                Verbatim("");
                return;
            }

            isSubscribed = IsArgument(3, "pubsub"u8);
        }
        else if (_count > 3 && IsArgument(2, "id"u8))
        {
            ids = [];
            for (int i = 3; i < _count; i++)
            {
                if (!TryInteger(i, out long id, "ERR Invalid client ID")) return;
                ids.Add(id);
            }
        }
        else if (_count != 2)
        {
            Error(SyntaxError);
            return;
        }

        Verbatim(string.Concat(_engine.Connections().Where(c => (isSubscribed is null || c.IsSubscribed == isSubscribed) && (ids is null || ids.Contains(c.Id))).Select(c => c.Describe(_now))));
    }

    // Nobody can be killed here: whose connections these are is for who holds their sockets.
    internal void KillClient()
    {
        if (_count == 3)
        {
            Error("ERR No such client");
            return;
        }

        for (int i = 2; i < _count; i += 2) if (!IsFilter(i)) return;
        Integer(0);
    }

    private bool IsFilter(int argument)
    {
        int value = argument + 1;
        string? error = value == _count ? SyntaxError
            : IsArgument(argument, "id"u8) ? Numbers.TryParse(ArgumentAt(value), out long id) && id > 0 ? null : "ERR client-id should be greater than 0"
            : IsArgument(argument, "type"u8) ? IsClientType(value) ? null : UnknownType(value)
            : IsArgument(argument, "user"u8) ? ArgumentAt(value).SequenceEqual("default"u8) ? null : $"ERR No such user '{Text(ArgumentAt(value))}'"
            : IsArgument(argument, "skipme"u8) ? IsArgument(value, "yes"u8) || IsArgument(value, "no"u8) ? null : SyntaxError
            : IsArgument(argument, "addr"u8) || IsArgument(argument, "laddr"u8) ? null : SyntaxError;
        if (error is not null) Error(error);
        return error is null;
    }

    private bool IsClientType(int argument) =>
        IsArgument(argument, "normal"u8) || IsArgument(argument, "master"u8) || IsArgument(argument, "replica"u8) || IsArgument(argument, "slave"u8) || IsArgument(argument, "pubsub"u8);

    private string UnknownType(int argument) => $"ERR Unknown client type '{Text(ArgumentAt(argument))}'";

    internal void SetNoEvict()
    {
        if (IsArgument(2, "on"u8) || IsArgument(2, "off"u8)) Ok();
        else Error(SyntaxError);
    }

    internal void SetReplyMode()
    {
        if (IsArgument(2, "on"u8))
        {
            _replyMode = ReplyMode.On;
            Ok();
        }
        else if (IsArgument(2, "off"u8))
        {
            _replyMode = ReplyMode.Off;
        }
        else if (IsArgument(2, "skip"u8))
        {
            if (_replyMode == ReplyMode.On) _replyMode = ReplyMode.SkipNext;
        }
        else
        {
            Error(SyntaxError);
        }
    }

    // After CLIENT REPLY: what is not to be answered is executed all the same.
    private void ExecuteQuietly(Command? command)
    {
        nint mark = _replies.Mark;
        bool skips = _replyMode == ReplyMode.SkipNext;
        if (skips) _replyMode = ReplyMode.Skip;
        Execute(command);
        if (_replyMode != ReplyMode.On) _replies.Return(mark);
        TakePushes(_replies);
        if (skips && _replyMode == ReplyMode.Skip) _replyMode = ReplyMode.On;
    }

    // The only user needs no password.
    private bool TryLogin(int user)
    {
        if (ArgumentAt(user).SequenceEqual("default"u8)) return true;
        Error(WrongPassword);
        return false;
    }

    private bool TryName(int argument)
    {
        if (ArgumentAt(argument).IndexOfAnyExceptInRange((byte)'!', (byte)'~') >= 0)
        {
            Error("ERR Client names cannot contain spaces, newlines or special characters.");
            return false;
        }

        _name = Text(ArgumentAt(argument));
        return true;
    }

    // There is one database.
    private bool TryDatabase(int argument)
    {
        if (!TryInteger(argument, out long database)) return false;
        if (database == 0) return true;
        Error(database is < int.MinValue or > int.MaxValue ? $"ERR value is out of range, value must between {int.MinValue} and {int.MaxValue}" : "ERR DB index is out of range");
        return false;
    }

    // As CLIENT LIST has it. What is of a socket is not known here.
    private string Describe(long now) => string.Create(CultureInfo.InvariantCulture,
        $"id={Id} addr= laddr= fd=-1 name={_name} age={Math.Max(0, now - ConnectedMs) / 1000} idle=0 flags={(IsSubscribed ? "P" : "")}{(_transaction is not null ? "x" : IsSubscribed ? "" : "N")} db=0 sub={SubscriptionCount(SubscriptionKind.Channel)} psub={SubscriptionCount(SubscriptionKind.Pattern)} ssub={SubscriptionCount(SubscriptionKind.ShardChannel)} multi={_transaction?.Commands.Count ?? -1} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem={_queuedBytes} rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd={_command?.Name ?? "NULL"} user={DefaultUser} redir=-1 resp={_protocol}\n");

    private void Field(string name, string value)
    {
        Bulk(name);
        Bulk(value);
    }
}
