namespace Slogger.Core.Sessions;

/// <summary>The number of an operation within its session; the first is 1, and 0 means "none yet".</summary>
public readonly record struct Sequence(long Number) : IComparable<Sequence>
{
    /// <summary>Before the first operation.</summary>
    public static readonly Sequence None = new(0);

    /// <inheritdoc />
    public int CompareTo(Sequence other) => Number.CompareTo(other.Number);

    /// <summary>Whether the first is before.</summary>
    public static bool operator <(Sequence a, Sequence b) => a.Number < b.Number;

    /// <summary>Whether the first is after.</summary>
    public static bool operator >(Sequence a, Sequence b) => a.Number > b.Number;

    /// <summary>Whether the first is before, or the same.</summary>
    public static bool operator <=(Sequence a, Sequence b) => a.Number <= b.Number;

    /// <summary>Whether the first is after, or the same.</summary>
    public static bool operator >=(Sequence a, Sequence b) => a.Number >= b.Number;

    /// <inheritdoc />
    public override string ToString() => Number.ToString(System.Globalization.CultureInfo.InvariantCulture);
}
