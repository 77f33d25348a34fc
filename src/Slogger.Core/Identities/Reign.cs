// Which node leads a shard's cohort. A reign has one leader: a majority of the cohort's nodes has promised it, durably, and each promises a
// reign to one node only. (What Raft calls a term.)
namespace Slogger.Core.Identities;

/// <summary>The number of a leader's rule over a cohort. Source: design, replicated shards, 4.1.</summary>
public readonly record struct Reign(long Number) : IComparable<Reign>
{
    /// <summary>Before the first one: of a cohort that nobody has ever led, and of a log without a cohort.</summary>
    public static readonly Reign None;

    /// <summary>The one after this.</summary>
    public Reign Next => new(Number + 1);

    /// <inheritdoc />
    public int CompareTo(Reign other) => Number.CompareTo(other.Number);

    /// <summary>The later of two.</summary>
    public static Reign Max(Reign a, Reign b) => a >= b ? a : b;

    /// <summary>Whether the first is before.</summary>
    public static bool operator <(Reign a, Reign b) => a.Number < b.Number;

    /// <summary>Whether the first is after.</summary>
    public static bool operator >(Reign a, Reign b) => a.Number > b.Number;

    /// <summary>Whether the first is before, or the same.</summary>
    public static bool operator <=(Reign a, Reign b) => a.Number <= b.Number;

    /// <summary>Whether the first is after, or the same.</summary>
    public static bool operator >=(Reign a, Reign b) => a.Number >= b.Number;

    /// <inheritdoc />
    public override string ToString() => Number.ToString(System.Globalization.CultureInfo.InvariantCulture);
}
