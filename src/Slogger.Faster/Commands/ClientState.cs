// What CLIENT LIST shows of one connection.
using System.Globalization;

namespace Slogger.Faster.Commands;

/// <summary>Who a connection is, and how it is doing.</summary>
internal sealed class ClientState(
    long id, long connectedMs, Request request, Replies replies, TransactionQueue queue, Subscriptions subscriptions)
{
    /// <summary>The only user, who needs no password.</summary>
    public const string DefaultUser = "default";

    public long Id => id;

    /// <summary>As its client has named it.</summary>
    public string Name { get; set; } = "";

    public bool IsSubscribed => subscriptions.Any;

    /// <summary>Names it as an argument says. If that is no name, that is the reply.</summary>
    public bool TrySetName(int argument)
    {
        if (request[argument].IndexOfAnyExceptInRange((byte)'!', (byte)'~') >= 0)
        {
            replies.Error("ERR Client names cannot contain spaces, newlines or special characters.");
            return false;
        }

        Name = Latin1.Text(request[argument]);
        return true;
    }

    /// <summary>Its line of CLIENT LIST. What is of a socket is not known here. Any thread.</summary>
    public string Describe(long nowMs)
    {
        string age = Text(Math.Max(0, nowMs - connectedMs) / 1000);
        string flags = (IsSubscribed ? "P" : "") + (queue.IsOpen ? "x" : IsSubscribed ? "" : "N");
        string names = $"sub={Count(SubscriptionKind.Channel)} psub={Count(SubscriptionKind.Pattern)} "
            + $"ssub={Count(SubscriptionKind.ShardChannel)}";
        return $"id={Text(id)} addr= laddr= fd=-1 name={Name} age={age} idle=0 flags={flags} db=0 {names} "
            + $"multi={Text(queue.IsOpen ? queue.Count : -1)} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem={Text(queue.Bytes)} "
            + "rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r "
            + $"cmd={request.Command?.Name ?? "NULL"} user={DefaultUser} redir=-1 resp={Text(replies.Protocol)}\n";
    }

    private string Count(SubscriptionKind kind) => Text(subscriptions.Count(kind));

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
}
