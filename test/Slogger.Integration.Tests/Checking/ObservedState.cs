// Reads everything a server holds, over an ordinary connection, in the model's canonical form. The server should be at
// rest. Callers: ChaosRun after each recovery, and tests that compare two servers.
using System.Globalization;
using System.Net;
using Slogger.Integration.Tests.Model;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Checking;

/// <summary>All keys of all 16 databases, and when they were read (Unix ms, before the reading began and after it ended).</summary>
internal sealed record ObservedState(IReadOnlyDictionary<DatabaseKey, Entry> Entries, long ReadFromMs, long ReadToMs)
{
    private const int Databases = 16;

    /// <exception cref="InvalidDataException">The server holds a value of a kind that the workload never writes.</exception>
    public static async Task<ObservedState> ReadAsync(EndPoint endpoint)
    {
        long from = DateTimeOffset.UtcNow.ToUnixTimeMilliseconds();
        using var client = await RespClient.ConnectAsync(endpoint);
        var entries = new Dictionary<DatabaseKey, Entry>();
        for (int database = 0; database < Databases; database++)
        {
            await client.DoAsync("SELECT", database.ToString(CultureInfo.InvariantCulture));
            foreach (string key in await ScanAsync(client))
            {
                if (await ReadKeyAsync(client, key) is { } entry)
                {
                    entries[new(database, key)] = entry;
                }
            }
        }

        return new(entries, from, DateTimeOffset.UtcNow.ToUnixTimeMilliseconds());
    }

    /// <summary>The keys of one writer.</summary>
    public IEnumerable<KeyValuePair<DatabaseKey, Entry>> OfWriter(int writer)
    {
        string prefix = string.Create(CultureInfo.InvariantCulture, $"w{writer}:");
        return Entries.Where(e => e.Key.Name.StartsWith(prefix, StringComparison.Ordinal));
    }

    /// <summary>The fingerprint that the model of this writer would have in this state.</summary>
    public ulong Fingerprint(int writer) => OfWriter(writer).Where(e => KeyspaceModel.IsFingerprinted(e.Key.Name))
        .Aggregate(0UL, (sum, e) => sum ^ KeyspaceModel.Hash(e.Key, e.Value.Canonical));

    /// <summary>Differences to another state, readable, at most <paramref name="limit"/>.</summary>
    public static IEnumerable<string> Differences(IReadOnlyDictionary<DatabaseKey, Entry> expected,
        IReadOnlyDictionary<DatabaseKey, Entry> actual, int limit = 10) =>
        expected.Keys.Union(actual.Keys)
            .Select(k => (Key: k, Expected: expected.GetValueOrDefault(k)?.Canonical, Actual: actual.GetValueOrDefault(k)?.Canonical))
            .Where(d => d.Expected != d.Actual)
            .Select(d => $"{d.Key}: expected {Short(d.Expected)}, found {Short(d.Actual)}")
            .Take(limit);

    private static string Short(string? canonical) =>
        canonical is null ? "nothing" : canonical.Length <= 150 ? canonical : canonical[..150] + "...";

    private static async Task<HashSet<string>> ScanAsync(RespClient client)
    {
        var keys = new HashSet<string>(StringComparer.Ordinal);
        string cursor = "0";
        do
        {
            var reply = await client.DoAsync("SCAN", cursor, "COUNT", "1000");
            cursor = reply.Items[0].Text;
            keys.UnionWith(reply.Items[1].Items.Select(k => k.Text));
        }
        while (cursor != "0");

        return keys;
    }

    private static async Task<Entry?> ReadKeyAsync(RespClient client, string key)
    {
        string type = (await client.DoAsync("TYPE", key)).Text;
        Entry? entry = type switch
        {
            "string" => await client.DoAsync("GET", key) is { IsNull: false } value ? new StringEntry(value.Text) : null,
            "list" => new ListEntry { Items = await TextsAsync("LRANGE", key, "0", "-1") },
            "set" => new SetEntry { Members = new(await TextsAsync("SMEMBERS", key), StringComparer.Ordinal) },
            "hash" => new HashEntry { Fields = new(Pairs(await TextsAsync("HGETALL", key)), StringComparer.Ordinal) },
            "zset" => new SortedSetEntry
            {
                Scores = Pairs(await TextsAsync("ZRANGE", key, "0", "-1", "WITHSCORES"))
                    .ToDictionary(p => p.Key, p => long.Parse(p.Value, CultureInfo.InvariantCulture)),
            },
            "stream" => new StreamEntry
            {
                Entries = [.. (await client.DoAsync("XRANGE", key, "-", "+")).Items
                    .Select(e => (e.Items[0].Text, e.Items[1].Items[0].Text, e.Items[1].Items[1].Text))],
            },
            "none" => null,
            _ => throw new InvalidDataException($"{key} holds a {type}"),
        };
        if (entry is null || (entry.IsEmpty && entry is not StreamEntry))
        {
            return null;
        }

        long expiry = (await client.DoAsync("PEXPIRETIME", key)).AsInteger();
        entry.ExpiresAtMs = Math.Max(0, expiry);
        return expiry == -2 ? null : entry;

        async Task<List<string>> TextsAsync(params string[] command) =>
            [.. (await client.DoAsync(command)).Items.Select(i => i.Text)];
    }

    private static Dictionary<string, string> Pairs(List<string> flat) =>
        Enumerable.Range(0, flat.Count / 2).ToDictionary(i => flat[2 * i], i => flat[(2 * i) + 1]);
}
