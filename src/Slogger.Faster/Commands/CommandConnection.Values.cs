// Commands on values as a whole.
namespace Slogger.Faster.Commands;

public sealed unsafe partial class CommandConnection
{
    internal void Get() => ReplyWithValue(ArgumentAt(1), out _);

    internal void Set()
    {
        if (_count > 3)
        {
            SetWithOptions();
            return;
        }

        if (!Fits(ArgumentAt(1), LengthOf(2))) return;
        Put(ArgumentAt(1), ArgumentAt(2), 0);
        Ok();
    }

    internal void SetIfMissing()
    {
        if (!Fits(ArgumentAt(1), LengthOf(2))) return;
        bool exists = Exists(ArgumentAt(1));
        if (!exists) Put(ArgumentAt(1), ArgumentAt(2), 0);
        Integer(exists ? 0 : 1);
    }

    internal void SetForSeconds() => SetFor(SetOptions.Seconds);

    internal void SetForMilliseconds() => SetFor(SetOptions.Milliseconds);

    internal void GetAndSet()
    {
        if (!Fits(ArgumentAt(1), LengthOf(2))) return;
        ReplyWithValue(ArgumentAt(1), out _);
        Put(ArgumentAt(1), ArgumentAt(2), 0);
    }

    internal void GetAndDelete()
    {
        if (ReplyWithValue(ArgumentAt(1), out _)) Drop(ArgumentAt(1));
    }

    internal void GetAndExpire()
    {
        if (!ReadSetOptions(2, ofSet: false, out SetOptions options, out int time)) return;
        nint mark = _replies.Mark;
        if (!ReplyWithValue(ArgumentAt(1), out long expiryMs)) return;
        long at = 0;
        if (time != 0)
        {
            _replies.Return(mark);
            if (!TryExpiry(time, options, out at)) return;
            ReplyWithValueAgain(ArgumentAt(1), out _);
            if ((options & (SetOptions.AtSecond | SetOptions.AtMillisecond)) != 0 && at <= _now)
            {
                Drop(ArgumentAt(1));
                return;
            }
        }
        else if ((options & SetOptions.Persist) == 0 || expiryMs == 0)
        {
            return;
        }

        if (Load(ArgumentAt(1), out _)) Put(ArgumentAt(1), _value.Bytes, at);
    }

    internal void GetMany()
    {
        BeginArray(_count - 1);
        for (int i = 1; i < _count; i++) ReplyWithValue(ArgumentAt(i), out _);
    }

    internal void SetMany()
    {
        if (!MayPutMany()) return;
        PutMany();
        Ok();
    }

    internal void SetManyIfMissing()
    {
        if (!MayPutMany()) return;
        for (int i = 1; i < _count; i += 2)
        {
            if (!Exists(ArgumentAt(i))) continue;
            Integer(0);
            return;
        }

        PutMany();
        Integer(1);
    }

    internal void Append()
    {
        bool exists = Load(ArgumentAt(1), out long expiryMs);
        int before = exists ? _value.Bytes.Length : 0;
        if (!MayGrow(before, LengthOf(2)) || !Fits(ArgumentAt(1), before + (long)LengthOf(2))) return;
        if (!exists) _value.Resize(0);
        ArgumentAt(2).CopyTo(_value.Resize(before + LengthOf(2))[before..]);
        Put(ArgumentAt(1), _value.Bytes, expiryMs);
        Integer(_value.Bytes.Length);
    }

    internal void Length()
    {
        Count(Find(ArgumentAt(1), null, out _, out int length));
        Integer(length);
    }

    internal void GetRange()
    {
        if (!TryInteger(2, out long start) || !TryInteger(3, out long end)) return;
        bool isEmpty = start < 0 && end < 0 && start > end;
        if (!Count(Load(ArgumentAt(1), out _)) || isEmpty)
        {
            Bulk(default(ReadOnlySpan<byte>));
            return;
        }

        ReadOnlySpan<byte> value = _value.Bytes;
        if (start < 0) start = Math.Max(0, value.Length + start);
        if (end < 0) end = Math.Max(0, value.Length + end);
        end = Math.Min(end, value.Length - 1);
        Bulk(start > end ? default : value[(int)start..((int)end + 1)]);
    }

    internal void SetRange()
    {
        if (!TryInteger(2, out long offset)) return;
        if (offset < 0)
        {
            Error("ERR offset is out of range");
            return;
        }

        bool exists = Load(ArgumentAt(1), out long expiryMs);
        int before = exists ? _value.Bytes.Length : 0;
        int added = LengthOf(3);
        if (added == 0)
        {
            Integer(before);
            return;
        }

        if (!MayGrow(offset, added) || !Fits(ArgumentAt(1), Math.Max(before, offset + added))) return;
        if (!exists) _value.Resize(0);
        ArgumentAt(3).CopyTo(_value.Resize((int)Math.Max(before, offset + added))[(int)offset..]);
        Put(ArgumentAt(1), _value.Bytes, expiryMs);
        Integer(_value.Bytes.Length);
    }

    // Redis's own limit, in its words.
    private bool MayGrow(long bytes, long added)
    {
        if (bytes <= BulkBytesMax - added) return true;
        Error("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
        return false;
    }

    private bool MayPutMany()
    {
        if (_count % 2 == 0)
        {
            Error($"ERR wrong number of arguments for '{_command.Name}' command");
            return false;
        }

        for (int i = 1; i < _count; i += 2) if (!Fits(ArgumentAt(i), LengthOf(i + 1))) return false;
        return true;
    }

    private void PutMany()
    {
        for (int i = 1; i < _count; i += 2) Put(ArgumentAt(i), ArgumentAt(i + 1), 0);
    }
}
