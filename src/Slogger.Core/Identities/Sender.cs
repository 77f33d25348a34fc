namespace Slogger.Core.Identities;

/// <summary>Who ships. A later one is more than all before: the same shard is never shipped by two.</summary>
/// <param name="Site">Under which site epoch.</param>
/// <param name="Epoch">The process, by its epoch as the shard's owner in the primary's SQL.</param>
/// <param name="Incarnation">How often that process has opened the shard's log: what it read of an earlier opening may never have become
/// durable.</param>
public readonly record struct Sender(SiteEpoch Site, long Epoch, long Incarnation) : IComparable<Sender>
{
    /// <inheritdoc />
    public int CompareTo(Sender other)
    {
        int by = Site.CompareTo(other.Site);
        if (by == 0) by = Epoch.CompareTo(other.Epoch);
        return by != 0 ? by : Incarnation.CompareTo(other.Incarnation);
    }

    /// <summary>Whether the first is before.</summary>
    public static bool operator <(Sender a, Sender b) => a.CompareTo(b) < 0;

    /// <summary>Whether the first is after.</summary>
    public static bool operator >(Sender a, Sender b) => a.CompareTo(b) > 0;

    /// <summary>Whether the first is before, or the same.</summary>
    public static bool operator <=(Sender a, Sender b) => a.CompareTo(b) <= 0;

    /// <summary>Whether the first is after, or the same.</summary>
    public static bool operator >=(Sender a, Sender b) => a.CompareTo(b) >= 0;

    /// <inheritdoc />
    public override string ToString() => $"{Site}/{Epoch}.{Incarnation}";
}
