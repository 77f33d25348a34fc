// The nodes of one shard that vote. A node that only learns the log is none of them.
using System.Collections.Immutable;

namespace Slogger.Core.Cohorts;

/// <summary>The name of a node within its cohort: one proxy process with a log and a store.</summary>
public readonly record struct NodeName(string Text) : IComparable<NodeName>
{
    /// <inheritdoc />
    public int CompareTo(NodeName other) => string.CompareOrdinal(Text, other.Text);

    /// <summary>Whether the first is before.</summary>
    public static bool operator <(NodeName a, NodeName b) => a.CompareTo(b) < 0;

    /// <summary>Whether the first is after.</summary>
    public static bool operator >(NodeName a, NodeName b) => a.CompareTo(b) > 0;

    /// <summary>Whether the first is before, or the same.</summary>
    public static bool operator <=(NodeName a, NodeName b) => a.CompareTo(b) <= 0;

    /// <summary>Whether the first is after, or the same.</summary>
    public static bool operator >=(NodeName a, NodeName b) => a.CompareTo(b) >= 0;

    /// <inheritdoc />
    public override string ToString() => Text;
}

/// <summary>The voting members of a cohort. Two majorities of it always meet.</summary>
public sealed class Cohort
{
    /// <summary>Members are named once each.</summary>
    /// <exception cref="ArgumentException">There is none, or one is named twice.</exception>
    public Cohort(IEnumerable<NodeName> voters)
    {
        Voters = [.. voters.Order()];
        if (Voters.Length == 0 || Voters.Distinct().Count() != Voters.Length)
        {
            throw new ArgumentException("A cohort has members, each named once.", nameof(voters));
        }
    }

    /// <summary>The members, in the order of their names.</summary>
    public ImmutableArray<NodeName> Voters { get; }

    /// <summary>How many are a majority.</summary>
    public int Majority => (Voters.Length / 2) + 1;

    /// <summary>Whether a node votes.</summary>
    public bool Has(NodeName node) => Voters.BinarySearch(node) >= 0;
}
