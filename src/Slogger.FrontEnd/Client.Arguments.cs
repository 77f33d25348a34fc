// The arguments of the request at the head of the input.
using System.Buffers.Text;
using System.Text;
using Slogger.Resp;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    private long _requestBytes;

    /// <summary>The request itself.</summary>
    public ReadOnlySpan<byte> Request => new(_input.Head, (int)_requestBytes);

    public int ArgumentCount => _loop.Arguments.Count;

    public ReadOnlySpan<byte> Argument(int index)
    {
        (int offset, int length) = _loop.Arguments[index];
        return new ReadOnlySpan<byte>(_input.Head + offset, length);
    }

    /// <summary>Compares as Redis does: as C strings, that is up to a zero byte.</summary>
    public bool ArgumentIs(int index, ReadOnlySpan<byte> word)
    {
        if (index >= ArgumentCount) { return false; }
        ReadOnlySpan<byte> argument = Argument(index);
        int zero = argument.IndexOf((byte)0);
        return Ascii.EqualsIgnoreCase(zero < 0 ? argument : argument[..zero], word);
    }

    public bool HasArgument(ReadOnlySpan<byte> word)
    {
        for (int i = 1; i < ArgumentCount; i++)
        {
            if (ArgumentIs(i, word)) { return true; }
        }
        return false;
    }

    public bool ArgumentNumber(int index, out long number)
    {
        ReadOnlySpan<byte> text = index < ArgumentCount ? Argument(index) : default;
        return Utf8Parser.TryParse(text, out number, out int used) && used == text.Length && text.Length > 0;
    }

    /// <summary>An argument as text, in UTF-8.</summary>
    public string TextOf(int index) => Encoding.UTF8.GetString(Argument(index));
}
