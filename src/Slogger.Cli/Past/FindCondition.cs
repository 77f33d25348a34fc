// The condition that slogger find looks for: an expression of Lua at each shard, and what is asked of these together.
using System.Globalization;
using Slogger.Cli.Access;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Past;

/// <summary>A condition.</summary>
/// <param name="When">The expression, or a chunk.</param>
/// <param name="Sum">What is asked of the sum over the shards; null: it is enough that it is true at one.</param>
internal sealed record FindCondition(string When, Func<double, bool>? Sum)
{
    private static readonly (string Sign, Func<double, double, bool> Holds)[] s_signs =
    [
        ("<=", (a, b) => a <= b), (">=", (a, b) => a >= b), ("==", (a, b) => a == b), ("!=", (a, b) => a != b), ("<", (a, b) => a < b),
        (">", (a, b) => a > b),
    ];

    /// <summary>What a shard runs, with <see cref="When"/> as the only argument: that is an expression, or else a chunk. A number is told
    /// as text: as a reply of a script it would lose its fraction.</summary>
    public const string Script = """
        local f, e = loadstring('return (\n' .. ARGV[1] .. '\n)')
        if not f then f, e = loadstring(ARGV[1]) end
        if not f then return redis.error_reply('ERR it is no Lua: ' .. e) end
        local v = f()
        if v == nil or v == false then return false elseif v == true then return '1' end
        if type(v) == 'number' then return string.format('%.17g', v) else return tostring(v) end
        """;

    /// <summary>What an option says of the sum; null: an error was added.</summary>
    /// <param name="option">Its name.</param>
    /// <param name="text">Its value.</param>
    /// <param name="errors">Receives what is wrong.</param>
    public static Func<double, bool>? SumOf(string option, string text, List<OptionError> errors)
    {
        foreach ((string sign, Func<double, double, bool> holds) in s_signs)
        {
            if (!text.TrimStart().StartsWith(sign, StringComparison.Ordinal)) { continue; }
            if (!double.TryParse(text.TrimStart()[sign.Length..], CultureInfo.InvariantCulture, out double limit)) { break; }
            return value => holds(value, limit);
        }
        errors.Add(new OptionError($"--{option} \"{text}\" is no condition", "the command line",
            $"write --{option} \"< 100\", with <, <=, >, >=, == or !="));
        return null;
    }

    /// <summary>Whether it is true.</summary>
    /// <param name="version">The version.</param>
    /// <param name="replies">What the script replies, shard by shard; no more are taken than are needed.</param>
    /// <exception cref="ProxyUnreachableException">What has to be a number is none.</exception>
    public async Task<bool> IsTrueAsync(long version, IEnumerable<Task<ProxyReply>> replies)
    {
        double total = 0;
        foreach (Task<ProxyReply> asked in replies)
        {
            ProxyReply reply = await asked.ConfigureAwait(false);
            if (Sum is null && !reply.IsNull) { return true; }
            if (Sum is null || reply.IsNull) { continue; }
            if (!double.TryParse(reply.Text, CultureInfo.InvariantCulture, out double number))
            {
                throw new ProxyUnreachableException($"at version {version} the expression gives \"{reply.Text}\", which is no number",
                    "with --sum it has to give a number at each shard");
            }
            total += number;
        }
        return Sum?.Invoke(total) ?? false;
    }
}
