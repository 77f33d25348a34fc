// The serial number of a timeline. Every recovery starts a new one; nothing of an abandoned world-line is read,
// committed or shipped after its successor has started (invariant I5).
using Slogger.Core.Versions;

namespace Slogger.Core.WorldLines;

/// <summary>Serial number of a timeline; the first is 1. Source: DPR, section 4.2.</summary>
public readonly record struct WorldLine(long Number) : IComparable<WorldLine>
{
    /// <summary>The first world-line of a cluster.</summary>
    public static readonly WorldLine First = new(1);

    /// <summary>The world-line that a recovery of this one starts.</summary>
    public WorldLine Next => new(Number + 1);

    /// <inheritdoc />
    public int CompareTo(WorldLine other) => Number.CompareTo(other.Number);

    /// <summary>Whether the first is before.</summary>
    public static bool operator <(WorldLine a, WorldLine b) => a.Number < b.Number;

    /// <summary>Whether the first is after.</summary>
    public static bool operator >(WorldLine a, WorldLine b) => a.Number > b.Number;

    /// <summary>Whether the first is before, or the same.</summary>
    public static bool operator <=(WorldLine a, WorldLine b) => a.Number <= b.Number;

    /// <summary>Whether the first is after, or the same.</summary>
    public static bool operator >=(WorldLine a, WorldLine b) => a.Number >= b.Number;

    /// <inheritdoc />
    public override string ToString() => Number.ToString(System.Globalization.CultureInfo.InvariantCulture);
}

/// <summary>A point of history: a version of a world-line. Ordered by world-line first. Durable versions, cuts and
/// watermarks are always such pairs (invariant I5).</summary>
public readonly record struct WorldPoint(WorldLine WorldLine, VersionNumber Version) : IComparable<WorldPoint>
{
    /// <inheritdoc />
    public int CompareTo(WorldPoint other)
    {
        int byLine = WorldLine.CompareTo(other.WorldLine);
        return byLine != 0 ? byLine : Version.CompareTo(other.Version);
    }

    /// <summary>Whether the first is before.</summary>
    public static bool operator <(WorldPoint a, WorldPoint b) => a.CompareTo(b) < 0;

    /// <summary>Whether the first is after.</summary>
    public static bool operator >(WorldPoint a, WorldPoint b) => a.CompareTo(b) > 0;

    /// <summary>Whether the first is before, or the same.</summary>
    public static bool operator <=(WorldPoint a, WorldPoint b) => a.CompareTo(b) <= 0;

    /// <summary>Whether the first is after, or the same.</summary>
    public static bool operator >=(WorldPoint a, WorldPoint b) => a.CompareTo(b) >= 0;

    /// <inheritdoc />
    public override string ToString() => $"{WorldLine}:{Version}";
}
