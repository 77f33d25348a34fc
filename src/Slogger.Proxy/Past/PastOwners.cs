// Which shard had a key at the end of a version. Its log has the state then, whoever owns the slot now.
using System.Globalization;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Versions;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Past;
using Slogger.Resp;

namespace Slogger.Proxy.Past;

/// <summary>The owners of slots, at versions of the past. Any thread.</summary>
/// <param name="shard">This shard.</param>
/// <param name="watch">What is known of owners and moves; null: a shard alone has all keys.</param>
/// <param name="partitions">How keys are parted.</param>
internal sealed class PastOwners(ShardId shard, Func<SlotWatch?> watch, Func<Partitioning> partitions)
{
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

    /// <summary>Whether this shard had any slot at the end of a version.</summary>
    public bool HadAny(VersionNumber version) => Table is not { } table || table.MapAt(version).Rows.Any(r => r.Shard == shard);

    /// <summary>Whether this shard has the slot of a key now.</summary>
    public bool Has(byte[] key) => Table is not { } table || table.Map.Owner(partitions().Of(key)) == shard;

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
        return string.Create(CultureInfo.InvariantCulture, $"MOVED {slot.Number} {at.Host}:{at.Port}");
    }
}
