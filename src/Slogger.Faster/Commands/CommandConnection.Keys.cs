// Commands on keys, and on all of them.
using System.Buffers.Text;
using Slogger.Faster.Keys;

namespace Slogger.Faster.Commands;

public sealed unsafe partial class CommandConnection
{
    private const int KeysAtOnce = 512;
    private readonly KeyList _keys = new();

    internal void Delete()
    {
        int deleted = 0;
        for (int i = 1; i < _count; i++)
        {
            if (!Exists(ArgumentAt(i))) continue;
            Drop(ArgumentAt(i));
            deleted++;
        }

        Integer(deleted);
    }

    internal void Exists()
    {
        int found = 0;
        for (int i = 1; i < _count; i++) if (Count(Exists(ArgumentAt(i)))) found++;
        Integer(found);
    }

    internal void TypeOf() => _replies.Raw(Count(Exists(ArgumentAt(1))) ? "+string\r\n"u8 : "+none\r\n"u8);

    internal void Rename() => Rename(onlyIfMissing: false);

    internal void RenameIfMissing() => Rename(onlyIfMissing: true);

    internal void Copy()
    {
        bool replaces = false;
        for (int i = 3; i < _count; i++)
        {
            if (IsArgument(i, "replace"u8))
            {
                replaces = true;
            }
            else if (IsArgument(i, "db"u8) && i + 1 < _count)
            {
                if (!TryDatabase(++i)) return;
            }
            else
            {
                Error(SyntaxError);
                return;
            }
        }

        if (ArgumentAt(1).SequenceEqual(ArgumentAt(2)))
        {
            Error("ERR source and destination objects are the same");
            return;
        }

        bool copies = Count(Load(ArgumentAt(1), out long expiryMs)) && (replaces || !Exists(ArgumentAt(2)));
        if (copies && !Fits(ArgumentAt(2), _value.Bytes.Length)) return;
        if (copies) Put(ArgumentAt(2), _value.Bytes, expiryMs);
        Integer(copies ? 1 : 0);
    }

    // Not those of the list: a rollback's purge has yet to bring some back there, and they count at once.
    internal void CountKeys() => Integer(_engine.Store.KeyCount);

    internal void RandomKey()
    {
        // Somewhere, and from there the first that has not expired.
        ulong start = (ulong)Random.Shared.NextInt64((long)KeyDirectory.End), place = start;
        for (bool wrapped = false; ;)
        {
            _keys.Clear();
            place = _engine.Keys.Read(place, 16, 1024, expiringOnly: false, _keys);
            int first = _keys.Count == 0 ? 0 : Random.Shared.Next(_keys.Count);
            for (int i = 0; i < _keys.Count; i++)
            {
                ReadOnlySpan<byte> key = _keys[(first + i) % _keys.Count];
                if (!Exists(key)) continue;
                Bulk(key);
                return;
            }

            if (wrapped && place >= start) break;
            if (place >= KeyDirectory.End) (place, wrapped) = (0, true);
        }

        Null();
    }

    internal void FindKeys()
    {
        ReadOnlySpan<byte> pattern = ArgumentAt(1);
        bool all = pattern is [(byte)'*'];
        var found = new KeyList();
        for (ulong place = 0; place < KeyDirectory.End;)
        {
            _keys.Clear();
            place = _engine.Keys.Read(place, KeysAtOnce, int.MaxValue, expiringOnly: false, _keys);
            for (int i = 0; i < _keys.Count; i++) if ((all || Glob.IsMatch(pattern, _keys[i])) && IsThere(_keys[i])) found.Add(_keys[i]);
        }

        BeginArray(found.Count);
        for (int i = 0; i < found.Count; i++) Bulk(found[i]);
    }

    internal void Scan()
    {
        if (!TryCursor(ArgumentAt(1), out ulong cursor))
        {
            Error("ERR invalid cursor");
            return;
        }

        long wanted = 10;
        ReadOnlySpan<byte> pattern = default;
        bool matches = false, ofOtherType = false;
        for (int i = 2; i < _count; i += 2)
        {
            bool hasValue = i + 1 < _count;
            if (hasValue && IsArgument(i, "count"u8))
            {
                if (!TryInteger(i + 1, out wanted)) return;
                if (wanted < 1) hasValue = false;
            }
            else if (hasValue && IsArgument(i, "match"u8))
            {
                pattern = ArgumentAt(i + 1);
                matches = pattern is not [(byte)'*'];
            }
            else if (hasValue && IsArgument(i, "type"u8))
            {
                ofOtherType = !IsArgument(i + 1, "string"u8);
            }
            else
            {
                hasValue = false;
            }

            if (hasValue) continue;
            Error(SyntaxError);
            return;
        }

        int looksMax = (int)Math.Min(wanted, int.MaxValue / 10) * 10;
        _keys.Clear();
        ulong place = _engine.Keys.Read(cursor, (int)Math.Min(wanted, int.MaxValue / 2), looksMax, expiringOnly: false, _keys);
        var found = new KeyList();
        for (int i = 0; i < _keys.Count; i++) if ((!matches || Glob.IsMatch(pattern, _keys[i])) && Exists(_keys[i]) && !ofOtherType) found.Add(_keys[i]);
        BeginArray(2);
        Span<byte> digits = stackalloc byte[20];
        _ = Utf8Formatter.TryFormat(place >= KeyDirectory.End ? 0 : place, digits, out int length);
        Bulk(digits[..length]);
        BeginArray(found.Count);
        for (int i = 0; i < found.Count; i++) Bulk(found[i]);
    }

    // All locks are held.
    internal void Flush()
    {
        if (_count > 2 || (_count == 2 && !IsArgument(1, "sync"u8) && !IsArgument(1, "async"u8)))
        {
            Error(SyntaxError);
            return;
        }

        // Each key's removal is a record.
        if (!_engine.Store.HasRoomForRemovals(_engine.Keys.Bytes, _engine.Keys.Count, _engine.Keys.LengthMax))
        {
            RejectForMemory();
            return;
        }

        for (ulong place = 0; place < KeyDirectory.End;)
        {
            _keys.Clear();
            place = _engine.Keys.Read(place, KeysAtOnce, int.MaxValue, expiringOnly: false, _keys);
            for (int i = 0; i < _keys.Count; i++) if (_worker.TryRead(_keys[i], null, out _, out _)) Drop(_keys[i]);
        }

        Ok();
    }

    private void Rename(bool onlyIfMissing)
    {
        bool isSame = ArgumentAt(1).SequenceEqual(ArgumentAt(2));
        if (!Load(ArgumentAt(1), out long expiryMs))
        {
            Error("ERR no such key");
            return;
        }

        if (isSame || (onlyIfMissing && Exists(ArgumentAt(2))))
        {
            if (onlyIfMissing) Integer(0);
            else Ok();
            return;
        }

        if (!Fits(ArgumentAt(2), _value.Bytes.Length)) return;
        Put(ArgumentAt(2), _value.Bytes, expiryMs);
        Drop(ArgumentAt(1));
        if (onlyIfMissing) Integer(1);
        else Ok();
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
