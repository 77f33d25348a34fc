// slogger get: what keys were at an instant, of whatever type.
using Slogger.Cli.Access;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Past;

/// <summary>Shows keys.</summary>
internal static class GetCommand
{
    public const string Name = "get";

    public static Task<CommandResult> RunAsync(OptionLayer texts, IReadOnlyList<string> keys, AppHost host)
    {
        List<OptionError> errors = [];
        if (keys.Count == 0) { errors.Add(new OptionError("no key is named", "the command line", "slogger get --ago 10m KEY")); }
        return PastArguments.RunAsync(texts, host, errors, async past =>
        {
            List<PastKey> found = [];
            foreach (string key in keys)
            {
                string type = (await past.ReadAsync("TYPE", key).ConfigureAwait(false)).Text;
                long expires = (await past.ReadAsync("PEXPIRETIME", key).ConfigureAwait(false)).Number;
                ProxyReply? value = type == PastKey.None ? null : await past.ReadAsync(ReadOf(type, key)).ConfigureAwait(false);
                found.Add(new(key, type, expires < 0 ? null : DateTimeOffset.FromUnixTimeMilliseconds(expires), ReplyJson.Of(value)));
            }
            return new GetReport(past.Version, past.Time, found);
        });
    }

    private static string[] ReadOf(string type, string key) => type switch
    {
        "string" => ["GET", key],
        "list" => ["LRANGE", key, "0", "-1"],
        "set" => ["SMEMBERS", key],
        "hash" => ["HGETALL", key],
        "zset" => ["ZRANGE", key, "0", "-1", "WITHSCORES"],
        "stream" => ["XRANGE", key, "-", "+"],
        // Of a module.
        _ => ["DUMP", key],
    };
}
