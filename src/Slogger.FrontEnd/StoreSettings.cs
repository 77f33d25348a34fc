// Settings of Redis that the front end applies itself. "timeout" closes clients that are idle: it is applied here to clients that have no
// connection of their own, and kept away from the connection that they share. The settings are learnt when a shared upstream is made, from
// each CONFIG SET that passes, and at a slow pace, since they may be changed at Redis directly.
using System.Globalization;
using System.Text;

namespace Slogger.FrontEnd;

/// <summary>Settings of Redis that the front end must know. The loop's thread.</summary>
internal sealed class StoreSettings(FrontEndLoop loop)
{
    private const long IntervalMicroseconds = 30_000_000;
    private const long KeepAliveMicroseconds = 300_000;
    private long _next = long.MaxValue;

    /// <summary>After how long without a request a client is closed; 0 for never. Unit: seconds.</summary>
    public long IdleTimeoutSeconds { get; private set; }

    /// <summary>How many entries Redis's slow log can hold; unknown at first.</summary>
    public long SlowLogMaxEntries { get; private set; } = long.MaxValue;

    /// <summary>Asks for the settings.</summary>
    public void Learn()
    {
        _next = loop.Now + IntervalMicroseconds;
        if (loop.Shared is not { IsClosed: false } shared) { return; }
        loop.CountInternal("config|get");
        shared.Write(InternalRequest.Settings);
        shared.Expect(null, 1, ReplyKind.Settings);
        loop.Catalog.CheckCount(shared);
    }

    /// <summary>An array (or a map) of names and values, or an error if the proxy may not know.</summary>
    public void OnReply(ReadOnlySpan<byte> reply)
    {
        if (reply[0] == (byte)'-') { return; }
        string[] lines = Encoding.Latin1.GetString(reply).Split("\r\n");
        for (int i = 2; i + 2 < lines.Length; i += 4) { OnSetting(lines[i], lines[i + 2]); }
    }

    /// <summary>Redis has a setting of this value now.</summary>
    public void OnSetting(string name, string value)
    {
        if (!long.TryParse(value, NumberStyles.None, CultureInfo.InvariantCulture, out long number)) { return; }
        if (name.Equals("timeout", StringComparison.OrdinalIgnoreCase)) { IdleTimeoutSeconds = number; }
        if (name.Equals("slowlog-max-len", StringComparison.OrdinalIgnoreCase)) { SlowLogMaxEntries = number; }
    }

    /// <summary>Asks again when it is time, and keeps Redis from closing the shared upstream.</summary>
    public void Housekeeping()
    {
        if (loop.Now >= _next) { Learn(); }
        if (IdleTimeoutSeconds == 0 || loop.Shared is not { InFlight: 0 } shared || !loop.Sharing.IsReady) { return; }
        if (loop.Now - shared.LastUsedMicroseconds < KeepAliveMicroseconds) { return; }
        loop.CountInternal("client|no-evict");
        shared.Write(InternalRequest.NoEvict);
        shared.Expect(null, 1, ReplyKind.Dropped);
        shared.LastUsedMicroseconds = loop.Now;
    }

    /// <summary>Whether Redis will not close an idle connection soon.</summary>
    public bool IsFresh(Upstream idle) =>
        IdleTimeoutSeconds == 0 || loop.Now - idle.LastUsedMicroseconds < IdleTimeoutSeconds * 500_000;
}
