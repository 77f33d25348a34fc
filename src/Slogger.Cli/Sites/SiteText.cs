// Times and phases, for people.
using System.Globalization;
using Slogger.Cli.Terminal;
using Slogger.Core.Time;
using Slogger.Core.WorldLines;
using Slogger.Sites.Shipping;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Cli.Sites;

internal static class SiteText
{
    /// <summary>When a version ended; null: unknown.</summary>
    public static DateTimeOffset? TimeOf(ulong bits) => bits == 0 ? null
        : DateTimeOffset.UnixEpoch.AddTicks(new HybridTimestamp(bits).Microseconds * TimeSpan.TicksPerMicrosecond);

    public static string Time(DateTimeOffset time) =>
        time.UtcDateTime.ToString("yyyy-MM-dd'T'HH:mm:ss.fff'Z'", CultureInfo.InvariantCulture);

    public static string Age(TimeSpan age) => age < TimeSpan.Zero ? "0 ms"
        : age.TotalSeconds < 10 ? string.Create(CultureInfo.InvariantCulture, $"{age.TotalMilliseconds:0} ms")
        : ConsoleText.Age((long)age.TotalSeconds);

    /// <summary>What lies between the last that is kept and the last that is known of the primary: as much would be lost.</summary>
    /// <param name="kept">When the last version that is kept ended at the primary.</param>
    /// <param name="known">When the last version that is known of ended there.</param>
    public static TimeSpan? Window(DateTimeOffset? kept, DateTimeOffset? known) =>
        kept is not { } from || known is not { } to ? null : to > from ? to - from : TimeSpan.Zero;

    public static string Ms(TimeSpan time) => string.Create(CultureInfo.InvariantCulture, $"{time.TotalMilliseconds:0.0} ms");

    public static WorldPoint Of(V1.WorldPoint? point) => point is null ? default : ShipWire.FromWire(point);

    public static string Version(WorldPoint? point) => point is { } at && at != default ? $"{at}" : "none";

    public static string Phase(V1.StreamStatus s) => s.Failure.Length > 0 ? "failed"
        : s.Refusal.Length > 0 ? "takes nothing" : s.Phase switch
    {
        V1.StreamPhase.Counts => "follows",
        V1.StreamPhase.Follows => "seeded, the watermark has not come there",
        _ => "being seeded",
    };
}
