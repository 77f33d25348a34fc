// Replies in the connection's protocol, and errors in Redis's words.
using System.Globalization;
using System.Text;

namespace Slogger.Faster.Commands;

public sealed unsafe partial class CommandConnection
{
    private const string SyntaxError = "ERR syntax error";
    private const string NotAnInteger = "ERR value is not an integer or out of range";

    private const string OutOfMemory = "OOM command not allowed when used memory > 'maxmemory'.";

    private const string ReadOnly = "READONLY You can't write against a read only replica.";

    private bool IsResp3 => _protocol == 3;

    private void Ok() => _replies.Raw("+OK\r\n"u8);

    private void Integer(long value) => _replies.Number((byte)':', value);

    private void Bulk(ReadOnlySpan<byte> bytes) => _replies.Bulk(bytes);

    private void Bulk(string text) => _replies.Bulk(Encoding.Latin1.GetBytes(text));

    private void Status(string text) => _replies.Line((byte)'+', text);

    private void Null() => _replies.Raw(IsResp3 ? "_\r\n"u8 : "$-1\r\n"u8);

    private void NullArray() => _replies.Raw(IsResp3 ? "_\r\n"u8 : "*-1\r\n"u8);

    private void BeginArray(long items) => _replies.Number((byte)'*', items);

    private void BeginMap(long pairs) => _replies.Number(IsResp3 ? (byte)'%' : (byte)'*', IsResp3 ? pairs : pairs * 2);

    private void BeginSet(long items) => _replies.Number(IsResp3 ? (byte)'~' : (byte)'*', items);

    // Text for people.
    private void Verbatim(string text)
    {
        if (!IsResp3)
        {
            Bulk(text);
            return;
        }

        _replies.Number((byte)'=', text.Length + 4);
        _replies.Raw(Encoding.Latin1.GetBytes("txt:" + text));
        _replies.Raw("\r\n"u8);
    }

    private void Error(string text)
    {
        _counts.Errors++;
        if (_isFeed) (FeedError, WantsClose) = (text, true);
        _replies.Line((byte)'-', text.Trim('\r', '\n').Replace('\r', ' ').Replace('\n', ' '));
    }

    // A request that is not executed: a transaction that it was to be part of is not either.
    private void Reject(string text)
    {
        if (_transaction is not null) _transaction.IsSpoilt = true;
        Error(text);
    }

    private void RejectArguments(Command command)
    {
        string why = $"wrong number of arguments for '{command.Name}' command";
        if (command.Name == "exec") Abort(why);
        else Reject($"ERR {why}");
    }

    private string UnknownCommand()
    {
        if (MissingCommands.ErrorFor(ArgumentAt(0)) is { } why) return why;
        var arguments = new StringBuilder();
        for (int i = 1; i < _count && arguments.Length < 128; i++)
        {
            string argument = Text(ArgumentAt(i), 128 - arguments.Length);
            arguments.Append('\'').Append(argument).Append("' ");
        }

        return $"ERR unknown command '{Text(ArgumentAt(0), 128)}', with args beginning with: {arguments}".Replace('\r', ' ').Replace('\n', ' ');
    }

    private string BadSubcommandUse() => $"ERR unknown subcommand or wrong number of arguments for '{Text(ArgumentAt(1), 128)}'. Try {Text(ArgumentAt(0)).ToUpperInvariant()} HELP.";

    // As C prints it: up to a zero byte.
    private static string Text(ReadOnlySpan<byte> bytes, int max = int.MaxValue)
    {
        int zero = bytes.IndexOf((byte)0);
        if (zero >= 0) bytes = bytes[..zero];
        return Encoding.Latin1.GetString(bytes[..Math.Min(bytes.Length, max)]);
    }

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);

    private bool TryInteger(int argument, out long value, string error = NotAnInteger)
    {
        if (Numbers.TryParse(ArgumentAt(argument), out value)) return true;
        Error(error);
        return false;
    }
}
