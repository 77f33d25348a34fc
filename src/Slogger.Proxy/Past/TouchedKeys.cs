// Which keys may differ between two instants of a shard: what an incremental snapshot looks at, and a reset. The log says so; if the store was
// emptied in between, so does the checkpoint below.
using System.Text;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Redis.Past;
using Slogger.Redis.Rdb;
using Slogger.Redis.Rollback;

namespace Slogger.Proxy.Past;

/// <summary>Finds the keys. Any thread.</summary>
/// <param name="log">The log.</param>
/// <param name="checkpoints">Its checkpoints.</param>
/// <param name="instants">Its instants.</param>
/// <param name="scan">Reads its commands.</param>
internal sealed class TouchedKeys(VersionLog log, CheckpointStore checkpoints, PastInstants instants, PastScan scan)
{
    // Of one question.
    private const int KeysMax = 5_000_000, RdbWindow = 1 << 20;

    /// <summary>Which keys may differ between the end of a version and a later one: those that commands named in between, and all of
    /// before if the store was emptied.</summary>
    /// <param name="from">The first end. The log is held from there on.</param>
    /// <param name="to">The second.</param>
    /// <param name="stop">Gives up.</param>
    /// <param name="isOfAll">Whether all has to be in keys: functions that changed are in none.</param>
    /// <param name="isWanted">Whether a key is, of what was done behind a version; null: all are.</param>
    /// <param name="isWantedAtAll">Whether a key is that was there when the store was emptied, whoever had it before; null: all are.</param>
    /// <exception cref="PastException">They cannot be told; the text says why.</exception>
    public IReadOnlySet<StoreKey> Between(Boundary from, Boundary to, CancellationToken stop, bool isOfAll = false,
        Func<StoreKey, VersionNumber, bool>? isWanted = null, Func<StoreKey, bool>? isWantedAtAll = null)
    {
        if (log.HasGap(from.Offset, to.Offset))
        {
            throw new PastException($"between versions {from.Version} and {to.Version} the log of this shard has a gap");
        }
        var keys = new HashSet<StoreKey>();
        bool wasEmptied = false;
        foreach ((EffectReader command, VersionNumber behind, _) in scan.Commands(from, to, stop))
        {
            if (isOfAll && command.Reach == EffectReach.Library)
            {
                throw new PastException($"functions were changed after version {from.Version}, and they are in no key");
            }
            if (command.Reach != EffectReach.Anything) { AddKeys(command, behind); }
            else if (command.Effect.Is(0, "FLUSHALL"u8) || command.Effect.Is(0, "FLUSHDB"u8)) { wasEmptied = true; }
            else
            {
                string name = Encoding.Latin1.GetString(command.Effect[0]).ToUpperInvariant();
                throw new PastException($"{name}, after version {from.Version}, is not confined to keys that it names: it cannot be undone "
                    + "key by key");
            }
        }
        if (!wasEmptied) { return keys; }
        if (isWantedAtAll is not null)
        {
            // Also what moves have brought since.
            isWanted = (key, _) => isWantedAtAll(key);
            foreach ((EffectReader command, VersionNumber behind, _) in scan.Commands(from, to, stop)) { AddKeys(command, behind); }
        }
        Checkpoint checkpoint = instants.Hold(from.Version).Base;
        string rdb = checkpoints.PathOf(checkpoint);
        using (var entries = new RdbCursor(rdb, RdbWindow))
        {
            entries.ReadHead();
            while (entries.ReadEntry() is { } entry)
            {
                stop.ThrowIfCancellationRequested();
                Add(new StoreKey(entry.Database, entry.Key), from.Version);
            }
        }
        int database = RdbFile.Inspect(rdb).StreamDatabase ?? 0;
        foreach (EffectReader command in scan.Effects(checkpoint.Offset, from.Offset, database, stop)) { AddKeys(command, from.Version); }
        return keys;

        void AddKeys(EffectReader command, VersionNumber behind)
        {
            foreach (EffectKey named in command.Keys)
            {
                Add(new StoreKey(named.Database, command.Effect[named.Argument].ToArray()), behind);
            }
        }

        void Add(in StoreKey key, VersionNumber behind)
        {
            if (isWanted is null || isWanted(key, behind)) { keys.Add(key); }
            if (keys.Count > KeysMax) { throw new PastException($"more than {KeysMax} keys may differ"); }
        }
    }

    /// <summary>Which keys clients may have changed at this shard between two ends of versions, while it had them; of those that a shard
    /// has now.</summary>
    /// <param name="owner">That shard.</param>
    /// <param name="since">The first end, or one before this shard had slots.</param>
    /// <param name="to">The second.</param>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="PastException">They cannot be told; the text says why.</exception>
    public IReadOnlySet<StoreKey> For(ShardId owner, VersionNumber since, Boundary to, CancellationToken stop)
    {
        PastOwners owners = instants.Owners;
        if (owners.HadAnyFrom(since) is not { } from || from > to.Version) { return new HashSet<StoreKey>(); }
        Boundary first = instants.HoldDetail(from);
        if (owners.OwnFrom(first.Version) is not { } isOwn) { return Between(first, to, stop); }
        Func<StoreKey, bool> isOwners = key => owners.Has(owner, key);
        return Between(first, to, stop, isWanted: (key, behind) => isOwn(key, behind) && isOwners(key), isWantedAtAll: isOwners);
    }
}
