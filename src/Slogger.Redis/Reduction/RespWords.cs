using System.Buffers;
using System.Buffers.Text;

namespace Slogger.Redis.Reduction;

/// <summary>Writes commands word by word, and counts the bytes.</summary>
/// <param name="output">Is appended to.</param>
internal struct RespWords(IBufferWriter<byte> output)
{
    private const int HeadBytesMax = 24;

    /// <summary>Bytes written.</summary>
    public long Bytes { get; private set; }

    /// <summary>Begins a command.</summary>
    /// <param name="words">How many words it has, its name included.</param>
    public void Begin(int words) => Head('*', words);

    /// <summary>A word.</summary>
    public void Add(ReadOnlySpan<byte> word)
    {
        BeginWord(word.Length);
        Raw(word);
        EndWord();
    }

    /// <summary>A number as a word.</summary>
    public void Add(long number)
    {
        Span<byte> text = stackalloc byte[HeadBytesMax];
        Utf8Formatter.TryFormat(number, text, out int digits);
        Add(text[..digits]);
    }

    /// <summary>A word that is written in pieces by <see cref="Raw"/>.</summary>
    /// <param name="length">Bytes of all pieces.</param>
    public void BeginWord(int length) => Head('$', length);

    /// <summary>The end of a word in pieces.</summary>
    public void EndWord() => Raw("\r\n"u8);

    /// <summary>Bytes as they are.</summary>
    public void Raw(ReadOnlySpan<byte> bytes)
    {
        output.Write(bytes);
        Bytes += bytes.Length;
    }

    private void Head(char kind, int number)
    {
        Span<byte> head = output.GetSpan(HeadBytesMax);
        head[0] = (byte)kind;
        Utf8Formatter.TryFormat(number, head[1..], out int digits);
        "\r\n"u8.CopyTo(head[(1 + digits)..]);
        output.Advance(digits + 3);
        Bytes += digits + 3;
    }
}
