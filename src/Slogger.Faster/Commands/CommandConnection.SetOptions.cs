// The options of SET and GETEX.
namespace Slogger.Faster.Commands;

public sealed unsafe partial class CommandConnection
{
    [Flags]
    private enum SetOptions
    {
        None = 0,
        IfMissing = 1,
        IfThere = 2,
        Get = 4,
        KeepExpiry = 8,
        Persist = 16,
        Seconds = 32,
        Milliseconds = 64,
        AtSecond = 128,
        AtMillisecond = 256,
    }

    private const SetOptions Times = SetOptions.Seconds | SetOptions.Milliseconds | SetOptions.AtSecond | SetOptions.AtMillisecond;

    private void SetWithOptions()
    {
        if (!ReadSetOptions(3, ofSet: true, out SetOptions options, out int time)) return;
        long expiryMs = 0;
        if ((time != 0 && !TryExpiry(time, options, out expiryMs)) || !Fits(ArgumentAt(1), LengthOf(2))) return;
        bool gets = (options & SetOptions.Get) != 0;
        bool exists = gets ? ReplyWithValue(ArgumentAt(1), out long before) : Find(ArgumentAt(1), null, out before, out _);
        if ((exists && (options & SetOptions.IfMissing) != 0) || (!exists && (options & SetOptions.IfThere) != 0))
        {
            if (!gets) Null();
            return;
        }

        Put(ArgumentAt(1), ArgumentAt(2), (options & SetOptions.KeepExpiry) != 0 ? before : expiryMs);
        if (!gets) Ok();
    }

    // SETEX and PSETEX.
    private void SetFor(SetOptions unit)
    {
        if (!TryExpiry(2, unit, out long expiryMs) || !Fits(ArgumentAt(1), LengthOf(3))) return;
        Put(ArgumentAt(1), ArgumentAt(3), expiryMs);
        Ok();
    }

    // time: which argument is the expiry; 0: none.
    private bool ReadSetOptions(int first, bool ofSet, out SetOptions options, out int time)
    {
        (options, time) = (SetOptions.None, 0);
        for (int i = first; i < _count; i++)
        {
            SetOptions option = OptionAt(i, ofSet);
            SetOptions excluded = option switch
            {
                SetOptions.IfMissing => SetOptions.IfThere,
                SetOptions.IfThere => SetOptions.IfMissing,
                SetOptions.KeepExpiry => SetOptions.Persist | Times,
                SetOptions.Persist => SetOptions.KeepExpiry | Times,
                SetOptions.Get => SetOptions.None,
                _ => (SetOptions.KeepExpiry | SetOptions.Persist | Times) & ~option,
            };
            bool isTime = (option & Times) != 0;
            if (option == SetOptions.None || (options & excluded) != 0 || (isTime && i == _count - 1))
            {
                Error(SyntaxError);
                return false;
            }

            options |= option;
            if (isTime) time = ++i;
        }

        return true;
    }

    private SetOptions OptionAt(int index, bool ofSet)
    {
        if (IsArgument(index, "ex"u8)) return SetOptions.Seconds;
        if (IsArgument(index, "px"u8)) return SetOptions.Milliseconds;
        if (IsArgument(index, "exat"u8)) return SetOptions.AtSecond;
        if (IsArgument(index, "pxat"u8)) return SetOptions.AtMillisecond;
        if (!ofSet) return IsArgument(index, "persist"u8) ? SetOptions.Persist : SetOptions.None;
        if (IsArgument(index, "nx"u8)) return SetOptions.IfMissing;
        if (IsArgument(index, "xx"u8)) return SetOptions.IfThere;
        if (IsArgument(index, "get"u8)) return SetOptions.Get;
        return IsArgument(index, "keepttl"u8) ? SetOptions.KeepExpiry : SetOptions.None;
    }

    // An expiry that must not be past.
    private bool TryExpiry(int argument, SetOptions unit, out long expiryMs)
    {
        if (!TryInteger(argument, out expiryMs)) return false;
        bool isSeconds = (unit & (SetOptions.Seconds | SetOptions.AtSecond)) != 0, isRelative = (unit & (SetOptions.Seconds | SetOptions.Milliseconds)) != 0;
        if (expiryMs > 0 && !(isSeconds && expiryMs > long.MaxValue / 1000))
        {
            if (isSeconds) expiryMs *= 1000;
            if (isRelative) expiryMs = unchecked(expiryMs + _now);
            if (expiryMs is > 0 and <= CommandEngine.ExpiryMsMax) return true;
        }

        Error($"ERR invalid expire time in '{_command.Name}' command");
        return false;
    }
}
