// How far one stream is at the receiver.
using Slogger.Core.Replication;
using Slogger.Core.WorldLines;
using Slogger.Replication.Seeding;

namespace Slogger.Replication.Sending;

/// <summary>How far shipping is: for status.</summary>
/// <param name="State">What it is doing.</param>
/// <param name="End">Up to where the log goes.</param>
/// <param name="Received">Up to where the backup has received it.</param>
/// <param name="BackedUp">Up to where the backup has it durable.</param>
/// <param name="Watermark">What the backup as a whole has durable.</param>
/// <param name="BytesSent">Bytes of the log that were sent, again ones included.</param>
/// <param name="Problem">Why there is no connection; null if there is.</param>
internal readonly record struct ShipperStatus(
    ShipperState State, LogIndex End, LogIndex Received, LogIndex BackedUp, WorldPoint Watermark, long BytesSent, string? Problem)
{
    /// <summary>Which life of the stream it ships to.</summary>
    public long Generation { get; init; }

    /// <summary>Bytes of the log that were not sent, since windows went in their place.</summary>
    public long BytesSpared { get; init; }

    /// <summary>Whether windows go in place of the log now.</summary>
    public bool SendsWindows { get; init; }

    /// <summary>Bytes that are on their way.</summary>
    public long WindowUsed { get; init; }

    /// <summary>Bytes of the log that are kept for the backup.</summary>
    public long Kept { get; init; }

    /// <summary>How far the copy is that the backup is being seeded with; null: it is not, or there is no copy yet.</summary>
    public SeedProgress? Seeding { get; init; }
}
