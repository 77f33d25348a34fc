// Which site of a pair leads. The sites share nothing but what they tell each other, so who may speak is said by a number: each failover or
// switch-over takes the next one, in the SQL of the site that becomes the primary. It is in every message; an older one is refused, and
// whoever hears a higher one than his own is deposed. World-lines carry it too: those of two sites are never the same.
using Slogger.Core.WorldLines;

namespace Slogger.Core.Identities;

/// <summary>The number of a site's rule over the pair. The first primary's is 0.</summary>
public readonly record struct SiteEpoch(long Number) : IComparable<SiteEpoch>
{
    private const int SerialBits = 32;

    /// <summary>That of a cluster that no other site has ever taken over from.</summary>
    public static readonly SiteEpoch First = new(0);

    /// <summary>The one that the next failover takes.</summary>
    public SiteEpoch Next => new(Number + 1);

    /// <summary>The world-line that begins with it: above all of those before. Its successors count on
    /// (<see cref="WorldLine.Next"/>).</summary>
    public WorldLine FirstWorldLine => new((Number << SerialBits) + 1);

    /// <summary>Under which a world-line began.</summary>
    public static SiteEpoch Of(WorldLine worldLine) => new(worldLine.Number >> SerialBits);

    /// <inheritdoc />
    public int CompareTo(SiteEpoch other) => Number.CompareTo(other.Number);

    /// <summary>Whether the first is before.</summary>
    public static bool operator <(SiteEpoch a, SiteEpoch b) => a.Number < b.Number;

    /// <summary>Whether the first is after.</summary>
    public static bool operator >(SiteEpoch a, SiteEpoch b) => a.Number > b.Number;

    /// <summary>Whether the first is before, or the same.</summary>
    public static bool operator <=(SiteEpoch a, SiteEpoch b) => a.Number <= b.Number;

    /// <summary>Whether the first is after, or the same.</summary>
    public static bool operator >=(SiteEpoch a, SiteEpoch b) => a.Number >= b.Number;

    /// <inheritdoc />
    public override string ToString() => Number.ToString(System.Globalization.CultureInfo.InvariantCulture);
}
