// What a ShardShipper asks of its shard, and tells it. A backup's and a follower's shipping answer what concerns them.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Replication.Seeding;

namespace Slogger.Replication.Sending;

/// <summary>Who is told what shipping asks of the shard. Any thread.</summary>
internal interface IShipperListener
{
    /// <summary>The recorded cut.</summary>
    WorldPoint RecordedCut { get; }

    /// <summary>Writes of clients are to wait, since the log kept for the backup is at its budget; or may go on.</summary>
    void HoldWrites(bool isHeld);

    /// <summary>The backup has to be seeded, and what <see cref="CopyOf"/> gives for this life of the stream, if anything, will not do:
    /// another copy is to be made. Said again until there is one, also while it is being made.</summary>
    void OnSeedWanted(long generation, string why);

    /// <summary>Another process, or another site, ships this shard: it is served here no more.</summary>
    void OnShippingDeposed(Sender by, bool isSite);

    /// <summary>Shipping has ended by an error: of the log, or an invariant that does not hold.</summary>
    void OnShippingFailed(Exception e);

    /// <summary>The receiver has a log to go on with. Nothing of the log has been sent to it over this connection yet.</summary>
    /// <exception cref="IOException">Nothing may be sent.</exception>
    void OnWelcomed()
    {
    }

    /// <summary>The receiver has said something.</summary>
    void OnReplied(ShipReply reply)
    {
    }

    /// <summary>More is durable at the backup, as a whole.</summary>
    void OnWatermark(WorldPoint watermark);

    /// <summary>Whether the receiver is a follower of the shard's cohort.</summary>
    bool IsFollower => false;

    /// <summary>Up to where the log will never be taken back by a crash: where it is durable; of a cohort, what that has
    /// committed.</summary>
    LogIndex Durable(VersionLog log) => log.DurableEnd;

    /// <summary>Up to where the log is shipped: all of it, durable or not. Of a cohort's, to a backup, what that has committed: what lies
    /// behind the last version's end there may yet be void.</summary>
    LogIndex Ready(VersionLog log) => log.End;

    /// <summary>Whether a follower that learns votes from now on.</summary>
    bool Admits => false;

    /// <summary>To a follower: when its newest reply that has come was sent, by its clock. Read before <see cref="Durable"/>.</summary>
    long HeardUs => 0;

    /// <summary>Whether no other leader had committed anything by now, if this is asked after <see cref="Durable"/>. Else
    /// <see cref="HeardUs"/> says nothing.</summary>
    bool IsCurrent => false;

    /// <summary>There is a new connection to the receiver; nothing has come over it yet.</summary>
    void OnLinked()
    {
    }

    /// <summary>What a seed of this generation is sent from (<see cref="SeedSource"/>): it exists until the stream is shipped again. Null:
    /// there is none (yet); <see cref="OnSeedWanted"/> has it made.</summary>
    SeedCopy? CopyOf(long generation) => null;
}
