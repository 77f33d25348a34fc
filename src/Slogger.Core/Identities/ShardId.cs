namespace Slogger.Core.Identities;

/// <summary>The name of a shard within its cluster: one state object and the proxy that owns it. From 0.</summary>
public readonly record struct ShardId(int Number)
{
    /// <inheritdoc />
    public override string ToString() => Number.ToString(System.Globalization.CultureInfo.InvariantCulture);
}
