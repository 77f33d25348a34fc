namespace Slogger.Core.Cohorts;

/// <summary>The times of an election. Microseconds.</summary>
public sealed record ElectionOptions
{
    /// <summary>T: how long a leader may answer after it sent what a majority has echoed. The takeover begins when it is over. At least six
    /// beats of the leader. Too short costs takeovers, never data.</summary>
    public long LeaseUs { get; init; } = 120_000;

    /// <summary>By how much the clocks of two nodes may run apart, in millionths.</summary>
    public long DriftPpm { get; init; } = 5_000;

    /// <summary>How long a node waits for each node before it that may stand, too. Two that stand at the same time may both fail.</summary>
    public long TurnUs { get; init; } = 15_000;

    /// <summary>The random part of a node's wait before it stands: nodes need not know the same leader.</summary>
    public long JitterUs { get; init; } = 5_000;

    /// <summary>How much longer a node waits whose store does not follow. It would have to bring another up before anybody is
    /// served.</summary>
    public long StorelessUs { get; init; } = 100_000;

    /// <summary>How long a candidate waits for votes before it asks again.</summary>
    public long RoundUs { get; init; } = 50_000;

    /// <summary>How long a follower votes for nobody after it has heard its leader: the lease, by a clock that may run slower.</summary>
    public long GrantUs => LeaseUs + (LeaseUs * DriftPpm / 1_000_000) + 1;

    /// <summary>How long before its grant is over a follower asks others whether it would be elected, and answers that question. A leader
    /// that lives has then missed six beats of eight.</summary>
    public long AheadUs => LeaseUs / 4;

    /// <summary>How long a leader without a lease goes on trying. Then it is silent, so that who hears it and is not heard can
    /// elect another.</summary>
    public long SilentAfterUs => 2 * LeaseUs;
}
