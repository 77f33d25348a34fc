// What one commit makes durable at one shard. Versions are slots of the cluster's clock grid (see VersionGrid), so the
// same number covers the same slice of time on every shard. Version 0 is "before anything": it is durable by definition.
namespace Slogger.Core.Versions;

/// <summary>A version of a shard: a slot of the clock grid. Unit: slots. Source: DPR, section 3.</summary>
public readonly record struct VersionNumber(long Number) : IComparable<VersionNumber>
{
    /// <summary>The version before any operation.</summary>
    public static readonly VersionNumber Zero = new(0);

    /// <summary>The version that follows this one.</summary>
    public VersionNumber Next => new(Number + 1);

    /// <summary>The version that precedes this one.</summary>
    public VersionNumber Previous => new(Number - 1);

    /// <inheritdoc />
    public int CompareTo(VersionNumber other) => Number.CompareTo(other.Number);

    /// <summary>The larger of two versions.</summary>
    public static VersionNumber Max(VersionNumber a, VersionNumber b) => a.Number >= b.Number ? a : b;

    /// <summary>The smaller of two versions.</summary>
    public static VersionNumber Min(VersionNumber a, VersionNumber b) => a.Number <= b.Number ? a : b;

    /// <summary>Whether the first is before.</summary>
    public static bool operator <(VersionNumber a, VersionNumber b) => a.Number < b.Number;

    /// <summary>Whether the first is after.</summary>
    public static bool operator >(VersionNumber a, VersionNumber b) => a.Number > b.Number;

    /// <summary>Whether the first is before, or the same.</summary>
    public static bool operator <=(VersionNumber a, VersionNumber b) => a.Number <= b.Number;

    /// <summary>Whether the first is after, or the same.</summary>
    public static bool operator >=(VersionNumber a, VersionNumber b) => a.Number >= b.Number;

    /// <inheritdoc />
    public override string ToString() => Number.ToString(System.Globalization.CultureInfo.InvariantCulture);
}
