// The clock grid as a shard knows it. Others may change it while the shard runs; so it promises in SQL, about once a second, up to when it
// goes by the grid that it reads then, and a change begins after all promises (IMetadataStore.TrustGridAsync). No clock of
// another machine is needed for that. A shard that cannot reach SQL closes no version beyond its promise.
using Slogger.Core.Versions;

namespace Slogger.Proxy.Shards;

/// <summary>The grid, and until when it is the grid.</summary>
/// <param name="Grid">The grid.</param>
/// <param name="ValidUntilUs">In microseconds since the Unix epoch, by the shard's clock: no stretch that is not in the grid begins
/// before. For a shard alone it is for ever: nobody changes its grid while it runs.</param>
internal sealed record GridView(VersionGrid Grid, long ValidUntilUs)
{
    /// <summary>How far a promise goes. Longer: the metadata may be away longer before versions stay open. Shorter: a change of the
    /// interval comes sooner.</summary>
    public static readonly TimeSpan Term = FailPoint.GridTerm ?? TimeSpan.FromSeconds(20);

    /// <summary>How often it is made anew.</summary>
    public static readonly TimeSpan Period = TimeSpan.FromSeconds(1);
}
