// Numbers that are pushed one behind the other: a list of Redis, or, where an embedded store is at one of the sites, a string to which each
// is appended with the same number of digits.
using System.Globalization;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sites;

/// <summary>How numbers are pushed, counted and read.</summary>
/// <param name="AsText">Whether as strings.</param>
internal sealed record SiteLists(bool AsText)
{
    private const int Digits = 8;

    public string[] Push(string list, int number) => AsText ? ["APPEND", list, number.ToString("D8", CultureInfo.InvariantCulture)]
        : ["RPUSH", list, number.ToString(CultureInfo.InvariantCulture)];

    public async Task<int?> CountAsync(RespClient client, string list)
    {
        RespValue length = await client.CallAsync(AsText ? "STRLEN" : "LLEN", list);
        return length.IsError ? null : (int)length.Number / (AsText ? Digits : 1);
    }

    public async Task<IReadOnlyList<int>> ReadAsync(RespClient client, string list)
    {
        if (!AsText)
        {
            return [.. (await client.DoAsync("LRANGE", list, "0", "-1")).Items.Select(
                v => int.Parse(v.Text, CultureInfo.InvariantCulture))];
        }
        RespValue text = await client.DoAsync("GET", list);
        return text.IsNull ? [] : [.. text.Text.Chunk(Digits).Select(digits => int.Parse(digits, CultureInfo.InvariantCulture))];
    }
}
