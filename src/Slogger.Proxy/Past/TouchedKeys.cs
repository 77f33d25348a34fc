// Which keys may differ between two instants of a shard: what an incremental snapshot looks at, and a reset. The log says so; if the store
// was emptied in between, so does the checkpoint below.
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
    private const int RdbWindow = 1 << 20;

    /// <summary>Which keys may differ between the end of a version and a later one: those that commands named in between, and all of
    /// before if the store was emptied. All of what differs is in keys. A key may come more than once.</summary>
    /// <param name="from">The first end. The log is held from there on.</param>
    /// <param name="to">The second.</param>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="PastException">They cannot be told, or functions have changed; the text says why.</exception>
    public IEnumerable<StoreKey> Between(Boundary from, Boundary to, CancellationToken stop) =>
        Named(from, to, stop, isOfAll: true, isWanted: null, isWantedAtAll: null);

    /// <summary>Which keys clients may have changed at this shard between two ends of versions, while it had them; of those that a shard
    /// has now, or had at the end of a version. A key may come more than once.</summary>
    /// <param name="owner">That shard.</param>
    /// <param name="at">That version; null: now.</param>
    /// <param name="since">The first end, or one before this shard had slots.</param>
    /// <param name="to">The second.</param>
    /// <param name="stop">Gives up.</param>
    /// <param name="isOfAll">Whether functions that have changed are to be told: they are in no key.</param>
    /// <exception cref="PastException">They cannot be told; the text says why.</exception>
    public IEnumerable<StoreKey> For(ShardId owner, VersionNumber? at, VersionNumber since, Boundary to, CancellationToken stop,
        bool isOfAll = false)
    {
        PastOwners owners = instants.Owners;
        if (owners.HadAnyFrom(since) is not { } from || from > to.Version) { return []; }
        Boundary first = instants.HoldDetail(from);
        if (owners.OwnFrom(first.Version) is not { } isOwn) { return Named(first, to, stop, isOfAll, null, null); }
        Func<StoreKey, bool> isOwners = at is { } then ? owners.HadAt(owner, then) : key => owners.Has(owner, key);
        return Named(first, to, stop, isOfAll, (key, behind) => isOwn(key, behind) && isOwners(key), isOwners);
    }

    // isOfAll: functions that changed are in no key. isWanted: whether a key is, of what was done behind a version; null: all are.
    // isWantedAtAll: whether a key is that was there when the store was emptied, whoever had it before; null: all are.
    private IEnumerable<StoreKey> Named(Boundary from, Boundary to, CancellationToken stop, bool isOfAll,
        Func<StoreKey, VersionNumber, bool>? isWanted, Func<StoreKey, bool>? isWantedAtAll)
    {
        if (log.HasGap(from.Offset, to.Offset))
        {
            throw new PastException($"between versions {from.Version} and {to.Version} the log of this shard has a gap");
        }
        bool wasEmptied = false;
        foreach ((EffectReader command, VersionNumber behind, _) in scan.Commands(from, to, stop))
        {
            if (isOfAll && command.Reach == EffectReach.Library)
            {
                throw new PastException($"functions were changed after version {from.Version}, and they are in no key");
            }
            if (command.Reach != EffectReach.Anything)
            {
                foreach (StoreKey key in KeysOf(command).Where(k => isWanted is null || isWanted(k, behind))) { yield return key; }
            }
            else if (command.Effect.Is(0, "FLUSHALL"u8) || command.Effect.Is(0, "FLUSHDB"u8)) { wasEmptied = true; }
            else
            {
                string name = Encoding.Latin1.GetString(command.Effect[0]).ToUpperInvariant();
                throw new PastException($"{name}, after version {from.Version}, is not confined to keys that it names: it cannot be undone "
                    + "key by key");
            }
        }
        if (!wasEmptied) { yield break; }
        if (isWantedAtAll is not null)
        {
            // Also what moves have brought since.
            foreach ((EffectReader command, _, _) in scan.Commands(from, to, stop))
            {
                foreach (StoreKey key in KeysOf(command).Where(isWantedAtAll)) { yield return key; }
            }
        }
        foreach (StoreKey key in KeysAt(from, stop).Where(k => isWantedAtAll is null || isWantedAtAll(k))) { yield return key; }
    }

    // At least those that were there where a version ended.
    private IEnumerable<StoreKey> KeysAt(Boundary end, CancellationToken stop)
    {
        Checkpoint checkpoint = instants.Hold(end.Version).Base;
        string rdb = checkpoints.PathOf(checkpoint);
        using (var entries = new RdbCursor(rdb, RdbWindow))
        {
            entries.ReadHead();
            while (entries.ReadEntry() is { } entry)
            {
                stop.ThrowIfCancellationRequested();
                yield return new StoreKey(entry.Database, entry.Key);
            }
        }
        int database = RdbFile.Inspect(rdb).StreamDatabase ?? 0;
        foreach (EffectReader command in scan.Effects(checkpoint.Offset, end.Offset, database, stop))
        {
            foreach (StoreKey key in KeysOf(command)) { yield return key; }
        }
    }

    private static IEnumerable<StoreKey> KeysOf(EffectReader command) =>
        command.Keys.Select(named => new StoreKey(named.Database, command.Effect[named.Argument].ToArray()));
}
