namespace Slogger.Core.Sessions;

/// <summary>The number of an operation within its session; the first is 1, and 0 means "none yet".</summary>
public readonly record struct SequenceNumber(long Number) : IComparable<SequenceNumber>
{
    /// <summary>Before the first operation.</summary>
    public static readonly SequenceNumber None = new(0);

    /// <inheritdoc />
    public int CompareTo(SequenceNumber other) => Number.CompareTo(other.Number);

    /// <summary>Whether the first is before.</summary>
    public static bool operator <(SequenceNumber a, SequenceNumber b) => a.Number < b.Number;

    /// <summary>Whether the first is after.</summary>
    public static bool operator >(SequenceNumber a, SequenceNumber b) => a.Number > b.Number;

    /// <summary>Whether the first is before, or the same.</summary>
    public static bool operator <=(SequenceNumber a, SequenceNumber b) => a.Number <= b.Number;

    /// <summary>Whether the first is after, or the same.</summary>
    public static bool operator >=(SequenceNumber a, SequenceNumber b) => a.Number >= b.Number;

    /// <inheritdoc />
    public override string ToString() => Number.ToString(System.Globalization.CultureInfo.InvariantCulture);
}
