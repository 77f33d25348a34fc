// What the tests of this project share: bytes from text, requests from arguments, and native memory that ends exactly where
// the bytes end, so that a read beyond them is noticed by a changed result (the byte behind them varies).
using System.Runtime.InteropServices;
using System.Text;

namespace Slogger.Resp.Tests;

internal static class Bytes
{
    /// <summary>Bytes of Latin-1 text.</summary>
    public static byte[] Of(string text) => Encoding.Latin1.GetBytes(text);

    public static string Text(ReadOnlySpan<byte> bytes) => Encoding.Latin1.GetString(bytes);

    /// <summary>A request as an array of bulk strings.</summary>
    public static byte[] Request(params string[] arguments) =>
        Of($"*{arguments.Length}\r\n" + string.Concat(arguments.Select(a => $"${a.Length}\r\n{a}\r\n")));

    /// <summary>A short name of bytes for a failed test.</summary>
    public static string Show(ReadOnlySpan<byte> bytes)
    {
        var text = new StringBuilder();
        foreach (byte b in bytes[..Math.Min(bytes.Length, 300)])
        {
            text.Append(b switch { (byte)'\r' => "\\r", (byte)'\n' => "\\n", < 32 or > 126 => $"\\x{b:x2}", _ => ((char)b).ToString() });
        }
        return text.Append(bytes.Length > 300 ? $"... ({bytes.Length} bytes)" : "").ToString();
    }
}

/// <summary>A copy of bytes outside the collected heap, with a byte behind them that tempts a scanner to read on.</summary>
internal sealed unsafe class Native : IDisposable
{
    public Native(ReadOnlySpan<byte> bytes, byte behind = (byte)'1')
    {
        Length = bytes.Length;
        Start = (byte*)NativeMemory.Alloc((nuint)(bytes.Length + 64));
        bytes.CopyTo(new Span<byte>(Start, bytes.Length));
        new Span<byte>(Start + bytes.Length, 64).Fill(behind);
    }

    public byte* Start { get; }

    public int Length { get; }

    public byte* End => Start + Length;

    public void Dispose() => NativeMemory.Free(Start);
}
