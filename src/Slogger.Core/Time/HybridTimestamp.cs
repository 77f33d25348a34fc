// 64 bits: microseconds since the Unix epoch above, a counter below, so that timestamps compare as numbers and causality
// that passes within one microsecond still has room.
namespace Slogger.Core.Time;

/// <summary>A hybrid logical timestamp: microseconds since 1970-01-01 UTC in the upper 52 bits, a counter in the lower
/// 12. Source: Retroscope, section 3.1 (HLC).</summary>
public readonly record struct HybridTimestamp(ulong Bits) : IComparable<HybridTimestamp>
{
    /// <summary>How many low bits the counter has.</summary>
    public const int CounterBits = 12;

    /// <summary>The largest counter within one microsecond.</summary>
    public const int CounterMax = (1 << CounterBits) - 1;

    /// <summary>Microseconds since the Unix epoch.</summary>
    public long Microseconds => (long)(Bits >> CounterBits);

    /// <summary>The logical part.</summary>
    public int Counter => (int)(Bits & CounterMax);

    /// <summary>Makes a timestamp of its two parts.</summary>
    /// <exception cref="ArgumentOutOfRangeException">A part is negative or too large.</exception>
    public static HybridTimestamp Of(long microseconds, int counter)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(microseconds);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(microseconds, (long)(ulong.MaxValue >> CounterBits));
        ArgumentOutOfRangeException.ThrowIfNegative(counter);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(counter, CounterMax);
        return new(((ulong)microseconds << CounterBits) | (uint)counter);
    }

    /// <inheritdoc />
    public int CompareTo(HybridTimestamp other) => Bits.CompareTo(other.Bits);

    /// <summary>Whether the first is before.</summary>
    public static bool operator <(HybridTimestamp a, HybridTimestamp b) => a.Bits < b.Bits;

    /// <summary>Whether the first is after.</summary>
    public static bool operator >(HybridTimestamp a, HybridTimestamp b) => a.Bits > b.Bits;

    /// <summary>Whether the first is before, or the same.</summary>
    public static bool operator <=(HybridTimestamp a, HybridTimestamp b) => a.Bits <= b.Bits;

    /// <summary>Whether the first is after, or the same.</summary>
    public static bool operator >=(HybridTimestamp a, HybridTimestamp b) => a.Bits >= b.Bits;

    /// <inheritdoc />
    public override string ToString() =>
        string.Create(System.Globalization.CultureInfo.InvariantCulture, $"{Microseconds}us+{Counter}");
}
