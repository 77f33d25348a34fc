// What concerns a shard's cohort: which of its nodes this process is, who the others are, and how long a leader may answer.
using System.Collections.Immutable;
using Slogger.Core.Cohorts;
using Slogger.Resp;

namespace Slogger.Proxy.Configuration;

/// <summary>A node of a cohort, as people name it.</summary>
/// <param name="Node">Its name.</param>
/// <param name="Address">Where the others reach it, over gRPC.</param>
public readonly record struct CohortMember(NodeName Node, ListenAddress Address);

/// <summary>Options of a node.</summary>
public sealed record CohortOptions
{
    /// <summary>Which of the members this process is.</summary>
    public required NodeName Node { get; init; }

    /// <summary>All members, 1 to 7, as long as no leader has named others (<see cref="Ballot.Members"/>).</summary>
    public required ImmutableArray<CohortMember> Members { get; init; }

    /// <summary>How long a leader may answer after it sent what a majority has echoed. Default: 120 ms. Too short costs takeovers, never
    /// data.</summary>
    public TimeSpan Lease { get; init; } = TimeSpan.FromMilliseconds(120);

    /// <summary>What a leader's reads need. Default: the lease.</summary>
    public StrongReads StrongReads { get; init; }

    /// <summary>How old what a follower reads may be: what is older it does not answer. Default: 1 s. Zero: of any age.</summary>
    public TimeSpan ReadsStaleMax { get; init; } = TimeSpan.FromSeconds(1);

    /// <summary>This process.</summary>
    public CohortMember Self => Members.First(m => m.Node == Node);

    /// <summary>Who votes, if no leader has said.</summary>
    public Cohort Voters => new(Members.Select(m => (m.Node, m.Address.ToString())));
}

/// <summary>What makes sure that a leader's read is not stale.</summary>
public enum StrongReads
{
    /// <summary>The leader's lease: no two clocks may run apart by more than half a percent.</summary>
    Lease,

    /// <summary>Besides, a majority has the version in which it was read: no other leader had begun, whatever the clocks do.</summary>
    Quorum,
}
