// A cut of the cluster: one version per shard of a world-line, the state that a recovery goes back to (DPR, definition
// 3.1). Immutable, so that every thread may use it. A cut says: at each shard the operations of versions up to this one,
// and no others. Finders make them, the metadata records them, sessions are told what they cover.
using System.Collections.Immutable;
using System.Text;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Cuts;

/// <summary>One version per shard, shards being numbered densely from 0. Source: DPR, section 3.</summary>
public sealed class Cut : IEquatable<Cut>
{
    /// <summary>The most shards that a cluster may have.</summary>
    public const int ShardsMax = 1024;

    private readonly ImmutableArray<VersionNumber> _versions;

    /// <summary>Makes a cut.</summary>
    /// <param name="worldLine">Its timeline.</param>
    /// <param name="versions">The version of each shard, by shard number: 1 to <see cref="ShardsMax"/> of them.</param>
    /// <exception cref="ArgumentException">There are none or too many, or a version is negative.</exception>
    public Cut(WorldLine worldLine, ReadOnlySpan<VersionNumber> versions)
    {
        if (versions.Length is 0 or > ShardsMax)
            throw new ArgumentException($"A cut has 1 to {ShardsMax} shards, not {versions.Length}.", nameof(versions));
        foreach (VersionNumber v in versions)
            if (v < VersionNumber.Zero) throw new ArgumentException($"There is no version {v}.", nameof(versions));
        WorldLine = worldLine;
        _versions = [.. versions];
    }

    /// <summary>The same version at every shard: the only cuts that respect real time (design, section 3).</summary>
    /// <exception cref="ArgumentException">The number of shards is out of bounds, or the version is negative.</exception>
    public static Cut Uniform(WorldLine worldLine, int shardCount, VersionNumber version)
    {
        if (shardCount is < 1 or > ShardsMax)
            throw new ArgumentException($"A cut has 1 to {ShardsMax} shards, not {shardCount}.", nameof(shardCount));
        VersionNumber[] versions = new VersionNumber[shardCount];
        Array.Fill(versions, version);
        return new(worldLine, versions);
    }

    /// <summary>The timeline.</summary>
    public WorldLine WorldLine { get; }

    /// <summary>How many shards it has.</summary>
    public int ShardCount => _versions.Length;

    /// <summary>The version of each shard, by shard number.</summary>
    public ReadOnlySpan<VersionNumber> Versions => _versions.AsSpan();

    /// <summary>The version of a shard.</summary>
    /// <exception cref="ArgumentOutOfRangeException">The cut has no such shard.</exception>
    public VersionNumber Of(ShardId shard) => _versions[Index(shard)];

    /// <summary>The order in which cuts may follow each other (invariant I3): the same or a later world-line, and no shard
    /// below. Two cuts need not be ordered either way.</summary>
    public bool IsAtLeast(Cut other) => WorldLine >= other.WorldLine && IsAtLeast(Versions, other.Versions);

    /// <inheritdoc />
    public bool Equals(Cut? other) => other is not null && WorldLine == other.WorldLine && Versions.SequenceEqual(other.Versions);

    /// <inheritdoc />
    public override bool Equals(object? obj) => Equals(obj as Cut);

    /// <inheritdoc />
    public override int GetHashCode()
    {
        HashCode hash = default;
        hash.Add(WorldLine);
        foreach (VersionNumber v in _versions) hash.Add(v);
        return hash.ToHashCode();
    }

    /// <summary>World-line and versions: <c>1:[5 7 5]</c>.</summary>
    public override string ToString()
    {
        StringBuilder text = new();
        text.Append(WorldLine).Append(":[").AppendJoin(' ', _versions).Append(']');
        return text.ToString();
    }

    /// <summary>The position of a shard, checked.</summary>
    internal int Index(ShardId shard)
    {
        if ((uint)shard.Number >= (uint)ShardCount)
            throw new ArgumentOutOfRangeException(nameof(shard), $"There is no shard {shard}: the cut has {ShardCount}, from 0.");
        return shard.Number;
    }

    /// <summary>The cut that a finder puts in this one's place.</summary>
    /// <exception cref="InvalidOperationException">It would go back: invariant I3 is broken.</exception>
    internal Cut MovedTo(ReadOnlySpan<VersionNumber> versions)
    {
        Cut next = new(WorldLine, versions);
        return next.IsAtLeast(this) ? next : throw new InvalidOperationException($"I3: the cut would go back from {this} to {next}.");
    }

    /// <summary>Whether a new world-line starts with this branch; false if it is this one's world-line or an abandoned one.</summary>
    /// <exception cref="ArgumentException">The branch is below this cut (invariant I3), or has other shards.</exception>
    internal bool IsFollowedBy(Cut branch)
    {
        if (branch.ShardCount != ShardCount)
            throw new ArgumentException($"The branch has {branch.ShardCount} shards, the cut {ShardCount}.", nameof(branch));
        if (branch.WorldLine <= WorldLine) return false;
        return branch.IsAtLeast(this) ? true
            : throw new ArgumentException($"I3: the branch {branch} is below the cut {this}.", nameof(branch));
    }

    private static bool IsAtLeast(ReadOnlySpan<VersionNumber> a, ReadOnlySpan<VersionNumber> b)
    {
        if (a.Length != b.Length) return false;
        for (int i = 0; i < a.Length; i++)
            if (a[i] < b[i]) return false;
        return true;
    }
}
