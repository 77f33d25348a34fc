// Errors in Redis's words that more than one group of commands gives, without '-' and line end.
using System.Text;

namespace Slogger.Faster.Commands;

internal static class ErrorText
{
    public const string Syntax = "ERR syntax error";
    public const string NotAnInteger = "ERR value is not an integer or out of range";
    public const string OutOfMemory = "OOM command not allowed when used memory > 'maxmemory'.";
    public const string ReadOnly = "READONLY You can't write against a read only replica.";

    /// <summary>The request names no command that there is.</summary>
    public static string UnknownCommand(Request request)
    {
        if (MissingCommands.ErrorFor(request[0]) is { } why) return why;
        var arguments = new StringBuilder();
        for (int i = 1; i < request.Count && arguments.Length < 128; i++)
        {
            string argument = Latin1.Text(request[i], 128 - arguments.Length);
            arguments.Append('\'').Append(argument).Append("' ");
        }

        return $"ERR unknown command '{Latin1.Text(request[0], 128)}', with args beginning with: {arguments}";
    }

    public static string UnknownSubcommand(Request request)
    {
        string name = Latin1.Text(request[0]);
        return MissingCommands.ErrorFor(name, request[1])
            ?? $"ERR unknown subcommand '{Latin1.Text(request[1], 128)}'. Try {name.ToUpperInvariant()} HELP.";
    }

    /// <summary>A subcommand does not take these arguments.</summary>
    public static string BadSubcommandUse(Request request) =>
        $"ERR unknown subcommand or wrong number of arguments for '{Latin1.Text(request[1], 128)}'. "
        + $"Try {Latin1.Text(request[0]).ToUpperInvariant()} HELP.";

    /// <summary>One command or transaction names too many things. On the thread that executes it everybody waits for it, and what is atomic
    /// cannot be cut into slices.</summary>
    public static string TooManyNames(int names) =>
        $"ERR SLOGGER one command or transaction of the embedded store names at most {CommandEngine.KeysMax} keys, channels and the like, "
        + $"not {names}: give them in several";

    public static string InvalidExpiry(Command command) => $"ERR invalid expire time in '{command.Name}' command";
}
