// Commands on values as a whole.
namespace Slogger.Faster.Commands;

/// <summary>Commands on values.</summary>
internal sealed class StringCommands(Request request, Replies replies, Keyspace keys)
{
    private readonly SetOptionReader _options = new(request, replies);

    public void Get() => keys.ReplyWithValue(request[1], out _);

    public void Set()
    {
        if (request.Count > 3)
        {
            SetWithOptions();
            return;
        }

        if (!keys.Fits(request[1], request.LengthOf(2))) return;
        keys.Put(request[1], request[2], 0);
        replies.Ok();
    }

    public void SetIfMissing()
    {
        if (!keys.Fits(request[1], request.LengthOf(2))) return;
        bool exists = keys.Exists(request[1]);
        if (!exists) keys.Put(request[1], request[2], 0);
        replies.Integer(exists ? 0 : 1);
    }

    public void SetForSeconds() => SetFor(SetOptions.Seconds);

    public void SetForMilliseconds() => SetFor(SetOptions.Milliseconds);

    public void GetAndSet()
    {
        if (!keys.Fits(request[1], request.LengthOf(2))) return;
        keys.ReplyWithValue(request[1], out _);
        keys.Put(request[1], request[2], 0);
    }

    public void GetAndDelete()
    {
        if (keys.ReplyWithValue(request[1], out _)) keys.Drop(request[1]);
    }

    public void GetAndExpire()
    {
        if (!_options.TryRead(2, ofSet: false, out SetOptions options, out int time)) return;
        nint mark = replies.Mark;
        if (!keys.ReplyWithValue(request[1], out long expiryMs)) return;
        long at = 0;
        if (time != 0)
        {
            replies.Return(mark);
            if (!_options.TryExpiry(time, options, out at)) return;
            keys.ReplyWithValueAgain(request[1], out _);
            if ((options & (SetOptions.AtSecond | SetOptions.AtMillisecond)) != 0 && at <= request.NowMs)
            {
                keys.Drop(request[1]);
                return;
            }
        }
        else if ((options & SetOptions.Persist) == 0 || expiryMs == 0)
        {
            return;
        }

        if (keys.Load(request[1], out _)) keys.Put(request[1], keys.Value.Bytes, at);
    }

    public void GetMany()
    {
        replies.BeginArray(request.Count - 1);
        for (int i = 1; i < request.Count; i++) keys.ReplyWithValue(request[i], out _);
    }

    public void SetMany()
    {
        if (!MayPutMany()) return;
        PutMany();
        replies.Ok();
    }

    public void SetManyIfMissing()
    {
        if (!MayPutMany()) return;
        for (int i = 1; i < request.Count; i += 2)
        {
            if (!keys.Exists(request[i])) continue;
            replies.Integer(0);
            return;
        }

        PutMany();
        replies.Integer(1);
    }

    public void Append()
    {
        bool exists = keys.Load(request[1], out long expiryMs);
        int before = exists ? keys.Value.Bytes.Length : 0;
        if (!MayGrow(before, request.LengthOf(2)) || !keys.Fits(request[1], before + (long)request.LengthOf(2))) return;
        if (!exists) keys.Value.Resize(0);
        request[2].CopyTo(keys.Value.Resize(before + request.LengthOf(2))[before..]);
        keys.Put(request[1], keys.Value.Bytes, expiryMs);
        replies.Integer(keys.Value.Bytes.Length);
    }

    public void Length()
    {
        keys.Count(keys.Find(request[1], null, out _, out int length));
        replies.Integer(length);
    }

    public void GetRange()
    {
        if (!request.TryInteger(2, replies, out long start) || !request.TryInteger(3, replies, out long end)) return;
        bool isEmpty = start < 0 && end < 0 && start > end;
        if (!keys.Count(keys.Load(request[1], out _)) || isEmpty)
        {
            replies.Bulk(default(ReadOnlySpan<byte>));
            return;
        }

        ReadOnlySpan<byte> value = keys.Value.Bytes;
        if (start < 0) start = Math.Max(0, value.Length + start);
        if (end < 0) end = Math.Max(0, value.Length + end);
        end = Math.Min(end, value.Length - 1);
        replies.Bulk(start > end ? default : value[(int)start..((int)end + 1)]);
    }

    public void SetRange()
    {
        if (!request.TryInteger(2, replies, out long offset)) return;
        if (offset < 0)
        {
            replies.Error("ERR offset is out of range");
            return;
        }

        bool exists = keys.Load(request[1], out long expiryMs);
        int before = exists ? keys.Value.Bytes.Length : 0;
        int added = request.LengthOf(3);
        if (added == 0)
        {
            replies.Integer(before);
            return;
        }

        if (!MayGrow(offset, added) || !keys.Fits(request[1], Math.Max(before, offset + added))) return;
        if (!exists) keys.Value.Resize(0);
        request[3].CopyTo(keys.Value.Resize((int)Math.Max(before, offset + added))[(int)offset..]);
        keys.Put(request[1], keys.Value.Bytes, expiryMs);
        replies.Integer(keys.Value.Bytes.Length);
    }

    private void SetWithOptions()
    {
        if (!_options.TryRead(3, ofSet: true, out SetOptions options, out int time)) return;
        long expiryMs = 0;
        if ((time != 0 && !_options.TryExpiry(time, options, out expiryMs)) || !keys.Fits(request[1], request.LengthOf(2))) return;
        bool gets = (options & SetOptions.Get) != 0;
        bool exists = gets ? keys.ReplyWithValue(request[1], out long before) : keys.Find(request[1], null, out before, out _);
        if ((exists && (options & SetOptions.IfMissing) != 0) || (!exists && (options & SetOptions.IfThere) != 0))
        {
            if (!gets) replies.Null();
            return;
        }

        keys.Put(request[1], request[2], (options & SetOptions.KeepExpiry) != 0 ? before : expiryMs);
        if (!gets) replies.Ok();
    }

    // SETEX and PSETEX.
    private void SetFor(SetOptions unit)
    {
        if (!_options.TryExpiry(2, unit, out long expiryMs) || !keys.Fits(request[1], request.LengthOf(3))) return;
        keys.Put(request[1], request[3], expiryMs);
        replies.Ok();
    }

    // Redis's own limit, in its words.
    private bool MayGrow(long bytes, long added)
    {
        if (bytes <= RequestReader.BulkBytesMax - added) return true;
        replies.Error("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
        return false;
    }

    private bool MayPutMany()
    {
        if (request.Count % 2 == 0)
        {
            replies.Error($"ERR wrong number of arguments for '{request.Command.Name}' command");
            return false;
        }

        for (int i = 1; i < request.Count; i += 2) if (!keys.Fits(request[i], request.LengthOf(i + 1))) return false;
        return true;
    }

    private void PutMany()
    {
        for (int i = 1; i < request.Count; i += 2) keys.Put(request[i], request[i + 1], 0);
    }
}
