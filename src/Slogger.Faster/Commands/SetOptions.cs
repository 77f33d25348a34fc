// The options of SET and GETEX.
namespace Slogger.Faster.Commands;

[Flags]
internal enum SetOptions
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

/// <summary>Reads them from the present request.</summary>
internal sealed class SetOptionReader(Request request, Replies replies)
{
    private const SetOptions Times = SetOptions.Seconds | SetOptions.Milliseconds | SetOptions.AtSecond | SetOptions.AtMillisecond;

    /// <summary>Reads the options. If they are none, that is the reply.</summary>
    /// <param name="first">Where they begin.</param>
    /// <param name="ofSet">Whether they are those of SET, not of GETEX.</param>
    /// <param name="options">Which they are.</param>
    /// <param name="time">Which argument is the expiry; 0: none.</param>
    public bool TryRead(int first, bool ofSet, out SetOptions options, out int time)
    {
        (options, time) = (SetOptions.None, 0);
        for (int i = first; i < request.Count; i++)
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
            if (option == SetOptions.None || (options & excluded) != 0 || (isTime && i == request.Count - 1))
            {
                replies.Error(ErrorText.Syntax);
                return false;
            }

            options |= option;
            if (isTime) time = ++i;
        }

        return true;
    }

    /// <summary>Reads an expiry that must not be past. If it is none, that is the reply.</summary>
    public bool TryExpiry(int argument, SetOptions unit, out long expiryMs)
    {
        if (!request.TryInteger(argument, replies, out expiryMs)) return false;
        bool isSeconds = (unit & (SetOptions.Seconds | SetOptions.AtSecond)) != 0;
        bool isRelative = (unit & (SetOptions.Seconds | SetOptions.Milliseconds)) != 0;
        if (expiryMs > 0 && !(isSeconds && expiryMs > long.MaxValue / 1000))
        {
            if (isSeconds) expiryMs *= 1000;
            if (isRelative) expiryMs = unchecked(expiryMs + request.NowMs);
            if (expiryMs is > 0 and <= CommandEngine.ExpiryMsMax) return true;
        }

        replies.Error(ErrorText.InvalidExpiry(request.Command));
        return false;
    }

    private SetOptions OptionAt(int index, bool ofSet)
    {
        if (request.Is(index, "ex"u8)) return SetOptions.Seconds;
        if (request.Is(index, "px"u8)) return SetOptions.Milliseconds;
        if (request.Is(index, "exat"u8)) return SetOptions.AtSecond;
        if (request.Is(index, "pxat"u8)) return SetOptions.AtMillisecond;
        if (!ofSet) return request.Is(index, "persist"u8) ? SetOptions.Persist : SetOptions.None;
        if (request.Is(index, "nx"u8)) return SetOptions.IfMissing;
        if (request.Is(index, "xx"u8)) return SetOptions.IfThere;
        if (request.Is(index, "get"u8)) return SetOptions.Get;
        return request.Is(index, "keepttl"u8) ? SetOptions.KeepExpiry : SetOptions.None;
    }
}
