// Replies in the connection's protocol, and errors in Redis's words.
using System.Globalization;
using System.Text;

namespace Slogger.Faster.Commands;

/// <summary>Whether replies are given out (CLIENT REPLY).</summary>
internal enum ReplyMode
{
    On,
    Off,

    /// <summary>That of the next request is not.</summary>
    SkipNext,

    /// <summary>That of the present request is not.</summary>
    Skip,
}

/// <summary>Writes the replies of one connection.</summary>
/// <param name="isFeed">Whether the connection feeds a store that follows: an error ends it.</param>
internal sealed class Replies(bool isFeed)
{
    /// <summary>Where they go.</summary>
    public ReplyBuffer Buffer { get; set; } = null!;

    /// <summary>2 or 3, as HELLO chose. Changed under the lock of what is pushed, since that is written in it by other threads.</summary>
    public int Protocol { get; set; } = 2;

    public bool IsResp3 => Protocol == 3;

    public ReplyMode Mode { get; set; }

    /// <summary>Whether what is answered is thrown away.</summary>
    public bool IsQuiet => Mode is ReplyMode.Off or ReplyMode.Skip;

    /// <summary>Whether the connection is to be closed when its replies are sent.</summary>
    public bool WantsClose { get; set; }

    /// <summary>Of a feed: the error that ended it.</summary>
    public string? FeedError { get; private set; }

    /// <summary>How many errors there were.</summary>
    public long Errors { get; private set; }

    /// <summary>A place to go back to.</summary>
    public nint Mark => Buffer.Mark;

    /// <summary>Takes back what was written since.</summary>
    public void Return(nint mark) => Buffer.Return(mark);

    public void Raw(ReadOnlySpan<byte> bytes) => Buffer.Raw(bytes);

    public void Ok() => Buffer.Raw("+OK\r\n"u8);

    public void Integer(long value) => Buffer.Number((byte)':', value);

    public void Bulk(ReadOnlySpan<byte> bytes) => Buffer.Bulk(bytes);

    public void Bulk(string text) => Buffer.Bulk(Encoding.Latin1.GetBytes(text));

    /// <summary>A number as text.</summary>
    public void BulkNumber(long number) => Bulk(number.ToString(CultureInfo.InvariantCulture));

    public void Status(string text) => Buffer.Line((byte)'+', text);

    public void Null() => Buffer.Raw(IsResp3 ? "_\r\n"u8 : "$-1\r\n"u8);

    public void NullArray() => Buffer.Raw(IsResp3 ? "_\r\n"u8 : "*-1\r\n"u8);

    public void BeginArray(long items) => Buffer.Number((byte)'*', items);

    public void BeginMap(long pairs) => Buffer.Number(IsResp3 ? (byte)'%' : (byte)'*', IsResp3 ? pairs : pairs * 2);

    public void BeginSet(long items) => Buffer.Number(IsResp3 ? (byte)'~' : (byte)'*', items);

    /// <summary>A name and its value, of a map.</summary>
    public void Field(string name, string value)
    {
        Bulk(name);
        Bulk(value);
    }

    /// <summary>Text for people.</summary>
    public void Verbatim(string text)
    {
        if (!IsResp3)
        {
            Bulk(text);
            return;
        }

        Buffer.Number((byte)'=', text.Length + 4);
        Buffer.Raw(Encoding.Latin1.GetBytes("txt:" + text));
        Buffer.Raw("\r\n"u8);
    }

    public void Error(string text)
    {
        Errors++;
        if (isFeed) (FeedError, WantsClose) = (text, true);
        Buffer.Line((byte)'-', text.Trim('\r', '\n').Replace('\r', ' ').Replace('\n', ' '));
    }
}
