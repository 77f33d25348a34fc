// Commands on values that are numbers.
namespace Slogger.Faster.Commands;

/// <summary>Commands on numbers.</summary>
internal sealed class NumberCommands(Request request, Replies replies, Keyspace keys)
{
    public void Increment() => Add(1);

    public void Decrement() => Add(-1);

    public void IncrementBy()
    {
        if (request.TryInteger(2, replies, out long by)) Add(by);
    }

    public void DecrementBy()
    {
        if (!request.TryInteger(2, replies, out long by)) return;
        if (by == long.MinValue) replies.Error("ERR decrement would overflow");
        else Add(-by);
    }

    public void IncrementByFloat()
    {
        bool exists = keys.Load(request[1], out long expiryMs);
        Extended value = Extended.Zero;
        if ((exists && !Extended.TryParse(keys.Value.Bytes, out value)) || !Extended.TryParse(request[2], out Extended by))
        {
            replies.Error("ERR value is not a valid float");
            return;
        }

        Extended sum = value + by;
        if (!sum.IsFinite)
        {
            replies.Error("ERR increment would produce NaN or Infinity");
            return;
        }

        byte[] text = System.Text.Encoding.ASCII.GetBytes(sum.ToString());
        if (!keys.Fits(request[1], text.Length)) return;
        keys.Put(request[1], text, expiryMs);
        replies.Bulk(text);
    }

    private void Add(long by)
    {
        long value = 0;
        if (keys.Load(request[1], out long expiryMs) && !Numbers.TryParse(keys.Value.Bytes, out value))
        {
            replies.Error(ErrorText.NotAnInteger);
            return;
        }

        if ((by < 0 && value < 0 && by < long.MinValue - value) || (by > 0 && value > 0 && by > long.MaxValue - value))
        {
            replies.Error("ERR increment or decrement would overflow");
            return;
        }

        value += by;
        if (!keys.Fits(request[1], Numbers.BytesMax)) return;
        Span<byte> text = stackalloc byte[Numbers.BytesMax];
        keys.Put(request[1], text[..Numbers.Format(value, text)], expiryMs);
        replies.Integer(value);
    }
}
