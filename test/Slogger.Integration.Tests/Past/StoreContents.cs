// What a store holds, read by its commands: to compare what it was with what it is said to have been.
using Slogger.Integration.Tests.Wire;
using static Slogger.Integration.Tests.Past.StoreView;

namespace Slogger.Integration.Tests.Past;

internal sealed record Seen(int Database, string Key, string Type, string Value, long ExpiresAtMs);

internal static class StoreContents
{
    private const int Databases = 4;

    public static async Task<List<Seen>> ReadAllAsync(RespClient client, int databases = Databases)
    {
        List<Seen> all = [];
        for (int database = 0; database < databases; database++)
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
}
