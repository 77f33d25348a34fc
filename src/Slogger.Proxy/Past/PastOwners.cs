// Which shard had a key at the end of a version. Its log has the state then, whoever owns the slot now.
//
// A shard's store has keys of others, too, while slots move: what is about to come, and what is yet to be deleted. So of all that a shard
// had then only the keys of its slots count. And of what its log has clients have done what was done behind a version in which it had the
// slot.
using System.Globalization;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Versions;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Redis.Past;
using Slogger.Redis.Rollback;
using Slogger.Resp;

namespace Slogger.Proxy.Past;

/// <summary>The owners of slots, at versions of the past. Any thread.</summary>
/// <param name="shard">This shard.</param>
/// <param name="watch">What is known of owners and moves; null: a shard alone has all keys.</param>
/// <param name="partitions">How keys are parted.</param>
internal sealed class PastOwners(ShardId shard, Func<SlotWatch?> watch, Func<Partitioning> partitions)
{
    private static readonly TimeSpan s_certainMax = TimeSpan.FromSeconds(10), s_certainPause = TimeSpan.FromMilliseconds(5);

    /// <summary>This shard.</summary>
    public ShardId Shard => shard;

    /// <summary>As last seen; null: a shard alone has all keys.</summary>
    public OwnershipTable? Table => watch()?.Table;

    /// <summary>Looks at the owners again, if they may have changed unseen: after a version is committed, and before it is asked who had
    /// what in it. A shard takes part in a move only when it has seen it, so only with moves that it knows of something may have changed;
    /// whoever follows it may have seen nothing.</summary>
    /// <param name="follows">Whether this store follows.</param>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="MetadataException">It cannot be looked.</exception>
    public async Task LookAsync(bool follows, CancellationToken stop)
    {
        if (watch() is { } known && (follows || !known.Table.Moves.IsEmpty)) { await known.LookAsync(stop).ConfigureAwait(false); }
    }

    /// <summary>Looks until all shards will give the same answer to who had what at the end of a version.</summary>
    /// <param name="version">The version: a committed one.</param>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="PastException">It takes too long.</exception>
    /// <exception cref="MetadataException">It cannot be looked.</exception>
    public async Task AwaitCertainAsync(VersionNumber version, CancellationToken stop)
    {
        for (long until = Environment.TickCount64 + (long)s_certainMax.TotalMilliseconds; watch() is { } known;)
        {
            if (known.Table.IsCertainAt(version)) { return; }
            if (Environment.TickCount64 > until)
            {
                throw new PastException("slots are just about to move, and that takes long (slogger move --list): till then it is not "
                    + $"known which shard has them at version {version}. Try again, or ask for an earlier version");
            }
            await Task.Delay(s_certainPause, stop).ConfigureAwait(false);
            await known.LookAsync(stop).ConfigureAwait(false);
        }
    }

    /// <summary>The shards that had slots at the end of one of some versions, each with its address: null if it has left, empty of this
    /// one.</summary>
    /// <exception cref="PastException">It takes too long to find out.</exception>
    /// <exception cref="MetadataException">The metadata does not say.</exception>
    public async Task<IReadOnlyList<(ShardId Shard, string? Address)>> InAsync(VersionNumber from, VersionNumber to, CancellationToken stop)
    {
        if (watch() is not { } known) { return [(shard, "")]; }
        // Of moves that it takes no part in this shard may not have heard.
        await known.LookAsync(stop).ConfigureAwait(false);
        await AwaitCertainAsync(to, stop).ConfigureAwait(false);
        return [.. known.Table.OwnersIn(from, to).Select(s => (s, s == shard ? "" : known.AddressOf(s) is { } at ? TextOf(at) : null))];
    }

    /// <summary>Whether this shard had any slot at the end of a version.</summary>
    public bool HadAny(VersionNumber version) => HadAnyFrom(version) == version;

    /// <summary>The first version, at or above one, at whose end this shard had any slot; null: it has had none since.</summary>
    public VersionNumber? HadAnyFrom(VersionNumber version) => Table is { } table ? table.HasSlotsFrom(shard, version) : version;

    /// <summary>The first version behind one in which this shard got slots, or lost some; null: there is none.</summary>
    public VersionNumber? NextLanding(VersionNumber behind) => Table?.NextLanding(shard, behind);

