// Requests and replies that the front end makes up itself, as lists of bytes. Not for the hot path.
using System.Globalization;
using System.Runtime.InteropServices;
using System.Text;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>Builds RESP from parts, and steps over it.</summary>
internal static unsafe class RespText
{
    public const string NewLine = "\r\n";

    /// <summary>Appends the first line of an array, a bulk string or a number.</summary>
    public static void AppendHeader(List<byte> bytes, char kind, long number) =>
        bytes.AddRange(Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $"{kind}{number}\r\n")));

    /// <summary>Appends a bulk string.</summary>
    public static void AppendBulk(List<byte> bytes, ReadOnlySpan<byte> content)
    {
        AppendHeader(bytes, '$', content.Length);
        bytes.AddRange(content);
        bytes.AddRange("\r\n"u8);
    }

    /// <summary>An array of numbers.</summary>
    public static byte[] Integers(params ReadOnlySpan<long> numbers)
    {
        var bytes = new List<byte>();
        AppendHeader(bytes, '*', numbers.Length);
        foreach (long number in numbers) { AppendHeader(bytes, ':', number); }
        return bytes.ToArray();
    }

    /// <summary>A number.</summary>
    public static byte[] Integer(long number) => Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $":{number}\r\n"));

    /// <summary>A bulk string.</summary>
    public static byte[] Bulk(ReadOnlySpan<byte> content)
    {
        var bytes = new List<byte>();
        AppendBulk(bytes, content);
        return bytes.ToArray();
    }

    /// <summary>Writes a request of the proxy's own that has no effect on data.</summary>
    public static void WriteRequest(Upstream upstream, ReadOnlySpan<byte> name, params byte[][] arguments)
    {
        var bytes = new List<byte>(64);
        AppendHeader(bytes, '*', arguments.Length + 1);
        AppendBulk(bytes, name);
        foreach (byte[] argument in arguments) { AppendBulk(bytes, argument); }
        upstream.Write(CollectionsMarshal.AsSpan(bytes), inexact: true);
    }

    /// <summary>Where the value ends that begins at a place.</summary>
    public static byte* Skip(byte* p, byte* end)
    {
        ReplyState state = default;
        int one = 1;
        return ReplyScanner.Consume(p, end, ref state, ref one);
    }
}
