// Commands on when keys expire.
namespace Slogger.Faster.Commands;

/// <summary>Commands on expiries.</summary>
internal sealed class ExpiryCommands(Request request, Replies replies, Keyspace keys)
{
    public void ExpireInSeconds() => Expire(request.NowMs, 1000);

    public void ExpireInMilliseconds() => Expire(request.NowMs, 1);

    public void ExpireAtSecond() => Expire(0, 1000);

    public void ExpireAtMillisecond() => Expire(0, 1);

    public void SecondsLeft() => ReplyWithExpiry(since: true, 1000);

    public void MillisecondsLeft() => ReplyWithExpiry(since: true, 1);

    public void ExpirySecond() => ReplyWithExpiry(since: false, 1000);

    public void ExpiryMillisecond() => ReplyWithExpiry(since: false, 1);

    public void Persist()
    {
        bool expires = keys.Load(request[1], out long expiryMs) && expiryMs != 0;
        if (expires) keys.Put(request[1], keys.Value.Bytes, 0);
        replies.Integer(expires ? 1 : 0);
    }

    private void ReplyWithExpiry(bool since, int unitMs)
    {
        if (!keys.Count(keys.Find(request[1], null, out long expiryMs, out _))) replies.Integer(-2);
        else if (expiryMs == 0) replies.Integer(-1);
        else
        {
            long left = since ? Math.Max(0, expiryMs - request.NowMs) : expiryMs;
            replies.Integer(unitMs == 1 ? left : (left + (unitMs / 2)) / unitMs);
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
        if (!ReadExpireOptions(out ExpireOptions options) || !request.TryInteger(2, replies, out long when)) return;
        bool overflows = unitMs > 1 && (when > long.MaxValue / unitMs || when < long.MinValue / unitMs);
        if (overflows || when * unitMs > CommandEngine.ExpiryMsMax - sinceMs)
        {
            replies.Error(ErrorText.InvalidExpiry(request.Command));
            return;
        }

        long expiryMs = (when * unitMs) + sinceMs;
        if (!keys.Load(request[1], out long before) || !Allows(options, before, expiryMs))
        {
            replies.Integer(0);
            return;
        }

        if (expiryMs <= request.NowMs) keys.Drop(request[1]);
        else keys.Put(request[1], keys.Value.Bytes, expiryMs);
        replies.Integer(1);
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
        for (int i = 3; i < request.Count; i++)
        {
            ExpireOptions option = request.Is(i, "nx"u8) ? ExpireOptions.IfNone : request.Is(i, "xx"u8) ? ExpireOptions.IfAny
                : request.Is(i, "gt"u8) ? ExpireOptions.IfLater : request.Is(i, "lt"u8) ? ExpireOptions.IfEarlier : ExpireOptions.None;
            if (option == ExpireOptions.None)
            {
                replies.Error($"ERR Unsupported option {Latin1.Text(request[i])}");
                return false;
            }

            options |= option;
        }

        const ExpireOptions Compared = ExpireOptions.IfLater | ExpireOptions.IfEarlier;
        string? clash = (options & ExpireOptions.IfNone) != 0 && options != ExpireOptions.IfNone
            ? "NX and XX, GT or LT options at the same time are not compatible"
            : (options & Compared) == Compared ? "GT and LT options at the same time are not compatible" : null;
        if (clash is not null) replies.Error($"ERR {clash}");
        return clash is null;
    }
}
