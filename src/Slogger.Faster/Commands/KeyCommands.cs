// Commands on keys, and on all of them.
using System.Buffers.Text;
using Slogger.Faster.Keys;

namespace Slogger.Faster.Commands;

/// <summary>Commands on keys.</summary>
internal sealed class KeyCommands(Request request, Replies replies, Keyspace keys, CommandEngine engine)
{
    private const int KeysAtOnce = 512;
    private readonly KeyList _read = new();

    public void Delete()
    {
        int deleted = 0;
        for (int i = 1; i < request.Count; i++)
        {
            if (!keys.Exists(request[i])) continue;
            keys.Drop(request[i]);
            deleted++;
        }

        replies.Integer(deleted);
    }

    public void Exists()
    {
        int found = 0;
        for (int i = 1; i < request.Count; i++) if (keys.Count(keys.Exists(request[i]))) found++;
        replies.Integer(found);
    }

    public void TypeOf() => replies.Raw(keys.Count(keys.Exists(request[1])) ? "+string\r\n"u8 : "+none\r\n"u8);

    public void Rename() => Rename(onlyIfMissing: false);

    public void RenameIfMissing() => Rename(onlyIfMissing: true);

    public void Copy()
    {
        bool replaces = false;
        for (int i = 3; i < request.Count; i++)
        {
            if (request.Is(i, "replace"u8))
            {
                replaces = true;
            }
            else if (request.Is(i, "db"u8) && i + 1 < request.Count)
            {
                if (!request.TryDatabase(++i, replies)) return;
            }
            else
            {
                replies.Error(ErrorText.Syntax);
                return;
            }
        }

        if (request[1].SequenceEqual(request[2]))
        {
            replies.Error("ERR source and destination objects are the same");
            return;
        }

        bool copies = keys.Count(keys.Load(request[1], out long expiryMs)) && (replaces || !keys.Exists(request[2]));
        if (copies && !keys.Fits(request[2], keys.Value.Bytes.Length)) return;
        if (copies) keys.Put(request[2], keys.Value.Bytes, expiryMs);
        replies.Integer(copies ? 1 : 0);
    }

    // Not those of the list: a rollback's purge has yet to bring some back there, and they count at once.
    public void CountKeys() => replies.Integer(engine.Store.KeyCount);

    public void RandomKey()
    {
        // Somewhere, and from there the first that has not expired.
        ulong start = (ulong)Random.Shared.NextInt64((long)KeyDirectory.End), place = start;
        for (bool wrapped = false; ;)
        {
            _read.Clear();
            place = engine.Keys.Read(place, 16, 1024, expiringOnly: false, _read);
            int first = _read.Count == 0 ? 0 : Random.Shared.Next(_read.Count);
            for (int i = 0; i < _read.Count; i++)
            {
                ReadOnlySpan<byte> key = _read[(first + i) % _read.Count];
                if (!keys.Exists(key)) continue;
                replies.Bulk(key);
                return;
            }

            if (wrapped && place >= start) break;
            if (place >= KeyDirectory.End) (place, wrapped) = (0, true);
        }

        replies.Null();
    }

    public void FindKeys()
    {
        ReadOnlySpan<byte> pattern = request[1];
        bool all = pattern is [(byte)'*'];
        var found = new KeyList();
        for (ulong place = 0; place < KeyDirectory.End;)
        {
            _read.Clear();
            place = engine.Keys.Read(place, KeysAtOnce, int.MaxValue, expiringOnly: false, _read);
            for (int i = 0; i < _read.Count; i++)
            {
                if ((all || Glob.IsMatch(pattern, _read[i])) && keys.IsThere(_read[i])) found.Add(_read[i]);
            }
        }

        replies.BeginArray(found.Count);
        for (int i = 0; i < found.Count; i++) replies.Bulk(found[i]);
    }

