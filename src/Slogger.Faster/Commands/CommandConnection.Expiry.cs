// Commands on when keys expire.
namespace Slogger.Faster.Commands;

public sealed unsafe partial class CommandConnection
{
    internal void ExpireInSeconds() => Expire(_now, 1000);

    internal void ExpireInMilliseconds() => Expire(_now, 1);

    internal void ExpireAtSecond() => Expire(0, 1000);

    internal void ExpireAtMillisecond() => Expire(0, 1);

    internal void SecondsLeft() => ReplyWithExpiry(since: true, 1000);

    internal void MillisecondsLeft() => ReplyWithExpiry(since: true, 1);

    internal void ExpirySecond() => ReplyWithExpiry(since: false, 1000);

    internal void ExpiryMillisecond() => ReplyWithExpiry(since: false, 1);

    internal void Persist()
    {
        bool expires = Load(ArgumentAt(1), out long expiryMs) && expiryMs != 0;
        if (expires) Put(ArgumentAt(1), _value.Bytes, 0);
        Integer(expires ? 1 : 0);
    }

    private void ReplyWithExpiry(bool since, int unitMs)
    {
        if (!Count(Find(ArgumentAt(1), null, out long expiryMs, out _))) Integer(-2);
        else if (expiryMs == 0) Integer(-1);
        else
        {
            long left = since ? Math.Max(0, expiryMs - _now) : expiryMs;
            Integer(unitMs == 1 ? left : (left + (unitMs / 2)) / unitMs);
        }
    }

    [Flags]
    private enum ExpireOptions
    {
        None = 0,
        IfNone = 1,
        IfAny = 2,
        IfLater = 4,
        IfEarlier = 8,
    }

    private void Expire(long sinceMs, int unitMs)
    {
        if (!ReadExpireOptions(out ExpireOptions options) || !TryInteger(2, out long when)) return;
        if ((unitMs > 1 && (when > long.MaxValue / unitMs || when < long.MinValue / unitMs)) || when * unitMs > CommandEngine.ExpiryMsMax - sinceMs)
        {
            Error($"ERR invalid expire time in '{_command.Name}' command");
            return;
        }

        long expiryMs = (when * unitMs) + sinceMs;
        if (!Load(ArgumentAt(1), out long before) || !Allows(options, before, expiryMs))
        {
            Integer(0);
            return;
        }

        if (expiryMs <= _now) Drop(ArgumentAt(1));
        else Put(ArgumentAt(1), _value.Bytes, expiryMs);
        Integer(1);
    }

    // A key that never expires does so later than any that does.
    private static bool Allows(ExpireOptions options, long before, long after)
    {
        if ((options & ExpireOptions.IfNone) != 0 && before != 0) return false;
        if ((options & ExpireOptions.IfAny) != 0 && before == 0) return false;
        if ((options & ExpireOptions.IfLater) != 0 && (before == 0 || after <= before)) return false;
        return (options & ExpireOptions.IfEarlier) == 0 || before == 0 || after < before;
    }

    private bool ReadExpireOptions(out ExpireOptions options)
    {
        options = ExpireOptions.None;
        for (int i = 3; i < _count; i++)
        {
            ExpireOptions option = IsArgument(i, "nx"u8) ? ExpireOptions.IfNone : IsArgument(i, "xx"u8) ? ExpireOptions.IfAny
                : IsArgument(i, "gt"u8) ? ExpireOptions.IfLater : IsArgument(i, "lt"u8) ? ExpireOptions.IfEarlier : ExpireOptions.None;
            if (option == ExpireOptions.None)
            {
                Error($"ERR Unsupported option {Text(ArgumentAt(i))}");
                return false;
            }

            options |= option;
        }

        const ExpireOptions Compared = ExpireOptions.IfLater | ExpireOptions.IfEarlier;
        string? clash = (options & ExpireOptions.IfNone) != 0 && options != ExpireOptions.IfNone ? "NX and XX, GT or LT options at the same time are not compatible"
            : (options & Compared) == Compared ? "GT and LT options at the same time are not compatible" : null;
        if (clash is not null) Error($"ERR {clash}");
        return clash is null;
    }
}