    /// <summary>Whether it got some in this one.</summary>
    public bool GetsSome(VersionNumber landing) => Table is { } table && table.Landings.Any(m => m.To == shard && m.Landed == landing);

    /// <summary>Which keys this shard had at the end of a version; null: all of its store's.</summary>
    public Func<StoreKey, bool>? OwnAt(VersionNumber version)
    {
        if (Table is not { } table || (table.Moves.IsEmpty && version >= table.Settled)) { return null; }
        (SlotMap map, Partitioning cut) = (table.MapAt(version), partitions());
        // Nothing moves but keys of this database.
        return key => key.Database != 0 || map.Owner(cut.Of(key.Name)) == shard;
    }

    /// <summary>The same of versions from one on, which is quick if they rise. One caller at a time.</summary>
    public Func<StoreKey, VersionNumber, bool>? OwnFrom(VersionNumber first)
    {
        if (OwnAt(first) is null) { return null; }
        (Func<StoreKey, bool>? own, VersionNumber since, VersionNumber? until) = (null, first, first);
        return (key, version) =>
        {
            if (version < since || version >= until) { (own, since, until) = (OwnAt(version), version, NextLanding(version)); }
            return own?.Invoke(key) ?? true;
        };
    }

    /// <summary>The move by which the key came to the shard that did the commands of a version on it; null: none is known.</summary>
    public PastMove? BroughtBefore(byte[] key, VersionNumber version) => Table?.BroughtBefore(partitions().Of(key), version);

    /// <summary>Whether this shard has the slot of a key now.</summary>
    public bool Has(byte[] key) => Table is not { } table || table.Map.Owner(partitions().Of(key)) == shard;

    /// <summary>Whether a shard has a key now.</summary>
    public bool Has(ShardId owner, in StoreKey key) =>
        Table is not { } table || (key.Database != 0 ? shard : table.Map.Owner(partitions().Of(key.Name))) == owner;

    /// <summary>Which keys a shard had at the end of a version.</summary>
    public Func<StoreKey, bool> HadAt(ShardId owner, VersionNumber version)
    {
        if (Table is not { } table) { return _ => true; }
        (SlotMap map, Partitioning cut) = (table.MapAt(version), partitions());
        return key => (key.Database != 0 ? shard : map.Owner(cut.Of(key.Name))) == owner;
    }

    /// <summary>The other shards that have given slots away behind a version.</summary>
    public IEnumerable<ShardId> GaveBehind(VersionNumber version) =>
        MovedBehind(version).Select(m => m.From).Distinct().Where(s => s != shard);

    /// <summary>The other shards that have given slots away, or got some, behind a version.</summary>
    public IEnumerable<ShardId> TookPartBehind(VersionNumber version) =>
        MovedBehind(version).SelectMany(m => (ShardId[])[m.From, m.To]).Distinct().Where(s => s != shard);

    private IEnumerable<PastMove> MovedBehind(VersionNumber version) => Table?.Landings.Where(m => m.Landed > version) ?? [];

    /// <summary>Keys by the shard that had them at the end of a version.</summary>
    public IEnumerable<IGrouping<ShardId, StoreKey>> ByOwner(IEnumerable<StoreKey> keys, VersionNumber version)
    {
        SlotMap? map = Table?.MapAt(version);
        return keys.GroupBy(k => map is null || k.Database != 0 ? shard : map.Owner(partitions().Of(k.Name)));
    }

    /// <summary>Where to ask for a key as it was at the end of a version: a redirection. Null: here.</summary>
    /// <exception cref="PastException">The shard that had it has left.</exception>
    public string? Elsewhere(byte[] key, VersionNumber version)
    {
        if (Table is not { } table) { return null; }
        HashSlot slot = partitions().Of(key);
        ShardId owner = table.MapAt(version).Owner(slot);
        if (owner == shard) { return null; }
        ListenAddress at = watch()!.AddressOf(owner) ?? throw new PastException(
            $"version {version} is not kept: shard {owner} had slot {slot.Number} then, and has left since", PastProblem.NotKept);
        return string.Create(CultureInfo.InvariantCulture, $"MOVED {slot.Number} {TextOf(at)}");
    }

    private static string TextOf(ListenAddress at) => string.Create(CultureInfo.InvariantCulture, $"{at.Host}:{at.Port}");
}
