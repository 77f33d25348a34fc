// What a store holds, read by its commands: to compare what it was with what it is said to have been.
using System.Globalization;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Past;

internal sealed record Seen(int Database, string Key, string Type, string Value, long ExpiresAtMs);

internal static class StoreContents
{
    private const int Databases = 4;

    public static async Task<List<Seen>> ReadAllAsync(RespClient client)
    {
        List<Seen> all = [];
        for (int database = 0; database < Databases; database++)
        {
            await client.DoAsync("SELECT", Text(database));
            string[] keys = [.. (await client.DoAsync("KEYS", "*")).Items.Select(k => k.Text), "missing"];
            foreach (string key in keys)
            {
                long expires = (await client.DoAsync("PEXPIRETIME", key)).AsInteger();
                string type = (await client.DoAsync("TYPE", key)).Text;
                string value = type == "none" ? "" : Canonical(type, await client.DoAsync(ReadOf(type, key)));
                // One that is about to expire may have, between this look and the end of the version.
                bool isFleeting = expires >= 0 && expires < DateTimeOffset.UtcNow.ToUnixTimeMilliseconds() + 500;
                if (!isFleeting && (type != "none" || key == "missing")) { all.Add(new(database, key, type, value, expires)); }
            }
        }
        return all;
    }

    public static string[] ReadOf(string type, string key) => type switch
    {
        "string" => ["GET", key],
        "list" => ["LRANGE", key, "0", "-1"],
        "set" => ["SMEMBERS", key],
        "hash" => ["HGETALL", key],
        "zset" => ["ZRANGE", key, "0", "-1", "WITHSCORES"],
        "stream" => ["XRANGE", key, "-", "+"],
        _ => throw new ArgumentOutOfRangeException(nameof(type), type, "no type of Redis"),
    };

    // Of what has no order, in one.
    public static string Canonical(string type, RespValue value) => type switch
    {
        "set" => string.Join(' ', value.Items.Select(i => i.Compact).Order(StringComparer.Ordinal)),
        "hash" => string.Join(' ', value.Items.Chunk(2).Select(p => $"{p[0].Compact}={p[1].Compact}").Order(StringComparer.Ordinal)),
        _ => value.Compact,
    };

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
}
