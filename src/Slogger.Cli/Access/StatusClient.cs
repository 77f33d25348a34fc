// What a proxy says of its state: the fields of DPR.INFO.
namespace Slogger.Cli.Access;

/// <summary>Asks a proxy for its state.</summary>
internal static class StatusClient
{
    /// <summary>The fields of DPR.INFO, in its order.</summary>
    /// <exception cref="ProxyUnreachableException">There are none.</exception>
    public static async Task<IReadOnlyList<KeyValuePair<string, string>>> AskAsync(ProxyAccess access)
    {
        await using ProxyConnection proxy = await ProxyConnection.OpenAsync(access).ConfigureAwait(false);
        return await AskAsync(proxy, access.Address!.ToString()).ConfigureAwait(false);
    }

    /// <summary>The same, over a connection that is open.</summary>
    /// <param name="proxy">The connection.</param>
    /// <param name="address">Where it leads.</param>
    /// <exception cref="ProxyUnreachableException">There are none.</exception>
    public static async Task<IReadOnlyList<KeyValuePair<string, string>>> AskAsync(ProxyConnection proxy, string address)
    {
        ProxyReply reply = await proxy.CallAsync("DPR.INFO").ConfigureAwait(false);
        if (!reply.IsError)
        {
            List<KeyValuePair<string, string>> fields = Parse(reply.Text);
            return fields.Count > 0 ? fields
                : throw new ProxyUnreachableException($"{address} is not a Slogger proxy: its DPR.INFO is empty",
                    "give a proxy's address");
        }
        if (reply.Text.StartsWith("NOAUTH", StringComparison.Ordinal) || reply.Text.StartsWith("NOPERM", StringComparison.Ordinal))
        {
            throw new ProxyUnreachableException($"{address} answers {reply.Text}", "give --password-file FILE (and --user NAME)");
        }
        throw reply.Text.Contains("unknown command", StringComparison.OrdinalIgnoreCase)
            ? new ProxyUnreachableException($"{address} is not a Slogger proxy: it does not know DPR.INFO",
                "that may be Redis itself; give the proxy's address")
            : new ProxyUnreachableException($"{address} answers {reply.Text}", "look at the proxy's log");
    }

    /// <summary>Splits name:value lines; empty lines and # headings are passed over. The first of two equal names counts.</summary>
    public static List<KeyValuePair<string, string>> Parse(string text)
    {
        List<KeyValuePair<string, string>> fields = [];
        HashSet<string> seen = [];
        foreach (string line in text.Split('\n', StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries))
        {
            int colon = line.IndexOf(':');
            if (colon > 0 && line[0] != '#' && seen.Add(line[..colon]))
            {
                fields.Add(new KeyValuePair<string, string>(line[..colon], line[(colon + 1)..]));
            }
        }

        return fields;
    }
}
