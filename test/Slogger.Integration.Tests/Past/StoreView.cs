// What clients see of a store, in a form that can be compared.
using System.Globalization;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Past;

internal static class StoreView
{
    /// <summary>The version that has all that was acknowledged; it is committed.</summary>
    public static async Task<string> VersionNowAsync(RespClient client) =>
        Text((await client.DoAsync("DPR.ASOF", "AGO", "0")).Items[1].AsInteger());

    /// <summary>What a command about all data says as of a version: it is asked again while that is loaded.</summary>
    public static async Task<RespValue> OfAllAsync(RespClient client, string version, params string[] command)
    {
        RespValue reply;
        do { reply = await client.CallAsync(["DPR.ASOF", "VERSION", version, .. command]); }
        while (reply.IsError && reply.Text.StartsWith("SLOGGER LOADING", StringComparison.Ordinal));
        return reply;
    }

    /// <summary>The command that reads all of a key.</summary>
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

    /// <summary>Its reply. What has no order is put in one.</summary>
    public static string Canonical(string type, RespValue value) => type switch
    {
        "set" => string.Join(' ', value.Items.Select(i => i.Compact).Order(StringComparer.Ordinal)),
        "hash" => string.Join(' ', value.Items.Chunk(2).Select(p => $"{p[0].Compact}={p[1].Compact}").Order(StringComparer.Ordinal)),
        _ => value.Compact,
    };

    public static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
}
