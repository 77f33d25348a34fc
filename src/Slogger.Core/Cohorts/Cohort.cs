// The nodes of one shard that vote, and where the others reach them. A node that only learns the log is none of them.
//
// Members change with the leader: a leader that has committed something hands over to a follower, and names the members of the next reign,
// one more or one less than its own. The next leader is elected by the members as they were, and commits by the new ones. Two lists that
// differ by one have no majorities that do not meet (R12). A second change needs the reign's record committed by the first one's list
// (Raft's rule for changes one at a time, with a reign's record in the place of an entry).
using System.Collections.Immutable;
using Slogger.Core.Identities;

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

/// <summary>The election in which all members voted, and with which the cohort began.</summary>
/// <param name="Reign">The first reign.</param>
/// <param name="By">Who was elected.</param>
public readonly record struct Founding(Reign Reign, NodeName By);

/// <summary>The voting members of a cohort. Two majorities of it always meet. Two are the same if their nodes and addresses are, and how they
/// began.</summary>
public sealed class Cohort : IEquatable<Cohort>
{
    private readonly ImmutableArray<string> _addresses;

    /// <summary>Members are named once each.</summary>
    /// <param name="members">Each with where the others reach it.</param>
    /// <exception cref="ArgumentException">There is none, or one is named twice.</exception>
    public Cohort(IEnumerable<(NodeName Node, string Address)> members)
    {
        (NodeName Node, string Address)[] inOrder = [.. members.OrderBy(m => m.Node)];
        (Voters, _addresses) = ([.. inOrder.Select(m => m.Node)], [.. inOrder.Select(m => m.Address)]);
        if (Voters.Length == 0 || Voters.Distinct().Count() != Voters.Length)
        {
            throw new ArgumentException("A cohort has members, each named once.", nameof(members));
        }
    }

    /// <summary>Members whose addresses are of no matter.</summary>
    /// <exception cref="ArgumentException">There is none, or one is named twice.</exception>
    public Cohort(IEnumerable<NodeName> voters)
        : this(voters.Select(v => (v, "")))
    {
    }

    /// <summary>The members, in the order of their names.</summary>
    public ImmutableArray<NodeName> Voters { get; }

    /// <summary>The same, each with where the others reach it.</summary>
    public IEnumerable<(NodeName Node, string Address)> Members => Voters.Zip(_addresses);

    /// <summary>How the cohort began; null: it has not, or that is not known.</summary>
    public Founding? Founded { get; init; }

    /// <summary>How many are a majority.</summary>
    public int Majority => (Voters.Length / 2) + 1;

    /// <summary>Whether a node votes.</summary>
    public bool Has(NodeName node) => Voters.BinarySearch(node) >= 0;

    /// <summary>The highest value that some members have reached.</summary>
    /// <param name="values">Of nodes; members that are missing have reached nothing.</param>
    /// <param name="count">How many members. At least 1.</param>
    /// <returns>Null: so many have reached nothing.</returns>
    public T? Reached<T>(Dictionary<NodeName, T> values, int count)
        where T : struct, IComparable<T>
    {
        T? highest = null;
        foreach (NodeName node in Voters)
        {
            if (!values.TryGetValue(node, out T value) || (highest is { } before && value.CompareTo(before) <= 0)) { continue; }
            int reached = 0;
            foreach (NodeName other in Voters)
            {
                if (values.TryGetValue(other, out T its) && its.CompareTo(value) >= 0) { reached++; }
            }
            if (reached >= count) { highest = value; }
        }
        return highest;
    }

    /// <summary>The same with one more.</summary>
    public Cohort With(NodeName node, string address) => new(Members.Append((node, address))) { Founded = Founded };

    /// <summary>The same with one less.</summary>
    public Cohort Without(NodeName node) => new(Members.Where(m => m.Node != node)) { Founded = Founded };

    /// <summary>The same, which has begun.</summary>
    public Cohort Begun(Founding founded) => new(Members) { Founded = founded };

    /// <summary>How many members one of them has, and the other has not.</summary>
    public int Differences(Cohort other) => Voters.Except(other.Voters).Count() + other.Voters.Except(Voters).Count();

    /// <inheritdoc />
    public bool Equals(Cohort? other) =>
        other is not null && Voters.SequenceEqual(other.Voters) && _addresses.SequenceEqual(other._addresses) && Founded == other.Founded;

    /// <inheritdoc />
    public override bool Equals(object? obj) => Equals(obj as Cohort);

    /// <inheritdoc />
    public override int GetHashCode() => HashCode.Combine(Voters.Length, Voters[0]);

    /// <summary>The names, with commas between.</summary>
    public override string ToString() => string.Join(", ", Voters);
}
