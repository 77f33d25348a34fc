// Redis's setting "timeout", which closes clients that are idle: applied here to clients that have no connection of their
// own, and kept away from the connection that they share. The setting is learnt when a shared upstream is made, from
// each CONFIG SET that passes, and at a slow pace, since it may be changed at Redis directly.
using System.Globalization;
using System.Text;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class FrontEndLoop
{
    private const long SettingsIntervalMicroseconds = 30_000_000;
    private long _nextSettings = long.MaxValue;

    /// <summary>After how long without a request a client is closed; 0 for never. Unit: seconds.</summary>
    public long IdleTimeoutSeconds { get; set; }

    /// <summary>How many entries Redis's slow log can hold; unknown at first.</summary>
    public long SlowLogMaxEntries { get; set; } = long.MaxValue;

    /// <summary>Asks for the settings of Redis that concern the front end.</summary>
    public void LearnSettings()
    {
        _nextSettings = Now + SettingsIntervalMicroseconds;
        if (Shared is not { IsClosed: false } shared) { return; }
        CountInternal("config|get");
        shared.Write(InternalRequest.Settings);
        shared.Expect(null, 1, ReplyKind.Settings);
        if (_areCommandsKnown) { AskCommandCount(shared); }
    }

    /// <summary>An array (or a map) of names and values, or an error if the proxy may not know.</summary>
    public void OnSettings(ReadOnlySpan<byte> reply)
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

    private void SettingsHousekeeping()
    {
        ResumeQuiet();
        if (Now >= _nextSettings) { LearnSettings(); }
        if (IdleTimeoutSeconds == 0 || Shared is not { InFlight: 0 } shared || !_sharedReady) { return; }
        if (Now - shared.LastUsedMicroseconds < KeepAliveMicroseconds) { return; }
        CountInternal("client|no-evict");
        shared.Write(InternalRequest.NoEvict);
        shared.Expect(null, 1, ReplyKind.Dropped);
        shared.LastUsedMicroseconds = Now;
    }

    // A spare that Redis is about to close is of no use to anybody.
    private bool IsFresh(Upstream spare) =>
        IdleTimeoutSeconds == 0 || Now - spare.LastUsedMicroseconds < IdleTimeoutSeconds * 500_000;
}