    public void Scan()
    {
        if (!TryCursor(request[1], out ulong cursor))
        {
            replies.Error("ERR invalid cursor");
            return;
        }

        long wanted = 10;
        ReadOnlySpan<byte> pattern = default;
        bool matches = false, ofOtherType = false;
        for (int i = 2; i < request.Count; i += 2)
        {
            bool hasValue = i + 1 < request.Count;
            if (hasValue && request.Is(i, "count"u8))
            {
                if (!request.TryInteger(i + 1, replies, out wanted)) return;
                if (wanted < 1) hasValue = false;
            }
            else if (hasValue && request.Is(i, "match"u8))
            {
                pattern = request[i + 1];
                matches = pattern is not [(byte)'*'];
            }
            else if (hasValue && request.Is(i, "type"u8))
            {
                ofOtherType = !request.Is(i + 1, "string"u8);
            }
            else
            {
                hasValue = false;
            }

            if (hasValue) continue;
            replies.Error(ErrorText.Syntax);
            return;
        }

        int looksMax = (int)Math.Min(wanted, int.MaxValue / 10) * 10;
        _read.Clear();
        ulong place = engine.Keys.Read(cursor, (int)Math.Min(wanted, int.MaxValue / 2), looksMax, expiringOnly: false, _read);
        var found = new KeyList();
        for (int i = 0; i < _read.Count; i++)
        {
            if ((!matches || Glob.IsMatch(pattern, _read[i])) && keys.Exists(_read[i]) && !ofOtherType) found.Add(_read[i]);
        }

        replies.BeginArray(2);
        Span<byte> digits = stackalloc byte[20];
        _ = Utf8Formatter.TryFormat(place >= KeyDirectory.End ? 0 : place, digits, out int length);
        replies.Bulk(digits[..length]);
        replies.BeginArray(found.Count);
        for (int i = 0; i < found.Count; i++) replies.Bulk(found[i]);
    }

    // All locks are held.
    public void Flush()
    {
        if (request.Count > 2 || (request.Count == 2 && !request.Is(1, "sync"u8) && !request.Is(1, "async"u8)))
        {
            replies.Error(ErrorText.Syntax);
            return;
        }

        // Each key's removal is a record.
        if (!engine.Store.Space.HasRoomForRemovals(engine.Keys.Bytes, engine.Keys.Count, engine.Keys.LengthMax))
        {
            replies.Error(ErrorText.OutOfMemory);
            return;
        }

        for (ulong place = 0; place < KeyDirectory.End;)
        {
            _read.Clear();
            place = engine.Keys.Read(place, KeysAtOnce, int.MaxValue, expiringOnly: false, _read);
            for (int i = 0; i < _read.Count; i++) if (keys.HasRecord(_read[i], out _, out _)) keys.Drop(_read[i]);
        }

        replies.Ok();
    }

    private void Rename(bool onlyIfMissing)
    {
        bool isSame = request[1].SequenceEqual(request[2]);
        if (!keys.Load(request[1], out long expiryMs))
        {
            replies.Error("ERR no such key");
            return;
        }

        if (isSame || (onlyIfMissing && keys.Exists(request[2])))
        {
            if (onlyIfMissing) replies.Integer(0);
            else replies.Ok();
            return;
        }

        if (!keys.Fits(request[2], keys.Value.Bytes.Length)) return;
        keys.Put(request[2], keys.Value.Bytes, expiryMs);
        keys.Drop(request[1]);
        if (onlyIfMissing) replies.Integer(1);
        else replies.Ok();
    }

    // As C's strtoul reads it: up to a zero byte.
    private static bool TryCursor(ReadOnlySpan<byte> text, out ulong cursor)
    {
        cursor = 0;
        int zero = text.IndexOf((byte)0);
        if (zero >= 0) text = text[..zero];
        bool isNegative = text is [(byte)'-', ..];
        ReadOnlySpan<byte> digits = text is [(byte)'-' or (byte)'+', ..] ? text[1..] : text;
        if (digits.IsEmpty) return text.IsEmpty;
        foreach (byte b in digits)
        {
            uint digit = (uint)(b - '0');
            if (digit > 9 || cursor > (ulong.MaxValue - digit) / 10) return false;
            cursor = (cursor * 10) + digit;
        }

        if (isNegative) cursor = 0 - cursor;
        return true;
    }
}
