namespace Slogger.Core.Replication;

/// <summary>What happens when the primary keeps as much of its log for the backup as it may.</summary>
public enum BudgetChoice : byte
{
    /// <summary>Writes are held until the backup has caught up: nothing is lost, and the primary waits for the backup.</summary>
    Stall,

    /// <summary>The backup is given up: the primary goes on, and the stream has to be seeded anew.</summary>
    Detach,
}

/// <summary>Bounds of one shard's shipping.</summary>
public sealed record ShipperOptions
{
    /// <summary>Bytes in one piece at most. Default 256 KB: larger ones delay the ends of versions behind them.</summary>
    public int PieceBytesMax { get; init; } = 256 * 1024;

    /// <summary>Pieces that are not acknowledged yet at most. Default 64.</summary>
    public int PiecesMax { get; init; } = 64;

    /// <summary>Bytes that are not acknowledged yet at most: a link of 1 Gbit/s and 50 ms holds 6 MB. Default 8 MB; the receiver keeps as
    /// much in memory.</summary>
    public long WindowBytes { get; init; } = 8L << 20;

    /// <summary>Without an answer for so long, what was sent counts as lost. Microseconds. Default 300 ms: several round trips.</summary>
    public long ResendUs { get; init; } = 300_000;

    /// <summary>After so long without a message one goes, empty or with what has waited for a cut: so lease and connection live.
    /// Microseconds. Default 50 ms. A cut that moves goes at once.</summary>
    public long HeartbeatUs { get; init; } = 50_000;

    /// <summary>After so long without a message an empty one goes if more is durable: to a follower of a cohort, whose store goes that far.
    /// Microseconds. Default: with a cut or a heartbeat only.</summary>
    public long DurableUs { get; init; } = long.MaxValue;

    /// <summary>Fewer bytes go with the next cut or heartbeat: before that the receiver has no use for them. Default 4 KB: less than any
    /// link notices. 1, none, for a follower of a cohort, to whom each version goes at once.</summary>
    public int FewBytes { get; init; } = 4096;

    /// <summary>Whether the receiver says what it has heard of this clock (<see cref="ShipReply.EchoUs"/>): a lease is renewed by it.
    /// Without one, it need not answer each message.</summary>
    public bool WantsEcho { get; init; } = true;

    /// <summary>From so many bytes on that are durable here, and have not been received, windows are sent in place of the log
    /// (<see cref="LogWindows"/>), until an eighth of it is left. Default 256 MB. To a receiver that
    /// takes none they never are.</summary>
    public long WindowsAboveBytes { get; init; } = 256L << 20;

    /// <summary>So much of the log may be kept for the backup, in bytes. Default 4 GB.</summary>
    public long BudgetBytes { get; init; } = 4L << 30;

    /// <summary>From this part of the budget on somebody is told, in percent. Default 75.</summary>
    public int WarnPercent { get; init; } = 75;

    /// <summary>What happens at its end.</summary>
    public BudgetChoice AtBudget { get; init; } = BudgetChoice.Stall;
}
