// Requests that must not reach a connection which others share, although Redis has an answer for them.
using System.Text;
using Slogger.Resp;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    private const int ErrorArgumentsBytes = 128;

    // Redis closes a connection on which an HTTP request comes, without a word: so does the proxy, after what is owed.
    private bool CloseAbuser()
    {
        if (!IsDrained)
        {
            Wait(Waiting.Drain);
            return false;
        }
        _loop.Shard.Warn($"client {Id} is closed: it sent an HTTP request, as a browser would that was led here");
        CloseWhenSent();
        return false;
    }

    // The embedded store has neither MONITOR nor a slow log that anybody could hide in, and its errors repeat names as they are spelled.
    private unsafe bool IsToBeRespelled(byte* p) => _loop.Store.Knows(OwnSpelling.NameAt(p));

    // Redis's words for a command that it does not know, for one that it must not be asked about.
    private string UnknownCommandError()
    {
        if (_loop.Store.MissingError(Argument(0)) is { } why) { return why; }
        var text = new StringBuilder("ERR unknown command '");
        AppendShort(text, Argument(0), ErrorArgumentsBytes);
        text.Append("', with args beginning with: ");
        int start = text.Length;
        for (int i = 1; i < ArgumentCount && text.Length - start < ErrorArgumentsBytes; i++)
        {
            text.Append('\'');
            AppendShort(text, Argument(i), ErrorArgumentsBytes - (text.Length - start - 1));
            text.Append("' ");
        }
        return text.ToString();
    }

    // As C prints it: up to a zero byte. Line ends would break the protocol.
    private static void AppendShort(StringBuilder text, ReadOnlySpan<byte> bytes, int most)
    {
        foreach (byte b in bytes[..Math.Min(bytes.Length, most)])
        {
            if (b == 0) { return; }
            text.Append(b is (byte)'\r' or (byte)'\n' ? ' ' : (char)b);
        }
    }
}
