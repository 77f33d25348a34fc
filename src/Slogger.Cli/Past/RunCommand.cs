// slogger run: what a command would have read at an instant.
using System.Text;
using Slogger.Cli.Access;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Past;

/// <summary>Runs a command that reads.</summary>
internal static class RunCommand
{
    public const string Name = "run";

    public static Task<CommandResult> RunAsync(OptionLayer texts, IReadOnlyList<string> words, AppHost host)
    {
        List<OptionError> errors = [];
        if (words.Count == 0)
        {
            errors.Add(new OptionError("no command is given", "the command line", "slogger run --ago 10m -- ZRANGE board 0 9 REV"));
        }
        return PastArguments.RunAsync(texts, host, errors, async (past, at) =>
        {
            ProxyReply reply = await past.ReadAsync(at, [.. words.Select(w => Encoding.UTF8.GetBytes(w))]).ConfigureAwait(false);
            return new RunReport(at.Version, at.Time, ReplyJson.Of(reply));
        });
    }
}
