// slogger get: what keys were at an instant, of whatever type.
using System.Text;
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
        return PastArguments.RunAsync(texts, host, errors, async (past, at) =>
        {
            List<PastKey> found = [];
            foreach (byte[] key in keys.Select(k => Encoding.UTF8.GetBytes(k)))
            {
                found.Add((await PastValue.ReadAsync(past, at, key).ConfigureAwait(false)).Shown(key));
            }
            return new GetReport(at.Version, at.Time, found);
        });
    }
}
