// One line of CLIENT LIST as Redis 7.0 writes it: read, changed and made up. Bytes are kept as Latin-1 characters, so
// that names pass through as they are. Source: catClientInfoString in networking.c.
using System.Globalization;
using System.Text;

namespace Slogger.FrontEnd;

/// <summary>Kinds of clients as CLIENT LIST and CLIENT KILL select them.</summary>
internal enum ClientType { Normal, Replica, PubSub, Master }

/// <summary>A line about one client.</summary>
internal sealed class ClientLine(string text)
{
    public string Text { get; private set; } = text;

    public long Id => long.TryParse(this["id"], NumberStyles.None, CultureInfo.InvariantCulture, out long id) ? id : 0;

    public string Address => this["addr"];

    /// <summary>As clients name it, in UTF-8; empty where Redis does not tell.</summary>
    public string User => Encoding.UTF8.GetString(Encoding.Latin1.GetBytes(this["user"]));

    public ClientType Type => this["flags"] switch
    {
        var flags when flags.Contains('M', StringComparison.Ordinal) => ClientType.Master,
        var flags when flags.Contains('S', StringComparison.Ordinal) => ClientType.Replica,
        var flags when flags.Contains('P', StringComparison.Ordinal) => ClientType.PubSub,
        _ => ClientType.Normal,
    };

    /// <summary>A field's text; empty when there is none of that name.</summary>
    public string this[string field]
    {
        get => Find(field, out int from, out int to) ? Text[from..to] : "";
        set
        {
            if (Find(field, out int from, out int to)) { Text = string.Concat(Text.AsSpan(0, from), value, Text.AsSpan(to)); }
        }
    }

    // Only an address may contain spaces: the path of a Unix socket. It ends where the field after it begins.
    private bool Find(string field, out int from, out int to)
    {
        to = 0;
        string start = $"{field}=";
        int at = Text.StartsWith(start, StringComparison.Ordinal) ? 0 : Text.IndexOf($" {start}", StringComparison.Ordinal) + 1;
        from = at + start.Length;
        if (at == 0 && !Text.StartsWith(start, StringComparison.Ordinal)) { return false; }
        string end = field switch { "addr" => " laddr=", "laddr" => " fd=", _ => " " };
        to = Text.IndexOf(end, from, StringComparison.Ordinal);
        if (to < 0) { to = Text.Length; }
        return true;
    }

    /// <summary>The lines in a reply to CLIENT LIST or CLIENT INFO, a bulk or a verbatim string.</summary>
    public static List<ClientLine> Parse(ReadOnlySpan<byte> reply)
    {
        var lines = new List<ClientLine>();
        string text = Encoding.Latin1.GetString(reply[(reply.IndexOf((byte)'\n') + 1)..]);
        if (reply[0] == (byte)'=') { text = text[4..]; }
        foreach (string line in text.Split('\n'))
        {
            if (line.StartsWith("id=", StringComparison.Ordinal)) { lines.Add(new ClientLine(line)); }
        }
        return lines;
    }

    /// <summary>The reply with these lines, of the same type as another reply.</summary>
    public static byte[] Format(IEnumerable<ClientLine> lines, byte replyType)
    {
        var text = new StringBuilder(replyType == (byte)'=' ? "txt:" : "");
        foreach (ClientLine line in lines) { text.Append(line.Text).Append('\n'); }
        return Encoding.Latin1.GetBytes(string.Create(CultureInfo.InvariantCulture, $"{(char)replyType}{text.Length}\r\n{text}\r\n"));
    }

    /// <summary>The type of a name in CLIENT LIST TYPE; <c>null</c> for a name that Redis does not know.</summary>
    public static ClientType? TypeOf(string name) => name.ToUpperInvariant() switch
    {
        "NORMAL" => ClientType.Normal,
        "SLAVE" or "REPLICA" => ClientType.Replica,
        "PUBSUB" => ClientType.PubSub,
        "MASTER" => ClientType.Master,
        _ => null,
    };
}
